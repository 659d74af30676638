"""Constants of an exported graph: values that depend on no input, computed by PyTorch while the module is imported.

A mask or a list of positions may depend on the size of a batch. So a constant is computed for several sizes of each
symbol. It is constant if it has equal elements along the axes of symbols, and the same for every size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, cast

from compiler.errors import CompileError
from compiler.frontends.arranged import Arranged, arranged, expanded, viewed
from compiler.frontends.counted import counted, without_repeats
from compiler.frontends.elements import cast_to
from compiler.frontends.extents import Extent, factored
from prograd_proto.dtypes import HALVES, DTypeName
from registry import Block, Value

SURE_TRIALS: Final = 2
"""Number of sizes of each symbol for which every constant is computed: that of the example, and one more."""

OTHER_TRIALS: Final = ((257, 263, 269, 271, 277), (2, 3, 5, 4, 6), (1031, 1033, 1039, 1049, 1051))
"""Further sizes of each symbol, by turns; constants that would have many elements leave them out."""


def trial_sizes(hints: Mapping[str, int], limits: Mapping[str, tuple[int, int]]) -> list[dict[str, int]]:
    """Return the sizes of the symbols in each trial, within their limits; `hints` are the sizes of the examples."""
    if not hints:
        return [{}]

    def within(symbol: str, size: int) -> int:
        least, most = limits.get(symbol, (2, 0))
        return min(max(size, least, 2), most or size)

    sure = [{symbol: hint + k for symbol, hint in hints.items()} for k in range(SURE_TRIALS)]
    others = [{symbol: within(symbol, row[i % len(row)]) for i, symbol in enumerate(hints)} for row in OTHER_TRIALS]
    return sure + others


MINUS_INFINITY: Final = -1e30
"""Additive masks that are at most this exclude an element."""

Store = Callable[[Any], Value]
"""A function that puts an array of NumPy into the program."""


@dataclass(frozen=True, eq=False)
class Constant:
    """A tensor that depends on no input.

    Attributes:
        trials: its elements as PyTorch's tensors, for each trial of the symbols.
        shape: its extents.
        store: puts its elements into the program.
        appended: appends ops that compute it, for elements that depend on sizes in a way that is not recognised.
    """

    trials: tuple[Any, ...]
    shape: tuple[Extent, ...]
    store: Store
    appended: Callable[[Block], Arranged] | None = None

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def dtype(self) -> DTypeName:
        """The name of the element type."""
        return cast(DTypeName, str(self.trials[0].dtype).removeprefix("torch."))

    def tensor(self, block: Block) -> Arranged:
        """Return the constant as a tensor of the program; raise CompileError if no op computes it."""
        try:
            return self._stated(block)
        except CompileError:
            if self.appended is None:
                raise
        return self.appended(block)

    def _stated(self, block: Block) -> Arranged:
        """Return the constant as a tensor, by a pattern of its elements."""
        if any(extent.symbols and extent.number > 1 for extent in self.shape):
            return viewed(self._factored().tensor(block), self.shape)
        arrays = [(trial.float() if self.dtype in HALVES else trial).numpy() for trial in self.trials]
        cut = [without_repeats(array) for array in arrays]
        if all(each.shape == cut[0].shape and bool((each == cut[0]).all()) for each in cut[1:]):
            return expanded(cast_to(arranged(self.store(cut[0])), self.dtype), self.shape)
        if (range := counted(block, cut, self.shape, self.dtype)) is not None:
            return range
        raise CompileError(
            f"a constant {self.dtype}[{', '.join(map(str, self.shape))}] depends on the size of a symbol in a way that "
            "no program can state; import the module without that symbol"
        )

    def mask_kind(self) -> Literal["", "none", "causal"]:
        """Return "none" for a mask of attention that excludes nothing, "causal" for a lower triangle, else ""."""
        if all(bool(self._attended(trial).all()) for trial in self.trials):
            return "none"
        square = all(trial.ndim >= 2 and trial.shape[-1] == trial.shape[-2] for trial in self.trials)
        if square and all(
            bool((self._attended(trial) == self._attended(trial).new_ones(trial.shape).tril()).all())
            for trial in self.trials
        ):
            return "causal"
        return ""

    @property
    def is_negative(self) -> bool:
        """True if an element is."""
        return any(bool((trial < 0).any()) for trial in self.trials)

    def counted_from_front(self, size: Extent) -> Constant:
        """Return indices that may be negative as indices that count from the front."""
        if not self.is_negative:
            return self
        return replace(self, trials=tuple(trial + (trial < 0) * size.known() for trial in self.trials))

    def _factored(self) -> Constant:
        """Return the constant with an axis of 2 * batch elements, say, as two axes."""
        factors = factored(self.shape)

        def cut(trial: Any) -> Any:
            sizes = [
                [size] if len(own) == 1 else [size // own[1].number, own[1].number]
                for size, own in zip(trial.shape, factors, strict=True)
            ]
            return trial.reshape([size for own in sizes for size in own])

        shape = tuple(extent for own in factors for extent in own)
        return replace(self, trials=tuple(map(cut, self.trials)), shape=shape)

    def _attended(self, trial: Any) -> Any:
        """Return True for the elements that a mask lets through; an additive mask has 0 there."""
        if self.dtype == "bool":
            return trial
        if not bool(((trial == 0) | (trial <= MINUS_INFINITY)).all()):
            return trial.new_zeros(()).bool().expand(trial.shape)
        return trial == 0
