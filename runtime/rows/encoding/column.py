"""The encoding of one column: from values to numbers, and back.

Rows of unequal length, texts and lists, become concatenated elements, and offsets.
"""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from prograd_proto.spelling import closest
from runtime.dtypes import Array, array_type
from runtime.errors import DataError
from runtime.rows.encoding.class_texts import Form, canonical, form_of
from runtime.rows.encoding.column_fields import column_fields
from runtime.rows.encoding.dates import dates_of, features, mixed_zones, width_of
from runtime.rows.encoding.lists import as_lists, elements_of, is_listed, lists_of
from runtime.rows.encoding.row_errors import RowError, original_rows
from runtime.rows.encoding.subwords import texts_of_tokens, tokens_by
from runtime.rows.encoding.tokens import hashes_of, texts_again, tokens_of
from runtime.rows.encoding.transforms import restored, transformed
from runtime.rows.encoding.values import (
    is_no_value,
    no_value,
    numbers_of,
    require_values,
    shown,
    texts_of,
    whole_numbers_of,
    with_points,
)

_log = logging.getLogger("prograd")

Kind = Literal["number", "whole", "class", "text", "date"]

FLAGS: Final = {"false": "0", "true": "1", "0": "0", "1": "1"}
"""Numbers of booleans, which may be numbers already."""


class Ragged(NamedTuple):
    """Rows of unequal length: their concatenated elements, and the offset of each row and of the end."""

    elements: Array
    offsets: Array


@dataclass(frozen=True)
class Column:
    """The encoding of a column of a table.

    Attributes:
        name: name of the column, in the table and in the packed file.
        kind: "number" is float32, "whole" int64, "class" the int64 index in `values`, "text" int64 numbers of words.
        values: the classes in order; the words of a text, counted from number 2, or empty for bytes counted from 1;
            "false" and "true" for booleans that are numbers.
        fill: replacement of a missing value: a number, or one of the values, which then also replaces unseen ones.
        mean, deviation: those of the training rows, if numbers were scaled to mean 0 and deviation 1.
        length: length of a text, which is truncated or padded with 0; 0 keeps the length of each text.
        listed: True if rows are lists of numbers.
        indicated: True if a number is float32 [rows, 2], the number and 1 if it was missing.
        one_hot: True if a class is float32 [rows, classes], 1 for the class and 0 for the others.
        transform: transform of numbers before they are scaled: "log", "quantile" or "".
        quantiles: those of the training rows, for the transform "quantile".
        decimal: "," if texts of numbers have decimal commas, or "".
        parts: parts of a date, in the order of their numbers; a date is float32 [rows, numbers].
        origin: days from 1970 to the first date of the training rows.
        date_format: format of dates for `strptime`; "" for ISO 8601.
        means, deviations: those of the training rows for each number of a date, if they were scaled.
        zoned: True if dates have zones.
        form: what classes are, if `values` without `fill` look otherwise: "text" for "1", "2" and "other" with the fill
            "other".
        tokenizer: a tokenizer of the package `tokenizers` as JSON, for texts that become its numbers plus 1.
        buckets: for texts whose words become hashes, one more than the largest; 0 for other texts.
    """

    name: str
    kind: Kind
    values: tuple[str, ...] = ()
    fill: float | str | None = None
    mean: float | None = None
    deviation: float | None = None
    length: int = 0
    listed: bool = False
    indicated: bool = False
    one_hot: bool = False
    transform: str = ""
    quantiles: tuple[float, ...] = ()
    decimal: str = ""
    parts: tuple[str, ...] = ()
    origin: float = 0.0
    date_format: str = ""
    means: tuple[float, ...] = ()
    deviations: tuple[float, ...] = ()
    zoned: bool = False
    form: Form | Literal[""] = ""
    tokenizer: str = ""
    buckets: int = 0

    @property
    def is_ragged(self) -> bool:
        """True if rows are of unequal length."""
        return self.listed or (self.kind == "text" and not self.length)

    @property
    def is_vector(self) -> bool:
        """True if a row is more than one number."""
        return self.listed or self.kind in ("text", "date") or self.one_hot or self.indicated

    @property
    def row_elements(self) -> int | None:
        """The number of elements of an encoded row; None if it differs from row to row."""
        if self.is_ragged:
            return None
        match self.kind:
            case "text":
                return self.length
            case "date":
                return width_of(self.parts)
            case _:
                return len(self.values) if self.one_hot else 1 + self.indicated

    @property
    def is_joinable(self) -> bool:
        """True if a row is a fixed number of floats, so that it can be joined with others."""
        return (self.kind in ("number", "date") and not self.listed) or self.one_hot

    @property
    def changes_numbers(self) -> bool:
        """True if a number of the table becomes another number."""
        return self.kind in ("class", "date") or self.mean is not None or bool(self.transform)

    def to_json(self) -> dict[str, Any]:
        """Return the fields that differ from their defaults."""
        return {
            name: value
            for name, value in asdict(self).items()
            if value not in ((), None, "")
            and (value or name not in ("length", "listed", "indicated", "one_hot", "origin", "zoned", "buckets"))
        }

    @classmethod
    def from_json(cls, values: object) -> Column:
        """Return the column that `to_json` described; raise ValueError for anything else."""
        return cls(**column_fields(values))

    def encode(self, raw: Array) -> Array:
        """Return the numbers of values; raise DataError that names the row for a value without a number."""
        raw = raw[:, 0] if self.kind == "number" and raw.shape[1:] == (1,) else as_lists(raw)
        require_values(self.name, raw)
        if is_listed(raw) and self.kind != "text":
            raise DataError(f"{self.name!r} has lists, and the rows it was packed from have one value each")
        match self.kind:
            case "class" if self.one_hot:
                return self._vectors(self._classes(texts_of(raw)))
            case "class":
                return self._classes(texts_of(raw))
            case "date":
                return self._dates(raw)
            case "text":
                return self._cut(self._tokens(raw))
            case "whole":
                raw = self._numerals(raw)
                return whole_numbers_of(self.name, raw, None if isinstance(self.fill, str) else self.fill)
            case _:
                return self._numbers(numbers_of(self.name, self._numerals(raw)))

    def ragged(self, raw: Array) -> Ragged:
        """Return the numbers of values whose rows are of unequal length; raise DataError as `encode` does."""
        raw = as_lists(raw)
        require_values(self.name, raw)
        rows = lists_of(self.name, raw) if self.listed else self._tokens(raw)
        offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        if self.listed:
            elements = elements_of(self.name, rows, whole=self.kind == "whole")
            with original_rows(np.repeat(np.arange(len(rows)), np.diff(offsets)), lines=False):
                return Ragged(elements if self.kind == "whole" else self._rounded(elements), offsets)
        return Ragged(np.array([token for row in rows for token in row], np.int64), offsets)

    def decode(self, numbers: Array) -> Array:
        """Return the values of numbers: an array of texts for classes, else the original numbers."""
        if numbers.dtype.kind not in "iu" and self.kind in ("class", "text") and self.values:
            raise DataError(f"numbers of {self.name!r} are whole, and these are {array_type(numbers)}")
        if self.kind == "class":
            outside = (numbers < 0) | (numbers >= len(self.values))
            if outside.any():
                found = numbers[np.unravel_index(int(outside.argmax()), outside.shape)]
                raise DataError(f"{self.name!r} has {len(self.values)} values, and {found} is the number of none")
            return np.array(self.values, object)[numbers]
        if self.kind == "text" and numbers.dtype.kind == "i":
            return self._texts(numbers)
        if self.indicated:
            numbers = numbers[..., 0]
        if self.mean is not None and self.deviation is not None:
            with np.errstate(over="ignore"):  # a prediction may be larger than float64
                numbers = numbers.astype(np.float64) * self.deviation + self.mean
        return restored(numbers, self.transform, self.quantiles)

    def _texts(self, numbers: Array) -> Array:
        if self.tokenizer:
            return texts_of_tokens(numbers, self.tokenizer)
        if self.buckets:
            raise DataError(f"the words of {self.name!r} are hashed, and a hash has no word")
        try:
            return texts_again(numbers, self.values)
        except ValueError as error:
            raise DataError(f"{self.name!r} has no word or byte of the number {error}") from None

    def days(self, raw: Array) -> Array:
        """Return dates as float64 days since 1970; raise DataError, which names the row, for anything else."""
        days, zoned = dates_of(self.name, raw, self.date_format, self.fill if isinstance(self.fill, str) else None)
        if zoned not in (None, self.zoned):
            row = next(row for row, value in enumerate(raw.tolist()) if not is_no_value(value))
            raise mixed_zones(self.name, row, raw[row], "the packed dates", zoned=not self.zoned)
        return days

    def _dates(self, raw: Array) -> Array:
        found = features(self.days(raw), self.parts, self.origin)
        means, deviations = (np.array(self.means), np.array(self.deviations)) if self.means else (0.0, 1.0)
        return self._narrowed(found, means, deviations)

    def _numerals(self, raw: Array) -> Array:
        """Return numbers, booleans and texts with decimal commas as numbers or texts with points."""
        if self.values:
            return flags_of(self.name, raw)
        return with_points(self.name, raw) if self.decimal else raw

    def _numbers(self, numbers: Array) -> Array:
        """Return numbers filled in, transformed and scaled; if asked, each beside 1 where it was missing."""
        missing = np.isnan(numbers)
        found = self._rounded(transformed(self.name, self._filled(numbers, missing), self.transform, self.quantiles))
        return np.stack([found, missing], axis=1, dtype=np.float32, casting="unsafe") if self.indicated else found

    def _filled(self, numbers: Array, missing: Array) -> Array:
        if missing.any():
            if not isinstance(self.fill, int | float):
                raise RowError(int(missing.argmax()), self.name, no_value(self.name))
            numbers = np.where(missing, self.fill, numbers)
        return numbers

    def _rounded(self, numbers: Array) -> Array:
        if self.mean is None or self.deviation is None:
            return self._narrowed(numbers, 0.0, 1.0)
        return self._narrowed(numbers, self.mean, self.deviation)

    def _narrowed(self, numbers: Array, mean: float | Array, deviation: float | Array) -> Array:
        """Return scaled numbers as float32; raise DataError, which names the row, for one that it does not hold."""
        with np.errstate(over="ignore"):
            rounded = ((numbers - mean) / deviation).astype(np.float32)
        lost = np.isinf(rounded)
        if lost.any():
            row = int(lost.reshape(len(lost), -1).any(axis=1).argmax())
            found = numbers[row] if numbers.ndim == 1 else numbers[row][lost[row]][0]
            scaled = "" if self.mean is None and not self.means else " when it is scaled"
            raise RowError(row, self.name, f"has {found}, which float32 does not hold{scaled}")
        return rounded

    def _vectors(self, classes: Array) -> Array:
        """Return a row for each class number, 1 for the class and 0 for the others."""
        found = np.zeros((len(classes), len(self.values)), np.float32)
        found[np.arange(len(classes)), classes] = 1
        return found

    @cached_property
    def classes_are(self) -> Form:
        """The kind of the classes: numbers, booleans, dates or texts; texts of one value are one class."""
        return self.form or form_of_vocabulary(self.values, self.fill)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {canonical(value, self.classes_are): place for place, value in enumerate(self.values)}

    def _classes(self, texts: Array) -> Array:
        places = self._places
        found = np.fromiter((places.get(text, -1) for text in texts.tolist()), np.int64, len(texts))
        for row in np.flatnonzero(found < 0).tolist():
            found[row] = places.get(canonical(texts[row], self.classes_are), -1)
        odd = np.flatnonzero(found < 0)
        if not len(odd):
            return found
        missing = texts[odd] == ""
        other = places.get(canonical(self.fill, self.classes_are)) if isinstance(self.fill, str) else None
        if other is None:
            row = int(odd[0])
            if missing[0]:
                raise RowError(row, self.name, no_value(self.name))
            hint = closest(texts[row], self.values) or f"; there are {', '.join(self.values[:8])}"
            raise RowError(row, self.name, f"is {shown(texts[row])}, which is none of its values{hint}")
        unknown = odd[~missing]
        if len(unknown):
            _log.warning(
                "%r has values that the packed rows lack, %s the first, in %d of %d rows; they are taken as %r",
                *(self.name, shown(texts[unknown[0]]), len(unknown), len(texts), self.fill),
                extra={"replaced": (self.name, len(unknown))},
            )
        found[odd] = other
        return found

    def _tokens(self, raw: Array) -> list[list[int]]:
        if self.tokenizer:
            return tokens_by(self.tokenizer, texts_of(raw).tolist())
        if self.buckets:
            return [hashes_of(text, self.buckets) for text in (raw if is_listed(raw) else texts_of(raw))]
        places = {word: place for place, word in enumerate(self.values, 2)}
        return [tokens_of(text, places) for text in (raw if is_listed(raw) else texts_of(raw))]

    def _cut(self, rows: list[list[int]]) -> Array:
        out = np.zeros((len(rows), self.length), np.int64)
        for row, tokens in enumerate(rows):
            out[row, : len(tokens)] = tokens[: self.length]
        return out


def flags_of(name: str, raw: Array) -> Array:
    """Return booleans as texts of numbers; raise DataError, which names the row, for any other value."""
    found = texts_of(raw)
    for row, text in enumerate(found.tolist()):
        flag = canonical(text, "boolean")
        if text and flag not in FLAGS:
            raise RowError(row, name, f"is {shown(text)}, and its values are true and false")
        found[row] = FLAGS.get(flag, "")
    return found


def form_of_vocabulary(values: tuple[str, ...], fill: float | str | None) -> Form:
    """Return what classes are, without the replacement of missing values unless it is the only one."""
    return form_of([value for value in values if value != fill] or values)
