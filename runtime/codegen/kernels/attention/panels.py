"""Keys or values transposed once for all queries that read them, in panels as wide as a tile."""

from __future__ import annotations

from runtime.codegen.ir import Value
from runtime.codegen.kernels.attention.heads import Heads
from runtime.codegen.kernels.matmul import Matrix
from runtime.codegen.kernels.matmul.packing import packed_right
from runtime.codegen.kernels.steps import KernelContext


def panels_of(heads: Heads, depth: int) -> int:
    """Return the number of elements of the panels of keys with `depth` elements each."""
    return -(-heads.keys // heads.panel) * heads.panel * depth


def write_panels(
    context: KernelContext, heads: Heads, source: Matrix, depth: int, to: Value, keys: int | None = None
) -> None:
    """Transpose keys of a head, with `depth` elements each, into panels: all, or the first `keys`."""
    vector, count = heads.element.of(heads.lanes), heads.keys if keys is None else keys
    packed_right(context.f, Matrix(source.at, 1, source.row), to, depth, count, heads.panel, depth, vector)
