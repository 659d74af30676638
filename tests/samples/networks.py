"""Samples of layers of networks beyond those of samples/__init__.py: normalisation, attention, recurrence, resizing."""

from __future__ import annotations

from typing import Any

from samples.operands import Operand, Sample, bools, given, ints, sample, typed

WIDE = (200, 300)

NORM = [
    sample("layer_norm", (2, 5), (5,), (5,)),
    sample("layer_norm", (5, 3, 4), (3, 4), (3, 4), axis=1, epsilon=0.1),
    sample("layer_norm", (5, 3, 4), None, (4,)),
    sample("layer_norm", (5, 4), axis=0),
    sample("layer_norm", (0, 4), (4,), (4,)),
    sample("rms_norm", (2, 5), (5,)),
    sample("rms_norm", (5, 3, 4), (3, 4), axis=1, epsilon=0.1),
    sample("rms_norm", (5, 4)),
    sample("rms_norm", (0, 4), (4,)),
    sample("group_norm", (3, 5, 4, 6), (6,), (6,), groups=3),
    sample("group_norm", (3, 5, 4), (4,), groups=4, epsilon=0.1),
    sample("group_norm", (3, 4), None, (4,), groups=2),
    sample("group_norm", (2, 3, 1, 2, 4), groups=1),
    sample("group_norm", (0, 3, 4), (4,), (4,), groups=2),
]

QUERIES = ((3, 4, 5, 2), (3, 4, 6, 2), (3, 4, 6, 3))
SHARED = ((3, 4, 5, 2), (3, 2, 6, 2), (3, 2, 6, 3))


def cached(texts: int, heads: int, groups: int, new: int, room: int, size: int = 3) -> list[Any]:
    """The operands of `cached_attention`; lengths below 0 and beyond the room are among them."""
    lengths = typed("int32", (texts,))
    return [(texts, heads, new, size), *[(texts, groups, x, size) for x in (new, new, room, room)], lengths]


ATTENTION = [
    sample("scaled_dot_product_attention", *QUERIES),
    sample("scaled_dot_product_attention", *QUERIES, causal=True, scale=0.3),
    sample("scaled_dot_product_attention", *SHARED, bools((5, 6)), causal=True),
    sample("scaled_dot_product_attention", *SHARED, (3, 1, 5, 6)),
    sample("scaled_dot_product_attention", *SHARED, bools((3, 1, 1, 6))),
    sample("scaled_dot_product_attention", (0, 2, 3, 2), (0, 2, 4, 2), (0, 2, 4, 2), causal=True),
    sample("attention_gradient", *SHARED, (3, 4, 5, 3), scale=0.5),
    sample("attention_gradient", *SHARED, (3, 4, 5, 3), bools((4, 5, 6)), causal=True),
    sample("attention_gradient", *QUERIES, (3, 4, 5, 3), (5, 6), causal=True),
    sample("cached_attention", *cached(3, 4, 2, 5, 6), scale=0.3),
    sample("cached_attention", *cached(3, 4, 4, 1, 6), window=3),
    sample("cached_attention", *cached(2, 2, 1, 2, 0)),
    sample("cached_attention", *cached(0, 2, 1, 2, 3)),
]


def recurrent(name: str, n: int, steps: int, units: int, gates: int, *, mask: bool, **attributes: Any) -> list[Sample]:
    """A layer; and its gradient, whose derivative is checked with that of the layer: h and c are not free."""
    state, wide = (n, steps, units), (units, gates * units)
    bias = [(gates * units,)] if name == "gru_layer" else []
    first = [(n, units)] * (2 if name == "lstm_layer" else 1)
    operands = [(n, steps, gates * units), wide, *bias, *first]
    seen = [bools((n, steps))] if mask else []
    return [
        sample(name, *operands, *seen, **attributes),
        sample(f"{name}_gradient", *operands, *[state] * (2 * len(first)), *seen, **attributes, order=0),
    ]


LAYERS = {"rnn_layer": 1, "gru_layer": 3, "lstm_layer": 4}

RECURRENT = [
    made
    for name, gates in LAYERS.items()
    for reverse in (False, True)
    for made in (
        *recurrent(name, 5, 3, 2, gates, mask=reverse, reverse=reverse),
        *recurrent(name, 5, 1, 2, gates, mask=not reverse, reverse=reverse),
        *recurrent(name, 0, 2, 3, gates, mask=reverse, reverse=reverse),
    )
]

CTC = [
    sample("ctc", (2, 4, 3), ints((2, 2), 2), blank=2),
    sample("ctc", (3, 5, 4), ints((3, 2), 3), given(5, 4, 0), given(2, 1, 0), blank=3),
    sample("ctc", (2, 4, 2), Operand((2, 2), "int32", "below", 1), given(3, 4, dtype="int32"), blank=1),
    sample("ctc", (3, 2, 2), ints((3, 0), 1), None, given(0, 0, 0)),
    sample("ctc", (2, 0, 3), ints((2, 1), 2), None, given(0, 0), blank=2),
    sample("ctc", (0, 2, 3), ints((0, 1), 2), blank=2),
    sample("ctc_gradient", (2, 4, 3), ints((2, 2), 2), (2,), blank=2),
    sample("ctc_gradient", (3, 3, 3), ints((3, 2), 2), (3,), given(3, 2, 1), given(2, 0, 1), blank=2),
    sample("ctc_gradient", (2, 3, 2), Operand((2, 2), "int32", "below", 1), (2,), given(2, 3, dtype="int32"), blank=1),
    sample("ctc_gradient", (3, 2, 2), ints((3, 0), 1), (3,)),
    sample("ctc_gradient", (2, 0, 3), ints((2, 1), 2), (2,), None, given(0, 1), blank=2),
    sample("ctc_gradient", (0, 2, 3), ints((0, 1), 2), (0,), blank=2),
]

SAMPLES = [*NORM, *ATTENTION, *RECURRENT, *CTC]

LARGE = [
    sample("layer_norm", WIDE, (300,), (300,)),
    sample("layer_norm", (4, 200, 300), (200, 300), axis=1),
    sample("rms_norm", WIDE, (300,)),
    sample("group_norm", (8, 28, 28, 16), (16,), (16,), groups=4),
    sample("group_norm", (20, 8000, 2), groups=2),
    *(
        sample(op, *operands, mask, causal=causal)
        for op, *operands in (
            ("scaled_dot_product_attention", (2, 4, 300, 32), (2, 2, 400, 32), (2, 2, 400, 32)),
            ("attention_gradient", (2, 4, 300, 32), (2, 2, 400, 32), (2, 2, 400, 32), (2, 4, 300, 32)),
        )
        for mask in (None, (300, 400), bools((2, 4, 300, 400)))
        for causal in (False, True)
    ),
    *(sample("cached_attention", *cached(300, 8, 4, new, 40, 32), window=new) for new in (1, 20)),
    *(
        made
        for name, gates in LAYERS.items()
        for mask in (False, True)
        for made in recurrent(name, 64, 5, 100, gates, mask=mask, reverse=mask)
    ),
    *(
        sample(op, typed(dtype, (300, 4, 90)), Operand((300, 40), labels, "below", 80), *more, blank=80)
        for op, *grad in (("ctc",), ("ctc_gradient", (300,)))
        for dtype, labels in (("float64", "int32"), ("float32", "int64"))
        for more in ([*(typed(dtype, shape) for shape in grad), Operand((300,), labels, "below", 5)],)
    ),
]
