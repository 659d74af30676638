"""The forms of quantised weights: each chooses weights, codes their values, and rewrites the blocks that read them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from compiler.quantization import integers, quantized
from compiler.quantization.block_codes import BITS
from compiler.quantization.products import all_products, layers_of, turned_weights, weights_of
from compiler.quantization.ranges import ranges
from compiler.quantization.weight_names import SCALES
from prograd_proto import TensorType
from prograd_proto import program_pb2 as pb
from prograd_proto.states import INPUT_LEAST, INPUT_MOST
from prograd_proto.tensor_types import shape_of
from registry import Block, OpError

if TYPE_CHECKING:
    from runtime.runs.run import Run

MIN_PERCENTILE: Final = 50
MAX_PERCENTILE: Final = 100


class Calibration(NamedTuple):
    """The run and the rows that ranges come from, and the percentage of numbers within them; see `Program.quantize`."""

    run: Run | None
    rows: str | Mapping[str, Any] | None = None
    percentile: float | None = None

    @property
    def entry(self) -> str:
        """The entry that computes operands: `predict`, or `evaluate`."""
        assert self.run is not None, "asked before"
        return "predict" if "predict" in self.run.entries else "evaluate"


class Form(NamedTuple):
    """A form of weights.

    Attributes:
        chosen: names of the weights that become codes.
        values: function from given values of states to those of the states that stay, and to the numbers of the weights
            one by one.
        codes_of: function from the name of a weight and its numbers to the arrays that stand for it.
        rewrite: lets a block read these arrays, whose types it gets by weight.
        dropped: names of other states that the program has no longer.
    """

    chosen: list[str]
    values: Callable[[Mapping[str, Any] | None], tuple[dict[str, Any], Iterator[tuple[str, Any]]]]
    codes_of: Callable[[str, Any], dict[str, Any]]
    rewrite: Callable[[Block, Mapping[str, Sequence[TensorType]]], None]
    dropped: Sequence[str] = ()


def form_of(
    name: str,
    stored: quantized.Stored,
    blocks: Sequence[pb.BlockDesc],
    keep: Sequence[str],
    calibration: Calibration,
) -> Form:
    """Return the form of a name; raise OpError for an unknown one, and as `chosen_weights` and `weights_of` do."""
    if name != integers.FORM:
        if name not in BITS:
            known = ", ".join(map(repr, BITS))
            raise OpError(f"quantize: weights={name!r} is none of {known}, {integers.FORM!r}")
        chosen = quantized.chosen_weights(stored.states, keep)
        rewrite = partial(quantized.widen_in, form=name)
        values, codes = partial(quantized.values_of, stored, chosen), partial(quantized.codes_of, form=name)
        return Form(chosen, values, codes, rewrite)
    if trained := integers.learned(stored.states):
        return _learned(stored, trained, _computed_turned(trained, blocks), keep, calibration)
    if calibration.run is not None and integers.learned(calibration.run.states.arrays):
        raise OpError("quantize: the run has learned ranges that this program lacks; take Program.load of its file")
    if calibration.run is None:
        raise OpError("quantize: 'int8' needs the ranges of operands over rows; give run=prograd.load(...) and rows")
    percentile = calibration.percentile
    if percentile is not None and not MIN_PERCENTILE < percentile <= MAX_PERCENTILE:
        raise OpError(f"quantize: percentile={percentile} is not above {MIN_PERCENTILE} and at most {MAX_PERCENTILE}")
    read = {name for block in blocks for name in (*all_products(block), *layers_of(block))}
    chosen = weights_of(stored.states, read, keep)
    turned = turned_weights(blocks)
    found = ranges(calibration.run, calibration.entry, chosen, calibration.rows, percentile=percentile)

    def codes_of(weight: str, array: Any) -> dict[str, Any]:
        return integers.codes_of(weight, array, found[weight], is_turned=weight in turned)

    return Form(chosen, partial(quantized.values_of, stored, chosen), codes_of, integers.multiply_in)


def _computed_turned(weights: Sequence[str], blocks: Sequence[pb.BlockDesc]) -> set[str]:
    """Return the weights whose scales some block computes for rows, not for columns: those have a second axis."""
    ranks = {tensor.name: len(shape_of(tensor.shape)) for block in blocks for tensor in block.tensors}
    return {name for name in weights if ranks.get(f"{name}.{SCALES}", 1) > 1}


def _learned(
    stored: quantized.Stored, chosen: list[str], turned: set[str], keep: Sequence[str], calibration: Calibration
) -> Form:
    """Return the form of a program that learned its ranges; raise OpError for arguments that would change them."""
    given = {"rows": calibration.rows, "percentile": calibration.percentile, "keep": keep or None}
    for name, value in given.items():
        if value is not None:
            raise OpError(f"quantize: {name}={value!r} would change what this program was trained with; leave it out")
    read: dict[str, Any] = {}

    def values(given: Mapping[str, Any] | None) -> tuple[dict[str, Any], Iterator[tuple[str, Any]]]:
        stay, numbers = quantized.values_of(stored, chosen, given)
        read.update(stay)
        return stay, numbers

    def codes_of(weight: str, array: Any) -> dict[str, Any]:
        return integers.codes_of(weight, array, integers.learned_range(weight, read), is_turned=weight in turned)

    ends = [f"{name}.{end}" for name in chosen for end in (INPUT_LEAST, INPUT_MOST)]
    return Form(chosen, values, codes_of, integers.store_in, ends)
