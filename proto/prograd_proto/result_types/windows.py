"""Windows that slide over images [n, h, w, c]: the number of their positions, and the windows that are refused.

`stride`, `dilation` and `window` are (vertical, horizontal); `padding` is (top, left, bottom, right), as in ONNX.
"""

from __future__ import annotations

from prograd_proto.errors import require
from prograd_proto.result_types.shapes import Typed, size_known

Numbers = tuple[int, ...]


def window_counts(
    height: int | str,
    width: int | str,
    *,
    window: Numbers,
    stride: Numbers,
    padding: Numbers,
    dilation: Numbers = (1, 1),
) -> tuple[int, int]:
    """Return the number of window positions on an image, from top to bottom and from left to right."""
    require(len(window) == len(stride) == len(dilation) == 2, "window, stride and dilation have two numbers each")
    require(min(*window, *stride, *dilation) > 0, "window, stride and dilation are positive")
    require(max(*window, *stride, *dilation) < 1 << 31, "window, stride and dilation are below 2^31")
    require(len(padding) == 4, f"padding has {len(padding)} numbers; it is (top, left, bottom, right)")
    require(min(padding) >= 0, "the padding is negative")
    top, left, bottom, right = padding
    rows = _count("height", height, window[0], stride[0], top + bottom, dilation[0])
    return rows, _count("width", width, window[1], stride[1], left + right, dilation[1])


def require_image(x: Typed) -> None:
    """Raise OpError unless x has the four axes of images."""
    require(x.rank == 4, f"an image has the axes [n, h, w, c], not {x.rank} of them")


def _count(what: str, size: int | str, window: int, stride: int, padding: int, dilation: int) -> int:
    padded = size_known(size, f"the {what}") + padding
    span = dilation * (window - 1) + 1
    require(span <= padded, f"the window spans {span} of a {what} that is {padded} with padding")
    return (padded - span) // stride + 1
