"""Random bits outside of steps, for initial values and the order of rows."""

from __future__ import annotations

from runtime.codegen.ir import INT64, UINT32, Module, pointer
from runtime.codegen.math import philox


def write_random_bits(module: Module) -> None:
    """Write the function words(out, blocks, seed, stream, step, first block)."""
    f = module.function("words", [pointer(UINT32), *[INT64] * 5])
    out, blocks, seed, stream, step, first = f.arguments
    at_once = module.target.lanes(32) // 4
    whole = blocks & -at_once
    for start, stop, count in ((f.index(0), whole, at_once), (whole, blocks, 1)):
        for i in f.range(start, stop, count):
            f.store(philox(seed, step, stream, first + i, 4 * count), out, f.index(i) * 4)
    f.end()
