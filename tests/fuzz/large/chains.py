"""Several layers that kernels compute tile by tile, and operators with random bits or statistics of all rows."""

from __future__ import annotations

from compiler import Value, ops
from fuzz.large.case import FLOATS, HALVES, Case, Draw, Operand


def dense(draw: Draw) -> Case:
    """Return two products of many rows with an activation and maybe a norm between them."""
    rows, k, n, out = draw.large(8192, 1024), draw.small(), draw.pick((48, 64, 65, 128, 130)), draw.small()
    operands = {
        "x": Operand((rows, k), "half"),
        "w": Operand((k, n), "small half"),
        "bias": Operand((n,)),
        "r": Operand((n, out), "small half"),
    }
    kind = draw.pick(("gelu", "tanh", "layer_norm", "softmax", "residual"))

    def write(x: dict[str, Value]) -> list[Value]:
        y = ops.matmul(x["x"], x["w"]) + x["bias"]
        if kind == "layer_norm":
            y = ops.layer_norm(y)[0]
        elif kind == "softmax":
            y = ops.softmax(y)
        elif kind == "residual":
            y = y + ops.tanh(y * 0.5)
        else:
            y = getattr(ops, kind)(y)
        return [ops.matmul(ops.cast(y, dtype=x["r"].dtype), x["r"])]

    # Numbers that are halfway between two of bfloat16 may be rounded to either.
    precisions = HALVES if kind != "softmax" else FLOATS
    return Case(f"dense, {kind}, dense", operands, write, precisions, tolerance=1e-4)


def bottleneck(draw: Draw) -> Case:
    """Return convolutions of one pixel around one of several: of images that are long, or many."""
    images, height, width = draw.pick((1, 2, 3)), draw.pick((4, 8, 14)), draw.pick((8, 14, 17))
    axis = draw.pick(("images", "height", "width", "square"))
    if axis == "images":
        images = draw.large(512)
    elif axis == "height":
        height = draw.large(1024)
    elif axis == "width":
        width = draw.large(1024)
    else:
        height = width = draw.near(draw.pick((48, 64, 96)))
    channels, inner, stride = draw.pick((8, 16, 17, 24)), draw.pick((16, 24, 33, 48)), draw.pick((1, 1, 2))
    is_depthwise = draw.chance(0.6)
    operands = {
        "x": Operand((images, height, width, channels)),
        "w": Operand((1, 1, channels, inner), "small"),
        "scale": Operand((3, 3, 1 if is_depthwise else inner, inner), "small"),
        "b": Operand((1, 1, inner, channels), "small"),
    }

    def write(x: dict[str, Value]) -> list[Value]:
        y = ops.relu6(ops.conv2d(x["x"], x["w"]))
        padding, groups = (1, 1, 1, 1), inner if is_depthwise else 1
        y = ops.conv2d(y, x["scale"], padding=padding, stride=(stride, stride), groups=groups)
        y = ops.conv2d(ops.relu6(y), x["b"])
        return [y + x["x"] if stride == 1 else y]

    return Case(f"bottleneck, stride={stride}", operands, write, FLOATS, has_gradients=False, tolerance=1e-3)


def random(draw: Draw) -> Case:
    """Return random numbers, or numbers of which some are dropped."""
    shape = (draw.large(),) if draw.chance(0.5) else (draw.small(33), draw.large())
    name = draw.pick(("uniform", "normal", "randint", "bernoulli", "permutation", "dropout"))
    operands = {"x": Operand(shape)}

    def write(given: dict[str, Value]) -> list[Value]:
        block = given["x"].block
        if name == "permutation":
            return [ops.permutation.on(block)(count=shape[-1])]
        if name == "randint":
            return [ops.randint.on(block)(shape=shape, high=1000)]
        if name == "bernoulli":
            return [ops.bernoulli.on(block)(shape=shape)]
        return [getattr(ops, name).on(block)(shape=shape)]

    if name == "dropout":
        return Case("dropout", operands, lambda x: [ops.dropout(x["x"], ratio=0.3)], ("float32",))
    return Case(name, operands, write, ("float32",), has_gradients=False, tolerance=1e-5)


def conversion(draw: Draw) -> Case:
    """Return codes of numbers, or numbers of codes."""
    rows, columns = (draw.large(), draw.small()) if draw.chance(0.5) else (draw.small(), draw.large())
    name = draw.pick(("quantize_linear", "dequantize_linear", "cast"))
    if name == "cast":
        operands = {"x": Operand((rows, columns), "half")}
        return Case(name, operands, lambda x: [ops.cast(x["x"], dtype="float64")], HALVES, has_gradients=False)
    operands = {"x": Operand((rows, columns), "code" if name == "dequantize_linear" else "single")}
    operands |= {"s": Operand((columns,) if draw.chance(0.5) else (), "positive"), "zero": Operand((), "code")}
    return Case(
        name,
        operands,
        lambda x: [getattr(ops, name)(x["x"], x["s"], x["zero"])],
        ("float32",),
        has_gradients=False,
        tolerance=1e-5,
    )


def statistics(draw: Draw) -> Case:
    """Return batch norm over many rows or channels."""
    shape = draw.pick(((draw.large(), draw.small(33)), (draw.small(33), draw.large()), (3, draw.large(2048), 5, 7)))
    operands = {"x": Operand(shape), "scale": Operand(shape[-1:]), "bias": Operand(shape[-1:])}
    operands |= {"mean": Operand(shape[-1:]), "variance": Operand(shape[-1:])}

    def write(x: dict[str, Value]) -> list[Value]:
        return [*ops.batch_norm(*(x[name] for name in operands))][:3]

    return Case("batch_norm", operands, write, has_gradients=False, tolerance=1e-3)


MAKERS = (dense, dense, bottleneck, random, conversion, statistics)
