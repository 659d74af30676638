"""Convolutions and pooling: long lines, many channels, many images, many filters, wide windows."""

from __future__ import annotations

from typing import Any, Final

from compiler import Value, ops
from fuzz.large.case import HALVES, Case, Draw, Operand, elements

MAX_WIDE_MULTIPLY_ADDS: Final = 250_000_000
"""Upper bound on the products of a convolution with many channels and filters."""


def conv(draw: Draw) -> Case:
    """Return a convolution with one large extent."""

    def sizes() -> tuple[dict[str, Any], list[int], int]:
        images, height, width, channels, filters, window = _extents(draw)
        groups = draw.pick((1, 1, 1, 1, 2, 3))
        kind = draw.pick(("dense",) * 5 + ("depthwise", "multiplied"))
        if kind != "dense":
            groups, filters = channels, channels * (1 if kind == "depthwise" else draw.pick((2, 3)))
        channels, filters = -(-channels // groups) * groups, -(-filters // groups) * groups
        attributes = {
            "stride": draw.pick(((1, 1), (1, 1), (1, 1), (2, 2), (2, 1), (3, 3))),
            "dilation": draw.pick(((1, 1), (1, 1), (1, 1), (2, 2), (1, 3))),
            "padding": draw.pick(((0, 0, 0, 0), (1, 1, 1, 1), (1, 1, 1, 1), (0, 1, 2, 0))),
            "groups": groups,
        }
        spans = [(extent - 1) * by + 1 for extent, by in zip(window, attributes["dilation"], strict=True)]
        height, width = max(height, spans[0]), max(width, spans[1])
        x, w = (images, height, width, channels), (*window, channels // groups, filters)
        y = (images, height, width, filters)
        products = images * height * width * filters * window[0] * window[1] * (channels // groups)
        unfolded = images * height * width * channels * window[0] * window[1] // 8
        return {"x": x, "w": w, **attributes}, [*elements(x, w, y), unfolded], products

    return _of(draw, draw.fitting(sizes))


def wide_conv(draw: Draw) -> Case:
    """Return a convolution with many channels and filters, whose transformed filters leave the caches."""

    def sizes() -> tuple[dict[str, Any], list[int], int]:
        channels, filters = (draw.near(draw.pick((64, 96, 128, 160, 256, 384))) for _ in range(2))
        images, side, window = draw.pick((1, 2, 3, 4, 5, 8, 16)), draw.pick((3, 4, 7, 8, 14, 15, 17, 28)), (3, 3)
        if draw.chance(0.3):
            channels, filters = -(-channels // 32) * 32, -(-filters // 16) * 16
        x, w = (images, side, draw.pick((side, side, side + 1)), channels), (*window, channels, filters)
        stride = draw.pick(((1, 1), (1, 1), (1, 1), (2, 2)))
        found = {"x": x, "w": w, "stride": stride, "padding": draw.pick(((1, 1, 1, 1), (1, 1, 1, 1), (0, 0, 0, 0)))}
        return found, elements(x, w), x[0] * x[1] * x[2] * channels * filters * 9

    return _of(draw, draw.fitting(sizes, MAX_WIDE_MULTIPLY_ADDS))


def _of(draw: Draw, found: dict[str, Any]) -> Case:
    """Return a convolution of these shapes and attributes, maybe with a bias and an activation behind it."""
    x, w = found.pop("x"), found.pop("w")
    ending = draw.pick(("", "", "relu"))
    operands = {"x": Operand(x, "half"), "w": Operand(w, "half")}
    if ending:
        operands["bias"] = Operand((w[3],))

    def write(given: dict[str, Value]) -> list[Value]:
        y = ops.conv2d(given["x"], given["w"], **found)
        return [ops.relu(y + given["bias"]) if ending else y]

    label = f"conv2d {found} {ending}"
    has_gradients, has_kinks = draw.chance(0.8), bool(ending)
    return Case(label, operands, write, HALVES, is_exact=True, has_gradients=has_gradients, has_kinks=has_kinks)


def _extents(draw: Draw) -> tuple[int, int, int, int, int, tuple[int, int]]:
    """Return images, rows, columns, channels, filters and window of a convolution; one of them is large."""
    found: dict[str, Any] = {
        "images": draw.pick((1, 2, 3, 4, 5, 8, 9, 16)),
        "height": draw.pick((1, 2, 3, 4, 5, 7, 8, 9, 14)),
        "width": draw.pick((1, 2, 3, 5, 7, 8, 9, 14, 17)),
        "channels": draw.small(65),
        "filters": draw.small(65),
        "window": draw.pick(((1, 1), (3, 3), (3, 3), (3, 3), (2, 2), (5, 5), (1, 3), (7, 1))),
    }
    side = draw.near(draw.pick((28, 56, 96, 112)))
    large = {
        "images": {"images": draw.large(4096)},
        "height": {"height": draw.large(8192)},
        "width": {"width": draw.large(8192)},
        "channels": {"channels": draw.depth(16384)},
        "filters": {"filters": draw.large(8192)},
        "window": {"window": (draw.pick((1, 2, 3)), draw.near(draw.pick((16, 32, 64, 128, 256))))},
        "square": {"height": side, "width": side},
    }
    found |= large[draw.pick(("channels", *large))]
    return tuple(found.values())  # type: ignore[return-value] - in the order of the names above


def pool(draw: Draw) -> Case:
    """Return pooling over long lines, many channels, or a wide window."""

    def sizes() -> tuple[dict[str, Any], list[int], int]:
        images, height, width, channels = draw.pick((1, 2, 3)), draw.small(17), draw.small(17), draw.small(65)
        window = draw.pick(((2, 2), (3, 3), (1, 2), (5, 4)))
        axis = draw.pick(("channels", "width", "height", "images", "window"))
        if axis == "channels":
            channels = draw.large(16384)
        elif axis == "width":
            width = draw.large(16384)
        elif axis == "height":
            height = draw.large(16384)
        elif axis == "images":
            images = draw.large(4096)
        else:
            window = (draw.pick((1, 2, 3)), draw.near(draw.pick((16, 64, 256, 1024))))
        height, width = max(height, window[0]), max(width, window[1])
        x = (images, height, width, channels)
        stride = draw.pick(((1, 1), (2, 2), (3, 2), window))
        return {"x": x, "window": window, "stride": stride}, elements(x), elements(x)[0] * window[0] * window[1]

    found = draw.fitting(sizes)
    x, name = found.pop("x"), draw.pick(("max_pool2d", "avg_pool2d"))
    found["padding"] = draw.pick(((0, 0, 0, 0), (0, 1, 1, 0))) if min(found["window"]) > 1 else (0, 0, 0, 0)
    # Averages are no whole numbers.
    return Case(
        f"{name} {found}",
        {"x": Operand(x)},
        lambda given: [getattr(ops, name)(given["x"], **found)],
        is_exact=name == "max_pool2d",
    )


MAKERS = (conv, conv, conv, conv, wide_conv, wide_conv, pool)
