"""Random bits by compiled code, for callers that draw many outside of steps, such as initial values and row orders."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Final

from runtime.codegen.machine import Target
from runtime.dtypes import Array
from runtime.engines.native.compiled import own_code
from runtime.engines.native.jit import Loaded

if TYPE_CHECKING:
    from runtime.codegen.ir import Module

MIN_COMPILED_WORDS: Final = 1 << 20
"""Number of words up to which NumPy draws them: compiling the code takes as long, unless it is cached."""


class CompiledRandomBits:
    """See `runtime.philox.use_random_bits_by`."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._asked = 0
        self._fill: Callable[..., None] | None = None

    def __call__(self, out: Array, seed: int, stream: int, step: int, first: int) -> bool:
        """Fill `out` with the words of a stream from a block on; return False if that is left to NumPy."""
        self._asked += out.size
        if self._asked < MIN_COMPILED_WORDS:
            return False
        if self._fill is None:
            self._fill = random_bits_code(self._target).function("words", 6)
        self._fill(out.ctypes.data, out.size // 4, seed, stream, step, first)
        return True


@cache
def random_bits_code(target: Target) -> Loaded:
    """Return the function words(out, blocks, seed, stream, step, first block)."""
    return own_code(target, "words", _write, ("words",))


def _write(module: Module) -> None:
    from runtime.codegen.ir import INT64, UINT32, pointer  # imported here because cached code is not written
    from runtime.codegen.math import philox

    f = module.function("words", [pointer(UINT32), *[INT64] * 5])
    out, blocks, seed, stream, step, first = f.arguments
    at_once = module.target.lanes(32) // 4
    whole = blocks & -at_once
    for start, stop, count in ((f.index(0), whole, at_once), (whole, blocks, 1)):
        for i in f.range(start, stop, count):
            f.store(philox(seed, step, stream, first + i, 4 * count), out, f.index(i) * 4)
    f.end()
