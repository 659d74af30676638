"""Small arrays as constants of a program: lists of numbers, and arrays of NumPy or another package."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from math import prod
from numbers import Real
from typing import Any, Final, cast

from prograd_proto import TensorType
from prograd_proto import program_pb2 as pb
from prograd_proto.dtypes import NUMBERS, REALS
from prograd_proto.elements import pack
from registry.block import Block
from registry.errors import OpError
from registry.value import Value, Weights

MAX_BYTES: Final = 65536
"""Upper bound on the bytes of a constant; larger arrays are states."""


def is_array(value: object) -> bool:
    """Return True for a list, a tuple and anything that gives its elements as lists, as arrays do."""
    return isinstance(value, list | tuple) or (hasattr(value, "tolist") and not isinstance(value, Value))


def constant_of(block: Block, dtype: str, values: object) -> Value:
    """Return a constant with the elements of an array; raise OpError if `dtype` cannot hold them, or for too many."""
    shape, numbers = _elements(values)
    type = TensorType(dtype, shape)
    if type.nbytes > MAX_BYTES:
        raise OpError(
            f"{type} takes {type.nbytes} bytes, a constant has at most {MAX_BYTES}; feed it, or read a state from a "
            "file by from_file"
        )
    for number in numbers:
        if dtype not in REALS and number % 1 != 0:
            raise OpError(f"{number} is not a whole number, as {dtype} needs")
    try:
        data = pack(dtype, numbers if dtype in REALS else [int(number) for number in numbers])
    except (struct.error, OverflowError):
        raise OpError(f"a number of the constant does not fit {dtype}") from None
    tensor = pb.SmallTensor(dtype=NUMBERS[dtype], shape=shape, data=data)
    with block.on_behalf_of(stage=pb.STAGE_FORWARD):
        [value] = block.append("constant", (), [("", type)], [pb.AttrDesc(name="value", tensor_value=tensor)])
    return value


def weights_of(weights: Weights | None, beside: Value) -> Value | None:
    """Return the weights of a loss as a tensor, in the dtype of another one."""
    if weights is None or isinstance(weights, Value):
        return weights
    return constant_of(beside.block.root.active, beside.dtype, weights)


def _elements(values: object) -> tuple[tuple[int, ...], list[float]]:
    """Return the shape of an array and its elements, row-major; raise OpError for anything but numbers."""
    if hasattr(values, "tolist"):
        values = cast(Any, values).tolist()
    if not isinstance(values, list | tuple):
        if not isinstance(values, Real):
            raise OpError(f"{values!r} is no number, and an array of numbers becomes a constant")
        return (), [cast(float, values)]
    parts = [_elements(value) for value in cast(Sequence[object], values)]
    shapes = {shape for shape, _ in parts}
    if len(shapes) > 1:
        raise OpError("the rows of the list differ in length, so it is no array")
    inner = shapes.pop() if shapes else ()
    shape = (len(parts), *inner)
    numbers = [number for _, part in parts for number in part]
    assert len(numbers) == prod(shape), "a number for each position"
    return shape, numbers
