"""Measures every parameter of the cost model, `runtime/codegen/costs.py`, on this machine.

    python benchmarks/costs.py                    all parameters
    python benchmarks/costs.py PACKED TRANSFORM   those whose names contain one of these words

It prints the value in the file, the value measured here and the ratio of the two. The tables `PRICED` and `COUNTED`
have the steps by which most parameters are measured. A function measures each of the others; its docstring says how.
Times are of this thread's processor, the lower quartile over some repetitions, so a busy machine matters less. Bounds
(`MIN_…`, `MAX_…`) are chosen and not measured.

Values of other machines differ: prices only have to rank the ways to compute a result. A ratio above 2 or below 0.5 is
a reason to look at the choices that the parameter enters; a new value may change bits, see docs/reproducibility.md.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial, reduce
from threading import Thread
from time import perf_counter, thread_time
from typing import Any, Final, NamedTuple

os.environ["PROGRAD_CACHE"] = ""  # variants are forced here, so code in the cache would be another variant's

from runtime.blas import ask_for_one_thread

ask_for_one_thread()

import numpy as np  # noqa: E402 - BLAS counts its threads when it is loaded

from compiler import Program  # noqa: E402 - likewise
from prograd_proto import TensorType  # noqa: E402 - likewise
from registry import OPS, Block, Value  # noqa: E402 - likewise
from runtime import Run  # noqa: E402 - likewise
from runtime.codegen import costs, ir  # noqa: E402 - likewise
from runtime.codegen.emit import large_products  # noqa: E402 - likewise
from runtime.codegen.groups.instructions import instructions  # noqa: E402 - likewise
from runtime.codegen.ir import FLOAT32, INT64, Function, Module, pointer  # noqa: E402 - likewise
from runtime.codegen.kernels.conv import bfloat16, variants  # noqa: E402 - likewise
from runtime.codegen.kernels.conv.filter_plan import FilterGradient  # noqa: E402 - likewise
from runtime.codegen.kernels.conv.plan import packed_filter_cycles  # noqa: E402 - likewise
from runtime.codegen.kernels.depth import DepthLoop, PairForm  # noqa: E402 - likewise
from runtime.codegen.kernels.matmul import plan as matmul_plan  # noqa: E402 - likewise
from runtime.codegen.kernels.matmul.plan import tile_cycles  # noqa: E402 - likewise
from runtime.codegen.kernels.pair_chains import MAX_CHAINED_ROWS  # noqa: E402 - likewise
from runtime.codegen.kernels.tiles import tile  # noqa: E402 - likewise
from runtime.codegen.machine import MATRIX_ROWS  # noqa: E402 - likewise
from runtime.codegen.rules import conv as conv_rules  # noqa: E402 - likewise
from runtime.codegen.rules.conv import shape_of  # noqa: E402 - likewise
from runtime.engines.native import jit, step_code  # noqa: E402 - likewise
from runtime.engines.native.cpu import this_machine  # noqa: E402 - likewise
from runtime.engines.native.step import bind_code  # noqa: E402 - likewise
from runtime.memory.aligned import aligned_array, aligned_bytes  # noqa: E402 - likewise

HERE = this_machine()
LANES = HERE.lanes()
RNG = np.random.default_rng(0)
SECONDS = float(os.environ.get("SECONDS", "0.1"))
"""Seconds for one measurement."""

MEASURED: dict[str, Callable[[], float]] = {}
"""By parameter, the function that measures it."""


def measures(*names: str) -> Callable[[Callable[[], float]], Callable[[], float]]:
    """Register a function that returns the value of these parameters on this machine."""

    def register(function: Callable[[], float]) -> Callable[[], float]:
        MEASURED.update(dict.fromkeys(names, function))
        return function

    return register


@cache
def value_of(name: str) -> float:
    """Return the value of a parameter on this machine."""
    return MEASURED[name]()


def main() -> None:
    words = sys.argv[1:]
    print(f"{HERE.name}, {1 / cycle_nanoseconds():.2f} GHz, load {os.getloadavg()[0]:.1f}")
    print(f"{'parameter':34}{'in the file':>12}{'measured':>12}{'ratio':>8}")
    for name in MEASURED:
        if not words or any(word in name for word in words):
            value, found = getattr(costs, name), value_of(name)
            print(f"{name:34}{value:12.4g}{found:12.4g}{found / value:8.2f}", flush=True)


# How times are taken.


def cycles_of(call: Callable[[], object]) -> float:
    """Return the cycles of a call: the lower quartile over repetitions."""
    call()
    start = thread_time()
    call()
    once = max(thread_time() - start, 1e-7)
    inner = max(int(0.002 / once), 1)
    times: list[float] = []
    while sum(times) * inner < SECONDS or len(times) < 5:
        start = thread_time()
        for _ in range(inner):
            call()
        times.append((thread_time() - start) / inner)
    return sorted(times)[len(times) // 4] * 1e9 / cycle_nanoseconds()


class Step:
    """Ops as one step of the engine on one thread, whose phases can be timed one by one."""

    def __init__(self, write: Callable[..., Value | Sequence[Value]], *operands: np.ndarray, threads: int = 1) -> None:
        block = Block()
        names = [f"x{i}" for i in range(len(operands))]
        values = [
            block.define(name, TensorType(x.dtype.name, x.shape)) for name, x in zip(names, operands, strict=True)
        ]
        made = write(*values)
        results = [made] if isinstance(made, Value) else list(made)
        states: dict[str, np.ndarray] = {}
        for name, x in zip(names, operands, strict=True):
            block.desc.parameters.add(tensor=name, state=name)
            states[name] = aligned_array(TensorType(x.dtype.name, x.shape))
            states[name][...] = x
        for value in results:
            block.desc.updates.add(tensor=value.name, state=f"new {value.name}")
            states[f"new {value.name}"] = aligned_array(value.type)
        self.lowered = step_code.lowered(block.desc, HERE, step_code.StepOptions((), threads))
        code, loaded = step_code.compiled_step(self.lowered)
        self.memory = states
        self.step = bind_code(code, loaded, block.desc, states, aligned_bytes(max(self.lowered.memory.arena_bytes, 64)))

    def cycles(self, phase: int | None = None) -> float:
        """Return the cycles of all phases, or of one."""
        self.step()
        if phase is None:
            return cycles_of(self.step) - driver_cycles()
        number = phase % self.lowered.phases.count
        return cycles_of(lambda: self.step.driver.drive(number, number + 1)) - driver_cycles()

    @property
    def price(self) -> float:
        """Cycles of all kernel steps by the cost model."""
        return sum(step.cost for steps in self.lowered.steps for step in steps.steps)


@cache
def driver_cycles() -> float:
    """Return the cycles of an empty step."""
    step = Step(lambda x: OPS["relu"](x), floats(16))
    return cycles_of(step.step)


def by_price(name: str, make: Callable[[], Step]) -> float:
    """Return a parameter whose multiple is the price of a step."""
    step = make()
    return getattr(costs, name) * step.cycles() / step.price


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("f4")


def product(m: int, n: int, k: int) -> Step:
    return Step(lambda a, b: OPS["matmul"](a, b), floats(m, k), floats(k, n))


CONV: dict[str, Any] = {"stride": (1, 1), "dilation": (1, 1), "groups": 1}


@contextmanager
def forced(holder: object, name: str, value: object) -> Iterator[None]:
    """Set an attribute for a while."""
    before = getattr(holder, name)
    setattr(holder, name, value)
    try:
        yield
    finally:
        setattr(holder, name, before)


def convolution(
    variant: type, images: int, size: int, deep: int, wide: int, window: int, op: str = "", **more: Any
) -> Step:
    """Return a convolution, or a gradient of it, by one variant."""
    groups = more.pop("groups", 1)
    attributes = {**CONV, "padding": (window // 2,) * 4, "groups": groups}
    x, y = (images, size, size, deep), (images, size, size, wide)
    w = (window, window, deep // groups, wide)
    shapes = {"": (x, w), "_input_gradient": (y, w), "_filter_gradient": (x, y)}[op]
    if op:
        attributes["shape"] = x if op == "_input_gradient" else w
    holder = "FILTER_GRADIENTS" if op == "_filter_gradient" else "CONVOLUTIONS"
    with forced(variants, holder, (variant,)):
        return Step(lambda a, b: OPS[f"conv2d{op}"](a, b, **attributes), *(floats(*shape) for shape in shapes))


def loop(
    body: Callable[[Function, Sequence[ir.Value], ir.Value, ir.Value], list[ir.Value]],
    chains: int,
    type: ir.Type,
    size: int = 4096,
    turns: int = 20_000,
) -> float:
    """Return the cycles of a turn of a loop that carries chains of values; it gets the counter and an address."""
    module = Module(HERE)
    f = module.function("loop", [pointer(type.of(0))])
    x = f.arguments[0]
    at = f.loop(0, turns, 1, [f.load(x, i * max(type.lanes, 1), type.lanes) for i in range(chains)])
    for i, values in at:
        at.carry(body(f, values, i, x))
    for i, value in enumerate(at.results):
        f.store(value, x, i * max(type.lanes, 1))
    f.end()
    call = jit.load(jit.compiled(module), HERE).function("loop", 1)
    memory = aligned_bytes(size * 8)
    return cycles_of(lambda: call(memory.ctypes.data)) / turns


# Multiply-adds.


@measures("CYCLE_NANOSECONDS")
@cache
def cycle_nanoseconds() -> float:
    """A chain of 64 additions and exclusive ors, each of which waits for the one before; a cycle each."""
    module, turns = Module(HERE), 20_000
    f = module.function("chain", [pointer(INT64)])
    x, y = f.load(f.arguments[0], 0), f.load(f.arguments[0], 1)
    chain = f.loop(0, turns, 1, [x])
    for _, [value] in chain:
        for _ in range(32):
            value = (value + y) ^ x
        chain.carry([value])
    f.store(chain.results[0], f.arguments[0], 0)
    f.end()
    call, memory = jit.load(jit.compiled(module), HERE).function("chain", 1), aligned_bytes(64)
    times: list[float] = []
    for _ in range(50):
        start = thread_time()
        call(memory.ctypes.data)
        times.append(thread_time() - start)
    return sorted(times)[len(times) // 4] * 1e9 / (64 * turns)


VECTOR = FLOAT32.of(LANES)


@measures("MULTIPLY_ADDS_PER_CYCLE")
@cache
def multiply_adds_per_cycle() -> float:
    """Chains of multiply-adds in registers, 12 at once, or 24 with 32 registers."""
    chains = 24 if HERE.registers == 32 else 12
    return chains / loop(lambda f, xs, i, at: [f.fma(x, x, x) for x in xs], chains, VECTOR)


@measures("MULTIPLY_ADD_LATENCY_CYCLES")
def multiply_add_latency() -> float:
    """One chain of multiply-adds."""
    return loop(lambda f, xs, i, at: [f.fma(x, x, x) for x in xs], 1, VECTOR)


@measures("OPERAND_LOADS_PER_CYCLE")
def operand_loads_per_cycle() -> float:
    """Twelve multiply-adds, each of two vectors that are loaded from the first-level cache."""

    def body(f: Function, xs: Sequence[ir.Value], i: ir.Value, at: ir.Value) -> list[ir.Value]:
        there = at + (i & 7) * 16
        loads = [f.load(there, n * LANES, LANES) for n in range(24)]
        return [f.fma(loads[n], loads[n + 12], x) for n, x in enumerate(xs)]

    return 24 / loop(body, 12, VECTOR)


@measures("UNFUSED_MULTIPLY_ADD_PENALTY")
def unfused_multiply_add_penalty() -> float:
    """Products and sums as two instructions, against multiply-adds."""
    fused = loop(lambda f, xs, i, at: [f.fma(x, x, x) for x in xs], 12, VECTOR)
    return loop(lambda f, xs, i, at: [x * x + x for x in xs], 12, VECTOR) / fused


def matrix_tile(groups: int, rows: Sequence[int], *, is_far: bool = False) -> float:
    """Return the cycles of a tile of AMX with two vectors over some groups of the depth.

    `is_far`: the right operand comes from the second-level cache, otherwise all groups are the same one.
    """
    if not HERE.has_matrix_tiles:
        return float("nan")
    width, size = 2 * LANES, 1 << 18

    def body(f: Function, xs: Sequence[ir.Value], i: ir.Value, at: ir.Value) -> list[ir.Value]:
        depth = [DepthLoop(groups, 0, MATRIX_ROWS * width if is_far else 0), DepthLoop(MATRIX_ROWS, 1, width)]
        sums = tile(f, at, rows, at + size, width, VECTOR, depth, pairs=PairForm())
        for number, x in enumerate(sums):
            f.store(x, at, number * LANES + size // 2)
        return list(xs)

    return loop(body, 1, VECTOR, size + groups * MATRIX_ROWS * width, turns=64)


def chained_cycles(vectors: int) -> float:
    """An instruction of the highest tile of this many vectors, over 128 pairs."""
    if not HERE.chains_pairs:
        return float("nan")
    pairs, size, count = 128, 1 << 15, MAX_CHAINED_ROWS[vectors]

    def body(f: Function, xs: Sequence[ir.Value], i: ir.Value, at: ir.Value) -> list[ir.Value]:
        lines, depth = [row * (pairs + LANES) for row in range(count)], [DepthLoop(pairs, 1, vectors * LANES)]
        sums = tile(f, at, lines, at + size, vectors * LANES, VECTOR, depth, pairs=PairForm(is_chained=True))
        for number, x in enumerate(sums):
            f.store(x, at, number * LANES + size // 2)
        return list(xs)

    return loop(body, 1, VECTOR, size + pairs * vectors * LANES, turns=64) / pairs / count / vectors


MEASURED |= {
    "CHAINED_CYCLES_1": partial(chained_cycles, 1),
    "CHAINED_CYCLES_2": partial(chained_cycles, 2),
    "CHAINED_CYCLES_3": partial(chained_cycles, 3),
    "CHAINED_CYCLES_4": partial(chained_cycles, 4),
}


@measures("MATRIX_ROW_CYCLES")
def matrix_row() -> float:
    """A tile of 32 rows and two vectors, over 1024 groups without those before them."""
    rows = [row * LANES for row in range(2 * MATRIX_ROWS)]
    return (matrix_tile(1025, rows) - matrix_tile(1, rows)) / 1024 / (2 * len(rows))


@measures("MATRIX_PANEL_ROW_CYCLES")
def matrix_panel_row() -> float:
    """A tile of 8 rows and two vectors, whose right operand of 1 MB comes from the second-level cache."""
    rows = [row * LANES for row in range(MATRIX_ROWS // 2)]
    return (matrix_tile(513, rows, is_far=True) - matrix_tile(1, rows)) / 512 / (2 * MATRIX_ROWS)


@measures("MATRIX_COPIED_ROW_CYCLES")
def matrix_copied_row() -> float:
    """A tile of 32 rows whose distances differ, against one of equal distances."""
    even = [row * LANES for row in range(2 * MATRIX_ROWS)]
    odd = [row * LANES + row % 3 * 2048 for row in range(2 * MATRIX_ROWS)]
    return (matrix_tile(256, odd) - matrix_tile(256, even)) / 256 / len(odd)


@measures("MATRIX_REGISTER_CYCLES")
def matrix_register() -> float:
    """A tile of one group, without its product."""
    rows = [row * LANES for row in range(2 * MATRIX_ROWS)]
    return (matrix_tile(1, rows) - costs.MATRIX_ROW_CYCLES * 2 * len(rows)) / (MATRIX_ROWS * (4 + MATRIX_ROWS / 4))


def tile_products(m: int, n: int) -> float:
    """Return the cycles of the tiles of a product for a step of the depth, at the peak of this machine."""
    return tile_cycles(HERE, LANES, m, n) * costs.MULTIPLY_ADDS_PER_CYCLE / multiply_adds_per_cycle()


@measures("CELL_CYCLES")
def cell() -> float:
    """A GRU layer of 32 rows and 64 states, without the cycles of its products."""
    rows, times, states = 32, 64, 64
    step = Step(
        lambda *xs: OPS["gru_layer"](*xs),
        floats(rows, times, 3 * states),
        floats(states, 3 * states),
        floats(3 * states),
        floats(rows, states),
    )
    preactivations = rows * times * 3 * states
    return step.cycles() / preactivations - states / LANES * value_of("VECTOR_MULTIPLY_ADD_CYCLES")


@measures("SCORE_CYCLES")
def score() -> float:
    """Attention of 16 images, 4 heads, 128 queries and keys of 32 elements, without the cycles of its products."""
    operands = [floats(16, 4, 128, 32) for _ in range(3)]
    step = Step(lambda q, k, v: OPS["scaled_dot_product_attention"](q, k, v), *operands)
    return step.cycles() / (16 * 4 * 128 * 128) - 64 / LANES * value_of("VECTOR_MULTIPLY_ADD_CYCLES")


# Memory.

L2_ELEMENTS = HERE.l2_bytes // 8
"""Elements that take half of the second-level cache."""


def streamed(chains: int, adds: int) -> float:
    """Return the bytes in a cycle of a loop that reads half of the second-level cache again and again."""
    vectors = 1 << (L2_ELEMENTS // LANES // chains).bit_length() - 1

    def body(f: Function, xs: Sequence[ir.Value], i: ir.Value, at: ir.Value) -> list[ir.Value]:
        there = at + (i & (vectors - 1)) * (chains * LANES)
        loads = [f.load(there, n * LANES, LANES) for n in range(chains)]
        for _ in range(adds):
            xs = [f.fma(load, load, x) for load, x in zip(loads, xs, strict=True)]
        return [x + load for x, load in zip(xs, loads, strict=True)]

    return chains * HERE.vector_bytes / loop(body, chains, VECTOR, L2_ELEMENTS)


@measures("L2_BYTES_PER_CYCLE")
def l2_bytes_per_cycle() -> float:
    """A sum of half of the second-level cache."""
    return streamed(8, 0)


@measures("L2_PANEL_BYTES_PER_CYCLE")
def l2_panel_bytes_per_cycle() -> float:
    """The same with six multiply-adds of every vector."""
    return streamed(4, 6)


@measures("UNPACKED_ELEMENT_CYCLES")
def unpacked_element() -> float:
    """A product of 64 rows with a matrix of 256 x 1040 in place, against one that packs it, without the packing."""
    found: list[float] = []
    for packs in (False, True):

        def pays(m: int, row_bytes: int, packs: bool = packs) -> bool:
            return packs

        with forced(matmul_plan, "packing_pays", pays):
            found.append(product(64, 1040, 256).cycles())
    return max((found[0] - found[1]) / (256 * 1040) + costs.PACKED_ELEMENT_CYCLES, 0) / 64


@measures("RESULT_CYCLES")
def result() -> float:
    """A product of depth 4 and 256 x 256 elements, without the cycles of its multiply-adds."""
    return max(product(256, 256, 4).cycles() - 4 * tile_products(256, 256), 0) / 256**2


@measures("RIGHT_OPERAND_CYCLES")
def right_operand() -> float:
    """A product of 12 rows with a matrix of 1024 x 256, without the cycles of its multiply-adds."""
    return max(product(12, 256, 1024).cycles() - 1024 * tile_products(12, 256), 0) / (1024 * 256)


BEYOND = 4 << 20
"""Elements that no cache of one core holds."""


def with_another_core(step: Step) -> tuple[float, float]:
    """Return the cycles of a step whose first operand this core wrote, and of one whose operand another core wrote."""
    x, found = step.memory["x0"], dict[bool, float]()
    for elsewhere in (False, True):
        times: list[float] = []
        for _ in range(200):
            writer = Thread(target=x.fill, args=(0.5,))
            if elsewhere:
                writer.start()
                writer.join()
            else:
                x.fill(0.5)
            start = thread_time()
            step.step()
            times.append(thread_time() - start)
        found[elsewhere] = sorted(times)[50] * 1e9 / cycle_nanoseconds()
    return found[False], found[True]


@measures("REMOTE_PARTIAL_SUM_CYCLES")
def remote_partial_sum() -> float:
    """A sum of two tensors of 64 KB, one of which another thread wrote just before."""
    step = Step(lambda a, b: OPS["add"](a, b), floats(1 << 14), floats(1 << 14))
    return (with_another_core(step)[1] - driver_cycles()) / (2 * (1 << 14))


@measures("REMOTE_CACHE_PENALTY")
def remote_cache_penalty() -> float:
    """A product of 64 x 256 by 256 x 256, whose left operand another thread wrote just before."""
    near, far = with_another_core(product(64, 256, 256))
    return far / near


# Loops over elements.


@measures("INSTRUCTION_CYCLES")
def instruction() -> float:
    """The error function in `gelu`, of 16 KB."""
    step = Step(lambda x: OPS["gelu"](x), floats(4096))
    [node] = [node for group in step.lowered.groups for node in group.nodes]
    count = instructions(HERE, node, step.lowered.nodes.types) or 1
    return step.cycles() / (4096 / LANES) / count


@measures("KEPT_VECTOR_CYCLES")
def kept_vector() -> float:
    """Copies of 4 and 12 KB, each stored and loaded: the difference for a vector."""
    less, more = (Step(lambda x: OPS["relu"](x), floats(size)).cycles() for size in (1024, 3072))
    return max(more - less, 0) / (2048 / LANES)


# Convolutions.


@measures("FOLDED_PART_CYCLES")
def folded_part() -> float:
    """A convolution of 5 x 5 of one channel to 6, without the cycles of its products."""
    images, size, wide, window = 32, 28, 6, 5
    products = images * size * window * tile_products(size, window * wide)
    step = convolution(variants.Folded, images, size, 1, wide, window)
    return max(step.cycles(1) - products, 0) / (images * size**2 * window * -(-wide // LANES))


def line_step(size: int, deep: int) -> tuple[float, float]:
    """Return the cycles of the gradient of a filter by lines, and of its products alone, for each line."""
    images, wide, window = 32, 6, 5
    step = convolution(variants.LineFilterGradient, images, size, deep, wide, window, "_filter_gradient")
    products = size * tile_products(window * deep, window * wide)
    return step.cycles(0) / (images * size), products


@measures("LINE_LOOP_CYCLES")
def line_loop() -> float:
    """The gradient of a filter of 5 x 5 by lines of 4 places, without the cycles of products: three loops a line."""
    cycles, products = line_step(4, 1)
    return max(cycles - products, 0) / 3


@measures("COPIED_VECTOR_CYCLES")
def copied_vector() -> float:
    """The same by lines of 28 places, without the cycles of its products and loops."""
    cycles, products = line_step(28, 1)
    return max(cycles - products - 3 * costs.LINE_LOOP_CYCLES, 0) / (28 * 7 / LANES)


@measures("TRANSPOSED_FILTER_CYCLES")
def transposed_filter() -> float:
    """The same for the gradient of the input, in addition to the transform of the convolution."""
    gradient = convolution(variants.Winograd, 32, 8, 256, 256, 3, "_input_gradient")
    return gradient.cycles(0) / (256 * 256 / LANES) - value_of("UNCACHED_FILTER_TRANSFORM_CYCLES")


def winograd_plan(images: int, size: int, deep: int, wide: int) -> tuple[Any, float]:
    """Return the plan of a convolution by Winograd's method, and the cycles of its products on this machine."""
    x, w, y = (images, size, size, deep), (3, 3, deep, wide), (images, size, size, wide)
    types = [TensorType("float32", shape) for shape in (x, w, y)]
    plan = variants.Winograd(HERE, FLOAT32, shape_of(*types, {**CONV, "padding": (1,) * 4})).plan
    products = 16 * (deep + costs.STEPS_PER_TILE) * plan.blocks * plan.steps
    return plan, products * costs.MULTIPLY_ADDS_PER_CYCLE / multiply_adds_per_cycle()


@measures("OUTPUT_TRANSFORM_CYCLES")
def output_transform() -> float:
    """The last step of a convolution of 8 to 128 channels, without the cycles of products and transformed pixels."""
    plan, products = winograd_plan(32, 16, 8, 128)
    cycles = convolution(variants.Winograd, 32, 16, 8, 128, 3).cycles(-1) - products - plan.of_pixels
    return max(cycles, 0) / (plan.tiles * 128 / LANES)


@measures("UNCACHED_FILTER_BYTES_PER_CYCLE")
def uncached_filter_bytes() -> float:
    """The step that computes results of 512 to 512 channels at 4 x 4 places: it waits for 16 MB of filters."""
    return 16 * 512 * 512 * 4 / convolution(variants.Winograd, 1, 4, 512, 512, 3).cycles(-1)


@measures("WINOGRAD_PENALTY")
def winograd_penalty() -> float:
    """A convolution of 128 to 128 channels, against the sum of its products and the prices of its transforms."""
    plan, products = winograd_plan(32, 16, 128, 128)
    transforms = plan.of_filters + plan.of_pixels + plan.tiles * 128 / LANES * costs.OUTPUT_TRANSFORM_CYCLES
    return convolution(variants.Winograd, 32, 16, 128, 128, 3).cycles() / (products + transforms)


@measures("WINOGRAD_OF_PAIRS_PENALTY")
def winograd_of_pairs_penalty() -> float:
    """A convolution of pairs, 128 to 128 channels, against a direct one: the ratio of times beside that of prices."""
    x, w, y = (32, 16, 16, 128), (3, 3, 128, 128), (32, 16, 16, 128)
    attributes = {**CONV, "padding": (1,) * 4}
    shape = shape_of(*(TensorType("bfloat16", shape) for shape in (x, w, y)), attributes)
    direct = bfloat16.DirectOfPairs(HERE, shape)
    plan = bfloat16.winograd_of_pairs(HERE, shape).plan

    def write(a: Value, b: Value) -> Value:
        return OPS["conv2d"](*(OPS["cast"](each, dtype="bfloat16") for each in (a, b)), **attributes)

    cycles: list[float] = []
    for found in (bfloat16.winograd_of_pairs(HERE, shape), direct):
        with forced(conv_rules, "bfloat16_variant", lambda *_, found=found: found):
            cycles.append(Step(write, floats(*x), floats(*w)).cycles(-1))
    prices = plan.cycles - plan.of_filters, direct.cycles - packed_filter_cycles(32, direct.shape)
    return cycles[0] / cycles[1] * prices[1] / prices[0]


def joined_gradient(images: int) -> tuple[int, float]:
    """Return the parts of a filter's gradient by Winograd's method, and the cycles that join a vector of it."""
    step = convolution(variants.WinogradFilterGradient, images, 8, 64, 64, 3, "_filter_gradient")
    first = next(steps for steps in step.lowered.steps if len(steps.steps) > 1)
    return first.steps[0].work_items, step.cycles(-1) / (64 * 64 / LANES)


@measures("PART_GRADIENT_CYCLES")
def part_gradient() -> float:
    """The step that joins the parts of a filter's gradient: the difference for one part, at each of 16 positions."""
    (few, less), (many, more) = joined_gradient(8), joined_gradient(64)
    return (more - less) / (many - few) / 16


@measures("GRADIENT_TRANSFORM_CYCLES")
def gradient_transform() -> float:
    """The same step without the price of its parts."""
    parts, cycles = joined_gradient(8)
    return cycles - parts * 16 * costs.PART_GRADIENT_CYCLES


# Whole steps: their cycles beside their price, and for each element.


PRICED: Final[dict[str, tuple[str, Callable[[], Step]]]] = {
    "DOT_PRODUCT_CYCLES": ("a matrix of 4096 x 512 times a vector", lambda: product(4096, 1, 512)),
    "TRANSPOSED_ROW_CYCLES": ("a transpose of 256 x 256", lambda: Step(OPS["transpose"], floats(256, 256))),
    "SPREAD_ELEMENT_CYCLES": (
        "windows of 3 x 3 that are added up to 8 images of 16 x 16 and 16 channels",
        lambda: Step(
            lambda x: OPS["fold"](x, shape=(8, 16, 16, 16), window=(3, 3), padding=(1,) * 4), floats(8, 16, 16, 144)
        ),
    ),
    "ELEMENT_CYCLES": ("a sum of two tensors of 64 KB", lambda: Step(OPS["add"], floats(128, 128), floats(128, 128))),
    "ROW_ELEMENT_CYCLES": ("a softmax of 64 rows of 512 elements", lambda: Step(OPS["softmax"], floats(64, 512))),
    "GATED_ELEMENT_CYCLES": ("`glu` of 64 rows of 512 elements", lambda: Step(OPS["glu"], floats(64, 512))),
    "SCANNED_ELEMENT_CYCLES": (
        "cumulative sums of 64 rows of 512 elements",
        lambda: Step(OPS["cumsum"], floats(64, 512)),
    ),
    "SORTED_ELEMENT_CYCLES": ("the order of 16 rows of 4,096 elements", lambda: Step(OPS["argsort"], floats(16, 4096))),
    "CTC_VECTOR_CYCLES": (
        "CTC of 8 rows of 64 steps, 20 classes and 16 labels",
        lambda: Step(OPS["ctc"], floats(8, 64, 20), RNG.integers(1, 20, (8, 16))),
    ),
    "DEPTHWISE_TAP_CYCLES": (
        "a depthwise convolution of 3 x 3 of 32 images of 16 x 16 and 96 channels",
        lambda: convolution(variants.OneChannelGroups, 32, 16, 96, 96, 3, groups=96),
    ),
    "POOLED_TAP_CYCLES": (
        "maxima of windows of 2 x 2 of 32 images of 16 x 16 and 64 channels",
        lambda: Step(lambda x: OPS["max_pool2d"](x, window=(2, 2), stride=(2, 2)), floats(32, 16, 16, 64)),
    ),
}
"""Parameters whose multiple is the price of a step: what it computes, and the step."""

MEASURED |= {name: partial(by_price, name, step) for name, (_, step) in PRICED.items()}


def update(w: Value, m: Value, g: Value) -> list[Value]:
    """Return a momentum and its weights after a step."""
    momentum = OPS["add"](OPS["mul"](m, 0.9), g)
    return [momentum, OPS["sub"](w, OPS["mul"](momentum, 0.1))]


class Counted(NamedTuple):
    """A parameter that is a share of the cycles of a step.

    Attributes:
        what: what the step computes.
        step: returns the step.
        count: number of elements, rows or bytes that the cycles are divided by.
        phase: the phase whose cycles count; None for all.
        less: cycles of something else for each of them.
    """

    what: str
    step: Callable[[], Step]
    count: float
    phase: int | None = None
    less: float = 0.0

    def measured(self) -> float:
        """Return the value on this machine."""
        return self.step().cycles(self.phase) / self.count - self.less


COUNTED: Final[dict[str, Counted]] = {
    "VECTOR_MULTIPLY_ADD_CYCLES": Counted(
        "a product of 512 x 512 matrices", lambda: product(512, 512, 512), 512**3 / LANES
    ),
    "PACKED_ELEMENT_CYCLES": Counted(
        "the step of a convolution of 3 x 3 that packs a filter of 64 to 64 channels",
        lambda: convolution(variants.Direct, 32, 16, 64, 64, 3), 9 * 64 * 64, 0,
    ),
    "UPDATED_ELEMENT_CYCLES": Counted(
        "a sum of four tensors of 16 MB, of which two are written: as an update of a momentum and its weights",
        lambda: Step(update, floats(BEYOND), floats(BEYOND), floats(BEYOND)), BEYOND,
    ),
    "PARTIAL_SUM_CYCLES": Counted(
        "a sum of eight tensors of 16 KB",
        lambda: Step(lambda *xs: reduce(OPS["add"], xs), *(floats(4096) for _ in range(8))), 8 * 4096,
    ),
    "COPIED_BYTE_CYCLES": Counted(
        "a concatenation of two tensors of 128 KB, in lines of 16 KB",
        lambda: Step(lambda a, b: OPS["concat"](a, b, axis=1), floats(8, 4096), floats(8, 4096)), 2 * 8 * 4096 * 4,
    ),
    "COPIED_LINE_CYCLES": Counted(
        "a concatenation of lines of 12 bytes",
        lambda: Step(lambda a, b: OPS["concat"](a, b, axis=1), floats(4096, 3), floats(4096, 3)), 2 * 4096,
        less=12 * costs.COPIED_BYTE_CYCLES,
    ),
    "FEED_BYTE_CYCLES": Counted(
        "a copy of 16 MB",
        lambda: Step(lambda a, b: OPS["concat"](a, b, axis=0), floats(BEYOND // 2), floats(BEYOND // 2)), 4 * BEYOND,
    ),
    "READ_BYTE_CYCLES": Counted("a sum of 16 MB", lambda: Step(OPS["sum"], floats(BEYOND)), 4 * BEYOND),
    "WRITTEN_BYTE_CYCLES": Counted(
        "a tensor of 16 MB that is filled from a row of 4 KB",
        lambda: Step(OPS["add"], floats(BEYOND // 1024, 1), floats(1024)), 4 * BEYOND,
    ),
    "GATHERED_ELEMENT_CYCLES": Counted(
        "a slice of every third element of a row, which no reader takes by strides",
        lambda: Step(
            lambda x: OPS["slice"](x, axis=(1,), starts=(0,), stops=(3072,), strides=(3,)), floats(32, 3072)
        ), 32 * 1024,
    ),
    "INDEXED_ROW_CYCLES": Counted(
        "16,384 rows of 3 elements of a table of 1,000, without the cycles of copying",
        lambda: Step(OPS["gather"], floats(1000, 3), RNG.integers(0, 1000, 1 << 14)), 1 << 14,
        less=12 * costs.COPIED_BYTE_CYCLES,
    ),
    "TABLE_ELEMENT_CYCLES": Counted(
        "65,536 elements of a table of 256 that bytes select, without the cycles of copying",
        lambda: Step(OPS["gather"], *(RNG.integers(0, 256, size).astype("u1") for size in (256, 1 << 16))), 1 << 16,
        less=costs.COPIED_BYTE_CYCLES,
    ),
    "STORED_VECTOR_CYCLES": Counted(
        "a tensor of half of the second-level cache that is written and read",
        lambda: Step(OPS["relu"], floats(2 * L2_ELEMENTS)), 2 * L2_ELEMENTS / LANES,
    ),
    "STREAMED_WEIGHT_CYCLES": Counted(
        "a filter of 1 x 1 of 1,024 to 2,048 channels at one place, read in order",
        lambda: convolution(variants.Streamed, 1, 1, 1024, 2048, 1), 1024 * 2048,
    ),
    "SCATTERED_BYTE_CYCLES": Counted(
        "the same filter by panels", lambda: convolution(variants.Direct, 1, 1, 1024, 2048, 1), 4 * 1024 * 2048
    ),
    "CACHED_FILTER_TRANSFORM_CYCLES": Counted(
        "the step that transforms filters of 64 to 64 channels",
        lambda: convolution(variants.Winograd, 32, 16, 64, 64, 3), 64 * 64 / LANES, 0,
    ),
    "UNCACHED_FILTER_TRANSFORM_CYCLES": Counted(
        "the same of 256 to 256 channels",
        lambda: convolution(variants.Winograd, 32, 8, 256, 256, 3), 256 * 256 / LANES, 0,
    ),
    "PIXEL_TRANSFORM_CYCLES": Counted(
        "the step that transforms the pixels of two images of 16 x 16 and 256 channels",
        lambda: convolution(variants.Winograd, 2, 16, 256, 256, 3), 2 * 64 * 256 / LANES, 1,
    ),
}  # fmt: skip

MEASURED |= {name: counted.measured for name, counted in COUNTED.items()}


# Effects on whole kernels.


@measures("SHARED_PANELS_GAIN")
def shared_panels_gain() -> float:
    """A product of 512 x 1024 x 1024 with panels that all work items share, against a partition."""
    with forced(large_products, "shares_panels", lambda shape, is_prepacked: False):
        apart = product(512, 1024, 1024).cycles()
    shared = product(512, 1024, 1024)
    return (apart - shared.cycles() + shared.cycles(0)) / (512 * 1024 * 1024 / LANES / costs.MULTIPLY_ADDS_PER_CYCLE)


@measures("CONFLICTING_ROWS_PENALTY")
def conflicting_rows_penalty() -> float:
    """A product of 24 rows with a matrix of 256 x 1024, whose rows are 4 KB apart, against one of 256 x 1040."""
    return product(24, 1024, 256).cycles() / product(24, 1040, 256).cycles() * 1040 / 1024


@measures("SEPARATE_TAPS_GAIN")
def separate_taps_gain() -> float:
    """The gradient of a filter of 3 x 3 tap by tap, against tiles of several taps, for each cycle of their tiles."""
    found: list[float] = []
    planned = FilterGradient.planned
    for is_merged in (False, True):

        def plan(shape: FilterGradient, target: Any, is_merged: bool = is_merged) -> FilterGradient:
            return replace(planned(shape, target), is_merged=is_merged)

        with forced(FilterGradient, "planned", plan):
            step = convolution(variants.DirectFilterGradient, 32, 16, 12, 64, 3, "_filter_gradient")
            found.append(step.cycles())
    return min(found[0] / found[1], 1.0)


@measures("TWO_TILE_SIZES_PENALTY")
def two_tile_sizes_penalty() -> float:
    """A product of 25 rows against one of 24, for each row."""
    rows = 2 * max(most for most in (12, 8, 6) if most <= (12 if HERE.registers == 32 else 8))
    return product(rows + 1, 128, 256).cycles() / (rows + 1) / (product(rows, 128, 256).cycles() / rows)


@measures("GROUPED_TILE_PENALTY")
def grouped_tile_penalty() -> float:
    """A convolution of 3 x 3 of 16 groups of one channel to 16, against the price of its tiles."""
    step = convolution(variants.Direct, 16, 16, 16, 256, 3, groups=16)
    tiles = 16 * 16 * -(-16 // 12) * 16 * 9 * costs.tile_step_cycles(-(-16 // -(-16 // 12)), 1)
    return step.cycles() / tiles


@cache
def depth_line() -> tuple[float, float]:
    """Return the cycles of the tiles of a product of 240 x 256 for a step of the depth, and beside the depth."""
    (few, less), (many, more) = ((depth, product(240, 256, depth).cycles()) for depth in (32, 128))
    slope = (more - less) / (many - few)
    return slope, max(less - few * slope, 0)


@measures("STEPS_PER_TILE")
def steps_per_tile() -> float:
    """Products of 240 x 256 and depths of 32 and 128: the cycles at depth 0, in steps of the depth."""
    slope, begun = depth_line()
    return begun / slope


@measures("STEPS_PER_ADDED_TILE")
def steps_per_added_tile() -> float:
    """A product of 240 x 256 of depth 512, which is added in two blocks, against twice the product of depth 256."""
    slope, begun = depth_line()
    return max(product(240, 256, 512).cycles() - 2 * product(240, 256, 256).cycles() + begun, 0) / slope + begun / slope


# Threads.


@measures("PANEL_STEP_CYCLES")
def panel_step() -> float:
    """The step that packs the right operand of a product of 512 x 512 x 512, and the start of the next step."""
    return product(512, 512, 512).cycles(0) + driver_cycles()


@measures("BROKEN_CHAIN_CYCLES")
def broken_chain() -> float:
    """A product of 32 x 256 by 256 x 128 whose left operand another thread wrote just before."""
    near, far = with_another_core(product(32, 128, 256))
    return far - near


@measures("CHUNK_CYCLES")
def chunk() -> float:
    """Forty cumulative sums of 16 elements, each a phase of one chunk, without the cycles of their elements."""

    def write(x: Value) -> Value:
        for _ in range(40):
            x = OPS["cumsum"](x)
        return x

    return Step(write, floats(16)).cycles() / 40 - 16 * value_of("SCANNED_ELEMENT_CYCLES")


@measures("BARRIER_CYCLES")
def barrier() -> float:
    """Sixty cumulative sums of two rows on two threads, a chunk for each, beside half of their time on one thread."""
    program = Program("barrier")
    y = program.input("x", "float32", (2, 2048))
    for _ in range(60):
        y = OPS["cumsum"](y, axis=1)
    program.entry("predict", y=y)
    runs = [Run(program.compile(), engine="native", threads=threads) for threads in (1, 2)]
    x, times = {"x": floats(2, 2048)}, ([], [])
    for _ in range(200):
        for run, seconds in zip(runs, times, strict=True):
            start = perf_counter()
            run.predict(x)
            seconds.append(perf_counter() - start)
    alone, together = (sorted(seconds)[50] for seconds in times)
    return (together - alone / 2) / 60 * 1e9 / cycle_nanoseconds()


if __name__ == "__main__":
    main()
