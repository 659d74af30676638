"""Windows that slide over images [n, h, w, c]: rules and checks for type inference.

`stride`, `dilation` and `window` are (vertical, horizontal), or one number for both; `padding` is (top, left, bottom,
right) as in ONNX, or two numbers for both vertical and both horizontal edges, or one for all.
"""

from __future__ import annotations

from registry.errors import require
from registry.shapes import size_known
from registry.spellings import Edges, Pair, as_tuple
from registry.value import Value


def window_counts(
    height: int | str,
    width: int | str,
    *,
    window: Pair,
    stride: Pair,
    padding: Edges,
    dilation: Pair = (1, 1),
) -> tuple[int, int]:
    """Return the number of window positions on an image, from top to bottom and from left to right."""
    window, stride, dilation = as_tuple(window), as_tuple(stride), as_tuple(dilation)
    require(len(window) == len(stride) == len(dilation) == 2, "window, stride and dilation have two numbers each")
    require(min(*window, *stride, *dilation) > 0, "window, stride and dilation are positive")
    top, left, bottom, right = four_edges(padding)
    require(min(top, left, bottom, right) >= 0, "the padding is negative")
    rows = _count("height", height, window[0], stride[0], top + bottom, dilation[0])
    return rows, _count("width", width, window[1], stride[1], left + right, dilation[1])


def four_edges(padding: Edges) -> tuple[int, int, int, int]:
    """Return (top, left, bottom, right); two numbers stand for both vertical and both horizontal edges."""
    padding = as_tuple(padding)
    require(
        len(padding) in (2, 4),
        f"padding has {len(padding)} numbers; it is (top, left, bottom, right) or (vertical, horizontal)",
    )
    top, left, bottom, right = padding * (4 // len(padding))
    return top, left, bottom, right


def require_image(x: Value) -> None:
    """Raise OpError unless x has the four axes of images."""
    require(x.rank == 4, f"an image has the axes [n, h, w, c], not {x.rank} of them")


def _count(what: str, size: int | str, window: int, stride: int, padding: int, dilation: int) -> int:
    padded = size_known(size, f"the {what}") + padding
    span = dilation * (window - 1) + 1
    require(span <= padded, f"the window spans {span} of a {what} that is {padded} with padding")
    return (padded - span) // stride + 1
