"""The oracle for whatever executes blocks: one op after the other, every tensor an array of its own.

No arena, no plan, no in-place, no schedule. What a kernel may not read is filled with rubbish beforehand.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from prograd_proto import TensorType, attributes_of, type_of
from prograd_proto import program_pb2 as pb
from runtime.dtypes import array_type, numpy_dtype
from runtime.engines.reference.kernels import KERNELS

RUBBISH = 0xAA
"""The byte that fills what is not written yet; floats are filled with NaN."""


def interpret(
    block: pb.BlockDesc,
    feeds: Mapping[str, np.ndarray],
    rubbish: int | None = None,
    bodies: Sequence[pb.BlockDesc] = (),
) -> dict[str, np.ndarray]:
    """Every tensor of the block by name, given those that no op defines; `bodies` has the blocks inside ops."""
    types = {tensor.name: type_of(tensor) for tensor in block.tensors}
    arrays = dict(feeds)
    for name, array in arrays.items():
        assert types[name] == array_type(array), name
    for op in block.ops:
        inputs = [arrays[name] if name else None for name in op.inputs]
        outputs = control(op, inputs, rubbish, bodies) if op.blocks else compute(op, inputs, rubbish)
        for name, array in zip(op.outputs, outputs, strict=True):
            assert types[name] == array_type(array), f"{op.type}: {name}"
            arrays[name] = array
    return arrays


def control(
    op: pb.OpDesc, inputs: list[np.ndarray], rubbish: int | None, bodies: Sequence[pb.BlockDesc]
) -> list[np.ndarray]:
    """The outputs of an op that runs blocks."""

    def run(number: int, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
        block = bodies[op.blocks[number]]
        given = {parameter.tensor: arguments[parameter.argument] for parameter in block.parameters}
        found = interpret(block, given, rubbish, bodies)
        return [found[name] for name in block.results]

    attributes = attributes_of(op)
    if op.type == "cond":
        return run(0 if inputs[0] else 1, inputs[1:])
    carries = attributes["carries"]
    state, rows = inputs[:carries], list[list[np.ndarray]]()
    if op.type == "while_loop":
        shared, most = inputs[carries:], attributes["max_trips"]
        while (not most or len(rows) < most) and run(0, [*state, *shared])[0]:
            after = run(1, [*state, *shared])
            state, made = after[:carries], after[carries:]
            rows.append(made)
        return [
            *state,
            np.array(len(rows), np.int64),
            *_stacks(bodies[op.blocks[1]], carries, dict(enumerate(rows)), most),
        ]
    first, count, [length] = int(attributes["counted"]), attributes["rows"], attributes["length"]
    trips = int(inputs[0]) if first else length
    state, read = inputs[first : first + carries], inputs[first + carries : first + carries + count]
    shared, given = inputs[first + carries + count :], dict[int, list[np.ndarray]]()
    for i in reversed(range(trips)) if attributes["reverse"] else range(trips):
        after = run(0, [*state, *(np.array(x[i]) for x in read), *shared])
        state, given[i] = after[:carries], after[carries:]
    return [*state, *_stacks(bodies[op.blocks[0]], carries, given, length)]


def _stacks(
    body: pb.BlockDesc, carries: int, rows: Mapping[int, Sequence[np.ndarray]], length: int
) -> list[np.ndarray]:
    """The rows of each further result, zeros where there was no iteration."""
    types = {tensor.name: type_of(tensor) for tensor in body.tensors}
    stacks = [np.zeros((length, *types[x].static_shape), types[x].dtype) for x in body.results[carries:]]
    for i, row in rows.items():
        for stack, value in zip(stacks, row, strict=True):
            stack[i] = value
    return stacks


def compute(op: pb.OpDesc, inputs: list[np.ndarray | None], rubbish: int | None = None) -> list[np.ndarray]:
    """The outputs of one op."""
    kernel = KERNELS[op.type]
    attributes = attributes_of(op)
    before = [None if x is None else x.tobytes() for x in inputs]
    types = [None if x is None else array_type(x) for x in inputs]
    outputs = [unwritten(type, rubbish) for type in kernel.contract.rule.results(*types, **attributes)]
    scratch = [unwritten(type, rubbish) for type in kernel.scratch(types, attributes)]
    with np.errstate(all="ignore"):
        kernel.bind(inputs, outputs, scratch, attributes, op.random_stream)()
    assert before == [None if x is None else x.tobytes() for x in inputs], f"{op.type} wrote into an input"
    return outputs


def unwritten(type: TensorType, rubbish: int | None = None) -> np.ndarray:
    """An array of rubbish."""
    array = np.empty(type.static_shape, numpy_dtype(type.dtype))
    array.reshape(-1).view(np.uint8).fill(RUBBISH if rubbish is None else rubbish)
    if rubbish is None and array.dtype.kind == "f":
        array.fill(np.nan)
    return array
