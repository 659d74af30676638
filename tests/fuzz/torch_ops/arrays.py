"""Shapes, slices, gathering and scattering."""

from __future__ import annotations

import math

import numpy as np
import torch

from fuzz.torch_ops.elements import DTYPES
from fuzz.torch_ops.table import TORCH, spelled

TORCH["reshape"] = lambda x, *, shape: x.reshape(shape)
TORCH["broadcast_to"] = lambda x, *, shape: x.expand(shape).clone()
TORCH["flip"] = lambda x, *, axis=(): x.flip(axis or tuple(range(x.dim())))
TORCH["roll"] = lambda x, *, shifts, axis: torch.roll(x, shifts, axis)
TORCH["repeat"] = lambda x, *, count, axis: torch.repeat_interleave(x, count, axis)
TORCH["concat"] = lambda *xs, axis=0: torch.cat(xs, axis)
TORCH["stack"] = lambda *xs, axis=0: torch.stack(xs, axis)
TORCH["unstack"] = lambda x, *, axis=0: list(torch.unbind(x, axis))
TORCH["split"] = lambda x, *, sizes, axis=0: list(torch.split(x, sizes, axis))
TORCH["flatten"] = lambda x, *, first=1, last=-1: torch.flatten(x, first, last)
TORCH["meshgrid"] = lambda *xs, indexing="xy": list(torch.meshgrid(*xs, indexing=indexing))
TORCH["tril"] = lambda x, *, offset=0: torch.tril(x, offset)
TORCH["triu"] = lambda x, *, offset=0: torch.triu(x, offset)
TORCH["diagonal"] = lambda x, *, offset=0, axis=(-2, -1): torch.diagonal(x, offset, *axis)


@spelled("tile")
def tile(x, *, counts):
    return x.repeat(counts) if len(counts) >= x.dim() else torch.tile(x, counts)


@spelled("transpose")
def transpose(x, *, axis=()):
    return x.permute(axis or tuple(reversed(range(x.dim()))))


@spelled("squeeze")
def squeeze(x, *, axis=()):
    return x.squeeze(axis) if axis else x.squeeze()


@spelled("unsqueeze")
def unsqueeze(x, *, axis):
    for each in sorted(a % (x.dim() + len(axis)) for a in axis):
        x = x.unsqueeze(each)
    return x


def numbered(x):
    """The place of each element in the flattened tensor."""
    return np.arange(x.numel()).reshape(tuple(x.shape))


def taken(x, places):
    """Elements by their places."""
    return x.reshape(-1)[torch.from_numpy(places.reshape(-1).copy())].reshape(places.shape)


def cut(shape_length, axes, starts, stops, strides):
    """Python's slices; in prograd a stop of -1 with a negative stride is before the first element."""
    key = [slice(None)] * shape_length
    for axis, start, stop, stride in zip(axes, starts, stops, strides, strict=True):
        key[axis] = slice(start, None if stop < 0 else stop, stride) if start >= 0 else slice(0, 0, 1)
    return tuple(key)


@spelled("slice")
def slice_(x, *, axis, starts, stops, strides):
    return taken(x, numbered(x)[cut(x.dim(), axis, starts, stops, strides)])


@spelled("unslice")
def unslice(x, *, shape, axis, starts, stops, strides):
    places = np.arange(math.prod(shape)).reshape(shape)[cut(len(shape), axis, starts, stops, strides)]
    y = torch.zeros(math.prod(shape), dtype=x.dtype)
    return y.index_put((torch.from_numpy(places.reshape(-1).copy()),), x.reshape(-1)).reshape(shape)


@spelled("pad")
def pad(x, *, before, after, value=0.0):
    inner = tuple(slice(b, b + n) for b, n in zip(before, x.shape, strict=True))
    shape = tuple(b + n + a for b, n, a in zip(before, x.shape, after, strict=True))
    places = np.arange(math.prod(shape)).reshape(shape)[inner]
    y = torch.full((math.prod(shape),), value, dtype=x.dtype)
    return y.index_put((torch.from_numpy(places.reshape(-1).copy()),), x.reshape(-1)).reshape(shape)


def padded(mode):
    def call(x, *, before, after):
        return taken(x, np.pad(numbered(x), list(zip(before, after, strict=True)), mode=mode))

    return call


TORCH |= {f"pad_{word}": padded(word) for word in ("reflect", "edge", "wrap")}


@spelled("space_to_depth")
def space_to_depth(x, *, block):
    n, h, w, c = x.shape
    x = x.reshape(n, h // block, block, w // block, block, c)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(n, h // block, w // block, block * block * c)


@spelled("depth_to_space")
def depth_to_space(x, *, block):
    n, h, w, c = x.shape
    x = x.reshape(n, h, w, block, block, c // block**2)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(n, h * block, w * block, c // block**2)


@spelled("pixel_shuffle")
def pixel_shuffle(x, *, factor):
    """Channel c * factor ** 2 + i * factor + j goes to row i and column j of a block."""
    n, h, w, c = x.shape
    x = x.reshape(n, h, w, c // factor**2, factor, factor)
    return x.permute(0, 1, 4, 2, 5, 3).reshape(n, h * factor, w * factor, c // factor**2)


@spelled("pixel_unshuffle")
def pixel_unshuffle(x, *, factor):
    n, h, w, c = x.shape
    x = x.reshape(n, h // factor, factor, w // factor, factor, c)
    return x.permute(0, 1, 3, 5, 2, 4).reshape(n, h // factor, w // factor, c * factor**2)


@spelled("eye")
def eye(*, shape, offset=0, dtype="float32"):
    return torch.from_numpy(np.broadcast_to(np.eye(shape[-2], shape[-1], offset), shape).copy()).to(DTYPES[dtype])


@spelled("full")
def full(*, shape, value, dtype="float32"):
    return torch.full(shape, value, dtype=DTYPES[dtype])


@spelled("size")
def size(*, shape, dtype="int64"):
    return torch.tensor(math.prod(shape), dtype=DTYPES[dtype])


@spelled("range")
def number_range(*, stop, start=0.0, step=1.0, dtype="int64"):
    return torch.arange(start, stop, step, dtype=torch.float64).to(DTYPES[dtype])


@spelled("linspace")
def linspace(*, start, stop, count, dtype="float32"):
    return torch.linspace(start, stop, count, dtype=torch.float64).to(DTYPES[dtype])


@spelled("gather", "embedding")
def gather(x, indices, *, axis=0):
    axis = axis % x.dim()
    y = torch.index_select(x, axis, indices.reshape(-1).long())
    return y.reshape((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))


@spelled("embedding")
def embedding(table, indices, *, padding_index=None):
    """The row of the padding gets no gradient; what it holds is given, as it is."""
    y = gather(table, indices)
    if padding_index is None:
        return y
    return torch.where((indices == padding_index).unsqueeze(-1), y.detach(), y)


@spelled("take_along_axis")
def take_along_axis(x, indices, *, axis=-1):
    shape = list(x.shape)
    shape[axis] = indices.shape[axis]
    return torch.gather(x, axis, indices.long().expand(shape))


def rows(x_shape, indices, batch):
    """For each row of indices the places that it names, flattened, as an array [..., part]."""
    numbers = np.arange(math.prod(x_shape)).reshape(tuple(x_shape))
    given = indices.numpy()
    made = np.empty((*given.shape[:-1], *x_shape[batch + given.shape[-1] :]), np.int64)
    for at in np.ndindex(given.shape[:-1]):
        made[at] = numbers[(*at[:batch], *given[at])]
    return made


@spelled("gather_nd")
def gather_nd(x, indices, *, batch_axes=0):
    return taken(x, rows(x.shape, indices, batch_axes))


@spelled("scatter_nd")
def scatter_nd(x, indices, updates, *, batch_axes=0, reduction="set"):
    return put(x, rows(x.shape, indices, batch_axes), updates, reduction)


def put(x, places, updates, reduction):
    """Elements of x at these places combined with updates, one after the other."""
    flat, new, at = x.reshape(-1), updates.reshape(-1), places.reshape(-1)
    if reduction == "add":
        return flat.index_add(0, torch.from_numpy(at.copy()), new).reshape(x.shape)
    if reduction == "set":
        last = {int(place): i for i, place in enumerate(at)}
        places_, sources = list(last), list(last.values())
        return flat.index_put(
            (torch.tensor(places_, dtype=torch.int64),), new[torch.tensor(sources, dtype=torch.int64)]
        ).reshape(x.shape)
    if reduction == "mul":
        elements = list(flat)
        for i, place in enumerate(at):
            elements[place] = elements[place] * new[i]
        return torch.stack(elements).reshape(x.shape) if elements else flat.reshape(x.shape)
    kind = {"max": "amax", "min": "amin"}[reduction]
    return flat.scatter_reduce(0, torch.from_numpy(at.copy()), new, kind).reshape(x.shape)


@spelled("is_last_index")
def is_last_index(indices, *, shape, batch_axes=0):
    given = indices.numpy()
    last = {(*at[:batch_axes], *given[at]): at for at in np.ndindex(given.shape[:-1])}
    made = np.zeros(given.shape[:-1], bool)
    for at in last.values():
        made[at] = True
    return torch.from_numpy(made)


@spelled("scatter_add")
def scatter_add(x, indices, updates, *, axis=0):
    return scatter(x, indices, updates, axis=axis, reduction="add")


@spelled("scatter")
def scatter(x, indices, updates, *, axis=0, reduction="set"):
    return put(x, np.take(numbered(x), indices.numpy(), axis), updates, reduction)


@spelled("put_along_axis")
def put_along_axis(x, indices, updates, *, axis=-1, reduction="set"):
    shape = list(x.shape)
    shape[axis] = indices.shape[axis]
    places = np.take_along_axis(numbered(x), np.broadcast_to(indices.numpy(), shape), axis)
    order = [*(i for i in range(x.dim()) if i != axis % x.dim()), axis % x.dim()]  # updates count in this order
    updates = updates.expand(shape)
    return put(x, places.transpose(order), updates.permute(order), reduction)


@spelled("sparse_matmul")
def sparse_matmul(positions, values, w):
    terms = w[positions.long()] * values.unsqueeze(-1)
    return torch.where(values.unsqueeze(-1) != 0, terms, torch.zeros_like(terms)).sum(1)


@spelled("sparse_outer_sum")
def sparse_outer_sum(positions, values, b, *, size):
    terms = (values.unsqueeze(-1) * b.unsqueeze(1)).reshape(-1, b.shape[-1])
    return torch.zeros((size, b.shape[-1]), dtype=b.dtype).index_add(0, positions.long().reshape(-1), terms)
