"""The check of an encoding in a file: of JSON, of each field of a column, and of fields together.

A file of a stranger may hold anything. What passes has the fields that `compiler data pack` writes, so encoding and
decoding need no further check of types, sizes and ranges.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from json import loads
from typing import Any, Final, NoReturn, cast

from runtime.rows.encoding.class_texts import FORMS
from runtime.rows.encoding.dates import PARTS, is_date_format, width_of
from runtime.rows.encoding.subwords import is_tokenizer
from runtime.rows.encoding.transforms import MAX_QUANTILES, TRANSFORMS
from runtime.rows.encoding.values import shown

MAX_LENGTH: Final = 1 << 20
"""Upper bound on the bytes or words to which a text is truncated or padded."""

MAX_BUCKETS: Final = 1 << 31
"""Upper bound on the numbers that words are hashed to."""

_ALL: Final = frozenset({"name", "kind"})

KINDS: Final[Mapping[str, frozenset[str]]] = {
    "number": _ALL
    | {"values", "fill", "mean", "deviation", "listed", "transform", "quantiles", "decimal", "indicated"},
    "whole": _ALL | {"values", "fill", "listed", "decimal"},
    "class": _ALL | {"values", "fill", "one_hot", "form"},
    "text": _ALL | {"values", "length", "tokenizer", "buckets"},
    "date": _ALL | {"fill", "parts", "origin", "date_format", "means", "deviations", "zoned"},
}
"""The kinds of columns, and the fields that each may have."""


_Field = tuple[Callable[[Any], bool], str]
"""A test of a value of a field, and the words for such values in an error."""


def json_of(text: str) -> object:
    """Return the value of JSON; raise ValueError for other texts, NaN, Infinity, and keys that occur twice."""
    try:
        return loads(text, parse_constant=_refused, object_pairs_hook=_unique)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def is_text(value: object) -> bool:
    """Return True for a text that can be written in UTF-8, so one without half of a surrogate pair."""
    if not isinstance(value, str):
        return False
    return value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value)


def column_fields(values: object) -> dict[str, Any]:
    """Return the checked fields of a column from JSON; raise ValueError that names the column and the field."""
    if not isinstance(values, dict):
        raise ValueError(f"it lists {shown(values)}, which is no column")
    given = cast(dict[str, Any], values)
    name = given.get("name")
    if not is_text(name):
        raise ValueError(f"a column has the name {shown(name)}, which is no text")
    kind = given.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"the column {shown(name)} is of the kind {shown(kind)}; there are {', '.join(KINDS)}")
    odd = next((field for field in given if field not in KINDS[kind]), None)
    if odd is not None:
        raise ValueError(f"the column {shown(name)} of the kind {kind!r} has {shown(odd)}, which it cannot have")
    for field, (fits, words) in _FIELDS.items():
        if field in given and not fits(given[field]):
            raise ValueError(f"{field!r} of the column {shown(name)} is {shown(given[field])}, not {words}")
    fault = _fault_of(kind, given)
    if fault:
        raise ValueError(f"the column {shown(name)} {fault}")
    return {field: tuple(cast(list[Any], v)) if isinstance(v, list) else v for field, v in given.items()}


def _fault_of(kind: str, given: Mapping[str, Any]) -> str:
    """Return what is wrong with fields of a column together; "" if nothing is."""
    values, fill = given.get("values", []), given.get("fill")
    scaled = len(given.get("means", ())), len(given.get("deviations", ()))
    faults = {
        "has hashes beside words, a length or a tokenizer": "buckets" in given
        and bool(values or given.get("length") or given.get("tokenizer")),
        "has no classes": kind == "class" and not values,
        "has no parts of dates": kind == "date" and not given.get("parts"),
        "is a number with other values than false and true": kind in ("number", "whole")
        and values not in ([], ["false", "true"]),
        "has a mean without a deviation, or one without the other": ("mean" in given) != ("deviation" in given),
        "has quantiles without their transform, or one without the other": ("quantiles" in given)
        != (given.get("transform") == "quantile"),
        "has other means and deviations than its parts of dates": scaled not in ((0, 0), (_width(given),) * 2),
        "has lists, or no number for a missing one, and tells where numbers are missing": bool(given.get("indicated"))
        and (bool(given.get("listed")) or "fill" not in given),
        f"has {shown(fill)} for a missing value, which is none of its own": "fill" in given
        and not (fill in values if kind == "class" else isinstance(fill, str) == (kind == "date")),
    }
    return next((words for words, holds in faults.items() if holds), "")


def _width(given: Mapping[str, Any]) -> int:
    return width_of(tuple(given.get("parts", ())))


def _refused(constant: str) -> NoReturn:
    raise ValueError(f"it has {constant}, which is not finite")


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("it has a key twice")
    return made


def _is_finite(value: object) -> bool:
    """Return True for a number that float64 holds; a boolean is not a number."""
    try:
        return type(value) in (int, float) and math.isfinite(cast(float, value))
    except OverflowError:
        return False


def _is_positive(value: object) -> bool:
    return _is_finite(value) and cast(float, value) > 0


def _all(value: object, fits: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and all(map(fits, cast(list[Any], value)))


def _are_different(value: object, fits: Callable[[Any], bool] = is_text) -> bool:
    return _all(value, fits) and len(set(cast(list[str], value))) == len(cast(list[str], value))


def _are_quantiles(value: object) -> bool:
    if not _all(value, _is_finite):
        return False
    numbers = cast(list[float], value)
    return 2 <= len(numbers) <= MAX_QUANTILES and numbers == sorted(numbers)


_FLAG: Final[_Field] = (lambda value: type(value) is bool, "true or false")

_FIELDS: Final[Mapping[str, _Field]] = {
    "values": (_are_different, "a list of different texts"),
    "fill": (lambda value: is_text(value) or _is_finite(value), "a text or a finite number"),
    "mean": (_is_finite, "a finite number"),
    "deviation": (_is_positive, "a finite number above 0"),
    "length": (lambda value: type(value) is int and 0 <= value <= MAX_LENGTH, f"a size of at most {MAX_LENGTH}"),
    "listed": _FLAG,
    "indicated": _FLAG,
    "one_hot": _FLAG,
    "zoned": _FLAG,
    "transform": (TRANSFORMS.__contains__, f"one of {', '.join(filter(None, TRANSFORMS))}"),
    "quantiles": (_are_quantiles, f"a list of 2 to {MAX_QUANTILES} finite numbers that rise"),
    "decimal": (("", ",").__contains__, "a comma"),
    "parts": (lambda value: _are_different(value, PARTS.__contains__), "a list of different parts of dates"),
    "origin": (_is_finite, "a finite number"),
    "date_format": (lambda value: is_text(value) and is_date_format(value), "a format of dates"),
    "means": (lambda value: _all(value, _is_finite), "a list of finite numbers"),
    "deviations": (lambda value: _all(value, _is_positive), "a list of finite numbers above 0"),
    "form": (FORMS.__contains__, f"one of {', '.join(FORMS)}"),
    "tokenizer": (lambda value: is_text(value) and is_tokenizer(value), "a tokenizer that prograd writes"),
    "buckets": (
        lambda value: type(value) is int and 2 <= value <= MAX_BUCKETS,
        f"a number of hashes from 2 to {MAX_BUCKETS}",
    ),
}
"""The test of each field of a column, by its name."""
