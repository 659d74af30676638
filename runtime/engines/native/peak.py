"""The peak rate of multiply-adds of this machine, with which products are compared."""

from __future__ import annotations

from threading import Thread
from time import perf_counter
from typing import Final

import numpy as np

from runtime.codegen.ir import FLOAT32, INT64, Module, pointer
from runtime.codegen.machine import Target
from runtime.engines.native import jit
from runtime.engines.native.cpu import this_machine

ITERATIONS: Final = 1_000_000
MEASUREMENTS: Final = 9
"""Number of measurements, of which the fastest counts, because other processes are not part of the peak."""


def peak(threads: int) -> float:
    """Return the peak rate of `threads` threads in float32, in operations per second; raise Unavailable."""
    jit.require_available()
    target = this_machine()
    chains = 12 if target.registers == 16 else 24
    code = jit.load(jit.compiled(_loop(target, chains)), target)
    spin = code.function("spin", 1)
    work = 2 * target.lanes() * chains * ITERATIONS
    rooms = [np.zeros((chains + 2) * target.lanes(), np.float32) for _ in range(threads)]
    best = float("inf")
    for _ in range(MEASUREMENTS):
        others = [Thread(target=spin, args=(room.ctypes.data,)) for room in rooms[1:]]
        start = perf_counter()
        for other in others:
            other.start()
        spin(rooms[0].ctypes.data)
        for other in others:
            other.join()
        best = min(best, perf_counter() - start)
    return work * threads / best


def _loop(target: Target, chains: int) -> Module:
    """Return a loop over independent chains of multiply-adds."""
    module = Module(target)
    f = module.function("spin", [pointer(INT64)])
    x, lanes = f.cast(f.arguments[0], FLOAT32), target.lanes()
    a, b = f.load(x, 0, lanes), f.load(x, lanes, lanes)
    loop = f.loop(0, ITERATIONS, 1, [f.load(x, (2 + i) * lanes, lanes) for i in range(chains)])
    for _, sums in loop:
        loop.carry([f.fma(a, b, total) for total in sums])
    for i, total in enumerate(loop.results):
        f.store(total, x, (2 + i) * lanes)
    f.end()
    return module
