"""Declaration of operators by a function whose signature is the schema.

Positional parameters are inputs: `Value | None = None` is optional, `= STATE` defaults to the program's state of that
name, and `*xs` is variadic. Keyword-only parameters are attributes with their defaults. The body is `...`, because
`prograd_proto.result_types` has the types of the results; that of a plugin's operator infers types, and no values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, Unpack, cast, overload

from prograd_proto import TensorType
from prograd_proto.plugins import namespace_of, plugin_hint
from prograd_proto.spelling import closest
from registry.control.control_op import CONTROL
from registry.errors import OpError
from registry.operator import OPS as OPS
from registry.operator import HasBlock as HasBlock
from registry.operator import Op as Op
from registry.operator import OpFacts as OpFacts
from registry.operator import rule_names as rule_names
from registry.value import Value

P = ParamSpec("P")


class Declare(Protocol):
    """The decorator that `op(...)` returns for operators with one output or a variable number of outputs."""

    @overload
    def __call__(self, declaration: Callable[P, TensorType], /) -> Op[P, Value]: ...
    @overload
    def __call__(self, declaration: Callable[P, list[TensorType]], /) -> Op[P, list[Value]]: ...


_T = TensorType
_V = Value


@overload
def op(declaration: Callable[P, TensorType], /) -> Op[P, Value]: ...
@overload
def op(declaration: Callable[P, list[TensorType]], /) -> Op[P, list[Value]]: ...
@overload
def op(**facts: Unpack[OpFacts]) -> Declare: ...
@overload
def op(y1: str, /, **facts: Unpack[OpFacts]) -> Declare: ...
@overload
def op(
    y1: str, y2: str, /, **facts: Unpack[OpFacts]
) -> Callable[[Callable[P, tuple[_T, _T]]], Op[P, tuple[_V, _V]]]: ...
@overload
def op(
    y1: str, y2: str, y3: str, /, **facts: Unpack[OpFacts]
) -> Callable[[Callable[P, tuple[_T, _T, _T]]], Op[P, tuple[_V, _V, _V]]]: ...
@overload
def op(
    y1: str, y2: str, y3: str, y4: str, /, **facts: Unpack[OpFacts]
) -> Callable[[Callable[P, tuple[_T, _T, _T, _T]]], Op[P, tuple[_V, _V, _V, _V]]]: ...
@overload
def op(
    y1: str, y2: str, y3: str, y4: str, y5: str, /, **facts: Unpack[OpFacts]
) -> Callable[[Callable[P, tuple[_T, _T, _T, _T, _T]]], Op[P, tuple[_V, _V, _V, _V, _V]]]: ...
def op(*args: Any, **facts: Unpack[OpFacts]) -> Any:
    """Declare an operator by a function with its signature and its documentation.

    Args:
        *args: the function, or the names of the outputs; one output is "y" unless named.
        **facts: facts of the operator, as `registry.operator.OpFacts` explains them.
    """
    outputs = args if args and not callable(args[0]) else ("y",)

    def declare(declaration: Callable[..., Any]) -> Op[..., Any]:
        return Op(declaration, outputs, **facts)

    return declare(args[0]) if args and callable(args[0]) else declare


def find_op(name: str) -> Op[..., Any]:
    """Return the operator of that name; raise OpError that names the closest one."""
    if name in CONTROL:
        return cast("Op[..., Any]", CONTROL[name])
    if name not in OPS:
        family = [type for type in OPS if namespace_of(type) == namespace_of(name)]
        raise OpError(f"there is no operator {name!r}{closest(name, family) or plugin_hint([name])}")
    return OPS[name]
