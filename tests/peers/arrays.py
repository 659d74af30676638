"""Arrangements, slices, diagonals, windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from compiler import Value, ops
from peers.spelling import Call, many, peer, unless

Shape = Sequence[int]
SCALAR = "a scalar has no axis to name"


@peer("reshape", "reshape")
@peer("view", "reshape")
def reshape(x: Value, shape: Shape) -> Value:
    return ops.reshape(x, shape=tuple(shape))


@peer("permute", "transpose")
def permute(x: Value, dims: Shape) -> Value:
    return ops.transpose(x, axis=tuple(dims))


@peer("transpose", "transpose")
def transpose(x: Value, dim0: int, dim1: int) -> Value:
    unless(x.rank == 0, SCALAR)
    axes = list(range(x.rank))
    axes[dim0], axes[dim1] = axes[dim1], axes[dim0]
    return ops.transpose(x, axis=tuple(axes))


@peer("expand", "broadcast_to")
@peer("broadcast_to", "broadcast_to")
def expand(x: Value, size: Shape) -> Value:
    known = (1,) * (len(size) - x.rank) + x.shape
    shape = tuple(old if new == -1 else new for old, new in zip(known, size, strict=True))
    return ops.broadcast_to(x, shape=shape)


@peer("flatten", "flatten")
def flatten(x: Value, start_dim: int = 0, end_dim: int = -1) -> Value:
    return ops.flatten(x, first=start_dim, last=end_dim) if x.rank else ops.reshape(x, shape=(1,))


@peer("squeeze", "squeeze")
@peer("squeeze", "squeeze", variant="multiple")
def squeeze(x: Value, dim: int | Shape | None = None) -> Value:
    if dim is None:
        return ops.squeeze(x)
    dims = [dim] if isinstance(dim, int) else list(dim)
    ones = tuple(axis for axis in dims if x.rank and x.shape[axis] == 1)  # PyTorch passes over the others
    return ops.squeeze(x, axis=ones) if ones else ops.identity(x)


@peer("unsqueeze", "unsqueeze")
def unsqueeze(x: Value, dim: int) -> Value:
    return ops.unsqueeze(x, axis=(dim,))


@peer("stack", "stack")
def stack(xs: Sequence[Value], dim: int = 0) -> Value:
    return ops.stack(*xs, axis=dim)


@peer("cat", "concat")
def cat(xs: Sequence[Value], dim: int = 0) -> Value:
    return ops.concat(*xs, axis=dim)


@peer("unbind", "unstack")
def unbind(x: Value, dim: int = 0) -> list[Value]:
    return ops.unstack(x, axis=dim)


@peer("split", "split")
@peer("split", "split", variant="list_args")
@peer("split_with_sizes", "split")
def split(x: Value, sizes: int | Shape, dim: int = 0) -> list[Value]:
    extent = int(x.shape[dim])
    if isinstance(sizes, int):
        sizes = [min(sizes, extent - start) for start in range(0, extent, sizes)]
    return ops.split(x, sizes=tuple(sizes), axis=dim)


@peer("chunk", "split")
def chunk(x: Value, chunks: int, dim: int = 0) -> list[Value]:
    return split(x, math.ceil(int(x.shape[dim]) / chunks), dim)


@peer("flip", "flip")
def flip(x: Value, dims: Shape) -> Value:
    return ops.flip(x, axis=tuple(dims)) if dims else ops.identity(x)


@peer("roll", "roll")
def roll(x: Value, shifts: int | Shape, dims: int | Shape | None = None) -> Value:
    if dims is None:
        flat = ops.roll(ops.reshape(x, shape=(-1,)), shifts=many(shifts, 1), axis=(0,))
        return ops.reshape(flat, shape=x.shape)
    return ops.roll(x, shifts=many(shifts, 1), axis=many(dims, 1))


@peer("tile", "tile")
def tile(x: Value, dims: Shape) -> Value:
    return ops.tile(x, counts=tuple(dims))


@peer("repeat", "tile")
def repeat(x: Value, *sizes: Any) -> Value:
    counts = sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    return ops.tile(x, counts=tuple(counts))


@peer("repeat_interleave", "repeat")
def repeat_interleave(x: Value, repeats: Any, dim: int | None = None, **kwargs: Any) -> Value:
    unless(not isinstance(repeats, int), "a number of repeats for each element")
    x, axis = (ops.reshape(x, shape=(-1,)), 0) if dim is None or not x.rank else (x, dim)
    return ops.repeat(x, count=repeats, axis=axis)


@peer("meshgrid", "meshgrid", variant="variadic_tensors")
def meshgrid(*xs: Value, indexing: str = "ij") -> list[Value]:
    xs = tuple(x if x.rank else ops.reshape(x, shape=(1,)) for x in xs)
    return ops.meshgrid(*xs, indexing=indexing)  # type: ignore[arg-type]


@peer("meshgrid", "meshgrid", variant="list_of_tensors")
def meshgrid_of_list(xs: Sequence[Value], indexing: str = "ij") -> list[Value]:
    return meshgrid(*xs, indexing=indexing)


@peer("nn.functional.pad", "pad", "slice", variant="constant")
@peer("nn.functional.pad", "pad_reflect", variant="reflect")
@peer("nn.functional.pad", "pad_edge", variant="replicate")
@peer("nn.functional.pad", "pad_edge", variant="replicate_negative")
@peer("nn.functional.pad", "pad_wrap", variant="circular")
def pad(x: Value, pad: Shape, mode: str = "constant", value: float | None = 0.0) -> Value:
    """PyTorch names the last axis first; a negative width takes elements away, before the others are put around."""
    widths = [(0, 0)] * (x.rank - len(pad) // 2)
    widths += [(pad[i], pad[i + 1]) for i in range(len(pad) - 2, -1, -2)]
    if mode == "constant":
        x = _cropped(x, widths)
        before, after = _positive(widths)
        return ops.pad(x, before=before, after=after, value=float(value or 0.0))
    unless(any(width < 0 for pair in widths for width in pair) and mode == "circular", "a negative width of wrapping")
    before, after = _positive(widths)
    put = {"reflect": ops.pad_reflect, "replicate": ops.pad_edge, "circular": ops.pad_wrap}[mode]
    return _cropped(put(x, before=before, after=after), widths)


@peer("constant_pad_nd", "pad")
def constant_pad_nd(x: Value, widths: Shape, value: float = 0.0) -> Value:
    return pad(x, widths, "constant", value)


def _positive(widths: Sequence[tuple[int, int]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return tuple(max(one, 0) for one, _ in widths), tuple(max(other, 0) for _, other in widths)


def _cropped(x: Value, widths: Sequence[tuple[int, int]]) -> Value:
    cuts = [(max(-one, 0), max(-other, 0)) for one, other in widths]
    if not any(one or other for one, other in cuts):
        return x
    return x[tuple(slice(one, int(n) - other) for (one, other), n in zip(cuts, x.shape, strict=True))]


@peer("narrow", "slice")
def narrow(x: Value, dim: int, start: int, length: int) -> Value:
    unless(isinstance(start, Value), "a place that is data")
    start %= int(x.shape[dim])
    return x[(*(slice(None),) * (dim % x.rank), slice(start, start + length))]


@peer("slice", "slice", "unslice")
def slice_(x: Value, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Value:
    return x[(*(slice(None),) * dim, slice(start, end, step))]


@peer("select", "slice")
def select(x: Value, dim: int, index: int) -> Value:
    return x[(*(slice(None),) * (dim % x.rank), index)]


@peer("__getitem__", "slice", "gather")
def getitem(x: Value, index: Any) -> Value:
    lists = [i for i in (index if isinstance(index, tuple) else (index,)) if isinstance(i, list | Value)]
    if len(lists) == 1 and isinstance(index, Value):
        unless(index.dtype == "bool", "a mask, whose number of elements is data")
        return ops.gather(x, index)
    unless(bool(lists), "lists of numbers in an index; gather_nd takes a tensor of them")
    return x[index]


@peer("tril", "tril")
def tril(x: Value, diagonal: int = 0) -> Value:
    return ops.tril(x, offset=diagonal)


@peer("triu", "triu")
def triu(x: Value, diagonal: int = 0) -> Value:
    return ops.triu(x, offset=diagonal)


@peer("diagonal", "diagonal")
@peer("linalg.diagonal", "diagonal")
def diagonal(x: Value, *, offset: int = 0, dim1: int | None = None, dim2: int | None = None) -> Value:
    first, second = (0, 1) if dim1 is None or dim2 is None else (dim1, dim2)
    return ops.diagonal(x, offset=offset, axis=(first, second))


@peer("trace", "diagonal", "sum")
def trace(x: Value) -> Value:
    return ops.sum(ops.diagonal(x))


@peer("nn.functional.pixel_shuffle", "pixel_shuffle")
def pixel_shuffle(x: Value, upscale_factor: int) -> Value:
    return _images(x, lambda y: ops.pixel_shuffle(y, factor=upscale_factor))


@peer("nn.functional.pixel_unshuffle", "pixel_unshuffle")
def pixel_unshuffle(x: Value, downscale_factor: int) -> Value:
    return _images(x, lambda y: ops.pixel_unshuffle(y, factor=downscale_factor))


def _block_inputs(rng: np.random.Generator) -> list[Call]:
    return [([rng.normal(size=(2, 3, 4, 6)), block], {}) for block in (1, 2)]


@peer("nn.functional.pixel_unshuffle", "space_to_depth", inputs=_block_inputs)
def space_to_depth(x: Value, block: int) -> Value:
    """PyTorch has the pixels of a block within a channel, here the channels are within a pixel."""
    y = ops.space_to_depth(ops.transpose(x, axis=(0, 2, 3, 1)), block=block)
    n, h, w, _ = y.shape
    y = ops.transpose(ops.reshape(y, shape=(n, h, w, block**2, -1)), axis=(0, 4, 3, 1, 2))
    return ops.reshape(y, shape=(n, -1, h, w))


def _depth_inputs(rng: np.random.Generator) -> list[Call]:
    return [([rng.normal(size=(2, 12, 3, 2)), block], {}) for block in (1, 2)]


@peer("nn.functional.pixel_shuffle", "depth_to_space", inputs=_depth_inputs)
def depth_to_space(x: Value, block: int) -> Value:
    n, _, h, w = x.shape
    y = ops.transpose(ops.reshape(x, shape=(n, -1, block**2, h, w)), axis=(0, 3, 4, 2, 1))
    y = ops.depth_to_space(ops.reshape(y, shape=(n, h, w, -1)), block=block)
    return ops.transpose(y, axis=(0, 3, 1, 2))


def _images(x: Value, function: Any) -> Value:
    """The function for images with channels last, of images of any rank with channels first."""
    front = x.shape[:-3]
    y = ops.reshape(x, shape=(math.prod(int(n) for n in front), *x.shape[-3:]))
    y = ops.transpose(function(ops.transpose(y, axis=(0, 2, 3, 1))), axis=(0, 3, 1, 2))
    return ops.reshape(y, shape=(*front, *y.shape[1:]))


@peer("nn.functional.unfold", "unfold")
def unfold(x: Value, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Value:
    """PyTorch has the channels before the window's rows and columns, and all places in one axis."""
    window = many(kernel_size, 2)
    y = ops.unfold(
        ops.transpose(x, axis=(0, 2, 3, 1)),
        window=window,
        stride=many(stride, 2),
        padding=many(padding, 2),
        dilation=many(dilation, 2),
    )
    n, rows, columns, _ = y.shape
    y = ops.reshape(y, shape=(n, int(rows) * int(columns), window[0] * window[1], x.shape[1]))
    return ops.reshape(
        ops.transpose(y, axis=(0, 3, 2, 1)),
        shape=(n, int(x.shape[1]) * window[0] * window[1], int(rows) * int(columns)),
    )


def _folds(rng: np.random.Generator) -> list[Call]:
    return [
        ([rng.normal(size=(2, 3 * 4, 12)), (4, 5), (2, 2)], {}),
        ([rng.normal(size=(1, 2 * 6, 9)), (5, 4), (3, 2)], dict(stride=(2, 2), padding=(1, 1))),
        ([rng.normal(size=(3, 4, 4)), (4, 8), (2, 2)], dict(stride=(1, 3), dilation=(2, 4))),
    ]


@peer("nn.functional.fold", "fold", inputs=_folds)
def fold(
    x: Value, output_size: Shape, kernel_size: Shape, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Value:
    window, edges, steps, spread = tuple(kernel_size), many(padding, 2), many(stride, 2), many(dilation, 2)
    rows, columns = (
        (output_size[i] + 2 * edges[i] - spread[i] * (window[i] - 1) - 1) // steps[i] + 1 for i in range(2)
    )
    n, area = x.shape[0], window[0] * window[1]
    channels = int(x.shape[1]) // area
    y = ops.transpose(ops.reshape(x, shape=(n, channels, area, rows * columns)), axis=(0, 3, 2, 1))
    y = ops.fold(
        ops.reshape(y, shape=(n, rows, columns, area * channels)),
        shape=(n, *output_size, channels),
        window=window,
        stride=steps,
        padding=edges,
        dilation=spread,
    )
    return ops.transpose(y, axis=(0, 3, 1, 2))
