"""Judge a case: values beside float64 of the reference engine, and equal bits on instruction sets and threads.

Each run has an instruction set, a number of threads and a size of the second-level cache, none of which may change a
bit. Most of them have every buffer between forbidden pages. Whole numbers have whole results, which are demanded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Final, NamedTuple
from unittest.mock import patch

import numpy as np
from guards.engine import guarded

from compiler import Program, Value, constant, gradients, mixed, momentum, ops
from fuzz.large import chains, codes, images, moves, products, rows, sequences
from fuzz.large.case import Array, Case, Draw, Operand
from prograd_proto import program_pb2 as pb
from prograd_proto import type_of
from prograd_proto.dtypes import DTypeName
from prograd_proto.files import copy_of
from runtime import Run
from runtime.codegen.machine import target
from runtime.dtypes import BFLOAT16
from runtime.engines.native import engine as native_engine
from runtime.engines.native.cpu import instruction_sets, this_machine

MAKERS: Final = {
    module.__name__.rpartition(".")[2]: module.MAKERS
    for module in (products, images, sequences, rows, moves, codes, chains)
}
"""Makers of cases by module."""

SHARES: Final = {"products": 4, "images": 4, "sequences": 3, "rows": 2, "moves": 1, "codes": 2, "chains": 2}
"""How often each module is drawn."""

SETS: Final = {
    "float32": ("amx", "avx512", "avx2", "sse2"),
    "float64": ("amx", "avx2", "sse2"),
    "tiles": ("amx", "avx512_bf16", "avx512", "avx2"),
    "pairs": ("amx", "avx512_bf16", "avx512", "avx2"),
    "codes": ("amx_int8", "amx", "avx_vnni", "avx512", "avx2", "sse2"),
}
"""Instruction sets whose code differs, by precision."""

THREADS: Final = (1, 1, 2, 2, 3, 7, 7, 20)
"""Numbers of threads; code is made for 2, 4, 8 or 32."""

COMPACT_SHARE: Final = 0.1
"""Part of the ways whose code is short, as for machines with little memory."""

SINGLE: Final = ("positive", "single")
"""Kinds of numbers that are float32 also where others are float64."""

WEIGHTS: Final = ("b", "w", "r", "bias", "scale", "w_zero", "table")
"""Names of operands that may be states."""

CACHES: Final = (0, 0, 48 << 10, 256 << 10, 2 << 20)
"""Sizes of the second-level cache; 0 stands for this machine's."""

HALF_TOLERANCE: Final = 2e-2
"""Differences of operands of bfloat16, as parts of the largest result: Winograd's form and weights round once more."""

WIDE_TOLERANCE: Final = 1e-9
"""Differences in float64."""


class Way(NamedTuple):
    """How a program runs.

    Attributes:
        instructions: the instruction set.
        threads: number of threads.
        l2_bytes: size of the second-level cache for which code is made; 0 for this machine's.
        guard: "end" or "begin" where forbidden pages touch buffers, or "".
        is_compact: True for code without unrolled loops.
    """

    instructions: str
    threads: int
    l2_bytes: int = 0
    guard: str = ""
    is_compact: bool = False


class Differs(AssertionError):
    """Results of a case are wrong, or depend on the way."""


class Subject(NamedTuple):
    """A case, and how it becomes a program.

    Attributes:
        case: the operators and their operands.
        precision: one of the case's.
        is_whole: True if its numbers are whole.
        use: "fed" if all operands are fed; "kept" if weights are states, which code packs once; "trained" if they are
            parameters, which a step updates.
    """

    case: Case
    precision: str
    is_whole: bool
    use: str = "fed"

    def __str__(self) -> str:
        return f"{self.precision}, {'whole' if self.is_whole else 'normal'} numbers, {self.use}: {self.case}"


def subject_of(seed: int) -> Subject:
    """Return the subject of a seed."""
    draw = Draw(seed)
    module = draw.pick([name for name, share in SHARES.items() for _ in range(share)])
    case = draw.pick(MAKERS[module])(draw)
    precision, is_whole = draw.pick(case.precisions), case.is_exact and (case.has_kinks or draw.chance(0.6))
    uses = ("fed", "fed", *(("kept",) if weights_of(case) else ()), *(("trained",) if trains(case) else ()))
    return Subject(case, precision, is_whole, draw.pick(uses))


def weights_of(case: Case) -> list[str]:
    """Return the operands that may be states."""
    return [name for name in case.operands if name in WEIGHTS]


def trains(case: Case) -> bool:
    """Return True if the case has gradients of operands that may be states."""
    return case.has_gradients and bool(weights_of(case))


def tried(seed: int, folder: Path) -> str:
    """Judge the subject of a seed, and return its first word and precision; raise Differs for a fault."""
    subject = subject_of(seed)
    try:
        judged(subject, seed)
    except Exception as error:
        error.add_note(str(subject))
        raise
    return f"{subject.case.label.partition(' ')[0].strip(',')} {subject.precision}, {subject.use}"


def judged(subject: Subject, seed: int, ways: Sequence[Way] | None = None) -> None:
    """Raise Differs for a way whose results are not near the exact ones, or have other bits than those of others."""
    rng = np.random.default_rng((seed, 12))
    case, precision, is_whole, _ = subject
    program = compiled(subject)
    numbers = {name: fed(rng, operand, is_whole) for name, operand in operands_of(case, program).items()}
    wanted = ran(compiled(subject._replace(precision="float64")), numbers, "reference", 1)
    whole = is_whole and case.is_exact
    tolerance = 0.0 if whole else {"float32": case.tolerance, "float64": WIDE_TOLERANCE}.get(precision, HALF_TOLERANCE)
    first: dict[str, Array] = {}
    for way in drawn_ways(rng, case, precision) if ways is None else ways:
        found = run_of(program, numbers, way)
        for name, array in wanted.items():
            if far := how_far(found[name], array, tolerance):
                raise Differs(f"{name} is wrong by {far} by {way}")
        if not target(way.instructions).fma:
            continue
        for name, array in first.items():
            if found[name].tobytes() != array.tobytes():
                raise Differs(f"{name} has other bits by {way}, in {places(found[name], array)}")
        first = first or found


def drawn_ways(rng: np.random.Generator, case: Case, precision: str) -> list[Way]:
    """Return three ways with different instruction sets: the last two are guarded."""
    here = instruction_sets()
    is_of_codes = any(operand.kind == "code" for operand in case.operands.values())
    names = [name for name in SETS["codes" if is_of_codes else precision] if name in here] or here
    chosen = [str(name) for name in rng.choice(names, min(3, len(names)), replace=False)]
    guards = ["", *rng.choice(("end", "begin"), 2)][: len(chosen)]
    return [
        Way(name, int(rng.choice(THREADS)), int(rng.choice(CACHES)), str(guard), bool(rng.random() < COMPACT_SHARE))
        for name, guard in zip(chosen, guards, strict=True)
    ]


def compiled(subject: Subject) -> pb.ProgramDesc:
    """Return the program of a subject, whose only entry fetches results and gradients, or trains."""
    case, precision, _, use = subject
    program, given = Program("large", seed=1), dict[str, Value]()
    wide: DTypeName = "float64" if precision == "float64" else "float32"
    weights = weights_of(case) if use != "fed" else []
    for name, operand in case.operands.items():
        dtype = dtype_of(operand, "float32" if use == "trained" and precision != "float64" else precision)
        if name not in weights:
            given[name] = program.input(name, dtype, operand.shape)
        elif use == "kept":
            given[name] = program.buffer(name, operand.shape, dtype=dtype)
        else:
            given[name] = program.parameter(name, operand.shape, constant(0.0), dtype=dtype)
    results = list(case.write(given))
    floats = [value for value in results if value.dtype == wide]
    seeds = [program.input(f"d{i}", wide, value.shape) for i, value in enumerate(floats)] if use != "kept" else []
    order = mixed("bfloat16", order="pairs", keep=["*"]) if precision == "pairs" else None
    if use == "trained":
        program.minimize(sum(ops.sum(y * d) for y, d in zip(floats, seeds, strict=True)), momentum(0.5, momentum=0.5))
        order = mixed("bfloat16", order=precision) if precision in ("tiles", "pairs") else None
        return program.compile(mixed=order).desc
    outputs = {f"y{i}": value for i, value in enumerate(results)}
    if case.has_gradients and use == "fed":
        names = [name for name, value in given.items() if value.dtype in ("float32", "float64", "bfloat16")]
        slopes = gradients(floats, [given[name] for name in names], seeds)
        outputs |= {f"of_{name}": value for name, value in zip(names, slopes, strict=True) if value is not None}
    program.outputs(**outputs)
    return program.compile(mixed=order).desc


def dtype_of(operand: Operand, precision: str) -> DTypeName:
    """Return the dtype of an operand."""
    if operand.kind == "bool":
        return "bool"
    if operand.kind == "code":
        return "uint8"
    if operand.kind.startswith("lengths"):
        return "int32"
    if "below" in operand.kind:
        return "int64"
    if operand.kind.endswith("half") and precision in ("tiles", "pairs"):
        return "bfloat16"
    return "float64" if precision == "float64" and operand.kind not in SINGLE else "float32"


def entry_of(program: pb.ProgramDesc) -> pb.EntryDesc:
    """Return the entry that trains, or the only one."""
    return next((entry for entry in program.entries if entry.name == "train"), program.entries[0])


def operands_of(case: Case, program: pb.ProgramDesc) -> dict[str, Operand]:
    """Return all inputs and weights: those of the case, and the gradients of results that a program begins with."""
    block = program.blocks[entry_of(program).bindings[0].block]
    types, found = {tensor.name: tensor for tensor in block.tensors}, dict(case.operands)
    for parameter in block.parameters:
        if parameter.feed and parameter.feed not in found:
            found[parameter.feed] = Operand(type_of(types[parameter.tensor]).shape)
    return found


def fed(rng: np.random.Generator, operand: Operand, is_whole: bool) -> Array:
    """Return numbers of a kind; floats are ones that bfloat16 holds."""
    kind, shape = operand.kind.split(), operand.shape
    if kind[0] == "bool":
        return rng.random(shape) < 0.8
    if kind[0] == "code":
        codes = rng.integers(0, 256, shape, dtype="u1")
        return np.where(codes < 128, 0, 255).astype("u1") if rng.random() < 0.3 else codes
    if kind[0] == "lengths":
        return rng.integers(0, int(kind[1]) + 1, shape, dtype="i4")
    if "below" in kind:
        return rng.integers(int(kind[0] == "from"), int(kind[-1]), shape)
    return floats(rng, operand, is_whole)


def floats(rng: np.random.Generator, operand: Operand, is_whole: bool) -> Array:
    """Return floats of a kind."""
    kind, shape = operand.kind.split(), operand.shape
    if is_whole and kind[0] not in ("near", "positive"):
        return rng.integers(-2, 3, shape).astype("f4")
    numbers = rng.normal(size=shape)
    if kind[0] == "positive":
        numbers = np.exp(numbers * 0.5)
    elif kind[0] == "near":
        few = rng.random(shape) < 200 / max(numbers.size, 200)  # products of all stay near 1, and show each sign
        numbers = np.sign(numbers) * (1 + few / 128)
    elif kind[0] == "small":
        numbers = numbers / prod(shape[:-1]) ** 0.5
    return (numbers.astype("f4").view("u4") & 0xFFFF0000).astype("u4").view("f4").reshape(shape)


def run_of(program: pb.ProgramDesc, feeds: Mapping[str, Array], way: Way) -> dict[str, Array]:
    """Return the results by a way."""
    machine = replace(this_machine(way.instructions), is_compact=way.is_compact)
    machine = replace(machine, l2_bytes=way.l2_bytes) if way.l2_bytes else machine
    with patch.object(native_engine, "this_machine", lambda instructions: machine):
        if not way.guard:
            return ran(program, feeds, f"native.{way.instructions}", way.threads)
        with guarded(way.guard == "end", way.instructions):
            return ran(program, feeds, "guarded", way.threads)


def ran(program: pb.ProgramDesc, feeds: Mapping[str, Array], engine: str, threads: int) -> dict[str, Array]:
    """Return copies of the results of one step."""
    run = Run(copy_of(program), engine=engine, threads=threads)  # type: ignore[arg-type]
    try:
        entry = entry_of(program)
        [bound] = run.session.bindings(entry.name)
        for name, array in run.states.arrays.items():
            if name in feeds:
                array[...] = bits_of(feeds[name], array)
        executor = run.session.workspaces.executor(bound)
        for name, array in executor.feeds.items():
            array[...] = bits_of(feeds[name], array)
        executor.step()
        states = run.states.arrays if entry.name == "train" else {}
        kept = {name: array for name, array in states.items() if array.dtype.kind == "f"}
        return {name: np.array(array) for name, array in {**executor.fetches, **kept}.items() if name != "loss"}
    finally:
        run.close()


def bits_of(numbers: Array, like: Array) -> Array:
    """Return numbers as the elements of an array, which may be bfloat16."""
    return (numbers.view("u4") >> 16).astype("u2").view(BFLOAT16) if like.dtype == BFLOAT16 else numbers


def how_far(found: Array, wanted: Array, tolerance: float) -> str:
    """Return a sentence about the largest difference, if it exceeds this part of the largest result."""
    if found.shape != wanted.shape:
        return f"its shape, {found.shape} instead of {wanted.shape}"
    mine, exact = found.astype("f8"), wanted.astype("f8")
    with np.errstate(all="ignore"):
        largest = float(np.abs(exact[np.isfinite(exact)]).max(initial=0.0))
        away = np.abs(mine - exact)
        bad = ~((mine == exact) | (np.isnan(mine) & np.isnan(exact)) | (away <= tolerance * largest))
    return f"up to {away[bad].max():.3g} of {largest:.3g}, {_where(bad)}" if bad.any() else ""


def places(found: Array, wanted: Array) -> str:
    """Return where two arrays differ."""
    return _where((found != wanted) & ~((found != found) & (wanted != wanted)))


def _where(bad: Array) -> str:
    at = np.argwhere(bad)
    if not len(at):
        return "signs of zeros or NaN"
    return f"{len(at)} of {bad.size} elements, from {at[0].tolist()} to {at[-1].tolist()}"
