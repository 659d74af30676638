"""Reductions, scans, sorting."""

from __future__ import annotations

import torch

from fuzz.torch_ops.elements import DTYPES
from fuzz.torch_ops.table import TORCH, spelled


def places(x, axis):
    return tuple(sorted(each % x.dim() for each in axis)) if axis else tuple(range(x.dim()))


def widened(x):
    """Whole numbers and bools are summed as int64."""
    return x if x.is_floating_point() else x.to(torch.int64)


@spelled("sum")
def sum(x, *, axis=(), keepdims=False):
    return torch.sum(widened(x), places(x, axis), keepdim=keepdims) if x.dim() else widened(x).clone()


@spelled("mean")
def mean(x, *, axis=(), keepdims=False):
    return torch.mean(x, places(x, axis), keepdim=keepdims) if x.dim() else x.clone()


@spelled("prod")
def prod(x, *, axis=(), keepdims=False):
    x = widened(x)
    for each in reversed(places(x, axis)):
        parts = torch.unbind(x, each)  # the gradient of PyTorch's own divides
        y = torch.ones_like(x.select(each, 0)) if parts else x.sum(each) + 1
        for part in parts:
            y = y * part
        x = y.unsqueeze(each) if keepdims else y
    return x


def extreme(pick, of_bools):
    def call(x, *, axis=(), keepdims=False):
        if not x.dim():
            return x.clone()
        if x.dtype == torch.bool:
            return of_bools(x, places(x, axis), keepdims)
        return pick(x, places(x, axis), keepdims)

    return call


def over(function):
    def call(x, axes, keepdims):
        for axis in reversed(axes):
            x = function(x, axis, keepdim=keepdims)
        return x

    return call


TORCH["max"] = extreme(lambda x, axes, keep: torch.amax(x, axes, keepdim=keep), over(torch.any))
TORCH["min"] = extreme(lambda x, axes, keep: torch.amin(x, axes, keepdim=keep), over(torch.all))
TORCH["any"] = lambda x, *, axis=(), keepdims=False: over(torch.any)(x, places(x, axis), keepdims)
TORCH["all"] = lambda x, *, axis=(), keepdims=False: over(torch.all)(x, places(x, axis), keepdims)
TORCH["argmax"] = lambda x, *, axis=-1: torch.argmax(x, axis)
TORCH["argmin"] = lambda x, *, axis=-1: torch.argmin(x, axis)


@spelled("logsumexp")
def logsumexp(x, *, axis=(), keepdims=False):
    return torch.logsumexp(x, places(x, axis), keepdim=keepdims) if x.dim() else x.clone()


@spelled("variance")
def variance(x, *, axis=(), correction=0.0, keepdims=False):
    return torch.var(x, places(x, axis), correction=correction, keepdim=keepdims)


@spelled("standard_deviation")
def standard_deviation(x, *, axis=(), correction=0.0, keepdims=False):
    return torch.std(x, places(x, axis), correction=correction, keepdim=keepdims)


@spelled("norm")
def norm(x, *, ord=2.0, axis=(), keepdims=False):
    return torch.linalg.vector_norm(x, ord, places(x, axis) or None, keepdim=keepdims)


def scan(function, first):
    def call(x, *, axis=-1, exclusive=False, reverse=False):
        x = widened(x)
        x = x.flip(axis) if reverse else x
        if exclusive:
            n = x.shape[axis]
            x = torch.cat(
                [torch.full_like(x.narrow(axis, 0, min(1, n)), first), x.narrow(axis, 0, max(n - 1, 0))], axis
            )
        y = function(x, axis)
        return y.flip(axis) if reverse else y

    return call


def products(x, axis):
    """One multiplication after the other: the gradient of PyTorch's own divides."""
    made = []
    for part in torch.unbind(x, axis):
        made.append(part * made[-1] if made else part)
    return torch.stack(made, axis) if made else x.clone()


TORCH["cumsum"], TORCH["cumprod"] = scan(torch.cumsum, 0), scan(products, 1)


@spelled("linear_scan")
def linear_scan(a, b, *, axis=-1, reverse=False):
    steps = range(a.shape[axis])
    y, made = None, {}
    for i in reversed(steps) if reverse else steps:
        y = b.select(axis, i) if y is None else a.select(axis, i) * y + b.select(axis, i)
        made[i] = y
    return torch.stack([made[i] for i in steps], axis) if made else b.clone()


@spelled("sort")
def sort(x, *, axis=-1, descending=False):
    return torch.sort(x, dim=axis, descending=descending, stable=True).values


@spelled("argsort")
def argsort(x, *, axis=-1, descending=False):
    return torch.sort(x, dim=axis, descending=descending, stable=True).indices


@spelled("topk")
def topk(x, *, k, axis=-1, largest=True):
    found = torch.sort(x, dim=axis, descending=largest, stable=True)
    return found.values.narrow(axis, 0, k), found.indices.narrow(axis, 0, k)


@spelled("count_unique")
def count_unique(x):
    return torch.tensor(len(torch.unique(x)))


@spelled("bincount")
def bincount(indices, *, depth):
    return torch.bincount(indices.reshape(-1), minlength=depth)


@spelled("one_hot")
def one_hot(indices, *, depth, dtype="float32"):
    return (indices.unsqueeze(-1) == torch.arange(depth)).to(DTYPES[dtype])
