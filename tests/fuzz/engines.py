"""The native engine beside the reference engine: equal within what rounding may do, and the same bits on any threads.

How much rounding may do is measured: the reference computes again with feeds and states that are changed by some units
in the last place. Where its results move, as where a number cancels, those of the other engine may too.
"""

from __future__ import annotations

from collections.abc import Mapping
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np

from fuzz.verdict import Verdict
from prograd_proto import program_pb2 as pb
from prograd_proto import type_of
from prograd_proto.files import copy_of
from runtime import Run

STEPS: Final = 3
"""Number of training steps; at most two are accumulated."""

TOLERANCE: Final = {"float64": 1e-10, "float32": 1e-4, "float16": 2e-3, "bfloat16": 2e-2}
"""Differences from the reference, as parts of the largest number of an array."""

NUDGE: Final = {"float64": 1e-14, "float32": 2e-6}
"""Parts by which feeds and states are changed."""

SAID = "native"
"""Prefix of the names of this judge's findings."""

Results = list[dict[str, np.ndarray]]


def judged(program: pb.ProgramDesc, feeds: Mapping[str, np.ndarray], threads: tuple[int, ...], how: str) -> Verdict:
    """One compiled program: every entry by both engines."""
    name = f"{SAID} {how}".strip()
    for entry in program.entries:
        steps = STEPS if entry.name == "train" else 1
        found = [stepped(program, entry.name, feeds, steps, "native", count) for count in threads]
        for count, others in zip(threads[1:], found[1:], strict=True):
            where = _differing(found[0], others)
            if where:
                return Verdict("differs", name, f"{entry.name}, {where}", f"{threads[0]} and {count} threads")
        said = _far(program, entry.name, feeds, found[0])
        if said and takes_signs(program):
            return Verdict("skipped", name, "numbers", "the sign of what rounds to 0 decides")
        if said:
            return Verdict("differs", name, f"{entry.name}, {said[0]}", said[1])
    return Verdict("agreed", name, "numbers")


def stepped(
    program: pb.ProgramDesc,
    entry: str,
    feeds: Mapping[str, np.ndarray],
    steps: int,
    engine: str,
    threads: int = 1,
    nudged: np.random.Generator | None = None,
) -> Results:
    """Return the fetches of `steps` steps and the states after them; `nudged` changes the initial states."""
    with TemporaryDirectory() as folder:
        run = Run(copy_of(program), engine=engine, threads=threads, spill=folder)  # type: ignore[arg-type]
        known = {feed for bound in run.session.bindings(entry) for feed in bound.feeds}
        given = {name: _nudged(array, nudged) for name, array in feeds.items() if name in known}
        for array in run.states.arrays.values():
            array[...] = _nudged(array, nudged)
        if "total_steps" in run.state:
            run.state["total_steps"] = 10
        found = [{name: np.array(value) for name, value in run.step(given, entry=entry).items()} for _ in range(steps)]
        states = {name: array.copy() for name, array in run.states.arrays.items()}
        run.close()
    return [*found, states]


def _far(
    program: pb.ProgramDesc, entry: str, feeds: Mapping[str, np.ndarray], found: Results
) -> tuple[str, str] | None:
    """Return the results that differ from the reference by more than rounding explains."""
    steps = len(found) - 1
    wanted = stepped(program, entry, feeds, steps, "reference")
    share = max(TOLERANCE[name] for name in _floats(program))
    if not _places(found, wanted, [], share):
        return None
    rng = np.random.default_rng(0)
    moved = [stepped(program, entry, feeds, steps, "reference", nudged=rng) for _ in range(12)]
    return next(iter(_places(found, wanted, moved, share)), None)


def _floats(program: pb.ProgramDesc) -> set[str]:
    """The floats that there are: what is computed of narrow ones is no better than they, however wide it is."""
    names = {type_of(tensor).dtype for block in program.blocks for tensor in block.tensors}
    return {name for name in names if name in TOLERANCE} or {"float64"}


def takes_signs(program: pb.ProgramDesc) -> bool:
    """Return True if an optimizer uses signs, so that a gradient that rounds to 0 decides a whole step."""
    return any(op.type == "lion" for block in program.blocks for op in block.ops)


def _places(found: Results, wanted: Results, moved: list[Results], share: float) -> list[tuple[str, str]]:
    far: list[tuple[str, str]] = []
    for number, (mine, theirs) in enumerate(zip(found, wanted, strict=True)):
        where = "state" if number == len(wanted) - 1 else f"step {number}"
        for name, array in theirs.items():
            others = [results[number][name] for results in moved]
            if mine[name].dtype != array.dtype or mine[name].shape != array.shape:
                far.append((f"{where}: {name}", f"{mine[name].dtype}{[*mine[name].shape]} is not {array.dtype}"))
            elif not _near(mine[name], array, others, share):
                far.append((f"{where}: {name}", f"{_short(mine[name])} is not {_short(array)}"))
    return far


def _near(mine: np.ndarray, theirs: np.ndarray, moved: list[np.ndarray], share: float) -> bool:
    if theirs.dtype.kind != "f":
        unsteady = np.any([other != theirs for other in moved], axis=0) if moved else np.zeros(theirs.shape, bool)
        return bool(np.all((mine == theirs) | unsteady))
    with np.errstate(all="ignore"):
        wide, reference = mine.astype(np.float64), theirs.astype(np.float64)
        finite = np.isfinite(reference)
        largest = float(np.abs(reference[finite]).max(initial=0.0))
        room = max(share, TOLERANCE[theirs.dtype.name]) * (np.abs(reference) + largest) + 1e-300
        odd = np.zeros(theirs.shape, bool)
        for other in moved:
            away = np.nan_to_num(np.abs(other.astype(np.float64) - reference), nan=0.0, posinf=0.0)
            room = room + 20 * away + 5 * away.max(initial=0.0)  # what is noise may happen to be 0 in some places
            odd |= np.isfinite(other) != finite
        same = (wide == reference) | (np.isnan(wide) & np.isnan(reference))
        return bool(np.all(same | odd | (finite & (np.abs(wide - reference) <= room))))


def _differing(one: Results, other: Results) -> str:
    for number, (mine, theirs) in enumerate(zip(one, other, strict=True)):
        for name, array in mine.items():
            if array.tobytes() != theirs[name].tobytes():
                return f"{'state' if number == len(one) - 1 else f'step {number}'}: {name}"
    return ""


def _nudged(array: np.ndarray, rng: np.random.Generator | None) -> np.ndarray:
    if rng is None or array.dtype.name not in NUDGE:
        return array
    with np.errstate(all="ignore"):
        return (array * (1 + NUDGE[array.dtype.name] * rng.choice((-1.0, 1.0), array.shape))).astype(array.dtype)


def _short(array: np.ndarray) -> str:
    return f"{array.dtype}{list(array.shape)} {np.array2string(array.reshape(-1)[:6], precision=9)}"
