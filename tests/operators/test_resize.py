"""Resizing and sampling of images against loops over their places."""

import math
import re
from itertools import product

import numpy as np
import pytest
from subjects.commands import told
from subjects.evaluate import block_of, evaluate, gradient
from subjects.values import check_orders, define

from prograd import Program, Run
from prograd_proto import TensorType
from registry import Block, OpError, ops

RNG = np.random.default_rng(31)


def place(i, old, new, coordinates):
    if coordinates == "align_corners":
        return i * (old - 1) / (new - 1) if new > 1 else 0
    if coordinates == "asymmetric" or (coordinates == "pytorch_half_pixel" and new == 1):
        return i * old / new
    return (i + 0.5) * old / new - 0.5


def kernel(mode, d):
    """The weight of an element at a distance."""
    if mode == "linear":
        return max(0, 1 - d)
    if d >= 2:
        return 0
    return 1.25 * d**3 - 2.25 * d**2 + 1 if d <= 1 else -0.75 * (d**3 - 5 * d**2 + 8 * d - 4)


def row_of(old, at, mode):
    """Return the weight of each of `old` elements in the result at this position."""
    row = np.zeros(old)
    for pixel in range(math.floor(at) - 2, math.floor(at) + 4):
        row[min(max(pixel, 0), old - 1)] += kernel(mode, abs(at - pixel))
    return row


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"])
@pytest.mark.parametrize(
    ("shape", "size"), [((2, 3, 4, 2), (7, 5)), ((1, 6, 5, 1), (2, 1)), ((2, 4, 3), (9,)), ((1, 3, 2, 4, 1), (2, 5, 4))]
)
def test_resize_weighs_the_neighbours_of_each_place(mode, coordinates, shape, size):
    x = RNG.normal(size=shape)
    expected = x
    for axis, (old, new) in enumerate(zip(shape[1:-1], size, strict=True), 1):
        rows = np.array([row_of(old, place(i, old, new, coordinates), mode) for i in range(new)])
        expected = np.moveaxis(np.tensordot(expected, rows, (axis, 1)), -1, axis)
    found = evaluate(lambda x: ops.resize(x, size=size, mode=mode, coordinates=coordinates), x)
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize(
    ("nearest_mode", "chosen"),
    # at 0, 0.5, 1, 1.5, 2 and beyond the end at 2.5
    [
        ("round_prefer_floor", [0, 0, 1, 1, 2, 2]),
        ("round_prefer_ceil", [0, 1, 1, 2, 2, 2]),
        ("floor", [0, 0, 1, 1, 2, 2]),
        ("ceil", [0, 1, 1, 2, 2, 2]),
    ],
)
def test_the_nearest_element_is_chosen_by_its_mode(nearest_mode, chosen):
    x = np.arange(3.0).reshape(1, 3, 1)
    y = evaluate(lambda x: ops.resize(x, size=(6,), coordinates="asymmetric", nearest_mode=nearest_mode), x)
    np.testing.assert_array_equal(y.reshape(-1), chosen)


def test_shrinking_takes_the_pixel_under_each_new_center():
    x = np.arange(7.0).reshape(1, 7, 1)
    y = evaluate(lambda x: ops.resize(x, size=(3,), nearest_mode="floor"), x)
    np.testing.assert_array_equal(y.reshape(-1), [0, 3, 5])  # at 0.67, 3 and 5.33


def smooth_row_of(old, at, mode, stretch):
    """Return the weight of each of `old` elements by a kernel that is stretched, with -0.5 for the cubic."""
    row = np.zeros(old)
    for pixel in range(old):
        d = abs(at - pixel) / stretch
        cubic = (1.5 * d**3 - 2.5 * d**2 + 1) if d <= 1 else -0.5 * (d**3 - 5 * d**2 + 8 * d - 4)
        row[pixel] = max(0, 1 - d) if mode == "linear" else cubic if d < 2 else 0
    return row / row.sum()


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize(
    ("shape", "size", "factors"),
    [((2, 9, 4, 2), (3, 7), ()), ((1, 7, 5, 1), (2, 1), (0.3, 0.37)), ((2, 11, 3), (8,), (0.8,))],
)
def test_antialiasing_weighs_as_many_elements_as_a_result_stands_for(mode, shape, size, factors):
    x = RNG.normal(size=shape)
    expected = x
    for axis, (old, new) in enumerate(zip(shape[1:-1], size, strict=True), 1):
        step = 1 / factors[axis - 1] if factors else old / new
        rows = np.array([smooth_row_of(old, (i + 0.5) * step - 0.5, mode, max(step, 1)) for i in range(new)])
        expected = np.moveaxis(np.tensordot(expected, rows, (axis, 1)), -1, axis)

    more = dict(mode=mode, factors=factors, antialias=True, cubic_coefficient=-0.5)
    np.testing.assert_allclose(evaluate(lambda x: ops.resize(x, size=size, **more), x), expected, atol=1e-12)
    block = Block()
    v = define(block, "x", shape)
    y = ops.resize(v, size=size, **more)
    check_orders(y * y, [v], {"x": x}, 2)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_factors_place_the_elements(mode):
    x = RNG.normal(size=(1, 5, 2))
    rows = np.array([row_of(5, (i + 0.5) / 1.5 - 0.5, mode) for i in range(7)])
    found = evaluate(lambda x: ops.resize(x, size=(7,), mode=mode, factors=(1.5,)), x)
    np.testing.assert_allclose(found, np.einsum("ij,njc->nic", rows, x), atol=1e-12)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (dict(factors=(2.0, 2.0)), "there are 2 factors for 1 axes"),
        (dict(factors=(0.0,)), "factors=(0.0,) are not all positive"),
        (dict(antialias=True), "antialias needs linear or cubic at half_pixel, not nearest at half_pixel"),
        (
            dict(antialias=True, mode="linear", coordinates="align_corners"),
            "antialias needs linear or cubic at half_pixel, not linear at align_corners",
        ),
    ],
)
def test_factors_and_antialiasing_are_checked(more, message):
    x = Block().define("x", TensorType("float64", (1, 4, 2)))
    with pytest.raises(OpError, match=re.escape(message)):
        ops.resize(x, size=(3,), **more)


def test_upsampling_repeats_pixels():
    x = RNG.normal(size=(2, 3, 4, 2))
    y = evaluate(lambda x: ops.upsample(x, factors=(2, 3)), x)
    np.testing.assert_array_equal(y, x.repeat(2, 1).repeat(3, 2))


def reflected(at, first, last):
    while last > first and not first <= at <= last:
        at = 2 * first - at if at < first else 2 * last - at
    return at


def weights_along(at, size, mode, padding_mode, align_corners):
    """(pixel, weight) for one coordinate of a grid."""
    first, last = (0, size - 1) if align_corners else (-0.5, size - 0.5)
    at = (at + 1) / 2 * (size - 1) if align_corners else ((at + 1) * size - 1) / 2

    def back(at):
        if padding_mode == "reflection":
            at = reflected(at, first, last)
        return at if padding_mode == "zeros" else min(max(at, 0), size - 1)

    if mode == "cubic":
        low = math.floor(at)
        found = [(back(low + i), kernel("cubic", abs(at - low - i))) for i in (-1, 0, 1, 2)]
    else:
        at = back(at)
        low = math.floor(at)
        found = [(low + i, 1 - abs(at - low - i)) for i in (0, 1)] if mode == "linear" else [(round(at), 1)]
    return [(int(pixel), weight) for pixel, weight in found if 0 <= pixel < size]


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align_corners", [False, True])
def test_grid_sample_weighs_the_pixels_around_each_place(mode, padding_mode, align_corners):
    x, grid = RNG.normal(size=(2, 4, 5, 3)), RNG.uniform(-2.5, 2.5, (2, 3, 6, 2))
    how = dict(mode=mode, padding_mode=padding_mode, align_corners=align_corners)
    expected = np.zeros((2, 3, 6, 3))
    for n, r, c in product(range(2), range(3), range(6)):
        across, down = (weights_along(grid[n, r, c, i], (5, 4)[i], **how) for i in (0, 1))
        for (row, a), (column, b) in product(down, across):
            expected[n, r, c] += a * b * x[n, row, column]
    found = evaluate(lambda x, grid: ops.grid_sample(x, grid, **how), x, grid)
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
def test_volumes_are_sampled_across_down_and_to_the_back(mode, padding_mode):
    x, grid = RNG.normal(size=(2, 3, 4, 5, 2)), RNG.uniform(-1.5, 1.5, (2, 2, 3, 4, 3))
    how = dict(mode=mode, padding_mode=padding_mode, align_corners=False)
    expected = np.zeros((2, 2, 3, 4, 2))
    for at in np.ndindex(2, 2, 3, 4):
        taps = [weights_along(grid[(*at, i)], (5, 4, 3)[i], **how) for i in (2, 1, 0)]
        for (depth, a), (row, b), (column, c) in product(*taps):
            expected[at] += a * b * c * x[at[0], depth, row, column]
    found = evaluate(lambda x, grid: ops.grid_sample(x, grid, **how), x, grid)
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("padding_mode", ["border", "reflection"])
def test_at_the_ends_of_the_image_a_place_has_no_gradient_as_in_pytorch(padding_mode):
    x, ends = RNG.normal(size=(1, 4, 5, 1)), np.array([[[[-1.0, 0.2], [1.0, 0.3], [0.1, 1.0]]]])
    how = dict(padding_mode=padding_mode, align_corners=True)
    _, dgrid = gradient(lambda x, grid: ops.grid_sample(x, grid, **how), x, ends)
    assert (dgrid[0, 0] == 0).tolist() == [[True, False], [True, False], [False, True]]


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_resizing_and_sampling_have_second_gradients(mode):
    block = Block()
    x, grid = define(block, "x", (1, 3, 4, 1)), define(block, "grid", (1, 2, 3, 2))
    feeds = {"x": RNG.normal(size=(1, 3, 4, 1)), "grid": RNG.uniform(-0.9, 0.9, (1, 2, 3, 2))}
    wide = ops.resize(x, size=(5, 6), mode=mode)
    y = ops.grid_sample(wide * wide, grid, mode=mode)
    check_orders(y * y, [x, grid], feeds, 2)


def test_a_batch_without_size_is_left_alone():
    block = Block()
    x, grid = (block.define(name, TensorType("float32", ("n", 3, 4, 2))) for name in ("x", "grid"))
    assert ops.resize(x, size=(5, 6), mode="cubic").shape == ("n", 5, 6, 2)
    assert ops.resize(x, size=(5, 6), axis=(2, 3)).shape == ("n", 3, 5, 6)
    assert ops.grid_sample(x, grid).shape == ("n", 3, 4, 2)


def test_modes_that_are_not_known_are_refused_in_a_sentence():
    _, [x] = block_of((np.zeros((1, 3, 2)),))
    assert told(OpError, lambda: ops.resize(x, size=(2,), mode="bilinear")) == (
        "resize(x: float64[1, 3, 2]): mode='bilinear', coordinates='half_pixel', "
        "nearest_mode='round_prefer_floor' are not all known"
    )


def deformed_by_hand(x, w, offset, mask, padding, stride, groups, offset_groups):
    n, height, width, channels = x.shape
    rows, columns, each, outputs = w.shape
    _, oh, ow, _ = offset.shape
    y = np.zeros((n, oh, ow, outputs))
    of_group, of_offset = outputs // groups, channels // offset_groups
    for b, i, j, o in np.ndindex(n, oh, ow, outputs):
        for r, c, k in np.ndindex(rows, columns, each):
            channel = o // of_group * each + k
            tap = channel // of_offset * rows * columns + r * columns + c
            down = i * stride - padding + r + offset[b, i, j, 2 * tap]
            across = j * stride - padding + c + offset[b, i, j, 2 * tap + 1]
            seen = 0.0
            for p in range(height):
                for q in range(width):
                    seen += max(0, 1 - abs(down - p)) * max(0, 1 - abs(across - q)) * x[b, p, q, channel]
            y[b, i, j, o] += seen * mask[b, i, j, tap] * w[r, c, k, o]
    return y


@pytest.mark.sampled(6)
@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize(("groups", "offset_groups", "stride"), [(1, 1, 1), (2, 1, 2), (1, 2, 1), (2, 2, 1)])
def test_taps_are_moved_weighted_and_interpolated(engine, groups, offset_groups, stride):
    x, w = RNG.normal(size=(2, 5, 6, 4)), RNG.normal(size=(3, 2, 4 // groups, 4))
    grid = (5 + 2 - 3) // stride + 1, (6 + 2 - 2) // stride + 1
    offset = RNG.uniform(-2, 2, (2, *grid, offset_groups * 12))
    mask = RNG.uniform(0, 1, (2, *grid, offset_groups * 6))
    program = Program("deform")
    values = [program.input(name, "float64", array.shape) for name, array in
              (("x", x), ("w", w), ("offset", offset), ("mask", mask))]  # fmt: skip
    more = dict(padding=1, stride=stride, groups=groups, offset_groups=offset_groups)
    program.outputs(y=ops.deform_conv2d(*values, **more))
    feeds = {"x": x, "w": w, "offset": offset, "mask": mask}
    found = Run(program.compile(), engine=engine).step(feeds, entry="predict")["y"]
    expected = deformed_by_hand(x, w, offset, mask, 1, stride, groups, offset_groups)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


def test_an_offset_of_another_shape_is_refused():
    program = Program("deform")
    x, w = program.input("x", "float32", (1, 4, 4, 2)), program.input("w", "float32", (2, 2, 2, 3))
    offset = program.input("offset", "float32", (1, 3, 3, 4))
    with pytest.raises(Exception, match=r"offset is float32\[1, 3, 3, 4\], and its shape has to be \[1, 3, 3, 8\]"):
        ops.deform_conv2d(x, w, offset)
