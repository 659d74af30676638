"""Declaration of operators by a function that infers result types.

The Python signature is the schema. Positional parameters are inputs: `Value | None = None` is optional, `= STATE`
defaults to the program's state of that name, and `*xs` is variadic. Keyword-only parameters are attributes with their
defaults. The body *infers types*; it computes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, cast, overload

from prograd_proto import TensorType
from prograd_proto.plugins import namespace_of, plugin_hint
from prograd_proto.spelling import closest
from registry.control.control_op import CONTROL
from registry.errors import OpError
from registry.operator import OPS as OPS
from registry.operator import HasBlock as HasBlock
from registry.operator import Op as Op
from registry.operator import rule_names as rule_names
from registry.value import Value

P = ParamSpec("P")


class Declare(Protocol):
    """The decorator that `op(...)` returns for operators with one output or a variable number of outputs."""

    @overload
    def __call__(self, infer: Callable[P, TensorType], /) -> Op[P, Value]: ...
    @overload
    def __call__(self, infer: Callable[P, list[TensorType]], /) -> Op[P, list[Value]]: ...


_T = TensorType
_V = Value


@overload
def op(infer: Callable[P, TensorType], /) -> Op[P, Value]: ...
@overload
def op(infer: Callable[P, list[TensorType]], /) -> Op[P, list[Value]]: ...
@overload
def op(
    *,
    differentiable: bool = True,
    no_gradient: tuple[str, ...] = (),
    random: bool = False,
    version: int = 1,
    namespace: str = "",
    halves: bool = False,
) -> Declare: ...
@overload
def op(
    y1: str,
    /,
    *,
    differentiable: bool = True,
    no_gradient: tuple[str, ...] = (),
    random: bool = False,
    version: int = 1,
    namespace: str = "",
    halves: bool = False,
) -> Declare: ...
@overload
def op(
    y1: str,
    y2: str,
    /,
    *,
    differentiable: bool = True,
    no_gradient: tuple[str, ...] = (),
    random: bool = False,
    version: int = 1,
    namespace: str = "",
    halves: bool = False,
) -> Callable[[Callable[P, tuple[_T, _T]]], Op[P, tuple[_V, _V]]]: ...
@overload
def op(
    y1: str,
    y2: str,
    y3: str,
    /,
    *,
    differentiable: bool = True,
    no_gradient: tuple[str, ...] = (),
    random: bool = False,
    version: int = 1,
    namespace: str = "",
    halves: bool = False,
) -> Callable[[Callable[P, tuple[_T, _T, _T]]], Op[P, tuple[_V, _V, _V]]]: ...
@overload
def op(
    y1: str,
    y2: str,
    y3: str,
    y4: str,
    /,
    *,
    differentiable: bool = True,
    no_gradient: tuple[str, ...] = (),
    random: bool = False,
    version: int = 1,
    namespace: str = "",
) -> Callable[[Callable[P, tuple[_T, _T, _T, _T]]], Op[P, tuple[_V, _V, _V, _V]]]: ...
@overload
def op(
    y1: str,
    y2: str,
    y3: str,
    y4: str,
    y5: str,
    /,
    *,
    differentiable: bool = True,
    no_gradient: tuple[str, ...] = (),
    random: bool = False,
    version: int = 1,
    namespace: str = "",
) -> Callable[[Callable[P, tuple[_T, _T, _T, _T, _T]]], Op[P, tuple[_V, _V, _V, _V, _V]]]: ...
def op(
    *args: Any,
    differentiable: bool = True,
    no_gradient: tuple[str, ...] = (),
    random: bool = False,
    version: int = 1,
    namespace: str = "",
    halves: bool = False,
) -> Any:
    """Declare an operator from the function that infers its result types.

    Args:
        *args: the inference function, or the names of the outputs; one output is "y" unless named.
        differentiable: False declares that no gradient flows through any input or output.
        no_gradient: inputs and outputs through which no gradient flows.
        random: the op draws random numbers from a stream of its own.
        version: version of the meaning of a plugin's operator; that of others is in `prograd_proto.result_types`.
        namespace: name of the plugin that declares the operator; the op type begins with it and a dot.
        halves: the op of a plugin accepts and returns 16-bit floats too; those of others say so with their rule.
    """
    outputs = args if args and not callable(args[0]) else ("y",)

    def declare(infer: Callable[..., Any]) -> Op[..., Any]:
        return Op(
            infer,
            outputs,
            differentiable=differentiable,
            no_gradient=no_gradient,
            random=random,
            version=version,
            namespace=namespace,
            halves=halves,
        )

    return declare(args[0]) if args and callable(args[0]) else declare


def find_op(name: str) -> Op[..., Any]:
    """Return the operator of that name; raise OpError that names the closest one."""
    if name in CONTROL:
        return cast("Op[..., Any]", CONTROL[name])
    if name not in OPS:
        family = [type for type in OPS if namespace_of(type) == namespace_of(name)]
        raise OpError(f"there is no operator {name!r}{closest(name, family) or plugin_hint([name])}")
    return OPS[name]
