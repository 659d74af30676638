"""Convolutions: activations and weights with channels last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from compiler.frontends.arranged import Arranged, arranged, ordered, squeezed, unsqueezed
from compiler.frontends.channels import filters, first, last
from compiler.frontends.torch.operators.call import Call, Mapping
from registry import ops


def numbers(given: int | Sequence[int], axes: int) -> tuple[int, ...]:
    """Return a number for each axis."""
    listed = (given,) if isinstance(given, int) else tuple(given)
    return listed * axes if len(listed) == 1 else listed


def windows(axes: int, **given: Any) -> dict[str, Any]:
    """Return the attributes of windows with a number for each axis."""
    return {name: numbers(value, axes) for name, value in given.items()}


def _conv(
    call: Call,
    x: Arranged,
    w: Arranged,
    bias: Arranged | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Arranged:
    axes = w.rank - 2
    if x.rank == axes + 1:  # without a batch
        made = _conv(call, unsqueezed(x, 0), w, bias, stride, padding, dilation, groups)
        return squeezed(made, [0])
    dilation = numbers(dilation, axes)
    window = [extent.number for extent in w.shape[2:]]
    pieces = windows(axes, stride=stride, padding=_padding(padding, window, dilation), dilation=dilation)
    y = ops.conv(last(x), filters(w), groups=groups, **pieces)
    return first(y if bias is None else y + ordered(bias, (0,)))


def _padding(given: int | Sequence[int] | str, window: Sequence[int], dilation: Sequence[int]) -> tuple[int, ...]:
    if given == "valid":
        given = 0
    if isinstance(given, str):  # "same"
        more = [step * (size - 1) for step, size in zip(dilation, window, strict=True)]
        return (*(n // 2 for n in more), *(n - n // 2 for n in more))
    return numbers(given, len(window))


def _conv_transpose(
    call: Call,
    x: Arranged,
    w: Arranged,
    bias: Arranged | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> Arranged:
    pieces = windows(w.rank - 2, stride=stride, padding=padding, output_padding=output_padding, dilation=dilation)
    y = ops.conv_transpose(last(x), filters(w), groups=groups, **pieces)
    return first(y if bias is None else y + ordered(bias, (0,)))


def _convolution(
    call: Call,
    x: Arranged,
    w: Arranged,
    bias: Arranged | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Arranged:
    if transposed:
        return _conv_transpose(call, x, w, bias, stride, padding, output_padding, groups, dilation)
    return _conv(call, x, w, bias, stride, padding, dilation, groups)


def _im2col(call: Call, x: Arranged, window: Any, dilation: Any, padding: Any, stride: Any) -> Arranged:
    """Return windows as [n, c * h * w, count]: torch.nn.functional.unfold."""
    y = ops.unfold(last(x), **windows(2, window=window, stride=stride, padding=padding, dilation=dilation))
    n, rows, columns, size = y.shape
    channels = x.shape[1].number
    assert isinstance(size, int)
    assert isinstance(rows, int)
    assert isinstance(columns, int)
    y = ops.reshape(y, shape=(n, rows * columns, size // channels, channels))
    y = ops.reshape(ops.transpose(y, axis=(0, 3, 2, 1)), shape=(n, size, rows * columns))
    return arranged(y)


OPERATORS: Final[dict[str, Mapping]] = {
    **{f"aten.conv{n}d.{form}": _conv for n in (1, 2, 3) for form in ("default", "padding")},
    "aten.convolution.default": _convolution,
    "aten.conv_transpose1d.default": _conv_transpose,
    "aten.conv_transpose2d.input": _conv_transpose,
    "aten.conv_transpose3d.input": _conv_transpose,
    "aten.im2col.default": _im2col,
}
