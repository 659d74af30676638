"""Other ways to compile and run a program, each of which must give the same bits.

The reference is the program bound and nothing else, its ops one after the other with every tensor an array of its own.
NaN stands for NaN here, whatever its sign and payload.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from oracles.poison import Poisoned
from subjects.spilling import spilled
from subjects.steps import Stepper, bound_block, bound_blocks

from compiler import Program
from compiler.build.compiled import Compiled, compile_program
from compiler.errors import LimitError
from compiler.passes.bind_dimensions import symbols_of
from compiler.passes.pass_table import Pass
from compiler.passes.pipeline import PASSES
from compiler.passes.run_passes import run_passes
from fuzz.tape import Tape
from fuzz.verdict import Verdict
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalyses
from prograd_proto.files import canonical_bytes, copy_of, load, save
from prograd_proto.identity import program_sha256
from prograd_proto.text import from_text, to_text
from runtime.conversion import handed_out
from runtime.runs.states import States

TRAINED, THREADED = 2, 5
"""Steps of training; with threads the first three are in order, to measure."""

SEARCHED = 120
"""Largest number of ops for which a budget is searched: the search takes seconds for more."""


Results = list[dict[str, np.ndarray]]
"""The fetches of each step; at the end the states, whose names have a mark."""


@dataclass
class Subject:
    """A program, as built and as compiled.

    Attributes:
        source: assembled, with bindings and nothing else; passes may be applied to a copy.
        compiled: by all passes.
        references: by entry and number of steps.
    """

    source: pb.ProgramDesc
    compiled: pb.ProgramDesc
    feeds: Mapping[str, np.ndarray]
    sizes: Mapping[str, int]
    rng: np.random.Generator
    references: dict[tuple[str, int], Results] = field(default_factory=dict)

    @staticmethod
    def of(
        program: Program, feeds: Mapping[str, np.ndarray], sizes: Mapping[str, int], rng: np.random.Generator
    ) -> Subject:
        """Compile; raises CompileError."""
        assembled = program._assembled()
        source = copy_of(assembled)
        compiled = compile_program(assembled, sizes).desc
        for entry, done in zip(source.entries, compiled.entries, strict=True):
            entry.bindings.extend(pb.Binding(dims=binding.dims) for binding in done.bindings)
        source.format_version = compiled.format_version
        return Subject(source, compiled, feeds, sizes, rng)

    def with_passes(self, passes: Any) -> pb.ProgramDesc:
        """The program after these passes."""
        passes, program = tuple(passes), copy_of(self.source)
        keeps_dead_ops = not any(each.name == "eliminate_dead_ops" for each in passes)
        if keeps_dead_ops:  # they may have symbols that nothing else has
            for entry in program.entries:
                symbols = symbols_of(BlockAnalyses(program), entry.source_block)
                sizes = [pb.SymbolSize(symbol=symbol, size=self.sizes[symbol]) for symbol in sorted(symbols)]
                for binding in entry.bindings:
                    known = {dim.symbol for dim in binding.dims}
                    binding.dims.extend(size for size in sizes if size.symbol not in known)
        run_passes(program, passes)
        return program

    def reference(self, entry: str, steps: int) -> Results:
        if (entry, steps) not in self.references:
            plain = self.with_passes(PASSES.only("use_inference_forms", "eliminate_dead_ops", "bind_dimensions"))
            self.references[entry, steps] = reference(plain, entry, self.feeds, steps)
        return self.references[entry, steps]

    def choose(self, count: int) -> int:
        return int(self.rng.integers(count))


def reference(program: pb.ProgramDesc, entry: str, feeds: Mapping[str, np.ndarray], steps: int) -> Results:
    """Return the results of an entry's steps without arena, plan or in-place ops."""
    block = bound_block(program, entry)
    states = States(program, Path())
    states.initialise()
    tape, results = Tape(), Results()
    for number in range(steps):
        for p in block.parameters:
            tape.give(p.tensor, states.arrays[p.state] if p.WhichOneof("source") == "state" else feeds[p.feed])
        tape.run() if number else tape.extend(list(block.ops))
        results.append({fetch.name: handed_out(tape.arrays[fetch.tensor]) for fetch in block.fetches})
        new = {update.state: tape.arrays[update.tensor].copy() for update in block.updates}
        for name, array in new.items():
            states.arrays[name][...] = array
    results.append({name: array.copy() for name, array in states.arrays.items()})
    return results


def stepped(run: Stepper, feeds: Mapping[str, np.ndarray], steps: int) -> Results:
    """Steps of an executor."""
    known = {name: array for name, array in feeds.items() if name in run.executor.feeds}
    results = [run.step(**known) for _ in range(steps)]
    return [*results, run.snapshot()]


@dataclass(frozen=True)
class Variant:
    """A way to compile, and a way to run."""

    name: str
    compile: Callable[[Subject], pb.ProgramDesc]
    run: Callable[..., Stepper] = Stepper
    options: Mapping[str, Any] = field(default_factory=dict)
    steps: int = TRAINED


class NotApplicable(Exception):
    """A variant has nothing to say of a program; the text is the reason."""


def judge(subject: Subject, variant: Variant) -> Verdict:
    """Return True if all entries give the reference's bits."""
    try:
        program = variant.compile(subject)
    except NotApplicable as reason:
        return Verdict("skipped", variant.name, "bits", str(reason))
    for entry in program.entries:
        steps = variant.steps if entry.name == "train" else 1
        wanted = subject.reference(entry.name, steps)
        run = variant.run(program, entry.name, **variant.options)
        found = stepped(run, subject.feeds, steps)
        run.executor.close()
        for number, (mine, theirs) in enumerate(zip(found, wanted, strict=True)):
            for name in theirs:
                if bits(mine[name]) != bits(theirs[name]):
                    what = f"{entry.name}, {'state' if number == steps else f'step {number}'}: {name}"
                    return Verdict("differs", variant.name, what, f"{_short(mine[name])} is not {_short(theirs[name])}")
    return Verdict("agreed", variant.name, "bits")


def bits(array: np.ndarray) -> tuple[str, tuple[int, ...], bytes]:
    """Return the bytes to compare, with one NaN for all."""
    if array.dtype.kind == "f" and np.isnan(array).any():
        array = np.where(np.isnan(array), np.array(np.nan, array.dtype), array)
    return array.dtype.name, array.shape, array.tobytes()


def _short(array: np.ndarray) -> str:
    return f"{array.dtype}{list(array.shape)} {np.array2string(array.reshape(-1)[:6], precision=17)}"


# How to compile


def whole(subject: Subject) -> pb.ProgramDesc:
    return subject.compiled


def without(left_out: str) -> Callable[[Subject], pb.ProgramDesc]:
    """All passes but one; a block with dead ops may have no plan."""
    gone = (left_out, "plan_memory") if left_out == "eliminate_dead_ops" else (left_out,)
    return lambda subject: subject.with_passes(PASSES.without(*gone))


def shuffled(subject: Subject) -> pb.ProgramDesc:
    """The ops in a random order that keeps what is made before what reads it."""

    def shuffle(program: BlockAnalyses) -> None:
        for block in bound_blocks(program.desc):
            left, made = [copy_of_op(op) for op in block.ops], set[str]()
            defined = {name for op in left for name in op.outputs}
            del block.ops[:]
            while left:
                ready = [i for i, op in enumerate(left) if all(n not in defined or n in made for n in op.inputs)]
                op = left.pop(ready[subject.choose(len(ready))])
                made.update(op.outputs)
                block.ops.append(op)
        program.forget()

    return subject.with_passes(Pass(shuffle) if each.name == "order_ops" else each for each in PASSES)


def copy_of_op(op: pb.OpDesc) -> pb.OpDesc:
    copy = pb.OpDesc()
    copy.CopyFrom(op)
    return copy


def budgeted(subject: Subject, *, spill: bool = False) -> pb.ProgramDesc:
    """Within a smaller arena than it would take."""
    if max(len(block.ops) for block in subject.compiled.blocks) > SEARCHED:
        raise NotApplicable(f"more than {SEARCHED} ops to plan within a budget")
    compiled = Compiled(copy_of(subject.compiled))
    arena = max((binding.plan.arena_bytes for entry in compiled.desc.entries for binding in entry.bindings), default=0)
    for share in (0.5 + 0.4 * float(subject.rng.random()), 0.95):
        try:
            compiled.plan(budget=int(arena * share), spill=spill)
            return compiled.desc
        except LimitError:
            continue
    raise NotApplicable("no smaller arena")


def moved(subject: Subject) -> pb.ProgramDesc:
    """Compile with some values in the spill file, even without benefit."""
    return spilled(subject.compiled, subject.choose, 1 + subject.choose(3))


def roomy(subject: Subject) -> pb.ProgramDesc:
    compiled = Compiled(copy_of(subject.compiled))
    compiled.plan(threads=2 + subject.choose(2))
    return compiled.desc


def reread(subject: Subject) -> pb.ProgramDesc:
    """Saved and loaded, text and back, and compiled anew from the file: always the same program."""
    with TemporaryDirectory() as folder:
        save(subject.compiled, Path(folder) / "program.pb")
        loaded = load(Path(folder) / "program.pb")
    if canonical_bytes(loaded) != canonical_bytes(subject.compiled):
        raise AssertionError("the file is another program")
    if canonical_bytes(from_text(to_text(loaded))) != canonical_bytes(loaded):
        raise AssertionError("the text is another program")
    sizes = {dim.symbol: dim.size for entry in loaded.entries for dim in entry.bindings[0].dims}
    again = compile_program(copy_of(loaded), sizes).desc
    if program_sha256(again) != program_sha256(loaded):
        raise AssertionError("compiled anew from the file it is another program")
    return again


NEEDED = ("bind_dimensions", "use_inference_forms", "list_operators")
"""Passes without which a program is another one, or none."""

THREADS = {"large": 0}

VARIANTS: tuple[Variant, ...] = (
    Variant("all passes", whole),
    *(Variant(f"without {name}", without(name)) for name in PASSES.names if name not in NEEDED),
    Variant("random order", shuffled),
    Variant("random order, poisoned", shuffled, Poisoned),
    Variant("poisoned", whole, Poisoned),
    Variant("budget", budgeted, Poisoned),
    Variant("budget with a file", lambda subject: budgeted(subject, spill=True), Poisoned),
    Variant("moved to a file", moved, Poisoned),
    Variant("moved to a file, running", moved),
    Variant("two threads", whole, options={"threads": 2, **THREADS}, steps=THREADED),
    Variant("three threads", whole, options={"threads": 3, **THREADS}, steps=THREADED),
    Variant("room for threads", roomy, options={"threads": 2, **THREADS}, steps=THREADED),
    Variant("room for threads, poisoned", roomy, Poisoned),
    Variant("looked at for NaN", whole, options={"check_nan": False}),
    Variant("file and text", reread),
)
"""Every way."""
