"""Pointwise ops after a convolution, computed while its vectors are in registers: what the reference computes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from native.bound import lowered
from native.building import every_target
from native.made import Made, check

from prograd import Program, layers, ops, sgd
from registry import OPS
from runtime.engines.native.cpu import this_machine
from runtime.entries import bound_entries

SAME = {"stride": (1, 1), "padding": (1, 1, 1, 1), "dilation": (1, 1), "groups": 1}


def numbers(*shape, seed=0, dtype="float32"):
    return np.random.default_rng(seed).normal(0.1, 1, shape).astype(dtype)


def of_images(image, channels, groups=1, window=3, dtype="float32"):
    """Images, a filter, a bias, and what has the shape of the result."""
    deep, wide = image[-1] // groups, channels // groups
    filters = (window, window, deep, groups * wide)
    shapes = [image, filters, (channels,), (*image[:3], channels)]
    return [numbers(*shape, seed=s, dtype=dtype) for s, shape in enumerate(shapes)]


def with_residual(attributes):
    """Bias, activation and an addition; a mask beside them; the sum without the activation read elsewhere too."""

    def write(x, w, b, r):
        y = OPS["add"](OPS["conv2d"](x, w, **attributes), b)
        z = OPS["relu6"](OPS["add"](OPS["relu"](y), r))
        return z, OPS["greater"](y, r), OPS["mean"](y, axis=(0, 1, 2), keepdims=False)

    return write


CASES = {
    "same": (of_images((2, 7, 9, 5), 6), SAME),
    "groups": (of_images((3, 6, 5, 12), 21, groups=3), {**SAME, "groups": 3}),
    "by themselves": (of_images((3, 6, 7, 20), 20, groups=20), {**SAME, "groups": 20}),
    "by themselves, several": (of_images((2, 5, 6, 9), 27, groups=9), {**SAME, "groups": 9}),
    "one place": (of_images((5, 6, 7, 20), 33, window=1, dtype="float64"), {**SAME, "padding": (0, 0, 0, 0)}),
    "one of everything": (of_images((1, 1, 1, 1), 1, window=1), {**SAME, "padding": (0, 0, 0, 0)}),
    "by panels": (of_images((1, 3, 2, 40), 270), SAME),
}


@pytest.mark.sampled(2)
@every_target
@pytest.mark.parametrize("case", CASES)
def test_what_follows_a_convolution(target, case):
    operands, attributes = CASES[case]
    made = Made(with_residual(attributes), operands)
    assert made.groups(target)[0] == "conv2d+add+relu+add+relu6+greater"
    found = check(with_residual(attributes), operands, target, near=3e-6 if operands[0].itemsize == 4 else None)
    for threads in (2, 4):
        for a, b in zip(found, made.native(target, threads), strict=True):
            np.testing.assert_array_equal(a, b)


def test_operands_that_are_the_same_tensor_or_lie_otherwise():
    def write(x, w, b, r):
        y = OPS["conv2d"](x, w, **SAME)
        turned = OPS["transpose"](r, axis=(0, 2, 1, 3))
        per_image = OPS["mean"](x, axis=(1, 2), keepdims=True)
        return (
            OPS["mul"](OPS["add"](y, x), OPS["sub"](x, y)),
            OPS["add"](OPS["mul"](y, y), turned),
            OPS["mul"](OPS["relu"](y), per_image),
            OPS["reshape"](OPS["add"](y, b), shape=(2, 36, 6)),
            y,
        )

    check(write, of_images((2, 6, 6, 6), 6), this_machine(), near=2e-6)


def test_a_state_that_is_added_is_not_written_over_while_it_is_read():
    """Tiles at the end of a line are computed twice."""

    def write(x, w, b, r):
        y = OPS["conv2d"](x, w, **SAME)
        return OPS["add"](r, y), OPS["sub"](b, OPS["mean"](y, axis=(0, 1, 2), keepdims=False))

    made = Made(write, of_images((2, 7, 19, 3), 5))
    for update, state in zip(made.desc.updates, ("x3", "x2"), strict=True):
        update.state = state
    step = lowered(made.desc, (), this_machine())
    assert "x3" not in step.memory.in_state.values()


def test_a_prediction_has_no_pass_but_convolutions():
    program = Program()
    x = program.input("x", "float32", ("batch", 8, 8, 3))
    h = ops.relu(layers.conv_norm(x, "one", 16))
    z = layers.conv_norm(h, "two", 16)
    y = ops.relu(h + z)
    program.outputs(y=y)
    program.minimize(ops.mean(ops.square(y)), sgd(0.1))
    bound = bound_entries(program.compile(batch=4).desc, "predict")[-1]
    groups = [group.name for group in lowered(bound.block, (), this_machine()).groups if len(group.domain) == 4]
    assert groups == ["conv2d+sub+mul+add+relu", "conv2d+sub+mul+add+add+relu"]


@pytest.mark.thorough
@settings(deadline=None, max_examples=20, derandomize=True)
@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "mul", "sub", "relu", "where", "cast"]), *[st.integers(0, 99)] * 2),
        min_size=1,
    ),
    st.lists(st.integers(0, 99), min_size=1, max_size=3),
    st.sampled_from(list(CASES)),
)
def test_random_chains(steps, kept, case):
    operands, attributes = CASES[case]
    steps = steps[:10]

    def write(x, w, b, r):
        wide, small = [OPS["conv2d"](x, w, **attributes), r], [b, OPS["relu"](b)]
        for kind, i, j in steps:
            a, other = wide[i % len(wide)], [*wide, *small][j % (len(wide) + len(small))]
            if kind == "where":
                wide.append(OPS["where"](OPS["greater"](a, r), a, other))
            elif kind == "cast":
                wide.append(OPS["cast"](OPS["cast"](a, dtype="float64"), dtype=x.dtype))
            elif kind == "relu":
                wide.append(OPS["relu"](a))
            else:
                wide.append(OPS[kind](OPS["tanh"](a), other))
        results = [wide[0], *wide[2:]]
        return list({id(y): y for y in [*(results[k % len(results)] for k in kept), results[-1]]}.values())

    made = Made(write, operands)
    one, three = made.native(this_machine()), made.native(this_machine(), 3)
    for a, b, wanted in zip(one, three, made.wanted, strict=True):
        np.testing.assert_array_equal(a, b)
        assert np.isclose(a, wanted, rtol=1e-4, atol=1e-5).mean() > 0.99
