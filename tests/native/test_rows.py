"""Ops that are spelled with others, and groups that go over rows, against the reference, on every instruction set."""

import numpy as np
import pytest
from native.bound import lowered
from native.building import every_target
from native.made import Made, check

from registry import OPS
from runtime.engines.native.cpu import this_machine
from runtime.engines.native.runtime_checks import CheckFailed


def numbers(*shape, dtype="float32", seed=0):
    return np.random.default_rng(seed).normal(0.5, 2, shape).astype(dtype)


def softmaxes(*xs):
    return [OPS[name](x, axis=-1) for x in xs for name in ("softmax", "log_softmax")]


def norms(x, scale, bias):
    return [
        *OPS["layer_norm"](x, scale, bias, axis=-1, epsilon=1e-5),
        *OPS["layer_norm"](x, None, bias, axis=-1, epsilon=1e-5),
        *OPS["rms_norm"](x, scale, axis=-1, epsilon=1e-6),
    ]


@every_target
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_softmax_of_rows_of_any_length(target, dtype):
    check(softmaxes, [numbers(9, n, dtype=dtype) for n in (2, 16, 130)], target)


@every_target
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_norms_of_rows(target, dtype):
    for n in (10, 131):
        check(norms, [numbers(3, 5, n, dtype=dtype), *(numbers(n, dtype=dtype, seed=s) for s in (1, 2))], target)


def with_residual(x, dx, y, scale, bias):
    """A normalisation after an addition, an activation after it, and the gradient as programs have it."""
    total = OPS["add"](x, y)
    normal, mean, root = OPS["layer_norm"](total, scale, bias, axis=-1, epsilon=1e-5)
    far = OPS["mul"](OPS["sub"](total, mean), root)
    wanted = OPS["mul"](dx, scale)
    center = OPS["sub"](wanted, OPS["mean"](wanted, axis=(2,), keepdims=True))
    along = OPS["mean"](OPS["mul"](wanted, far), axis=(2,), keepdims=True)
    return OPS["relu"](normal), OPS["mul"](root, OPS["sub"](center, OPS["mul"](far, along)))


@every_target
@pytest.mark.parametrize("columns", [3, 48, 1000])
def test_a_normalisation_and_its_gradient_are_one_group(target, columns):
    operands = [numbers(4, 3, columns, seed=s) for s in range(3)] + [numbers(columns, seed=s) for s in (3, 4)]
    made = Made(with_residual, operands)
    assert made.groups(target) == ["mul+mean+sub+add+layer_norm+sub+mul+mul+mean+relu+mul+sub+mul"]
    check(with_residual, operands, target, near=1e-5)


@pytest.mark.thorough
@every_target
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normalisations_over_other_axes_and_statistics(target, dtype):
    def write(x, scale, bias, mean, deviation):
        for groups in (1, 3):
            yield from OPS["group_norm"](x, scale, bias, groups=groups, epsilon=1e-5)
        y, *statistics = OPS["batch_norm"](x, scale, bias, mean, deviation, momentum=0.9, epsilon=1e-5)
        yield from (OPS["relu"](y), *statistics)
        yield from (OPS["softmax"](x, axis=axis) for axis in (0, 1))
        yield OPS["layer_norm"](x, axis=1, epsilon=1e-5)[0]
        for axes in ((), (1,), (0, 3)):
            yield OPS["logsumexp"](x, axis=axes, keepdims=False)
            yield OPS["variance"](x, axis=axes, correction=1.0, keepdims=True)
            yield OPS["standard_deviation"](x, axis=axes, correction=0.0, keepdims=False)
            yield from (OPS["norm"](x, ord=ord, axis=axes, keepdims=False) for ord in (0.0, 1.0, 2.0, 3.0, np.inf))

    x = numbers(3, 4, 5, 6, dtype=dtype)
    check(write, [x, *(abs(numbers(6, dtype=dtype, seed=s)) for s in range(1, 5))], target, near=2e-6)


@every_target
@pytest.mark.parametrize("groups", [1, 8, 16, 64])
def test_groups_of_few_and_of_many_channels_are_normalised(target, groups):
    x = numbers(32, 9, 7, 64) + 0.5

    def write(x, scale, bias):
        y, mean, root = OPS["group_norm"](x, scale, bias, groups=groups, epsilon=1e-5)
        yield from (y, mean, root, OPS["group_norm"](x, groups=groups, epsilon=1e-5)[0])

    check(write, [x, numbers(64, seed=1), numbers(64, seed=2)], target, near=2e-6)
    equal = np.full((2, 31, 64), 1e8 / 3, "f4")
    check(lambda x: OPS["group_norm"](x, groups=groups, epsilon=1e-5)[0], [equal], target)


@pytest.mark.parametrize("columns", [5, 150, 700])
def test_what_is_not_finite_goes_where_it_goes_in_the_reference(columns):
    x = numbers(8, columns)
    for row, odd in enumerate(([np.nan], [np.inf], [-np.inf], [np.inf, -np.inf], [np.nan, np.inf])):
        x[row, -len(odd) :] = odd
    x[5:7] = [[-np.inf], [np.inf]]
    x[7] = 3e38

    def write(x):
        return [
            OPS["softmax"](x, axis=1),
            OPS["log_softmax"](x, axis=1),
            OPS["logsumexp"](x, axis=(1,)),
            OPS["layer_norm"](x, axis=1, epsilon=1e-5)[0],
        ]

    check(write, [x], this_machine())


def test_losses_of_all_elements_and_of_each():
    def write(x, y, weights):
        for reduction in ("mean", "sum", "none"):
            yield OPS["squared_error"](x, y, reduction=reduction)
        yield OPS["sigmoid_cross_entropy"](x, y)
        yield OPS["sigmoid_cross_entropy"](x, y, weights)

    x, y = numbers(40, 30), numbers(40, 30, seed=1)
    x[0, :4] = [np.inf, -np.inf, np.inf, np.nan]
    y[0, :4] = [0, 1, 1, 0.5]
    check(write, [x, y, abs(numbers(30, seed=2))], this_machine())


@pytest.mark.parametrize("columns", [20, 600])
def test_rows_are_the_same_by_any_number_of_threads_and_touch_nothing_else(columns):
    operands = [numbers(70, 3, columns, seed=s) for s in range(3)] + [numbers(columns, seed=s) for s in (3, 4)]
    made = Made(with_residual, operands)
    first, *others = [made.native(this_machine(), threads, end=threads != 2) for threads in (1, 2, 3)]
    for other in others:
        assert [x.tobytes() for x in first] == [x.tobytes() for x in other]


def test_a_state_is_not_written_over_before_the_last_pass_has_read_it():
    def write(x):
        exp = OPS["exp"](x)
        return exp, OPS["sub"](x, OPS["mean"](exp, axis=(1,), keepdims=True))

    made = Made(write, [numbers(20, 500)])
    made.desc.updates[0].state = "x0"
    step = lowered(made.desc, (), this_machine())
    assert made.results[0].name not in step.memory.in_state


def test_what_ops_beside_each_other_begin_with_is_made_once():
    def write(x):
        return OPS["log_softmax"](x, axis=1), OPS["softmax"](x, axis=1), OPS["logsumexp"](x, axis=(1,), keepdims=True)

    step = lowered(Made(write, [numbers(9, 10)]).desc, (), this_machine())
    assert [len(group.nodes) for group in step.groups] == [6 + 2 + 6]


def test_groups_of_other_parts_of_the_same_op_are_not_taken_for_equal():
    """The second softmax shares all but its last two parts, which stand elsewhere than those of the first."""

    def write(x, y):
        first = OPS["softmax"](x, axis=0)
        return first, OPS["log_softmax"](y, axis=0), OPS["softmax"](y, axis=0)

    check(write, [numbers(9, 10), numbers(9, 10, seed=1)], this_machine())


def classified(x, labels):
    """A loss, its gradient as programs have it, and how often the largest is right."""
    gradient = OPS["sub"](OPS["softmax"](x, axis=-1), OPS["one_hot"](labels, depth=x.shape[-1], dtype=x.dtype))
    losses = [OPS["softmax_cross_entropy"](x, labels, reduction=reduction) for reduction in ("mean", "sum", "none")]
    return *losses, OPS["mul"](gradient, x), OPS["accuracy"](x, labels)


@every_target
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_losses_of_classes_with_their_gradients(target, dtype):
    for shape in ((1, 1), (40, 10), (3, 5, 301)):
        labels = np.random.default_rng(0).integers(0, shape[-1], shape[:-1])
        check(classified, [numbers(*shape, dtype=dtype), labels.astype(["int64", "int32"][len(shape) % 2])], target)


def test_a_loss_and_its_gradient_are_one_pass_over_rows():
    made = Made(classified, [numbers(40, 10), np.zeros(40, "int64")])
    groups = made.groups(this_machine())
    assert "softmax+one_hot+sub+softmax_cross_entropy+mul+accuracy" in groups
    assert len(groups) == 5  # the labels looked at, one pass over rows, and a mean, a sum and a mean of what is of rows


@pytest.mark.parametrize("label", [-1, 10, 2**40])
def test_a_label_of_no_class_is_refused_in_the_words_of_the_reference(label):
    labels = np.zeros(40, "int64")
    made = Made(classified, [numbers(40, 10), labels])
    made.operands["x1"][17] = label
    with pytest.raises(CheckFailed) as refused:
        made.native(this_machine())
    assert f" {label} is out of range: there are 10 " in str(refused.value.error)


def test_the_first_of_equal_extremes_and_of_what_is_no_number():
    x = np.array([[3, 1, 3, 1], [np.nan, 5, np.nan, 9], [-np.inf] * 4, [np.inf, 1, np.inf, np.nan]], "f4")

    def write(x, y, z):
        for name in ("argmax", "argmin"):
            yield from (OPS[name](x, axis=0), OPS[name](x, axis=1), OPS[name](z, axis=2), OPS[name](z, axis=1))
            yield from (OPS[name](y, axis=0), OPS[name](y, axis=-1))

    check(write, [x, numbers(60, 70).astype("int32"), numbers(3, 4, 200) > 0], this_machine())
