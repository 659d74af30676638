"""Rules of result types, by operator.

A rule is `rule(x, w, *, axis) -> TensorType`: from the types of an op's operands and its attributes, as files have
them, to the type of its result, to a tuple of types if there are several, or to a list if the attributes determine how
many. An optional operand may be None. Extents are sizes or symbols. A rule calls `require` to refuse what must not be
computed: NumPy would silently broadcast into a wrong array, and compiled code would write out of bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from prograd_proto.attributes import KIND_OF_ANNOTATION
from prograd_proto.result_types.shapes import broadcast_type, require_dtype
from prograd_proto.tensor_types import TensorType

Types = Callable[..., TensorType | tuple[TensorType, ...] | list[TensorType]]

F = TypeVar("F", bound=Callable[..., Any])

_VARIADIC_FLAG: Final = 0x04  # flag of a code object: the function takes *args


class Parameters(NamedTuple):
    """The parameters of a function of tensors.

    Attributes:
        inputs: names of the operands, which stand before the star.
        attributes: names of the attributes, which stand behind it.
        variadic: True if the last operand stands for any number of them.
        defaults: the default of each parameter that has one.
    """

    inputs: tuple[str, ...]
    attributes: tuple[str, ...]
    variadic: bool
    defaults: Mapping[str, Any]

    @property
    def single(self) -> tuple[str, ...]:
        """The names of the operands that stand for one tensor each."""
        return self.inputs[:-1] if self.variadic else self.inputs


class Rule(NamedTuple):
    """The operands and attributes of an operator, and the types of its results.

    Attributes:
        types: function from the types of operands and from attributes to the types of results; raises OpError.
        inputs: names of the operands.
        attributes: name -> word of `prograd_proto.attributes.KINDS`.
        optional: number of trailing operands that may be absent.
        variadic: True if the last operand stands for any number of them.
        halves: True if the operator accepts and returns 16-bit floats too, because it moves elements without
            arithmetic, or has products of bfloat16.
        version: version of the operator's meaning; a new one needs an upgrade in `prograd_proto.upgrades`.
    """

    types: Types
    inputs: tuple[str, ...]
    attributes: Mapping[str, str]
    optional: int = 0
    variadic: bool = False
    halves: bool = False
    version: int = 1

    def results(self, *inputs: TensorType | None, **attributes: Any) -> tuple[TensorType, ...]:
        """Return the type of each result; raise OpError for what must not be computed."""
        made = self.types(*inputs, **attributes)
        return (made,) if isinstance(made, TensorType) else tuple(made)


RULES: Final[dict[str, Rule]] = {}
"""The rule of every operator of this package, by its name in files."""


def rule(function: F) -> F:
    """Enter a function as the rule of the operator of its name, without the underscore that spares a builtin."""
    return rule_of(function.__name__.removesuffix("_"))(function)


def rule_with_halves(function: F) -> F:
    """Enter a function as `rule` does, for an operator that takes 16-bit floats too."""
    return rule_of(function.__name__.removesuffix("_"), halves=True)(function)


def rule_of(*names: str, halves: bool = False, version: int = 1) -> Callable[[F], F]:
    """Return the decorator that enters a function as the rule of operators of these names; see `Rule`."""

    def entered(function: F) -> F:
        RULES.update(dict.fromkeys(names, read_rule(function)._replace(halves=halves, version=version)))
        return function

    return entered


def read_rule(function: Types) -> Rule:
    """Return a function as a rule; its keyword parameters are attributes, with their kinds as annotations."""
    taken = parameters_of(function)
    kinds = {name: KIND_OF_ANNOTATION[function.__annotations__[name]] for name in taken.attributes}
    optional = len(taken.defaults.keys() - kinds)
    return Rule(function, taken.inputs, kinds, optional, taken.variadic)


def parameters_of(function: Callable[..., Any]) -> Parameters:
    """Return the operands and attributes of a function."""
    code = function.__code__
    names, single, end = code.co_varnames, code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    variadic, last = bool(code.co_flags & _VARIADIC_FLAG), function.__defaults__ or ()
    defaults = dict(zip(names[single - len(last) : single], last, strict=True)) | (function.__kwdefaults__ or {})
    return Parameters(names[:single] + names[end : end + variadic], names[single:end], variadic, defaults)


def of_one(*names: str, among: Collection[str], result: str = "") -> None:
    """Enter the rule of functions of one tensor of these dtypes; `result` is the result's dtype if it differs."""

    @rule_of(*names)
    def one(x: TensorType) -> TensorType:
        require_dtype(x, among)
        return TensorType(result or x.dtype, x.shape)


def of_two(*names: str, among: Collection[str], result: str = "") -> None:
    """Enter the rule of functions of two tensors of equal dtypes that broadcast; `result` as in `of_one`."""

    @rule_of(*names)
    def two(a: TensorType, b: TensorType) -> TensorType:
        y = broadcast_type(a, b, among=among)
        return TensorType(result or y.dtype, y.shape)
