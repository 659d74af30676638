"""One axis of a convolution as output positions and taps: forwards, and backwards to the gradient of its input.

Both directions are one kind of loop: at position p, tap t reads the padded source at `start + p * step + t * apart`.
Backwards with a stride, a position sees every stride-th tap only. Positions with the same taps form a phase, so that
no tap is multiplied by the zeros between strides.
"""

from __future__ import annotations

from math import gcd
from typing import NamedTuple


class AxisPhase(NamedTuple):
    """Positions that see the same taps.

    Attributes:
        first: the first position in the result; the others follow at a distance of `Axis.every`.
        pixels: number of positions.
        taps: number of taps of each.
        start: index in the padded source of the first tap at the first position.
        filters: index of the first tap in the filter.
        onward: distance to the next tap in the filter; negative backwards.
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
        source: extent of the source.
        before: number of zeros before the source; if negative, number of elements that are left out.
        step: distance of successive positions in the source.
        apart: distance of successive taps in the source.
        every: distance of successive positions of a phase in the result.
        phases: the phases; one if forwards.
    """

    source: int
    before: int
    step: int
    apart: int
    every: int
    phases: tuple[AxisPhase, ...]

    @property
    def pixels(self) -> int:
        """Positions of the longest phase."""
        return max(phase.pixels for phase in self.phases)

    @property
    def fewest(self) -> int:
        """Positions of the shortest non-empty phase."""
        return min(phase.pixels for phase in self.phases)

    def span(self, pixels: int) -> int:
        """Return the extent of the padded source that `pixels` positions see."""
        return (pixels - 1) * self.step + max(p.start + max(p.taps - 1, 0) * self.apart + 1 for p in self.phases)

    @property
    def taps_inside(self) -> list[range]:
        """The taps of every position that are inside of the source, if successive taps are next to each other."""
        starts = [
            (phase, phase.start + p * self.step - self.before) for phase in self.phases for p in range(phase.pixels)
        ]
        return [range(max(-start, 0), max(min(self.source - start, phase.taps), 0)) for phase, start in starts]

    @property
    def is_bordered(self) -> bool:
        """True if the source must be padded, or its first elements left out."""
        return self.before != 0 or self.span(self.pixels) > self.source


def forward_axis(source: int, window: int, stride: int, before: int, dilation: int, pixels: int) -> Axis:
    """Return the axis of a convolution."""
    return Axis(source, before, stride, dilation, 1, (AxisPhase(0, pixels, window, 0, 0, 1),))


def backward_axis(source: int, window: int, stride: int, before: int, dilation: int, pixels: int) -> Axis:
    """Return the axis of the gradient of a convolution's input.

    The source is the gradient of the result, and the positions are those of the input.
    """
    together = gcd(stride, dilation)
    found = [_phase(p, window, stride, before, dilation, pixels) for p in range(min(stride, pixels))]
    least = min((phase.start for phase in found if phase.taps), default=0)
    phases = tuple(phase._replace(start=phase.start - least if phase.taps else 0) for phase in found)
    return Axis(source, -least, 1, dilation // together, stride, phases)


def _phase(first: int, window: int, stride: int, before: int, dilation: int, pixels: int) -> AxisPhase:
    """Return the phase of the input that begins at `first`; the taps go through the filter from its end."""
    count = -(-(pixels - first) // stride)
    taps = [tap for tap in range(window) if (first + before - tap * dilation) % stride == 0]
    if not taps:
        return AxisPhase(first, count, 0, 0, 0, 0)
    last = taps[-1]
    onward = taps[-2] - last if len(taps) > 1 else 0
    return AxisPhase(first, count, len(taps), (first + before - last * dilation) // stride, last, onward)
