"""The encoding of a column: its kind, its vocabulary, its mean, and the replacement of missing values.

Means, deviations, medians and words are those of the training rows alone. Values of classes are those of all rows.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from math import isfinite
from typing import Any, Final, NamedTuple

import numpy as np

from compiler.data.options import PackOptions
from compiler.data.scales import scale_of
from prograd_proto.wording import as_asked
from runtime.dtypes import Array
from runtime.errors import DataError
from runtime.rows.encoding.class_texts import Form, canonical, class_order, class_texts, form_of, number_spellings
from runtime.rows.encoding.column import Column, flags_of
from runtime.rows.encoding.dates import NUMBERS, dates_of, features, width_of
from runtime.rows.encoding.lists import elements_of, is_listed, lists_of
from runtime.rows.encoding.row_errors import RowError, original_rows
from runtime.rows.encoding.subwords import trained_tokenizer
from runtime.rows.encoding.tokens import words_of
from runtime.rows.encoding.transforms import quantiles_of, transformed
from runtime.rows.encoding.values import (
    is_no_value,
    is_number_text,
    mapped,
    numbers_of,
    require_values,
    shown,
    spelled,
    texts_of,
    with_points,
)

_log = logging.getLogger("prograd")

_COMMA: Final = re.compile(r"-?\d[\d.]*,\d[\d,]*")
"""A number with a comma, which separates thousands or the fraction."""

_SIGNS: Final = re.compile(r"[\s$€£¥₹%‰'\u2019]|(?<=\d)_(?=\d{3})|(?<=\d)\.(?=\d{3}\.\d{3}(?!\d))")
"""Signs of money, shares and thousands, and blanks, around or in a number."""

_UNIT: Final = re.compile(r"(?<=[\d.])\s?([^\W\d_]+[²³]?)\.?$")
"""A unit behind a number, such as kg."""

_TIME: Final = re.compile(r"\d{1,3}:\d\d(:\d\d(\.\d+)?)?")
"""A time, or hours, minutes and seconds."""

_DATE: Final = re.compile(r"\d{4}-\d\d?-\d\d?([ T].*)?|\d{1,2}[./-]\d{1,2}[./-]\d{4}|\d{4}/\d\d?/\d\d?")
"""Dates in the most common notations."""

_CODE: Final = re.compile(r"\s*0\d+\s*$")
"""A whole number with zeros in front, which may be a code."""

_FOR_NUMBERS: Final = ("mean", "median")
"""Replacements of missing values that only numbers have."""

_SEVERAL: Final = 50
"""Upper bound on the different texts of a column that become classes without a warning, for any number of rows."""

_MANY: Final = 1000
"""Upper bound on the different texts of a column that become classes by default, for any number of rows."""


class Levels(NamedTuple):
    """All classes of a column in their order; `exact` if they are names that are compared letter by letter."""

    values: tuple[str, ...] = ()
    exact: bool = False


def fitted(
    name: str,
    raw: Array,
    training: Array,
    options: PackOptions,
    levels: Levels,
    row_name: Callable[[int], str],
) -> Column:
    """Return the encoding of a column.

    Args:
        name: name of the column.
        raw: its values, [rows].
        training: int64 numbers of the training rows.
        options: see `PackOptions`.
        levels: its classes, if the source orders them.
        row_name: returns the text for a row in a warning, given its number.

    Raises DataError for a missing value without a replacement, or values of a text column that are no texts.
    """
    require_values(name, raw)
    if is_listed(raw):
        return _list(name, lists_of(name, raw), training, options)
    named = _named_kind(name, raw, training, options)
    if named is not None:
        return named
    if options.decimal == "," and has_commas(raw):
        pointed = fitted(name, with_points(name, raw), training, replace(options, decimal="."), levels, row_name)
        if pointed.kind in ("number", "whole"):
            return replace(pointed, decimal=",")
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
    pattern = options.names["hash"].meant(name)
    if pattern is not None:
        return Column(name, "text", buckets=options.hash[pattern])
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
    levels: Levels,
    row_name: Callable[[int], str],
) -> Column:
    """Return the encoding of classes or numbers."""
    pattern = options.names["missing"].meant(name)
    fill = None if pattern is None else options.missing[pattern]
    fill = None if fill == "drop" else fill  # these rows are gone
    asked = name in options.names["classes"] or name in options.names["one_hot"]
    flags = not asked and not levels.values and _are_flags(name, raw, options)
    if not flags and (asked or levels.values or not is_number(raw)):
        if not asked and not levels.values:
            _require_classes(name, class_texts(raw).tolist())
        fill = None if fill in _FOR_NUMBERS and pattern != name else fill  # a pattern skips it
        column = _classes(name, raw, training, fill, levels, asked=asked)
        return replace(column, one_hot=name in options.names["one_hot"])
    numbers = flags_of(name, raw) if flags else raw
    whole, standard = name in options.names["whole"], name in options.names["standardise"]
    transform = next((option for option in ("log", "quantile") if name in options.names[option]), "")
    if not flags:
        _say_zeros(name, raw, row_name)
    if not whole and not standard and not transform:
        _say_rounded(name, numbers, row_name)
    indicated = name in options.names["indicate"] and (not whole or bool(transform))
    found = _numbers(
        *(name, numbers, training, "mean" if indicated and fill is None else fill),
        whole=whole and not transform,
        standard=standard,
        transform=transform,
    )
    found = replace(found, indicated=indicated)
    return replace(found, values=("false", "true")) if flags else found


def _are_flags(name: str, raw: Array, options: PackOptions) -> bool:
    """Return True for booleans that an option takes as the numbers 0 and 1; others are classes."""
    wanted = any(
        name in options.names[option] for option in ("join", "standardise", "whole", "log", "quantile", "indicate")
    )
    return wanted and form_of(class_texts(raw).tolist()) == "boolean"


def has_commas(raw: Array) -> bool:
    """Return True if all values are numbers with decimal commas, or missing."""
    if raw.dtype.kind != "O":
        return False
    texts = [text for text in raw.tolist() if isinstance(text, str) and not is_no_value(text)]
    return any("," in text for text in texts) and all(is_number_text(text.replace(",", ".", 1)) for text in texts)


def _dates(name: str, raw: Array, training: Array, options: PackOptions, parts: tuple[str, ...]) -> Column:
    """Return the encoding of dates; days count from the first of the training rows."""
    pattern = options.names["missing"].meant(name)
    fill = None if pattern is None or options.missing[pattern] == "drop" else str(options.missing[pattern])
    days, zoned = dates_of(name, raw, options.date_format, fill)
    days = days[training]
    origin = float(np.floor(days.min(initial=np.inf))) if len(days) else 0.0
    column = Column(
        name, "date", fill=fill, parts=parts, origin=origin, date_format=options.date_format, zoned=bool(zoned)
    )
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
    """Return True if all values that are not missing are numbers; booleans are not numbers."""
    if raw.dtype.kind != "O":
        return raw.dtype.kind in "iuf"
    return all(is_no_value(text) or is_number_text(text) for text in raw.tolist())


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


def _require_classes(name: str, texts: list[str]) -> None:
    """Raise DataError for texts that are unlikely to be classes: mostly numbers, or dates."""
    there = [(row, text) for row, text in enumerate(texts) if text]
    odd = [(row, text) for row, text in there if not is_number_text(text)]
    classes, drop = _option("class", name), _option("drop", name)
    others = f"{classes} takes all as classes, {drop} leaves the column out"
    if len(odd) * 2 <= len(there):
        row, text = odd[0]
        what = f"is {shown(text)}, and {len(there) - len(odd)} rows have numbers"
        raise RowError(row, name, f"{what}; mend it, or empty it and say {_fill(name, 'mean')}; {others}")
    if all(_COMMA.fullmatch(text) or is_number_text(text) for _, text in there):
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
    name: str,
    raw: Array,
    training: Array,
    fill: str | float | None,
    levels: Levels,
    *,
    asked: bool,
) -> Column:
    texts = texts_of(raw) if levels.exact else class_texts(raw)
    if not asked and not levels.values:
        _say_units(name, texts.tolist())
    form: Form = "text" if levels.exact else form_of(texts.tolist())
    if form != "text":
        texts = mapped(texts.tolist(), lambda text: canonical(text, form))
    there = [text for text in texts.tolist() if text]
    known = [*dict.fromkeys(level if levels.exact else canonical(level, form) for level in levels.values)]
    values = known if known and set(there) <= set(known) else class_order(form, there)
    if not asked and not levels.values:
        _require_few(name, len(values), len(raw))
    fill = _class_fill(name, fill, form, texts[training].tolist())
    if fill is None and len(there) < len(texts):
        raise _missing(name, texts == "", "other")
    if fill is not None and fill not in values:
        values.append(fill)
    _say_alike(name, form, class_texts(raw).tolist(), exact=levels.exact)
    column = Column(name, "class", tuple(values), fill=fill)
    return column if column.classes_are == form else replace(column, form=form)


def _require_few(name: str, count: int, rows: int) -> None:
    """Raise DataError if a column has too many different texts for classes; log a warning if it has many."""
    if count <= max(_SEVERAL, rows // 2):
        return
    classes, text = _option("class", name), as_asked(f"--text {name}=100", f"text={{{name!r}: 100}}")
    what = f"{name!r} has {count} different texts in {rows} rows"
    ways = f"leave it out by {_option('drop', name)}, keep it as text by {text}, or as classes by {classes}"
    if count > max(_MANY, rows // 2):
        raise DataError(f"{what}; {ways}")
    _log.warning("%s, which become as many classes; %s", what, ways)


def _say_alike(name: str, form: Form, texts: list[str], *, exact: bool) -> None:
    """Warn of different classes that other readers may take for equal, and of equal ones with several spellings."""
    if form == "text" and not exact:
        for number, spellings in list(number_spellings(texts).items())[:1]:
            _log.warning(
                "%r has %s, which are different classes here; programs that read numbers take them all for %s",
                *(name, " and ".join(map(repr, spellings)), number),
            )
    if form == "number":
        for text, spellings in list(_merged(texts).items())[:1]:
            _log.warning(
                "%r has %s, which are one number, and so the one class %s",
                *(name, " and ".join(map(repr, spellings)), text),
            )


def _merged(texts: list[str]) -> dict[str, list[str]]:
    """Return, by class, the spellings of numbers that are spelled in several ways, such as 1.1 and 1.10."""
    found: dict[str, list[str]] = {}
    for text in sorted({text for text in texts if "." in text}):
        found.setdefault(canonical(text, "number"), []).append(text)
    return {text: spellings for text, spellings in found.items() if len(spellings) > 1 and "." in text}


def _say_units(name: str, texts: list[str]) -> None:
    """Log texts that are numbers but for signs, a unit or another notation, and become classes."""
    there = dict.fromkeys(text for text in texts if text)
    odd = [text for text in there if not is_number_text(text)]
    units = {unit[1] for text in odd if (unit := _UNIT.search(text))}
    if odd and all(is_number_text(_bare(text, units)) for text in odd):
        _log.warning(
            "%r has texts such as %s, which become %d classes and no numbers; write numbers alone, or say %s",
            *(name, shown(odd[0]), len(there), _option("class", name)),
        )


def _bare(text: str, units: set[str]) -> str:
    """Return a text without what stands around or in a number; a unit goes if it is the only one of a column."""
    if _TIME.fullmatch(text):
        return text.replace(":", "")
    if len(units) == 1:
        text = _UNIT.sub("", text)
    text = re.sub(r"^\((.+)\)$", r"-\1", text.strip())
    return _SIGNS.sub("", text.replace("\u2212", "-"))


def _class_fill(name: str, fill: str | float | None, form: Form, trained: list[str]) -> str | None:
    """Return the class of missing values; raise DataError for a replacement that is for numbers."""
    if fill in _FOR_NUMBERS:
        raise DataError(f"{name!r} has classes, which have no {fill}; say most, a class, or drop for the row")
    if fill == "most":
        seen = Counter(text for text in trained if text)
        return min(seen, key=lambda text: (-seen[text], text)) if seen else None
    return None if fill is None else canonical(spelled(fill), form)


def _numbers(
    name: str, raw: Array, training: Array, fill: str | float | None, *, whole: bool, standard: bool, transform: str
) -> Column:
    numbers = numbers_of(name, raw)
    known = numbers[training][~np.isnan(numbers[training])]
    if fill in _FOR_NUMBERS:
        if not len(known):
            raise DataError(f"{name!r} has no value in the training rows, so there is no {fill} of them")
        fill = float(np.mean(known) if fill == "mean" else np.median(known))
    if fill is not None:
        fill = _number_fill(name, fill, whole=whole)
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


def _number_fill(name: str, fill: str | float, *, whole: bool) -> float:
    """Return the number that replaces missing ones, as an integer if float64 is too short; else raise DataError."""
    try:
        number = float(fill)
        if not isfinite(number):
            raise ValueError(fill)
        exact = int(fill) if whole and number.is_integer() and abs(number) >= 1 << 53 else number
    except (OverflowError, ValueError):
        raise DataError(
            f"{name!r} is a column of numbers; for a missing one say a number, mean, median, or drop for the row, not "
            f"{fill!r}{'; each column has an option of its own' if '=' in str(fill) else ''}"
        ) from None
    return exact


def _say_zeros(name: str, raw: Array, row_name: Callable[[int], str]) -> None:
    """Warn of numbers with zeros in front, which may be codes, such as those of towns."""
    if raw.dtype.kind in "biuf":
        return
    row = next((row for row, text in enumerate(raw) if isinstance(text, str) and _CODE.match(text)), None)
    if row is not None:
        _log.warning(
            "%r has numbers with zeros in front, which are lost, %s in %s the first; %s makes classes of them",
            *(name, raw[row].strip(), row_name(row), _option("class", name)),
        )


def _say_rounded(name: str, raw: Array, row_name: Callable[[int], str]) -> None:
    numbers = numbers_of(name, raw)
    with np.errstate(all="ignore"):
        size, single = np.abs(numbers), numbers.astype(np.float32)
        is_whole = (numbers == np.round(numbers)) & (size < 1 << 63)
        lost = is_whole & ((single != numbers) | (size >= 1 << 53))  # float64 may have rounded it before
    if lost.any():
        row = int(lost.argmax())
        _log.warning(
            "%r has whole numbers that float32 rounds, %s in %s the first; %s keeps them, %s makes classes of them",
            *(name, str(raw[row]).strip(), row_name(row), _option("whole", name), _option("class", name)),
        )


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
