"""The code of a step, ready to be called: kept by an earlier run, or written, compiled and kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from runtime.engines.native import jit
from runtime.engines.native.cache.entry import Entry, Label
from runtime.engines.native.cache.kept import find, keep
from runtime.engines.native.cache.key import key_of
from runtime.engines.native.emission.code import Source
from runtime.engines.native.ir import Module
from runtime.engines.native.target import Target


class Code(NamedTuple):
    """Code in memory.

    Attributes:
        loaded: functions by name.
        functions: their names, as `Source` has them.
    """

    loaded: jit.Loaded
    functions: list[list[str]]


def own_code(target: Target, name: str, write: Callable[[Module], None]) -> jit.Loaded:
    """The functions of a module that is the same for all programs, under a name of ours."""

    def source() -> Source:
        module = Module(target)
        write(module)
        return Source(module, [])

    return compiled_code("", target, (name.encode(),), source).loaded


def compiled_code(program: str, target: Target, parts: Sequence[bytes], write: Callable[[], Source]) -> Code:
    """The code for a target of what these parts say.

    Args:
        program: the name of the program, for who lists what is kept.
        target: what for.
        parts: all that the code depends on besides.
        write: gives the code if it is not kept; it follows from target and parts.
    """
    try:
        key = key_of(target, parts)
    except OSError:  # our sources are not in files
        source = write()
        return Code(jit.load(jit.compiled(source.module), target), source.functions)
    kept = find(key)
    if kept is not None:
        return Code(jit.load(kept.objects, target), kept.label.functions)
    source = write()
    objects = jit.compiled(source.module)
    code = Code(jit.load(objects, target), source.functions)
    keep(Entry(Label(key, program, target.name, source.functions), objects))
    return code
