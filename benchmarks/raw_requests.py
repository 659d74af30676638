"""Requests per second of `runtime serve`: rows as the table has them beside the same rows encoded, both as JSON.

A table of 8 numbers, 2 classes of texts and a date; a multi-layer perceptron 16-64-64-3. 16 connections of one process
ask again as soon as they are answered. The two kinds of requests take turns at one server; figures are medians, and the
processor time is that of the server. Needs no arguments.
"""

from __future__ import annotations

import json
from datetime import date, timedelta
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
from serving import JSON, Server, load, start_prograd

import prograd
from prograd import Program, adam, layers, ops

NUMBERS = [f"n{i}" for i in range(8)]
CITIES, COLOURS, KINDS = ("Bergen", "Oslo", "Rome"), ("blue", "green", "red"), ("high", "low", "middle")
REQUESTS, ROUNDS = 2000, 7


def main() -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        program(folder)
        print("requests per second, 16 connections; µs of processor time of the server for a request")
        print(f"{'rows':>4}  {'raw':>6}  {'encoded':>7}  {'ratio':>5}  {'raw µs':>6}  {'encoded µs':>10}")
        with start_prograd(folder / "p") as server:
            for rows in (1, 8):
                compare(folder, server, rows)


def compare(folder: Path, server: Server, rows: int) -> None:
    raw = [row(i) for i in range(rows)]
    encoded = encoded_rows(folder, raw)
    figures: dict[str, list[tuple[float, float]]] = {"raw": [], "encoded": []}
    bodies = {"raw": json.dumps(raw).encode(), "encoded": json.dumps(encoded).encode()}
    for _ in range(ROUNDS):
        for kind, body in bodies.items():
            before = server.cpu()
            rate = load(server.port, request(server.port, body), REQUESTS)
            figures[kind].append((rate, (server.cpu() - before) / REQUESTS * 1e6))
    ours, theirs = (list(map(median, zip(*found, strict=True))) for found in figures.values())
    ratio = median(a[0] / b[0] for a, b in zip(figures["raw"], figures["encoded"], strict=True))
    print(
        f"{rows:>4}  {ours[0]:>6.0f}  {theirs[0]:>7.0f}  {ratio:>5.2f}  {ours[1]:>6.0f}  {theirs[1]:>10.0f}", flush=True
    )


def row(i: int) -> dict[str, object]:
    numbers = {name: round(3.7 * i + place, 3) for place, name in enumerate(NUMBERS)}
    day = date(2026, 1, 1) + timedelta(days=i % 300)
    return {**numbers, "city": CITIES[i % 3], "colour": COLOURS[i // 3 % 3], "day": day.isoformat()}


def program(folder: Path) -> None:
    rows = [row(i) | {"kind": KINDS[i % 3]} for i in range(300)]
    columns = {name: [one[name] for one in rows] for name in rows[0]}
    prograd.data.pack(
        columns,
        folder / "rows.safetensors",
        date={"day": ["month", "weekday"]},
        one_hot=["city", "colour"],
        join={"x": [*NUMBERS, "city", "colour", "day"]},
        standardise=NUMBERS,
    )
    built = Program("raw", seed=1)
    x, kind = built.input("x", "float32", ("batch", 16)), built.input("kind", "int64", ("batch",))
    hidden = ops.relu(layers.dense(ops.relu(layers.dense(x, "hidden1", 64)), "hidden2", 64))
    scores = layers.dense(hidden, "output", 3)
    built.minimize(ops.softmax_cross_entropy(scores, kind), adam(0.01))
    built.outputs(probabilities=ops.softmax(scores))
    built.data("rows.safetensors")
    built.training(epochs=1)
    built.compile(batch=32).save(folder / "p.pb")


def encoded_rows(folder: Path, raw: list[dict[str, object]]) -> dict[str, object]:
    """The same rows as arrays by feed."""
    from runtime.runs.raw.raw_rows import RawRows

    rows = RawRows(prograd.load(folder / "p.pb").session, "predict")
    found = rows.encoded({name: [one[name] for one in raw] for name in raw[0]})
    return {name: np.asarray(array).tolist() for name, array in found.items()}


def request(port: int, body: bytes) -> bytes:
    head = (
        "POST /predict HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        f"Content-Type: {JSON}",
        f"Content-Length: {len(body)}",
    )
    return "\r\n".join([*head, "", ""]).encode() + body


if __name__ == "__main__":
    main()
