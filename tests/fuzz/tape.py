"""The ops of a block one after the other, each tensor an array of its own: no arena, no plan, nothing in place.

Ops are bound as they are appended, and may be run again with other feeds, or with numbers added to what they make.
Operands are read-only, and what is not yet written is filled with rubbish the first time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from prograd_proto import attributes_of
from prograd_proto import program_pb2 as pb
from runtime.dtypes import array_type, is_float, numpy_dtype
from runtime.engines.reference.kernels import KERNELS

RUBBISH = 0xAA
Change = Callable[[str, np.ndarray], None]
"""A function that modifies a tensor of a given name in place after it was computed."""


class Tape:
    """Facts about a block under construction or a finished one.

    Attributes:
        arrays: every tensor by name.
    """

    def __init__(self, sizes: Mapping[str, int] | None = None) -> None:
        self._sizes = sizes or {}
        self.arrays: dict[str, np.ndarray] = {}
        self._given: dict[str, np.ndarray] = {}
        self._calls: list[tuple[Callable[[], object], list[str]]] = []

    def give(self, name: str, array: np.ndarray) -> None:
        """Set a tensor that no op defines; ops that are there read it when they run again."""
        self._given[name] = array.copy()
        if name in self.arrays:
            self.arrays[name][...] = array
        else:
            self.arrays[name] = array.copy()

    def __len__(self) -> int:
        return len(self._calls)

    def extend(self, ops: list[pb.OpDesc]) -> None:
        """Compute these ops."""
        for op in ops:
            kernel = KERNELS[op.type]
            attributes = {name: self._sized(value) for name, value in attributes_of(op).items()}
            inputs = [self._read(name) if name else None for name in op.inputs]
            types = [None if x is None else array_type(x) for x in inputs]
            made = kernel.contract.rule.results(*types, **attributes), kernel.scratch(types, attributes)
            outputs, scratch = ([_unwritten(type.static_shape, type.dtype) for type in some] for some in made)
            call = kernel.bind(inputs, outputs, scratch, attributes, op.random_stream)
            with np.errstate(all="ignore"):
                call()
            self.arrays.update(zip(op.outputs, outputs, strict=True))
            self._calls.append((call, list(op.outputs)))

    def run(
        self, change: Change | None = None, count: int | None = None, only: Mapping[str, object] | None = None
    ) -> None:
        """Compute the first `count` ops again; `change` is called with each tensor, or each of `only`."""
        for name, array in self._given.items():
            self.arrays[name][...] = array
            if change is not None and (only is None or name in only):
                change(name, self.arrays[name])
        with np.errstate(all="ignore"):
            for call, outputs in self._calls[:count]:
                call()
                if change is not None:
                    for name in outputs:
                        if only is None or name in only:
                            change(name, self.arrays[name])

    def _sized(self, value: Any) -> Any:
        """A shape without symbols."""
        return tuple(self._sizes.get(part, part) for part in value) if isinstance(value, tuple) else value

    def _read(self, name: str) -> np.ndarray:
        view = self.arrays[name].view()
        view.flags.writeable = False
        return view


def _unwritten(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    array = np.empty(shape, numpy_dtype(dtype))
    array.reshape(-1).view(np.uint8).fill(RUBBISH)
    if is_float(array) and array.dtype.kind == "f":
        array.fill(np.nan)
    return array
