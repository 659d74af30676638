"""Samples of functions element by element, beyond those of samples/__init__.py."""

from __future__ import annotations

from samples.operands import above, bools, distinct, inside, ints, positive, sample, typed

WIDE = (200, 300)

SMOOTH = ["log1p", "expm1", "exp2", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "atanh"]
STEPS = ["floor", "ceil", "round", "trunc"]
BITWISE = ["bitwise_and", "bitwise_or", "bitwise_xor"]
KINDS = ["isnan", "isinf", "isfinite"]
DIVISIONS = ["floor_div", "remainder", "fmod"]

POINTWISE = [
    sample("clip", distinct((4, 5)), distinct((5,)), (4, 1)),
    sample("clip", distinct((4, 5)), (5,)),
    sample("clip", distinct((4, 5)), None, ()),
    sample("clip", (2, 3)),
    sample("clip", (3,), (2, 1)),
    sample("clip", typed("int32", (2, 3)), typed("int32", (3,)), typed("int32", ()), order=0),
    sample("lerp", (2, 3), (2, 3), (2, 3)),
    sample("lerp", (2, 1), (3,), ()),
]

ELEMENTARY = [
    *(sample(op, inside((2, 3))) for op in SMOOTH),
    *(sample(op, positive((2, 3))) for op in ("rsqrt", "reciprocal", "log2")),
    sample("acosh", above((2, 3))),
    *(sample(op, typed("float32", (5,)), order=0) for op in [*SMOOTH, "rsqrt", "acosh"]),
    sample("atan2", distinct((2, 3)), distinct((2, 3))),
    sample("atan2", distinct((2, 1)), (3,)),
]

ROUNDING = [
    *(sample(op, distinct((2, 3))) for op in STEPS),
    *(sample(op, distinct((4, 3)), positive((4, 3))) for op in DIVISIONS),
    *(sample(op, (4, 1), (3,)) for op in DIVISIONS),
    *(
        sample(op, typed(dtype, (4, 3)), typed(dtype, (3,)), order=0)
        for op in DIVISIONS
        for dtype in ("int32", "int64")
    ),
    *(sample(op, typed("uint8", (5,)), typed("uint8", ()), order=0) for op in DIVISIONS),
]

LOGIC = [
    sample("logical_xor", bools((2, 4)), bools((4,)), order=0),
    *(
        sample(op, typed(dtype, (4, 3)), typed(dtype, (3,)), order=0)
        for op in [*BITWISE, "left_shift", "right_shift"]
        for dtype in ("int32", "int64", "uint8")
    ),
    sample("bitwise_not", ints((2, 3), 9), order=0),
    *(sample(op, (2, 3), order=0) for op in KINDS),
    *(sample(op, typed("float32", ()), order=0) for op in KINDS),
]

SPECIAL = [
    *(sample(op, (4, 5)) for op in ("erf", "erfc")),
    *(sample(op, positive((2, 3))) for op in ("lgamma", "digamma")),
    *(sample(op, distinct((4, 5))) for op in ("lgamma", "digamma")),
    *(sample("polygamma", positive((2, 3)), n=n) for n in (1, 2)),
    sample("polygamma", distinct((3,)), n=3),
    *(sample(op, typed("float32", (5,)), order=0) for op in ("erf", "erfc", "lgamma", "digamma")),
    *(sample(op, (0, 3)) for op in ("erf", "lgamma")),
]

SMOOTH_ACTIVATIONS = ["silu", "mish", "softplus", "log_sigmoid", "gelu"]
BENT_ACTIVATIONS = ["leaky_relu", "elu", "celu", "selu", "hard_sigmoid", "hard_swish", "hard_tanh", "relu6", "softsign"]

ACTIVATION = [
    *(sample(op, (2, 3)) for op in SMOOTH_ACTIVATIONS),
    *(sample(op, distinct((4, 5))) for op in BENT_ACTIVATIONS),
    *(sample(op, typed("float32", (5,)), order=0) for op in SMOOTH_ACTIVATIONS + BENT_ACTIVATIONS),
    *(sample(op, ()) for op in ("leaky_relu", "elu", "silu", "gelu")),
    *(sample(op, (0, 3)) for op in ("leaky_relu", "elu", "softplus")),
    sample("leaky_relu", distinct((4, 5)), alpha=0.3),
    sample("elu", distinct((4, 5)), alpha=0.7),
    sample("celu", distinct((4, 5)), alpha=1.7),
    sample("gelu", (2, 3), approximate="tanh"),
    sample("softplus", (2, 3), beta=2.5),
    sample("hard_sigmoid", distinct((4, 5)), alpha=0.2, beta=0.4),
    sample("hard_tanh", distinct((4, 5)), min=-0.5, max=2.0),
    sample("threshold", distinct((4, 5)), threshold=0.4, value=-1.5),
    sample("prelu", distinct((4, 5)), (5,)),
    sample("prelu", distinct((4, 3, 5)), (3, 1)),
    sample("prelu", distinct((4, 5)), ()),
    sample("glu", (2, 6)),
    sample("glu", (3, 4, 2), axis=1),
]

SAMPLES = [*POINTWISE, *ACTIVATION, *ELEMENTARY, *SPECIAL, *ROUNDING, *LOGIC]

LARGE = [
    sample("clip", WIDE, (300,), WIDE),
    sample("lerp", WIDE, WIDE, WIDE),
    *(sample(op, WIDE) for op in [*SMOOTH, *STEPS, *KINDS, "rsqrt", "reciprocal", "log2", "acosh"]),
    sample("atan2", WIDE, WIDE),
    *(sample(op, WIDE) for op in ("erf", "erfc", "lgamma", "digamma")),
    *(sample(op, typed("float32", WIDE)) for op in ("erf", "lgamma")),
    sample("polygamma", WIDE, n=2),
    *(sample(op, WIDE) for op in SMOOTH_ACTIVATIONS + BENT_ACTIVATIONS),
    *(sample("gelu", typed("float32", WIDE), approximate=a) for a in ("none", "tanh")),
    sample("threshold", WIDE, threshold=0.4, value=-1.5),
    *(sample("prelu", WIDE, slope) for slope in ((300,), ())),
    *(sample("glu", WIDE, axis=axis) for axis in (0, 1)),
    *(sample(op, WIDE, (300,)) for op in DIVISIONS),
    *(sample(op, ints(WIDE, 9), ints((300,), 9)) for op in [*BITWISE, "left_shift", "right_shift", "floor_div"]),
    sample("bitwise_not", ints(WIDE, 9)),
    sample("logical_xor", bools((400, 300)), bools((300,))),
]
