"""Ways to compile and to run a program that change no bit: each gives what the steps of a program compute.

A way is a function of a compiled program and its feeds, and yields results with a name each. `steps_of` is the plain
run that all are compared with: what two steps of training and one of every other entry fetch, and the states after
them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from tempfile import TemporaryDirectory

import numpy as np

from compiler import Program
from compiler.build.compiled import Compiled, compile_program
from compiler.errors import LimitError
from compiler.passes.pipeline import PASSES
from compiler.passes.run_passes import run_passes
from prograd_proto import program_pb2 as pb
from prograd_proto.files import copy_of
from runtime.runs.run import Run
from subjects.spilling import spilled
from subjects.steps import bound_blocks

TRAINED = 2
"""Steps of the training entry."""

NEEDED = frozenset({"bind_dimensions", "use_inference_forms", "list_operators"})
"""Passes without which a program is another one, or none."""

Results = dict[str, bytes]
Feeds = Mapping[str, np.ndarray]


class Subject:
    """A program with its feeds.

    Attributes:
        source: as it is before passes.
        compiled: by all passes.
        feeds: arrays by name.
    """

    def __init__(self, program: Program, sizes: Mapping[str, int], feeds: Callable[[Compiled], Feeds]) -> None:
        assembled = program._assembled()
        self.source = copy_of(assembled)
        self.compiled = compile_program(assembled, sizes).desc
        for entry, done in zip(self.source.entries, self.compiled.entries, strict=True):
            entry.bindings.extend(pb.Binding(dims=binding.dims) for binding in done.bindings)
        self.source.format_version = self.compiled.format_version
        self.feeds = feeds(Compiled(self.compiled))

    @property
    def tensors(self) -> list[str]:
        """The names of all that ops make in blocks that run, each once."""
        return list(dict.fromkeys(x for block in bound_blocks(self.compiled) for op in block.ops for x in op.outputs))


Way = Callable[[Subject], Iterator[tuple[str, Results]]]


def steps_of(desc: pb.ProgramDesc, feeds: Feeds, fetch: Sequence[str] = (), **options: object) -> Results:
    """Return the bytes of all that steps of every entry fetch, except what `fetch` names, and of the states."""
    results: Results = {}
    with TemporaryDirectory() as folder, closing(Run(copy_of(desc), engine="native", spill=folder, **options)) as run:
        if "total_steps" in run.state:
            run.state["total_steps"] = 10
        for entry in run.program.entries:
            [bound, *_] = run.session.bindings(entry.name)
            made = {name for op in bound.block.ops for name in op.outputs}
            asked = [name for name in fetch if name in made]
            given = {name: feeds[name] for name in bound.feeds}
            for number in range(TRAINED if entry.name == "train" else 1):
                found = run.step(given, entry=entry.name, fetch=asked)
                results |= {f"{entry.name} {number}: {x}": y.tobytes() for x, y in found.items() if x not in asked}
        return results | {name: array.tobytes() for name, array in run.states.arrays.items()}


def threads(subject: Subject) -> Iterator[tuple[str, Results]]:
    for count in (2, 3, 7):
        yield f"{count} threads", steps_of(subject.compiled, subject.feeds, threads=count)


def check_nan(subject: Subject) -> Iterator[tuple[str, Results]]:
    yield "--check-nan", steps_of(subject.compiled, subject.feeds, check_nan=True)


def budgets(subject: Subject) -> Iterator[tuple[str, Results]]:
    """Three budgets, with a file beside the arena and without."""
    arena = max(binding.plan.arena_bytes for entry in subject.compiled.entries for binding in entry.bindings)
    for share in (0.9, 0.75, 0.6):
        for spill in (False, True):
            compiled = Compiled(copy_of(subject.compiled))
            try:
                compiled.plan(budget=int(arena * share), spill=spill, seconds=10)
            except LimitError:
                continue
            yield f"{share} of the arena, {spill=}", steps_of(compiled.desc, subject.feeds)


def moves_to_a_file(subject: Subject) -> Iterator[tuple[str, Results]]:
    for seed in range(3):
        moved = spilled(subject.compiled, random.Random(seed).randrange, pairs=3)
        yield f"moved to a file, seed {seed}", steps_of(moved, subject.feeds)


def passes(subject: Subject) -> Iterator[tuple[str, Results]]:
    """Each pass of the compiler left out; only one of programs that are equal then is run."""
    seen = {_code(subject.compiled)}
    for name in PASSES.names:
        if name in NEEDED:
            continue
        gone = (name, "plan_memory") if name == "eliminate_dead_ops" else (name,)
        program = copy_of(subject.source)
        run_passes(program, PASSES.without(*gone))
        if _code(program) not in seen:
            seen.add(_code(program))
            yield f"without {name}", steps_of(program, subject.feeds)


def fetch_all(subject: Subject) -> Iterator[tuple[str, Results]]:
    yield "all tensors fetched", steps_of(subject.compiled, subject.feeds, fetch=subject.tensors)


def fetch_some(subject: Subject) -> Iterator[tuple[str, Results]]:
    """Single tensors, of which equal seeds choose the same."""
    tensors = subject.tensors
    for name in random.Random(0).sample(tensors, min(3, len(tensors))):
        yield f"%{name} fetched", steps_of(subject.compiled, subject.feeds, fetch=[name])


def fetch_each(subject: Subject) -> Iterator[tuple[str, Results]]:
    for name in subject.tensors:
        yield f"%{name} fetched", steps_of(subject.compiled, subject.feeds, fetch=[name])


def _code(program: pb.ProgramDesc) -> tuple[bytes, ...]:
    """The ops of all blocks that run."""
    return tuple(b"".join(op.SerializeToString() for op in block.ops) for block in bound_blocks(program))


WAYS: dict[str, Way] = {
    way.__name__: way
    for way in (threads, check_nan, budgets, moves_to_a_file, passes, fetch_all, fetch_some, fetch_each)
}
"""The ways by their names."""
