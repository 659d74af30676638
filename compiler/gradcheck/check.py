"""Numeric against analytic gradients of a program, parameter by parameter.

1. The step of the program is compiled twice: as it is, and with float64 in place of all narrower floats. Both give the
   losses and the gradients that the updates read, and update no parameter.
2. For some elements of each parameter, the loss in float64 is computed a little above and below: the quotient of the
   differences is the numeric gradient. The counted random numbers make the masks of dropout the same each time.
3. Quotients of two distances, extrapolated to 0 (Richardson), are compared with those of nearer ones, and slopes to the
   left with those to the right. Where they disagree, the loss has a kink, and still nearer distances are tried; an
   element that stays undecided is counted as a kink.
4. The numeric gradient judges the analytic one in float64. That one judges the gradient of the program as it is, which
   differs by rounding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final

import numpy as np

from compiler.build.compiled import compile_program
from compiler.gradcheck.feeds import seeded_feeds
from compiler.gradcheck.losses import Checked, trained_parameters
from compiler.gradcheck.wide import ENTRY, in_float64, with_fetches
from prograd_proto import program_pb2 as pb
from prograd_proto.dtypes import NUMBERS
from prograd_proto.files import copy_of
from runtime.runs.run import Run

STEPS: Final = (2e-3, 5e-4, 5e-5, 5e-6)
"""Distances to the left and to the right, relative to the size of the element or 0.1."""

EPSILON: Final = 2.0**-52
"""Relative rounding of a loss in float64."""

SINGLE_ROUNDING: Final = 1e-3
"""Largest relative difference of gradients in float32 from those in float64."""

HALF_ROUNDING: Final = 0.25
"""The same where tensors are rounded to 16 bits; random networks with mixed precision have up to 0.16.

A rounded number may change a decision of `relu` or `max_pool2d`.
"""

HALVES: Final = (NUMBERS["bfloat16"], NUMBERS["float16"])

MAX_FROZEN: Final = 8
"""Number of frozen parameters that a report names."""

ROUNDING_ALONE: Final = 2.0**-40
"""A gradient is rounding alone if it is smaller than this, relative to the largest gradient of all parameters.

The bias of the keys of attention is an example: softmax ignores it, so sums that cancel are left of its gradient.
"""

MAX_ROUNDINGS: Final = 200
"""Roundings of the loss that a quotient may be off by, as a loss is a sum of many terms."""


@dataclass(frozen=True)
class Row:
    """The result for a parameter.

    Attributes:
        name: its name.
        shape: its shape.
        checked: elements that were compared.
        kinks: elements left out, because the loss has a kink within the smallest distance.
        difference: largest difference of numeric and analytic gradient in float64, relative to the largest gradient
            of the parameter; of all parameters, if its own is rounding alone.
        rounding: the same of the gradient of the program as it is and of the one in float64.
        agrees: True if both are within the tolerances.
    """

    name: str
    shape: tuple[int, ...]
    checked: int
    kinks: int
    difference: float
    rounding: float
    agrees: bool

    @property
    def verdict(self) -> str:
        """Either "agrees", "WRONG", or "UNDECIDED" where the loss has a kink at every element that was tried."""
        if not self.agrees:
            return "WRONG"
        return "UNDECIDED" if self.kinks and not self.checked else "agrees"


def gradcheck(
    run: Run,
    *,
    entry: str,
    sizes: Mapping[str, int],
    elements: int = 8,
    tolerance: float = 1e-6,
    rounding: float | None = None,
    seed: int = 0,
    feeds: Mapping[str, Any] | None = None,
    engine: Any = None,
) -> list[Row]:
    """Return a row for each parameter that an entry trains.

    Args:
        run: the program with its states.
        entry: the entry, which trains.
        sizes: sizes of the symbols.
        elements: elements of each parameter that are compared, chosen by the seed.
        tolerance: largest relative difference of numeric and analytic gradients in float64.
        rounding: largest relative difference of the program's own gradients and those in float64; `SINGLE_ROUNDING`
            unless given, or `HALF_ROUNDING` for an entry that rounds to 16 bits.
        seed: seed of the feeds and of the chosen elements.
        feeds: arrays in place of seeded ones.
        engine: the engine that computes the program's own gradients.
    """
    [own] = [each for each in run.program.entries if each.name == entry]
    block = run.program.blocks[own.source_block]
    if rounding is None:
        rounding = HALF_ROUNDING if any(tensor.dtype in HALVES for tensor in block.tensors) else SINGLE_ROUNDING
    checked = trained_parameters(run.program, block)
    given = seeded_feeds(block, sizes, seed, feeds)
    names = list(dict.fromkeys([*(c.loss for c in checked), *(c.gradient for c in checked)]))
    narrow = with_fetches(run.program, entry, names, checked[0].loss)
    exact = _Step(in_float64(narrow), sizes, run, names, "reference")
    losses = _Step(
        in_float64(with_fetches(run.program, entry, names[: len({c.loss for c in checked})], checked[0].loss)),
        sizes, run, names[: len({c.loss for c in checked})], "reference",
    )  # fmt: skip
    itself = _Step(narrow, sizes, run, names, engine)
    analytic, rounded, here = exact(given), itself(given), losses(given)
    rng = np.random.default_rng((seed, 1))
    scales = _scales([analytic[each.gradient] for each in checked])
    return [
        _row(
            each, losses, given, float(here[each.loss]), analytic[each.gradient], rounded[each.gradient], scale,
            elements, tolerance, rounding, rng,
        )
        for each, scale in zip(checked, scales, strict=True)
    ]  # fmt: skip


def _scales(gradients: Sequence[Any]) -> list[float]:
    """Return the sizes that differences of these gradients are relative to."""
    sizes = [float(np.max(np.abs(gradient), initial=0.0)) for gradient in gradients]
    largest = max((size for size in sizes if isfinite(size)), default=0.0)
    return [(size if size > largest * ROUNDING_ALONE else largest) or 1.0 for size in sizes]


class _Step:
    """A compiled step and its run: from feeds to tensors by name."""

    def __init__(
        self, program: pb.ProgramDesc, sizes: Mapping[str, int], run: Run, names: list[str], engine: Any
    ) -> None:
        program = copy_of(program)
        known = {dim.symbol for entry in run.program.entries for b in entry.bindings for dim in b.dims}
        compiled = compile_program(program, {symbol: size for symbol, size in sizes.items() if symbol in known})
        self.run = Run(compiled.desc, engine=engine, threads=1)
        self.names = names
        self.counters = {s.name for s in program.states if s.kind == pb.STATE_KIND_COUNTER}
        self.before = {
            name: np.array(array) for name, array in run.states.arrays.items() if name in self.run.states.arrays
        }

    def __call__(self, feeds: Mapping[str, Any], **changed: Any) -> dict[str, Any]:
        """Return the tensors of a step that begins with the states of the run, but for those that are changed."""
        for name, array in (self.before | changed).items():
            self.run.states.put(name, array)
        types = self.run.entries[ENTRY].feeds
        fed = {name: np.asarray(array, dtype=types[name].dtype) for name, array in feeds.items() if name in types}
        found = self.run.step(fed, entry=ENTRY)
        return {name: np.array(found[f"t{i}"]) for i, name in enumerate(self.names)}


def _row(
    checked: Checked, step: _Step, feeds: Mapping[str, Any], here: float, analytic: Any, rounded: Any, scale: float,
    elements: int, tolerance: float, rounding: float, rng: Any,
) -> Row:  # fmt: skip
    size = analytic.size
    chosen: Any = rng.choice(size, min(elements, size), replace=False) if size else []
    worst, kinks = 0.0, 0
    for place in chosen:
        numeric = _numeric(checked, step, feeds, here, int(place), tolerance * scale)
        if numeric is None:
            kinks += 1
        else:
            worst = max(worst, abs(numeric - float(analytic.reshape(-1)[place])) / scale)
    apart = float(np.max(np.abs(rounded.astype(np.float64) - analytic), initial=0.0)) / scale
    finite = bool(np.all(np.isfinite(analytic)) and np.all(np.isfinite(rounded)))
    agrees = finite and worst <= tolerance and apart <= rounding
    return Row(checked.state, analytic.shape, len(chosen) - kinks, kinks, worst, apart, agrees)


def _numeric(
    checked: Checked, step: _Step, feeds: Mapping[str, Any], here: float, place: int, close: float
) -> float | None:
    """Return the numeric derivative by an element; None if the loss, which is `here` at it, has a kink everywhere."""
    before = step.before[checked.state].astype(np.float64)
    unit = max(abs(float(before.reshape(-1)[place])), 0.1)

    def loss(distance: float) -> float:
        array = before.copy()
        array.reshape(-1)[place] += distance
        return float(step(feeds, **{checked.state: array})[checked.loss])

    last: float | None = None
    for size in STEPS:
        h = size * unit
        right, left, near_right, near_left = (loss(k * h) for k in (1, -1, 0.5, -0.5))
        quotient = (4 * (near_right - near_left) / h - (right - left) / (2 * h)) / 3
        turn = (4 * (near_right - 2 * here + near_left) - (right - 2 * here + left)) / h  # slopes right less left, at 0
        noise = MAX_ROUNDINGS * EPSILON * max(map(abs, (right, left, near_right, near_left))) / h
        is_smooth = abs(turn) <= close + noise
        if is_smooth and last is not None and abs(quotient - last) <= close + noise:
            return last
        last = quotient if is_smooth else None
    return None


def not_checked(program: pb.ProgramDesc, entry: str) -> list[str]:
    """Return sentences about parameters that are not trained."""
    [own] = [each for each in program.entries if each.name == entry]
    read = {p.state for p in program.blocks[own.source_block].parameters}
    frozen = [
        s.name for s in program.states if s.kind == pb.STATE_KIND_PARAMETER and s.name in read and not s.trainable
    ]
    more = f" and {len(frozen) - MAX_FROZEN} others" if len(frozen) > MAX_FROZEN else ""
    return [f"not checked, as they are frozen: {', '.join(frozen[:MAX_FROZEN])}{more}"] if frozen else []
