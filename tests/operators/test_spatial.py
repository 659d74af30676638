"""Convolution and pooling over one, two and three axes against loops over places and taps."""

from itertools import product

import numpy as np
import pytest
from subjects.evaluate import block_of, evaluate, gradient
from subjects.values import check_orders, define

from prograd_proto import TensorType
from registry import Block, OpError, ops

RNG = np.random.default_rng(17)


def edges_of(padding, axes):
    padding = padding or (0,) * axes
    return padding if len(padding) == 2 * axes else padding * 2


def places(sizes, window, stride=None, padding=None, dilation=None, ceil_mode=False):
    """For every place of the window: the taps that lie in the tensor as (tap, position), and its number of taps that
    lie in the tensor or its padding."""
    axes = len(sizes)
    stride, dilation, edges = stride or (1,) * axes, dilation or (1,) * axes, edges_of(padding, axes)
    counts = []
    for i, size in enumerate(sizes):
        span = dilation[i] * (window[i] - 1) + 1
        count = 0
        while True:
            start = count * stride[i] - edges[i]
            inside = start + span <= size + edges[i + axes]
            if not inside and not (
                ceil_mode and start < size and (count - 1) * stride[i] - edges[i] + span < size + edges[i + axes]
            ):
                break
            count += 1
        counts.append(count)
    for place in np.ndindex(*counts):
        taps, wide = [], 0
        for tap in np.ndindex(*window):
            at = tuple(p * s + t * d - e for p, s, t, d, e in zip(place, stride, tap, dilation, edges, strict=False))
            wide += all(-edges[i] <= at[i] < sizes[i] + edges[i + axes] for i in range(axes))
            if all(0 <= a < size for a, size in zip(at, sizes, strict=True)):
                taps.append((tap, at))
        yield place, taps, wide


def naive_conv(x, w, groups=1, **window):
    axes = x.ndim - 2
    found = list(places(x.shape[1:-1], w.shape[:axes], **window))
    made = w.shape[-1] // groups
    y = np.zeros((len(x), *(1 + np.array(found[-1][0])), w.shape[-1]))
    for place, taps, _ in found:
        for (tap, at), o, d in product(taps, range(w.shape[-1]), range(w.shape[-2])):
            y[(slice(None), *place, o)] += x[(slice(None), *at, o // made * w.shape[-2] + d)] * w[(*tap, d, o)]
    return y


CONVOLUTIONS = [
    # the tensor, the filters, attributes
    ((2, 7, 3), (3, 3, 4), {}),
    ((2, 8, 4), (3, 2, 6), dict(stride=(2,), padding=(2, 1), dilation=(2,), groups=2)),
    ((2, 5, 6, 2), (3, 2, 2, 3), dict(stride=(2, 1), padding=(1, 0, 0, 1))),
    ((2, 4, 5, 6, 2), (2, 3, 2, 2, 3), {}),
    ((1, 5, 4, 5, 4), (2, 2, 3, 2, 6), dict(stride=(2, 3, 1), padding=(1, 0, 2), dilation=(1, 2, 1), groups=2)),
    ((2, 4, 3, 3, 1), (3, 1, 2, 1, 2), dict(stride=(1, 2, 2), padding=(0, 1, 1, 2, 0, 0), dilation=(2, 1, 1))),
]


@pytest.mark.parametrize(("tensor", "filters", "attributes"), CONVOLUTIONS, ids=str)
def test_convolution_is_the_sum_under_the_window(tensor, filters, attributes):
    x, w = RNG.normal(size=tensor), RNG.normal(size=filters)
    expected = naive_conv(x, w, **attributes)
    np.testing.assert_allclose(evaluate(lambda x, w: ops.conv(x, w, **attributes), x, w), expected, atol=1e-12)
    first = evaluate(
        lambda x, w: ops.conv(x, w, layout="NCHW", **attributes),
        np.ascontiguousarray(np.moveaxis(x, -1, 1)),
        np.ascontiguousarray(np.moveaxis(w, (-1, -2), (0, 1))),
    )
    np.testing.assert_allclose(np.moveaxis(first, 1, -1), expected, atol=1e-12)


@pytest.mark.parametrize(("tensor", "filters", "attributes"), CONVOLUTIONS, ids=str)
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_transposed_convolution_is_the_adjoint(tensor, filters, attributes, layout):
    change, w = RNG.normal(size=tensor), RNG.normal(size=filters)
    made = naive_conv(change, w, **attributes)
    x = RNG.normal(size=made.shape)
    axes = len(tensor) - 2
    stride, dilation = (attributes.get(name, (1,) * axes) for name in ("stride", "dilation"))
    edges = edges_of(attributes.get("padding"), axes)
    extra = tuple(
        tensor[i + 1]
        + edges[i]
        + edges[i + axes]
        - dilation[i] * (filters[i] - 1)
        - 1
        - (made.shape[i + 1] - 1) * stride[i]
        for i in range(axes)
    )
    given = [x, w]
    if layout == "NCHW":
        given = [np.moveaxis(x, -1, 1), np.moveaxis(w, (-1, -2), (0, 1))]
    y = evaluate(
        lambda x, w: ops.conv_transpose(x, w, output_padding=extra, layout=layout, **attributes),
        *map(np.ascontiguousarray, given),
    )
    y = np.moveaxis(y, 1, -1) if layout == "NCHW" else y
    assert y.shape == tensor
    assert np.vdot(y, change) == pytest.approx(np.vdot(x, made), rel=1e-9)


def test_depthwise_convolution_takes_each_channel_by_itself():
    x, w = RNG.normal(size=(2, 5, 4, 3)), RNG.normal(size=(2, 3, 3, 2))
    y = evaluate(lambda x, w: ops.depthwise_conv(x, w, padding=(1, 1)), x, w)
    for c, m in product(range(3), range(2)):
        alone = naive_conv(x[..., c : c + 1], w[:, :, c : c + 1, m : m + 1], padding=(1, 1))
        np.testing.assert_allclose(y[..., 2 * c + m], alone[..., 0], atol=1e-13)
    first = evaluate(
        lambda x, w: ops.depthwise_conv(x, w, padding=(1, 1), layout="NCHW"),
        np.ascontiguousarray(np.moveaxis(x, -1, 1)),
        np.ascontiguousarray(w.reshape(2, 3, 6).transpose(2, 0, 1)[:, None]),
    )
    np.testing.assert_allclose(np.moveaxis(first, 1, -1), y, atol=1e-13)
    _, [x, w] = block_of((x, w[0]))
    with pytest.raises(OpError, match=": w has 3 axes and x 4; both need the same number"):
        ops.depthwise_conv(x, w)


POOLS = [
    # the tensor, attributes
    ((2, 7, 3), dict(window=(3,), stride=(2,), padding=(1,))),
    ((2, 8, 2), dict(window=(3,), stride=(3,))),
    ((2, 5, 6, 2), dict(window=(2, 3), stride=(2, 2), padding=(1, 0, 0, 2))),
    ((1, 4, 5, 6, 2), dict(window=(2, 3, 2), stride=(2, 2, 3), padding=(0, 1, 1))),
    ((2, 5, 4, 3, 1), dict(window=(3, 2, 3), stride=(1, 3, 2), padding=(2, 0, 1, 1, 1, 0))),
]


def reduced(x, function, **attributes):
    found = list(places(x.shape[1:-1], **attributes))
    y = np.zeros((len(x), *(1 + np.array(found[-1][0])), x.shape[-1]))
    for place, taps, wide in found:
        seen = np.array([x[(slice(None), *at)] for _, at in taps])
        y[(slice(None), *place)] = function(seen, wide)
    return y


@pytest.mark.parametrize(("tensor", "attributes"), POOLS, ids=str)
@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_pooling_reduces_what_lies_under_the_window(tensor, attributes, ceil_mode, layout):
    x = RNG.normal(size=tensor)
    given = np.ascontiguousarray(np.moveaxis(x, -1, 1)) if layout == "NCHW" else x
    attributes = dict(attributes, ceil_mode=ceil_mode)
    for function, made in (
        (lambda seen, wide: seen.max(0), lambda x: ops.max_pool(x, layout=layout, **attributes)),
        (lambda seen, wide: seen.mean(0), lambda x: ops.avg_pool(x, layout=layout, **attributes)),
        (
            lambda seen, wide: seen.sum(0) / wide,
            lambda x: ops.avg_pool(x, layout=layout, count_include_pad=True, **attributes),
        ),
        (
            lambda seen, wide: (abs(seen) ** 3).sum(0) ** (1 / 3),
            lambda x: ops.lp_pool(x, p=3, layout=layout, **attributes),
        ),
    ):
        found = evaluate(made, given)
        found = np.moveaxis(found, 1, -1) if layout == "NCHW" else found
        np.testing.assert_allclose(found, reduced(x, function, **attributes), rtol=1e-12)


@pytest.mark.parametrize(
    ("tensor", "attributes"),
    [
        ((2, 9, 2), dict(window=(3,), stride=(2,), padding=(2,), dilation=(2,))),
        ((2, 5, 6, 2), dict(window=(2, 3), stride=(1, 2), padding=(1, 0), dilation=(3, 2))),
        ((1, 4, 5, 6, 1), dict(window=(2, 2, 2), stride=(2, 1, 3), dilation=(2, 1, 3))),
        ((1, 3, 6, 2), dict(window=(3, 2), stride=(2, 2), padding=(1, 1), dilation=(1, 2), ceil_mode=True)),
    ],
    ids=str,
)
def test_pooling_by_a_window_with_gaps_gives_the_gradient_to_the_first_maximum(tensor, attributes):
    x = RNG.integers(0, 3, tensor).astype("float64")
    found = evaluate(lambda x: ops.max_pool(x, **attributes), x)
    np.testing.assert_array_equal(found, reduced(x, lambda seen, wide: seen.max(0), **attributes))
    share, expected = RNG.normal(size=found.shape), np.zeros(tensor)
    distinct = RNG.permutation(x.size).reshape(tensor).astype("float64")
    for place, taps, _ in places(tensor[1:-1], **attributes):
        for n, c in product(range(tensor[0]), range(tensor[-1])):
            _, at = max(taps, key=lambda tap: distinct[(n, *tap[1], c)])
            expected[(n, *at, c)] += share[(n, *place, c)]
    dx, _ = gradient(lambda x, s: ops.max_pool(x, **attributes) * s, distinct, share)
    np.testing.assert_allclose(dx, expected, atol=1e-13)


@pytest.mark.parametrize(("tensor", "size"), [((2, 7, 2), (3,)), ((2, 6, 5, 2), (3, 4)), ((1, 4, 5, 3, 2), (1, 2, 3))])
def test_adaptive_pooling_divides_each_axis_evenly(tensor, size):
    x = RNG.normal(size=tensor)
    averages, maxima = (np.zeros((tensor[0], *size, tensor[-1])) for _ in range(2))
    for place in np.ndindex(*size):
        cut = tuple(slice(p * n // s, -(-(p + 1) * n // s)) for p, n, s in zip(place, tensor[1:-1], size, strict=True))
        seen = x[(slice(None), *cut)].reshape(tensor[0], -1, tensor[-1])
        averages[(slice(None), *place)], maxima[(slice(None), *place)] = mean_of_means(x, cut), seen.max(1)
    np.testing.assert_allclose(evaluate(lambda x: ops.adaptive_avg_pool(x, size=size), x), averages)
    np.testing.assert_array_equal(evaluate(lambda x: ops.adaptive_max_pool(x, size=size), x), maxima)


def mean_of_means(x, cut):
    return x[(slice(None), *cut)].reshape(len(x), -1, x.shape[-1]).mean(1)


@pytest.mark.parametrize(
    ("function", "tensor", "filters"),
    [(ops.conv1d, (2, 7, 4), (3, 2, 6)), (ops.conv3d, (2, 4, 5, 6, 4), (2, 3, 2, 2, 6))],
)
def test_convolution_has_a_name_for_each_number_of_axes(function, tensor, filters):
    x, w = RNG.normal(size=tensor), RNG.normal(size=filters)
    axes = x.ndim - 2
    window = dict(stride=(2,) * axes, padding=(1,) * axes, dilation=(1,) * axes, groups=2)
    expected = naive_conv(x, w, **window)
    np.testing.assert_allclose(evaluate(lambda x, w: function(x, w, **window), x, w), expected, atol=1e-12)
    first = evaluate(
        lambda x, w: function(x, w, layout="NCHW", **window),
        np.ascontiguousarray(np.moveaxis(x, -1, 1)),
        np.ascontiguousarray(np.moveaxis(w, (-1, -2), (0, 1))),
    )
    np.testing.assert_allclose(np.moveaxis(first, 1, -1), expected, atol=1e-12)
    _, [image] = block_of((np.zeros((2, 3, 3, 1)),))
    with pytest.raises(OpError, match=f": x has 4 axes, not {axes + 2}; conv takes any number$"):
        function(image, image)


def test_global_pooling_leaves_one_place():
    x = RNG.normal(size=(2, 3, 4, 5))
    np.testing.assert_allclose(evaluate(ops.global_avg_pool, x)[:, 0, 0], x.mean((1, 2)))
    np.testing.assert_array_equal(evaluate(ops.global_max_pool, x)[:, 0, 0], x.max((1, 2)))
    first = evaluate(lambda x: ops.global_avg_pool(x, layout="NCHW"), x)
    np.testing.assert_allclose(first[..., 0, 0], x.mean((2, 3)))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: ops.conv(x, w, padding=(1, 0, 1), stride=(1, 2, 1)),
        lambda x, w: ops.conv_transpose(x, w, stride=(2, 1, 1)),
    ],
)
def test_convolution_of_volumes_has_second_gradients(function):
    block = Block()
    x, w = define(block, "x", (1, 3, 3, 2, 2)), define(block, "w", (2, 2, 2, 2, 2))
    feeds = {"x": RNG.normal(size=(1, 3, 3, 2, 2)), "w": RNG.normal(size=(2, 2, 2, 2, 2))}
    y = function(x, w)
    check_orders(y * y, [x, w], feeds, 2)


@pytest.mark.parametrize("function", [ops.max_pool, ops.avg_pool, ops.lp_pool])
def test_pooling_of_volumes_has_second_gradients(function):
    block = Block()
    x = define(block, "x", (1, 3, 4, 3, 2))
    y = function(x, window=(2, 2, 2), stride=(1, 2, 1))
    check_orders(y * y, [x], {"x": RNG.normal(size=(1, 3, 4, 3, 2))}, 2)


def test_a_batch_without_size_is_left_alone():
    block = Block()
    x = block.define("x", TensorType("float32", ("n", 4, 6, 5, 2)))
    w = block.define("w", TensorType("float32", (2, 3, 2, 2, 4)))
    back = block.define("back", TensorType("float32", (2, 3, 2, 4, 2)))
    assert ops.conv(x, w).shape == ("n", 3, 4, 4, 4)
    assert ops.conv_transpose(x, back).shape == ("n", 5, 8, 6, 4)
    for pool in (ops.max_pool, ops.avg_pool, ops.lp_pool):
        assert pool(x, window=(2, 2, 2)).shape == ("n", 2, 3, 2, 2)
    assert ops.max_pool(x, window=(2, 2, 2), dilation=(1, 2, 2)).shape == ("n", 2, 2, 2, 2)
    assert ops.adaptive_avg_pool(x, size=(2, 4, 5)).shape == ("n", 2, 4, 5, 2)


def test_what_makes_no_sense_is_refused_in_a_sentence():
    _, [x, w] = block_of((np.zeros((1, 5, 3)), np.zeros((2, 3, 4))))
    for made, sentence in (
        (lambda: ops.conv(x, w, stride=(1, 1)), "stride (1, 1) is not 1 numbers from 1"),
        (lambda: ops.conv(x, w, layout="NCL"), "layout='NCL' is not 'NHWC' or 'NCHW'"),
        (
            lambda: ops.conv_transpose(x, w, output_padding=(1,)),
            "output_padding (1,) is not in 0 ... stride - 1 for the stride (1,)",
        ),
    ):
        with pytest.raises(OpError) as refused:
            made()
        assert str(refused.value).endswith(f"(x: float64[1, 5, 3], w: float64[2, 3, 4]): {sentence}")


@pytest.mark.parametrize("pool", [ops.max_pool, ops.avg_pool, ops.lp_pool])
@pytest.mark.parametrize("ceil_mode", [False, True])
def test_a_window_of_another_number_of_axes_is_refused_in_a_sentence(pool, ceil_mode):
    _, [x] = block_of((np.zeros((1, 5, 3)),))
    for window in ((), (2, 2)):
        with pytest.raises(OpError) as refused:
            pool(x, window=window, ceil_mode=ceil_mode)
        assert str(refused.value).endswith(f": window has {len(window)} numbers; x has 1 axes to pool")
