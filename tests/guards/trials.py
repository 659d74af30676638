"""One program natively in several ways: with its plan, and with every buffer between forbidden pages."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from guards.engine import guarded
from prograd_proto import ProgramError
from runtime.engines.native.cpu import instruction_sets as instruction_sets
from runtime.engines.native.engine import COMPILER_BYTES
from runtime.errors import ExecutionError
from runtime.runs.run import Run, load

MEMORY: Final = 1 << 22
"""Upper bound on the bytes of a step; mutations that need more are not run."""

STEPS: Final = 2
"""Number of steps of every entry: the second step may read what the first one left in memory."""

WAYS: Final = ((True, 1), (False, 2), (True, 3))
"""Pairs: whether guards lie behind buffers, and the number of threads."""

Bits = list[tuple[str, bytes]]
"""Fetches and states after each step, or the sentence of what was refused."""


class Differs(AssertionError):
    """Bits depend on where buffers lie."""


def mutation(raw: bytes, folder: Path, seed: int, instructions: str = "") -> str:
    """Make the trial of a changed program in one of the ways, which the seed chooses, as do the values of feeds."""
    path = folder / "mutated.pb"
    path.write_bytes(raw)
    return trial(path, seed, instructions, [WAYS[seed % len(WAYS)]])


def trial(
    path: Path,
    seed: int = 0,
    instructions: str = "",
    ways: Sequence[tuple[bool, int]] = WAYS[:2],
    most: int = MEMORY,
) -> str:
    """Run a file natively, then guarded, and return what became of it: "ran" or the name of an error of ours.

    A step that takes more than `most` bytes is not made; the word is then "large". Raises Overrun, Differs, and what
    else is a fault.
    """
    engine = f"native.{instructions}" if instructions else "native"
    word, plain = ran(path, engine, 1, seed, most)
    if not plain:
        return word
    for end, threads in ways:
        with guarded(end, instructions):
            again, found = ran(path, "guarded", threads, seed, most)
        for number, (one, other) in enumerate(zip(plain, found, strict=True)):
            if one != other:
                raise Differs(f"result {number}, {one[0]}, depends on guards (end={end}, {threads} threads)")
        if again != word:
            raise Differs(f"{word} with the plan, {again} with guards (end={end}, {threads} threads)")
    return word


def ran(path: Path, engine: str, threads: int, seed: int, most: int) -> tuple[str, Bits]:
    """Return what became of a file, and the bits of each step; none for a file that is refused before its steps."""
    bits: Bits = []
    try:
        limit = COMPILER_BYTES + 4 * most
        run = load(path, engine=engine, threads=threads, max_memory=limit, spill=path.parent)  # type: ignore[arg-type]
        bindings = [bound for entry in run.program.entries for bound in run.session.bindings(entry.name)]
        footprints = [run.session.engine.needs(bound) for bound in bindings]
        if any(sum(footprint) > most for footprint in footprints):
            return "large", bits
    except (ProgramError, ExecutionError) as error:
        return type(error).__name__, bits
    word = "ran"
    try:
        for bound in bindings:
            word = min(word, _steps(run, bound, seed, bits))
    finally:
        run.close()
    return word, bits


def _steps(run: Run, bound: Any, seed: int, bits: Bits) -> str:
    rng = np.random.default_rng(seed)
    try:
        executor = run.session.workspaces.executor(bound)
        for _ in range(STEPS):
            for name in sorted(executor.feeds):
                executor.feeds[name][...] = fed(rng, executor.feeds[name], seed)
            executor.step()
            bits += [(name, array.tobytes()) for name, array in sorted(executor.fetches.items())]
            bits += [(name, array.tobytes()) for name, array in sorted(run.states.arrays.items())]
    except (ProgramError, ExecutionError) as error:
        if isinstance(error.__cause__, ValueError) and "math" not in str(error.__cause__):
            raise  # NumPy refuses arrays that the check let pass
        bits.append((type(error).__name__, str(error).encode()))
        return type(error).__name__
    return "ran"


def fed(rng: np.random.Generator, feed: Any, seed: int) -> np.ndarray[Any, Any]:
    """Return values for a feed: mostly indices that exist and ordinary numbers, for some seeds others."""
    kind = random.Random(seed).random()
    if feed.dtype.kind == "f":
        values = rng.normal(size=feed.shape)
        odd = rng.choice([np.nan, np.inf, -np.inf, -0.0, 1e30, 1e-40], feed.shape)
        with np.errstate(all="ignore"):
            return np.where(rng.random(feed.shape) < (0.1 if kind < 0.25 else 0), odd, values).astype(feed.dtype)
    if kind < 0.7 or feed.dtype.kind not in "iu" or feed.dtype.name == "bfloat16":
        return rng.integers(0, 2, feed.shape)
    if kind < 0.85:
        return rng.integers(0, 9, feed.shape)
    return rng.choice([0, 1, 2, 7, 500, 1 << 20, -1, -(1 << 31), (1 << 31) - 1], feed.shape).astype(feed.dtype)
