"""Calls of norms and of attention, with shared operands often."""

from __future__ import annotations

from fuzz.drawing import Draw, Ref
from fuzz.makers.table import each, maker


@maker("softmax", "log_softmax")
def softmax(d: Draw) -> None:
    x = d.any(low=1)
    d.call(d.choice(["softmax", "log_softmax"]), x, axis=d.axis(x))


def scale_and_bias(d: Draw, x: Ref, shape: tuple[int, ...]) -> list[Ref | None]:
    scale = d.tensor(shape, x.dtype) if d.chance(0.7) else None
    bias = (scale if d.chance(0.25) else d.tensor(shape, x.dtype)) if d.chance(0.7) else None
    return [scale, bias]


@maker("layer_norm", "rms_norm")
def layer_norm(d: Draw) -> None:
    x = d.any(low=1, filled=True)
    axis = d.int(0, x.rank - 1)
    scale, bias = scale_and_bias(d, x, x.shape[axis:])
    given = axis - x.rank if d.chance(0.3) else axis
    if d.chance(0.5):
        d.call("layer_norm", x, scale, bias, axis=given, epsilon=d.choice([1e-5, 0.1]))
    else:
        d.call("rms_norm", x, scale, axis=given, epsilon=d.choice([1e-5, 0.1]))


@maker("group_norm", "instance_norm", "local_response_norm")
def channel_norm(d: Draw) -> None:
    groups, c = d.choice([(1, 3), (2, 4), (2, 2), (3, 3)])
    x = d.tensor((d.size(1, 3), *(d.int(1, 3) for _ in range(d.int(1, 2))), c))
    name = d.choice(["group_norm", "group_norm", "instance_norm", "local_response_norm"])
    if name == "local_response_norm":
        d.call(name, x, size=d.int(1, 3), alpha=d.number(0.01, 1), beta=d.number(0.3, 1), bias=d.number(0.5, 2))
        return
    more = {"groups": groups} if name == "group_norm" else {}
    d.call(name, x, *scale_and_bias(d, x, (c,)), epsilon=d.choice([1e-5, 0.1]), **more)


@maker("batch_norm")
def batch_norm(d: Draw) -> None:
    c = d.size(1, 3)
    x = d.tensor((d.int(2, 4), *(d.int(1, 2) for _ in range(d.int(0, 2))), c))
    scale = d.tensor((c,), x.dtype)
    bias = scale if d.chance(0.25) else d.tensor((c,), x.dtype)
    mean, variance = d.tensor((c,), x.dtype), d.tensor((c,), x.dtype, "positive")
    d.call("batch_norm", x, scale, bias, mean, variance, momentum=d.number(0.5, 0.95), epsilon=d.choice([1e-5, 0.1]))


@maker("scaled_dot_product_attention", "attention_gradient")
def attention(d: Draw) -> None:
    n, heads, length, depth = d.size(1, 2), d.choice([1, 2, 2]), d.int(1, 3), d.int(1, 3)
    q = d.tensor((n, heads, length, depth))
    if d.chance(0.4):  # the same tensor in several places
        k = q
    else:
        k = d.tensor((n, d.choice([g for g in (1, heads) if heads % g == 0]), d.int(1, 3), depth), q.dtype)
    v = k if d.chance(0.4) else d.tensor((*k.shape[:3], d.int(1, 3)), q.dtype)
    mask = masked(d, (n, heads, length, k.shape[2]), q, k, v)
    how = dict(causal=d.chance(0.4), scale=d.choice([0.0, 0.0, 0.7]))
    if d.chance(0.25):
        y = (*q.shape[:3], v.shape[3])
        dy = q if y == q.shape and d.chance(0.3) else d.tensor(y, q.dtype)
        d.call("attention_gradient", q, k, v, dy, mask, causal=how["causal"], scale=how["scale"] or 1.0)
    else:
        d.call("scaled_dot_product_attention", q, k, v, mask, **how)


@maker("cached_attention")
def cached_attention(d: Draw) -> None:
    n, groups, new, room, depth = d.size(1, 2), d.int(1, 2), d.int(1, 3), d.int(1, 5), d.int(1, 3)
    q = d.tensor((n, groups * d.int(1, 2), new, depth))
    k = q if q.shape[1] == groups and d.chance(0.4) else d.tensor((n, groups, new, depth), q.dtype)
    v = k if d.chance(0.4) else d.tensor((n, groups, new, d.int(1, 3)), q.dtype)
    keys = d.tensor((n, groups, room, depth), q.dtype)
    values = keys if v.shape[3] == depth and d.chance(0.3) else d.tensor((n, groups, room, v.shape[3]), q.dtype)
    how = dict(scale=d.choice([0.0, 0.7]), window=d.choice([0, 0, d.int(1, 4)]))
    d.call("cached_attention", q, k, v, keys, values, d.tensor((n,), "int32"), **how)


def masked(d: Draw, shape: tuple[int, ...], *others: Ref) -> Ref | None:
    """No mask, a learned one, which may be one of the operands, or one of bools."""
    small = tuple(1 if d.chance(0.3) else extent for extent in shape)[d.choice([0, 0, 2]) :]
    same = [x for x in others if all(a in (1, b) for a, b in zip(x.shape, shape, strict=True))]
    match d.int(0, 4):
        case 0 | 1:
            return None
        case 2 if same:
            return d.choice(same)
        case 2 | 3:
            return d.tensor(small, others[0].dtype)
        case _:
            return d.bools(small)


each(
    "sinusoidal_positions",
    lambda name: (
        lambda d: d.call(
            name, d.below(d.shape(1, 2), 9), size=2 * d.int(1, 3), base=d.choice([10000.0, 10.0]), dtype=d.floats()
        )
    ),
)


@maker("rotary_embedding")
def rotary(d: Draw) -> None:
    t = d.int(1, 3)
    pairs = d.int(1, 2)
    x = d.tensor((d.size(1, 2), d.int(1, 2), t, 2 * pairs))
    factors = [d.tensor((pairs,), x.dtype, "positive")] if d.chance(0.3) else []
    d.call("rotary_embedding", x, d.below((t,), 9), *factors, interleaved=d.chance(0.5), base=d.choice([10000.0, 10.0]))
