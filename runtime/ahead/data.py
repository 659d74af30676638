"""The tables of a library and its functions as a module of LLVM's IR: no C compiler is needed to build them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from runtime.ahead.tables import SHARED, Tables
from runtime.codegen.ir import Module
from runtime.codegen.machine import Target

MEMBERS: Final = (
    *("sizes", "states", "entries", "places", "checks", "restored", "run"),
    *("numbers", "words", "phases", "actions", "chunks", "text", "header", "constants", "groups"),
)
"""Members of `struct prograd_program` before the functions of the driver."""

ALIGNMENTS: Final = {"constants": 64, "text": 1, "header": 1, "words": 1}
"""Alignments of tables in bytes; the others have numbers of 8 bytes."""

GENERAL: Final = {
    "load": ("ptr", "ptr"),
    "load_bytes": ("ptr", "ptr", "size"),
    "save": ("ptr", "ptr"),
    "set": ("ptr", "ptr", "ptr", "size"),
    "threads": ("ptr", "i32"),
}
"""Functions `NAME_…` that call `prograd_…` with the same arguments, and return its number."""

OTHERS: Final = (
    "initialise",
    "initials",
    "begin",
    "open",
    "open_bytes",
    "begin_epoch",
    "begin_evaluation",
    "state_sha256",
    "state",
    "error",
    "programs",
    "run",
    "run_bytes",
    "run_checkpointed",
)
"""The other names that follow `NAME_`."""

OF_FILES: Final = ("load", "save")
"""Those that need a system with files."""

OF_THREADS: Final = ("threads",)
"""Those that need `prograd_threads.c`."""


WIDE_PRODUCT: Final = """define hidden void @__multi3(ptr %r, i64 %a, i64 %a_high, i64 %b, i64 %b_high) #0 {
  %a0 = and i64 %a, 4294967295
  %a1 = lshr i64 %a, 32
  %b0 = and i64 %b, 4294967295
  %b1 = lshr i64 %b, 32
  %p00 = mul i64 %a0, %b0
  %p01 = mul i64 %a0, %b1
  %p10 = mul i64 %a1, %b0
  %p11 = mul i64 %a1, %b1
  %carry = lshr i64 %p00, 32
  %low01 = and i64 %p01, 4294967295
  %low10 = and i64 %p10, 4294967295
  %sum0 = add i64 %carry, %low01
  %middle = add i64 %sum0, %low10
  %low00 = and i64 %p00, 4294967295
  %shifted = shl i64 %middle, 32
  %low = or i64 %shifted, %low00
  %high01 = lshr i64 %p01, 32
  %high10 = lshr i64 %p10, 32
  %high_middle = lshr i64 %middle, 32
  %sum1 = add i64 %p11, %high01
  %sum2 = add i64 %sum1, %high10
  %sum3 = add i64 %sum2, %high_middle
  %across0 = mul i64 %a, %b_high
  %across1 = mul i64 %a_high, %b
  %sum4 = add i64 %sum3, %across0
  %high = add i64 %sum4, %across1
  store i64 %low, ptr %r
  %second = getelementptr i8, ptr %r, i32 8
  store i64 %high, ptr %second
  ret void
}
"""
"""The product of two integers of 128 bits, which LLVM calls for WebAssembly, where no other library has it."""


def tables_module(
    target: Target, prefix: str, tables: Tables, first: str, *, code_prefix: str, has_threads: bool
) -> Module:
    """Return the module that defines the tables of a program for an instruction set, and `PREFIXprogram`.

    `code_prefix` is the prefix of the functions that it calls. `first` is the prefix of
    the tables with all shared parts; "" if these tables have them.
    """
    module = Module(target)
    for table, content in tables.contents.items():
        module.declare(_bytes(f"{prefix}{table}", content, "hidden" if table in SHARED else "internal"))
    shared = [] if "states" in tables.contents else [f"{first}{table}" for table in SHARED]
    for name in shared:
        module.declare(f"@{name} = external hidden constant i8")
    groups = ", ".join(f"ptr @{code_prefix}{group}" for group in tables.groups)
    module.declare(f"@{prefix}groups = internal constant [{len(tables.groups)} x ptr] [{groups}], align 8")
    driver = ("drive", "help", "wake") if has_threads else ("drive",)
    for function in (*tables.groups, *driver):
        module.declare(f"declare hidden void @{code_prefix}{function}()")
    members = [f"ptr @{first if f'{first}{member}' in shared else prefix}{member}" for member in MEMBERS]
    members += [f"ptr @{code_prefix}{name}" for name in driver]
    members += ["ptr null"] * (len(MEMBERS) + 3 - len(members))
    module.declare(
        f"@{prefix}program = constant {{{', '.join(['ptr'] * len(members))}}} {{{', '.join(members)}}}, align 8"
    )
    if target.architecture == "wasm32" and not shared:
        module.add(WIDE_PRODUCT)
    return module


SECTIONS: Final = re.compile(r"define([^@]*)@(\w+)\(([^)]*)\) #0 \{")
"""The head of a function. On boards each has a section of its own, so linkers leave out those that nobody calls."""


def functions_module(
    target: Target,
    name: str,
    prefixes: Sequence[str],
    functions: Sequence[tuple[str, int, int]],
    *,
    size_bits: int,
    has_files: bool,
    has_threads: bool,
) -> Module:
    """Return the module that defines `NAME_programs` and the functions of `NAME.h`.

    `prefixes` are those of the programs for each instruction set. `functions` are those of entries, by their number:
    the name, and the numbers of feeds and of fetches.
    """
    module = Module(target)
    programs = [f"{prefix}program" for prefix in prefixes]
    for program in programs:
        module.declare(f"@{program} = external constant ptr")
    listed = ", ".join([*(f"ptr @{program}" for program in programs), "ptr null"])
    module.declare(f"@{name}_programs = constant [{len(programs) + 1} x ptr] [{listed}], align 8")
    left_out = {*(() if has_files else OF_FILES), *(() if has_threads else OF_THREADS)}
    for function in _functions(name, functions, f"i{size_bits}", left_out):
        module.add(function if has_files else SECTIONS.sub(r'define\1@\2(\3) #0 section ".text.\2" {', function))
    return module


def initialising_module(target: Target, name: str, prefixes: Sequence[tuple[str, str]]) -> Module:
    """Return the module that defines `NAME_initialise`; `prefixes` are of each program and its first step."""
    module = Module(target)
    programs = [f"{prefix}program" for pair in prefixes for prefix in pair]
    for program in programs:
        module.declare(f"@{program} = external constant ptr")
    listed = ", ".join(f"ptr @{program}" for program in programs)
    module.declare(f"@{name}_initials = internal constant [{len(programs)} x ptr] [{listed}], align 8")
    module.add(_calling(f"{name}_initialise", "prograd_initialise", ("ptr", "i64"), (0, f"ptr @{name}_initials", 1)))
    return module


def _bytes(name: str, content: bytes, linkage: str) -> str:
    text = "".join(f"\\{byte:02X}" for byte in content)
    alignment = ALIGNMENTS.get(name.rpartition(".")[2], 8)
    return f'@{name} = {linkage} constant [{len(content)} x i8] c"{text}", align {alignment}'


def _functions(
    name: str, entries: Sequence[tuple[str, int, int]], size: str, left_out: Collection[str]
) -> Iterator[str]:
    program = f"ptr @{name}_programs"
    if "load" not in left_out:
        yield _calling(f"{name}_open", "prograd_open", ("ptr", "ptr", "ptr"), (0, program, 1, 2))
    yield _calling(f"{name}_begin", "prograd_begin", ("ptr", "ptr"), (0, program, 1))
    yield _calling(f"{name}_open_bytes", "prograd_open_bytes", ("ptr", "ptr", size, "ptr"), (0, program, 1, 2, 3))
    for general, types in GENERAL.items():
        if general not in left_out:
            types = tuple(size if type == "size" else type for type in types)
            yield _calling(f"{name}_{general}", f"prograd_{general}", types, tuple(range(len(types))))
    for begin in ("begin_epoch", "begin_evaluation"):
        yield _calling(f"{name}_{begin}", f"prograd_{begin}", ("ptr",), (0,), "void")
    yield _calling(f"{name}_state_sha256", "prograd_state_sha256", ("ptr", "ptr"), (0, 1), "void")
    yield _calling(f"{name}_state", "prograd_state", ("ptr", "ptr", "ptr"), (0, 1, 2), "ptr")
    yield _calling(f"{name}_error", "prograd_error", ("ptr",), (0,), "ptr")
    for number, (function, feeds, fetches) in enumerate(entries):
        yield _stepping(function, number, feeds, fetches)
    yield "declare i32 @prograd_step(ptr, i32, ptr, ptr)\n"


def _calling(function: str, other: str, types: Sequence[str], passed: Sequence[int | str], result: str = "i32") -> str:
    """Return a function that passes its arguments, and further ones, to another one."""
    parameters = ", ".join(f"{type} %a{i}" for i, type in enumerate(types))
    arguments = ", ".join(each if isinstance(each, str) else f"{types[each]} %a{each}" for each in passed)
    declared = ", ".join(each.split()[0] if isinstance(each, str) else types[each] for each in passed)
    call = f"call {result} @{other}({arguments})"
    body = f"  {call}\n  ret void" if result == "void" else f"  %r = {call}\n  ret {result} %r"
    return f"define {result} @{function}({parameters}) #0 {{\n{body}\n}}\ndeclare {result} @{other}({declared})\n"


def _stepping(function: str, number: int, feeds: int, fetches: int) -> str:
    """Return a function that makes a step of an entry, with a parameter for each feed and each fetch."""
    parameters = ", ".join(f"ptr %a{i}" for i in range(1 + feeds + fetches))
    lines: list[str] = []
    for array, count, first in (("feeds", feeds, 1), ("fetches", fetches, 1 + feeds)):
        lines.append(f"  %{array} = alloca [{max(count, 1)} x ptr]")
        for i in range(count):
            lines.append(f"  %{array}{i} = getelementptr [{count} x ptr], ptr %{array}, i32 0, i32 {i}")
            lines.append(f"  store ptr %a{first + i}, ptr %{array}{i}")
    lines.append(f"  %r = call i32 @prograd_step(ptr %a0, i32 {number}, ptr %feeds, ptr %fetches)")
    body = "\n".join(lines)
    return f"define i32 @{function}({parameters}) #0 {{\n{body}\n  ret i32 %r\n}}\n"
