"""Connectionist temporal classification: labels of a sequence without an alignment to its steps.

A path has a class for each step. It spells the labels that remain when equal neighbours are merged and blanks are then
removed: with `-` for the blank, `aa-ab-` spells `aab`. Graves et al., 2006.
"""

from __future__ import annotations

import builtins
from math import inf

from prograd_proto import TensorType
from prograd_proto.result_types.shapes import size_known
from registry.composite import gradients_of
from registry.op import op
from registry.ops.arrange import stack, unsqueeze
from registry.ops.copy import cast
from registry.ops.fill import full, range
from registry.ops.pointwise import equal, greater, logical_or, not_equal, where
from registry.ops.scatter import gather_nd
from registry.ops.shape import concat, reshape, transpose
from registry.ops.statistics import logsumexp
from registry.traits import example, stops
from registry.value import Value


@stops
@example((1, 2, 2), (1, 1), (1,), (1,))
@op
def ctc(
    logarithms: Value,
    labels: Value,
    input_lengths: Value | None = None,
    label_lengths: Value | None = None,
    *,
    blank: int = 0,
) -> TensorType:
    """Return minus the log probability of all paths that spell the labels, one number for each row.

    `logarithms` [n, t, classes] are log probabilities, as from log_softmax. `labels` [n, s] are int32 or int64, classes
    other than `blank`. The lengths [n] are the valid steps and labels of each row, by default all; labels behind them
    are not read. If no path of that length spells the labels, the loss is inf and its gradient 0.
    """
    ...


@ctc.gradient
def ctc_gradient_rule(
    logarithms: Value,
    labels: Value,
    input_lengths: Value | None,
    label_lengths: Value | None,
    dy: Value,
    *,
    blank: int,
) -> tuple[Value, None, None, None]:
    return ctc_gradient(logarithms, labels, dy, input_lengths, label_lengths, blank=blank), None, None, None


@stops
@example((1, 2, 2), (1, 1), (1,), (1,), (1,))
@op("dx")
def ctc_gradient(
    logarithms: Value,
    labels: Value,
    dy: Value,
    input_lengths: Value | None = None,
    label_lengths: Value | None = None,
    *,
    blank: int = 0,
) -> TensorType:
    """Return the gradient of ctc: minus dy times the probability of each class at each step, given the labels.

    Its own gradient is composed of ordinary operators, several for each step.
    """
    ...


@ctc_gradient.gradient
def ctc_gradient_gradient(
    logarithms: Value,
    labels: Value,
    dy: Value,
    input_lengths: Value | None,
    label_lengths: Value | None,
    ddx: Value,
    *,
    blank: int,
) -> tuple[Value | None, ...]:
    def loss(x: Value) -> list[Value]:
        return [_loss_by_steps(x, labels, input_lengths, label_lengths, blank)]

    def first(x: Value, dy: Value) -> list[Value]:
        return [grad for grad in gradients_of(loss, [x], [dy]) if grad is not None]

    if logarithms.shape[1] == 0:
        return (None,) * 5
    gx, gdy = gradients_of(first, [logarithms, dy], [ddx])
    return gx, None, gdy, None, None


def _loss_by_steps(
    x: Value, labels: Value, input_lengths: Value | None, label_lengths: Value | None, blank: int
) -> Value:
    """Return the loss composed of ordinary operators: the forward recursion over labels and blanks."""
    block, n = x.block, x.shape[0]
    steps = size_known(x.shape[1], "the number of steps")
    count = size_known(labels.shape[1], "the number of labels")
    states = 2 * count + 1

    def filled(width: int, value: float) -> Value:
        return full.on(block)(shape=(n, width), value=value, dtype=x.dtype)

    def behind(value: Value, distance: int) -> Value:
        kept = builtins.max(0, states - distance)
        return concat(filled(states - kept, -inf), value[:, :kept], axis=1)

    numbers = range.on(block)(stop=states)
    last = _lengths(label_lengths, x, count) * 2
    blanks = full.on(block)(shape=(n, count + 1), value=blank, dtype=labels.dtype)
    pairs = reshape(stack(blanks[:, :count], labels, axis=2), shape=(n, 2 * count))
    classes = where(greater(numbers, last), blank, concat(pairs, blanks[:, count:], axis=1))
    emitted = gather_nd(transpose(x, axis=(0, 2, 1)), unsqueeze(classes, axis=(2,)), batch_axes=1)
    jump = filled(states, -inf)
    if count:
        differs = not_equal(classes[:, 2:], classes[:, : states - 2])
        jump = concat(jump[:, :2], where(differs, 0.0, jump[:, 2:]), axis=1)
    length = _lengths(input_lengths, x, steps)
    front = concat(filled(1, 0.0), filled(states - 1, -inf), axis=1)
    for t in builtins.range(steps):
        ways = stack(front, behind(front, 1), behind(front, 2) + jump, axis=2)
        front = where(greater(length, t), logsumexp(ways, axis=(2,)) + emitted[:, :, t], front)
    final = logical_or(equal(numbers, last), equal(numbers, last - 1))
    return -logsumexp(where(final, front, -inf), axis=(1,))


def _lengths(lengths: Value | None, x: Value, whole: int) -> Value:
    """Return the lengths as a column of int64."""
    if lengths is None:
        return full.on(x.block)(shape=(x.shape[0], 1), value=whole, dtype="int64")
    return unsqueeze(cast(lengths, dtype="int64"), axis=(1,))
