"""Recomputation in consumers: the same bits as stored values, and only where it pays."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from native.bound import lowered
from native.building import every_target
from native.made import Made, check

from registry import OPS
from runtime.engines.native.cpu import this_machine

SHAPE = (4, 6, 6, 48)


def numbers(*shape, seed=0, dtype="float32"):
    return np.random.default_rng(seed).normal(0.5, 2, shape).astype(dtype)


def norm_step(x, dy, scale, bias, mean, variance):
    """Batch normalisation with an activation, and its gradient as programs have it."""
    y, _, _, mean, root = OPS["batch_norm"](x, scale, bias, mean, variance, momentum=0.9, epsilon=1e-5)
    y = OPS["relu6"](y)
    inside = OPS["logical_and"](OPS["greater"](y, OPS["mul"](bias, bias)), OPS["less"](y, scale))
    dy = OPS["where"](inside, dy, OPS["sub"](dy, dy))
    unit = OPS["mul"](OPS["sub"](x, mean), root)
    dbias, dscale = (OPS["sum"](v, axis=(0, 1, 2), keepdims=False) for v in (dy, OPS["mul"](dy, unit)))
    dx = OPS["mul"](OPS["mul"](scale, root), OPS["sub"](dy, OPS["add"](dbias, OPS["mul"](unit, dscale))))
    return dx, dscale, dbias, y


def of_norm(shape=SHAPE, dtype="float32"):
    operands = [numbers(*shape, seed=s, dtype=dtype) for s in (0, 1)]
    return [*operands, *(numbers(shape[-1], seed=s, dtype=dtype) for s in (2, 3, 4)), np.ones(shape[-1], dtype)]


def large(made: Made, threads: int = 1) -> list[str]:
    """The ops whose results are in the arena, but for small ones."""
    step = lowered(made.desc, (), this_machine(), threads)
    maker = {name: op.type for op in made.desc.ops for name in op.outputs}
    names = [b.name for b in step.memory.buffers if b.name in step.nodes.types and b.nbytes > 1 << 14]
    return sorted(maker.get(name, name) for name in names)


def test_neither_the_mask_of_an_activation_nor_deviations_are_stored():
    assert large(Made(norm_step, of_norm())) == []
    assert Made(norm_step, of_norm()).groups(this_machine())[-1].endswith("where+mul+add+sub+mul")


@every_target
@pytest.mark.parametrize("shape", [SHAPE, (2, 1, 3, 5), (1, 1, 1, 1), (3, 7, 9, 33)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_normalisation_its_activation_and_their_gradient(target, shape, dtype):
    check(norm_step, of_norm(shape, dtype), target, near=2e-5)


def test_a_step_is_the_same_by_any_number_of_threads():
    made = Made(norm_step, of_norm())
    first, *others = (made.native(this_machine(), threads) for threads in (1, 2, 3, 4))
    for other in others:
        for a, b in zip(first, other, strict=True):
            np.testing.assert_array_equal(a, b)


def layer_norm_step(dy, w, x, scale, mean, root):
    """The gradient of a layer norm whose result went into a product, as programs have it."""
    dz, unit = OPS["matmul"](dy, w), OPS["mul"](OPS["sub"](x, mean), root)
    scaled = OPS["mul"](dz, scale)
    one, other = (OPS["mean"](v, axis=(1,), keepdims=True) for v in (scaled, OPS["mul"](scaled, unit)))
    dx = OPS["mul"](root, OPS["sub"](OPS["sub"](scaled, one), OPS["mul"](unit, other)))
    dscale, dbias = (OPS["sum"](v, axis=(0,), keepdims=False) for v in (OPS["mul"](dz, unit), dz))
    return dx, dscale, dbias


@every_target
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("columns", [65, 300])
def test_of_the_gradient_of_a_layer_norm_only_the_product_is_stored(target, columns, dtype):
    shapes = (90, 20), (20, columns), (90, columns), (columns,), (90, 1), (90, 1)
    operands = [numbers(*shape, dtype=dtype) for shape in shapes]
    assert large(Made(layer_norm_step, operands)) == ["matmul"]
    check(layer_norm_step, operands, target, near=2e-5 if dtype == "float32" else 1e-11)


def test_what_is_dear_or_read_as_another_shape_is_stored():
    def dear(x):
        made = OPS["lgamma"](x)
        total = OPS["sum"](made, axis=(0, 1, 2), keepdims=False)
        return OPS["mul"](made, total)

    def moved(x):
        made = OPS["relu"](x)
        total = OPS["sum"](made, axis=(0, 1, 2), keepdims=False)
        turned = OPS["transpose"](made, axis=(3, 1, 2, 0))
        return OPS["mul"](made, total), OPS["cumsum"](turned, axis=0)

    assert large(Made(dear, [numbers(*SHAPE)])) == ["lgamma"]
    assert "relu" in large(Made(moved, [numbers(*SHAPE)]))
    check(moved, [numbers(*SHAPE)], this_machine(), near=1e-4)


@pytest.mark.parametrize(("columns", "widened"), [(2100, []), (64, ["cast"])])
def test_a_large_weight_of_16_bits_is_widened_in_every_product_that_reads_it(columns, widened):
    """It comes from memory each time, with half the bytes; a small one is in a cache, and is widened once."""

    def heads(w, *rows):
        table = OPS["cast"](w, dtype="float32") if w.type.dtype == "float16" else w
        return [OPS["matmul"](x, table, transpose_b=True) for x in rows]

    operands = [numbers(columns, 130, dtype="float16"), *(numbers(40, 130, seed=i) for i in range(8))]
    made = Made(heads, operands)
    assert [group for group in made.groups(this_machine()) if group == "cast"] == widened
    found = check(heads, operands, this_machine(), near=1e-5, threads=2)
    stored = check(heads, [operands[0].astype("float32"), *operands[1:]], this_machine(), near=1e-5, threads=2)
    for a, b in zip(found, stored, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_state_that_is_read_again_is_not_written_over_before():
    """The copies read the old value of what the group that made the tensor first has updated."""

    def write(x, w):
        shifted = OPS["add"](x, w)
        total = OPS["sum"](shifted, axis=(0,), keepdims=False)
        return OPS["mul"](shifted, total), OPS["mul"](w, total), OPS["sub"](w, total)

    check(write, [numbers(500, 40), numbers(40, seed=1)], this_machine(), near=1e-5)


@st.composite
def blocks(draw):
    """Return the definition of each value of a chain by earlier values, and the results."""
    kinds = st.sampled_from(["mul", "sub", "relu", "greater", "where", "sum", "mean", "abs"])
    steps = draw(st.lists(st.tuples(kinds, *[st.integers(0, 1 << 20)] * 3), min_size=3, max_size=14))
    return steps, draw(st.lists(st.integers(0, 1 << 20), min_size=1, max_size=3)), draw(st.sampled_from([2, 128]))


@pytest.mark.thorough
@settings(deadline=None, max_examples=25, derandomize=True)
@given(blocks())
def test_random_blocks(block):
    steps, kept, rows = block

    def write(x, y, v):
        wide, small, masks = [x, y], [v], [OPS["greater"](x, y)]
        for kind, *picks in steps:
            a, b = wide[picks[0] % len(wide)], [*wide, *small][picks[1] % (len(wide) + len(small))]
            if kind in ("mul", "sub"):
                wide.append(OPS[kind](OPS["tanh"](a), b))
            elif kind == "where":
                wide.append(OPS["where"](masks[picks[2] % len(masks)], a, b))
            elif kind == "greater":
                masks.append(OPS["greater"](a, b))
            elif kind in ("sum", "mean"):
                small.append(OPS["tanh"](OPS["mean"](a, axis=(0,), keepdims=False)))
            else:
                wide.append(OPS[kind](a))
        found = [*wide[2:], *small[1:]] or [OPS["abs"](x)]
        return list({id(z): z for z in [*(found[i % len(found)] for i in kept), found[-1]]}.values())

    operands = [numbers(rows, 48), numbers(rows, 48, seed=1), numbers(48, seed=2)]
    made = Made(write, operands)
    one, three = made.native(this_machine()), made.native(this_machine(), 3)
    for a, b, wanted in zip(one, three, made.wanted, strict=True):
        np.testing.assert_array_equal(a, b)
        near = np.isclose(a, wanted, rtol=1e-4, atol=1e-4)
        assert near.mean() > 0.999, "a comparison of nearly equal numbers may go otherwise, here and there"


ONE_PLACE = {"stride": (1, 1), "padding": (0, 0, 0, 0), "dilation": (1, 1), "groups": 1}
"""Compute a 1x1 convolution."""

OPERANDS = {
    "one place": ((16, 16, 16, 24), (1, 1, 24, 37), ONE_PLACE),
    "every other pixel": ((9, 49, 43, 35), (1, 1, 35, 9), {**ONE_PLACE, "stride": (2, 2)}),
    "by themselves": ((3, 9, 7, 53), (3, 3, 1, 53), {**ONE_PLACE, "padding": (1, 0, 2, 1), "groups": 53}),
    "with strides": (
        (2, 11, 10, 80),
        (3, 2, 1, 80),
        {**ONE_PLACE, "padding": (1,) * 4, "stride": (2, 1), "groups": 80},
    ),
}


def of_operand(case: str, dtype: str = "float32"):
    """A convolution and the gradient of its filter, of an image that is cheap to make; the same with the image."""
    image, window, attributes = OPERANDS[case]
    places = [
        (n + attributes["padding"][i] + attributes["padding"][i + 2] - window[i]) // attributes["stride"][i] + 1
        for i, n in enumerate(image[1:3])
    ]
    shapes = [image, image[-1:], (1,), window, (image[0], *places, window[3])]

    def write(x, scale, bias, w, dy):
        made = OPS["relu6"](OPS["add"](OPS["mul"](x, scale), bias))
        gradient = OPS["conv2d_filter_gradient"](made, dy, shape=window, **attributes)
        return OPS["conv2d"](made, w, **attributes), gradient

    def kept(x, scale, bias, w, dy):
        return *write(x, scale, bias, w, dy), OPS["relu6"](OPS["add"](OPS["mul"](x, scale), bias))

    return write, kept, [numbers(*shape, seed=i, dtype=dtype) for i, shape in enumerate(shapes)]


@every_target
@pytest.mark.parametrize("case", list(OPERANDS))
def test_the_operand_of_a_convolution_is_made_where_it_is_copied(target, case):
    write, _, operands = of_operand(case, "float64" if case == "with strides" else "float32")
    assert large(Made(write, operands)) == []
    assert all(name.startswith("mul+add+relu6+conv2d") for name in Made(write, operands).groups(target))
    check(write, operands, target, near=1e-4)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", list(OPERANDS))
def test_it_has_the_bits_of_one_that_is_stored_by_any_number_of_threads(case):
    write, kept, operands = of_operand(case)
    wanted = Made(kept, operands)
    assert "mul+add+relu6" in wanted.groups(this_machine())
    results = wanted.native(this_machine())
    for threads in (1, 2, 3):
        for a, b in zip(Made(write, operands).native(this_machine(), threads), results, strict=False):
            np.testing.assert_array_equal(a, b)


def test_an_operand_that_a_filter_is_made_of_too_or_that_is_read_otherwise_is_stored():
    def twice(x, dy):
        made = OPS["relu"](x)
        return OPS["conv2d_filter_gradient"](made, made, shape=(1, 1, 24, 24), **ONE_PLACE)

    def turned(x, w):
        made = OPS["relu"](OPS["transpose"](x, axis=(0, 2, 1, 3)))
        return OPS["conv2d"](made, w, **ONE_PLACE), OPS["conv2d"](OPS["add"](made, x), w, **ONE_PLACE)

    image = numbers(16, 16, 16, 24)
    assert large(Made(twice, [image, image])) == ["relu"]
    check(twice, [image, image], this_machine(), near=1e-4)
    check(turned, [image, numbers(1, 1, 24, 37)], this_machine(), near=1e-4)


@every_target
@pytest.mark.parametrize(
    ("activation", "comparison", "bound", "is_needed"),
    [
        ("relu6", "greater", 0.0, False),
        ("relu6", "less", 6.0, False),
        ("relu6", "greater", 5.5, False),
        ("relu6", "greater", 6.0, True),
        ("relu6", "greater", -1.0, True),
        ("relu6", "less", 0.0, True),
        ("relu6", "less", 7.0, True),
        ("relu", "greater", 0.0, False),
        ("relu", "less", 2.0, False),
        ("relu", "less", 0.0, True),
        ("relu", "greater", -0.5, True),
        ("relu6", "less_equal", 6.0, True),
    ],
)
def test_a_mask_of_a_clamped_value_is_that_of_its_operand(target, activation, comparison, bound, is_needed):
    """The activation is computed only if the mask of its operand would be another one."""

    def write(x, dy, mean):
        mask = OPS[comparison](OPS[activation](OPS["sub"](x, mean)), bound)
        return OPS["where"](mask, dy, OPS["mul"](dy, dy))

    x = numbers(9, 37)
    odd = [
        np.nan,
        np.inf,
        -np.inf,
        0.0,
        -0.0,
        6.0,
        np.nextafter(np.float32(6), np.float32(9)),
        1e-45,
        -1e-45,
        7.0,
        -0.5,
    ]
    x[0, : len(odd)] = odd
    operands = [x, numbers(9, 37, seed=1), np.zeros(37, "f4")]
    made = Made(write, operands)
    [found], [wanted] = made.native(target), made.wanted
    assert found.tobytes() == wanted.tobytes()
    assert (activation in made.groups(target)[0].split("+")) == is_needed
