"""Arithmetic in float16 and bfloat16: operands are widened to float32, and results rounded, as PyTorch does on a CPU.

An operator that only moves elements takes halves as they are. So does a product of bfloat16: the product of two such
numbers is exact in float32, in which it is added up.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from compiler.frontends.arranged import Arranged
from compiler.frontends.elements import cast_to
from compiler.frontends.torch.operators import control
from compiler.frontends.torch.operators.call import Call
from prograd_proto.dtypes import HALVES
from runtime.dtypes import BFLOAT16, Array

MOVES: Final = {
    "aten._to_copy.default", "aten.to.dtype", "aten.to.dtype_layout", "aten.to.other", "aten.type_as.default",
    "aten.clone.default", "aten.detach.default", "aten.detach_.default", "aten.alias.default",
    "aten.contiguous.default", "aten.lift_fresh_copy.default", "aten.view.default", "aten.reshape.default",
    "aten._unsafe_view.default", "aten.view_as.default", "aten.reshape_as.default", "aten.flatten.using_ints",
    "aten.unflatten.int", "aten.permute.default", "aten.transpose.int", "aten.t.default", "aten.numpy_T.default",
    "aten.mT.default", "aten.swapaxes.default", "aten.movedim.int", "aten.movedim.intlist", "aten.squeeze.default",
    "aten.squeeze.dim", "aten.squeeze.dims", "aten.unsqueeze.default", "aten.expand.default",
    "aten.expand_as.default", "aten.slice.Tensor", "aten.narrow.default", "aten.select.int", "aten.split.Tensor",
    "aten.split.sizes", "aten.split_with_sizes.default", "aten.chunk.default", "aten.unbind.int",
    "aten.cat.default", "aten.concat.default", "aten.stack.default", "aten.embedding.default",
}  # fmt: skip
"""Operators whose mappings take halves: casts, copies, and rearrangements of elements."""

PRODUCTS: Final[dict[str, tuple[int, ...]]] = {
    "aten.mm.default": (0, 1),
    "aten.bmm.default": (0, 1),
    "aten.matmul.default": (0, 1),
    "aten.linear.default": (0, 1),
    "aten.addmm.default": (1, 2),
    "aten.baddbmm.default": (1, 2),
    "aten.conv1d.default": (0, 1),
    "aten.conv2d.default": (0, 1),
    "aten.scaled_dot_product_attention.default": (0, 1, 2),
}
"""Positions of the factors of products, which stay in bfloat16."""


def in_float32(
    name: str, call: Call, given: Sequence[Any], more: Mapping[str, Any]
) -> tuple[Call, list[Any], dict[str, Any]]:
    """Return the call of an operator and its operands with float32 in the place of halves that it computes with."""
    if name in MOVES or name in control.OPERATORS:
        return call, [*given], {**more}
    factors = PRODUCTS.get(name, ())
    kept = {i for i in factors if isinstance(given[i], Arranged) and given[i].dtype == "bfloat16"}
    kept = kept if len(kept) == len(factors) else set[int]()
    results = tuple(replace(each, dtype=_wide(each.dtype)) for each in call.results)
    wide = [x if i in kept else _widened(x) for i, x in enumerate(given)]
    return replace(call, results=results), wide, {key: _widened(x) for key, x in more.items()}


def numpy_of(tensor: Any) -> Array:
    """Return the elements of a tensor of PyTorch, those of bfloat16 as the runtime holds them."""
    if str(tensor.dtype) != "torch.bfloat16":
        return tensor.contiguous().cpu().numpy()
    torch = importlib.import_module("torch")
    return tensor.contiguous().cpu().view(torch.int16).numpy().view(BFLOAT16)


def _widened(x: Any) -> Any:
    if type(x) in (list, tuple):  # an extent is a tuple with names
        return type(x)(map(_widened, x))
    return cast_to(x, _wide(x.dtype)) if isinstance(x, Arranged) else x


def _wide(dtype: str) -> str:
    return "float32" if dtype in HALVES else dtype
