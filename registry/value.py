"""Value: a typed, named tensor of a block under construction, with Python's operators."""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from prograd_proto import TensorType
from prograd_proto.dtypes import INTEGERS, DTypeName
from prograd_proto.tensor_types import Shape
from registry.indexing import take
from registry.signature import STATE_MARK
from registry.table import OPS

if TYPE_CHECKING:
    from registry.block import Block


class Value:
    """A handle on a tensor that an op, a feed or a state defines; it has a type but no elements yet."""

    __slots__ = ("block", "name", "type")

    def __init__(self, block: Block, name: str, type: TensorType) -> None:
        self.block = block
        self.name = name
        self.type = type

    @property
    def dtype(self) -> DTypeName:
        """The name of the element type."""
        return cast(DTypeName, self.type.dtype)

    @property
    def shape(self) -> Shape:
        """The extents; a string is a symbol that compiling binds."""
        return self.type.shape

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.type.shape)

    def __repr__(self) -> str:
        return f"%{self.name}: {self.type}"

    def __add__(self, other: Operand) -> Value:
        return _call("add", self, other)

    def __radd__(self, other: Operand) -> Value:
        return _call("add", other, self)

    def __sub__(self, other: Operand) -> Value:
        return _call("sub", _signed(self, f"x - {other}", other), other)

    def __rsub__(self, other: Operand) -> Value:
        return _call("sub", other, _signed(self, f"{other} - x", other))

    def __mul__(self, other: Operand) -> Value:
        return _call("mul", self, other)

    def __rmul__(self, other: Operand) -> Value:
        return _call("mul", other, self)

    def __truediv__(self, other: Operand) -> Value:
        return _call("div", self, other)

    def __rtruediv__(self, other: Operand) -> Value:
        return _call("div", other, self)

    def __floordiv__(self, other: Operand) -> Value:
        return _call("floor_div", self, other)

    def __rfloordiv__(self, other: Operand) -> Value:
        return _call("floor_div", other, self)

    def __mod__(self, other: Operand) -> Value:
        return _call("remainder", self, other)

    def __rmod__(self, other: Operand) -> Value:
        return _call("remainder", other, self)

    def __pow__(self, other: Operand) -> Value:
        return _call("pow", self, other) if other != 2 else _call("square", self)

    def __rpow__(self, other: Operand) -> Value:
        return _call("pow", other, self)

    def __matmul__(self, other: Value) -> Value:
        return _call("matmul", self, other)

    def __rmatmul__(self, other: Value) -> Value:
        return _call("matmul", other, self)

    def __neg__(self) -> Value:
        return _call("neg", self)

    def __lt__(self, other: Operand) -> Value:
        return _call("less", self, other)

    def __le__(self, other: Operand) -> Value:
        return _call("less_equal", self, other)

    def __gt__(self, other: Operand) -> Value:
        return _call("greater", self, other)

    def __ge__(self, other: Operand) -> Value:
        return _call("greater_equal", self, other)

    def __and__(self, other: Operand) -> Value:
        return _call(_logic(self, "and"), self, other)

    def __rand__(self, other: Operand) -> Value:
        return _call(_logic(self, "and"), other, self)

    def __or__(self, other: Operand) -> Value:
        return _call(_logic(self, "or"), self, other)

    def __ror__(self, other: Operand) -> Value:
        return _call(_logic(self, "or"), other, self)

    def __xor__(self, other: Operand) -> Value:
        return _call(_logic(self, "xor"), self, other)

    def __rxor__(self, other: Operand) -> Value:
        return _call(_logic(self, "xor"), other, self)

    def __lshift__(self, other: Operand) -> Value:
        return _call("left_shift", self, other)

    def __rlshift__(self, other: Operand) -> Value:
        return _call("left_shift", other, self)

    def __rshift__(self, other: Operand) -> Value:
        return _call("right_shift", self, other)

    def __rrshift__(self, other: Operand) -> Value:
        return _call("right_shift", other, self)

    def __invert__(self) -> Value:
        return _call(_logic(self, "not"), self)

    def __abs__(self) -> Value:
        return _call("abs", self)

    def __getitem__(self, key: Key) -> Value:
        return take(self, key if isinstance(key, tuple) else (key,))

    def __setitem__(self, key: Key, value: object) -> None:
        raise TypeError(
            f"{self!r} is not changed where it is; ops.where chooses elements, ops.scatter puts some elsewhere"
        )

    def __bool__(self) -> bool:
        raise TypeError(f"{self!r} has no value while the program is built; use ops.where to choose by it")

    def __iter__(self) -> Any:
        raise TypeError(f"{self!r} cannot be iterated over; use ops.split")

    def __len__(self) -> int:
        raise TypeError(f"{self!r} has no length; x.shape has its extents, and x.rank says how many there are")

    def __float__(self) -> float:
        raise self._without_elements()

    def __int__(self) -> int:
        raise self._without_elements()

    def __array_ufunc__(self, ufunc: Any, method: str, *operands: Any, **more: Any) -> Any:
        """Return the result of a NumPy call such as np.float32(2) * value; raise TypeError for np.exp(value)."""
        from registry.numpy_calls import called  # imported late: only mistakes and NumPy's numbers need it

        return called(self, ufunc.__name__, method, operands)

    def __array_function__(self, function: Any, *_: Any) -> Any:
        from registry.numpy_calls import refusal

        raise TypeError(refusal(self, function.__name__))

    def __array__(self, *_: Any, **more: Any) -> Any:
        raise self._without_elements()

    def _without_elements(self) -> TypeError:
        from registry.numpy_calls import NO_ELEMENTS

        return TypeError(f"{self!r} {NO_ELEMENTS}; run.predict gives arrays")

    if not TYPE_CHECKING:  # hidden from type checkers, which know the attributes

        def __getattr__(self, name: str) -> Any:
            from registry.numpy_calls import no_attribute

            raise AttributeError(no_attribute(self, name))


Operand = Value | float
"""A tensor, or a Python number that takes the dtype of the other operand."""


class HasElements(Protocol):
    """An array of NumPy or another package."""

    def tolist(self) -> Any:
        """Return the elements as lists."""
        ...


Weights = Value | Sequence[float] | HasElements
"""Weights of a loss: a tensor, or a list or an array of numbers, which becomes a constant."""

Index = int | slice | EllipsisType | None
Key = Index | tuple[Index, ...]
"""An index in x[...]: NumPy's basic indexing."""


def _state_sentinel() -> Value:
    """Return the default, in a signature, of an operand that is the program's state of that name."""
    return cast(Value, STATE_MARK)


STATE: Final = _state_sentinel()


def _call(name: str, *operands: Operand) -> Value:
    return OPS[name](*operands)


def _signed(x: Value, text: str, other: Operand) -> Value:
    """Return the operand of a difference with a number; raise TypeError for uint8, which wraps around below 0."""
    if x.dtype == "uint8" and not isinstance(other, Value):
        raise TypeError(
            f"{text}: {x!r} has no values below 0, which wrap around to 255; "
            'write ops.cast(x, dtype="float32") for x, or call ops.sub if that is meant'
        )
    return x


def _logic(x: Value, word: str) -> str:
    """Return the name of the operator behind &, |, ^ or ~: bitwise for integers, logical otherwise."""
    return f"bitwise_{word}" if x.dtype in INTEGERS else f"logical_{word}"
