"""A box of elements, its source and its destination."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Strided(NamedTuple):
    """Elements of a tensor by an index of several axes.

    Attributes:
        number: number of the operand or result.
        offset: offset of the first element.
        strides: strides in elements, for every axis; negative backwards, 0 for a repeated element.
    """

    number: int
    offset: int
    strides: tuple[int, ...]


class Move(NamedTuple):
    """A box of elements that is copied or filled.

    Attributes:
        extents: extents of the box.
        to: its destination.
        source: its source, or the bits of the number that fills it.
    """

    extents: tuple[int, ...]
    to: Strided
    source: Strided | int

    @property
    def simple(self) -> Move:
        """This box with as few axes as both sides allow, and none of extent 1."""
        source = self.source.strides if isinstance(self.source, Strided) else (0,) * len(self.extents)
        axes: list[tuple[int, int, int]] = []
        for extent, there, here in zip(self.extents, self.to.strides, source, strict=True):
            if extent == 1:
                continue
            if axes:
                outer, far_there, far_here = axes[-1]
                if (far_there, far_here) == (there * extent, here * extent):
                    axes[-1] = outer * extent, there, here
                    continue
            axes.append((extent, there, here))
        extents, there, here = ([axis[i] for axis in axes] for i in range(3))
        to = self.to._replace(strides=tuple(there))
        source = self.source._replace(strides=tuple(here)) if isinstance(self.source, Strided) else self.source
        return Move(tuple(extents), to, source)


class Layout(NamedTuple):
    """The position of a tensor's elements in memory.

    Attributes:
        shape: its extents.
        strides: strides in elements, for every axis.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def runs(self) -> list[tuple[int, int]]:
        """Extents and strides of as few axes as possible, none of extent 1."""
        runs: list[tuple[int, int]] = []
        for extent, step in zip(self.shape, self.strides, strict=True):
            if extent == 1:
                continue
            if runs and runs[-1][1] == step * extent:
                runs[-1] = runs[-1][0] * extent, step
            else:
                runs.append((extent, step))
        return runs

    @property
    def is_plain(self) -> bool:
        """True if the tensor is contiguous in row-major order."""
        return all(step == 1 for _, step in self.runs[:1]) and len(self.runs) < 2

    def reshaped(self, shape: tuple[int, ...]) -> Layout | None:
        """Return the layout of the same elements in another shape; None if they would have to be moved."""
        steps, axis = [0] * len(shape), len(shape) - 1
        for extent, step in reversed(self.runs):
            while extent > 1:
                if extent % shape[axis]:
                    return None
                steps[axis], step, extent = step if shape[axis] > 1 else 0, step * shape[axis], extent // shape[axis]
                axis -= 1
        return Layout(shape, tuple(steps))

    def along(self, domain: tuple[int, ...]) -> tuple[int, ...]:
        """Return the strides along a domain that the tensor broadcasts to: 0 where it has one element."""
        steps = [step if extent != 1 else 0 for extent, step in zip(self.shape, self.strides, strict=True)]
        return (*[0] * (len(domain) - len(steps)), *steps)


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a contiguous tensor in row-major order."""
    steps, size = [0] * len(shape), 1
    for axis in reversed(range(len(shape))):
        steps[axis] = size
        size *= shape[axis]
    return tuple(steps)
