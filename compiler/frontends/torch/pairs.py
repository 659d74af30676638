"""Complex tensors as pairs of real ones, and the operators of ATen that take them.

An operator that moves elements, or is linear with real factors, is applied to both parts. Arithmetic has its own rule,
and transforms are in `operators/fourier.py`. Inputs, states and results of a program are real.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from compiler.errors import CompileError
from compiler.frontends.arranged import Arranged, expanded, like, pointwise
from compiler.frontends.elements import cast_to
from compiler.frontends.extents import Extent
from compiler.frontends.torch.constants import Constant
from compiler.frontends.torch.operators.call import Call, Mapping
from registry import Block, ops

PARTS: Final = {"complex64": "float32", "complex128": "float64"}
"""The dtype of the parts, by the dtype of a complex tensor."""


@dataclass(frozen=True, eq=False)
class Pair:
    """A complex tensor.

    Attributes:
        real: its real part.
        imaginary: its imaginary part, of the same shape.
    """

    real: Arranged
    imaginary: Arranged

    @property
    def shape(self) -> tuple[Extent, ...]:
        """The extents."""
        return self.real.shape

    @property
    def rank(self) -> int:
        """The number of axes."""
        return self.real.rank

    @property
    def dtype(self) -> str:
        """The dtype of the parts."""
        return self.real.dtype


def is_complex(x: Any) -> bool:
    """Return True for a complex tensor, constant or number, or a list with one."""
    if isinstance(x, list | tuple):
        return any(map(is_complex, x))
    return isinstance(x, Pair | complex) or (isinstance(x, Constant) and x.dtype in PARTS)


def pair_of(x: Constant, block: Block) -> Pair:
    """Return a complex constant as tensors of the program."""
    parts = [tuple(part(trial.resolve_conj()) for trial in x.trials) for part in (lambda t: t.real, lambda t: t.imag)]
    try:
        real, imaginary = (Constant(trials, x.shape, x.store).tensor(block) for trials in parts)
    except CompileError:
        if x.appended is None:
            raise
        made: Any = x.appended(block)
        return made
    return Pair(real, imaginary)


def complex_result(call: Call, name: str, mapping: Mapping, operands: Sequence[Any], more: dict[str, Any]) -> Any:
    """Return the result of an operator with complex operands; raise CompileError if it takes none."""
    if name in ARITHMETIC:
        return ARITHMETIC[name](call, *operands, **more)
    dtype = PARTS.get(call.dtype, call.dtype)
    parted = replace(call, results=tuple(replace(each, dtype=dtype) for each in call.results))
    if name in PRODUCTS:
        return _product_of_both(parted, name, mapping, operands)
    if name.split(".")[1] not in LINEAR:
        raise CompileError(
            "takes no complex numbers here; write it with torch.view_as_real, or the parts x.real, x.imag"
        )
    if "pad" in name and any(isinstance(x, int | float | complex) and x != 0 for x in (*operands, *more.values())):
        raise CompileError("pads complex numbers with others than 0; pad the parts x.real and x.imag")
    both = [mapping(parted, *(_part(x, i) for x in operands), **more) for i in (0, 1)]
    if isinstance(both[0], tuple | list):
        return tuple(Pair(*each) for each in zip(*both, strict=True))
    return Pair(*both)


def _part(x: Any, number: int) -> Any:
    """Return a part of an operand: the imaginary one of real tensors is 0, and indices and numbers have no parts."""
    if isinstance(x, Pair):
        return x.imaginary if number else x.real
    if isinstance(x, list | tuple):
        return [_part(each, number) for each in x]
    if isinstance(x, complex):
        return x.imag if number else x.real
    if number and isinstance(x, Arranged) and x.dtype.startswith("float"):
        return like(x, ops.full_like(x.value, 0.0))
    return x


def parts_of(x: Any) -> tuple[Any, Any]:
    """Return the parts of an operand, the second None if it is real."""
    if isinstance(x, Pair):
        return x.real, x.imaginary
    return (x.real, x.imag) if isinstance(x, complex) else (x, None)


def _combined(function: Callable[[Any, Any], Any], a: Any, b: Any) -> Pair:
    """Return a bilinear function of two operands, at least one of which is complex."""
    (ar, ai), (br, bi) = parts_of(a), parts_of(b)
    if bi is None:
        return Pair(function(ar, br), function(ai, br))
    if ai is None:
        return Pair(function(ar, br), function(ar, bi))
    return Pair(
        pointwise(ops.sub, function(ar, br), function(ai, bi)), pointwise(ops.add, function(ar, bi), function(ai, br))
    )


def _times(a: Any, b: Any) -> Any:
    return pointwise(ops.mul, *_of_floats(a, b))


def _of_floats(*xs: Any) -> list[Any]:
    """Return tensors in the widest dtype of their floats; numbers stay."""
    floats = {x.dtype for x in xs if isinstance(x, Arranged) and x.dtype.startswith("float")}
    wide = "float64" if "float64" in floats else "float32"
    return [cast_to(x, wide) if isinstance(x, Arranged) else x for x in xs]


def _product(call: Call, a: Any, b: Any) -> Pair:
    return _combined(_times, a, b)


def _quotient(call: Call, a: Any, b: Any, **more: Any) -> Pair:
    br, bi = parts_of(b)
    if bi is None:
        ar, ai = parts_of(a)
        return Pair(*(pointwise(ops.div, *_of_floats(part, br)) for part in (ar, ai)))
    square = pointwise(lambda x, y: x * x + y * y, *_of_floats(br, bi)) if isinstance(b, Pair) else abs(b) ** 2
    made = _combined(_times, a, Pair(br, pointwise(ops.neg, bi)) if isinstance(b, Pair) else b.conjugate())
    return Pair(*(pointwise(ops.div, part, square) for part in (made.real, made.imaginary)))


def _sum_of(function: Callable[..., Any]) -> Mapping:
    def mapped(call: Call, a: Any, b: Any, alpha: float = 1) -> Pair:
        (ar, ai), (br, bi) = parts_of(a), parts_of(b)
        made: list[Any] = []
        for one, other in ((ar, br), (0.0 if ai is None else ai, 0.0 if bi is None else bi)):
            other = other if alpha == 1 else _times(other, alpha) if isinstance(other, Arranged) else other * alpha
            made.append(pointwise(function, *_of_floats(one, other)))
        shape = call.shape
        return Pair(*(part if part.shape == shape else expanded(part, shape) for part in made))

    return mapped


def _absolute(call: Call, x: Pair) -> Arranged:
    """Return the absolute values, whose gradient at 0 is 0."""

    def root(a: Any, b: Any) -> Any:
        square = a * a + b * b
        is_large = square > 0.0
        return ops.where(is_large, ops.sqrt(ops.where(is_large, square, 1.0)), 0.0)

    return pointwise(root, x.real, x.imaginary)


def _exponential(call: Call, x: Pair) -> Pair:
    return Pair(
        pointwise(lambda a, b: ops.exp(a) * ops.cos(b), x.real, x.imaginary),
        pointwise(lambda a, b: ops.exp(a) * ops.sin(b), x.real, x.imaginary),
    )


def _power(call: Call, x: Pair, exponent: Any) -> Pair:
    if exponent not in (1, 2, 3):
        raise CompileError("complex numbers are raised to 2 and 3 only")
    made = x
    for _ in range(int(exponent) - 1):
        made = _combined(_times, made, x)
    return made


def _product_of_both(call: Call, name: str, mapping: Mapping, operands: Sequence[Any]) -> Pair:
    """Return a product of matrices, at least one of which is complex, as products of real matrices."""
    *first, last = operands
    if name != "aten.einsum.default":
        return _combined(lambda a, b: mapping(call, *_of_floats(a, b)), *operands)
    if len(last) != 2:
        raise CompileError(f"einsum of {len(last)} complex tensors is not imported; take two at a time")
    return _combined(lambda a, b: mapping(call, *first, _of_floats(a, b)), *last)


def conjugate(call: Call, x: Any) -> Any:
    """Return the conjugate."""
    return Pair(x.real, pointwise(ops.neg, x.imaginary)) if isinstance(x, Pair) else x


def _choice(call: Call, mask: Arranged, a: Any, b: Any) -> Pair:
    (ar, ai), (br, bi) = parts_of(a), parts_of(b)
    pairs = [(ar, br), (0.0 if ai is None else ai, 0.0 if bi is None else bi)]
    return Pair(*(expanded(pointwise(ops.where, mask, *_of_floats(*each)), call.shape) for each in pairs))


def _cast(call: Call, x: Any, *rest: Any, **more: Any) -> Any:
    dtype = PARTS.get(call.dtype)
    if dtype is None:
        raise CompileError("casts complex numbers to real ones; take x.real")
    return Pair(*(cast_to(_part(x, i), dtype) for i in (0, 1)))


ARITHMETIC: Final[dict[str, Mapping]] = {
    "aten.mul.Tensor": _product,
    "aten.mul.Scalar": _product,
    "aten.div.Tensor": _quotient,
    "aten.add.Tensor": _sum_of(ops.add),
    "aten.add.Scalar": _sum_of(ops.add),
    "aten.sub.Tensor": _sum_of(ops.sub),
    "aten.rsub.Scalar": lambda call, a, b: _sum_of(ops.sub)(call, b, a),
    "aten.square.default": lambda call, x: _power(call, x, 2),
    "aten.pow.Tensor_Scalar": _power,
    "aten.abs.default": _absolute,
    "aten.exp.default": _exponential,
    "aten.where.self": _choice,
    "aten.where.ScalarOther": _choice,
    "aten.where.ScalarSelf": _choice,
    "aten._to_copy.default": _cast,
    "aten.to.dtype": _cast,
    "aten.type_as.default": _cast,
}
"""Operators whose rule for complex operands is another one than for real operands."""

PRODUCTS: Final = {
    "aten.matmul.default", "aten.mm.default", "aten.bmm.default", "aten.mv.default", "aten.dot.default",
    "aten.outer.default", "aten.einsum.default",
}  # fmt: skip
"""Products of matrices."""

LINEAR: Final = {
    "view", "reshape", "_unsafe_view", "_reshape_alias", "view_copy", "flatten", "unflatten", "view_as", "reshape_as",
    "ravel", "permute", "transpose", "t", "numpy_T", "mT", "swapaxes", "movedim", "squeeze", "unsqueeze", "expand",
    "expand_as", "broadcast_to", "slice", "narrow", "select", "split", "unsafe_split", "unsafe_split_with_sizes",
    "split_with_sizes", "chunk", "tensor_split", "unsafe_chunk", "unbind", "cat", "concat", "stack", "roll", "flip",
    "repeat", "repeat_interleave", "tril", "triu", "diagonal", "unfold", "clone", "alias", "contiguous", "detach",
    "detach_", "lift_fresh_copy", "neg", "sum", "mean", "cumsum", "index", "index_select", "gather", "slice_scatter",
    "select_scatter", "diagonal_scatter", "copy", "index_put", "diff", "zeros_like", "new_zeros", "empty_like",
    "pad", "constant_pad_nd",
}  # fmt: skip
"""Names of operators that are applied to both parts."""
