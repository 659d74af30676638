"""A program as object files, tables and states, for one machine: everything that the folder of a library is made of."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from prograd_proto import program_pb2 as pb
from prograd_proto.identity import program_sha256
from prograd_proto.states import trains
from runtime.ahead.data import GENERAL, OTHERS, functions_module, initialising_module, tables_module
from runtime.ahead.initial import INITIAL, initial_step
from runtime.ahead.layout import EntryCode, Layout, file_header, layout_of
from runtime.ahead.range_checks import range_check
from runtime.ahead.resolved import image, object_of
from runtime.ahead.shards import shard_steps
from runtime.ahead.sharing import share
from runtime.ahead.tables import SHARED, tables_of
from runtime.codegen.assemble import Assembly, KernelSource
from runtime.codegen.code import LOOP_STEP
from runtime.codegen.emit.code import MODULE_BYTES, Known
from runtime.codegen.emit.driver import write_driver_of_library
from runtime.codegen.ir.module import Module, joined
from runtime.codegen.machine import Target
from runtime.dtypes import Array
from runtime.engines.native import jit
from runtime.engines.native.step_code import lowered, step_options
from runtime.entries import BoundEntry, bound_entries, find_entry
from runtime.errors import UsageError


class Member(NamedTuple):
    """An object file, and the symbols that it defines for others."""

    content: bytes
    symbols: list[str]


class Function(NamedTuple):
    """A function of a library that makes steps of an entry for a number of rows; `method` is its name without NAME_."""

    name: str
    bound: BoundEntry
    method: str


class Build(NamedTuple):
    """A program built for an instruction set: its target, the prefix of its symbols, and the memory of an instance."""

    target: Target
    prefix: str
    layout: Layout
    nbytes: int


class Library(NamedTuple):
    """A program built for a machine.

    Attributes:
        name: beginning of the names of its functions.
        sha256: hash of the program.
        functions: functions that make steps.
        members: object files.
        builds: the program for each instruction set.
        threads: number of threads that may share a step.
        initialises: True if it can draw initial values.
        shards: the number of shards of each step in shards, by the name of its method.
    """

    name: str
    sha256: str
    functions: list[Function]
    members: list[Member]
    builds: list[Build]
    threads: int
    initialises: bool
    shards: Mapping[str, int]

    @property
    def instructions(self) -> str:
        """The names of the instruction sets."""
        return ",".join(build.target.name for build in self.builds)

    @property
    def memory_bytes(self) -> int:
        """The bytes of memory that an instance takes, wherever it begins."""
        return max(build.nbytes for build in self.builds) + 64


class _Kernels:
    """The functions of all entries: equal ones are written once."""

    def __init__(self, target: Target, prefix: str) -> None:
        self._target, self._prefix = target, prefix
        self._known = Known()
        self._modules: list[Module] = []
        self._ends: list[int] = []

    def written(self, source: KernelSource) -> list[list[str]]:
        """Write the functions of a step that are new; return the names of all by group and kernel step."""
        written = source.write(prefix=self._prefix, known=self._known)
        self._modules += [module for module in written.modules if module.nbytes]
        return written.functions

    def end_part(self) -> None:
        """Let the functions of further steps be in other object files."""
        self._ends.append(len(self._modules))

    def members(self, driver: Module) -> list[Member]:
        """Return all functions as object files, and the driver with the first ones."""
        parts = [joined(self._modules[start:end], MODULE_BYTES) for start, end in pairwise([0, *self._ends])]
        if self._target.is_compact:
            share([module for part in parts for module in part], self._prefix)
        return [member for i, part in enumerate(parts) for member in _together([*([] if i else [driver]), *part])]


def _together(modules: Sequence[Module]) -> list[Member]:
    """Return the object files of modules of functions; those whose relocations can be applied before are one."""
    found = [_member(module) for module in modules]
    images = [image(member.content) for member in found]
    alone = [member for member, own in zip(found, images, strict=True) if own is None]
    whole = [own for own in images if own is not None]
    symbols = [name for own in whole for name in own.addresses]
    return alone if not whole else [Member(object_of(whole), symbols), *alone]


def _member(module: Module) -> Member:
    """Return the object file of a module of functions."""
    heads = re.findall(r"^define (?:hidden )?\w+ @([\w.]+)\(", "\n".join(module.functions), re.MULTILINE)
    return Member(jit.compiled(module), heads)


def library_of(
    program: pb.ProgramDesc,
    name: str,
    targets: Sequence[Target],
    initial: Mapping[str, Array],
    *,
    entries: Sequence[str] = (),
    rows: Sequence[int] = (),
    threads: int = 1,
    word_bytes: int = 8,
    has_files: bool = True,
    by_shard: bool = False,
) -> Library:
    """Return a checked program as a library.

    Args:
        program: program with sizes.
        name: beginning of the names of functions.
        targets: instruction sets of one machine, of which an instance takes the first that its CPU has.
        initial: values of the states.
        entries: names of the entries that it has; by default all.
        rows: numbers of rows of the steps that it has; by default all.
        threads: number of threads that may share a step.
        word_bytes: size of an address.
        has_files: True if functions that read and write files belong to it.
        by_shard: True if each step in shards is also built as two steps, see `shard_steps`.

    Raises:
        UsageError: an entry or number of rows that the program lacks, a name that is taken, an op that only NumPy
            computes, values in a file beside the memory, or sets with different bits.
    """
    if name == "prograd":
        raise UsageError("a library cannot be called prograd, as its runtime is; give the program's file another name")
    if len({target.fma for target in targets}) > 1:
        raise UsageError("--cpu: sets with and without a fused multiply-add have different bits; build two libraries")
    targets = [target.for_program(program) for target in targets]
    functions = _functions(program, name, entries, rows)
    shards = _add_shards(program, name, functions) if by_shard else {}
    named = _Named(name, program_sha256(program))
    saves = has_files or targets[0].architecture == "wasm32"
    initial_function = _initial_function(program, name, targets[0])
    members: list[Member] = []
    builds: list[Build] = []
    for target in targets:
        prefix = f"{name}." if len(targets) == 1 else f"{name}.{target.name}."  # no entry's function has a dot
        parts = [(prefix, functions)]
        parts += [] if initial_function is None else [(f"{prefix}{INITIAL}.", [initial_function])]
        build, made = _built(program, named, target, parts, initial, threads, saves=saves)
        builds.append(build)
        members += made
    if targets[0].architecture != "wasm32":
        module = functions_module(
            targets[-1],
            name,
            [build.prefix for build in builds],
            [(f.name, len(f.bound.feeds), len(f.bound.block.fetches)) for f in functions],
            size_bits=8 * word_bytes,
            has_files=has_files,
            has_threads=threads > 1,
        )
        public = _member(module)
        members.insert(0, public._replace(symbols=[f"{name}_programs", *public.symbols]))
    if initial_function is not None and targets[0].architecture != "wasm32":
        pairs = [(build.prefix, f"{build.prefix}{INITIAL}.") for build in builds]
        module = initialising_module(targets[-1], name, pairs)
        members.insert(1, Member(jit.compiled(module), [initial_function.name]))
    return Library(name, named.sha256, functions, members, builds, threads, initial_function is not None, shards)


def _built(
    program: pb.ProgramDesc,
    named: _Named,
    target: Target,
    parts: Sequence[tuple[str, Sequence[Function]]],
    initial: Mapping[str, Array],
    threads: int,
    *,
    saves: bool,
) -> tuple[Build, list[Member]]:
    """Return the program for an instruction set, and its object files.

    `parts` are functions and the prefix of their tables; the first part has all public functions. `saves`: files of
    states can be written.
    """
    prefix, functions = parts[0]
    kernels = _Kernels(target, prefix)
    codes: list[list[EntryCode]] = []
    layouts: list[Layout] = []
    for _, own in parts:
        codes.append([_code(program, function, target, threads, kernels) for function in own])
        kernels.end_part()
        layouts.append(layout_of(program, codes[-1], initial, threads, len(functions), *layouts[:1]))
    header = file_header(program, named.sha256) if saves else b""
    texts = named.name, named.sha256, target.name
    tables = tables_of(program, list(zip(codes, layouts, strict=True)), texts, header, threads)
    members: list[Member] = []
    for (own, _), each in zip(parts, tables, strict=True):
        module = tables_module(target, own, each, prefix, code_prefix=prefix, has_threads=threads > 1)
        shared = [f"{own}{name}" for name in SHARED if name in each.contents]
        members.append(Member(jit.compiled(module), [f"{own}program", *shared]))
    members += kernels.members(_driver(target, prefix, threads, [code for each in codes for code in each]))
    return Build(target, prefix, layouts[0], max(layout.nbytes for layout in layouts)), members


class _Named(NamedTuple):
    """The name of a library, and the hash of its program."""

    name: str
    sha256: str


def _add_shards(program: pb.ProgramDesc, name: str, functions: list[Function]) -> dict[str, int]:
    """Add the two functions of each step in shards; return the number of shards by the name of its method.

    Raises UsageError if no step is in shards, and errors as `shard_steps` does.
    """
    shards: dict[str, int] = {}
    training = [each for each in functions if trains(program, each.bound.block)]
    if not training:
        raise UsageError("--by-shard: no step that is built trains; build an entry that does")
    for function in [each for each in training if each.method == spelled(each.bound.name)]:
        steps = shard_steps(program, function.bound)
        for bound in (steps.sums, steps.update):
            functions.append(Function(f"{name}_{spelled(bound.name)}", bound, spelled(bound.name)))
        shards[function.method] = steps.shards
    return shards


def _initial_function(program: pb.ProgramDesc, name: str, target: Target) -> Function | None:
    """Return the function that draws initial values; None if an op of it has no code."""
    bound = initial_step(program)
    if bound is None:
        return None
    step = lowered(bound.block, target, step_options(bound, 1), program.blocks)
    return None if None in step.kernels else Function(f"{name}_{INITIAL}", bound, INITIAL)


def _driver(target: Target, prefix: str, threads: int, codes: Sequence[EntryCode]) -> Module:
    """Return the code that runs the phases of a step."""
    driver = Module(target, prefix=prefix)
    has_control = any(len(entry.code.actions) or LOOP_STEP in entry.code.chunks[:, 0] for entry in codes)
    write_driver_of_library(driver, has_threads=threads > 1, has_control=has_control)
    return driver


def spelled(text: str) -> str:
    """Return a name as one of C and Fortran: letters, digits and underscores, a letter first."""
    name = re.sub(r"\W", "_", text, flags=re.ASCII)
    return name if name[:1].isalpha() else f"n_{name}"


def _functions(program: pb.ProgramDesc, name: str, entries: Sequence[str], rows: Sequence[int]) -> list[Function]:
    """Return the functions: the largest step of an entry has its name, others have their sizes after it."""
    found: list[Function] = []
    for entry in entries or [entry.name for entry in program.entries]:
        bindings = bound_entries(program, entry)
        chosen = [bound for bound in bindings if not rows or bound.rows in rows]
        if not chosen:
            there = ", ".join(str(bound.rows) for bound in bindings)
            raise UsageError(
                f"entry {entry!r} has steps of {there} rows, and none of {', '.join(map(str, rows))}; compile the "
                "program for them, as in compiler compile --batch"
            )
        sizes = _differing(find_entry(program, entry), chosen)
        for i, bound in enumerate(chosen):
            after = "".join(f"_{size}" for size in sizes[i]) if i else ""
            method = f"{spelled(entry)}{after}"
            found.append(Function(f"{name}_{method}", bound, method))
    require_free([function.name for function in found], {f"{name}_{each}" for each in (*GENERAL, *OTHERS)})
    return found


def require_free(names: Sequence[str], taken: Container[str]) -> None:
    """Raise UsageError if two functions have one name, or if the name of one is taken."""
    twice = next((each for each in names if names.count(each) > 1 or each in taken), None)
    if twice is not None:
        raise UsageError(f"two functions would both be called {twice}; name the entries to build by --entry")


def _differing(entry: pb.EntryDesc, chosen: Sequence[BoundEntry]) -> list[list[int]]:
    """Return, for each step, the sizes of the symbols in which the steps of an entry differ."""
    dims = {binding.block: {dim.symbol: dim.size for dim in binding.dims} for binding in entry.bindings}
    ours = [dims[bound.number] for bound in chosen]
    symbols = [symbol for symbol in ours[0] if len({sizes.get(symbol) for sizes in ours}) > 1]
    return [[sizes[symbol] for symbol in symbols] for sizes in ours]


def _code(program: pb.ProgramDesc, function: Function, target: Target, threads: int, kernels: _Kernels) -> EntryCode:
    """Return the code of an entry; its functions are compiled."""
    bound = function.bound
    step = lowered(bound.block, target, step_options(bound, threads), program.blocks)
    assembly = Assembly(step)
    code = assembly.code(kernels.written(assembly.source))
    hosts = {bound.block.ops[host.op].type for host in code.hosts}
    hosts |= {program.blocks[host.block].ops[host.op].type for host in code.inner_hosts}
    if hosts:
        raise UsageError(
            f"entry {bound.name!r} has ops that only NumPy computes, so no library can: {', '.join(sorted(hosts))}; "
            "build other entries by --entry, or take them out of the program"
        )
    if code.file_bytes:
        raise UsageError(
            f"entry {bound.name!r} keeps values in a file beside its memory, which a library does not; "
            "plan the program without --spill"
        )
    checks = {group: range_check(program, bound, code.ops_of(group)) for group in code.runtime_checks}
    return EntryCode(bound, code, checks, function.method)
