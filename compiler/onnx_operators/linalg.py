"""Products of matrices."""

from __future__ import annotations

from typing import Final

from compiler.exporters.onnx.call import Call, Export, exported
from compiler.frontends.arranged import Arranged, arranged, plain, pointwise, unsqueezed
from compiler.frontends.elements import cast_to
from compiler.frontends.onnx.node import Mapping, Node, is_integer
from compiler.frontends.products import flipped
from compiler.frontends.products import matmul as numpy_matmul
from registry import ops


def matmul(a: Arranged, b: Arranged) -> Arranged:
    """Return NumPy's matmul of tensors of any rank, of integers by way of float64."""
    if not is_integer(a):
        return numpy_matmul(a, b)
    return cast_to(numpy_matmul(cast_to(a, "float64"), cast_to(b, "float64")), a.dtype)


def _gemm(node: Node) -> Arranged:
    a, b = node.tensor(0), node.tensor(1)
    a = flipped(a) if node.attribute("transA", 0) else a
    b = flipped(b) if node.attribute("transB", 0) else b
    y = scaled(matmul(a, b), node.attribute("alpha", 1.0))
    beta = node.attribute("beta", 1.0)
    c = node.optional(2)
    return y if c is None or beta == 0 else pointwise(ops.add, y, scaled(c, beta))


def scaled(x: Arranged, factor: float) -> Arranged:
    """Return a tensor times a number."""
    if factor == 1:
        return x
    if is_integer(x):
        return cast_to(pointwise(lambda v: ops.cast(v, dtype="float64") * factor, x), x.dtype)
    return pointwise(lambda v: v * factor, x)


def integer_product(node: Node) -> Arranged:
    """Return a MatMulInteger, computed in float64."""
    a, b = (cast_to(node.tensor(i), "float64") for i in (0, 1))
    if node.has(2):
        zero = cast_to(node.tensor(2), "float64")
        a = pointwise(ops.sub, a, unsqueezed(zero, 1) if zero.rank == 1 and zero.shape[0] != (1, ()) else zero)
    if node.has(3):
        b = pointwise(ops.sub, b, cast_to(node.tensor(3), "float64"))
    return cast_to(matmul(a, b), "int32")


def _einsum(node: Node) -> Arranged:
    equation = node.attribute("equation", "").replace(" ", "")
    return arranged(ops.einsum(equation, *map(plain, node.tensors())))


def _matrix_order(rank: int, *, transposed: bool) -> tuple[int, ...]:
    return (*range(rank - 2), rank - 1, rank - 2) if transposed else tuple(range(rank))


def _matmul_out(call: Call) -> str:
    """Return a product; an operand that is transposed is taken in another order of axes."""
    flags = call.attributes["transpose_a"], call.attributes["transpose_b"]
    names = [call.ordered(i, _matrix_order(call.tensor(i).rank, transposed=bool(flag))) for i, flag in enumerate(flags)]
    return call.add("MatMul", *names)


def _outer_sum_out(call: Call) -> str:
    a, b = (call.graph.reshaped(call.plain(i), (-1, call.tensor(i).shape[-1])) for i in (0, 1))
    return call.add("MatMul", call.add("Transpose", a, perm=[1, 0]), b)


IMPORTS: Final[dict[str, Mapping]] = {
    "MatMul": lambda node: matmul(node.tensor(0), node.tensor(1)),
    "Gemm": _gemm,
    "Einsum": _einsum,
    "Det": lambda node: arranged(ops.determinant(node.value(0))),
    "com.microsoft.FusedMatMul": _gemm,
    "com.microsoft.TransposeMatMul": _gemm,
}

EXPORTS: Final[dict[str, Export]] = {
    "matmul": _matmul_out,
    "outer_sum": _outer_sum_out,
    "determinant": exported(lambda call, x: call.add("Det", x)),
}
