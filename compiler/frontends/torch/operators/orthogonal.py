"""QR, singular values, eigenvalues of symmetric matrices, pseudo-inverses."""

from __future__ import annotations

import sys
from typing import Any, Final

from compiler.errors import CompileError
from compiler.frontends.arranged import Arranged, arranged, plain
from compiler.frontends.torch.operators.call import Call, Mapping, on_plain
from compiler.frontends.torch.operators.decomposition import symmetric, turned
from registry import Value, ops


def _svd(
    call: Call, x: Arranged, full_matrices: bool = False, compute_uv: bool = True, **more: Any
) -> tuple[Arranged, ...]:
    u, s, v = ops.svd(plain(x))
    if full_matrices and compute_uv:
        u, v = _completed(u), _completed(v)
    return arranged(u), arranged(s), arranged(turned(v))


def _completed(u: Value) -> Value:
    """Return orthonormal columns and, without a gradient, further ones to as many as there are rows."""
    rows, columns = u.shape[-2:]
    if rows == columns:
        return u
    further = ops.qr(ops.stop_gradient(u), complete=True)[0][..., int(columns) :]
    return ops.concat(u, ops.stop_gradient(further), axis=-1)


def _eigh(call: Call, x: Arranged, uplo: str = "L", compute_v: bool = True) -> tuple[Arranged, ...]:
    values, vectors = ops.eigh(symmetric(plain(x), uplo.upper() == "U"))
    return arranged(values), arranged(vectors)


def _pinv(
    call: Call, x: Arranged, *, atol: float | None = None, rtol: float | None = None, hermitian: bool = False
) -> Arranged:
    """Return the pseudo-inverse; `rtol` is the default only if there is no `atol` above 0, as in PyTorch."""
    if isinstance(atol, Arranged) or isinstance(rtol, Arranged):
        raise CompileError("pinv with a tensor as atol or rtol has no counterpart; give a number")
    matrix = symmetric(plain(x), upper=False) if hermitian else plain(x)
    if rtol is None and not atol:
        return arranged(ops.pseudo_inverse(matrix))
    relative = max(rtol or 0.0, sys.float_info.min)  # 0 would be the default
    return arranged(ops.pseudo_inverse(matrix, relative=relative, absolute=atol or 0.0))


def _pinv_of_rcond(call: Call, x: Arranged, rcond: float = 1e-15, hermitian: bool = False) -> Arranged:
    return _pinv(call, x, rtol=rcond, hermitian=hermitian)


OPERATORS: Final[dict[str, Mapping]] = {
    "aten.linalg_qr.default": on_plain(lambda call, x, mode="reduced": ops.qr(x, complete=mode == "complete")),
    "aten._linalg_svd.default": _svd,
    "aten.linalg_svdvals.default": on_plain(lambda call, x, **more: ops.svd(x)[1]),
    "aten._linalg_eigh.default": _eigh,
    "aten.linalg_pinv.atol_rtol_tensor": _pinv,
    "aten.linalg_pinv.atol_rtol_float": _pinv,
    "aten.linalg_pinv.default": _pinv_of_rcond,
    "aten.pinverse.default": _pinv_of_rcond,
}
