"""Recurrent layers and attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from prograd_proto.errors import require
from prograd_proto.result_types.rule import RULES, Rule, rule, rule_with_halves
from prograd_proto.result_types.shapes import (
    broadcast_shapes,
    factor_sum_dtype,
    require_equal_dtypes,
    require_float,
    show_shape,
    size_known,
)
from prograd_proto.tensor_types import TensorType


def recurrent_layer(name: str, gates: int, states: str, *, has_bias: bool = False) -> None:
    """Enter the rules of a recurrent layer and of its gradient.

    The operands of the layer are x, r, the bias if there is one, the states before the first step, such as h0, and the
    mask. Those of the gradient have the states after each step and their gradients, such as h and dh, before the mask.
    """
    carried = states.split()
    first, after = [f"{state}0" for state in carried], [*carried, *(f"d{state}" for state in carried)]
    operands = ("x", "r", *(["bias"] if has_bias else []), *first)

    def checked(given: Mapping[str, TensorType]) -> TensorType:
        """Return the type of the states after each step."""
        x, h0 = given["x"], given["h0"]
        c0, bias = given.get("c0", h0), given.get("bias")
        require(c0 == h0, f"c0 is {c0} and h0 {h0}")
        found = _states(x, given["r"], h0, given.get("mask"), gates)
        require(bias in (None, TensorType(x.dtype, x.shape[-1:])), f"bias is {bias}, not {x.dtype}[{x.shape[-1]}]")
        return found

    def layer(*types: TensorType | None, reverse: bool) -> tuple[TensorType, ...]:
        return (checked(_named((*operands, "mask"), types)),) * len(carried)

    def gradient(*types: TensorType | None, reverse: bool) -> tuple[TensorType, ...]:
        given = _named((*operands, *after, "mask"), types)
        found = checked(given)
        same = all(given[name] == found for name in after)
        require(same, f"{', '.join(after[:-1])} and {after[-1]} have not the type of the states")
        return (given["x"], *[given["x"]] * has_bias, *(given[name] for name in first))

    for rule_name, types, names in (
        (name, layer, (*operands, "mask")),
        (f"{name}_gradient", gradient, (*operands, *after, "mask")),
    ):
        RULES[rule_name] = Rule(types, names, {"reverse": "bool"}, optional=1, halves=True)


def _named(names: Sequence[str], types: Sequence[TensorType | None]) -> dict[str, TensorType]:
    """Return the types of the operands that are there, by name."""
    return {name: type for name, type in zip(names, types, strict=False) if type is not None}


recurrent_layer("rnn_layer", 1, "h")
recurrent_layer("gru_layer", 3, "h", has_bias=True)
recurrent_layer("lstm_layer", 4, "h c")


@rule_with_halves
def scaled_dot_product_attention(
    q: TensorType, k: TensorType, v: TensorType, mask: TensorType | None = None, *, causal: bool, scale: float
) -> TensorType:
    return TensorType(factor_sum_dtype(q, k, v), (*q.shape[:-1], _attended(q, k, v, mask)))


@rule_with_halves
def attention_gradient(
    q: TensorType,
    k: TensorType,
    v: TensorType,
    dy: TensorType,
    mask: TensorType | None = None,
    *,
    causal: bool,
    scale: float,
) -> tuple[TensorType, TensorType, TensorType]:
    shape = (*q.shape[:-1], _attended(q, k, v, mask))
    require(dy == TensorType(q.dtype, shape), f"dy is {dy}, not {TensorType(q.dtype, shape)}")
    dq, dk, dv = (TensorType(factor_sum_dtype(q, k, v), x.shape) for x in (q, k, v))
    return dq, dk, dv


@rule
def cached_attention(
    q: TensorType,
    k: TensorType,
    v: TensorType,
    keys: TensorType,
    values: TensorType,
    lengths: TensorType,
    *,
    scale: float,
    window: int,
) -> TensorType:
    require_float(q)
    require_equal_dtypes(q, k, v, keys, values)
    width = _attended(q, k, v, None)
    require(k.shape[2] == q.shape[2], f"there are {k.shape[2]} new keys for {q.shape[2]} queries")
    require(keys.rank == 4, "cached keys have four axes: [n, heads, length, size]")
    for name, cached, new in (("keys", keys, k), ("values", values, v)):
        wanted = (*new.shape[:2], keys.shape[2], new.shape[3])
        require(cached.shape == wanted, f"{name} are {cached}, not {TensorType(q.dtype, wanted)}")
    wanted = TensorType("int32", q.shape[:1])
    require(lengths == wanted, f"lengths are {lengths}, not {wanted}")
    require(window >= 0, f"window is {window}, which is negative")
    return TensorType(q.dtype, (*q.shape[:-1], width))


def _states(x: TensorType, r: TensorType, h0: TensorType, mask: TensorType | None, gates: int) -> TensorType:
    """Return the type of the states after each step; raise OpError unless the operands fit."""
    require_equal_dtypes(x, h0)
    require_float(x)
    if (x.dtype, r.dtype) != ("float32", "bfloat16"):
        require_equal_dtypes(x, r)
    require(x.rank == 3 and r.rank == h0.rank == 2, "x is [n, t, gates * h], r [h, gates * h], h0 [n, h]")
    n, steps, wide = x.shape
    require(size_known(steps, "the number of steps") > 0, "there are no steps")
    units = size_known(h0.shape[1], "the number of units")
    fits = h0.shape[0] == n and wide == gates * units and r.shape == (units, wide)
    require(fits, f"x is {x}, r {r}, h0 {h0}: they are not [n, t, {gates} * h] and so on")
    same = mask is None or mask == TensorType("bool", (n, steps))
    require(same, f"mask is {None if mask is None else mask}, not {TensorType('bool', (n, steps))}")
    return TensorType(x.dtype, (n, steps, units))


def _attended(q: TensorType, k: TensorType, v: TensorType, mask: TensorType | None) -> int | str:
    """Return the size of a value; raise OpError unless the operands fit."""
    require(q.rank == k.rank == v.rank == 4, "queries, keys and values have four axes each: [n, heads, length, size]")
    dtype = factor_sum_dtype(q, k, v)
    require(
        q.shape[0] == k.shape[0] and k.shape[:3] == v.shape[:3], "k or v has not the batch, heads or length it must"
    )
    require(q.shape[3] == k.shape[3], f"queries have the size {q.shape[3]}, keys {k.shape[3]}")
    grouped_heads(q.shape[1], k.shape[1])
    shape = (*q.shape[:3], k.shape[2])
    if mask is not None:
        require(mask.dtype in ("bool", dtype), f"mask is {mask.dtype}, not bool or {dtype}")
        fits = mask.rank <= 4 and broadcast_shapes(mask.shape, shape) == shape
        require(fits, f"mask {show_shape(mask.shape)} does not broadcast to {show_shape(shape)}")
    return v.shape[3]


def grouped_heads(heads: int | str, groups: int | str) -> tuple[int, int]:
    """Return the number of key heads, and of query heads for each of them.

    Raise OpError unless it is a whole number.
    """
    of_queries, of_keys = (size_known(count, "the number of heads") for count in (heads, groups))
    fits = of_keys > 0 and of_queries % of_keys == 0
    require(fits, f"{of_keys} heads of keys do not divide {of_queries} heads of queries")
    return of_keys, of_queries // of_keys
