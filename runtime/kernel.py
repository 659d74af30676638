"""Kernels: the function that computes an op, with its own rule of types.

A kernel is `f(x, w, *, axis, out, scratch)`: inputs by position (None is an absent optional one), attributes by
name and without defaults, because the file has them all. `out` is the output array, or a list of them when the
rule gives several; `scratch` is the list of arrays that the rule asked for. A kernel with a parameter
`random_stream` gets the op's stream. It writes into `out` and allocates nothing beyond small change.

A rule is `rule(x, w, *, axis) -> Types`: from input types and attributes to output and scratch types. It refuses
what the kernel cannot compute, by `require`. Its annotated keyword parameters are the kernel's attributes. The
loader applies it to every op of a file before anything is allocated: NumPy would broadcast into a wrong `out`
in silence, a native kernel would write out of bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from prograd_proto import Attribute, ProgramError, TensorType
from prograd_proto.attributes import KIND_OF_ANNOTATION
from prograd_proto.upgrades import declare_version

Array = np.ndarray[Any, np.dtype[Any]]
Rule = Callable[..., "Types"]
FileSide = Literal["", "to", "from"]

BFLOAT16: Final = np.dtype([("bfloat16", np.uint16)])
"""NumPy has no bfloat16; arrays hold its bits, in a dtype that nothing else has and nothing computes with."""

KERNELS: dict[str, Kernel] = {}
"""Every kernel by the name of its operator."""

_VARIADIC_FLAG = 0x04  # of a code object: the function takes *args


class Types(NamedTuple):
    """What a rule gives: the types of the outputs and of the scratch arrays."""

    outputs: tuple[TensorType, ...]
    scratch: tuple[TensorType, ...] = ()


def types(*outputs: TensorType, scratch: Sequence[TensorType] = ()) -> Types:
    """The result of a rule."""
    return Types(outputs, tuple(scratch))


def require(condition: bool, message: str) -> None:
    """Raise ProgramError unless `condition` holds; the loader adds the file, the op and the user's line."""
    if not condition:
        raise ProgramError(message)


@dataclass(frozen=True)
class Kernel:
    """The function of an operator, its rule, and what the rule's signature says."""

    name: str
    function: Callable[..., object]
    rule: Rule
    version: int
    in_place: tuple[tuple[int, int], ...]  # (output, input) pairs that may share memory
    view: bool  # output 0 has the bytes of input 0: where they share memory, there is nothing to compute
    elementwise: bool  # the function is a ufunc: inputs and outputs by position
    halves: bool  # it only moves elements, and takes 16-bit floats too, bfloat16 as uint16
    file: FileSide  # "to" the file beside the arena, where its output lies, or "from" it; "" for all others
    random: bool  # the function takes random_stream
    inputs: tuple[str, ...]
    optional: int  # how many of the last inputs may be absent
    variadic: bool
    attributes: dict[str, str]  # name -> word of prograd_proto.attributes.KINDS

    def bind(
        self,
        inputs: Sequence[Array | None],
        outputs: Sequence[Array],
        scratch: Sequence[Array],
        attributes: dict[str, Attribute],
        random_stream: int,
    ) -> Callable[[], object]:
        """A call without arguments that computes one op; everything it needs is looked up now."""
        if self.elementwise:
            return partial(self.function, *inputs, *outputs)
        more: dict[str, object] = {"scratch": list(scratch)} if scratch else {}
        if self.random:
            more["random_stream"] = random_stream
        if self.halves:
            inputs = [None if array is None else _bits(array) for array in inputs]
            outputs = [_bits(array) for array in outputs]
        out = outputs[0] if len(outputs) == 1 and not self.many_outputs else list(outputs)
        return partial(self.function, *inputs, out=out, **attributes, **more)

    @property
    def many_outputs(self) -> bool:
        """Whether `out` is a list even when the op has one output: variadic outputs."""
        return getattr(self.function, "variadic_outputs", False)


def _bits(array: Array) -> Array:
    return array.view(np.uint16) if array.dtype == BFLOAT16 else array


def kernel(
    rule: Rule,
    *,
    version: int = 1,
    in_place: Sequence[tuple[int, int]] = (),
    view: bool = False,
    halves: bool = False,
    file: FileSide = "",
    variadic_outputs: bool = False,
    namespace: str = "",
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Declare the decorated function as the kernel of the operator of its name.

    Args:
        rule: from input types and attributes to output and scratch types.
        version: of the operator's meaning that this kernel computes.
        in_place: (output, input) pairs that the kernel allows to be the same memory.
        view: output 0 has the bytes of input 0, so they may be the same memory, and the input keeps its value.
        halves: the kernel takes and gives 16-bit floats, which it sees as float16 and, for bfloat16, as uint16.
        file: "to" puts the output into the file beside the arena, "from" reads an operand that lies there.
        variadic_outputs: `out` is a list whatever the number of outputs.
        namespace: of a plugin's kernels, the plugin's name; it stands before a dot in the op type.
    """

    def declare(function: Callable[..., None]) -> Callable[..., None]:
        function.variadic_outputs = variadic_outputs  # pyright: ignore[reportFunctionMemberAccess]: read by many_outputs
        name = function.__name__.removesuffix("_")
        pairs = ((0, 0),) if view else tuple(in_place)
        made = _kernel(name, function, rule, version=version, in_place=pairs, view=view, halves=halves, file=file)
        _register(namespace, made)
        return function

    return declare


def elementwise(
    name: str,
    ufunc: Callable[..., object],
    rule: Rule,
    *,
    in_place: Sequence[tuple[int, int]] = (),
    namespace: str = "",
) -> None:
    """Declare a NumPy ufunc, or a function called like one, as the kernel of operator `name`."""
    _register(namespace, _kernel(name, ufunc, rule, version=1, in_place=tuple(in_place), elementwise=True))


def _register(namespace: str, declared: Kernel) -> None:
    name = f"{namespace}.{declared.name}" if namespace else declared.name
    if name in KERNELS:
        raise ProgramError(f"kernel {name!r} is declared twice")
    if namespace:
        declare_version(name, declared.version)
    KERNELS[name] = replace(declared, name=name)


def _kernel(
    name: str,
    function: Callable[..., object],
    rule: Rule,
    *,
    version: int,
    in_place: tuple[tuple[int, int], ...],
    view: bool = False,
    halves: bool = False,
    file: FileSide = "",
    elementwise: bool = False,
) -> Kernel:
    code = rule.__code__
    names = code.co_varnames
    positional = names[: code.co_argcount]
    keyword = names[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    variadic = bool(code.co_flags & _VARIADIC_FLAG)
    if variadic:
        positional += (names[code.co_argcount + code.co_kwonlyargcount],)
    own = getattr(function, "__code__", None)
    return Kernel(
        name=name,
        function=function,
        rule=rule,
        version=version,
        in_place=in_place,
        view=view,
        elementwise=elementwise,
        halves=halves,
        file=file,
        random=own is not None and "random_stream" in own.co_varnames[: own.co_argcount + own.co_kwonlyargcount],
        inputs=positional,
        optional=len(rule.__defaults__ or ()),
        variadic=variadic,
        attributes={key: KIND_OF_ANNOTATION[rule.__annotations__[key]] for key in keyword},
    )
