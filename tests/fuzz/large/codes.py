"""Products and convolutions of integers of eight bits, and conversions."""

from __future__ import annotations

from typing import Any

from compiler import Value, ops
from fuzz.large.case import Case, Draw, Operand, elements

MAX_WINDOW = 33025
"""Upper bound on the products of a sum, so that int32 holds it."""


def integer_matmul(draw: Draw) -> Case:
    """Return a product of codes with one large extent, maybe requantised."""

    def sizes() -> tuple[tuple[int, int, int], list[int], int]:
        m, n, k = draw.small(), draw.small(), draw.small()
        axis = draw.pick("mnkk")
        m, n = draw.large() if axis == "m" else m, draw.large() if axis == "n" else n
        k = min(draw.depth(MAX_WINDOW), MAX_WINDOW) if axis == "k" else k
        return (m, n, k), elements((m, k), (k, n), (m, n)), m * n * k

    m, n, k = draw.fitting(sizes)
    operands = {"x": Operand((m, k), "code"), "w": Operand((k, n), "code"), **zeros(draw, n)}
    return Case(
        "integer_matmul",
        operands,
        lambda given: ended(given, ops.integer_matmul(*(given[name] for name in ("x", "w", "x_zero", "w_zero"))), k),
        ("float32",),
        is_exact=True,
        has_gradients=False,
    )


def integer_conv(draw: Draw) -> Case:
    """Return a convolution of codes with one large extent, maybe requantised."""

    def sizes() -> tuple[dict[str, Any], list[int], int]:
        images, channels, filters = draw.pick((1, 2, 3)), draw.small(65), draw.small(65)
        height, width = draw.pick((3, 4, 5, 8, 9)), draw.pick((3, 5, 7, 8, 17))
        window = draw.pick(((1, 1), (3, 3), (2, 2), (1, 3)))
        axis = draw.pick(("channels", "filters", "width", "height", "images"))
        if axis == "channels":
            channels = draw.depth(3600)
        elif axis == "filters":
            filters = draw.large(4096)
        elif axis == "width":
            width = draw.large(8192)
        elif axis == "height":
            height = draw.large(8192)
        else:
            images = draw.large(2048)
        groups = draw.pick((1, 1, 2, channels))
        filters = groups * draw.pick((1, 1, 2)) if groups == channels else filters
        channels, filters = -(-channels // groups) * groups, -(-filters // groups) * groups
        x, w = (images, height, width, channels), (*window, channels // groups, filters)
        attributes = {
            "stride": draw.pick(((1, 1), (1, 1), (2, 2))),
            "padding": draw.pick(((0, 0, 0, 0), (1, 1, 1, 1), (0, 1, 2, 0))),
            "groups": groups,
        }
        products = images * height * width * filters * window[0] * window[1] * (channels // groups)
        return {"x": x, "w": w, **attributes}, elements(x, w, (images, height, width, filters)), products

    found = draw.fitting(sizes)
    x, w = found.pop("x"), found.pop("w")
    operands = {"x": Operand(x, "code"), "w": Operand(w, "code"), **zeros(draw, w[3])}
    return Case(
        f"integer_conv2d {found}",
        operands,
        lambda given: ended(
            given,
            ops.integer_conv2d(*(given[name] for name in ("x", "w", "x_zero", "w_zero")), **found),
            w[0] * w[1] * w[2],
        ),
        ("float32",),
        is_exact=True,
        has_gradients=False,
    )


def zeros(draw: Draw, columns: int) -> dict[str, Operand]:
    """Return zero points, and a scale if sums become codes again."""
    found = {"x_zero": Operand((), "code"), "w_zero": Operand((columns,) if draw.chance(0.4) else (), "code")}
    return found | ({"zero": Operand((), "code"), "scale": Operand((), "positive")} if draw.chance(0.5) else {})


def ended(given: dict[str, Value], sums: Value, depth: int) -> list[Value]:
    """Return the sums, or their codes."""
    if "scale" not in given:
        return [sums]
    scale = given["scale"]
    return [ops.requantize(sums, scale, scale, scale * (100.0 * depth**0.5), given["zero"])]


MAKERS = (integer_matmul, integer_conv)
