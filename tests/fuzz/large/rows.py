"""Reductions, norms, softmax, losses, sorting, and chains of elements over long rows or many rows."""

from __future__ import annotations

from compiler import Value, ops
from fuzz.large.case import Case, Draw, Operand


def shaped(draw: Draw, most: int = 65536) -> tuple[int, ...]:
    """Return a shape with one large extent, first, in the middle or last."""
    small, other, large = draw.small(33), draw.small(65), draw.large(most)
    return draw.pick(((large,), (small, large), (large, small), (3, large, small), (small, 3, large), (other, large)))


def reduction(draw: Draw) -> Case:
    """Return a reduction of some axes."""
    shape = shaped(draw)
    axes = tuple(axis for axis in range(len(shape)) if draw.chance(0.5)) or (draw.pick(range(len(shape))),)
    name = draw.pick(("sum", "sum", "mean", "max", "min", "logsumexp", "variance", "norm", "prod"))
    keeps = draw.chance(0.5)
    has_gradients = name not in ("max", "min") or draw.chance(0.5)
    exact = name == "sum" or not has_gradients  # equal extremes share a gradient, which is no whole number then
    return Case(
        f"{name}, axis={axes}, keepdims={keeps}",
        {"x": Operand(shape, "near one" if name == "prod" else "number")},
        lambda x: [getattr(ops, name)(x["x"], axis=axes, keepdims=keeps)],
        has_gradients=has_gradients,
        is_exact=exact,
        tolerance=1e-3 if name == "prod" else 1e-4,
    )


def extreme(draw: Draw) -> Case:
    """Return the position of an extreme."""
    shape = shaped(draw)
    axis, name = draw.pick(range(len(shape))), draw.pick(("argmax", "argmin"))
    return Case(
        f"{name}, axis={axis}",
        {"x": Operand(shape)},
        lambda x: [getattr(ops, name)(x["x"], axis=axis)],
        has_gradients=False,
        is_exact=True,
    )


def norm(draw: Draw) -> Case:
    """Return softmax or a norm over an axis."""
    shape = shaped(draw)
    name = draw.pick(("softmax", "log_softmax", "layer_norm", "rms_norm", "group_norm", "softmax"))
    if name == "group_norm":
        shape = draw.pick(((2, draw.large(16384), 12), (3, 5, draw.large(16384) // 4 * 4), (draw.large(4096), 3, 8)))
        groups = draw.pick((1, 2, 4))
        operands = {"x": Operand(shape), "scale": Operand(shape[-1:]), "bias": Operand(shape[-1:])}
        return Case(
            f"group_norm of {groups}",
            operands,
            lambda x: [ops.group_norm(x["x"], x["scale"], x["bias"], groups=groups)[0]],
            tolerance=1e-3,
        )
    axis = draw.pick((-1, -1, 0))
    if "norm" in name:
        axis = -1
        scale = Operand(shape[axis:])
        return Case(
            name,
            {"x": Operand(shape), "scale": scale},
            lambda x: [getattr(ops, name)(x["x"], x["scale"])[0]],
            tolerance=1e-3,
        )
    return Case(
        f"{name}, axis={axis}",
        {"x": Operand(shape)},
        lambda x: [getattr(ops, name)(x["x"], axis=axis)],
        tolerance=1e-4,
    )


def loss(draw: Draw) -> Case:
    """Return the softmax cross entropy of many classes or many rows."""
    rows, classes = (draw.large(16384), draw.small(33)) if draw.chance(0.5) else (draw.small(33), draw.large())
    operands = {"x": Operand((rows, classes)), "labels": Operand((rows,), f"below {classes}")}
    return Case(
        "softmax_cross_entropy",
        operands,
        lambda x: [ops.softmax_cross_entropy(x["x"], x["labels"])],
        tolerance=1e-4,
    )


def order(draw: Draw) -> Case:
    """Return sorted numbers, their positions, or the largest ones."""
    shape = shaped(draw, 32768)
    axis = draw.pick(range(len(shape)))
    name, back = draw.pick(("sort", "argsort", "topk")), draw.chance(0.5)
    if name == "topk":
        extent = shape[axis]
        count = min(draw.pick((1, 2, 31, 32, 33, 256, extent // 8, extent // 8 + 1, extent)), extent)
        return Case(
            f"topk of {count}, axis={axis}, largest={back}",
            {"x": Operand(shape)},
            lambda x: [*ops.topk(x["x"], k=max(count, 1), axis=axis, largest=back)][:1],
            is_exact=True,
        )
    return Case(
        f"{name}, axis={axis}, descending={back}",
        {"x": Operand(shape)},
        lambda x: [getattr(ops, name)(x["x"], axis=axis, descending=back)],
        has_gradients=name == "sort",
        is_exact=True,
    )


def chain(draw: Draw) -> Case:
    """Return a chain of elements and reductions that one group computes."""
    shape = shaped(draw)
    kind = draw.pick(("elements", "rows", "columns", "scaled"))
    operands = {"x": Operand(shape), "y": Operand(shape[-1:] if draw.chance(0.5) else shape)}

    def write(given: dict[str, Value]) -> list[Value]:
        z = ops.tanh(given["x"] * 0.5 + given["y"])
        if kind == "elements":
            return [z * z, ops.exp(z)]
        if kind == "rows":
            return [z - ops.mean(z, axis=(-1,), keepdims=True), ops.sum(z, axis=(-1,))]
        if kind == "columns":
            return [ops.sum(z, axis=(0,)), ops.relu(z)]
        return [z / (1.0 + ops.max(ops.abs(z), axis=(-1,), keepdims=True))]

    return Case(f"chain of {kind}", operands, write, tolerance=1e-4)


MAKERS = (reduction, reduction, extreme, norm, norm, loss, order, chain, chain)
