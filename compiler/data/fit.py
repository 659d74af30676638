"""What a column becomes: its kind, its vocabulary, its mean, and what stands for missing values.

Means, deviations, medians and words are those of the training rows alone. Values of classes are those of all rows.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from typing import Any, Final

import numpy as np

from compiler.data.options import PackOptions, matches
from runtime.dtypes import Array
from runtime.errors import DataError
from runtime.rows.encoding.column import Column
from runtime.rows.encoding.lists import elements_of, is_listed, lists_of
from runtime.rows.encoding.tokens import words_of
from runtime.rows.encoding.values import is_no_value, number_in, numbers_of, require_values, shown, texts_of

_log = logging.getLogger("prograd")

_COMMA: Final = re.compile(r"-?\d[\d.]*,\d[\d,]*")
"""A number with a comma, for thousands or before its fraction."""

_DATE: Final = re.compile(r"\d{4}-\d\d?-\d\d?([ T].*)?|\d{1,2}[./-]\d{1,2}[./-]\d{4}|\d{4}/\d\d?/\d\d?")
"""Dates as people write them most."""

_MANY: Final = 1000
"""Different texts that are still taken for classes unasked, however many rows there are."""


def fitted(name: str, raw: Array, training: Array, options: PackOptions, levels: tuple[str, ...] = ()) -> Column:
    """How a column is encoded; `levels` are all its values, where the source says so in an order of its own.

    Raises DataError for a missing value that nothing stands for, or texts that are none.
    """
    require_values(name, raw)
    if is_listed(raw):
        return _list(name, lists_of(name, raw), training, options)
    for lengths, of_words in ((options.text, False), (options.words, True)):
        length = next((length for pattern, length in lengths.items() if matches(name, [pattern])), None)
        if length is not None:
            words = _vocabulary(name, texts_of(raw)[training].tolist(), options.vocabulary) if of_words else ()
            return Column(name, "text", words, length=length)
    fill = options.missing.get(name, next((v for k, v in options.missing.items() if matches(name, [k])), None))
    fill = None if fill == "drop" else fill  # these rows are gone
    asked = matches(name, options.classes)
    if asked or levels or not is_number(raw):
        if not asked and not levels:
            _require_classes(name, texts_of(raw).tolist())
        return _classes(name, raw, training, fill, levels, asked=asked)
    kind = "whole" if matches(name, options.whole) else "number"
    return _numbers(name, raw, training, fill, whole=kind == "whole", standard=matches(name, options.standardise))


def is_number(raw: Array) -> bool:
    """Whether all values that are there are numbers."""
    if raw.dtype.kind in "iufb":
        return True
    return all(is_no_value(text) or _is_number(text) for text in raw.tolist())


def is_missing(raw: Array) -> Array:
    """By row, whether there is no value."""
    if raw.dtype.kind == "f":
        return np.isnan(raw)
    if raw.dtype.kind == "O":
        return np.array([is_no_value(text) for text in raw.tolist()], bool)
    return np.zeros(len(raw), bool)


def _list(name: str, rows: list[list[Any]], training: Array, options: PackOptions) -> Column:
    """Of numbers, or of words: those of the first element decide."""
    trained = [rows[row] for row in training]
    first = next((element for row in rows for element in row), 0)
    if isinstance(first, str):
        return Column(name, "text", _vocabulary(name, trained, options.vocabulary))
    whole = isinstance(first, int) and not matches(name, options.standardise)
    if whole and all(isinstance(element, int) for row in rows for element in row):
        return Column(name, "whole", listed=True)
    elements_of(name, rows, whole=False)  # names the row of one that is none
    if not matches(name, options.standardise):
        return Column(name, "number", listed=True)
    known = elements_of(name, trained, whole=False)
    if not len(known):
        raise DataError(f"{name!r} has no element in the training rows, so there is no mean of them")
    return Column(name, "number", listed=True, mean=float(np.mean(known)), deviation=float(np.std(known)) or 1.0)


def _is_number(text: str) -> bool:
    try:
        number_in(text)
    except (TypeError, ValueError):
        return False
    return True


def _require_classes(name: str, texts: list[str]) -> None:
    """Raise DataError for texts that are hardly meant as classes: numbers but for a few, and dates."""
    there = [(row, text) for row, text in enumerate(texts) if text]
    odd = [(row, text) for row, text in there if not _is_number(text)]
    others = f"--class {name} takes all as classes, --drop {name} leaves the column out"
    if len(odd) * 2 <= len(there):
        row, text = odd[0]
        what = f"row {row} of {name!r} is {shown(text)}, and {len(there) - len(odd)} rows have numbers"
        raise DataError(f"{what}; mend it, or empty it and say --missing {name}=mean; {others}")
    if all(_COMMA.fullmatch(text) or _is_number(text) for _, text in there):
        row, text = odd[0]
        raise DataError(f"row {row} of {name!r} is {shown(text)}; numbers have a point and no commas; {others}")
    if all(_DATE.fullmatch(text) for _, text in there):
        raise DataError(
            f"{name!r} has dates, which are no classes; --drop {name} leaves the column out, and --by time={name} "
            f"still splits by it; --class {name} takes them as classes"
        )


def _classes(
    name: str, raw: Array, training: Array, fill: str | float | None, levels: tuple[str, ...], *, asked: bool
) -> Column:
    texts = texts_of(raw)
    there = [text for text in texts.tolist() if text]
    found = sorted(set(there), key=int) if _are_whole(there) else sorted(set(there))
    values: list[str] = list(levels) if levels and set(there) <= set(levels) else found
    if not asked and not levels and len(values) > max(_MANY, len(raw) // 2):
        raise DataError(
            f"{name!r} has {len(values)} different texts in {len(raw)} rows; "
            f"leave it out by --drop {name}, keep it as text by --text {name}=100, or as classes by --class {name}"
        )
    if fill == "most":
        seen = Counter(text for text in texts[training].tolist() if text)
        fill = min(seen, key=lambda text: (-seen[text], text)) if seen else None
    if fill is None and len(there) < len(texts):
        raise _missing(name, texts == "", "other")
    if fill is not None and str(fill) not in values:
        values.append(str(fill))
    return Column(name, "class", tuple(values), fill=None if fill is None else str(fill))


def _numbers(
    name: str, raw: Array, training: Array, fill: str | float | None, *, whole: bool, standard: bool
) -> Column:
    numbers = numbers_of(name, raw)
    known = numbers[training][~np.isnan(numbers[training])]
    if fill in ("mean", "median"):
        if not len(known):
            raise DataError(f"{name!r} has no value in the training rows, so there is no {fill} of them")
        fill = float(np.mean(known) if fill == "mean" else np.median(known))
    if fill is not None:
        try:
            fill = float(fill)
        except ValueError:
            raise DataError(
                f"{name!r} is a column of numbers, and {fill!r} for a missing one is none; "
                "say a number, mean, median, or drop for the row"
            ) from None
    elif np.isnan(numbers).any():
        raise _missing(name, np.isnan(numbers), "mean")
    if not standard:
        if not whole:
            _say_rounded(name, numbers)
        return Column(name, "whole" if whole else "number", fill=fill)
    trained = np.where(np.isnan(numbers[training]), fill, numbers[training]) if fill is not None else known
    deviation = float(np.std(trained)) if len(trained) else 0.0
    return Column(name, "number", fill=fill, mean=float(np.mean(trained)), deviation=deviation or 1.0)


def _say_rounded(name: str, numbers: Array) -> None:
    with np.errstate(all="ignore"):
        lost = (numbers == np.round(numbers)) & (np.abs(numbers) < 1 << 63) & (numbers.astype(np.float32) != numbers)
    if lost.any():
        row = int(lost.argmax())
        _log.warning(
            "%r has whole numbers that float32 rounds, %d in row %d the first; "
            "--whole %s keeps them, --class %s makes classes of them",
            *(name, numbers[row], row, name, name),
        )


def _are_whole(texts: list[str]) -> bool:
    """Whether all are whole numbers, which have an order of their own."""
    return all(text.removeprefix("-").isdecimal() and len(text) < 19 for text in texts)


def _missing(name: str, missing: Array, example: str) -> DataError:
    return DataError(
        f"{name!r} has no value in {np.count_nonzero(missing)} rows, first in row {int(missing.argmax())}; "
        f"say what stands for it, as in --missing {name}={example}, or --missing {name}=drop"
    )


def _vocabulary(name: str, texts: list[str] | list[list[Any]], most: int) -> tuple[str, ...]:
    seen = Counter(word for text in texts for word in words_of(text))
    if not seen:
        raise DataError(f"{name!r} has no words in the training rows, so there is no vocabulary of them")
    return tuple(sorted(seen, key=lambda word: (-seen[word], word))[:most])
