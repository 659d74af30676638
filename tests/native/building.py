"""Small functions built, compiled and called for every instruction set that this machine can run."""

import platform
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from native.guarded import guarded

from runtime.codegen.ir import DTYPES, Function, Module, Value, pointer
from runtime.codegen.machine import Target, target
from runtime.engines.native import jit
from runtime.engines.native.amx import refused_tiles
from runtime.engines.native.cpu import cpu_features, usable

HERE = [
    name
    for name in usable(cpu_features(), platform.machine())
    if not target(name).has_matrix_tiles or not refused_tiles()  # which asks the system for this process
]
TARGETS = BEST, *OTHERS = [target(name) for name in HERE if name != "avx512_vnni" or name == HERE[0]]
"""Targets of this machine. AVX-512 VNNI has the code of the best set for bytes, and of AVX-512 for other numbers."""

SETS = [name for name in ("amx", "avx512_bf16", "avx512", "avx2", "neon") if name in HERE]
"""Instruction sets that give equal bits, and whose code for floating-point numbers differs."""


def every_target(test: Callable[..., None]) -> Callable[..., None]:
    """Try a test for every instruction set of this machine, and for one of them with each commit."""
    return pytest.mark.sampled(len(TARGETS))(pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)(test))


def call(
    target: Target, build: Callable[..., None], arrays: Sequence[np.ndarray], end: bool = True
) -> list[np.ndarray]:
    """The arrays, between forbidden pages, after a function that `build(f, *pointers)` writes."""
    module = Module(target)
    f = module.function("built", [pointer(DTYPES[array.dtype.name]) for array in arrays])
    build(f, *f.arguments)
    f.end()
    copies = [guarded(array, end) for array in arrays]
    run(module, copies)
    return copies


def run(module: Module, arrays: Sequence[np.ndarray]) -> None:
    """Compile the module and call its function `built` with the arrays."""
    function = jit.load(jit.compiled(module), module.target).function("built", len(arrays))
    function(*[array.ctypes.data for array in arrays])


def pointwise(target: Target, expressions, out: np.dtype, *xs: np.ndarray) -> list[np.ndarray]:
    """Return the result of each vector expression for these elements, the last ones in a masked tail."""
    lanes = target.lanes(8 * max(x.itemsize for x in xs))
    size = xs[0].size

    def build(f: Function, *pointers: Value) -> None:
        operands, results = pointers[: len(xs)], pointers[len(xs) :]
        for i in f.range(0, size // lanes * lanes, lanes):
            for expression, y in zip(expressions, results, strict=True):
                f.store(expression(*(f.load(x, i, lanes) for x in operands)), y, i)
        if tail := size % lanes:
            i = size - tail
            for expression, y in zip(expressions, results, strict=True):
                f.store(expression(*(f.load(x, i, lanes, tail) for x in operands)), y, i, tail)

    return call(target, build, [*xs, *(np.zeros(size, out) for _ in expressions)])[len(xs) :]
