"""Values of a graph that depend on no input's elements, though they may depend on the sizes of inputs.

A shape becomes a reshape's operand through any number of nodes. So each symbol gets trial sizes, and everything that
depends on sizes alone is computed for each. A number that is equal in all trials is a number; one that has a symbol's
size as a factor in each is a multiple of that symbol.

1. The sizes of the first trials are primes: in two of them they rise and fall along the symbols, in the others they are
   small or large, so that each symbol is far above and far below each other one in some trial.
2. In the last two trials all sizes are 1, and all are `LARGEST`. A number that is a step function of sizes, such as n <
   5000 or max(n, 2), has another form there (see certain.py).
3. A trial and those behind it are left out where a node cannot be computed or would make many elements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from compiler.errors import CompileError
from compiler.frontends.arranged import Arranged, arranged, expanded, ordered, viewed
from compiler.frontends.counted import counted, without_repeats
from compiler.frontends.extents import Extent, factored
from compiler.frontends.onnx.dtypes import own_name
from compiler.frontends.onnx.small_floats import FORMATS
from prograd_proto.dtypes import DTypeName
from registry import Block, Value, ops

RISING: Final = (31, 37, 47, 53, 67, 71, 83, 89)
"""Sizes of the symbols in the first trial."""

FALLING: Final = (41, 43, 59, 61, 73, 79, 97, 101)
"""Sizes of the symbols in the second trial, in which the first symbol has the largest."""

SMALL_SIZES: Final = (2, 3, 5, 7, 11, 13, 17, 19)
"""Small size of each symbol."""

LARGE_SIZES: Final = (1031, 1033, 1039, 1049, 1051, 1061, 1063, 1069)
"""Large size of each symbol."""

LARGEST: Final = 1 << 20
"""Size of all symbols in the last trial."""

SURE_TRIALS: Final = 2
"""Number of trials that every constant has; the others may be missing."""

CARRIED: Final[Mapping[str, DTypeName]] = {
    **{name: name for name in ("float32", "float64", "int32", "int64", "uint8", "bool")},  # type: ignore[dict-item]
    **dict.fromkeys(("int2", "uint2", "int4", "uint4", "int8", "int16", "uint16"), "int32"),
    **dict.fromkeys(("uint32", "uint64", "string"), "int64"),
    **dict.fromkeys(("float16", "bfloat16", *FORMATS), "float32"),
}
"""The dtype that computes for each dtype of ONNX; strings are codes."""

MAX_COLUMNS: Final = 8
"""Largest number of columns of a constant that are stated one by one; tuples of indices have as many as axes."""

Store = Callable[[Any], Value]
"""A function that puts an array of NumPy into the program."""


class Symbols:
    """The symbols of an import with their trial sizes."""

    def __init__(self, names: Sequence[str]) -> None:
        if len(names) > len(RISING):
            raise CompileError(
                f"the model has {len(names)} symbols, and {len(RISING)} are supported; bind {names[-1]!r} to a size"
            )
        self.names = tuple(names)
        primes = [RISING, FALLING[: len(names)][::-1], *_alternating(len(names))]
        self.primes = len(primes)
        columns = [*primes, (1,) * len(names), (LARGEST,) * len(names)]
        self.sizes = [dict(zip(names, column, strict=False)) for column in columns]

    @property
    def trials(self) -> int:
        """The number of trials: 1 without symbols."""
        return len(self.sizes) if self.names else 1

    @property
    def ones(self) -> int:
        """The number of the trial in which all sizes are 1."""
        return self.primes

    def extent(self, sizes: Sequence[float]) -> Extent:
        """Return the extent that has these sizes in the trials."""
        numbers = [int(size) if size == size // 1 else 0 for size in sizes]
        if tuple(numbers) != tuple(sizes):
            raise CompileError(
                f"a number depends on the symbols {', '.join(self.names)} and is no whole one; bind them to numbers"
            )
        if len(set(numbers)) == 1:
            return Extent(numbers[0])
        made: list[str] = []
        for symbol in self.names:
            primes = [trial[symbol] for trial in self.sizes[: len(numbers)]]
            while all(n and n % p == 0 for n, p in zip(numbers, primes, strict=True)):
                numbers = [n // p for n, p in zip(numbers, primes, strict=True)]
                made.append(symbol)
        if len(set(numbers)) > 1:
            raise CompileError(
                f"a size is no product of a number and the symbols {', '.join(self.names)}; bind them to numbers"
            )
        return Extent(numbers[0], tuple(sorted(made)))


def _alternating(count: int) -> list[tuple[int, ...]]:
    """Return pairs of trials in which some symbols are small and the others large, and the reverse, for all pairs."""
    made: list[tuple[int, ...]] = []
    for bit in range(max(1, (count - 1).bit_length())):
        for first in (0, 1):
            sizes = zip(SMALL_SIZES, LARGE_SIZES, strict=True)
            made.append(tuple(pair[(i >> bit & 1) ^ first] for i, pair in enumerate(sizes)))
    return made


@dataclass(frozen=True, eq=False)
class Constant:
    """A tensor that depends on sizes at most.

    Attributes:
        trials: its elements in each trial; the last ones may be missing.
        symbols: the symbols of the import.
        store: puts its elements into the program.
        appended: appends ops that compute it, for elements that depend on sizes in a way that is not recognised.
    """

    trials: tuple[Any, ...]
    symbols: Symbols
    store: Store
    appended: Callable[[Block], Arranged] | None = None

    @property
    def shape(self) -> tuple[Extent, ...]:
        """The extents of its axes."""
        return tuple(self.symbols.extent(sizes) for sizes in zip(*(trial.shape for trial in self.trials), strict=True))

    @property
    def rank(self) -> int:
        """The number of axes."""
        return self.trials[0].ndim

    @property
    def dtype(self) -> str:
        """The name of the element type in the model."""
        dtype = self.trials[0].dtype
        return "string" if dtype.kind in "OUS" else own_name(dtype)

    @property
    def is_array(self) -> bool:
        """True if the elements depend on no symbol."""
        return are_equal(self.trials)

    def array(self) -> Any:
        """Return the elements; raise CompileError if they depend on a symbol."""
        if self.is_array:
            return self.trials[0]
        raise CompileError(f"a number depends on the symbols {', '.join(self.symbols.names)}; bind them to numbers")

    def extents(self) -> list[Extent]:
        """Return the elements as extents."""
        flat = [trial.reshape(-1) for trial in self.trials]
        return [self.symbols.extent(column) for column in zip(*flat, strict=True)]

    def tensor(self, block: Block) -> Arranged:
        """Return the constant as a tensor of the program; raise CompileError if no op computes it."""
        if self.appended is None:
            return self._stated(block)
        try:
            return self._stated(block)
        except CompileError:
            return self.appended(block)

    def _stated(self, block: Block) -> Arranged:
        """Return the constant as a tensor, by a pattern of its elements."""
        shape = self.shape
        if any(extent.symbols and extent.number > 1 for extent in shape):
            return viewed(self._split(shape).tensor(block), shape)
        primes = self.trials[: self.symbols.primes]
        cut = [without_repeats(trial) for trial in primes] if self.symbols.names else [self.trials[0]]
        if all(each.shape == cut[0].shape and np.array_equal(each, cut[0]) for each in cut[1:]):
            return expanded(arranged(self.store(carried(cut[0]))), shape)
        if cut[0].ndim == 0 or cut[0].size == 1:
            return self._size(block, cut)
        if (range := counted(block, cut, shape, CARRIED[self.dtype])) is not None:
            return range
        if 1 < cut[0].shape[-1] <= MAX_COLUMNS and not shape[-1].symbols:
            return self._columns(block, shape[-1].number)
        raise CompileError(
            f"a constant depends on the symbols {', '.join(self.symbols.names)} in a way that no program can state; "
            "bind them to numbers"
        )

    def _split(self, shape: Sequence[Extent]) -> Constant:
        """Return the constant with an axis of 2 * batch elements, say, as two axes."""
        factors = [extent for own in factored(shape) for extent in own]
        trials = tuple(
            trial.reshape([extent.bound(sizes) for extent in factors])
            for sizes, trial in zip(self.symbols.sizes, self.trials, strict=False)
        )
        return Constant(trials, self.symbols, self.store)

    def _size(self, block: Block, cut: Sequence[Any]) -> Arranged:
        """Return one number that is an extent."""
        extent = self.symbols.extent([each.reshape(()).item() for each in cut])
        shape = tuple(Extent(1, (symbol,)).plain() for symbol in extent.symbols)
        dtype = CARRIED[self.dtype]
        y = ops.size.on(block)(shape=(extent.number, *shape), dtype=dtype)
        return expanded(arranged(ops.reshape(y, shape=(1,) * self.rank)), self.shape)

    def _columns(self, block: Block, count: int) -> Arranged:
        """Return a constant whose columns along the last axis can be stated one by one, such as pairs of indices."""
        columns = [
            Constant(tuple(trial[..., i : i + 1] for trial in self.trials), self.symbols, self.store).tensor(block)
            for i in range(count)
        ]
        return arranged(ops.concat(*(ordered(each, range(self.rank)) for each in columns), axis=self.rank - 1))


def are_equal(trials: Sequence[Any]) -> bool:
    """Return True if arrays have one shape and equal elements."""
    first = trials[0]
    return all(each is first or (each.shape == first.shape and np.array_equal(each, first)) for each in trials[1:])


def settled(trials: Sequence[Any]) -> tuple[Any, ...]:
    """Return the elements in all trials as one object if they are equal."""
    return (trials[0],) * len(trials) if are_equal(trials) else tuple(trials)


def carried(array: Any) -> Any:
    """Return an array in the dtype that the program has for its dtype; strings stay as they are."""
    if array.dtype.kind in "OUS":
        return array.astype(object)
    if array.dtype.name == "uint64" and array.size and array.max() >= 2**63:
        raise CompileError(
            f"a tensor of uint64 has the element {array.max()}, and int64, which carries them, ends at {2**63 - 1}"
        )
    dtype = CARRIED.get(own_name(array.dtype))
    if dtype is None:
        raise CompileError(f"a tensor has elements of {array.dtype.name}, which prograd has not")
    return np.asarray(array, dtype=dtype).reshape(array.shape)
