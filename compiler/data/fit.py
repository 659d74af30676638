"""The encoding of a column: its kind, its vocabulary, its mean, and the replacement of missing values.

Means, deviations, medians and words are those of the training rows alone. Values of classes are those of all rows.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np

from compiler.data.options import PackOptions
from compiler.data.scales import scale_of
from prograd_proto.wording import as_asked
from runtime.dtypes import Array
from runtime.errors import DataError
from runtime.rows.encoding.column import Column
from runtime.rows.encoding.dates import NUMBERS, days_of, features, width_of
from runtime.rows.encoding.lists import elements_of, is_listed, lists_of
from runtime.rows.encoding.row_errors import RowError, original_rows
from runtime.rows.encoding.subwords import trained_tokenizer
from runtime.rows.encoding.tokens import words_of
from runtime.rows.encoding.transforms import quantiles_of, transformed
from runtime.rows.encoding.values import (
    is_no_value,
    number_in,
    numbers_of,
    require_values,
    shown,
    texts_of,
    with_points,
)

_log = logging.getLogger("prograd")

_COMMA: Final = re.compile(r"-?\d[\d.]*,\d[\d,]*")
"""A number with a comma, which separates thousands or the fraction."""

_DATE: Final = re.compile(r"\d{4}-\d\d?-\d\d?([ T].*)?|\d{1,2}[./-]\d{1,2}[./-]\d{4}|\d{4}/\d\d?/\d\d?")
"""Dates in the most common notations."""

_MANY: Final = 1000
"""Upper bound on the different texts of a column that become classes by default, for any number of rows."""


def fitted(
    name: str,
    raw: Array,
    training: Array,
    options: PackOptions,
    levels: tuple[str, ...] = (),
    row_name: Callable[[int], str] = "row {}".format,
) -> Column:
    """Return the encoding of a column.

    Args:
        name: name of the column.
        raw: its values, [rows].
        training: int64 numbers of the training rows.
        options: see `PackOptions`.
        levels: all its values, if the source orders them.
        row_name: returns the text for a row in a warning, given its number.

    Raises DataError for a missing value without a replacement, or values of a text column that are no texts.
    """
    require_values(name, raw)
    if is_listed(raw):
        return _list(name, lists_of(name, raw), training, options)
    named = _named_kind(name, raw, training, options)
    if named is not None:
        return named
    if options.decimal == "," and _has_commas(raw):
        pointed = fitted(name, with_points(name, raw), training, replace(options, decimal="."), levels, row_name)
        return replace(pointed, decimal=",") if pointed.kind == "number" else pointed
    return _values(name, raw, training, options, levels, row_name)


def _named_kind(name: str, raw: Array, training: Array, options: PackOptions) -> Column | None:
    """Return the encoding of a column that an option names as dates or texts; None for any other."""
    pattern = options.names["date"].meant(name)
    if pattern is not None:
        return _dates(name, raw, training, options, tuple(options.date[pattern]))
    pattern = options.names["bpe"].meant(name)
    if pattern is not None:
        tokenizer = trained_tokenizer(texts_of(raw)[training].tolist(), options.vocabulary)
        return Column(name, "text", length=options.bpe[pattern], tokenizer=tokenizer)
    for option, lengths in (("text", options.text), ("words", options.words)):
        pattern = options.names[option].meant(name)
        if pattern is not None:
            of_words = option == "words"
            words = _vocabulary(name, texts_of(raw)[training].tolist(), options.vocabulary) if of_words else ()
            return Column(name, "text", words, length=lengths[pattern])
    return None


def _values(
    name: str,
    raw: Array,
    training: Array,
    options: PackOptions,
    levels: tuple[str, ...],
    row_name: Callable[[int], str],
) -> Column:
    """Return the encoding of classes or numbers."""
    pattern = options.names["missing"].meant(name)
    fill = None if pattern is None else options.missing[pattern]
    fill = None if fill == "drop" else fill  # these rows are gone
    asked = name in options.names["classes"]
    if asked or levels or not is_number(raw):
        if not asked and not levels:
            _require_classes(name, texts_of(raw).tolist())
        column = _classes(name, raw, training, fill, levels, asked=asked)
        return replace(column, one_hot=name in options.names["one_hot"])
    if name in options.names["one_hot"]:
        return replace(_classes(name, raw, training, fill, levels, asked=True), one_hot=True)
    whole, standard = name in options.names["whole"], name in options.names["standardise"]
    transform = next((option for option in ("log", "quantile") if name in options.names[option]), "")
    if not whole and not standard and not transform:
        _say_rounded(name, numbers_of(name, raw), row_name)
    return _numbers(name, raw, training, fill, whole=whole and not transform, standard=standard, transform=transform)


def _has_commas(raw: Array) -> bool:
    """Return True if all values are numbers with decimal commas, or missing."""
    if raw.dtype.kind != "O":
        return False
    texts = [text for text in raw.tolist() if isinstance(text, str) and not is_no_value(text)]
    return any("," in text for text in texts) and all(_is_number(text.replace(",", ".", 1)) for text in texts)


def _dates(name: str, raw: Array, training: Array, options: PackOptions, parts: tuple[str, ...]) -> Column:
    """Return the encoding of dates; days count from the first of the training rows."""
    pattern = options.names["missing"].meant(name)
    fill = None if pattern is None or options.missing[pattern] == "drop" else str(options.missing[pattern])
    days = days_of(name, raw, options.date_format, fill)[training]
    origin = float(np.floor(days.min(initial=np.inf))) if len(days) else 0.0
    column = Column(name, "date", fill=fill, parts=parts, origin=origin, date_format=options.date_format)
    if name not in options.names["standardise"]:
        return column
    found = features(days, parts, origin)
    names = [part for part in parts for _ in range(width_of((part,)))]
    scales = [
        scale_of(f"{name}.{part}", found[:, number], remedy="leave this part of the date out")
        if part in NUMBERS
        else (0.0, 1.0)
        for number, part in enumerate(names)
    ]
    means, deviations = zip(*scales, strict=True)
    return replace(column, means=means, deviations=deviations)


def is_number(raw: Array) -> bool:
    """Return True if all values that are not missing are numbers."""
    if raw.dtype.kind in "iufb":
        return True
    return all(is_no_value(text) or _is_number(text) for text in raw.tolist())


def is_missing(raw: Array) -> Array:
    """Return for each row True if its value is missing."""
    if raw.dtype.kind == "f":
        return np.isnan(raw)
    if raw.dtype.kind == "O":
        return np.array([is_no_value(text) for text in raw.tolist()], bool)
    return np.zeros(len(raw), bool)


def _list(name: str, rows: list[list[Any]], training: Array, options: PackOptions) -> Column:
    """Return the encoding of lists of numbers or of words; the first element decides which."""
    trained = [rows[row] for row in training]
    first = next((element for row in rows for element in row), 0)
    if isinstance(first, str):
        return Column(name, "text", _vocabulary(name, trained, options.vocabulary))
    whole = isinstance(first, int) and name not in options.names["standardise"]
    if whole and all(isinstance(element, int) for row in rows for element in row):
        return Column(name, "whole", listed=True)
    elements_of(name, rows, whole=False)  # names the row with the wrong value
    if name not in options.names["standardise"]:
        return Column(name, "number", listed=True)
    known = elements_of(name, trained, whole=False)
    if not len(known):
        raise DataError(f"{name!r} has no element in the training rows, so there is no mean of them")
    mean, deviation = scale_of(name, known)
    return Column(name, "number", listed=True, mean=mean, deviation=deviation)


def _is_number(text: str) -> bool:
    try:
        number_in(text)
    except (TypeError, ValueError):
        return False
    return True


def _require_classes(name: str, texts: list[str]) -> None:
    """Raise DataError for texts that are unlikely to be classes: mostly numbers, or dates."""
    there = [(row, text) for row, text in enumerate(texts) if text]
    odd = [(row, text) for row, text in there if not _is_number(text)]
    classes, drop = _option("class", name), _option("drop", name)
    others = f"{classes} takes all as classes, {drop} leaves the column out"
    if len(odd) * 2 <= len(there):
        row, text = odd[0]
        what = f"is {shown(text)}, and {len(there) - len(odd)} rows have numbers"
        raise RowError(row, name, f"{what}; mend it, or empty it and say {_fill(name, 'mean')}; {others}")
    if all(_COMMA.fullmatch(text) or _is_number(text) for _, text in there):
        row, text = odd[0]
        raise RowError(
            row,
            name,
            f"is {shown(text)}; numbers have a point and no commas; "
            f"{as_asked('--decimal ,', 'decimal=' + repr(','))} takes decimal commas; {others}",
        )
    if all(_DATE.fullmatch(text) for _, text in there):
        time = as_asked(f"--by time={name}", f'by="time", of={name!r}')
        raise DataError(
            f"{name!r} has dates, which are no classes; {_option('date', name)} makes numbers of them, "
            f"{drop} leaves the column out, and {time} "
            f"still splits by it; {classes} takes them as classes"
        )


def _classes(
    name: str, raw: Array, training: Array, fill: str | float | None, levels: tuple[str, ...], *, asked: bool
) -> Column:
    texts = texts_of(raw)
    there = [text for text in texts.tolist() if text]
    found = sorted(set(there), key=lambda text: (int(text), text)) if _are_whole(there) else sorted(set(there))
    values: list[str] = list(levels) if levels and set(there) <= set(levels) else found
    if not asked and not levels and len(values) > max(_MANY, len(raw) // 2):
        classes, text = _option("class", name), as_asked(f"--text {name}=100", f"text={{{name!r}: 100}}")
        raise DataError(
            f"{name!r} has {len(values)} different texts in {len(raw)} rows; "
            f"leave it out by {_option('drop', name)}, keep it as text by {text}, or as classes by {classes}"
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
    name: str, raw: Array, training: Array, fill: str | float | None, *, whole: bool, standard: bool, transform: str
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
    trained = np.where(np.isnan(numbers[training]), fill, numbers[training]) if fill is not None else known
    quantiles = quantiles_of(trained) if transform == "quantile" else ()
    if not standard:
        return Column(name, "whole" if whole else "number", fill=fill, transform=transform, quantiles=quantiles)
    with original_rows(training, lines=False):
        trained = transformed(name, trained, transform, quantiles)
    mean, deviation = scale_of(name, trained)
    return Column(name, "number", fill=fill, mean=mean, deviation=deviation, transform=transform, quantiles=quantiles)


def _say_rounded(name: str, numbers: Array, row_name: Callable[[int], str]) -> None:
    with np.errstate(all="ignore"):
        lost = (numbers == np.round(numbers)) & (np.abs(numbers) < 1 << 63) & (numbers.astype(np.float32) != numbers)
    if lost.any():
        row = int(lost.argmax())
        _log.warning(
            "%r has whole numbers that float32 rounds, %d in %s the first; %s keeps them, %s makes classes of them",
            *(name, numbers[row], row_name(row), _option("whole", name), _option("class", name)),
        )


def _are_whole(texts: list[str]) -> bool:
    """Return True if all texts are integers, which have an order of their own."""
    return all(text.removeprefix("-").isdecimal() and len(text) < 19 for text in texts)


def _missing(name: str, missing: Array, example: str) -> DataError:
    count = int(np.count_nonzero(missing))
    others = f", the first of {count} such rows" if count > 1 else ""
    how = f"say what stands for it, as in {_fill(name, example)}, or {_fill(name, 'drop')}"
    return RowError(int(missing.argmax()), name, f"has no value{others}; {how}")


def _option(option: str, name: str) -> str:
    """Return the words that give an option a column: "--drop age", or "drop=['age']" in Python."""
    argument = "classes" if option == "class" else option
    return as_asked(f"--{option} {name}", f"{argument}=[{name!r}]")


def _fill(name: str, value: str) -> str:
    return as_asked(f"--missing {name}={value}", f"missing={{{name!r}: {value!r}}}")


def _vocabulary(name: str, texts: list[str] | list[list[Any]], most: int) -> tuple[str, ...]:
    seen = Counter(word for text in texts for word in words_of(text))
    if not seen:
        raise DataError(f"{name!r} has no words in the training rows, so there is no vocabulary of them")
    return tuple(sorted(seen, key=lambda word: (-seen[word], word))[:most])
