"""Times what the native engine emits: products against the machine's multiply-adds, functions and sums against a copy.

    python benchmarks/native_kernels.py                    all of it, for this CPU
    python benchmarks/native_kernels.py product            one table: product, convolution, function, row
    python benchmarks/native_kernels.py --set avx2         code for a narrower instruction set

One thread. A product takes turns with a loop of nothing but multiply-adds, before and after it; its share of what that
reaches is the median over the turns, between their quartiles. Times are of this thread's processor, so a busy machine
matters less; it still shares caches and, on some, the very units that add.
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import prod
from pathlib import Path
from time import thread_time

from runtime.blas import ask_for_one_thread

ask_for_one_thread()

import numpy as np  # noqa: E402 - BLAS counts its threads when it is loaded

from prograd_proto import TensorType  # noqa: E402 - likewise
from runtime.codegen import math  # noqa: E402 - likewise
from runtime.codegen.ir import FLOAT32, FLOAT64, Function, Index, Module, Value, pointer  # noqa: E402 - likewise
from runtime.codegen.kernels.matmul import Matrix, plan_product, product, stored  # noqa: E402 - likewise
from runtime.codegen.kernels.op_types import OpTypes  # noqa: E402 - likewise
from runtime.codegen.kernels.reduction import LARGEST, SUM, along_row  # noqa: E402 - likewise
from runtime.codegen.machine import Target, target  # noqa: E402 - likewise
from runtime.codegen.rules import RULES, CustomKernel, KernelContext  # noqa: E402 - likewise
from runtime.engines.native import jit  # noqa: E402 - likewise
from runtime.engines.native.cpu import this_machine  # noqa: E402 - likewise
from runtime.memory.aligned import aligned_array  # noqa: E402 - likewise

ELEMENTS = {"float32": FLOAT32, "float64": FLOAT64}
PRODUCTS = [
    *[(n, n, n, "NN", "float32") for n in (256, 512, 768, 1024, 2048)],
    (32, 256, 784, "NN", "float32"),
    (32, 128, 256, "NN", "float32"),
    (32, 256, 128, "NT", "float32"),
    (784, 256, 32, "TN", "float32"),
    (64, 1024, 1024, "NN", "float32"),
    *[(512, 512, 512, layout, "float32") for layout in ("NT", "TN", "TT")],
    *[(n, n, n, "NN", "float64") for n in (256, 512, 1024)],
]
CONVOLUTIONS = [
    (32, 32, 64, 64, 3),
    (32, 16, 128, 128, 3),
    (32, 8, 256, 256, 3),
    (32, 4, 512, 512, 3),
    (32, 28, 1, 32, 5),
]
"""Images, their height and width, channels in and out, the window's height and width."""

HEIGHT, WIDTH = 512, 1024
RNG = np.random.default_rng(0)
SECONDS = float(os.environ.get("SECONDS", "1"))
"""Seconds of measurement per row."""

Call = Callable[[], None]


def main() -> None:
    options = ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("tables", nargs="*", help="product, convolution, function, row; else all")
    options.add_argument("--set", dest="name", help="an instruction set that this CPU has")
    chosen = options.parse_args()
    of = target(chosen.name) if chosen.name else this_machine()
    print(f"{of.name} on {cpu_name()}, load {os.getloadavg()[0]:.1f}")
    tables = {"product": products, "convolution": convolutions, "function": functions, "row": rows}
    for name, table in tables.items():
        if not chosen.tables or name in chosen.tables:
            table(of)


def products(of: Target) -> None:
    peaks = {dtype: peak(of, dtype) for dtype in ELEMENTS}
    heads = f"{'tile':>7}{'GFLOP/s':>9}{'of peak':>9}{'quartiles':>13}{'BLAS':>7}{'ms to emit, compile':>21}"
    print(f"\n{'product':22}{'':4}{'dtype':9}{heads}")
    for m, n, k, layout, dtype in PRODUCTS:
        spin, spun = peaks[dtype]
        call, blas, tile, times = multiplication(of, m, n, k, layout, dtype)
        work = 2 * m * n * k
        repeat = max(1, spun // work)
        shares: list[float] = []
        blas_shares: list[float] = []
        best = float("inf")
        for before, ours, theirs, after in turns([spin, repeated(call, repeat), repeated(blas, repeat), spin]):
            reached = 2 * spun / (before + after)
            shares.append(repeat * work / ours / reached)
            blas_shares.append(repeat * work / theirs / reached)
            best = min(best, ours / repeat)
        low, middle, high = np.quantile(shares, [0.25, 0.5, 0.75])
        print(
            f"{f'{m} x {n} x {k}':22}{layout:4}{dtype:9}{tile:>7}{work / best / 1e9:9.0f}"
            f"{middle:9.2f}{low:8.2f}{high:5.2f}{np.median(blas_shares):7.2f}{times:>21}",
            flush=True,
        )


def peak(of: Target, dtype: str) -> tuple[Call, int]:
    """A loop of multiply-adds that depend on nothing but themselves, and how many operations it makes."""
    element, chains, count = ELEMENTS[dtype], 12 if of.registers == 16 else 24, 40_000
    lanes = of.lanes(element.bits)

    def build(f: Function, x: Value) -> None:
        a, b = f.load(x, 0, lanes), f.load(x, lanes, lanes)
        loop = f.loop(0, count, 1, [f.load(x, (2 + i) * lanes, lanes) for i in range(chains)])
        for _, sums in loop:
            loop.carry([f.fma(a, b, total) for total in sums])
        for i, total in enumerate(loop.results):
            f.store(total, x, (2 + i) * lanes)

    return built(of, build, [array(dtype, (chains + 2) * lanes)]), 2 * lanes * chains * count


def multiplication(of: Target, m: int, n: int, k: int, layout: str, dtype: str) -> tuple[Call, Call, str, str]:
    """Our product, NumPy's, the tile, and the times it took to make ours."""
    element = ELEMENTS[dtype]
    left = (k, 1) if layout[0] == "N" else (1, m)
    right = (n, 1) if layout[1] == "N" else (1, k)
    plan = plan_product(of, element.bits, m, n, k, left, right)
    a, b, c, room = array(dtype, m * k), array(dtype, k * n), array(dtype, m * n), array(dtype, max(plan.scratch, 1))

    def build(f: Function, a: Value, b: Value, c: Value, room: Value) -> None:
        result = Matrix(c, n)
        operands = Matrix(a, *left), Matrix(b, *right)
        product(f, plan, element, m, n, k, *operands, stored(result), partial=result, scratch=room)

    start = thread_time()
    module = written(of, build, [a, b, c, room])
    emitted = thread_time()
    jit.compiled(module)
    times = f"{1e3 * (emitted - start):.0f}, {1e3 * (thread_time() - emitted):.0f}"
    x = a.reshape(m, k) if layout[0] == "N" else a.reshape(k, m).T
    y = b.reshape(k, n) if layout[1] == "N" else b.reshape(n, k).T
    out = np.empty((m, n), dtype)
    call = built(of, build, [a, b, c, room])
    call()
    assert np.allclose(c.reshape(m, n), x @ y, rtol=1e-4, atol=1e-3)
    return call, lambda: np.matmul(x, y, out=out), f"{plan.rows}x{plan.width}", times


def convolutions(of: Target) -> None:
    """Time all three directions; where most of a window is border, fewer multiplications run than are counted."""
    spin, spun = peak(of, "float32")
    print(f"\n{'convolution':36}{'GFLOP/s':>9}{'of peak':>9}{'quartiles':>13}")
    for n, side, deep, wide, window in CONVOLUTIONS:
        x, w, y = (n, side, side, deep), (window, window, deep, wide), (n, side, side, wide)
        attributes = {"stride": (1, 1), "padding": (window // 2,) * 4, "dilation": (1, 1), "groups": 1}
        work = 2 * n * side * side * deep * wide * window * window
        for name, shapes in {"": (x, w, y), "_input_gradient": (y, w, x), "_filter_gradient": (x, y, w)}.items():
            call = convolution(of, f"conv2d{name}", shapes, attributes)
            repeat = max(1, spun // work)
            shares: list[float] = []
            best = float("inf")
            for before, ours, after in turns([spin, repeated(call, repeat), spin]):
                shares.append(repeat * work / ours * (before + after) / (2 * spun))
                best = min(best, ours / repeat)
            low, middle, high = np.quantile(shares, [0.25, 0.5, 0.75])
            label = f"{n} x {side}² x {deep} to {wide}, {window}²{name.replace('_', ' ')}"
            print(f"{label:46}{work / best / 1e9:9.0f}{middle:9.2f}{low:8.2f}{high:5.2f}", flush=True)


def convolution(of: Target, name: str, shapes: Sequence[tuple[int, ...]], attributes: Mapping[str, object]) -> Call:
    """An op of random operands, the last of these shapes being the result's."""
    form = RULES[name]
    assert isinstance(form, CustomKernel), f"{name} has loops of its own"
    types = [TensorType("float32", shape) for shape in shapes]
    stages = form.plan(of, OpTypes(types[:-1], types[-1:], attributes))
    arrays = [array("float32", prod(type.static_shape)) for type in types]
    arrays += [array("float32", -(-size // 4)) for size in (*stages.shared_scratch, *stages.thread_scratch)]
    module = Module(of)
    for number, stage in enumerate(stages.steps):
        f = module.function(f"stage_{number}", [pointer(FLOAT32)] * len(arrays))
        operands, shared, own = f.arguments[:2], f.arguments[3:], f.arguments[3 + len(stages.shared_scratch) :]
        work = KernelContext(
            f,
            operands,
            f.arguments[2:3],
            lambda i, element, f=f, at=shared: f.cast(at[i], element),
            lambda i, element, f=f, at=own: f.cast(at[i], element),
            {},
            lambda: None,
        )
        stage.write(work, f.index(stage.first), f.index(stage.first + stage.work_items))
        f.end()
    code = jit.load(jit.compiled(module), of)
    functions = [code.function(f"stage_{number}", len(arrays)) for number in range(len(stages.steps))]
    addresses = [x.ctypes.data for x in arrays]

    def call(kept: object = arrays) -> None:
        for function in functions:
            function(*addresses)

    return call


def functions(of: Target) -> None:
    n = 1 << 16
    print(f"\n{'function of 65,536':22}{'dtype':>9}{'ns each':>9}{'copies':>8}{'NumPy':>8}")
    for dtype in ELEMENTS:
        x = array(dtype, n)
        x[:] = RNG.uniform(0.1, 3, n)
        copy = elementwise(of, lambda v: v, x)
        for name in ("exp", "log", "tanh", "sigmoid", "erf", "expm1", "log1p", "exp2", "log2", "sinh"):
            numpys = getattr(np, name, None)
            calls = [copy, elementwise(of, getattr(math, name), x)]
            calls += [partial(numpys, x, np.empty_like(x))] if numpys else []
            copied, ours, *theirs = np.median(list(turns(calls)), axis=0)
            ratio = f"{theirs[0] / ours:8.1f}" if theirs else f"{'':8}"
            print(f"{name:22}{dtype:>9}{1e9 * ours / n:9.3f}{ours / copied:8.1f}{ratio}", flush=True)


def elementwise(of: Target, expression: Callable[[Value], Value], x: np.ndarray) -> Call:
    lanes = of.lanes(8 * x.itemsize)

    def build(f: Function, x: Value, y: Value) -> None:
        for i in f.range(0, size, 4 * lanes):
            for u in range(4):
                f.store(expression(f.load(x, i + u * lanes, lanes)), y, i + u * lanes)

    size = x.size
    return built(of, build, [x, np.empty_like(x)])


def rows(of: Target) -> None:
    """Reductions and a softmax of rows, beside a copy of them."""
    print(f"\n{f'of {HEIGHT} x {WIDTH:,}':22}{'us':>9}{'copies':>8}")
    x = array("float32", HEIGHT * WIDTH)
    copy = elementwise(of, lambda v: v, x)
    for name, row in {"sum of rows": sum_of, "softmax": softmax}.items():
        call = built(of, partial(each, row), [x, np.empty_like(x)])
        copied, ours = np.median(list(turns([copy, call])), axis=0)
        print(f"{name:22}{1e6 * ours:9.0f}{ours / copied:8.1f}", flush=True)


def each(row: Callable[[Function, Value, Value], None], f: Function, x: Value, y: Value) -> None:
    for i in f.range(0, HEIGHT):
        row(f, x + i * WIDTH, y + i * WIDTH)


def sum_of(f: Function, row: Value, out: Value) -> None:
    vector = FLOAT32.of(f.target.lanes())
    [s] = along_row(f, WIDTH, lambda j, t: [f.load(row, j, vector.lanes, t)], [SUM], [vector])
    f.store(s, out)


def softmax(f: Function, row: Value, out: Value) -> None:
    vector = FLOAT32.of(f.target.lanes())
    [largest] = along_row(f, WIDTH, lambda j, t: [f.load(row, j, vector.lanes, t)], [LARGEST], [vector])

    def power(j: Index, _: int | None) -> list[Value]:
        e = math.exp(f.load(row, j, vector.lanes) - largest)
        f.store(e, out, j)
        return [e]

    [s] = along_row(f, WIDTH, power, [SUM], [vector])
    share = 1.0 / s
    for j in f.range(0, WIDTH, vector.lanes):
        f.store(f.load(out, j, vector.lanes) * share, out, j)


def turns(calls: list[Call]) -> Iterator[list[float]]:
    """Processor times of all of them, over and over, for some time."""
    for call in calls:
        call()
    spent = 0.0
    while spent < SECONDS:
        times: list[float] = []
        for call in calls:
            start = thread_time()
            call()
            times.append(thread_time() - start)
        spent += sum(times)
        yield times


def repeated(call: Call, count: int) -> Call:
    def calls() -> None:
        for _ in range(count):
            call()

    return calls


def built(of: Target, build: Callable[..., None], arrays: list[np.ndarray]) -> Call:
    module = written(of, build, arrays)
    function = jit.load(jit.compiled(module), of).function("built", len(arrays))
    addresses = [x.ctypes.data for x in arrays]
    return lambda arrays=arrays: function(*addresses)


def written(of: Target, build: Callable[..., None], arrays: list[np.ndarray]) -> Module:
    module = Module(of)
    f = module.function("built", [pointer(ELEMENTS[x.dtype.name]) for x in arrays])
    build(f, *f.arguments)
    f.end()
    return module


def array(dtype: str, size: int) -> np.ndarray:
    x = aligned_array(TensorType(dtype, (size,)))
    x[:] = RNG.standard_normal(size)
    return x


def cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return sys.platform
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), sys.platform)


if __name__ == "__main__":
    main()
