"""Attributes of an op: Python values to messages and back.

The Python side knows bool, int, float, str, `DTypeName` (written as a dtype), `Shape` (sizes and symbols), tuples of
int, float or str, and `SmallTensor` messages. The operator's signature determines the kind of an attribute, a word of
`KINDS`.
"""

from typing import Final, TypeAlias

import prograd_proto.program_pb2 as pb
from prograd_proto.dtypes import NAMES, NUMBERS
from prograd_proto.errors import ProgramError
from prograd_proto.tensor_types import Shape, shape_message, shape_of

Attribute: TypeAlias = (
    bool | int | float | str | Shape | tuple[int, ...] | tuple[float, ...] | tuple[str, ...] | pb.SmallTensor
)

KINDS: Final = ("bool", "int", "float", "string", "dtype", "shape", "ints", "floats", "strings", "tensor")


def attribute_message(name: str, kind: str, value: Attribute) -> pb.AttrDesc:
    """Return the message of one attribute; `kind` is one of `KINDS` and fits `value`."""
    desc = pb.AttrDesc(name=name)
    match kind:
        case "dtype":
            desc.dtype_value = NUMBERS[str(value)]
        case "shape":
            desc.shape_value.CopyFrom(shape_message(value))  # pyright: ignore[reportArgumentType]: the kind says so
        case "ints" | "floats" | "strings":
            part = getattr(desc, f"{kind}_value")
            part.SetInParent()
            part.values.extend(value)
        case "tensor":
            desc.tensor_value.CopyFrom(value)  # pyright: ignore[reportArgumentType]: the kind says so
        case _:
            setattr(desc, f"{kind}_value", value)
    return desc


def attribute_kind(desc: pb.AttrDesc) -> str:
    """Return the word of `KINDS` for a message; raise ProgramError if it has no value."""
    field = desc.WhichOneof("value")
    if field is None:
        raise ProgramError(f"the attribute {desc.name!r} has no value")
    return field.removesuffix("_value")


def attribute_value(desc: pb.AttrDesc) -> Attribute:
    """Return the Python value of a message; raise ProgramError if it has none or an unknown dtype."""
    match attribute_kind(desc):
        case "dtype":
            name = NAMES.get(desc.dtype_value)
            if name is None:
                raise ProgramError(f"the attribute {desc.name!r} names an unknown dtype (number {desc.dtype_value})")
            return name
        case "shape":
            return shape_of(desc.shape_value)
        case ("ints" | "floats" | "strings") as kind:
            return tuple(getattr(desc, f"{kind}_value").values)
        case kind:
            return getattr(desc, f"{kind}_value")


def attributes_of(op: pb.OpDesc) -> dict[str, Attribute]:
    """Return all attributes of an op by name, in the order written."""
    return {desc.name: attribute_value(desc) for desc in op.attributes}


KIND_OF_ANNOTATION: Final = {
    "bool": "bool",
    "int": "int",
    "float": "float",
    "str": "string",
    "DTypeName": "dtype",
    "Shape": "shape",
    "tuple[int, ...]": "ints",
    "tuple[float, ...]": "floats",
    "tuple[str, ...]": "strings",
    "pb.SmallTensor": "tensor",
}
"""Attribute kinds by the annotation in an operator's or a kernel's signature."""
