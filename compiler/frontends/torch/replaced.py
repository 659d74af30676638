"""Functions of PyTorch that torch.export cannot trace, or only for one number of rows, written with others."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any


@contextmanager
def replaced_functions(torch: Any) -> Generator[None]:
    """Replace the functions, and the methods of tensors with their names."""
    table: dict[str, Callable[..., Any]] = {"take_along_dim": _take_along, "cov": _covariance, "corrcoef": _correlation}
    before = [(owner, name, getattr(owner, name)) for owner in (torch, torch.Tensor) for name in table]
    for owner, name, new in (
        (torch.linalg, "lstsq", _least_squares),
        (torch.nn.modules.transformer, "_detect_is_causal_mask", _is_said_to_be_causal),
        (torch.backends.opt_einsum, "get_opt_einsum", _PathsOfExamples),
    ):
        before.append((owner, name, getattr(owner, name)))
        table[name] = new
    for owner, name, function in before:
        setattr(owner, name, _calling(table[name], function))
    try:
        yield
    finally:
        for owner, name, function in before:
            setattr(owner, name, function)


def _calling(new: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **keywords: new(function, *args, **keywords)


def _take_along(function: Callable[..., Any], input: Any, indices: Any, dim: int | None = None) -> Any:
    if dim is None:
        return input.reshape(-1).gather(0, indices.reshape(-1))
    pairs = list(zip(input.shape, indices.shape, strict=True))
    sizes = [one if other == 1 else other for one, other in pairs]
    axis = dim % len(pairs)
    own, theirs = (
        tuple(pair[i] if number == axis else size for number, (pair, size) in enumerate(zip(pairs, sizes, strict=True)))
        for i in (0, 1)
    )
    return input.expand(own).gather(axis, indices.expand(theirs))


def _covariance(function: Callable[..., Any], input: Any, *, correction: int = 1, **weights: Any) -> Any:
    if input.ndim > 2 or any(weight is not None for weight in weights.values()):
        return function(input, correction=correction, **weights)
    x = _centred(input if input.ndim == 2 else input.reshape(1, -1))
    made = x @ x.t() / (x.shape[1] - correction)
    return made if input.ndim == 2 and x.shape[0] != 1 else made.squeeze()


def _correlation(function: Callable[..., Any], input: Any) -> Any:
    if input.ndim != 2:
        return function(input)
    x = _centred(input)
    spread = x.square().sum(1).sqrt()
    return (x @ x.t() / spread[:, None] / spread).clip(-1, 1)


def _least_squares(
    function: Callable[..., Any], input: Any, b: Any, rcond: float | None = None, *, driver: str | None = None
) -> Any:
    """Return the solution by the pseudo-inverse; residuals are those of full rank, and empty where LAPACK has none."""
    linalg, result = sys.modules["torch"].linalg, sys.modules["torch"].return_types.linalg_lstsq
    is_vector = b.ndim == 1 or (b.ndim == input.ndim - 1 and tuple(b.shape) == tuple(input.shape[:-1]))
    columns = b.unsqueeze(-1) if is_vector else b
    x = linalg.pinv(input, rtol=rcond) @ columns
    none, is_tall = input.new_empty(0), input.shape[-2] > input.shape[-1]
    residuals = (input @ x - columns).square().sum(-2) if is_tall and driver not in (None, "gelsy") else none
    rank = none.long() if driver == "gels" else linalg.matrix_rank(input, rtol=rcond)
    values = linalg.svdvals(input.detach()) if driver in ("gelsd", "gelss") else none
    return result((x.squeeze(-1) if is_vector else x, residuals, rank, values))


def _is_said_to_be_causal(
    function: Callable[..., Any], mask: Any, is_causal: bool | None = None, size: int | None = None
) -> bool:
    """Return `is_causal` as it was given. PyTorch would look at the elements of `mask`, which is used anyway."""
    return bool(is_causal)


class _PathsOfExamples:
    """The package opt_einsum, which orders the products of `einsum`, for the sizes of the examples.

    It asks for sizes as numbers, so that torch.export fixes the symbols. Every order has the same result.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.package = function()

    def contract_path(self, equation: str, *operands: Any, optimize: Any) -> Any:
        shapes = [tuple(_example_size(size) for size in operand.shape) for operand in operands]
        return self.package.contract_path(equation, *shapes, shapes=True, optimize=optimize)


def _example_size(size: Any) -> int:
    """Return the size of the example; 1 for a size that depends on data, which is refused later."""
    node = getattr(size, "node", None)
    if node is None:
        return int(size)
    return int(node.hint) if node.has_hint() else 1


def _centred(x: Any) -> Any:
    return x - x.mean(1, keepdim=True)
