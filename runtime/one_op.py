"""Computation of one op by its kernel, for constant folding and initial values."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from prograd_proto import Attribute, TensorType, attributes_of
from prograd_proto import program_pb2 as pb
from prograd_proto.dtypes import NUMBERS
from runtime.constants import constant_array
from runtime.dtypes import Array, array_type
from runtime.engines.reference.kernels import KERNELS
from runtime.memory.aligned import aligned_array, aligned_bytes, view
from runtime.operators import CONTRACTS


def compute(op: pb.OpDesc, operands: Sequence[pb.SmallTensor | None]) -> list[pb.SmallTensor]:
    """Return the outputs of a deterministic op for operands in its order; None stands for an absent operand.

    Raises ProgramError if the kernel does not accept operands of these types, ExecutionError or ArithmeticError if it
    cannot compute with their elements.
    """
    attributes = attributes_of(op)
    inputs = [constant_array(operand) if operand is not None else None for operand in operands]
    types = [None if x is None else array_type(x) for x in inputs]
    outputs = [aligned_array(type) for type in CONTRACTS[op.type].rule.results(*types, **attributes)]
    with np.errstate(all="ignore"):
        call_of(op.type, attributes, inputs, outputs)()
    return [_small_tensor(array) for array in outputs]


def call_of(
    op_type: str,
    attributes: dict[str, Attribute],
    inputs: Sequence[Array | None],
    outputs: Sequence[Array],
    *,
    random_stream: int = 0,
    memory: Callable[[int], Array] = aligned_bytes,
) -> Callable[[], object]:
    """Return a call that computes an op on these arrays; `memory` allocates the aligned bytes for its scratch."""
    scratch = [view(memory(type.nbytes), 0, type) for type in _scratch(op_type, attributes, inputs)]
    return KERNELS[op_type].bind(inputs, outputs, scratch, attributes, random_stream)


def scratch_bytes(op_type: str, attributes: dict[str, Attribute], inputs: Sequence[Array | None]) -> int:
    """Return the bytes that `call_of` allocates."""
    return sum(type.nbytes for type in _scratch(op_type, attributes, inputs))


def _scratch(op_type: str, attributes: dict[str, Attribute], inputs: Sequence[Array | None]) -> tuple[TensorType, ...]:
    return KERNELS[op_type].scratch([None if x is None else array_type(x) for x in inputs], attributes)


def _small_tensor(array: Array) -> pb.SmallTensor:
    data = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
    return pb.SmallTensor(dtype=NUMBERS[array.dtype.name], shape=array.shape, data=data)
