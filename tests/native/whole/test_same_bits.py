"""Bits do not depend on the instruction set: all that have a fused multiply-add add in the same order."""

from collections.abc import Callable
from contextlib import closing
from typing import Any

import numpy as np
import pytest
from fuzz.variants import bits
from native.building import SETS
from native.made import Made
from subjects.families import FAMILIES, ROWS, family_feeds, family_program

from compiler import Compiled
from registry import OPS, Value
from runtime.codegen.machine import target
from runtime.runs.run import Run

STEPS = 3

PRECISIONS = [None, "bfloat16"]

ODD_NUMBERS = (np.nan, np.inf, -np.inf, 1e-40, -1e-42, 3e38, -0.0)

pytestmark = pytest.mark.skipif(len(SETS) < 2, reason="this machine has one instruction set with an FMA")


def states_of(compiled: Compiled, feeds: dict[str, np.ndarray], name: str, threads: int) -> dict[str, Any]:
    """Return the bytes of all states after some training steps; NaN stands for every NaN."""
    with closing(Run(compiled.desc, engine=f"native.{name}", threads=threads)) as run:
        for _ in range(STEPS):
            run.step(feeds)
        return {state: bits(array) for state, array in run.states.arrays.items()}


def require_equal_states(compiled: Compiled, feeds: dict[str, np.ndarray]) -> None:
    wanted = states_of(compiled, feeds, SETS[0], 1)
    for name in SETS[1:]:
        found = states_of(compiled, feeds, name, 2)
        differing = [state for state in wanted if found[state] != wanted[state]]
        assert not differing, f"{name} on 2 threads differs from {SETS[0]} on one"


@pytest.mark.thorough
@pytest.mark.parametrize("mixed", PRECISIONS)
@pytest.mark.parametrize("family", FAMILIES)
def test_training_steps_have_the_same_bits_on_all_instruction_sets(family: str, mixed: str | None):
    compiled = family_program(family).compile(batch=ROWS, mixed=mixed)
    require_equal_states(compiled, family_feeds(compiled))


@pytest.mark.sampled(74)
@pytest.mark.parametrize("mixed", PRECISIONS)
@pytest.mark.parametrize("family", FAMILIES)
def test_denormal_numbers_give_the_same_bits(family: str, mixed: str | None):
    compiled = family_program(family).compile(batch=ROWS, mixed=mixed)
    rng, feeds = np.random.default_rng(7), family_feeds(compiled)
    for name, array in feeds.items():
        if array.dtype.kind == "f":
            feeds[name] = np.where(rng.random(array.shape) < 0.5, array * np.float32(1e-38), array)
    require_equal_states(compiled, feeds)


def product(x: Value, w: Value) -> Value:
    return x @ w


def attention(q: Value, k: Value, v: Value, dy: Value) -> list[Value]:
    """Return the results and all gradients of attention with a causal mask."""
    y = OPS["scaled_dot_product_attention"](q, k, v, causal=True)
    return [y, *OPS["attention_gradient"](q, k, v, dy, causal=True)]


def reductions(x: Value) -> list[Value]:
    return [OPS[name](x, axis=axis) for name in ("sum", "mean", "max", "prod") for axis in ((0,), (1,), (2,), (0, 2))]


def convolution(**how: Any) -> Callable[..., list[Value]]:
    def write(x: Value, w: Value, dy: Value) -> list[Value]:
        """Return a convolution and both of its gradients."""
        y = OPS["conv2d"](x, w, **how)
        return [
            y,
            OPS["conv2d_input_gradient"](dy, w, shape=x.shape, **how),
            OPS["conv2d_filter_gradient"](x, dy, shape=w.shape, **how),
        ]

    return write


ODD_CASES: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "a product": (product, [(70, 300), (300, 50)]),
    "a product with a column": (product, [(70, 300), (300, 1)]),
    "reductions": (reductions, [(37, 130, 45)]),
    "softmax": (lambda x: OPS["softmax"](x, axis=1), [(32, 100)]),
    "softmax of long rows": (lambda x: OPS["softmax"](x, axis=1), [(32, 333)]),
    "norms": (lambda x, scale: OPS["layer_norm"](x, scale, axis=1)[0], [(32, 200), (200,)]),
    "attention": (attention, [(2, 4, 100, 24), (2, 2, 100, 24), (2, 2, 100, 24), (2, 4, 100, 24)]),
    "a convolution of 3 x 3": (convolution(padding=(1, 1)), [(4, 12, 12, 64), (3, 3, 64, 150), (4, 12, 12, 150)]),
    "a convolution of few channels": (convolution(padding=(1, 1)), [(8, 9, 9, 3), (3, 3, 3, 24), (8, 9, 9, 24)]),
    "a grouped convolution": (convolution(groups=4), [(4, 12, 12, 12), (3, 3, 3, 64), (4, 10, 10, 64)]),
    "a depthwise convolution": (convolution(groups=40), [(4, 12, 12, 40), (3, 3, 1, 40), (4, 10, 10, 40)]),
}
"""Functions of operands, and the shapes of these."""


@pytest.mark.sampled(24)
@pytest.mark.parametrize("operand", range(4))
@pytest.mark.parametrize("case", ODD_CASES)
def test_numbers_that_are_not_finite_give_the_same_bits(case: str, operand: int):
    write, shapes = ODD_CASES[case]
    if operand >= len(shapes):
        pytest.skip("there is no such operand")
    rng = np.random.default_rng(operand)
    operands = [rng.normal(size=shape).astype("f4") for shape in shapes]
    odd = operands[operand].reshape(-1)
    odd[rng.choice(odd.size, 3, replace=False)] = rng.choice(ODD_NUMBERS, 3)
    with np.errstate(all="ignore"):
        made = Made(write, operands)
    wanted, *others = ([bits(x) for x in made.native(target(name))] for name in SETS)
    for name, found in zip(SETS[1:], others, strict=True):
        differing = [i for i, (mine, theirs) in enumerate(zip(found, wanted, strict=True)) if mine != theirs]
        assert not differing, f"results {differing} of {name} differ from {SETS[0]}"
