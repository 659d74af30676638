"""Numbers that an op rejects, such as an index out of range, found by compiled code; and their errors.

Code cannot raise errors. It sets a word, and no later phase begins. Then the reference kernels compute the ops of the
group again in memory of their own, and the one that rejects the number raises the error of the reference engine.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from prograd_proto import TensorType, attributes_of, type_of
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks.control import BLOCKS
from runtime.codegen.code import NativeCode
from runtime.dtypes import Array, array_type
from runtime.memory.aligned import aligned_array


class CheckFailed(Exception):
    """An op rejected a number that it was given.

    Attributes:
        op: the op.
        error: error that its reference kernel raised.
    """

    def __init__(self, op: pb.OpDesc, error: Exception) -> None:
        super().__init__(f"{op.type}: {error}")
        self.op, self.error = op, error


class RuntimeChecks:
    """The words that code sets.

    Attributes:
        words: one that is 0 while no check failed, and one for every group.
    """

    def __init__(self, code: NativeCode, block: pb.BlockDesc, program: pb.ProgramDesc | None) -> None:
        """Keep the code and the block, which determine the ops of a group, and the blocks inside ops."""
        self._code, self._block, self._program = code, block, program
        self.words: Array = np.zeros(1 + code.group_count, np.int64)
        self._error: CheckFailed | None = None

    @property
    def any_failed(self) -> bool:
        """Return True if any check failed."""
        return bool(self.words[0])

    def fail(self, group: int, op: pb.OpDesc, error: Exception) -> None:
        """Let the check of a group fail, because a NumPy kernel raised an error in a block inside its op."""
        self.words[[0, 1 + group]] = 1
        self._error = CheckFailed(op, error)

    def clear(self) -> None:
        """Forget failed checks."""
        self.words[:] = 0
        self._error = None

    def raise_error(self, arrays: Mapping[str, Array]) -> None:
        """Raise CheckFailed for the first group whose check failed; `arrays` are still as it read them."""
        failed, error = np.flatnonzero(self.words[1:]), self._error
        self.clear()
        ops = [self._block.ops[i] for i in self._code.ops_of(int(failed[0]))]
        _compute(ops, arrays, {tensor.name: type_of(tensor) for tensor in self._block.tensors}, self._program)
        if error is not None:
            raise error
        raise AssertionError(f"{'+'.join(op.type for op in ops)} rejects what its reference kernels accept")


def _compute(
    ops: list[pb.OpDesc],
    arrays: Mapping[str, Array],
    types: Mapping[str, TensorType],
    program: pb.ProgramDesc | None,
) -> None:
    from runtime.one_op import call_of
    from runtime.operators import CONTRACTS

    known = dict(arrays)
    for op in ops:
        inputs = [_operand(known, name, types[name]) if name else None for name in op.inputs]
        attributes, read = attributes_of(op), [None if x is None else array_type(x) for x in inputs]
        is_control = op.type in BLOCKS
        results = [types[x] for x in op.outputs] if is_control else CONTRACTS[op.type].rule.results(*read, **attributes)
        outputs = [aligned_array(type) for type in results]
        try:
            if is_control and program is not None:
                from runtime.engines.native.host import control_call_elsewhere

                control_call_elsewhere(op, inputs, outputs, program)()
            else:
                call_of(op.type, attributes, inputs, outputs, random_stream=op.random_stream)()
        except Exception as error:
            raise CheckFailed(op, error) from error
        known.update(zip(op.outputs, outputs, strict=True))


def _operand(known: Mapping[str, Array], name: str, type: TensorType) -> Array:
    """Return an operand; an operand without memory, which another group keeps in registers, is not the rejected one."""
    return np.array(known[name], order="C") if name in known else aligned_array(type)
