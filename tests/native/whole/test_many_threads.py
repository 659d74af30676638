"""Kernels that are partitioned for many threads: the same bits as for few, within their memory, and work for each."""

from contextlib import closing
from functools import partial

import numpy as np
import pytest
from native.bound import lowered
from native.building import BEST
from native.convolution.test_variants import CONVOLUTION_CASES, GRADIENT_CASES, convolution_of, gradient_of
from native.made import Made
from subjects.families import FAMILIES, ROWS, family_feeds, family_program
from subjects.steps import bound_block

from compiler import Compiled, Program, adam, ops
from registry import OPS
from runtime.codegen.ir import FLOAT32
from runtime.codegen.kernels.conv.variants import convolution_variant, filter_gradient_variant
from runtime.codegen.machine import THREAD_CLASSES, target
from runtime.runs.run import Run

THREADS = (1, 3, 8, 32)
"""Numbers of threads, each of another class."""

conv = partial(OPS["conv2d"], padding=(1, 1))

OPERANDS = {
    "a product of many rows": (OPS["matmul"], (512, 256), (256, 384)),
    "a gradient of large weights": (OPS["outer_sum"], (64, 784), (64, 256)),
    "a gradient of weights whose items are columns": (OPS["outer_sum"], (512, 256), (512, 256)),
    "a few matrices": (OPS["matmul"], (3, 96, 128), (3, 128, 96)),
    "a convolution of large filters": (conv, (8, 4, 4, 256), (3, 3, 256, 256)),
    "a convolution whose tiles have several images": (
        partial(OPS["conv2d"], stride=(2, 2), padding=(1, 1)),
        (32, 8, 8, 64),
        (3, 3, 64, 96),
    ),
    "a convolution of few images": (conv, (2, 16, 16, 32), (3, 3, 32, 32)),
    "a depthwise convolution of few images": (
        partial(OPS["conv2d"], padding=(1, 1), groups=48),
        (2, 20, 20, 48),
        (3, 3, 1, 48),
    ),
    "a gradient of a depthwise filter": (
        partial(OPS["conv2d_filter_gradient"], shape=(3, 3, 1, 64), padding=(1, 1), groups=64),
        (16, 16, 16, 64),
        (16, 16, 16, 64),
    ),
    "a gradient of a depthwise filter with strides": (
        partial(OPS["conv2d_filter_gradient"], shape=(3, 3, 1, 96), stride=(2, 2), padding=(1, 1), groups=96),
        (16, 17, 17, 96),
        (16, 9, 9, 96),
    ),
    "a gradient of a filter, of few sums": (
        partial(OPS["conv2d_filter_gradient"], shape=(3, 3, 64, 64), padding=(1, 1)),
        (16, 16, 16, 64),
        (16, 16, 16, 64),
    ),
    "a gradient of a filter, of many sums": (
        partial(OPS["conv2d_filter_gradient"], shape=(3, 3, 256, 128), padding=(1, 1)),
        (8, 4, 4, 256),
        (8, 4, 4, 128),
    ),
    "a gradient of a 1x1 filter with one panel": (
        partial(OPS["conv2d_filter_gradient"], shape=(1, 1, 144, 24)),
        (32, 16, 16, 144),
        (32, 16, 16, 24),
    ),
    "a gradient of a 1x1 filter with one panel and strides": (
        partial(OPS["conv2d_filter_gradient"], shape=(1, 1, 96, 32), stride=(2, 2)),
        (32, 32, 32, 96),
        (32, 16, 16, 32),
    ),
    "a gradient of a 1x1 filter of few pixels": (
        partial(OPS["conv2d_filter_gradient"], shape=(1, 1, 96, 384)),
        (32, 8, 8, 96),
        (32, 8, 8, 384),
    ),
    "a gradient of a 1x1 filter of few pixels and odd ranges": (
        partial(OPS["conv2d_filter_gradient"], shape=(1, 1, 150, 200)),
        (9, 5, 7, 150),
        (9, 5, 7, 200),
    ),
    "a gradient of a 1x1 filter": (
        partial(OPS["conv2d_filter_gradient"], shape=(1, 1, 64, 160)),
        (32, 16, 16, 64),
        (32, 16, 16, 160),
    ),
}


LEAST_ITEMS = {"a convolution of few images": 8}
"""Work items of steps whose blocks set bits, where a block has a NaN."""


def made(name: str, *, finite: bool = True) -> Made:
    """Return the op with operands; some have NaN and Inf."""
    write, *shapes = OPERANDS[name]
    rng = np.random.default_rng(0)
    operands = [rng.normal(size=shape).astype("f4") for shape in shapes]
    if not finite:
        operands[0].reshape(-1)[[3, operands[0].size // 2]] = np.inf, np.nan
        operands[1].reshape(-1)[-5] = -np.inf
    return Made(write, operands)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("name", OPERANDS)
def test_results_have_the_same_bits_for_any_number_of_threads(name: str):
    op = made(name)
    first, *others = [op.native(BEST, threads)[0].tobytes() for threads in THREADS]
    assert others == [first] * len(others)


@pytest.mark.thorough
@pytest.mark.parametrize("name", OPERANDS)
def test_results_that_are_not_finite_are_the_same_numbers_for_any_number_of_threads(name: str):
    op = made(name, finite=False)
    with np.errstate(all="ignore"):
        first, *others = [op.native(BEST, threads)[0] for threads in THREADS]
    assert not np.isfinite(first).all()
    for other in others:
        np.testing.assert_array_equal(other, first)


@pytest.mark.parametrize("name", OPERANDS)
def test_every_thread_has_work_in_the_longest_kernel_step(name: str):
    step = lowered(made(name).desc, (), BEST, 16)
    longest = max((each for steps in step.steps for each in steps.steps), key=lambda each: each.cost)
    assert longest.work_items >= LEAST_ITEMS.get(name, 12)


def recurrent(rule: str) -> Compiled:
    """Return a training step of a layer whose gradient takes long enough for many threads."""
    program = Program(rule, seed=1)
    x, label = program.input("x", "float32", ("n", 4, 64)), program.input("label", "int64", ("n",))
    gates = {"lstm": 4, "gru": 3}[rule]
    shapes = {"w": (64, gates * 192), "r": (192, gates * 192), "b": (gates * 192,), "c": (gates * 192,)}
    weights = [program.parameter(name, shape) for name, shape in shapes.items()]
    states = getattr(ops, rule)(x, *weights)[0]
    w = program.parameter("out", (192, 10))
    program.minimize(ops.softmax_cross_entropy(ops.mean(states, axis=1) @ w, label), adam(0.01))
    return program.compile(n=32)


def require_equal_bits(compiled: Compiled, feeds: dict[str, np.ndarray]) -> None:
    """Assert that two training steps give the same states for any number of threads."""
    found: dict[str, list[int]] = {}
    for threads in THREADS:
        with closing(Run(compiled.desc, engine="native", threads=threads)) as run:
            for _ in range(2):
                run.step(feeds)
            found.setdefault(run.state_sha256, []).append(threads)
    assert len(found) == 1, found


@pytest.mark.thorough
@pytest.mark.parametrize("rule", ["lstm", "gru"])
def test_a_recurrent_layer_has_the_same_bits_for_any_number_of_threads(rule: str):
    compiled, rng = recurrent(rule), np.random.default_rng(0)
    feeds = {"x": rng.normal(size=(32, 4, 64)).astype("f4"), "label": rng.integers(0, 10, 32)}
    require_equal_bits(compiled, feeds)


def test_the_products_of_a_recurrent_gradient_are_shared_by_more_threads_than_parts():
    block = bound_block(recurrent("lstm").desc)
    items: dict[int, int] = {}
    for threads in (2, 16):
        step = lowered(block, (), BEST, threads)
        [gradient] = [
            steps for group, steps in zip(step.groups, step.steps, strict=True) if "lstm_layer_gradient" in group.name
        ]
        items[threads] = max(each.work_items for each in gradient.steps)
    assert items[2] < 8
    assert items[16] >= 12


@pytest.mark.sampled(60)
@pytest.mark.parametrize("family", FAMILIES)
def test_two_training_steps_have_the_same_bits_for_any_number_of_threads(family: str):
    compiled = family_program(family).compile(batch=ROWS)
    feeds = family_feeds(compiled)
    require_equal_bits(compiled, feeds)


def test_numbers_of_threads_share_the_code_of_their_class():
    here = target("avx2")
    assert [here.for_threads(count).threads for count in (1, 2, 3, 4, 5, 16, 17, 64, 1000)] == [
        *(2, 2, 4, 4, 8, 16, 32, 64, 64)
    ]
    assert here.for_threads(32).nominal == target("avx512_bf16")
    assert target("sse2").for_threads(32).nominal == target("sse2")
    assert [here.for_threads(count).wanted_items(8) for count in (1, 8, 32)] == [8, 8, 32]


@pytest.mark.parametrize("threads", THREAD_CLASSES)
def test_the_variant_of_a_convolution_does_not_depend_on_threads(threads: int):
    here = target("avx512")
    for case in CONVOLUTION_CASES.values():
        found = [
            convolution_variant(each, FLOAT32, convolution_of(*case)) for each in (here, here.for_threads(threads))
        ]
        assert found[0].cycles == found[1].cycles
        assert type(found[0]) is type(found[1])
    for case in GRADIENT_CASES.values():
        shape = gradient_of(*case, 16)
        gradients = [filter_gradient_variant(each, shape) for each in (here, here.for_threads(threads))]
        assert gradients[0].cycles == gradients[1].cycles
        assert type(gradients[0]) is type(gradients[1])
