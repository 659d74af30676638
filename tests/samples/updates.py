"""Samples of updates that adapt to the gradients."""

from __future__ import annotations

from samples.operands import Operand, ints, positive, sample, typed

WIDE = (200, 300)


def parameter(shape: tuple[int, ...], *more: Operand, dtype: str = "float64") -> tuple[Operand, ...]:
    """An updated tensor, its gradient, what else is of its type, and the rate."""
    return (*[typed(dtype, shape)] * 2, *more, Operand((), dtype, "positive"))


def adaptive(shape: tuple[int, ...], order: int = 2) -> list:
    """Every operator once, with decay of either kind."""
    w, v, step = Operand(shape), positive(shape), ints((), 9)
    return [
        sample("adamw", *parameter(shape, w, v), step, decay=0.1, order=order),
        *(
            sample("amsgrad", *parameter(shape, w, v, v), step, decay=0.1, decoupled=d, order=order)
            for d in (False, True)
        ),
        sample("adamax", *parameter(shape, w, v), step, decay=0.1, order=order),
        *(
            sample("nadam", *parameter(shape, w, v, positive(())), step, decay=0.1, decoupled=d, order=order)
            for d in (False, True)
        ),
        *(
            sample("radam", *parameter(shape, w, v), step, beta2=b, decay=0.1, decoupled=d, order=order)
            for b, d in ((0.999, False), (0.5, False), (0.9, True))
        ),
        sample("radam", *parameter(shape, w, v), Operand((), "int64"), decay=0.0, order=order),
        sample("adagrad", *parameter(shape, v), step, rate_decay=0.1, decay=0.1, order=order),
        sample("adadelta", *parameter(shape, v, v), decay=0.1, order=order),
        sample("lion", *parameter(shape, w), decay=0.1, order=order),
        sample("rms_scale", w, w, v, decay=0.1, order=order),
        sample("centred_rms_scale", w, w, v, Operand(shape, kind="inside"), decay=0.1, order=order),
        sample("adam_scale", w, w, w, v, step, decay=0.1, order=order),
    ]


SAMPLES = [
    *adaptive((3, 4), order=0),
    sample("adamw", *parameter((0, 2), Operand((0, 2)), positive((0, 2))), ints((), 9), decay=0.0, order=0),
    sample("lion", *parameter((), typed("float32", ()), dtype="float32"), order=0),
]

LARGE = adaptive(WIDE)
