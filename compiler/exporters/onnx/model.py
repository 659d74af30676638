"""A model while it is exported: its names, its weights and constants, the sizes of its symbols."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from compiler.errors import CompileError
from compiler.exporters.onnx.tensors import Tensor, identity_order
from compiler.frontends.onnx.dtypes import DTYPES
from prograd_proto import TensorType

MIN_OPSET: Final = 13
"""The oldest opset that is written: before it, Squeeze and ReduceSum take their axes as attributes."""

DEFAULT_OPSET: Final = 21
"""The opset that is written unless another is asked for; ONNX Runtime reads it since 1.18."""


class Model:
    """The state that the graphs of one model share.

    Attributes:
        onnx: the package.
        opset: the version of ONNX's own operators.
        domains: the other domains that nodes use, with their versions.
        arrays: the elements of each initializer, by name.
        orders: the order of axes that the initializer of a state has, by name.
        rearranged: for an initializer made of states, the name of the first.
    """

    def __init__(self, onnx: Any, opset: int, states: Mapping[str, Any], own_names: Mapping[str, str]) -> None:
        self.onnx, self.opset, self.states = onnx, opset, states
        self.domains: dict[str, int] = {}
        self.arrays: dict[str, Any] = {}
        self.orders: dict[str, tuple[int, ...]] = {}
        self.rearranged: dict[str, str] = {}
        self._own_names = own_names
        self._taken: set[str] = set()
        self._constants: dict[tuple[Any, ...], str] = {}

    def names_of_states(self) -> list[str]:
        """Return the names that initializers of states have."""
        return list(self._own_names.values())

    def reserve(self, *names: str) -> None:
        """Keep names for inputs, results and weights."""
        self._taken.update(names)

    def free(self, hint: str) -> str:
        """Return a name that no tensor has, like `hint`."""
        name, number = hint, 1
        while name in self._taken:
            number += 1
            name = f"{hint}_{number}"
        self._taken.add(name)
        return name

    def state(self, state: str, order: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
        """Return the name of the initializer of a state, and its order, which is `order` for the first reader."""
        name = self._own_names[state]
        if name not in self.arrays:
            array = np.transpose(self.states[state], order)
            self.arrays[name] = np.ascontiguousarray(array).reshape(array.shape)  # an array of rank 0 stays one
            self.orders[name] = order
        return name, self.orders[name]

    def whole_state(self, array: Any, origins: tuple[str, ...]) -> Tensor | None:
        """Return the state whose elements these are, in the same order but another shape; None if there is none."""
        if len(origins) != 1 or array.shape == self.states[origins[0]].shape:
            return None
        state = self.states[origins[0]]
        if not _equal(state.reshape(-1), np.ascontiguousarray(array).reshape(-1)):
            return None
        return Tensor(TensorType(state.dtype.name, state.shape), identity_order(state.ndim), array=state,
                      origins=origins, state=origins[0])  # fmt: skip

    def initializer(self, array: Any, origins: tuple[str, ...] = ()) -> str:
        """Return the name of an initializer with these elements.

        If they are those of a state again, the state's own name.
        """
        array = np.asarray(array)
        array = np.ascontiguousarray(array).reshape(array.shape)
        for state in origins:
            whole = identity_order(array.ndim)
            name = self._own_names[state]
            if _equal(self.states[state], array) and self.orders.get(name, whole) == whole:
                return self.state(state, whole)[0]
        digest = hashlib.sha256(array.tobytes()).digest()
        key = (array.dtype.name, array.shape, digest, origins)
        if key not in self._constants:
            own = self._own_names[origins[0]] if origins else "constant"
            name = self._constants[key] = self.free(own)
            self.arrays[name] = array
            if origins:
                self.rearranged[name] = self._own_names[origins[0]]
        return self._constants[key]

    def tensor(self, name: str) -> Any:
        """Return the message of an initializer."""
        array = self.arrays[name]
        tensor = self.onnx.TensorProto(name=name, data_type=DTYPES[array.dtype.name], dims=array.shape)
        tensor.raw_data = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
        return tensor

    def value(self, name: str, dtype: str, shape: tuple[int | str, ...]) -> Any:
        """Return the description of an input or a result."""
        return self.onnx.helper.make_tensor_value_info(name, DTYPES[dtype], list(shape))


def _equal(a: Any, b: Any) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def known_opset(onnx: Any, opset: int | None) -> int:
    """Return the opset to write; raise CompileError for one that cannot be written."""
    newest = onnx.defs.onnx_opset_version()
    if opset is None:
        return min(DEFAULT_OPSET, newest)
    if not MIN_OPSET <= opset <= newest:
        raise CompileError(
            f"to_onnx: opset {opset} cannot be written; opsets {MIN_OPSET} to {newest} can, with this onnx"
        )
    return opset
