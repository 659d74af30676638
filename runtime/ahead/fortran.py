"""A module of Fortran with the functions of a library, by `iso_c_binding`."""

from __future__ import annotations

from typing import Final

from runtime.ahead.library import Library
from runtime.ahead.texts import Parameter, parameters_of, shards_of

KINDS: Final = {
    "uint8_t": "integer(c_int8_t)",
    "uint16_t": "integer(c_int16_t)",
    "int32_t": "integer(c_int32_t)",
    "int64_t": "integer(c_int64_t)",
    "float": "real(c_float)",
    "double": "real(c_double)",
}
"""Types of Fortran by type of C."""


def module_of(library: Library) -> str:
    """Return NAME.f90: arrays are as in C, so the first index of Fortran is the last axis of a shape."""
    name = library.name
    lines = [
        f"! The functions of {name}.h; arrays of C are row-major: the first index here is the last axis there.",
        f"module {name}",
        "  use, intrinsic :: iso_c_binding",
        "  implicit none",
        f"  integer(c_size_t), parameter :: {name}_memory_bytes = {library.memory_bytes}_c_size_t",
        *_numbers_of_shards(library),
        "  interface",
    ]
    text, pointer = "character(kind=c_char), intent(in) :: {}(*)", "type(c_ptr), value :: {}"
    general = {
        "open": ("type(c_ptr), intent(out) :: self", text.format("states"), pointer.format("memory")),
        "load": (pointer.format("self"), text.format("path")),
        "save": (pointer.format("self"), text.format("path")),
        "set": (
            *(pointer.format("self"), text.format("state"), pointer.format("elements")),
            "integer(c_size_t), value :: bytes",
        ),
    }
    if library.initialises:
        general["initialise"] = (pointer.format("self"), "integer(c_int64_t), value :: seed")
    if library.threads > 1:
        general["threads"] = (pointer.format("self"), "integer(c_int), value :: threads")
    for function, declared in general.items():
        lines += _function(f"{name}_{function}", "integer(c_int)", declared)
    for begin in ("begin_epoch", "begin_evaluation"):
        lines += _subroutine(f"{name}_{begin}", (pointer.format("self"),))
    lines += _subroutine(
        f"{name}_state_sha256", (pointer.format("self"), "character(kind=c_char), intent(out) :: digits(65)")
    )
    lines += _function(f"{name}_error", "type(c_ptr)", (pointer.format("self"),))
    size = "integer(c_size_t), intent(out), optional :: bytes"
    lines += _function(f"{name}_state", "type(c_ptr)", (pointer.format("self"), text.format("state"), size))
    for each in library.functions:
        declared = (pointer.format("self"), *map(_declared, parameters_of(each)))
        lines += _function(each.name, "integer(c_int)", declared)
    if library.shards:
        number = "integer(c_int), value :: {}"
        first = (pointer.format("self"), number.format("sums"), number.format("shards"))
        lines += _function("prograd_shards_bytes", "integer(c_int64_t)", first)
        arrays = ("type(c_ptr), intent(in) :: feeds(*)", "type(c_ptr), intent(in) :: fetches(*)")
        last = (pointer.format("room"), "type(c_funptr), value :: gather", pointer.format("context"))
        declared = (*first, *arrays, number.format("rank"), number.format("ranks"), *last)
        lines += _function("prograd_step_in_shards", "integer(c_int)", declared)
    return "\n".join([*lines, "  end interface", f"end module {name}", ""])


def _numbers_of_shards(library: Library) -> list[str]:
    """Return the constants with which a step in shards is asked for."""
    numbers: list[str] = []
    for method, shards, sums in shards_of(library):
        numbers += [f"  integer(c_int), parameter :: {library.name}_{method}_shards = {shards}"]
        numbers += [f"  integer(c_int), parameter :: {library.name}_{method}_sums_entry = {sums}"]
    return numbers


def _declared(parameter: Parameter) -> str:
    """Return the declaration of a parameter: a number, or an array of the shape with its axes in reverse."""
    extents = ", ".join(map(str, reversed(parameter.type.static_shape)))
    intent = "intent(in)" if parameter.is_fed else "intent(out), optional"
    return f"{KINDS[parameter.c_type]}, {intent} :: {parameter.name}{f'({extents})' if extents else ''}"


def _function(name: str, result: str, declared: tuple[str, ...]) -> list[str]:
    return [*_head(f"{result} function", name, declared), "    end function"]


def _subroutine(name: str, declared: tuple[str, ...]) -> list[str]:
    return [*_head("subroutine", name, declared), "    end subroutine"]


def _head(what: str, name: str, declared: tuple[str, ...]) -> list[str]:
    names = [line.partition(":: ")[2].partition("(")[0] for line in declared]
    line = f"    {what} {name}({', '.join(names)}) bind(c)"
    return [*_wrapped(line), "      import", *(f"      {each}" for each in declared)]


def _wrapped(line: str, most: int = 100) -> list[str]:
    """Return a line, continued where it is too long for a reader."""
    lines: list[str] = []
    while len(line) > most:
        at = line.rfind(", ", 0, most) + 1
        lines.append(f"{line[:at]} &")
        line = f"        {line[at:].strip()}"
    return [*lines, line]
