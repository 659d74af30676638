"""Host ops in the blocks inside ops: NumPy kernels between two phases of a loop that compiled code runs.

The operands of such an op may lie at other addresses in each iteration, such as those of a row. Compiled code sets the
words with these addresses before the op runs. A kernel is bound once for each combination of addresses.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from prograd_proto import TensorType, type_of
from prograd_proto import program_pb2 as pb
from runtime.codegen.code import InnerHostOp, NativeCode
from runtime.dtypes import Array, numpy_dtype
from runtime.engines.native.host import kernel_call
from runtime.engines.native.runtime_checks import RuntimeChecks
from runtime.errors import ResourceLimit

MAX_BOUND_CALLS: Final = 512
"""Upper bound on the combinations of addresses for which a kernel stays bound."""


def inner_host_calls(
    code: NativeCode, blocks: Sequence[pb.BlockDesc], words: Array, arena: Array, checks: RuntimeChecks
) -> list[Callable[[], None]]:
    """Return the calls of the host ops in blocks inside ops, by number; `words` have the addresses of tensors."""
    return [_InnerHost(host, blocks[host.block], words, arena, checks) for host in code.inner_hosts]


class _InnerHost:
    """The call of one op.

    It raises no error of the op: it fails the runtime check of the op around it, so that no phase follows.
    """

    def __init__(
        self, host: InnerHostOp, block: pb.BlockDesc, words: Array, arena: Array, checks: RuntimeChecks
    ) -> None:
        self._op, self._group = block.ops[host.op], host.group
        self._words, self._arena, self._scratch, self._checks = words, arena, host.scratch, checks
        known = {tensor.name: type_of(tensor) for tensor in block.tensors}
        self._inputs = [known[name] if name else None for name in self._op.inputs]
        self._outputs = [known[name] for name in self._op.outputs]
        self._numbers = np.array([*host.inputs, *host.outputs], np.int64)
        self._bound: dict[bytes, Callable[[], object]] = {}

    def __call__(self) -> None:
        addresses = self._words[self._numbers]
        key = addresses.tobytes()
        try:
            call = self._bound.get(key)
            if call is None:
                if len(self._bound) == MAX_BOUND_CALLS:
                    self._bound.clear()
                call = self._bound[key] = self._bind(addresses.tolist())
            with np.errstate(all="ignore"):
                call()
        except ResourceLimit:
            raise
        except Exception as error:
            self._checks.fail(self._group, self._op, error)

    def _bind(self, addresses: Sequence[int]) -> Callable[[], object]:
        count = len(self._inputs)
        inputs = [
            None if type is None else _array_at(address, type)
            for type, address in zip(self._inputs, addresses[:count], strict=True)
        ]
        outputs = [_array_at(*pair) for pair in zip(addresses[count:], self._outputs, strict=True)]
        return kernel_call(self._op, inputs, outputs, self._scratch, self._arena)


def _array_at(address: int, type: TensorType) -> Array:
    """Return the array at an address; the caller owns its memory."""
    dtype = numpy_dtype(type.dtype)
    if not type.nbytes:
        return np.empty(type.static_shape, dtype)
    buffer = memoryview((ctypes.c_byte * type.nbytes).from_address(address))
    return np.frombuffer(buffer, np.uint8).view(dtype).reshape(type.static_shape)
