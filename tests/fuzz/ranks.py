"""Random trainings in shards, by one process and by the ranks of a job: python tests/fuzz/ranks.py --count 500.

Each seed draws a network for a batch of any size, its optimizer, and a number of shards. Three judges look at it:

ranks      2, 3 and 4 processes, with whole states of the optimizer and with states that are cut, reach the bits of one
           process: every state and every fetch, on both engines; NaN stands for any NaN here
planned    so does one process with a plan that recomputes and spills within a smaller arena
gradients  one update of gradient descent in shards is that of the batch without shards, to rounding in float64; batch
           norm, which normalises a shard, is left out

The seeds share one job of four processes, of which some form a group. MPI is that of the package mpich, else that of
the system.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np

import prograd
import runtime
from compiler import CompileError, OpError
from compiler.build.compiled import Compiled
from compiler.errors import LimitError
from fuzz.building import WORDS
from fuzz.networks import ACTIVATIONS, images, rows, series
from fuzz.training import OPTIMIZERS
from fuzz.variants import bits
from prograd_proto import ProgramError

PROCESSES = 4
STEPS = 3
SECONDS = 1800.0
"""Seconds for which a rank waits for the others: rank 0 also plans and compares, and machines are busy."""

Results = list[dict[str, bytes]]
"""The bytes of the fetches of each step; at the end those of the states."""


@dataclass(frozen=True)
class Training:
    """Lines of code that make a program, and its sizes.

    Attributes:
        body: lines, each of which may be left out.
        batch: rows of a step, and those of a smaller one if there is one.
        mixed: the dtype of mixed precision, if any.
        odd: True if some rows are NaN or infinite.
    """

    seed: int
    start: tuple[str, ...]
    body: tuple[str, ...]
    end: tuple[str, ...]
    batch: list[int]
    shards: int
    mixed: str | None
    odd: bool

    def __str__(self) -> str:
        sizes = tuple(self.batch) if len(self.batch) > 1 else self.batch[0]
        mixed = f", mixed={self.mixed!r}" if self.mixed else ""
        last = f"program.compile(batch={sizes}, shards={self.shards}{mixed})"
        return "\n".join([*self.start, *self.body, *self.end, last])


def drawn(seed: int) -> Training:
    """Return the training of a seed."""
    rng = np.random.default_rng((seed, 27))
    pick: Callable[..., Any] = lambda *things: things[int(rng.integers(len(things)))]  # noqa: E731 - a word for it
    rank, dtype = int(rng.choice([0, 0, 1, 2])), pick("float32", "float32", "float64")
    shards, each = pick(2, 3, 4, 5, 6, 8, 8, 12), pick(1, 2, 3, 4, 8)
    extents = {0: (), 1: (pick(2, 3, 6),), 2: (pick(4, 6, 9), pick(4, 6))}[rank]
    shape = ", ".join(["'batch'", *map(str, (*extents, pick(3, 8, 16, 33, 64)))])
    start = (
        f"program = Program('ranks', seed={int(rng.integers(100))})",
        f"x = program.input('x', {dtype!r}, ({shape}))",
        "label = program.input('label', 'int64', ('batch',))",
        f"mask = program.input('mask', {dtype!r}, ('batch',))",
    )
    parts = {0: rows, 1: series, 2: images}[rank]
    body = [line for number in range(int(rng.integers(1, 5))) for line in parts(rng, number)]
    if rng.random() < 0.3:
        body += [f"x = layers.dropout(ops.{pick(*ACTIVATIONS)}(x), 0.3)"]
    axes = tuple(range(1, rank + 1))
    classes = pick(5, 10, 37)
    end = [f"x = ops.{pick('mean', 'sum', 'max')}(x, axis={axes})"] if axes else []
    end += [f"x = ops.tanh(layers.dense(x, 'wide', {pick(16, 64, 130)}))"] if rng.random() < 0.6 else []
    end += [f"scores = layers.dense(x, 'out', {classes})"]
    losses = (
        ("ops.cross_entropy(scores, label)", ""),
        ("ops.cross_entropy(scores, label, ignored=-1)", ""),
        ("ops.squared_error(scores, ops.tanh(scores * 0.5))", ""),
        (f"ops.mean(ops.square(ops.sigmoid(scores) - ops.one_hot(label, depth={classes}, dtype={dtype!r})))", ""),
        ("ops.sum(ops.mean(ops.square(scores), axis=(1,)) * mask) / ops.sum(mask)", ", weight=ops.sum(mask)"),
    )
    loss, weight = pick(*losses)
    optimizer = pick(*OPTIMIZERS, "adam(0.02, amsgrad=True)")
    clip = pick("", "", ", clip=global_norm(0.5)", ", clip=global_norm(50.0)") if "clip" not in optimizer else ""
    end += [f"loss = {loss}", f"program.minimize(loss, {optimizer}{weight}{clip})"]
    more = (
        ("program.metrics(accuracy=metrics.accuracy(scores, label))", 0.4),
        ("program.outputs(scores=scores)", 0.7),
        ("program.average(0.9)", 0.2),
        ("program.fetch('spread', ops.mean(ops.square(scores)))", 0.3),
        ("program.freeze('*out.b')", 0.15),
    )
    end += [line for line, chance in more if rng.random() < chance]
    batch = int(shards * each)
    smaller = int(rng.integers(1, batch)) if rng.random() < 0.5 else batch
    mixed = pick("bfloat16", "float16") if dtype == "float32" and rng.random() < 0.15 else None
    sizes = [batch, smaller] if smaller < batch else [batch]
    return Training(seed, start, tuple(body), tuple(end), sizes, shards, mixed, bool(rng.random() < 0.1))


def compiled(training: Training, *, shards: int | None = None, end: tuple[str, ...] | None = None) -> Compiled:
    """Return the program; raises what a line raises, or compiling."""
    names = {**WORDS, "layers": prograd.layers, "metrics": prograd.metrics}
    for line in (*training.start, *training.body, *(training.end if end is None else end)):
        exec(line, names)
    sizes = tuple(training.batch) if len(training.batch) > 1 else training.batch[0]
    more: dict[str, Any] = {"shards": shards or training.shards} if shards != 0 else {}
    return names["program"].compile(batch=sizes, mixed=training.mixed, **more)


def fed(training: Training, step: int, program: Any) -> dict[str, np.ndarray]:
    """Return the rows of a step; the last one is the smaller step."""
    rng = np.random.default_rng((training.seed, 8, step))
    count = training.batch[-1 if step == STEPS - 1 else 0]
    given: dict[str, np.ndarray] = {}
    for parameter in program.blocks[program.entries[0].source_block].parameters:
        if parameter.WhichOneof("source") != "feed":
            continue
        type = next(t for t in program.blocks[program.entries[0].source_block].tensors if t.name == parameter.tensor)
        extents = (count, *(dim.size for dim in type.shape.dims[1:]))
        dtype = "float64" if "'float64'" in training.start[1] else "float32"
        if parameter.feed == "label":
            given["label"] = rng.integers(-1 if "ignored" in str(training) else 0, 5, count)
        elif parameter.feed == "mask":
            given["mask"] = (rng.random(count) < 0.6).astype(dtype)
            given["mask"][0] = 1  # a mean over no row is 0 in shards, and NaN without them
        else:
            x = rng.standard_normal(extents).astype(dtype)
            if training.odd:
                x.reshape(-1)[rng.integers(0, x.size, 2)] = [np.inf, np.nan]
            given[parameter.feed] = x
    return given


def trained(program: Any, training: Training, engine: Any, folder: str, group: Any = None) -> Results:
    """Return the results of some steps."""
    from runtime.ranks.pieces import Gathered

    with closing(runtime.Run(program, engine=engine, threads=1, group=group, spill=Path(folder))) as run:
        results = [_bytes(run.step(fed(training, step, program))) for step in range(STEPS)]
        states = run.session.states
        arrays = states.arrays if states.pieces is None else Gathered(states.arrays, states.pieces)
        return [*results, _bytes({name: arrays[name] for name in sorted(arrays)})]


def _bytes(arrays: Any) -> dict[str, bytes]:
    return {name: bits(np.asarray(array))[2] for name, array in arrays.items()}


def difference(found: Results, wanted: Results) -> str:
    """Return a description of the first difference, empty if there is none."""
    for step, (mine, theirs) in enumerate(zip(found, wanted, strict=True)):
        if mine.keys() != theirs.keys():
            return f"step {step} has {sorted(mine)}, not {sorted(theirs)}"
        names = [name for name in theirs if mine[name] != theirs[name]]
        if names:
            return f"{f'step {step}' if step < STEPS else 'states'}: {', '.join(names)}"
    return ""


def planned(training: Training) -> Any:
    """Return the program with a plan for a smaller arena, or None."""
    made = compiled(training)
    arena = max(binding.plan.arena_bytes for entry in made.desc.entries for binding in entry.bindings)
    with suppress(LimitError):
        made.plan(budget=math.ceil(arena * 0.8), spill=True)
        return made.desc
    return None


def gradient_fault(training: Training, folder: str) -> str:
    """Compare one update of gradient descent in shards with that of the whole batch; return the difference."""
    lines = "\n".join((*training.start, *training.body, *training.end))
    if "batch_norm" in lines or "conv_norm" in lines or training.odd:
        return "skipped: batch norm normalises a shard" if not training.odd else "skipped: the rows are not finite"
    start = tuple(line.replace("'float32'", "'float64'") for line in training.start)
    end = [line.replace("'float32'", "'float64'") for line in training.end if "average(" not in line]
    at = next(i for i, line in enumerate(end) if line.startswith("program.minimize("))
    weight = ", weight=ops.sum(mask)" if "weight=" in end[at] else ""
    end[at] = f"program.minimize(loss, sgd(0.5){weight})"
    plain = Training(training.seed, start, training.body, tuple(end), training.batch[:1], training.shards, None, False)
    states: list[dict[str, np.ndarray]] = []
    for shards in (0, training.shards):
        program = compiled(plain, shards=shards).desc
        with closing(runtime.Run(program, threads=1, spill=Path(folder))) as run:
            before = {name: array.copy() for name, array in run.states.arrays.items()}
            run.step(fed(plain, 0, program))
            states.append({name: array - before[name] for name, array in run.states.arrays.items()})
    for name, array in states[0].items():
        scale = max(np.abs(array).max(initial=0), 1e-6)
        error = np.abs(states[1][name] - array).max(initial=0) / scale
        if not error < 1e-8:
            return f"the update of {name} differs by {error:.1e} of its largest element"
    return ""


class Fuzz:
    """The seeds of a job, tried by its ranks together."""

    def __init__(self) -> None:
        from runtime.ranks.join import join

        self.world = join(SECONDS)
        from mpi4py import MPI

        self._mpi, self.counts, self.bad = MPI, Counter[str](), 0
        self._groups: dict[tuple[int, bool], Any] = {}
        for size in range(2, PROCESSES + 1):
            part = MPI.COMM_WORLD.Split(self.world.rank < size, self.world.rank)
            for cuts in (False, True):
                self._groups[size, cuts] = self._group(part, cuts) if self.world.rank < size else None

    def _group(self, part: Any, cuts: bool) -> Any:
        from runtime.ranks.group import Group

        words = {name: getattr(self._mpi, name) for name in ("IN_PLACE", "MAX", "Request", "Exception")}
        return Group(SimpleNamespace(COMM_WORLD=part, **words), SECONDS, cuts_states=cuts)

    def try_seed(self, seed: int, folder: str) -> None:
        """Try a seed, and count what is said of it; rank 0 says it."""
        training = drawn(seed)
        try:
            program = compiled(training).desc
        except (OpError, CompileError, ProgramError) as error:
            self._say(training, f"skipped: {type(error).__name__}: {str(error).split(':')[0][:50]}")
            return
        rng = np.random.default_rng((seed, 9))
        for engine in ("reference", "native"):
            wanted = trained(program, training, engine, folder) if not self.world.rank else None
            for size in range(2, min(PROCESSES, training.shards) + 1):
                cuts = bool(rng.random() < 0.4)
                self._say(training, self._by_ranks(program, training, engine, folder, wanted, size, cuts))
            if not self.world.rank and (small := planned(training)) is not None:
                found = difference(trained(small, training, engine, folder), wanted or [])
                self._say(training, f"planned, {engine}: {found}" if found else "planned: agreed")
        if not self.world.rank:
            found = gradient_fault(training, folder)
            found = found if found.startswith("skipped") else f"gradients: {found or 'agreed'}"
            self._say(training, found)

    def _by_ranks(
        self, program: Any, training: Training, engine: str, folder: str, wanted: Any, size: int, cuts: bool
    ) -> str:
        from runtime.ranks.current import enter

        group, name = self._groups[size, cuts], f"{size} ranks{', cut states' if cuts else ''}, {engine}"
        said = ""
        if group is not None:
            enter(group)
            try:
                found = trained(program, training, engine, folder, group)
                said = difference(found, wanted) if wanted is not None else ""
            except ProgramError as error:
                known = "cannot be cut" in str(error) or "--zero cuts" in str(error) or "what --zero cuts" in str(error)
                said = "skipped: states that --zero cannot cut" if known else f"ProgramError: {error}"
            except Exception as error:
                said = f"{type(error).__name__}: {error}"
        everyone = self.world.gather(said.encode())
        enter(self.world)
        said = next((text.decode() for text in everyone if text), "")
        return said if said.startswith("skipped") else f"{name}: {said}" if said else f"ranks: agreed, {engine}"

    def _say(self, training: Training, said: str) -> None:
        if self.world.rank:
            return
        if said.startswith("skipped") or ": agreed" in said:
            self.counts[said] += 1
        else:
            self.bad += 1
            print(f"seed {training.seed}: {said}\n\n{training}\n", flush=True)

    def finish(self, start: int, count: int) -> int:
        """Print the counts, and leave the job; return the number of faults."""
        if not self.world.rank:
            for key, number in sorted(self.counts.items()):
                print(f"{number:8d}  {key}")
            print(
                f"{'OK' if not self.bad else 'FAULTS'} seeds={start}..{start + count - 1} faults={self.bad}", flush=True
            )
        self.world.leave()
        return self.bad


def main() -> int:
    """Start the job, or be a rank of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=100, help="number of seeds")
    parser.add_argument("--start", type=int, default=0, help="the first of them")
    given = parser.parse_args()
    if "PMI_SIZE" not in os.environ and "OMPI_COMM_WORLD_SIZE" not in os.environ:
        from subjects.ranks import mpich

        launcher = mpich()
        if launcher is None:
            print("there is no mpiexec: pip install mpich")
            return 1
        words = [*launcher.command, "-n", str(PROCESSES), sys.executable, *sys.argv]
        return subprocess.run(words, env={**os.environ, **launcher.environment}).returncode
    fuzz = Fuzz()
    with TemporaryDirectory() as folder:
        for number, seed in enumerate(range(given.start, given.start + given.count), 1):
            try:
                fuzz.try_seed(seed, folder)
            except BaseException as error:
                print(f"seed {seed}, {fuzz.world}: {type(error).__name__}: {error}", flush=True)
                fuzz.world.abort(70)
            if not fuzz.world.rank and number % 50 == 0:
                print(f"-- {number} of {given.count}, {fuzz.bad} faults", flush=True)
    return 1 if fuzz.finish(given.start, given.count) else 0


if __name__ == "__main__":
    sys.exit(main())
