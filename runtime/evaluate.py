"""The value of an op whose operands are constants, by its kernel as in a step: what a compiler folds with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prograd_proto import TensorType, attributes_of
from prograd_proto import program_pb2 as pb
from prograd_proto.dtypes import NUMBERS
from runtime.aligned_memory import aligned_array
from runtime.engines.reference.kernels import KERNELS
from runtime.kernel import Array


def evaluate(op: pb.OpDesc, operands: Sequence[pb.SmallTensor | None]) -> list[pb.SmallTensor]:
    """The outputs of an op, not a random one, for operands in its order, None for an absent one.

    Raises ProgramError if the kernel does not take operands of these types, ExecutionError or ArithmeticError if it
    cannot compute with their elements.
    """
    kernel = KERNELS[op.type]
    attributes = attributes_of(op)
    inputs = [_array(operand) if operand is not None else None for operand in operands]
    made = kernel.rule(*(None if x is None else TensorType(x.dtype.name, x.shape) for x in inputs), **attributes)
    outputs, scratch = ([aligned_array(type) for type in types] for types in made)
    with np.errstate(all="ignore"):
        kernel.bind(inputs, outputs, scratch, attributes, op.random_stream)()
    return [_small_tensor(array) for array in outputs]


def _array(tensor: pb.SmallTensor) -> Array:
    [type], _ = KERNELS["constant"].rule(value=tensor)
    dtype = np.dtype(type.dtype)
    return np.frombuffer(tensor.data, dtype.newbyteorder("<")).astype(dtype, copy=False).reshape(type.static_shape)


def _small_tensor(array: Array) -> pb.SmallTensor:
    data = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
    return pb.SmallTensor(dtype=NUMBERS[array.dtype.name], shape=array.shape, data=data)
