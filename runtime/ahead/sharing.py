"""Functions that differ in whole numbers only, such as extents of axes: one function computes them for all.

It is the text of the first with parameters for these numbers. What is left of each function calls it with the address
of its own numbers. Only addresses and the bounds of loops become parameters, so no bit of a result changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from runtime.codegen.ir import Module

_HEAD: Final = re.compile(r"define hidden void @([\w.]+)\(ptr %a0, i64 %a1, i64 %a2, i64 %a3\) #0 \{\nentry:\n")

_PLACES: Final = re.compile(
    r"^  %\w+ = (?:(?:add|sub|mul|icmp \w+) i64 |phi i64 |getelementptr \w+, ptr %\w+, i64 )[^\n]*", re.MULTILINE
)
"""Instructions whose whole numbers may become parameters.

Divisions, shifts and lanes are left out: with a number that is known they are far shorter.
"""

_NUMBER: Final = re.compile(r"(?<=[ ])-?\d+(?=[,\n ]|$)")

CHARACTERS_PER_BYTE: Final = 14
"""Characters of text for a byte of code; 13 to 17 were measured."""

CALL_BYTES, PARAMETER_BYTES = 24, 12
"""Bytes of a call of a shared function, and of a parameter in it; each caller has 4 for a number."""


class _Function(NamedTuple):
    """A function as text around whole numbers.

    Attributes:
        module: number of its module.
        name: its name in the object.
        parts: text before, between and behind the numbers.
        numbers: the numbers.
    """

    module: int
    name: str
    parts: tuple[str, ...]
    numbers: tuple[int, ...]


def share(modules: Sequence[Module], prefix: str) -> None:
    """Let functions of modules that differ in whole numbers only call one, where that makes the code shorter.

    `prefix` begins the names of those functions; each is written into the module of the first that calls it. On x86-64
    functions of different modules share none, because `runtime.ahead.resolved` could not apply the relocations.
    """
    alike: dict[object, list[_Function]] = {}
    for number, module in enumerate(modules):
        apart = number if module.target.architecture == "x86_64" else 0
        for text in module.functions:
            if found := _function(number, text):
                alike.setdefault((apart, found.parts), []).append(found)
    for number, group in enumerate(group for group in alike.values() if len(group) > 1):
        _share(modules, group, f"{prefix}shared_{number}")


def _function(module: int, text: str) -> _Function | None:
    head = _HEAD.match(text)
    if head is None:
        return None
    parts, numbers, at = list[str](), list[int](), head.end()
    for found in _numbers(text, head.end()):
        parts.append(text[at : found[0]])
        numbers.append(int(text[found[0] : found[1]]))
        at = found[1]
    return _Function(module, head[1], (*parts, text[at:]), tuple(numbers))


def _numbers(text: str, start: int) -> Iterator[tuple[int, int]]:
    """Return the beginning and the end of each number that may become a parameter."""
    for line in _PLACES.finditer(text, start):
        for number in _NUMBER.finditer(text, line.start() + 3, line.end()):
            yield number.span()


def _share(modules: Sequence[Module], group: Sequence[_Function], name: str) -> None:
    columns = list(zip(*(function.numbers for function in group), strict=True))
    parameters = {column: i for i, column in enumerate(dict.fromkeys(c for c in columns if len(set(c)) > 1))}
    size = sum(map(len, group[0].parts)) // CHARACTERS_PER_BYTE
    added = len(group) * (CALL_BYTES + 4 * len(parameters)) + PARAMETER_BYTES * len(parameters)
    if not parameters or size * (len(group) - 1) <= added or not all(map(_fits, parameters)):
        return
    numbers = [f"%n{parameters[c]}" if c in parameters else str(c[0]) for c in columns]
    body = "".join(text for pair in zip(group[0].parts, [*numbers, ""], strict=True) for text in pair)
    loads = "".join(
        f"  %at{i} = getelementptr i32, ptr %numbers, i64 {i}\n  %read{i} = load i32, ptr %at{i}, align 4\n"
        f"  %n{i} = sext i32 %read{i} to i64\n"
        for i in range(len(parameters))
    )
    taken = "ptr %a0, ptr %numbers, i64 %a1, i64 %a2, i64 %a3"
    modules[group[0].module].add(f"define hidden void @{name}({taken}) #0 {{\nentry:\n{loads}{body}")
    for i, function in enumerate(group):
        module, given = modules[function.module], f"@{function.name}.numbers"
        listed = ", ".join(f"i32 {column[i]}" for column in parameters)
        module.declare(f"{given} = private unnamed_addr constant [{len(parameters)} x i32] [{listed}], align 4")
        if function.module != group[0].module:
            module.declare(f"declare hidden void @{name}(ptr, ptr, i64, i64, i64)")
        module.replace(
            function.name,
            f"define hidden void @{function.name}(ptr %a0, i64 %a1, i64 %a2, i64 %a3) #0 {{\nentry:\n"
            f"  tail call void @{name}({taken.replace('%numbers', given)})\n  ret void\n}}\n",
        )


def _fits(column: tuple[int, ...]) -> bool:
    return all(-(1 << 31) <= number < 1 << 31 for number in column)
