"""The oracle for whatever executes blocks: one op after the other, every tensor an array of its own.

No arena, no plan, no in-place, no schedule. What a kernel may not read is filled with rubbish beforehand.
"""

from collections.abc import Mapping

import numpy as np

from prograd_proto import TensorType, attributes_of, type_of
from prograd_proto import program_pb2 as pb
from runtime.engines.reference.kernels import KERNELS

RUBBISH = 0xAA
"""The byte that fills what is not written yet; floats are filled with NaN."""


def interpret(
    block: pb.BlockDesc, feeds: Mapping[str, np.ndarray], rubbish: int | None = None
) -> dict[str, np.ndarray]:
    """Every tensor of the block by name, given those that no op defines."""
    types = {tensor.name: type_of(tensor) for tensor in block.tensors}
    arrays = dict(feeds)
    for name, array in arrays.items():
        assert types[name] == TensorType(array.dtype.name, array.shape), name
    for op in block.ops:
        outputs = compute(op, [arrays[name] if name else None for name in op.inputs], rubbish)
        for name, array in zip(op.outputs, outputs, strict=True):
            assert types[name] == TensorType(array.dtype.name, array.shape), f"{op.type}: {name}"
            arrays[name] = array
    return arrays


def compute(op: pb.OpDesc, inputs: list[np.ndarray | None], rubbish: int | None = None) -> list[np.ndarray]:
    """The outputs of one op."""
    kernel = KERNELS[op.type]
    attributes = attributes_of(op)
    before = [None if x is None else x.tobytes() for x in inputs]
    made = kernel.rule(*(None if x is None else TensorType(x.dtype.name, x.shape) for x in inputs), **attributes)
    outputs = [unwritten(type, rubbish) for type in made.outputs]
    scratch = [unwritten(type, rubbish) for type in made.scratch]
    with np.errstate(all="ignore"):
        kernel.bind(inputs, outputs, scratch, attributes, op.random_stream)()
    assert before == [None if x is None else x.tobytes() for x in inputs], f"{op.type} wrote into an input"
    return outputs


def unwritten(type: TensorType, rubbish: int | None = None) -> np.ndarray:
    """An array of rubbish."""
    array = np.empty(type.static_shape, type.dtype)
    array.reshape(-1).view(np.uint8).fill(RUBBISH if rubbish is None else rubbish)
    if rubbish is None and array.dtype.kind == "f":
        array.fill(np.nan)
    return array
