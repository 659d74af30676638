"""One column: how its values become numbers, and numbers become values again.

Values are NumPy arrays of numbers in which NaN is missing, or arrays of texts in which "" is.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, Final, Literal, cast

import numpy as np

from prograd_proto.spelling import closest
from runtime.dtypes import Array
from runtime.errors import DataError

Kind = Literal["number", "whole", "class", "text"]
KINDS: Final = ("number", "whole", "class", "text")
MISSING: Final = frozenset({"", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"})
"""Texts that stand for no value."""


@dataclass(frozen=True)
class Column:
    """What a column of a table became.

    Attributes:
        name: of it, in the table and in the packed file.
        kind: "number" is float32, "whole" int64, "class" the int64 place among `values`, "text" int64 [rows, length].
        values: of a class, in order; of a text the words, from number 2 on, or none where bytes are counted from 1.
        fill: what stands for a missing value: a number, or one of the values, which then also stands for unseen ones.
        mean, deviation: of the training rows, if numbers were made to have mean 0 and deviation 1.
        length: of a text: what is longer is cut off, what is shorter filled up with 0.
    """

    name: str
    kind: Kind
    values: tuple[str, ...] = ()
    fill: float | str | None = None
    mean: float | None = None
    deviation: float | None = None
    length: int = 0

    def to_json(self) -> dict[str, Any]:
        """The fields that say something."""
        return {name: value for name, value in asdict(self).items() if value not in ((), None, 0)}

    @classmethod
    def from_json(cls, values: object) -> Column:
        """What `to_json` gave. Raises ValueError for anything else."""
        if not isinstance(values, dict):
            raise ValueError("a column is no object")
        given = dict(cast(dict[str, Any], values))
        words = given.get("values", [])
        known = {field.name for field in fields(cls)}
        sane = (
            given.keys() <= known
            and isinstance(given.get("name"), str)
            and given.get("kind") in KINDS
            and isinstance(words, list)
            and all(isinstance(word, str) for word in cast(list[object], words))
            and isinstance(given.get("fill", 0.0), int | float | str)
            and all(isinstance(given.get(name, 1.0), int | float) for name in ("mean", "deviation"))
            and type(given.get("length", 0)) is int
            and 0 <= given.get("length", 0) < 1 << 31
        )
        if not sane:
            raise ValueError("a column is not as it was written")
        given["values"] = tuple(cast(list[str], words))
        return cls(**given)

    def encode(self, raw: Array) -> Array:
        """The numbers of values. Raises DataError, which names the row, for a value that has none."""
        match self.kind:
            case "class":
                return self._classes(texts_of(raw))
            case "text":
                return self._tokens(texts_of(raw))
            case "whole":
                return self._whole(self._filled(raw))
            case _:
                numbers = self._filled(raw)
                if self.mean is not None and self.deviation is not None:
                    numbers = (numbers - self.mean) / self.deviation
                with np.errstate(over="ignore"):
                    rounded = numbers.astype(np.float32)
                lost = np.isinf(rounded) & np.isfinite(numbers)
                if lost.any():
                    row = int(lost.argmax())
                    raise DataError(f"row {row} of {self.name!r} has {numbers[row]}, which float32 does not hold")
                return rounded

    def decode(self, numbers: Array) -> Array:
        """The values of numbers: an array of texts for classes, else numbers as they were before."""
        if self.kind == "class":
            outside = (numbers < 0) | (numbers >= len(self.values))
            if outside.any():
                found = numbers[np.unravel_index(int(outside.argmax()), outside.shape)]
                raise DataError(f"{self.name!r} has {len(self.values)} values, and {found} is the number of none")
            return np.array(self.values, object)[numbers]
        if self.mean is not None and self.deviation is not None:
            return numbers.astype(np.float64) * self.deviation + self.mean
        return numbers

    def _filled(self, raw: Array) -> Array:
        numbers = numbers_of(self.name, raw)
        missing = np.isnan(numbers)
        if missing.any():
            if not isinstance(self.fill, int | float):
                raise DataError(f"row {missing.argmax()} of {self.name!r} has no value")
            numbers = np.where(missing, self.fill, numbers)
        return numbers

    def _whole(self, numbers: Array) -> Array:
        with np.errstate(invalid="ignore"):
            whole = numbers.astype(np.int64)
        other = whole != numbers
        if other.any():
            row = int(other.argmax())
            raise DataError(f"row {row} of {self.name!r} is {numbers[row]}, which is no whole number")
        return whole

    def _classes(self, texts: Array) -> Array:
        places = {value: place for place, value in enumerate(self.values)}
        other = places.get(self.fill, -1) if isinstance(self.fill, str) else -1
        found = np.fromiter((places.get(text, other) for text in texts), np.int64, len(texts))
        if (found < 0).any():
            row = int((found < 0).argmax())
            if not texts[row]:
                raise DataError(f"row {row} of {self.name!r} has no value")
            hint = closest(texts[row], self.values) or f"; there are {', '.join(self.values[:8])}"
            raise DataError(f"row {row} of {self.name!r} is {texts[row]!r}, which is none of its values{hint}")
        return found

    def _tokens(self, texts: Array) -> Array:
        places = {word: place for place, word in enumerate(self.values, 2)}
        out = np.zeros((len(texts), self.length), np.int64)
        for row, text in enumerate(texts):
            if self.values:
                tokens = [places.get(word, 1) for word in words_of(text)[: self.length]]
            else:
                tokens = [byte + 1 for byte in text.encode()[: self.length]]
            out[row, : len(tokens)] = tokens
        return out


def words_of(text: str) -> list[str]:
    """The words of a text: letters and digits that stand together, in small letters."""
    from re import findall

    return findall(r"\w+", text.lower())


def texts_of(raw: Array) -> Array:
    """Values as texts, "" where one is missing; whole numbers without a point."""
    if raw.dtype.kind == "f":
        return np.array(["" if value != value else _text(value) for value in raw.tolist()], object)
    if raw.dtype.kind == "O":
        return np.array(["" if text in MISSING else text for text in raw.tolist()], object)
    return np.array([str(value) for value in raw.tolist()], object)


def numbers_of(name: str, raw: Array) -> Array:
    """Values as float64, NaN where one is missing. Raises DataError, which names the row, for what is no number."""
    if raw.dtype.kind != "O":
        return raw.astype(np.float64)
    numbers = np.empty(len(raw))
    for row, text in enumerate(raw.tolist()):
        try:
            numbers[row] = np.nan if text in MISSING else float(text)
        except ValueError:
            raise DataError(f"row {row} of {name!r} is {text!r}, which is no number") from None
        if np.isinf(numbers[row]):
            raise DataError(f"row {row} of {name!r} is {text!r}, which is not finite")
    return numbers


def _text(value: float) -> str:
    return str(int(value)) if value.is_integer() else str(value)
