"""Pointwise chains of the native engine beside what the memory gives, in sizes beyond caches.

    python benchmarks/native_bandwidth.py [--threads 1,2] [--mebibytes 128]

A triad, a + 3 b into c, is written with plain loads and stores as the measure; NumPy's copy stands beside it, which
writes past the caches where the C library does. Chains have one to five operands, and are steps of the engine. All
take turns; figures are medians. Bytes are those that are read and written; what a store reads first is not counted.
"""

from __future__ import annotations

import os
from argparse import ArgumentParser
from collections.abc import Callable
from statistics import median
from threading import Thread
from time import perf_counter

import numpy as np

from prograd_proto import TensorType
from registry import OPS, Block
from runtime.codegen.ir import FLOAT32, INT64, Module, pointer
from runtime.codegen.ir.words import fma
from runtime.engines.native import jit, step_code
from runtime.engines.native.cpu import this_machine
from runtime.engines.native.helpers import Helpers
from runtime.engines.native.step import bind_code
from runtime.memory.aligned import aligned_array, aligned_bytes

Call = Callable[[], None]
TURNS = 7
UNROLL = 4


def main() -> None:
    options = ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--threads", default="1,2")
    options.add_argument("--mebibytes", type=int, default=128, help="of each operand")
    chosen = options.parse_args()
    count = chosen.mebibytes << 18
    arrays = [filled(count, i) for i in range(6)]
    print(f"{this_machine().name}, operands of {chosen.mebibytes} MiB, load {os.getloadavg()[0]:.1f}")
    for threads in map(int, chosen.threads.split(",")):
        table(arrays, threads)


def table(arrays: list[np.ndarray], threads: int) -> None:
    """A line for each contender; shares are of the triad in the same turn."""
    contenders = {"triad": (triad(arrays[:3], threads), 3), "copy by NumPy": (copied(arrays[:2], threads), 2)}
    contenders |= {f"chain of {n}": (chain(arrays[:n], arrays[-1], threads), n + 1) for n in range(1, 6)}
    for call, _ in contenders.values():
        call()
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(TURNS):
        for name, (call, touched) in contenders.items():
            start = perf_counter()
            call()
            rates[name].append(touched * arrays[0].nbytes / (perf_counter() - start) / 1e9)
    for name, found in rates.items():
        share = median(a / b for a, b in zip(found, rates["triad"], strict=True))
        print(
            f"{threads} thread{'s' * (threads > 1)}  {name:16}{median(found):7.1f} GB/s{share:7.2f} of the triad",
            flush=True,
        )


def filled(count: int, seed: int) -> np.ndarray:
    array = aligned_array(TensorType("float32", (count,)))
    array[:] = np.float32(seed + 1)
    return array


def triad(arrays: list[np.ndarray], threads: int) -> Call:
    """Each thread a stretch of it."""
    target = this_machine()
    module, lanes = Module(target), target.lanes(32)
    f = module.function("triad", [pointer(FLOAT32), pointer(FLOAT32), pointer(FLOAT32), INT64, INT64])
    a, b, c, start, stop = f.arguments
    for i in f.range(start, stop, UNROLL * lanes):
        for u in range(UNROLL):
            at = i + u * lanes
            f.store(fma(f.load(b, at, lanes), 3.0, f.load(a, at, lanes)), c, at)
    f.end()
    function = jit.load(jit.compiled(module), target).function("triad", 5)
    size = arrays[0].size // threads
    parts = [(*(x.ctypes.data for x in arrays), i * size, (i + 1) * size) for i in range(threads)]
    return side_by_side([lambda part=part: function(*part) for part in parts])


def copied(arrays: list[np.ndarray], threads: int) -> Call:
    source, to = (array.reshape(threads, -1) for array in arrays)
    return side_by_side([lambda i=i: np.copyto(to[i], source[i]) for i in range(threads)])


def side_by_side(calls: list[Call]) -> Call:
    def run() -> None:
        others = [Thread(target=call) for call in calls[1:]]
        for other in others:
            other.start()
        calls[0]()
        for other in others:
            other.join()

    return run


def chain(operands: list[np.ndarray], result: np.ndarray, threads: int) -> Call:
    """Multiplied, added and rectified in turn, as one step of the engine."""
    block = Block()
    values = [block.define(f"x{i}", TensorType("float32", x.shape)) for i, x in enumerate(operands)]
    total = OPS["mul"](values[0], 0.5)
    for value in values[1:]:
        total = OPS["relu"](OPS["add"](OPS["mul"](total, 0.5), value))
    for value in values:
        block.desc.parameters.add(tensor=value.name, state=value.name)
    block.desc.updates.add(tensor=total.name, state="result")
    step = step_code.lowered(block.desc, this_machine(), step_code.StepOptions((), threads))
    assert len(step.groups) == 1, "a chain is one group"
    states = {value.name: x for value, x in zip(values, operands, strict=True)} | {"result": result}
    code, loaded = step_code.compiled_step(step)
    compiled = bind_code(code, loaded, block.desc, states, aligned_bytes(max(step.memory.arena_bytes, 64)))
    helpers = Helpers(threads - 1)

    def run() -> None:
        with helpers.helping(compiled.driver):
            compiled()

    return run


if __name__ == "__main__":
    main()
