"""Tensors for makers of arguments: of a given shape and kind, existing or new.

A kind is a range of numbers, see kinds.py. A tensor that is there is brought into the range by operators, so that
programs get longer by it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from compiler import CompileError, OpError, Value
from fuzz.building import Building
from fuzz.kinds import ADAPTED, ONLY_NEW, made_array
from fuzz.kinds import INTS as INTS
from fuzz.recipe import Code, Step

T = TypeVar("T")
FLOATS = ("float32", "float64")
HALVES = ("float16", "bfloat16")
INDICES = ("int64", "int32")
LARGEST = 1e3
"""Upper bound on operands: tensors with greater elements or NaN are computed and compared, but no op reads them."""

MOST = 300
"""Elements of an operand."""

WIDE = (5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40, 63, 64, 65, 100)
"""Extents around those that vectors have, for `wide` programs."""


class Refused(Exception):
    """The compiler has refused a call that a maker made."""


@dataclass(frozen=True)
class Ref:
    """A tensor of the program that is built."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)


class Draw:
    """The choices of one program."""

    def __init__(
        self,
        rng: np.random.Generator,
        *,
        dtypes: Sequence[str] = ("float64",),
        zeros: float = 0.0,
        fresh: float = 0.2,
        halves: bool = False,
        wide: bool = False,
    ) -> None:
        self.rng = rng
        self.building = Building(int(rng.integers(100)))
        self.pool: list[Ref] = []
        self.wild: list[Ref] = []
        self.made: set[str] = set()
        self.dtypes = dtypes
        self.halves = halves
        self._wide = wide
        self._most = MOST * 20 if wide else MOST
        self._zeros = zeros
        self._fresh = fresh
        self._count = 0

    # Numbers

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def choice(self, things: Sequence[T]) -> T:
        return things[int(self.rng.integers(len(things)))]

    def int(self, low: int, high: int) -> int:
        """A whole number from low to high, both included."""
        return int(self.rng.integers(low, high + 1))

    def number(self, low: float, high: float) -> float:
        return round(float(self.rng.uniform(low, high)), 3)

    def size(self, low: int = 1, high: int = 4) -> int:
        if self._zeros and self.chance(self._zeros):
            return 0
        if self._wide and self.chance(0.4):
            return self.choice(WIDE)
        return 1 if low <= 1 and self.chance(0.12) else self.int(low, high)

    def shape(self, low: int = 0, high: int = 3) -> tuple[int, ...]:
        return tuple(self.size() for _ in range(self.int(low, high)))

    def floats(self) -> str:
        """A dtype for floats."""
        return self.choice(self.dtypes)

    def axes(self, x: Ref, *, some: bool = True) -> tuple[int, ...]:
        """Axes of x, each once, of either sign."""
        chosen = [axis for axis in range(x.rank) if self.chance(0.5)]
        if not chosen and x.rank and not some:
            chosen = [self.int(0, x.rank - 1)]
        return tuple(axis - x.rank if self.chance(0.3) else axis for axis in self.rng.permutation(chosen).tolist())

    def axis(self, x: Ref) -> int:
        return self.int(-x.rank, x.rank - 1)

    # Tensors

    def any(
        self,
        dtypes: Sequence[str] | None = None,
        kind: str = "normal",
        low: int = 0,
        high: int = 4,
        *,
        filled: bool = False,
    ) -> Ref:
        """A tensor of one of the dtypes, floats unless given, with at least `low` axes; with elements if `filled`."""
        dtypes = self.dtypes if dtypes is None else dtypes
        among = [x for x in self.pool if x.dtype in dtypes and low <= x.rank <= high and (x.size or not filled)]
        if among and not self.chance(self._fresh):
            return self._adapted(self._recent(among), kind)
        shape = self.shape(max(low, 0), max(low, min(high, 3)))
        if filled:
            shape = tuple(extent or 2 for extent in shape)
        return self.tensor(shape, self.choice(list(dtypes)), kind)

    def beside(self, x: Ref, kind: str = "normal", *, into: bool = False) -> Ref:
        """A tensor of x's dtype that broadcasts with x; to x's shape if `into`."""
        among = [y for y in self.pool if y.dtype == x.dtype and _broadcasts(y.shape, x.shape, into, self._most)]
        if among and self.chance(0.6):
            return self._adapted(self._recent(among), kind)
        shape = [1 if self.chance(0.25) else extent for extent in x.shape[self.int(0, x.rank) if x.rank else 0 :]]
        if not into and self.chance(0.15):
            shape = [self.size() if extent == 1 else extent for extent in shape]
        return self.tensor(tuple(shape), x.dtype, kind)

    def tensor(self, shape: Sequence[int], dtype: str | None = None, kind: str = "normal") -> Ref:
        """A tensor of exactly that shape."""
        shape, dtype = tuple(shape), dtype or self.floats()
        if kind.split()[0] in ONLY_NEW:
            return self.fresh(shape, dtype, kind)
        among = [x for x in self.pool if x.dtype == dtype and x.shape == shape]
        if among and not self.chance(self._fresh):
            return self._adapted(self._recent(among), kind)
        others = [x for x in self.pool if x.dtype == dtype and x.size]
        if others and self.chance(0.35 * (1 - self._fresh)):
            return self._adapted(self._reshaped(self._recent(others), shape), kind)
        return self.fresh(shape, dtype, kind)

    def fresh(self, shape: Sequence[int], dtype: str, kind: str = "normal") -> Ref:
        """A new input, or a parameter."""
        shape = tuple(shape)
        if dtype in HALVES:
            return self.one("cast", self.fresh(shape, "float32", kind), dtype=dtype)
        self._count += 1
        if kind == "normal" and dtype in FLOATS and self.chance(0.25):
            name = f"w{self._count}"
            initial = Code(f"normal({self.number(-0.5, 0.5)}, 0.8)")
            self.building.add(Step("parameter", (), {"shape": shape, "initial": initial, "dtype": dtype}, (name,)))
        else:
            name = f"x{self._count}"
            feed = made_array(self.rng, shape, dtype, kind)
            self.building.add(Step("input", (), {"dtype": dtype, "shape": shape}, (name,)), feed)
        return self._note(name)

    def bools(self, shape: Sequence[int]) -> Ref:
        return self.tensor(shape, "bool")

    def below(self, shape: Sequence[int], count: int, dtypes: Sequence[str] = INDICES) -> Ref:
        """Whole numbers from 0 to count - 1."""
        return self.fresh(shape, self.choice(dtypes), f"below {count}")

    def scalar(self, dtype: str, kind: str = "normal") -> Ref:
        return self.tensor((), dtype, kind)

    # Calls

    def one(self, call: str, *operands: Any, **attributes: Any) -> Ref:
        """Call, and give the only or the first result."""
        return self.call(call, *operands, **attributes)[0]

    def call(self, call: str, *operands: Any, **attributes: Any) -> list[Ref]:
        """Append a call of an operator or function; attributes may be tensors where it takes them by name."""
        named = {name: x.name for name, x in attributes.items() if isinstance(x, Ref)}
        rest = {name: x for name, x in attributes.items() if not isinstance(x, Ref)}
        given = tuple(x.name if isinstance(x, Ref) else x for x in operands)
        self._count += 1
        trial = Step(call, given, rest, (f"v{self._count}",), named=named)
        self._try(trial)
        made = self.building.names[trial.outputs[0]]
        if isinstance(made, Value):
            names: tuple[str, ...] = trial.outputs
        else:  # only now it is known how many there are
            names = tuple(f"v{self._count}_{i}" for i in range(len(made)))
            self.building.names.update(zip(names, made, strict=True))
            listed = isinstance(made, list)
            self.building.recipe.steps[-1] = Step(call, given, rest, names, listed, named)
        self.made.add(call)
        return [self._note(name) for name in names]

    def gradients(
        self, targets: Sequence[Ref], inputs: Sequence[Ref], seeds: Sequence[Ref | None] | None = None
    ) -> list[Ref | None]:
        """Append the gradients of the targets."""
        starts = [None] * len(targets) if seeds is None else [None if s is None else s.name for s in seeds]
        operands = (tuple(t.name for t in targets), tuple(x.name for x in inputs), tuple(starts))
        return self._derived("gradients", operands, {}, len(inputs))

    def minimize(self, loss: Ref, parameters: Sequence[Ref], **attributes: Any) -> list[Ref | None]:
        """Append a descent; gives the gradients."""
        return self._derived("minimize", (loss.name, *(w.name for w in parameters)), attributes, len(parameters))

    def program(self, method: str, *operands: Any, **attributes: Any) -> None:
        """Call a method of the program that gives nothing."""
        named = {name: x.name for name, x in attributes.items() if isinstance(x, Ref)}
        rest = {name: x for name, x in attributes.items() if not isinstance(x, Ref)}
        self._try(Step(method, tuple(x.name if isinstance(x, Ref) else x for x in operands), rest, named=named))

    def building_ref(self, name: str) -> Ref:
        """A tensor that the program has by that name."""
        value = self.building.value(name)
        return Ref(name, value.dtype, value.shape)  # type: ignore[arg-type] - no symbols yet

    def _derived(
        self, call: str, operands: tuple[Any, ...], attributes: dict[str, Any], count: int
    ) -> list[Ref | None]:
        self._count += 1
        names = tuple(f"g{self._count}_{i}" for i in range(count))
        step = Step(call, operands, attributes, names, listed=True)
        before = len(self.building.recipe.steps)
        self._try(step)
        results = [self.building.names[name] for name in names]
        kept = tuple(name if value is not None else "" for name, value in zip(names, results, strict=True))
        self.building.recipe.steps[before] = Step(call, operands, attributes, kept, listed=True)
        return [self._note(name) if name else None for name in kept]

    def _try(self, step: Step) -> None:
        try:
            self.building.add(step)
        except (OpError, CompileError) as error:
            raise Refused(f"{step.call}: {error}") from None

    def _note(self, name: str) -> Ref:
        """The tensor, which may be an operand from now on unless its numbers are wild."""
        value, array = self.building.value(name), self.building.array(name)
        ref = Ref(name, value.dtype, value.shape)  # type: ignore[arg-type] - no symbols yet
        bounded = array.dtype.kind != "f" or bool(
            np.all(np.abs(array, where=np.isfinite(array), out=np.full(array.shape, np.inf)) < LARGEST)
        )
        small = array.dtype.kind not in "iu" or bool(np.all(np.abs(array.astype(np.float64)) < 1e6))
        (self.pool if bounded and small and ref.size <= self._most else self.wild).append(ref)
        return ref

    def _recent(self, among: Sequence[Ref]) -> Ref:
        """One of them, later ones more often."""
        return among[-1 - int(len(among) * self.rng.random() ** 1.6)] if self.chance(0.6) else self.choice(among)

    def _reshaped(self, x: Ref, shape: tuple[int, ...]) -> Ref:
        size = math.prod(shape)
        if x.shape == shape:
            return x
        if x.size == size:
            return self.one("reshape", x, shape=shape)
        flat = x if x.rank == 1 else self.one("reshape", x, shape=(x.size,))
        if size <= x.size:
            start = self.int(0, x.size - size)
            part = self.one("slice", flat, axis=(0,), starts=(start,), stops=(start + size,), strides=(1,))
        else:
            part = self.one("tile", flat, counts=(-(-size // x.size),))
            part = self.one("slice", part, axis=(0,), starts=(0,), stops=(size,), strides=(1,))
        return part if shape == (size,) else self.one("reshape", part, shape=shape)

    def _adapted(self, x: Ref, kind: str) -> Ref:
        """The tensor brought into the range of a kind."""
        return ADAPTED[kind](self, x) if kind in ADAPTED else x


def _broadcasts(y: tuple[int, ...], x: tuple[int, ...], into: bool, most: int) -> bool:
    try:
        wide = np.broadcast_shapes(y, x)
    except ValueError:
        return False
    return wide == x if into else math.prod(wide) <= most
