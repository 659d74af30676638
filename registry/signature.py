"""The schema of an operator, read from the signature of the function that declares it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from prograd_proto import Attribute
from prograd_proto import program_pb2 as pb
from prograd_proto.attributes import KIND_OF_ANNOTATION
from prograd_proto.dtypes import ITEM_BYTES
from prograd_proto.result_types import parameters_of
from registry.errors import OpError
from registry.other_names import no_attribute, too_many_tensors
from registry.spellings import SPELLINGS

if TYPE_CHECKING:
    import inspect

_REQUIRED: Final = object()
STATE_MARK: Final = object()
"""The default of a parameter whose operand is the program's state of that name."""

MAX_INT64: Final = 2**63 - 1


@dataclass(frozen=True)
class AttributeSpec:
    """An attribute of an operator, as calls in Python give it.

    Attributes:
        kind: its kind, a word of `prograd_proto.attributes.KINDS`.
        default: its default.
        parameter: its name in Python calls.
        length: elements of the tuple for which one number stands, if there is no default; 0 if one number is refused.
        stored: returns the value that files have for the value of a call, if they differ.
    """

    kind: str
    default: Any
    parameter: str
    length: int = 0
    stored: Callable[[Any], Attribute] | None = None

    @property
    def required(self) -> bool:
        """True if a call must give the attribute."""
        return self.default is _REQUIRED


@dataclass(frozen=True)
class Signature:
    """Inputs, attributes and outputs of an operator, by name and in order."""

    op: str
    inputs: tuple[str, ...]
    defaults: dict[str, Any]  # optional inputs: None or STATE
    numbers: frozenset[str]  # inputs that may be given as Python numbers
    variadic: bool  # the last input takes any number of tensors
    attributes: dict[str, AttributeSpec]
    outputs: tuple[str, ...]
    variadic_outputs: bool  # the one output is a list

    def bind(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Attribute]]:
        """Return a call's operands in order and its attributes with defaults; raise OpError if they do not fit."""
        unknown = [name for name in kwargs if name not in self.parameters and name not in self.inputs]
        if unknown:
            raise OpError(no_attribute(unknown[0], self.parameters))
        operands = self._operands(args, kwargs)
        return operands, {name: self._attribute(spec, kwargs) for name, spec in self.attributes.items()}

    @property
    def parameters(self) -> list[str]:
        """The names of the attributes in Python calls."""
        return [spec.parameter for spec in self.attributes.values()]

    def spelled(self, attributes: dict[str, Attribute]) -> dict[str, Attribute]:
        """Return attributes of a file by their names in Python calls."""
        return {self.attributes[name].parameter: value for name, value in attributes.items()}

    def stored(self, attributes: dict[str, Attribute]) -> dict[str, Attribute]:
        """Return the attributes of a call as files have them."""
        changed = {name: spec.stored for name, spec in self.attributes.items() if spec.stored is not None}
        return attributes | {name: stored(attributes[name]) for name, stored in changed.items()}

    def takes(self, inputs: Sequence[str]) -> bool:
        """Return True if an op may have these operands; "" is an absent one."""
        fixed = len(self.inputs) - self.variadic
        enough = len(inputs) > fixed if self.variadic else len(inputs) == fixed
        return enough and all(
            name or self.defaults.get(self.input_name(i), "") is None for i, name in enumerate(inputs)
        )

    def name_inputs(self, values: Sequence[Any]) -> dict[str, Any]:
        """Return inputs by name; the variadic one is a list."""
        if not self.variadic:
            return dict(zip(self.inputs, values, strict=True))
        fixed = len(self.inputs) - 1
        return dict(zip(self.inputs, [*values[:fixed], list(values[fixed:])], strict=True))

    def name_outputs(self, values: Sequence[Any]) -> dict[str, Any]:
        """Return outputs by name; a variadic one is a list."""
        if self.variadic_outputs:
            return {self.outputs[0]: list(values)}
        return dict(zip(self.outputs, values, strict=True))

    def flat_input_names(self, count: int) -> list[str]:
        """Return a name for each of `count` operands: xs[0], xs[1] ... for a variadic input."""
        if not self.variadic:
            return list(self.inputs)
        fixed = len(self.inputs) - 1
        return [*self.inputs[:fixed], *(f"{self.inputs[-1]}[{i}]" for i in range(count - fixed))]

    def input_name(self, position: int) -> str:
        """Return the name of the input at a position of a call; a variadic input has all further positions."""
        return self.inputs[min(position, len(self.inputs) - 1)]

    def output_suffixes(self, count: int) -> list[str]:
        """Return the suffixes that the outputs of one op add to their common stem."""
        if self.variadic_outputs:
            return [f".{i}" for i in range(count)]
        return [""] if len(self.outputs) == 1 else [f".{name}" for name in self.outputs]

    def _operands(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        fixed = self.inputs[:-1] if self.variadic else self.inputs
        if len(args) > len(fixed) and not self.variadic:
            raise OpError(too_many_tensors(fixed, len(args), self.parameters))
        twice = [name for name in self.inputs[: len(args)] if name in kwargs]
        if twice:
            raise OpError(f"the operand {twice[0]!r} is given twice")
        if self.variadic and self.inputs[-1] in kwargs:
            raise OpError(f"the tensors {self.inputs[-1]!r} are given one by one, not by name")
        operands = list(args)
        for name in fixed[len(args) :]:
            if name not in kwargs and name not in self.defaults:
                raise OpError(f"the operand {name!r} is missing")
            operands.append(kwargs.get(name, self.defaults.get(name)))
        if self.variadic and len(operands) == len(fixed):
            raise OpError(f"needs at least one tensor for {self.inputs[-1]!r}")
        return operands

    def _attribute(self, spec: AttributeSpec, kwargs: dict[str, Any]) -> Attribute:
        if spec.parameter not in kwargs:
            if spec.required:
                raise OpError(f"the attribute {spec.parameter!r} is missing; give it by name, as {spec.parameter}=…")
            return spec.default
        return _converted(spec.parameter, spec, kwargs[spec.parameter])


def read_signature(declaration: Callable[..., Any], outputs: tuple[str, ...]) -> Signature:
    """Return the schema that a function's signature declares; raise OpError if it is invalid."""
    taken, annotations = parameters_of(declaration), declaration.__annotations__
    if not all(isinstance(annotation, str) for annotation in annotations.values()):
        raise OpError(f"{declaration.__name__}: begin its module with `from __future__ import annotations`")
    return Signature(
        op=declaration.__name__,
        inputs=taken.inputs,
        defaults={name: default for name, default in taken.defaults.items() if name in taken.inputs},
        numbers=frozenset(name for name in taken.inputs if "Operand" in str(annotations.get(name))),
        variadic=taken.variadic,
        attributes=dict(
            _attribute(declaration.__name__, name, annotations.get(name), taken.defaults.get(name, _REQUIRED))
            for name in taken.attributes
        ),
        outputs=outputs,
        variadic_outputs=str(annotations.get("return")).startswith("list["),
    )


def python_signature(declaration: Callable[..., Any], outputs: tuple[str, ...]) -> inspect.Signature:
    """Return the signature of a call for users, with named outputs and states as defaults of operands."""
    import inspect

    declared = inspect.signature(declaration)
    parameters = [
        parameter.replace(default=_StandsIn()) if parameter.default is STATE_MARK else parameter
        for parameter in declared.parameters.values()
    ]
    return declared.replace(parameters=parameters, return_annotation=", ".join(outputs))


def without_annotations(signature: inspect.Signature) -> inspect.Signature:
    """Return the signature with names and defaults only."""
    bare = [parameter.replace(annotation=parameter.empty) for parameter in signature.parameters.values()]
    return signature.replace(parameters=bare, return_annotation=signature.empty)


class _StandsIn:
    """The default of an operand that is the program's state of that name."""

    def __repr__(self) -> str:
        return "<the state of that name>"


def _attribute(op: str, name: str, annotation: object, default: Any) -> tuple[str, AttributeSpec]:
    """Return the name of an attribute in files and its description, from the parameter of a signature."""
    spelling = SPELLINGS.get(str(annotation))
    if spelling is None:
        return name, AttributeSpec(_kind(op, name, annotation), default, name)
    spec = AttributeSpec(spelling.kind, default, name, spelling.length, spelling.stored)
    return spelling.attribute or name, spec


def _kind(op: str, name: str, annotation: object) -> str:
    if annotation not in KIND_OF_ANNOTATION:
        raise OpError(
            f"{op}: the attribute {name!r} is annotated {annotation!r}; use one of {list(KIND_OF_ANNOTATION)}"
        )
    return KIND_OF_ANNOTATION[str(annotation)]


def _is_int(value: Any) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    if isinstance(value, bool | str):
        return False
    try:
        float(value)
    except (OverflowError, TypeError, ValueError):  # for 10**400, or an array of two elements
        return False
    return True


_CONVERT: Final[dict[str, tuple[Callable[[Any], bool], Callable[[Any], Any], str]]] = {
    "bool": (lambda v: isinstance(v, bool), bool, "True or False"),
    "int": (_is_int, lambda v: v.__index__(), "a whole number"),
    "float": (_is_number, float, "a number"),
    "string": (lambda v: isinstance(v, str), str, "a string"),
    "dtype": (lambda v: v in ITEM_BYTES, str, f"one of {', '.join(ITEM_BYTES)}"),
    "tensor": (lambda v: isinstance(v, pb.SmallTensor), lambda v: v, "a SmallTensor"),
}

_ELEMENT: Final[dict[str, tuple[Callable[[Any], bool], Callable[[Any], Any], str]]] = {
    "ints": (*_CONVERT["int"][:2], "whole numbers"),
    "floats": (*_CONVERT["float"][:2], "numbers"),
    "strings": (*_CONVERT["string"][:2], "strings"),
    "shape": (
        lambda v: isinstance(v, str) or _is_int(v),
        lambda v: v if isinstance(v, str) else v.__index__(),
        "sizes and symbols",
    ),
}


def _converted(name: str, spec: AttributeSpec, value: Any) -> Attribute:
    kind = spec.kind
    if kind in _CONVERT:
        fits, convert, words = _CONVERT[kind]
        if not fits(value):
            raise OpError(f"{name}={value!r} is not {words}")
        if kind == "int":
            _require_64_bits(name, value, [value])
        return convert(value)
    fits, convert, words = _ELEMENT[kind]
    if fits(value) and not isinstance(value, str):
        value = _as_tuple(spec, value) or value
    if not isinstance(value, tuple | list) or not all(map(fits, value)):  # pyright: ignore[reportUnknownArgumentType]: checked by fits
        raise OpError(f"{name}={value!r} is not a tuple of {words}")
    if kind in ("ints", "shape"):
        _require_64_bits(name, value, value)  # pyright: ignore[reportUnknownArgumentType]: checked by fits
    return tuple(convert(element) for element in value)  # pyright: ignore[reportUnknownVariableType]: checked by fits


def _as_tuple(spec: AttributeSpec, value: Any) -> tuple[Any, ...]:
    """Return the tuple that a single element stands for, as long as the default; () if the length is unknown."""
    if spec.required:
        return (value,) * (1 if spec.kind == "shape" else spec.length)
    return (value,) * (len(spec.default) or 1)


def _require_64_bits(name: str, value: Any, elements: Sequence[Any]) -> None:
    """Raise OpError for a number that no field of a file holds."""
    for element in elements:
        if _is_int(element) and not -MAX_INT64 - 1 <= element.__index__() <= MAX_INT64:
            raise OpError(f"{name}={value!r} has more than 64 bits")
