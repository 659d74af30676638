"""Attention, recurrent layers, scans and the loss of CTC over many steps, or with many states, heads and rows."""

from __future__ import annotations

from compiler import Value, ops
from fuzz.large.case import FLOATS, HALVES, Case, Draw, Operand, elements


def attention(draw: Draw) -> Case:
    """Return attention with many queries, keys, heads, or elements of a query."""

    def sizes() -> tuple[tuple[int, ...], list[int], int]:
        n, heads = draw.pick((1, 1, 2)), draw.pick((1, 2, 3, 4))
        queries, keys, deep, wide = (draw.pick((1, 2, 7, 8, 9, 16, 31, 33, 64, 65)) for _ in range(4))
        axis = draw.pick(("queries", "keys", "both", "deep", "wide", "heads"))
        queries = draw.large(2048) if axis in ("queries", "both") else queries
        keys = {"keys": draw.depth(4096), "both": queries + draw.pick((0, 0, 1, -1))}.get(axis, keys)
        deep, wide = draw.depth(2048) if axis == "deep" else deep, draw.large(2048) if axis == "wide" else wide
        heads = draw.near(draw.pick((32, 64, 256))) if axis == "heads" else heads
        groups = draw.pick((1, heads, heads))
        q, k, v = (n, heads, queries, deep), (n, groups, keys, deep), (n, groups, keys, wide)
        work = n * heads * queries * keys * (deep + wide)
        return (*q, groups, keys, wide), [*elements(q, k, v), n * heads * queries * keys // 2], work

    n, heads, queries, deep, groups, keys, wide = draw.fitting(sizes)
    causal, masked = draw.chance(0.4), draw.pick(("", "", "bool", "float"))
    operands = {
        "q": Operand((n, heads, queries, deep), "half"),
        "k": Operand((n, groups, keys, deep), "half"),
        "v": Operand((n, groups, keys, wide), "half"),
    }
    if masked:
        operands["mask"] = Operand((1, 1, queries, keys), "bool" if masked == "bool" else "number")

    def write(given: dict[str, Value]) -> list[Value]:
        q, k, v = (given[name] for name in "qkv")
        return [ops.scaled_dot_product_attention(q, k, v, given.get("mask"), causal=causal)]

    label = f"attention, causal={causal}"
    return Case(label, operands, write, HALVES, has_gradients=draw.chance(0.7), tolerance=1e-4)


def cached(draw: Draw) -> Case:
    """Return the attention of few positions to many cached ones."""
    n, heads, new = draw.pick((1, 2, 3)), draw.pick((1, 2, 4)), draw.pick((1, 1, 2, 5, 17))
    groups, keys = draw.pick([each for each in (1, 2) if heads % each == 0]), draw.depth(4096)
    deep, wide, window = draw.small(65), draw.small(65), draw.pick((0, 0, 1, 256, 257))
    operands = {
        "q": Operand((n, heads, new, deep)),
        "k": Operand((n, groups, new, deep)),
        "v": Operand((n, groups, new, wide)),
        "keys": Operand((n, groups, keys, deep)),
        "values": Operand((n, groups, keys, wide)),
        "lengths": Operand((n,), f"lengths {keys}"),
    }

    def write(x: dict[str, Value]) -> list[Value]:
        return [ops.cached_attention(*(x[name] for name in operands), window=window)]

    return Case(f"cached_attention, window={window}", operands, write, FLOATS, has_gradients=False, tolerance=1e-4)


def recurrent(draw: Draw) -> Case:
    """Return a recurrent layer of many steps, states or rows."""

    def sizes() -> tuple[tuple[str, int, int, int], list[int], int]:
        name = draw.pick(("rnn", "gru", "lstm"))
        gates = {"rnn": 1, "gru": 3, "lstm": 4}[name]
        rows, steps, states = draw.pick((1, 2, 3, 5, 8, 17)), draw.pick((1, 2, 3, 5)), draw.small(65)
        axis = draw.pick(("rows", "steps", "states", "states"))
        if axis == "rows":
            rows = draw.large(2048)
        elif axis == "steps":
            steps = draw.large(1024)
        else:
            states = draw.near(draw.pick((160, 213, 256, 320, 512, 640, 1024, 1280)))
        x, r = (rows, steps, gates * states), (states, gates * states)
        return (name, rows, steps, states), elements(x, r), rows * steps * states * states * gates

    name, rows, steps, states = draw.fitting(sizes)
    gates = {"rnn": 1, "gru": 3, "lstm": 4}[name]
    operands = {"x": Operand((rows, steps, gates * states)), "r": Operand((states, gates * states), "small half")}
    if name == "gru":
        operands["bias"] = Operand((gates * states,))
    operands["h0"] = Operand((rows, states))
    if name == "lstm":
        operands["c0"] = Operand((rows, states))
    if draw.chance(0.3):
        operands["mask"] = Operand((rows, steps), "bool")
    reverse = draw.chance(0.3)

    def write(given: dict[str, Value]) -> list[Value]:
        made = getattr(ops, f"{name}_layer")(*(given[each] for each in operands), reverse=reverse)
        return [made] if isinstance(made, Value) else [*made]

    return Case(f"{name}_layer, reverse={reverse}", operands, write, HALVES, tolerance=1e-3)


def scan(draw: Draw) -> Case:
    """Return sums, products or a recurrence along an axis of many elements, or beside one."""
    before, after = draw.small(17), draw.small(65)
    shape = draw.pick(((before, draw.large()), (draw.large(), after), (2, draw.large(8192), 3), (3, 5, draw.large())))
    axis, reverse = draw.pick((0, 1, -1)), draw.chance(0.3)
    name = draw.pick(("cumsum", "cumsum", "cumprod", "linear_scan"))
    operands = {"x": Operand(shape, "near one" if name != "cumsum" else "number")}
    if name == "linear_scan":
        operands["b"] = Operand(shape)
        return Case(
            f"linear_scan, axis={axis}, reverse={reverse}",
            operands,
            lambda x: [ops.linear_scan(x["x"], x["b"], axis=axis, reverse=reverse)],
            tolerance=1e-3,
        )
    exclusive = draw.chance(0.3)
    attributes = {"axis": axis, "exclusive": exclusive, "reverse": reverse}
    return Case(
        f"{name} {attributes}",
        operands,
        lambda x: [getattr(ops, name)(x["x"], **attributes)],
        is_exact=name == "cumsum",
        tolerance=1e-3,
    )


def ctc(draw: Draw) -> Case:
    """Return the loss of CTC for many steps, classes or labels."""
    rows, steps, classes, labels = draw.pick((1, 2, 3)), draw.pick((3, 9, 40)), draw.pick((3, 9, 33)), 1
    axis = draw.pick(("steps", "classes", "labels", "rows"))
    if axis == "steps":
        steps, labels = draw.large(2048), draw.pick((1, 8, 33))
    elif axis == "classes":
        classes, labels = draw.large(16384), 2
    elif axis == "labels":
        steps, labels = draw.near(600), draw.near(draw.pick((32, 64, 128, 256)))
    else:
        rows = draw.large(2048)
    operands = {"x": Operand((rows, steps, classes)), "labels": Operand((rows, labels), f"from 1 below {classes}")}
    return Case(
        "log_softmax, ctc",
        operands,
        lambda x: [ops.ctc(ops.log_softmax(x["x"], axis=-1), x["labels"])],
        tolerance=1e-3,
    )


MAKERS = (attention, attention, cached, recurrent, recurrent, scan, ctc)
