"""Values of products, convolution, pooling, normalisation and losses against naive loops, at ties and at extremes."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from subjects.commands import told
from subjects.evaluate import block_of, computed, evaluate, gradient

from compiler import Program
from compiler.train.backward import gradients
from registry import OpError, ops
from runtime.engines.reference.kernels import windows
from runtime.errors import ExecutionError
from runtime.runs.run import Run

RNG = np.random.default_rng(11)

CONVOLUTIONS = [
    # images, filters, attributes
    ((2, 5, 6, 3), (3, 2, 3, 4), {}),
    ((1, 7, 5, 2), (3, 3, 2, 3), dict(stride=(2, 1), padding=(1, 0, 2, 1))),
    ((2, 8, 7, 4), (2, 3, 2, 6), dict(stride=(3, 2), padding=(2, 1), dilation=(2, 3), groups=2)),
    ((2, 5, 4, 6), (2, 2, 1, 12), dict(padding=(0, 1, 1, 0), groups=6)),
    ((3, 4, 4, 8), (1, 1, 4, 6), dict(groups=2)),
    ((2, 5, 4, 2), (1, 1, 2, 3), dict(stride=(2, 2))),
    ((1, 1, 2, 5), (3, 2, 5, 1), dict(padding=(2, 1))),
]

POOLS = [
    # images, attributes
    ((2, 4, 6, 3), dict(window=(2, 2), stride=(2, 2))),
    ((1, 5, 6, 2), dict(window=(3, 2), stride=(1, 2), padding=(0, 1, 0, 1))),
    ((2, 5, 3, 1), dict(window=(3, 3), stride=(2, 1), padding=(1, 1))),
    ((1, 7, 7, 2), dict(window=(2, 3), stride=(3, 4), padding=(1, 2, 0, 1))),
]


def places(x, window, stride, padding=(0, 0, 0, 0), dilation=(1, 1)):
    """For every place of a window: its row and column, and the taps (i, j, row, column of x) that lie in the image."""
    top, left, bottom, right = padding * 2 if len(padding) == 2 else padding
    spans = [d * (k - 1) + 1 for d, k in zip(dilation, window, strict=True)]
    rows = range((x.shape[1] + top + bottom - spans[0]) // stride[0] + 1)
    columns = range((x.shape[2] + left + right - spans[1]) // stride[1] + 1)
    for r, c in product(rows, columns):
        taps = [
            (i, j, r * stride[0] + i * dilation[0] - top, c * stride[1] + j * dilation[1] - left)
            for i, j in product(range(window[0]), range(window[1]))
        ]
        yield r, c, [t for t in taps if 0 <= t[2] < x.shape[1] and 0 <= t[3] < x.shape[2]]


def shape_of_places(x, **window):
    *_, (rows, columns, _) = places(x, **window)
    return rows + 1, columns + 1


def naive_conv2d(x, w, *, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1):
    window = dict(window=w.shape[:2], stride=stride, padding=padding, dilation=dilation)
    y = np.zeros((len(x), *shape_of_places(x, **window), w.shape[3]))
    depth, made = w.shape[2], w.shape[3] // groups
    for r, c, taps in places(x, **window):
        for (i, j, row, column), n, o, d in product(taps, range(len(x)), range(w.shape[3]), range(depth)):
            y[n, r, c, o] += x[n, row, column, o // made * depth + d] * w[i, j, d, o]
    return y


@pytest.mark.parametrize(("images", "filters", "attributes"), CONVOLUTIONS, ids=str)
@pytest.mark.parametrize("chunk", [1, windows.CHUNK_BYTES])
def test_convolution_is_the_sum_under_the_window(images, filters, attributes, chunk, monkeypatch):
    monkeypatch.setattr(windows, "CHUNK_BYTES", chunk)
    x, w = RNG.normal(size=images), RNG.normal(size=filters)
    expected = naive_conv2d(x, w, **attributes)
    np.testing.assert_allclose(evaluate(lambda x, w: ops.conv2d(x, w, **attributes), x, w), expected, atol=1e-12)


@pytest.mark.parametrize(("images", "filters", "attributes"), CONVOLUTIONS, ids=str)
@pytest.mark.parametrize("chunk", [1, windows.CHUNK_BYTES])
def test_the_gradients_of_convolution_are_its_adjoints(images, filters, attributes, chunk, monkeypatch):
    monkeypatch.setattr(windows, "CHUNK_BYTES", chunk)
    x, w = RNG.normal(size=images), RNG.normal(size=filters)
    weights = RNG.normal(size=naive_conv2d(x, w, **attributes).shape)
    dx, dw, _ = gradient(lambda x, w, s: ops.conv2d(x, w, **attributes) * s, x, w, weights)
    change_x, change_w = RNG.normal(size=images), RNG.normal(size=filters)
    along_x, along_w = naive_conv2d(change_x, w, **attributes), naive_conv2d(x, change_w, **attributes)
    assert np.vdot(dx, change_x) == pytest.approx(np.vdot(weights, along_x), rel=1e-9, abs=1e-11)
    assert np.vdot(dw, change_w) == pytest.approx(np.vdot(weights, along_w), rel=1e-9, abs=1e-11)


@pytest.mark.parametrize(("images", "attributes"), POOLS, ids=str)
def test_pooling_is_the_maximum_or_mean_under_the_window(images, attributes):
    x = RNG.normal(size=images)
    shape = (len(x), *shape_of_places(x, **attributes), x.shape[3])
    largest, mean, with_padding = np.empty(shape), np.empty(shape), np.empty(shape)
    for r, c, taps in places(x, **attributes):
        seen = np.array([x[:, row, column] for _, _, row, column in taps])
        largest[:, r, c], mean[:, r, c] = seen.max(0), seen.mean(0)
        with_padding[:, r, c] = seen.sum(0) / np.prod(attributes["window"])
    assert (evaluate(lambda x: ops.max_pool2d(x, **attributes), x) == largest).all()
    np.testing.assert_allclose(evaluate(lambda x: ops.avg_pool2d(x, **attributes), x), mean)
    padded = evaluate(lambda x: ops.avg_pool2d(x, count_include_pad=True, **attributes), x)
    np.testing.assert_allclose(padded, with_padding)


@pytest.mark.parametrize(("images", "attributes"), POOLS, ids=str)
@pytest.mark.parametrize("chunk", [1, windows.CHUNK_BYTES])
def test_the_gradient_of_a_maximum_goes_to_the_first_of_equal_ones(images, attributes, chunk, monkeypatch):
    monkeypatch.setattr(windows, "CHUNK_BYTES", chunk)
    x = RNG.integers(0, 2, images).astype("float64")
    share = RNG.normal(size=(len(x), *shape_of_places(x, **attributes), x.shape[3]))
    expected = np.zeros(images)
    for r, c, taps in places(x, **attributes):
        for n, d in product(range(len(x)), range(x.shape[3])):
            _, _, row, column = max(taps, key=lambda tap: x[n, tap[2], tap[3], d])  # max keeps the first
            expected[n, row, column, d] += share[n, r, c, d]
    dx, _ = gradient(lambda x, s: ops.max_pool2d(x, **attributes) * s, x, share)
    np.testing.assert_allclose(dx, expected, atol=1e-14)


def test_padding_never_wins_a_maximum():
    x = np.full((1, 2, 2, 1), -7.0)
    assert (evaluate(lambda x: ops.max_pool2d(x, window=(2, 2), stride=(1, 1), padding=(1, 1)), x) == -7).all()


def test_nan_wins_a_maximum():
    x = np.array([1.0, np.nan, 3.0, 2.0]).reshape(1, 2, 2, 1)
    assert np.isnan(evaluate(lambda x: ops.max_pool2d(x, window=(2, 2), stride=(2, 2)), x)).all()


def test_two_numbers_of_padding_stand_for_four():
    block, [x] = block_of((np.zeros((1, 4, 5, 1)),))
    window = dict(window=(3, 3), stride=(1, 1))
    short, long = ops.max_pool2d(x, padding=(1, 2), **window), ops.max_pool2d(x, padding=(1, 2, 1, 2), **window)
    assert short.shape == long.shape == (1, 4, 7, 1)
    assert block.desc.ops[0].attributes == block.desc.ops[1].attributes


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize(("a", "b"), [((), ()), ((2, 1), (3,)), ((4,), ()), ((), (2,))])
def test_matmul_is_the_sum_over_the_inner_axis(a, b, transpose_a, transpose_b):
    left, right = RNG.normal(size=(*a, 3, 4)), RNG.normal(size=(*b, 4, 2))
    leading = np.broadcast_shapes(a, b)
    expected = np.zeros((*leading, 3, 2))
    for i, j, k in product(range(3), range(2), range(4)):
        expected[..., i, j] += left[..., i, k] * right[..., k, j]
    if transpose_a:
        left = np.ascontiguousarray(left.swapaxes(-1, -2))
    if transpose_b:
        right = np.ascontiguousarray(right.swapaxes(-1, -2))
    found = evaluate(lambda a, b: ops.matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b), left, right)
    np.testing.assert_allclose(found, expected, atol=1e-14)


def test_softmax_and_log_softmax_are_right_for_large_and_far_logits():
    x = np.array([[1000.0, 1001.0, 999.0], [-1000.0, 0.0, 1000.0], [0.0, 0.0, 0.0]])
    e = np.exp(np.array([-1.0, 0.0, -2.0]))
    expected = np.array([e / e.sum(), [0, 0, 1], [1 / 3] * 3])
    np.testing.assert_allclose(evaluate(ops.softmax, x), expected, rtol=1e-14)
    logs = np.array([np.array([-1.0, 0, -2]) - np.log(e.sum()), [-2000, -1000, 0], [-np.log(3)] * 3])
    np.testing.assert_allclose(evaluate(ops.log_softmax, x), logs, rtol=1e-14)
    assert np.isfinite(gradient(lambda x: ops.square(ops.log_softmax(x)), x)[0]).all()


@pytest.mark.parametrize("axis", [0, 1, 2, -2])
def test_softmax_is_along_its_axis(axis):
    x = RNG.normal(size=(3, 4, 2))
    powers = np.exp(x)
    expected = powers / powers.sum(axis, keepdims=True)
    np.testing.assert_allclose(evaluate(lambda x: ops.softmax(x, axis=axis), x), expected)
    np.testing.assert_allclose(evaluate(lambda x: ops.log_softmax(x, axis=axis), x), np.log(expected))


def test_softmax_cross_entropy_is_right_for_large_logits():
    logits, labels = np.array([[1000.0, 0.0], [0.0, 1000.0], [5.0, 5.0]]), np.array([1, 1, 0])
    losses = np.array([1000.0, 0.0, np.log(2)])
    for reduction, expected in (("none", losses), ("sum", losses.sum()), ("mean", losses.mean())):
        loss = evaluate(lambda x, n, r=reduction: ops.softmax_cross_entropy(x, n, reduction=r), logits, labels)
        np.testing.assert_allclose(loss, expected)
    grad, _ = gradient(lambda x, n: ops.softmax_cross_entropy(x, n, reduction="sum"), logits, labels)
    np.testing.assert_allclose(grad, [[1, -1], [0, 0], [-0.5, 0.5]])


@pytest.mark.parametrize(("label", "count"), [(3, 3), (-1, 3)])
def test_a_label_out_of_range_stops_the_run(label, count):
    with pytest.raises(ExecutionError) as stopped:
        evaluate(ops.softmax_cross_entropy, np.zeros((2, count)), np.array([0, label]))
    assert str(stopped.value) == f"label {label} is out of range: there are {count} classes, from 0"


def test_accuracy_counts_the_first_of_equal_logits():
    logits, labels = np.array([[1.0, 1.0], [0.0, 2.0], [3.0, 0.0], [0.0, 0.0]]), np.array([0, 1, 1, 1])
    found = evaluate(ops.accuracy, logits, labels)
    assert found.dtype == np.float32
    assert found == 0.5


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("label_dtype", ["int32", "int64"])
def test_accuracy_counts_rows_with_nan_as_wrong(engine: Any, dtype: Any, label_dtype: Any):
    program = Program("scores")
    scores, labels = program.input("scores", dtype, ("batch", 64)), program.input("labels", label_dtype, ("batch",))
    program.outputs(share=ops.accuracy(scores, labels))
    run = Run(program.compile(batch=32), engine=engine)
    given = np.random.default_rng(0).standard_normal((32, 64)).astype(dtype)
    numbers = given.argmax(-1).astype(label_dtype)
    assert run.predict({"scores": given, "labels": numbers})["share"] == 1.0
    given[4, 0], given[5, 7], given[6] = np.nan, np.nan, np.nan
    given[7], given[8, 3] = -np.inf, np.inf
    numbers[4:9] = 0, 7, 0, 0, 3
    assert run.predict({"scores": given, "labels": numbers})["share"] == 29 / 32


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_squared_error_is_the_square_of_the_difference(reduction):
    prediction, target = RNG.normal(size=(3, 4)), RNG.normal(size=(3, 4))
    squares = np.array(
        [[(p - t) ** 2 for p, t in zip(*rows, strict=True)] for rows in zip(prediction, target, strict=True)]
    )
    expected = {"mean": squares.sum() / 12, "sum": squares.sum(), "none": squares}[reduction]
    found = evaluate(lambda p, t: ops.squared_error(p, t, reduction=reduction), prediction, target)
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("shape", [(5, 3), (4, 3, 5, 2), (3, 2, 1)])
@pytest.mark.parametrize("chunk", [1, windows.CHUNK_BYTES])
def test_batch_norm_normalises_each_channel_and_blends_the_running_statistics(shape, chunk, monkeypatch):
    monkeypatch.setattr(windows, "CHUNK_BYTES", chunk)
    x = RNG.normal(3, 2, size=shape)
    scale, bias, mean, variance = (RNG.uniform(0.5, 2, shape[-1]) for _ in range(4))
    found = evaluate(
        lambda *values: list(ops.batch_norm(*values, momentum=0.75, epsilon=0.1)), x, scale, bias, mean, variance
    )
    for channel in range(shape[-1]):
        numbers = [float(number) for number in x[..., channel].reshape(-1)]
        center = sum(numbers) / len(numbers)
        spread = sum((number - center) ** 2 for number in numbers) / len(numbers)
        unit = np.array([(number - center) / (spread + 0.1) ** 0.5 for number in numbers])
        y = found[0][..., channel].reshape(-1)
        np.testing.assert_allclose(y, scale[channel] * unit + bias[channel])
        rest = [array[channel] for array in found[1:]]
        new_mean, new_variance = (0.75 * old[channel] + 0.25 * new for old, new in ((mean, center), (variance, spread)))
        np.testing.assert_allclose(rest, [new_mean, new_variance, center, (spread + 0.1) ** -0.5])


def test_batch_norm_finds_a_small_variance_far_from_zero():
    x = (1e4 + RNG.normal(size=(64, 8, 8, 2))).astype("float32")
    ones, zeros = np.ones(2, "float32"), np.zeros(2, "float32")
    y = evaluate(lambda *values: ops.batch_norm(*values)[0], x, ones, zeros, zeros, ones)
    assert y.std(axis=(0, 1, 2)) == pytest.approx(1, abs=1e-2)
    assert y.mean(axis=(0, 1, 2)) == pytest.approx(0, abs=1e-2)


@pytest.mark.parametrize("part", [[0], [3], [4], [3, 4], [0, 4]])
def test_the_gradient_of_batch_norm_is_right_when_the_loss_needs_only_some_outputs(part):
    arrays = (RNG.normal(size=(4, 3)), *(RNG.uniform(0.5, 2, 3) for _ in range(4)))
    weights = [RNG.normal(size=(4, 3) if i == 0 else (3,)) for i in part]

    block, values = block_of((*arrays, *weights))
    results = ops.batch_norm(*values[:5])
    made = [results[i] for i in part]
    [dx] = gradients(made, values[:1], values[5:])
    [found] = computed(block, [dx], (*arrays, *weights))

    def loss(x):
        return sum(map(np.vdot, weights, computed(block, made, (x, *arrays[1:], *weights))))

    change = RNG.normal(size=(4, 3))
    slope = (loss(arrays[0] + 1e-5 * change) - loss(arrays[0] - 1e-5 * change)) / 2e-5
    assert np.vdot(found, change) == pytest.approx(slope, rel=1e-6, abs=1e-8)


def test_windows_that_do_not_fit_are_refused_in_a_sentence():
    _, [x, w] = block_of((np.zeros((1, 4, 5, 3)), np.zeros((5, 2, 3, 4))))
    where = "conv2d(x: float64[1, 4, 5, 3], w: float64[5, 2, 3, 4])"
    assert told(OpError, lambda: ops.conv2d(x, w)) == f"{where}: the window spans 5 of a height that is 4 with padding"
    assert told(OpError, lambda: ops.conv2d(x, w, groups=3)) == f"{where}: x has 3 channels, w expects 9"
    assert told(OpError, lambda: ops.conv2d(x, w, padding=(1,))) == (
        f"{where}: padding has 1 numbers; it is (top, left, bottom, right) or (vertical, horizontal)"
    )
    assert told(OpError, lambda: ops.max_pool2d(x, window=(2, 2), stride=(1, 1), padding=(0, 2))) == (
        "max_pool2d(x: float64[1, 4, 5, 3]): padding (0, 2, 0, 2) is not smaller than the window (2, 2)"
    )


@pytest.mark.parametrize("axes", [(1,), (1, 2), (-2,), (0, 2), (1, 3), (0, 1, 3), (2, 3), (0, 1, 2, 3), (1, 2, 3)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_a_sum_is_along_any_axes(axes, keepdims):
    x = RNG.normal(size=(3, 4, 5, 6))
    expected = x.sum(axes, keepdims=keepdims)
    np.testing.assert_allclose(evaluate(lambda x: ops.sum(x, axis=axes, keepdims=keepdims), x), expected, atol=1e-13)


def test_a_window_may_have_more_taps_than_a_byte_counts():
    x = RNG.permutation(20 * 20).reshape(1, 20, 20, 1).astype("float64")
    dx, _ = gradient(lambda x, s: ops.max_pool2d(x, window=(20, 20), stride=(1, 1)) * s, x, np.full((1, 1, 1, 1), 3.0))
    np.testing.assert_array_equal(dx, 3.0 * (x == x.max()))


@pytest.mark.parametrize("chunk", [1, windows.CHUNK_BYTES])
@pytest.mark.parametrize("made", [1, 3])
def test_channels_may_be_convolved_each_by_itself(made, chunk, monkeypatch):
    monkeypatch.setattr(windows, "CHUNK_BYTES", chunk)
    x, w = RNG.normal(size=(3, 7, 6, 4)), RNG.normal(size=(3, 2, 1, 4 * made))
    attributes = dict(stride=(2, 1), padding=(1, 0, 2, 1), dilation=(1, 2), groups=4)
    expected = naive_conv2d(x, w, **attributes)
    np.testing.assert_allclose(evaluate(lambda x, w: ops.conv2d(x, w, **attributes), x, w), expected, atol=1e-12)
