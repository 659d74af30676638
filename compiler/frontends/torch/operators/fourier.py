"""Complex numbers and Fourier transforms, which are products with matrices of cosines and sines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

from compiler.errors import CompileError
from compiler.frontends.arranged import Arranged, arranged, expanded, permuted, pointwise, squeezed, unsqueezed
from compiler.frontends.extents import Extent
from compiler.frontends.pieces import pad, sliced
from compiler.frontends.products import affine
from compiler.frontends.torch.operators.call import Call, Mapping, axis_of, promoted
from compiler.frontends.torch.operators.shape import cat
from compiler.frontends.torch.pairs import PARTS, Pair, conjugate
from registry import ops

MAX_LENGTH: Final = 4096
"""Longest axis that is transformed: its matrices have the square of this number of elements."""

NORMS: Final = {None: 0, "backward": 0, "ortho": 1, "forward": 2}
"""PyTorch's number of a normalisation of a forward transform; 1 divides by the root of the length, 2 by the length."""


def _matrices(call: Call, dtype: str, rows: int, columns: int, length: int) -> tuple[Arranged, Arranged]:
    """Return the cosines and sines of 2 pi k t / length, for k < rows and t < columns."""
    if length > MAX_LENGTH:
        raise CompileError(
            f"a Fourier transform of {length} elements is a product with a matrix of {length} * {length}; the longest "
            f"one that is imported has {MAX_LENGTH}"
        )
    torch: Any = import_module("torch")
    turns = torch.outer(torch.arange(rows), torch.arange(columns)) % length
    angles = turns.double() * (2 * math.pi / length)
    made = [arranged(call.store(f(angles).to(getattr(torch, dtype)).numpy())) for f in (torch.cos, torch.sin)]
    return made[0], made[1]


def _along(x: Arranged, w: Arranged, axis: int) -> Arranged:
    """Return the product of an axis of the model with a matrix."""
    order = [*(i for i in range(x.rank) if i != axis), axis]
    made = affine(permuted(x, order), w, None)
    return permuted(made, [order.index(i) for i in range(x.rank)])


def _transformed(call: Call, x: Pair, axes: Sequence[int], sign: int) -> Pair:
    """Return the sums over t of x[t] * exp(sign * 2 pi i k t / n), for all k, along each axis."""
    for axis in axes:
        n = x.shape[axis].known()
        cosines, sines = _matrices(call, x.dtype, n, n, n)
        rc, rs, ic, js = (_along(part, w, axis) for part in (x.real, x.imaginary) for w in (cosines, sines))
        plus, minus = (ops.add, ops.sub) if sign < 0 else (ops.sub, ops.add)
        x = Pair(pointwise(plus, rc, js), pointwise(minus, ic, rs))
    return x


def _scaled(x: Any, kind: int, lengths: Sequence[int]) -> Any:
    count = math.prod(lengths)
    factor = {0: 1.0, 1: 1 / math.sqrt(count), 2: 1 / count}[kind]
    if factor == 1:
        return x
    if isinstance(x, Pair):
        return Pair(_scaled(x.real, kind, lengths), _scaled(x.imaginary, kind, lengths))
    return pointwise(lambda v: v * factor, x)


def _axes(x: Any, dims: Sequence[int]) -> list[int]:
    return [axis_of(d, x.rank) for d in dims]


def _complex_to_complex(call: Call, x: Pair, dims: Sequence[int], norm: int, forward: bool) -> Pair:
    axes = _axes(x, dims)
    return _scaled(_transformed(call, x, axes, -1 if forward else 1), norm, [x.shape[i].known() for i in axes])


def _real_to_complex(call: Call, x: Arranged, dims: Sequence[int], norm: int, onesided: bool) -> Pair:
    axes = _axes(x, dims)
    lengths = [x.shape[i].known() for i in axes]
    n = lengths[-1]
    cosines, sines = _matrices(call, x.dtype, n, n // 2 + 1 if onesided else n, n)
    first = Pair(_along(x, cosines, axes[-1]), pointwise(ops.neg, _along(x, sines, axes[-1])))
    return _scaled(_transformed(call, first, axes[:-1], -1), norm, lengths)


def _complex_to_real(call: Call, x: Pair, dims: Sequence[int], norm: int, n: int) -> Arranged:
    """Return the real inverse of half a spectrum, whose other half are the conjugates of its inner elements."""
    axes = _axes(x, dims)
    last, half = axes[-1], n // 2 + 1
    lengths = [*(x.shape[i].known() for i in axes[:-1]), n]
    x = Pair(*(_fitted(part, last, half) for part in (x.real, x.imaginary)))
    x = _transformed(call, x, axes[:-1], 1)
    cosines, sines = _matrices(call, x.dtype, half, n, n)
    torch: Any = import_module("torch")
    twice = torch.full((half, 1), 2.0)
    twice[0], twice[n // 2 :] = 1.0, (1.0 if n % 2 == 0 else 2.0)
    counts = arranged(call.store(twice.to(getattr(torch, x.dtype)).numpy()))
    cosines, sines = (pointwise(ops.mul, w, expanded(counts, w.shape)) for w in (cosines, sines))
    made = pointwise(ops.sub, _along(x.real, cosines, last), _along(x.imaginary, sines, last))
    return _scaled(made, norm, lengths)


def _fitted(x: Arranged, axis: int, length: int) -> Arranged:
    """Return x padded by zeros or cut at the end of an axis, so that the axis has this length."""
    size = x.shape[axis].known()
    if size > length:
        return sliced(x, axis, 0, length)
    widths = [(0, length - size if i == axis else 0) for i in range(x.rank)]
    return pad(x, widths, 0.0)


def _forward(call: Call, x: Any, n: Any = None, dim: int = -1, norm: str | None = None) -> Pair:
    axis = axis_of(dim, x.rank)
    n = x.shape[axis].known() if n is None else int(n)
    onesided = call.shape[axis] != Extent(n)
    if isinstance(x, Pair):
        fitted = Pair(*(_fitted(part, axis, n) for part in (x.real, x.imaginary)))
        return _complex_to_complex(call, fitted, [axis], NORMS[norm], True)
    return _real_to_complex(call, _fitted(x, axis, n), [axis], NORMS[norm], onesided)


def _last(x: Arranged, number: int) -> Arranged:
    return squeezed(sliced(x, x.rank - 1, number, number + 1), [x.rank - 1])


def _complex(call: Call, a: Arranged, b: Arranged) -> Pair:
    real, imaginary = promoted((a, b), PARTS[call.dtype])
    return Pair(*(expanded(x, call.shape) for x in (real, imaginary)))  # pyright: ignore[reportArgumentType]: tensors


def _polar(call: Call, radius: Arranged, angle: Arranged) -> Pair:
    return Pair(
        pointwise(lambda r, a: r * ops.cos(a), radius, angle), pointwise(lambda r, a: r * ops.sin(a), radius, angle)
    )


def _angle(call: Call, x: Any) -> Arranged:
    if isinstance(x, Pair):
        return pointwise(ops.atan2, x.imaginary, x.real)
    return pointwise(lambda v: ops.where(v < 0.0, math.pi, ops.where(ops.isnan(v), v, 0.0)), x)


OPERATORS: Final[dict[str, Mapping]] = {
    "aten.view_as_complex.default": lambda call, x: Pair(_last(x, 0), _last(x, 1)),
    "aten.view_as_real.default": lambda call, x: cat(
        call, [unsqueezed(part, x.rank) for part in (x.real, x.imaginary)], x.rank
    ),
    "aten.complex.default": _complex,
    "aten.polar.default": _polar,
    "aten.real.default": lambda call, x: x.real if isinstance(x, Pair) else x,
    "aten.imag.default": lambda call, x: x.imaginary,
    "aten.angle.default": _angle,
    "aten._conj.default": conjugate,
    "aten.conj.default": conjugate,
    "aten._conj_physical.default": conjugate,
    "aten.conj_physical.default": conjugate,
    "aten.resolve_conj.default": lambda call, x: x,
    "aten.resolve_neg.default": lambda call, x: x,
    "aten._neg_view.default": lambda call, x: pointwise(ops.neg, x),
    "aten._fft_c2c.default": _complex_to_complex,
    "aten._fft_r2c.default": _real_to_complex,
    "aten._fft_c2r.default": _complex_to_real,
    "aten.fft_fft.default": _forward,
    "aten.fft_rfft.default": _forward,
}
