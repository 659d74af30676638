"""Random bits by compiled code outside of steps, such as initial values and the order of rows."""

from __future__ import annotations

from runtime.codegen.machine import Target
from runtime.dtypes import Array
from runtime.engines.native.driver import driver_code


class CompiledRandomBits:
    """See `runtime.philox.use_random_bits_by`."""

    def __init__(self, target: Target) -> None:
        """Take the function from the module of the driver, which every run loads."""
        self._fill = driver_code(target).function("words", 6)

    def __call__(self, out: Array, seed: int, stream: int, step: int, first: int) -> bool:
        """Fill `out` with the words of a stream from a block on, and return True."""
        self._fill(out.ctypes.data, out.size // 4, seed, stream, step, first)
        return True
