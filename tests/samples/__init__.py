"""Every operator, one line per interesting case: what the generic tests of tests/every_operator/ run.

    operands     the words in which a sample says what its operands hold
    arrays       diagonals, ranges, elements by number, windows of images, decompositions
    functions    functions element by element
    networks     normalisation, attention, recurrence, resizing
    scans        reductions, scans and sorting
    updates      updates that adapt to the gradients

All other operators are here. A sample names an operator, its operands, and its attributes. A shape alone is a float64
tensor of normal numbers; `None` is an absent optional operand.
The first extent of the first operand is also tried as a symbol: give it a size that no filter or `shape` has.
"""

from __future__ import annotations

from typing import Any

from prograd_proto import program_pb2 as pb
from samples.arrays import LARGE as LARGE_ARRAYS
from samples.arrays import SAMPLES as ARRAYS
from samples.functions import LARGE as LARGE_FUNCTIONS
from samples.functions import SAMPLES as FUNCTIONS
from samples.networks import LARGE as LARGE_NETWORKS
from samples.networks import SAMPLES as NETWORKS
from samples.operands import Operand, bools, codes, distinct, ints, positive, positive_ints, sample, typed
from samples.operands import Sample as Sample
from samples.scans import LARGE as LARGE_SCANS
from samples.scans import SAMPLES as SCANS
from samples.updates import LARGE as LARGE_ADAPTIVE
from samples.updates import SAMPLES as ADAPTIVE
from samples.updates import parameter

BINARY = ["add", "sub", "mul"]
COMPARISONS = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]

POINTWISE = [
    *(sample(op, (2, 3), (2, 3)) for op in BINARY),
    *(sample(op, (4, 1, 3), (2, 1)) for op in BINARY),
    *(sample(op, (), (2, 3)) for op in BINARY),
    *(sample(op, (0, 3), (3,)) for op in BINARY),
    *(sample(op, typed(dtype, (2, 3)), typed(dtype, (3,)), order=0) for op in BINARY for dtype in ("int32", "uint8")),
    sample("div", (2, 3), positive((2, 3))),
    sample("div", (2, 1), positive((3,))),
    sample("pow", positive((2, 3)), (2, 3)),
    sample("pow", positive((2, 3)), ()),
    sample("pow", positive((3, 1)), (1, 2)),
    sample("maximum", distinct((2, 3)), (1, 3)),
    sample("minimum", distinct((2, 3)), (1, 3)),
    sample("maximum", typed("int32", (2, 3)), typed("int32", (1, 3)), order=0),
    sample("minimum", typed("uint8", (2, 3)), typed("uint8", (2, 3)), order=0),
    *(sample(op, (2, 3), (3,), order=0) for op in COMPARISONS),
    *(sample(op, ints((2, 3), 2), ints((2, 3), 2), order=0) for op in COMPARISONS),
    *(sample(op, bools((2, 4)), bools((4,)), order=0) for op in ("logical_and", "logical_or", "equal")),
    sample("logical_not", bools((2, 4)), order=0),
    sample("where", bools((2, 3)), (2, 3), (2, 3)),
    sample("when_training", (2, 3), (2, 3)),
    sample("when_training", typed("uint8", (2, 3)), typed("uint8", (2, 3)), order=0),
    sample("where", bools((3,)), (2, 1), ()),
    sample("where", bools((2, 3)), ints((3,), 9), ints((2, 1), 9), order=0),
    sample("abs", distinct((2, 3))),
    sample("abs", typed("int32", (2, 3)), order=0),
    sample("sign", distinct((2, 3))),
    sample("sign", typed("int64", (2, 3)), order=0),
    sample("relu", distinct((2, 3))),
    *(sample(op, positive((2, 3))) for op in ("sqrt", "log")),
    *(sample(op, (2, 3)) for op in ("neg", "square", "cos")),
    *(sample(op, (2, 3)) for op in ("exp", "sin", "tanh", "sigmoid")),
    *(sample(op, ()) for op in ("neg", "exp", "sigmoid")),
    *(sample(op, typed("int32", (5,)), order=0) for op in ("neg", "square")),
]

COPY = [
    sample("bitcast", (2, 3), order=0),
    sample("bitcast", positive_ints((2, 3)), order=0),
    sample("bitcast", bools((2, 3)), order=0),
    sample("cast", (2, 3), dtype="float64"),
    sample("cast", (2, 3), dtype="int32"),
    sample("cast", (2, 3), dtype="bool"),
    sample("cast", bools((2, 3)), dtype="float64", order=0),
    sample("cast", positive_ints((2, 3)), dtype="uint8", order=0),
    sample("cast", positive_ints((2, 3), "uint8"), dtype="float32", order=0),
    sample("identity", (2, 3)),
    sample("identity", bools(()), order=0),
    sample("stop_gradient", (2, 3)),
    sample("quantize_linear", typed("float32", (3, 5)), typed("float32", ()), codes(()), order=0),
    sample("quantize_linear", typed("float32", (3, 5)), typed("float32", (5,)), codes((3, 1)), order=0),
    sample("dequantize_linear", codes((3, 5)), typed("float32", ()), codes(()), order=0),
    sample("dequantize_linear", codes((3, 5)), typed("float32", (3, 1)), codes((5,)), order=0),
    sample("requantize", typed("int32", (3, 5)), *(typed("float32", s) for s in ((), (5,), ())), codes(()), order=0),
    sample("integer_matmul", codes((3, 5)), codes((5, 4)), codes(()), codes(()), order=0),
    sample("integer_matmul", codes((3, 2, 5)), codes((3, 5, 4)), codes(()), codes((4,)), order=0),
    sample("integer_matmul", codes((3, 2, 5)), codes((5, 4)), codes(()), codes((4,)), order=0),
    sample("integer_conv2d", codes((3, 5, 4, 2)), codes((2, 3, 2, 4)), codes(()), codes(()), padding=(1, 1), order=0),
    sample("integer_conv2d", codes((3, 5, 4, 4)), codes((2, 2, 1, 4)), codes(()), codes((4,)), groups=4, order=0),
    sample("dequantize", typed("uint8", (3, 64)), typed("float16", (3, 2)), order=0),
    sample("dequantize", typed("uint8", (3, 2, 16)), typed("float16", (3, 2, 1)), bits=4, order=0),
    sample("dequantize", typed("uint8", (3, 6)), typed("float16", (3, 2)), order=0),
    sample("over_shards", (2, 3), shards=2, mean=True, order=0),
    sample("over_shards", (2, 3), (), shards=4, mean=True, order=0),
    sample("over_shards", ints((2, 3), 9), shards=2, mean=False, order=0),
    sample("join_shards", (2, 3), (2, 3), first=0, middle=2, stop=3, order=0),
    sample("join_shards", ints((2, 3), 9), ints((2, 3), 9), first=4, middle=5, stop=6, order=0),
    *(sample(op, (2, 3)) for op in ("spill", "reload")),
]

REDUCE = [
    *(sample(op, distinct((2, 3, 4))) for op in ("sum", "mean", "max")),
    *(sample(op, distinct((2, 3, 4)), axes=(1,)) for op in ("sum", "mean", "max")),
    *(sample(op, distinct((2, 3, 4)), axes=(-1, 0), keepdims=True) for op in ("sum", "mean", "max")),
    *(sample(op, distinct(())) for op in ("sum", "mean", "max")),
    sample("sum", (0, 3), axes=(0,)),
    *(sample(op, (2, 3, 4, 5), axes=(1, 0, -2), keepdims=k) for op in ("sum", "mean") for k in (False, True)),
    sample("sum", (2, 3, 4), axes=(0, 1)),
    *(sample("sum", shape, axes=(0, 1)) for shape in ((0, 3, 2), (3, 0, 2))),
    *(sample("sum", typed(dtype, (3, 4)), axes=(1,), order=0) for dtype in ("int32", "int64", "uint8", "bool")),
    *(sample("max", typed(dtype, (3, 4)), axes=(1,), order=0) for dtype in ("int32", "uint8", "bool")),
    sample("argmax", (3, 4), order=0),
    sample("argmax", (3, 4, 2), axis=1, order=0),
    sample("argmax", ints((3, 4), 2), axis=0, order=0),
    sample("broadcast_to", (3, 1), shape=(2, 3, 4)),
    sample("broadcast_to", (), shape=(2, 3)),
    sample("broadcast_to", bools((2, 1)), shape=(2, 3), order=0),
]

SHAPE = [
    sample("reshape", (2, 3, 4), shape=(2, 12)),
    sample("reshape", (2, 3, 4), shape=(-1, 3)),
    sample("reshape", (1, 1), shape=()),
    sample("transpose", (2, 3, 4)),
    sample("transpose", (2, 3, 4), axes=(1, -1, 0)),
    sample("slice", (4, 5), axes=(1,), starts=(1,), stops=(4,), strides=(1,)),
    sample("slice", (2, 5, 6), axes=(2, 1), starts=(5, 0), stops=(-1, 5), strides=(-2, 2)),
    sample("slice", (4, 5), axes=(0,), starts=(2,), stops=(2,), strides=(1,)),
    sample("unslice", (4, 3), shape=(4, 5), axes=(1,), starts=(1,), stops=(4,), strides=(1,)),
    sample("unslice", (2, 3), shape=(2, 6), axes=(1,), starts=(5,), stops=(-1,), strides=(-2,)),
    sample("pad", (2, 3), before=(0, 1), after=(2, 0)),
    sample("pad", (2, 3), before=(0, 1), after=(0, 1), value=1.5),
    sample("pad", ints((3,), 9), before=(1,), after=(1,), value=7.0, order=0),
    sample("split", (6, 2), sizes=(1, 3, 2)),
    sample("split", (2, 5), sizes=(2, 0, 3), axis=-1),
    sample("concat", (2, 3), (2, 1), (2, 4), axis=-1),
    sample("concat", (2, 3), (0, 3)),
    sample("concat", (2, 3)),
]

INDEX = [
    sample("gather", (4, 3), ints((5,), 4)),
    sample("gather", (2, 4, 3), ints((2, 3), 4), axis=-2),
    sample("gather", (4,), Operand((), "int32", "below", 4)),
    sample("gather", (4, 3), ints((0,), 4)),
    sample("gather", (4, 3), Operand((5,), "uint8", "below", 4)),
    sample("gather", (256,), Operand((3, 7), "uint8", "below", 256)),
    sample("scatter_add", (4, 3), ints((5,), 4), (5, 3)),
    sample("scatter_add", (2, 4, 3), Operand((2, 3), "int32", "below", 4), (2, 2, 3, 3), axis=1),
    sample("scatter_add", ints((4,), 9), ints((6,), 4), ints((6,), 9), order=0),
    sample("one_hot", ints((2, 3), 5), depth=5, order=0),
    sample("sparse_matmul", ints((4, 3), 5), (4, 3), (5, 6)),
    sample("sparse_matmul", Operand((4, 3), "int32", "below", 5), (4, 3), (5, 33)),
    sample("sparse_matmul", ints((2, 0), 5), (2, 0), (5, 3)),
    sample("sparse_outer_sum", ints((4, 3), 5), (4, 3), (4, 6), size=5),
    sample("sparse_outer_sum", Operand((4, 3), "int32", "below", 7), (4, 3), (4, 33), size=7),
    sample("one_hot", Operand((4,), "int32", "below", 3), depth=3, dtype="int32", order=0),
]

FILL = [
    sample("constant", value=pb.SmallTensor(dtype=pb.D_TYPE_INT32, shape=[2], data=b"\1\0\0\0\2\0\0\0"), order=0),
    sample("full", shape=(2, 3), value=1.5, dtype="float64", order=0),
    sample("full", shape=(), value=1.0, dtype="bool", order=0),
    sample("size", shape=(2, 3), order=0),
    sample("size", shape=(), dtype="float32", order=0),
]

LINALG = [
    sample("matmul", (2, 3), (3, 4)),
    sample("matmul", (3, 2), (3, 4), transpose_a=True),
    sample("matmul", (2, 3), (4, 3), transpose_b=True),
    sample("matmul", (3, 2), (4, 3), transpose_a=True, transpose_b=True),
    *(
        sample("matmul", (2, 5, *a), b, transpose_a=a == (4, 3), transpose_b=b[-1] == 4)
        for a in ((3, 4), (4, 3))
        for b in ((4, 2), (2, 4), (5, 4, 2), (2, 1, 2, 4))
    ),
    sample("matmul", (3, 4), (2, 4, 2)),
    sample("matmul", (2, 3, 4, 4), (3, 4, 4), transpose_a=True, transpose_b=True),
    sample("matmul", (1, 1), (1, 1)),
    sample("matmul", (2, 0), (0, 3)),
    sample("matmul", (0, 2), (2, 3)),
    sample("matmul", (5, 1), (1, 4)),
    sample("outer_sum", (4, 3), (4, 2)),
    sample("outer_sum", (2, 4, 3), (2, 4, 5)),
    sample("outer_sum", (0, 3), (0, 2)),
]

CONV = [
    sample("conv2d", (2, 5, 6, 3), (3, 2, 3, 4)),
    sample("conv2d", (1, 7, 5, 2), (3, 3, 2, 3), stride=(2, 1), padding=(1, 0, 2, 1)),
    sample("conv2d", (2, 8, 7, 4), (2, 3, 2, 6), stride=(3, 2), padding=(2, 1), dilation=(2, 3), groups=2),
    sample("conv2d", (2, 4, 5, 5), (2, 2, 1, 10), padding=(1, 1), groups=5),
    sample("conv2d", (2, 4, 4, 4), (3, 3, 1, 4), padding=(1, 1), groups=4),
    sample("conv2d", (2, 3, 3, 4), (1, 1, 4, 3)),
    sample("conv2d", (2, 3, 3, 4), (1, 1, 2, 6), groups=2),
    sample("conv2d", (2, 5, 4, 1), (1, 1, 1, 3), stride=(2, 3)),
    sample("conv2d", (2, 2, 2, 5), (2, 2, 5, 1)),
    sample("conv2d", (1, 2, 3, 1), (3, 4, 1, 2), padding=(5, 3, 4, 4), stride=(2, 2)),
    sample("conv2d", (0, 4, 4, 2), (3, 3, 2, 2)),
    sample(
        "conv2d_input_gradient", (2, 3, 2, 4), (2, 3, 3, 4), shape=(2, 6, 5, 3), stride=(2, 2), padding=(0, 0, 1, 1)
    ),
    sample("conv2d_input_gradient", (2, 3, 3, 4), (1, 1, 2, 4), shape=(2, 3, 3, 4), groups=2),
    sample(
        "conv2d_filter_gradient", (4, 6, 5, 3), (4, 3, 2, 4), shape=(2, 3, 3, 4), stride=(2, 2), padding=(0, 0, 1, 1)
    ),
    sample("conv2d_filter_gradient", (3, 4, 4, 2), (3, 4, 4, 2), shape=(3, 3, 1, 2), padding=(1, 1), groups=2),
]

WINDOWS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    # the image, the places of the window, the window
    ((2, 4, 6, 3), (2, 2, 3, 3), dict(window=(2, 2), stride=(2, 2))),
    ((1, 5, 6, 2), (1, 3, 4, 2), dict(window=(3, 2), stride=(1, 2), padding=(0, 1, 0, 1))),
    ((2, 5, 3, 1), (2, 3, 3, 1), dict(window=(3, 3), stride=(2, 1), padding=(1, 1))),
    ((2, 5, 4, 2), (2, 2, 2, 2), dict(window=(2, 1), stride=(3, 2), padding=(0, 0, 1, 0))),
    ((0, 4, 4, 2), (0, 2, 2, 2), dict(window=(2, 2), stride=(2, 2))),
]

POOL = [
    *(sample("max_pool2d", distinct(x), **window) for x, _, window in WINDOWS),
    *(sample("max_pool2d", typed("uint8", x), order=0, **window) for x, _, window in WINDOWS[:2]),
    *(sample("max_pool2d_input_gradient", distinct(x), y, **window) for x, y, window in WINDOWS),
    *(sample("max_pool2d_select", distinct(x), x, **window) for x, _, window in WINDOWS),
    *(sample("avg_pool2d", x, **window, count_include_pad=c) for x, _, window in WINDOWS for c in (False, True)),
    *(
        sample("avg_pool2d_input_gradient", y, shape=x, **window, count_include_pad=c)
        for x, y, window in WINDOWS
        for c in (False, True)
    ),
]


def channels(count: int) -> tuple[Operand, ...]:
    """Scale, bias, running mean and running variance."""
    return positive((count,)), Operand((count,)), Operand((count,)), positive((count,))


NORM = [
    *(sample(op, (2, 5)) for op in ("softmax", "log_softmax")),
    *(sample(op, (3, 4, 2), axis=1) for op in ("softmax", "log_softmax")),
    *(sample(op, (3, 1)) for op in ("softmax", "log_softmax")),
    *(sample(op, (0, 3)) for op in ("softmax", "log_softmax")),
    sample("batch_norm", (7, 3), *channels(3)),
    sample("batch_norm", (2, 3, 4, 2), *channels(2), momentum=0.7, epsilon=0.1),
    sample("batch_norm", (4, 3, 1), *channels(1)),
    sample("batch_norm", (3, 2, 1, 2, 4), *channels(4)),
]

LOSS = [
    *(sample("softmax_cross_entropy", (4, 3), ints((4,), 3), reduction=r) for r in ("mean", "sum", "none")),
    *(sample("softmax_cross_entropy", (2, 3, 5), ints((2, 3), 5), reduction=r) for r in ("mean", "none")),
    sample("softmax_cross_entropy", (3,), Operand((), "int32", "below", 3)),
    *(sample("squared_error", (4, 3), (4, 3), reduction=r) for r in ("mean", "sum", "none")),
    sample("squared_error", (), ()),
    sample("sigmoid_cross_entropy", (4, 3), (4, 3)),
    sample("sigmoid_cross_entropy", (4, 3), (4, 3), positive((3,))),
    sample("sigmoid_cross_entropy", (2, 3), (2, 3), positive((2, 3))),
    sample("sigmoid_cross_entropy", typed("float32", (5,)), typed("float32", (5,)), order=0),
    sample("accuracy", (4, 3), ints((4,), 3), order=0),
    sample("accuracy", typed("float32", (2, 3, 2)), Operand((2, 3), "int32", "below", 2), order=0),
]


STEP = ints((), 9)

UPDATE = [
    *(sample("sgd", *parameter((3, 4)), decay=decay, order=0) for decay in (0.0, 0.1)),
    sample("sgd", *parameter((), dtype="float32"), decay=0.1, order=0),
    sample("sgd", *parameter((0, 2)), order=0),
    *(
        sample("momentum", *parameter((3, 4), Operand((3, 4))), nesterov=nesterov, decay=decay, order=0)
        for nesterov in (False, True)
        for decay in (0.0, 0.1)
    ),
    *(
        sample("adam", *parameter((3, 4), Operand((3, 4)), positive((3, 4))), STEP, decay=decay, order=0)
        for decay in (0.0, 0.1)
    ),
]

COUNTERS = (Operand((), "int64"), ints((), 9))
"""The seed and the step."""

RANDOM = [
    *(
        sample(op, *COUNTERS, shape=(3, 5), dtype=d, order=0)
        for op in ("uniform", "normal")
        for d in ("float32", "float64")
    ),
    *(sample(op, *COUNTERS, shape=(), order=0) for op in ("uniform", "normal")),
    *(sample(op, *COUNTERS, shape=(0, 3), order=0) for op in ("uniform", "normal")),
    sample("uniform", *COUNTERS, shape=(101, 90), low=-2.0, high=3.0, order=0),
    sample("normal", *COUNTERS, shape=(101, 91), mean=1.0, deviation=0.1, order=0),
    sample("dropout", (3, 5), *COUNTERS),
    sample("dropout", (2, 3, 4), *COUNTERS, rate=0.25),
    sample("dropout", (5,), *COUNTERS, rate=0.0),
    sample("dropout", (0, 3), *COUNTERS),
    *(sample("truncated_normal", *COUNTERS, shape=(3, 5), dtype=d, order=0) for d in ("float32", "float64")),
    sample("truncated_normal", *COUNTERS, shape=(101, 90), low=-0.5, high=4.0, deviation=3.0, order=0),
    *(sample("bernoulli", *COUNTERS, shape=(3, 5), dtype=d, order=0) for d in ("bool", "float32", "int64")),
    *(sample("bernoulli", *COUNTERS, shape=(7,), probability=p, order=0) for p in (0.0, 1.0)),
    *(sample("randint", *COUNTERS, shape=(3, 5), low=-2, high=9, dtype=d, order=0) for d in ("int32", "int64")),
    sample("randint", *COUNTERS, shape=(), high=2**32, order=0),
    sample("iteration_step", *COUNTERS, order=0),
    *(sample("permutation", *COUNTERS, count=count, order=0) for count in (0, 1, 9001)),
    *(sample("categorical", x, *COUNTERS, order=0) for x in ((4, 3), (2, 5, 7), (3,), (4, 1))),
    *(sample("orthogonal", *COUNTERS, shape=s, order=0) for s in ((4, 3), (3, 4), (2, 3, 5), (1, 1))),
    sample("orthogonal", *COUNTERS, shape=(3, 3), gain=2.0, dtype="float64", order=0),
    sample("alpha_dropout", (3, 5), *COUNTERS),
    sample("alpha_dropout", (2, 3, 4), *COUNTERS, rate=0.25, linear=True),
]

SAMPLES = [
    *POINTWISE,
    *FUNCTIONS,
    *SCANS,
    *COPY,
    *REDUCE,
    *SHAPE,
    *INDEX,
    *ARRAYS,
    *FILL,
    *LINALG,
    *CONV,
    *POOL,
    *NORM,
    *NETWORKS,
    *LOSS,
    *UPDATE,
    *ADAPTIVE,
    *RANDOM,
]

WIDE = (200, 300)
"""More than 64 KiB of any dtype but bool and uint8 would be, so that a copy shows."""

LARGE_LINALG = [
    sample("matmul", WIDE, (300, 100)),
    sample("matmul", WIDE, WIDE, transpose_a=True),
    sample("matmul", WIDE, WIDE, transpose_b=True),
    sample("matmul", WIDE, (300, 200), transpose_a=True, transpose_b=True),
    *(sample("matmul", (5, *WIDE), (5, *WIDE), transpose_a=a, transpose_b=not a) for a in (True, False)),
    sample("matmul", (5, *WIDE), (300, 300), transpose_b=True),
    sample("matmul", WIDE, (300, 1)),
    sample("outer_sum", (5, *WIDE), (5, *WIDE)),
]

LARGE_CONV = [
    *(
        sample(op, *operands, **attributes, padding=(0, 1), stride=stride, groups=groups)
        for stride, size in (((1, 1), 26), ((2, 2), 13))
        for groups in (1, 16)
        for op, operands, attributes in (
            ("conv2d", ((20, 28, 26, 16), (3, 3, 16 // groups, 32)), {}),
            ("conv2d_input_gradient", ((20, size, size, 32), (3, 3, 16 // groups, 32)), {"shape": (20, 28, 26, 16)}),
            ("conv2d_filter_gradient", ((20, 28, 26, 16), (20, size, size, 32)), {"shape": (3, 3, 16 // groups, 32)}),
        )
    ),
    sample("conv2d", (20, 28, 26, 1), (5, 5, 1, 16)),
    sample("conv2d", (20, 28, 26, 16), (1, 1, 8, 16), groups=2),
    sample("conv2d_input_gradient", (20, 28, 26, 16), (1, 1, 8, 16), shape=(20, 28, 26, 16), groups=2),
    sample("conv2d_filter_gradient", (20, 28, 26, 16), (20, 28, 26, 16), shape=(1, 1, 8, 16), groups=2),
]

LARGE_POOL = [
    *(
        sample(op, *operands, window=(3, 3), stride=stride, padding=(1, 1), **attributes)
        for stride, size in (((1, 1), 28), ((3, 3), 10))
        for op, operands, attributes in (
            ("max_pool2d", ((8, 28, 28, 16),), {}),
            ("max_pool2d_input_gradient", ((8, 28, 28, 16), (8, size, size, 16)), {}),
            ("max_pool2d_select", ((8, 28, 28, 16), (8, 28, 28, 16)), {}),
            ("avg_pool2d", ((8, 28, 28, 16),), {}),
            ("avg_pool2d_input_gradient", ((8, size, size, 16),), {"shape": (8, 28, 28, 16)}),
        )
    ),
]

LARGE_NORM = [
    *(sample(op, WIDE, axis=axis) for op in ("softmax", "log_softmax") for axis in (0, 1)),
    sample("batch_norm", WIDE, *channels(300)),
    sample("batch_norm", (8, 28, 28, 16), *channels(16)),
]

LARGE_LOSS = [
    *(
        sample("softmax_cross_entropy", (20000, 3), Operand((20000,), dtype, "below", 3), reduction=r)
        for dtype in ("int32", "int64")
        for r in ("mean", "none")
    ),
    sample("softmax_cross_entropy", WIDE, ints((200,), 300)),
    *(sample("squared_error", WIDE, WIDE, reduction=r) for r in ("mean", "none")),
    *(sample("sigmoid_cross_entropy", typed(d, WIDE), typed(d, WIDE)) for d in ("float32", "float64")),
    sample("sigmoid_cross_entropy", WIDE, WIDE, positive((300,))),
    sample("accuracy", WIDE, ints((200,), 300)),
    sample("accuracy", (20000, 3), ints((20000,), 3)),
]

LARGE_UPDATE = [
    sample("sgd", *parameter(WIDE), decay=0.1),
    sample("momentum", *parameter(WIDE, Operand(WIDE)), nesterov=True, decay=0.1),
    sample("adam", *parameter(WIDE, Operand(WIDE), positive(WIDE)), STEP, decay=0.1),
]

LARGE_RANDOM = [
    *(sample(op, *COUNTERS, shape=WIDE, dtype=d) for op in ("uniform", "normal") for d in ("float32", "float64")),
    *(sample("dropout", typed(dtype, WIDE), *COUNTERS) for dtype in ("float32", "float64")),
    *(sample("truncated_normal", *COUNTERS, shape=WIDE, dtype=d) for d in ("float32", "float64")),
    *(sample("bernoulli", *COUNTERS, shape=(400, 300), dtype=d) for d in ("bool", "float32")),
    *(sample("randint", *COUNTERS, shape=WIDE, high=9, dtype=d) for d in ("int32", "int64")),
    sample("permutation", *COUNTERS, count=20000),
    *(sample("categorical", typed(d, x), *COUNTERS) for d in ("float32", "float64") for x in (WIDE, (20000, 3))),
    *(sample("orthogonal", *COUNTERS, shape=s) for s in ((300, 200), (200, 300))),
    sample("alpha_dropout", typed("float32", WIDE), *COUNTERS),
]

LARGE = [
    *(sample(op, WIDE, (300,)) for op in [*BINARY, *COMPARISONS, "div", "maximum", "minimum"]),
    sample("pow", positive(WIDE), ()),
    *(sample(op, bools((400, 300)), bools((300,))) for op in ("logical_and", "logical_or")),
    sample("logical_not", bools((400, 300))),
    sample("where", bools(WIDE), WIDE, (300,)),
    sample("when_training", WIDE, WIDE),
    *(sample(op, WIDE) for op in ("neg", "abs", "sign", "square", "exp", "sin", "cos", "tanh", "sigmoid", "relu")),
    *(sample(op, positive(WIDE)) for op in ("sqrt", "log")),
    *(sample("cast", WIDE, dtype=dtype) for dtype in ("float32", "int32", "bool")),
    sample("bitcast", WIDE, order=0),
    sample("quantize_linear", typed("float32", WIDE), typed("float32", ()), codes(())),
    sample("dequantize_linear", codes(WIDE), typed("float32", ()), codes(())),
    sample("requantize", typed("int32", WIDE), *[typed("float32", ())] * 3, codes(())),
    sample("integer_matmul", codes((256, 512)), codes((512, 256)), codes(()), codes(())),
    sample("integer_conv2d", codes((8, 32, 32, 16)), codes((3, 3, 16, 32)), codes(()), codes(())),
    *(sample("dequantize", typed("uint8", (128, 1024)), typed("float16", (128, 32)), bits=b) for b in (8, 4)),
    *(sample(op, WIDE) for op in ("identity", "stop_gradient", "spill", "reload")),
    sample("over_shards", WIDE, shards=8, mean=True),
    sample("join_shards", WIDE, WIDE, first=0, middle=1, stop=2),
    *(sample(op, WIDE, axes=axes) for op in ("sum", "mean", "max") for axes in ((), (0,), (1,))),
    *(sample("sum", typed(dtype, (400, 300)), axes=axes) for dtype in ("uint8", "int32") for axes in ((0,), (1,))),
    *(sample("argmax", WIDE, axis=axis) for axis in (0, 1)),
    sample("broadcast_to", (1, 300), shape=WIDE),
    sample("reshape", WIDE, shape=(-1,)),
    sample("transpose", WIDE),
    sample("slice", WIDE, axes=(1,), starts=(299,), stops=(-1,), strides=(-1,)),
    sample("unslice", (200, 150), shape=WIDE, axes=(1,), starts=(1,), stops=(300,), strides=(2,)),
    sample("pad", WIDE, before=(1, 1), after=(1, 1)),
    sample("split", WIDE, sizes=(100, 200), axis=1),
    sample("concat", WIDE, WIDE, axis=1),
    sample("sparse_matmul", ints((64, 30), 300), (64, 30), (300, 200)),
    sample("sparse_outer_sum", ints((64, 30), 300), (64, 30), (64, 200), size=300),
    *(sample("gather", WIDE, Operand((20000,), dtype, "below", 200), axis=0) for dtype in ("int32", "int64")),
    sample("gather", WIDE, ints((300,), 300), axis=1),
    *(
        sample("scatter_add", (200, 3), Operand((20000,), dtype, "below", 200), (20000, 3))
        for dtype in ("int32", "int64")
    ),
    sample("one_hot", Operand((2000,), "int32", "below", 100), depth=100),
    sample("full", shape=WIDE, value=1.0),
    *LARGE_FUNCTIONS,
    *LARGE_SCANS,
    *LARGE_ARRAYS,
    *LARGE_LINALG,
    *LARGE_CONV,
    *LARGE_POOL,
    *LARGE_NORM,
    *LARGE_NETWORKS,
    *LARGE_LOSS,
    *LARGE_UPDATE,
    *LARGE_ADAPTIVE,
    *LARGE_RANDOM,
]
"""Like SAMPLES, a case at least for each operator whose kernel could make a copy of more than 64 KiB."""
