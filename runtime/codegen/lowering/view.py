"""An access: how a tensor lies that is part of another one's memory."""

from __future__ import annotations

from typing import NamedTuple

from numpy.lib.stride_tricks import as_strided

from runtime.codegen.kernels.moves import Layout
from runtime.dtypes import Array


class View(NamedTuple):
    """Where the elements of a tensor are.

    Attributes:
        root: whose memory it is.
        offset: elements of the root before its first one.
        layout: its shape and steps from there on.
    """

    root: str
    offset: int
    layout: Layout

    def of(self, root: Array) -> Array:
        """The elements as an array, given those of the root."""
        shape, steps = self.layout
        part = root.reshape(-1)[self.offset :]
        return as_strided(part, shape, [step * root.itemsize for step in steps])

    def __str__(self) -> str:
        steps = ", ".join(map(str, self.layout.strides))
        return f"{self.root} from {self.offset} by ({steps})"
