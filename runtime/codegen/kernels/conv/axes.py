"""One axis of a convolution as places and taps: forwards, and backwards to the gradient of its input.

Both directions are one kind of loop: at place p, tap t reads the bordered source at `start + p * step + t * apart`.
Backwards with a stride the places fall into phases, each of which sees every so manyth tap: no product with a zero.
"""

from __future__ import annotations

from math import gcd
from typing import NamedTuple


class AxisPhase(NamedTuple):
    """Places that see the same taps.

    Attributes:
        first: where the first place is written; the others follow every `Axis.every`.
        pixels: how many there are.
        taps: how many each sees.
        start: what the first tap of the first place reads.
        filters: the place of the first tap in the filter.
        onward: from there to that of the next tap.
    """

    first: int
    pixels: int
    taps: int
    start: int
    filters: int
    onward: int


class Axis(NamedTuple):
    """An axis of a convolution.

    Attributes:
        source: how long the source is.
        before: zeros in front of it; if negative, so much of it is left out.
        step: from a place to the next, in the source.
        apart: from a tap to the next, in the source.
        every: from a place to the next of its phase, in the result.
        phases: there is one forwards.
    """

    source: int
    before: int
    step: int
    apart: int
    every: int
    phases: tuple[AxisPhase, ...]

    @property
    def pixels(self) -> int:
        """Of the longest phase."""
        return max(phase.pixels for phase in self.phases)

    @property
    def fewest(self) -> int:
        """Places of the shortest phase that has some."""
        return min(phase.pixels for phase in self.phases)

    def span(self, pixels: int) -> int:
        """How much of the bordered source so many places see."""
        return (pixels - 1) * self.step + max(p.start + max(p.taps - 1, 0) * self.apart + 1 for p in self.phases)

    @property
    def is_bordered(self) -> bool:
        """Whether places see something that the source does not have, or not from its start."""
        return self.before != 0 or self.span(self.pixels) > self.source


def forward_axis(source: int, window: int, stride: int, before: int, dilation: int, pixels: int) -> Axis:
    """The axis of a convolution."""
    return Axis(source, before, stride, dilation, 1, (AxisPhase(0, pixels, window, 0, 0, 1),))


def backward_axis(source: int, window: int, stride: int, before: int, dilation: int, pixels: int) -> Axis:
    """The axis of the gradient of its input: the source is the gradient of the result, and places the input's."""
    together = gcd(stride, dilation)
    found = [_phase(p, window, stride, before, dilation, pixels) for p in range(min(stride, pixels))]
    least = min((phase.start for phase in found if phase.taps), default=0)
    phases = tuple(phase._replace(start=phase.start - least if phase.taps else 0) for phase in found)
    return Axis(source, -least, 1, dilation // together, stride, phases)


def _phase(first: int, window: int, stride: int, before: int, dilation: int, pixels: int) -> AxisPhase:
    """The phase of the input from `first` on; taps are those of the filter from its end."""
    count = -(-(pixels - first) // stride)
    taps = [tap for tap in range(window) if (first + before - tap * dilation) % stride == 0]
    if not taps:
        return AxisPhase(first, count, 0, 0, 0, 0)
    last = taps[-1]
    onward = taps[-2] - last if len(taps) > 1 else 0
    return AxisPhase(first, count, len(taps), (first + before - last * dilation) // stride, last, onward)
