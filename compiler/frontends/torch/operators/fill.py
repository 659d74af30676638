"""Filled tensors whose extents are symbols; torch.export's others are constants."""

from __future__ import annotations

from typing import Any, Final

from compiler.frontends.arranged import Arranged, arranged, expanded
from compiler.frontends.torch.operators.call import Call, Mapping
from registry import ops


def filled(call: Call, value: float) -> Arranged:
    """Return a tensor of the result's type, broadcast from one element."""
    number = bool(value) if call.dtype == "bool" else value
    return expanded(arranged(ops.full.on(call.block)(shape=(), value=float(number), dtype=call.dtype)), call.shape)


def _of(value: float) -> Mapping:
    return lambda call, *operands, **more: filled(call, value)


def _full(call: Call, *operands: Any, **more: Any) -> Arranged:
    """Return the last operand in the shape of the result."""
    value = more.get("fill_value", operands[-1])
    return expanded(value, call.shape) if isinstance(value, Arranged) else filled(call, value)


OPERATORS: Final[dict[str, Mapping]] = {
    "aten.full.default": _full,
    "aten.full_like.default": _full,
    "aten.new_full.default": _full,
    **{f"aten.{name}.default": _of(0.0) for name in ("zeros", "zeros_like", "new_zeros")},
    **{f"aten.{name}.default": _of(1.0) for name in ("ones", "ones_like", "new_ones")},
    "aten.empty.memory_format": _of(0.0),
    **{f"aten.{name}.default": _of(0.0) for name in ("empty_like", "new_empty", "empty_permuted")},
    "aten.fill.Scalar": lambda call, x, value: _full(call, None, value),
    "aten.fill.Tensor": lambda call, x, value: _full(call, None, value),
}
