"""Runs that are killed anywhere and go on end as undisturbed ones: python tests/fuzz/resumed.py --minutes 10.

Each trial draws rows in one file or several, of equal length or not, in memory or read from the files as steps take
them, shuffled or not or within windows; a program with dropout, a schedule and sometimes accumulation, for either
engine. It counts in a state how often each row was seen. It runs once undisturbed, and once in processes that kill
themselves at random moments, each going on from the newest checkpoint, on any number of threads. Both must end with the
same result line and the same bits of every state, and every row must have been seen once an epoch.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from safetensors.numpy import load_file, save_file  # pyright: ignore[reportUnknownVariableType]: it has half of its types

from compiler import Program, adam, global_norm, momentum, ops, warmup_cosine, zeros
from prograd import layers

SAME = ("steps", "loss", "evaluate.loss", "state_sha256")
"""Fields of the result line that are to be equal."""


@dataclass(frozen=True)
class Trial:
    """Random choices for a run."""

    seed: int
    rows: int
    files: int
    ragged: bool
    shuffle: bool | int
    remainder: str
    batch: int
    epochs: int
    accumulate: int
    keep_best: bool
    engine: str
    stored: bool
    every: int


def drawn(seed: int) -> Trial:
    """The trial of that seed."""
    rng = np.random.default_rng(seed)
    ragged = bool(rng.random() < 0.4)
    rows = int(rng.choice([9, 40, 150, 700, 3000], p=[0.15, 0.25, 0.3, 0.2, 0.1]))
    return Trial(
        seed,
        rows,
        1 if ragged else int(rng.integers(1, 5)),
        ragged,
        [False, True, int(rng.integers(1, 200))][int(rng.integers(3))],
        str(rng.choice(["drop", "partial"])),
        int(rng.choice([1, 3, 8, 16])) if rows < 1000 else 32,
        int(rng.integers(1, 6)),
        int(rng.choice([1, 1, 2])),
        bool(rng.random() < 0.3),
        str(rng.choice(["native", "reference"])),
        bool(rng.random() < 0.6),
        int(rng.choice([1, 2, 7, 20, 100])),
    )


def write(trial: Trial, folder: Path) -> list[int]:
    """Rows and program; gives the numbers of the rows that train."""
    rng = np.random.default_rng((trial.seed, 1))
    cuts = sorted(int(cut) for cut in rng.integers(1, trial.rows, trial.files - 1))
    training = np.sort(rng.permutation(trial.rows)[: max(trial.batch, int(trial.rows * 0.8))])
    for number, (start, stop) in enumerate(zip([0, *cuts], [*cuts, trial.rows], strict=True)):
        count = stop - start
        lengths = rng.integers(0, 13, count)
        mine = training[(training >= start) & (training < stop)] - start
        arrays = {"number": np.arange(start, stop), "y": rng.standard_normal(count).astype(np.float32), "train": mine}
        if trial.ragged:
            arrays |= {"x": rng.integers(1, 50, int(lengths.sum())), "x.offsets": np.cumsum([0, *lengths])}
        else:
            arrays["x"] = rng.standard_normal((count, 5)).astype(np.float32)
        save_file(arrays, folder / f"part-{number}.safetensors")
    sizes = {"n": trial.batch} | ({"length": (4, 8, 12)} if trial.ragged else {})
    build(trial).compile(folder=folder, **sizes).save(folder / "p.pb", force=True)
    return training.tolist()


def build(trial: Trial) -> Program:
    """A small network, and the buffer `seen`, which counts rows."""
    program = Program("resumed", seed=trial.seed)
    number, y = program.input("number", "int64", ("n",)), program.input("y", "float32", ("n",))
    if trial.ragged:
        words, mask = program.input("x", "int64", ("n", "length")), program.input("mask", "float32", ("n", "length"))
        hidden = ops.sum(layers.embedding(words, "words", count=50, size=6) * mask[:, :, None], axis=(1,))
    else:
        hidden = ops.tanh(layers.dense(program.input("x", "float32", ("n", 5)), "hidden", 6))
    guess = layers.dense(layers.dropout(hidden, 0.3), "out", 1)[:, 0]
    seen = program.buffer("seen", (trial.rows,), zeros())
    program.update(seen, seen + ops.sum(ops.one_hot(number, depth=trial.rows, dtype="float32"), axis=(0,)))
    optimizer = adam(warmup_cosine(0.01)) if trial.seed % 2 else momentum(0.01, clip=global_norm(0.5))
    program.minimize(ops.squared_error(guess, y), optimizer, accumulate=trial.accumulate)
    columns = {"mask": "x.mask"} if trial.ragged else None
    name = "part-0.safetensors" if trial.files == 1 else "part-*.safetensors"
    program.data(name, columns=columns, splits={"train": "train"}, shuffle=trial.shuffle, remainder=trial.remainder)  # type: ignore[arg-type]
    best = {"keep_best": "loss", "best": "min"} if trial.keep_best else {}
    program.training(epochs=trial.epochs, evaluate="train", **best)  # type: ignore[arg-type]
    return program


def tried(trial: Trial, kills: int) -> str:
    """Return a description of the fault, or ""."""
    rng = np.random.default_rng((trial.seed, 2))
    with TemporaryDirectory() as name:
        folder = Path(name)
        training = write(trial, folder)
        begin = time.monotonic()
        code, wanted, said = process(trial, folder, "undisturbed", 1, stored=False)
        if code:
            return f"undisturbed: code {code}: {said}"
        lasted, found = time.monotonic() - begin, wanted
        for attempt in range(200):
            after = float(rng.uniform(0, max(0.05, lasted - 0.3))) if attempt < kills else 0.0
            threads, stored = int(rng.integers(1, 4)), trial.stored and bool(rng.random() < 0.8)
            code, found, said = process(trial, folder, "killed", threads, stored, after, go_on=attempt > 0)
            if code == 0:
                break
            if code != -signal.SIGKILL:
                return f"attempt {attempt}: code {code}: {said}"
        for field in SAME:
            if wanted.get(field) != found.get(field):
                return f"{field}={found.get(field)} after kills, {wanted.get(field)} without"
        return differing(trial, folder, training)


def differing(trial: Trial, folder: Path, training: list[int]) -> str:
    """Compare the states of both runs."""
    one, other = load_file(folder / "undisturbed.safetensors"), load_file(folder / "killed.safetensors")
    for key, array in one.items():
        if array.tobytes() != other[key].tobytes():
            return f"the state {key!r} differs"
    if trial.keep_best:  # those of an earlier epoch
        return ""
    seen = one["seen"]
    of_training = seen[training]
    left_out = of_training < trial.epochs if trial.remainder == "drop" else np.zeros(len(of_training), bool)
    if seen.sum() != of_training.sum() or not np.all((of_training == trial.epochs) | left_out):
        return f"rows were seen {sorted(set(seen.tolist()))} times in {trial.epochs} epochs"
    return ""


def process(
    trial: Trial, folder: Path, name: str, threads: int, stored: bool, after: float = 0.0, go_on: bool = False
) -> tuple[int, dict[str, str], str]:
    """Run in a process that is killed after `seconds` of training; return code, result line, and stderr."""
    arguments = ["execute", "p.pb", "--checkpoint", name, "--every", str(trial.every), "--threads", str(threads), "-q"]
    arguments += ["--engine", trial.engine, "--save", f"{name}.safetensors", "--force"] + ["--resume"] * go_on
    command = [sys.executable, __file__, "--child", json.dumps([arguments, stored, after])]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    line = done.stdout.splitlines()[-1] if done.stdout else ""
    return done.returncode, dict(part.split("=", 1) for part in line.split() if "=" in part), done.stderr[-500:]


def child(given: str) -> int:
    """Run, and be killed."""
    from runtime.__main__ import main
    from runtime.rows import data_files

    arguments, stored, after = json.loads(given)
    if stored:
        data_files.IN_MEMORY = 0  # type: ignore[misc]
    if "--resume" in arguments and not any(Path(arguments[3]).glob("*")):
        arguments.remove("--resume")  # killed before there was a checkpoint
    if after:
        timer = threading.Timer(after, lambda: os.kill(os.getpid(), signal.SIGKILL))
        timer.daemon = True  # a run that is done is not waited for
        timer.start()
    return main(arguments)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1 << 30, help="trials at most")
    parser.add_argument("--kills", type=int, default=6, help="of each trial, at most")
    parser.add_argument("--folder", type=Path, help="where what fails is kept")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        return child(given.child)
    end, bad, seed = time.monotonic() + 60 * given.minutes, 0, given.start
    while time.monotonic() < end and seed < given.start + given.count:
        trial = drawn(seed)
        said = tried(trial, given.kills)
        if said:
            bad += 1
            print(f"seed {seed}: {said}\n  {asdict(trial)}", flush=True)
            if given.folder:
                shutil.rmtree(given.folder / str(seed), ignore_errors=True)
                (given.folder / str(seed)).mkdir(parents=True)
                write(trial, given.folder / str(seed))
        seed += 1
    print(f"{'OK' if not bad else 'FAULTS'} seeds={given.start}..{seed - 1} faults={bad}")
    return int(bool(bad))


if __name__ == "__main__":
    raise SystemExit(main())
