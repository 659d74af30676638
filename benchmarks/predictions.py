"""Predictions of a network for a table of 20 columns, CSV to CSV: rows a second, and memory by the number of rows.

The table has numbers alone, or in addition an id, a text of four classes, or both with every text in quotes. Needs no
arguments; `--rows` takes other numbers of rows and `--tables` other kinds of tables, with commas between them. `cpu` is
the processor time of the process, which a busy machine changes less.
"""

from __future__ import annotations

import argparse
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np

import prograd
from prograd import Program, adam, layers, ops

COLUMNS = 20
CLASSES = ("high", "low", "middle")
CITIES = ("Bergen", "Oslo", "Rome", "Turin")
TABLES = ("numbers", "id", "text", "quoted")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", default="100000,300000,1000000")
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--engine", default="native")
    options = parser.parse_args()
    print(f"{'table':<9}  {'rows':>9}  {'seconds':>8}  {'cpu':>8}  {'rows/s':>8}  {'peak MiB':>8}")
    for kind in options.tables.split(","):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            program(folder, has_text=kind in ("text", "quoted"))
            for count in map(int, options.rows.split(",")):
                table(folder / "new.csv", count, kind)
                seconds, cpu, peak = predicted(folder, options.engine)
                rate = f"{count / seconds:>8.0f}  {peak / 2**20:>8.0f}"
                print(f"{kind:<9}  {count:>9}  {seconds:>8.2f}  {cpu:>8.2f}  {rate}", flush=True)


def program(folder: Path, *, has_text: bool) -> None:
    rng = np.random.default_rng(0)
    columns: dict[str, object] = {f"c{i}": rng.normal(i, 1 + i, 600) for i in range(COLUMNS)}
    if has_text:
        columns["city"] = [CITIES[i % 4] for i in range(600)]
    columns["label"] = [CLASSES[i % 3] for i in range(600)]
    names = [f"c{i}" for i in range(COLUMNS)]
    prograd.data.pack(columns, folder / "rows.safetensors", join={"x": names}, standardise=names)
    built = Program("table", seed=1)
    x, label = built.input("x", "float32", ("batch", COLUMNS)), built.input("label", "int64", ("batch",))
    if has_text:
        city = layers.embedding(built.input("city", "int64", ("batch",)), "cities", len(CITIES), 4)
        x = ops.concat(x, city, axis=1)
    hidden = ops.relu(layers.dense(ops.relu(layers.dense(x, "hidden1", 128)), "hidden2", 64))
    scores = layers.dense(hidden, "output", 3)
    built.minimize(ops.softmax_cross_entropy(scores, label), adam(0.01))
    built.outputs(probabilities=ops.softmax(scores))
    built.data("rows.safetensors", shuffle=False)
    built.training(epochs=2)
    built.compile(batch=256).save(folder / "p.pb")
    run = prograd.load(folder / "p.pb")
    run.train(progress=False)
    run.save(folder / "t.safetensors")


def table(path: Path, count: int, kind: str) -> None:
    rng = np.random.default_rng(1)
    names = [*(["id"] if kind in ("id", "quoted") else []), *(f"c{i}" for i in range(COLUMNS))]
    names += ["city"] if kind in ("text", "quoted") else []
    quote = '"' if kind == "quoted" else ""
    with open(path, "w", encoding="utf-8") as file:
        file.write(",".join(names) + "\n")
        for start in range(0, count, 10_000):
            rows = rng.normal(10, 10, (min(10_000, count - start), COLUMNS))
            for number, row in enumerate(rows.tolist(), start):
                cells = [f"{value:.5g}" for value in row]
                cells = [f"{quote}r-{number:07}{quote}", *cells] if "id" in names else cells
                cells += [f"{quote}{CITIES[number % 4]}{quote}"] if "city" in names else []
                file.write(",".join(cells) + "\n")


def predicted(folder: Path, engine: str) -> tuple[float, float, int]:
    command = [sys.executable, "-m", "runtime", "execute", "p.pb", "--entry", "predict", "--load", "t.safetensors"]
    command += ["--data", "new.csv", "--out", "out.csv", "--force", "-q", "--engine", engine, "--progress", "none"]
    start, before = perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    found = re.search(r"rss=(\d+)", done.stdout)
    assert found, done.stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return perf_counter() - start, cpu, int(found[1])


if __name__ == "__main__":
    main()
