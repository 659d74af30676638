"""What compiled code found that an op refuses, such as an index of no row, and the sentence that says so.

Code cannot raise. It writes a word, and no phase begins after that; then the reference kernels compute the group again
in memory of their own, and the one that refuses raises what it raises in the reference engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from prograd_proto import TensorType, attributes_of
from prograd_proto import program_pb2 as pb
from runtime.codegen.emit.code import ADDRESS
from runtime.codegen.lowering.groups import Group
from runtime.dtypes import Array, array_type
from runtime.memory.aligned import aligned_array
from runtime.one_op import call_of
from runtime.operators import CONTRACTS


class CheckFailed(Exception):
    """An op did not take what it was given.

    Attributes:
        op: which.
        error: what its reference kernel raised.
    """

    def __init__(self, op: pb.OpDesc, error: Exception) -> None:
        super().__init__(f"{op.type}: {error}")
        self.op, self.error = op, error


class RuntimeChecks:
    """Words that code writes.

    Attributes:
        words: one that is 0 while nothing was refused, and one for every group.
    """

    def __init__(self, groups: int, types: Mapping[str, TensorType]) -> None:
        """`types` are those of all tensors."""
        self._types = types
        self.words: Array = np.zeros(1 + groups, np.int64)

    def addresses(self, group: int) -> list[int]:
        """What the code of a group is given."""
        return [self.words.ctypes.data, self.words.ctypes.data + ADDRESS * (1 + group)]

    @property
    def any_failed(self) -> bool:
        """Whether anything was refused."""
        return bool(self.words[0])

    def clear(self) -> None:
        """Forget what was refused."""
        self.words[:] = 0

    def raise_error(self, groups: Sequence[Group], arrays: Mapping[str, Array]) -> None:
        """Raise Refused for the first group that refused; `arrays` are still as it read them."""
        refusing = np.flatnonzero(self.words[1:])
        self.clear()
        group = groups[int(refusing[0])]
        _compute(group, arrays, self._types)
        raise AssertionError(f"{group.name} refuses what its reference kernels take")


def _compute(group: Group, arrays: Mapping[str, Array], types: Mapping[str, TensorType]) -> None:
    known = dict(arrays)
    for op in group.ops:
        inputs = [_operand(known, name, types[name]) if name else None for name in op.inputs]
        attributes, given = attributes_of(op), [None if x is None else array_type(x) for x in inputs]
        outputs = [aligned_array(type) for type in CONTRACTS[op.type].outputs(*given, **attributes)]
        try:
            call_of(op.type, attributes, inputs, outputs, random_stream=op.random_stream)()
        except Exception as error:
            raise CheckFailed(op, error) from error
        known.update(zip(op.outputs, outputs, strict=True))


def _operand(known: Mapping[str, Array], name: str, type: TensorType) -> Array:
    """What an op is given; what is nowhere in memory, as another group has it for itself, is not what is refused."""
    return np.array(known[name], order="C") if name in known else aligned_array(type)
