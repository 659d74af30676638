"""A view: the position of a tensor that is part of another one's memory."""

from __future__ import annotations

from typing import NamedTuple

from numpy.lib.stride_tricks import as_strided

from runtime.codegen.kernels.moves import Layout
from runtime.dtypes import Array


class View(NamedTuple):
    """The position of the elements of a tensor.

    Attributes:
        root: the tensor whose memory it has.
        offset: offset of its first element in the root, in elements.
        layout: its shape and strides.
    """

    root: str
    offset: int
    layout: Layout

    def of(self, root: Array) -> Array:
        """Return the elements as an array, from those of the root."""
        shape, steps = self.layout
        part = root.reshape(-1)[self.offset :]
        return as_strided(part, shape, [step * root.itemsize for step in steps])

    def __str__(self) -> str:
        steps = ", ".join(map(str, self.layout.strides))
        return f"{self.root} from {self.offset} by ({steps})"
