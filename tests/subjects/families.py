"""Every family of operators at ordinary sizes, as training programs: 32 rows, 64 to 256 wide, up to 128 steps.

A family is a function that writes its ops into a program and returns a loss. `family_program` trains on that loss, so
a step computes the ops, their gradients and an update. Tests of what may not change bits run all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from compiler import Compiled, Program, Value, adam, momentum, normal, ops, sgd
from prograd import layers

ROWS = 32
STEPS = 128

Family = Callable[[Program], Value]
"""Write ops into a program and return a loss."""


def family_program(name: str) -> Program:
    """Return a training program of a family, with the entries `train` and `evaluate`."""
    program = Program(name.replace(" ", "_"), seed=3)
    loss = FAMILIES[name](program)
    rules = {"an MLP with Adam": adam(rate=0.01), "a classifier with momentum": momentum(rate=0.1)}
    program.minimize(loss, rules.get(name, sgd(rate=0.1)))
    return program


def family_feeds(compiled: Compiled) -> dict[str, np.ndarray]:
    """Return an array for each feed: floats are normal, integers from 0 to 9, lengths from STEPS / 2 to STEPS."""
    rng = np.random.default_rng(5)
    feeds: dict[str, np.ndarray] = {}
    for name, type in compiled.entries["train"].feeds.items():
        shape = (ROWS, *type.shape[1:])
        low, high = (STEPS // 2, STEPS + 1) if name == "lengths" else (0, 10)
        feeds[name] = rng.integers(low, high, shape) if type.dtype == "int64" else rng.normal(size=shape).astype("f4")
    return feeds


def rows_of(program: Program, *shape: int) -> Value:
    """Return the feed `x`, float32 [batch, *shape]."""
    return program.input("x", "float32", ("batch", *shape))


def weights(program: Program, name: str, *shape: int) -> Value:
    """Return a parameter of this shape whose products keep the size of their operands."""
    return program.parameter(name, shape, normal(0.0, (prod(shape[:-1]) or 1) ** -0.5))


def labels(program: Program) -> Value:
    """Return the feed `label`, int64 [batch], of ten classes."""
    return program.input("label", "int64", ("batch",))


def squared(x: Value) -> Value:
    """Return a loss that every element of x changes by a weight of its own."""
    return ops.mean(ops.square(x + 0.5))


# Products and what is around them.


def perceptron(program: Program) -> Value:
    x = rows_of(program, 256)
    for i, (deep, wide) in enumerate([(256, 256), (256, 128)]):
        x = ops.relu(x @ weights(program, f"w{i}", deep, wide) + weights(program, f"b{i}", wide))
    return ops.softmax_cross_entropy(x @ weights(program, "out", 128, 10), labels(program))


def products_in_batches(program: Program) -> Value:
    x = rows_of(program, 64, 96)
    y = x @ weights(program, "w", 96, 96)
    return squared(ops.tanh(x @ ops.transpose(y, axis=(0, 2, 1))) @ y)


def products_of_other_axes(program: Program) -> Value:
    """Products of transposed operands and of slices, of which some have one column."""
    x, w = rows_of(program, 256), weights(program, "w", 256, 256)
    y = ops.tanh(x @ ops.transpose(w, axis=(1, 0)))
    z = ops.transpose(ops.transpose(y, axis=(1, 0)) @ x[:, :128], axis=(1, 0))
    column = z @ weights(program, "columns", 256, 3)[:, 1:2]
    turned = ops.matmul(ops.transpose(z * 2.0, axis=(1, 0)), weights(program, "u", 256, 1), transpose_a=True)
    return squared(z) + squared(column + turned) + squared(y[:, :64] @ ops.transpose(w, axis=(1, 0))[:64])


def products_of_slices(program: Program) -> Value:
    """A product of some steps of each row, beside a sum that has no row for each of the batch."""
    x, w = rows_of(program, 8, 1024) * weights(program, "scale", 1024), weights(program, "w", 1024, 64)
    y = x[:, 2:6] @ w + weights(program, "steps", 4, 64)
    return squared(y) + squared(x[:, :1] @ (w * 0.5)) + squared(x[:, 3] @ weights(program, "one", 1024, 1))


def large_product(program: Program) -> Value:
    return squared(
        ops.gelu(rows_of(program, STEPS, 256) @ weights(program, "w", 256, 640)) @ weights(program, "v", 640, 64)
    )


# Rows and columns.


def elementwise(program: Program) -> Value:
    x = rows_of(program, 256) * weights(program, "scale", 256)
    y = ops.sigmoid(x) * ops.exp(-ops.abs(x)) + ops.log1p(ops.square(x)) / (1.0 + ops.softplus(x))
    return ops.mean(ops.sqrt(y + 1.0) * ops.sin(x) + ops.erf(x) * ops.atan2(x, y + 2.0))


def reductions(program: Program) -> Value:
    x = rows_of(program, STEPS, 96) * weights(program, "scale", 96)
    rows = ops.sum(x, axis=(2,)) + ops.max(x, axis=(2,)) + ops.logsumexp(x, axis=(2,)) + ops.norm(x, axis=(2,))
    columns = ops.mean(x, axis=(0, 1)) + ops.sum(x, axis=(0, 1)) * 0.01 + ops.min(ops.tanh(x), axis=(0, 1))
    return ops.mean(rows) + ops.sum(columns) + ops.mean(ops.prod(1.0 + 0.01 * x, axis=(1,)))


def reductions_of_many_axes(program: Program) -> Value:
    """Reductions of what broadcasts along reduced axes, alone and beside reductions of other axes."""
    x = rows_of(program, 24, 64) * weights(program, "scale", 64)
    loss = ops.mean(x * weights(program, "table", 24, 64))
    for axes in ((2,), (0,), (1,), (0, 1), (1, 2), ()):
        loss = loss + ops.mean(ops.sum(ops.square(x), axis=axes)) * 0.01 + ops.mean(ops.norm(x, axis=axes)) * 0.1
        loss = loss + ops.mean(ops.softmax(x, axis=axes[0] if axes else 2) * x)
    return loss


def statistics(program: Program) -> Value:
    x = rows_of(program, STEPS, 96) * weights(program, "scale", 96)
    return ops.mean(ops.variance(x, axis=(0, 1))) + ops.mean(ops.standard_deviation(x, axis=(2,)))


def norms(program: Program) -> Value:
    x = rows_of(program, STEPS, 128)
    x = layers.layer_norm(x, "layer")
    x, _ = ops.rms_norm(x, weights(program, "scale", 128))
    return squared(layers.group_norm(x, "group", 8))


def batch_norm(program: Program) -> Value:
    return squared(ops.relu(layers.batch_norm(rows_of(program, 16, 16, 64), "norm")))


def softmax(program: Program) -> Value:
    x = rows_of(program, STEPS, 200) * weights(program, "scale", 200)
    return ops.mean(ops.softmax(x) * ops.log_softmax(x)) + ops.mean(ops.logsumexp(x, axis=(1,)))


def scans(program: Program) -> Value:
    x = rows_of(program, STEPS, 64) * weights(program, "scale", 64)
    return squared(ops.cumsum(x, axis=1) * 0.1) + squared(ops.linear_scan(ops.sigmoid(x), x))


# Sequences.


def attention(groups: int, causal: bool, steps: int = STEPS) -> Family:
    def write(program: Program) -> Value:
        x = rows_of(program, steps, 64)
        shapes = {"q": 4, "k": groups, "v": groups}
        heads = [
            ops.transpose(
                ops.reshape(x @ weights(program, name, 64, count * 32), shape=("batch", steps, count, 32)),
                axis=(0, 2, 1, 3),
            )
            for name, count in shapes.items()
        ]
        return squared(ops.scaled_dot_product_attention(*heads, causal=causal))

    return write


def recurrent(
    name: str, size: int, wide: int = 64, *, bidirectional: bool = False, counted: bool = False, last: bool = True
) -> Family:
    def write(program: Program) -> Value:
        gates = {"rnn": 1, "gru": 3, "lstm": 4}[name]
        x = rows_of(program, STEPS, wide)
        shapes = [(wide, gates * size), (size, gates * size), (gates * size,), (gates * size,)] * (1 + bidirectional)
        given = [weights(program, f"w{i}", *shape) for i, shape in enumerate(shapes)]
        lengths = program.input("lengths", "int64", ("batch",)) if counted else None
        y = getattr(ops, name)(x, *given, lengths=lengths, bidirectional=bidirectional)[0]
        return squared(y[:, -1] if last else y)

    return write


def embedding(program: Program) -> Value:
    words = program.input("words", "int64", ("batch", STEPS))
    return squared(ops.embedding(weights(program, "table", 10, 128), words) * weights(program, "scale", 128))


def ctc(program: Program) -> Value:
    x = ops.log_softmax(rows_of(program, STEPS, 64) @ weights(program, "w", 64, 30))
    targets = program.input("targets", "int64", ("batch", 12))
    return ops.mean(ops.ctc(x, targets + 1, blank=0))


# Images.


def convolution(
    size: int,
    deep: int,
    wide: int,
    window: int,
    *,
    groups: int = 1,
    stride: int = 1,
    dilation: int = 1,
    dtype: str = "float32",
) -> Family:
    def write(program: Program) -> Value:
        x = ops.cast(rows_of(program, size, size, deep), dtype=dtype)
        first = ops.cast(weights(program, "first", deep), dtype=dtype)
        w = ops.cast(weights(program, "w", window, window, deep // groups, wide), dtype=dtype)
        pad = window // 2 * dilation
        y = ops.conv2d(
            x * first, w, padding=(pad, pad), stride=(stride, stride), dilation=(dilation, dilation), groups=groups
        )
        return ops.cast(squared(ops.relu(y)), dtype="float32")

    return write


def bottleneck(program: Program) -> Value:
    x = rows_of(program, 16, 16, 32)
    y = ops.relu6(ops.conv2d(x, weights(program, "wide", 1, 1, 32, 128)))
    y = ops.relu6(ops.conv2d(y, weights(program, "depthwise", 3, 3, 1, 128), padding=(1, 1), groups=128))
    return squared(ops.conv2d(y, weights(program, "narrow", 1, 1, 128, 32)) + x)


def pooling(program: Program) -> Value:
    x = rows_of(program, 16, 16, 64) * weights(program, "scale", 64)
    y = ops.max_pool2d(x, window=(3, 3), stride=(2, 2)) + ops.avg_pool2d(x, window=(3, 3), stride=(2, 2))
    return squared(y) + ops.mean(ops.square(ops.mean(x, axis=(1, 2))))


FAMILIES: dict[str, Family] = {
    "an MLP with Adam": perceptron,
    "a classifier with momentum": perceptron,
    "products in batches": products_in_batches,
    "products of transposed operands": products_of_other_axes,
    "products of slices": products_of_slices,
    "a large product": large_product,
    "elementwise functions": elementwise,
    "reductions": reductions,
    "reductions of many axes": reductions_of_many_axes,
    "variances": statistics,
    "norms": norms,
    "batch norm": batch_norm,
    "softmax": softmax,
    "scans": scans,
    "attention": attention(4, causal=False),
    "causal attention of shared keys": attention(2, causal=True),
    "attention of many keys": attention(4, causal=True, steps=3 * STEPS),
    "an RNN": recurrent("rnn", 128),
    "a GRU": recurrent("gru", 160),
    "an LSTM": recurrent("lstm", 128),
    "an LSTM whose states are all read": recurrent("lstm", 256, 128, last=False),
    "a bidirectional GRU": recurrent("gru", 96, bidirectional=True, last=False),
    "an LSTM of sequences of many lengths": recurrent("lstm", 96, counted=True, last=False),
    "a bidirectional LSTM of odd sizes": recurrent("lstm", 33, 12, bidirectional=True, last=False),
    "a bidirectional GRU of odd sizes": recurrent("gru", 33, 12, bidirectional=True, last=False),
    "embeddings": embedding,
    "CTC": ctc,
    "a convolution of 3 x 3": convolution(16, 64, 64, 3),
    "a convolution of 3 x 3 with few channels": convolution(16, 16, 24, 3),
    "a convolution of 3 x 3 with stride 2": convolution(16, 64, 128, 3, stride=2),
    "a dilated convolution": convolution(16, 32, 64, 3, dilation=2),
    "a convolution of 5 x 5 in float64": convolution(12, 16, 32, 5, dtype="float64"),
    "a convolution of 1 x 1": convolution(16, 64, 256, 1),
    "a convolution of many channels at few pixels": convolution(2, 256, 256, 3),
    "a grouped convolution": convolution(12, 64, 64, 3, groups=4),
    "a depthwise convolution": convolution(28, 64, 64, 3, groups=64),
    "an inverted bottleneck": bottleneck,
    "pooling": pooling,
}
"""By name, a function that writes the family's ops."""
