"""The judge of derivatives that needs nothing: differences in float64, along a random direction of all inputs at once.

1. With targets t, seeds s, inputs x and gradients g, and a random direction d, the sum of g * d is the derivative of
   the sum of s * t at x + h * d for h at 0. It is taken from the values at four h, with an error of h ** 4, for several
   steps.
2. If none fits, the derivatives from either side are compared, nearer and nearer: where they do not approach each other
   there is a kink, and nothing is said. Nor is it where numbers that are added to the results of all ops in their last
   digits change the answer as much.
3. Seeds and what `stop_gradient` lets through stay what they are.
"""

from __future__ import annotations

import numpy as np

from fuzz.building import Building, Derivative
from fuzz.verdict import Verdict
from prograd_proto.dtypes import REALS

STEPS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-2)
TOLERANCE = 1e-6
FAR = 1e6


def judge(building: Building, rng: np.random.Generator) -> list[Verdict]:
    """A verdict for each derivative; the tape is as it was afterwards."""
    found: list[Verdict] = []
    for derivative in building.derivatives:
        found.append(_judge(building, derivative, rng))
        building.tape.run()
    return found


def _judge(building: Building, derivative: Derivative, rng: np.random.Generator) -> Verdict:
    what = f"step {derivative.step}"
    unfit = _unfit(building, derivative)
    if unfit:
        return Verdict("skipped", "differences", what, unfit)
    line = Line(building, derivative, rng)
    analytic = line.analytic()
    off = np.inf
    for h in STEPS:
        numeric = line.derivative(h)
        scale = max(1.0, abs(analytic), line.scale)
        off = min(off, abs(numeric - analytic) / scale)
        if off <= TOLERANCE:
            return Verdict("agreed", "differences", what)
        if not np.isfinite(numeric):
            return Verdict("skipped", "differences", what, "infinite nearby")
    if line.has_kink():
        return Verdict("skipped", "differences", what, "kink")
    if line.noise() > off / 10:
        return Verdict("skipped", "differences", what, "ill-conditioned")
    return Verdict("differs", "differences", what, f"{analytic!r} is not {numeric!r} along a direction")


def _unfit(building: Building, derivative: Derivative) -> str:
    block = building.program.block
    names = {name for op in block.desc.ops for name in (*op.inputs, *op.outputs) if name}
    names |= {*derivative.targets, *derivative.inputs}
    narrow = {block.types[name].dtype for name in names} & (REALS - {"float64"})
    if narrow:
        return "floats that are not float64"
    known = [*derivative.targets, *(g for g in derivative.results if g is not None)]
    arrays = [building.tape.arrays[name] for name in known]
    if not all(np.all(np.isfinite(array)) for array in arrays):
        return "not finite"
    if max((float(np.max(np.abs(array), initial=0.0)) for array in arrays), default=0.0) > FAR:
        return "large numbers"
    return ""


class Line:
    """The targets along a line through the inputs."""

    def __init__(self, building: Building, derivative: Derivative, rng: np.random.Generator) -> None:
        self.tape, self.of, self.rng = building.tape, derivative, rng
        arrays = self.tape.arrays
        self.base = {name: arrays[name].copy() for name in building.stopped}
        self.direction: dict[str, np.ndarray] = {}
        for name in derivative.inputs:  # an input that is named twice moves once
            self.direction.setdefault(name, np.asarray(rng.normal(size=arrays[name].shape)))
        self.seeds = [None if s is None else arrays[s].copy() for s in derivative.seeds]
        self.at_base = [arrays[t].copy() for t in derivative.targets]
        self.gradients = {
            x: 0.0 if g is None else arrays[g].copy()
            for x, g in zip(derivative.inputs, derivative.results, strict=True)
        }
        self.scale = sum(float(np.sum(np.abs(g * self.direction[x]))) for x, g in self.gradients.items()) * 1e-3

    def analytic(self) -> float:
        return float(sum(np.sum(g * self.direction[x]) for x, g in self.gradients.items()))

    def derivative(self, h: float) -> float:
        far, near, back, far_back = (self.value(k * h) for k in (2, 1, -1, -2))
        return (8 * (near - back) - (far - far_back)) / (12 * h)

    def value(self, h: float) -> float:
        """The change of the sum of the targets times the seeds."""

        def change(name: str, array: np.ndarray) -> None:
            if name in self.base:
                array[...] = self.base[name]
            if name in self.direction:
                array += h * self.direction[name]

        only = {**self.base, **self.direction}
        self.tape.run(change, self.of.before, only)
        return self._sum()

    def has_kink(self) -> bool:
        """Return True if the one-sided derivatives differ, or another step size gives an unrelated result."""
        gaps = []
        for h in (1e-3, 1e-4, 1e-5, 1e-6):
            right, left = self.value(h) / h, -self.value(-h) / h
            gaps.append(abs(right - left) / max(1.0, self.scale))
        return gaps[-1] > 0.05 * max(gaps[0], 1e-2) or gaps[-2] > 0.3 * max(gaps[0], 1e-2)

    def noise(self) -> float:
        """Return the error of the derivative if all results are off in their last digits."""

        def change(name: str, array: np.ndarray) -> None:
            if array.dtype.kind == "f":
                array *= 1 + 1e-14 * self.rng.normal(size=array.shape)

        found = []
        for _ in range(3):
            self.tape.run(change)
            arrays = self.tape.arrays
            grads = zip(self.of.inputs, self.of.results, strict=True)
            found.append(sum(float(np.sum(arrays[g] * self.direction[x])) for x, g in grads if g is not None))
        return max(abs(x - self.analytic()) for x in found)

    def _sum(self) -> float:
        total = 0.0
        for name, base, seed in zip(self.of.targets, self.at_base, self.seeds, strict=True):
            moved = self.tape.arrays[name] - base
            total += float(np.sum(moved if seed is None else moved * seed))
        return total
