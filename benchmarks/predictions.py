"""Predictions of a network for a table of 20 columns, CSV to CSV: rows a second, and memory by the number of rows.

Needs no arguments; `--rows` takes other numbers of rows, with commas between them.
"""

from __future__ import annotations

import argparse
import re
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


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", default="100000,300000,1000000")
    parser.add_argument("--engine", default="native")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program(folder)
        print(f"{'rows':>9}  {'seconds':>8}  {'rows/s':>8}  {'peak MiB':>8}")
        for count in map(int, options.rows.split(",")):
            table(folder / "new.csv", count)
            seconds, peak = predicted(folder, options.engine)
            print(f"{count:>9}  {seconds:>8.2f}  {count / seconds:>8.0f}  {peak / 2**20:>8.0f}")


def program(folder: Path) -> None:
    rng = np.random.default_rng(0)
    columns: dict[str, object] = {f"c{i}": rng.normal(i, 1 + i, 600) for i in range(COLUMNS)}
    columns["label"] = [CLASSES[i % 3] for i in range(600)]
    names = [f"c{i}" for i in range(COLUMNS)]
    prograd.data.pack(columns, folder / "rows.safetensors", join={"x": names}, standardise=names)
    built = Program("table", seed=1)
    x, label = built.input("x", "float32", ("batch", COLUMNS)), built.input("label", "int64", ("batch",))
    hidden = ops.relu(layers.dense(ops.relu(layers.dense(x, "hidden1", 128)), "hidden2", 64))
    scores = layers.dense(hidden, "output", 3)
    built.minimize(ops.softmax_cross_entropy(scores, label), adam(0.01))
    built.outputs(probabilities=ops.softmax(scores))
    built.data("rows.safetensors")
    built.training(epochs=2)
    built.compile(batch=256).save(folder / "p.pb")
    run = prograd.load(folder / "p.pb")
    run.train(progress=False)
    run.save(folder / "t.safetensors")


def table(path: Path, count: int) -> None:
    rng = np.random.default_rng(1)
    with open(path, "w", encoding="utf-8") as file:
        file.write(",".join(f"c{i}" for i in range(COLUMNS)) + "\n")
        for start in range(0, count, 10_000):
            rows = rng.normal(10, 10, (min(10_000, count - start), COLUMNS))
            file.writelines(",".join(f"{number:.5g}" for number in row) + "\n" for row in rows.tolist())


def predicted(folder: Path, engine: str) -> tuple[float, int]:
    command = [sys.executable, "-m", "runtime", "execute", "p.pb", "--entry", "predict", "--load", "t.safetensors"]
    command += ["--data", "new.csv", "--out", "out.csv", "--force", "-q", "--engine", engine, "--progress", "none"]
    start = perf_counter()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    found = re.search(r"rss=(\d+)", done.stdout)
    assert found, done.stdout
    return perf_counter() - start, int(found[1])


if __name__ == "__main__":
    main()
