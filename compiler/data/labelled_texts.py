"""Texts with classes as rows of codes for an encoder: those of a table, or of lines of JSON.

1. A row has `text`, perhaps `pair`, a second text, and `label`: a text, or the number of a class from 0 on.
2. The tokenizer adds the codes that begin, separate and end texts, and tells the two texts apart by `types`. A longer
   row is cut by the tokenizer's rule, which keeps these codes; a shorter one is filled, and `lengths` counts its codes.
3. The classes are those that the model's config names, if all labels are among them, else the labels in order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import numpy as np

from compiler.data.chats import ChatOptions, Rows, about_rows, given_texts, is_text, one_after_another, parts_of
from prograd_proto.spelling import closest
from runtime.dtypes import Array
from runtime.errors import DataError, UsageError
from runtime.language.model import read_file, read_files
from runtime.language.tokenizer import Tokenizer, named_code
from runtime.rows.encoding.column import Column
from runtime.rows.encoding.csv_rows import read_csv
from runtime.rows.encoding.encoding import Encoding

TABLES: Final = (".csv", ".tsv")
MOST_CLASSES: Final = 1 << 16


class Labelled(NamedTuple):
    """A text, its place in the source, a second text or "", and its label or None."""

    where: str
    text: str
    pair: str | None
    label: str | int | None


def are_labelled(source: Path, like: Path | None) -> bool:
    """Return True if the source is a table, lines of JSON whose first line has a label, or packed like other rows."""
    if like is not None or source.suffix in TABLES:
        return True
    if source.suffix not in (".jsonl", ".json"):
        return False
    return next(("label" in given for _, given in given_texts(source)), False)


def packed_labelled(source: Path, options: ChatOptions, like: Path | None = None) -> Rows:
    """Return the rows of a file of texts with labels.

    With `like`, the classes are those of these rows, and labels may be missing.

    Raises DataError for a file, a text or a label that cannot be read.
    """
    if options.together:
        raise UsageError("--together: a text with a label has a row of its own")
    files = read_files(options.folder)
    tokenizer = Tokenizer(files["tokenizer.json"], str(options.folder / "tokenizer.json"))
    given = _read(source)
    if not given:
        raise DataError(f"{source}: there are no texts")
    names = _classes(source, given, options.folder) if like is None else classes_of(like)
    pad = named_code(files, tokenizer, "pad_token") or 0
    parts = parts_of(options, len(given))
    order = [number for numbers in parts.values() for number in numbers]
    splits = one_after_another({name: len(numbers) for name, numbers in parts.items()})
    arrays, cut = _arrays([given[number] for number in order], tokenizer, options.length, pad)
    labels = [_number(given[number], names) for number in order]
    if any(label is not None for label in labels):
        arrays["label"] = np.array([_there(given[n], label) for n, label in zip(order, labels, strict=True)], np.int64)
    about = about_rows(options, files, tokenizer, arrays["codes"][0][: arrays["lengths"][0]], classes=names)
    encoding = Encoding({"label": Column("label", "class", tuple(names))}).metadata
    return Rows(arrays, splits, about | encoding, len(given), cut)


def _read(source: Path) -> list[Labelled]:
    """Return the texts of a source."""
    if source.suffix not in TABLES:
        return [_of_json(where, given) for where, given in given_texts(source)]
    table = read_csv(source)
    if "text" not in table.columns:
        hint = closest("text", table.columns)
        raise DataError(f"{source}: there is no column text, from which the texts are taken{hint}")
    columns = {name: table.columns.get(name) for name in ("text", "pair", "label")}
    rows = [{n: str(c[i]) for n, c in columns.items() if c is not None} for i in range(len(table.lines))]
    lines = table.lines.tolist()
    return [
        Labelled(f"{source}, line {line}", row["text"], row.get("pair"), row.get("label"))
        for line, row in zip(lines, rows, strict=True)
    ]


def _of_json(where: str, given: Mapping[str, Any]) -> Labelled:
    label = given.get("label")
    if not isinstance(label, str | int | None) or isinstance(label, bool):
        raise DataError(f"{where}: label is {str(label)[:40]}, neither a text nor a whole number")
    pair = None if given.get("pair") is None else is_text(where, "pair", given["pair"])
    return Labelled(where, is_text(where, "text", given.get("text")), pair, label)


def _classes(source: Path, given: Sequence[Labelled], folder: Path) -> list[str]:
    """Return the names of the classes in the order of their numbers."""
    labels = {each.label for each in given}
    if None in labels:
        first = next(each for each in given if each.label is None)
        raise DataError(f"{first.where}: there is no label; --like ROWS packs texts without labels as these rows are")
    known = _known_classes(folder)
    if labels <= {*known}:
        return known
    if all(_is_number(label) for label in labels):
        last = max(int(cast(int, label)) for label in labels)
        if not 0 < last < MOST_CLASSES or min(int(cast(int, label)) for label in labels) < 0:
            raise DataError(f"{source}: labels that are numbers count classes from 0, and the largest is {last}")
        return known if last < len(known) else [str(number) for number in range(last + 1)]
    if len(labels) < 2:
        raise DataError(f"{source}: all labels are {next(iter(labels))!r}; there is nothing to tell apart")
    if len(labels) > MOST_CLASSES:
        raise DataError(f"{source}: there are {len(labels)} labels, more than {MOST_CLASSES} classes")
    return sorted(str(label) for label in labels)


def _known_classes(folder: Path) -> list[str]:
    """Return the names of the classes that a model's config has; none if it has none, or cannot be read."""
    try:
        given: Any = json.loads(read_file(folder / "config.json")).get("id2label") if folder.is_dir() else None
        names: list[Any] = [given[str(number)] for number in range(len(given or ()))]
    except (DataError, ValueError, AttributeError, KeyError, TypeError, RecursionError):
        return []
    return names if all(isinstance(name, str) for name in names) else []


def classes_of(rows: Path) -> list[str]:
    """Return the names of the classes in a file of rows; raise DataError if the file has no classes."""
    column = Encoding.of_file(rows).columns.get("label")
    if column is None or column.kind != "class":
        raise DataError(f"{rows}: these rows have no classes of texts")
    return [str(value) for value in column.values]


def _number(given: Labelled, names: Sequence[str]) -> int | None:
    """Return the number of a text's class; None if it has no label."""
    label = given.label
    if label is None:
        return None
    if str(label) in names:
        return names.index(str(label))
    if _is_number(label) and 0 <= int(label) < len(names):
        return int(label)
    raise DataError(f"{given.where}: the label {label!r} is none of {', '.join(names[:8])}{closest(str(label), names)}")


def _is_number(label: str | int | None) -> bool:
    return isinstance(label, int) or (label is not None and re.fullmatch("[0-9]{1,9}", label) is not None)


def _there(given: Labelled, label: int | None) -> int:
    if label is None:
        raise DataError(f"{given.where}: there is no label, and other texts have one")
    return label


def _arrays(given: Sequence[Labelled], tokenizer: Tokenizer, length: int, pad: int) -> tuple[dict[str, Array], int]:
    """Return codes, types and lengths, and the number of texts that were cut."""
    codes = np.full((len(given), length), pad, np.int32)
    types, lengths, cut = np.zeros(codes.shape, np.int32), np.zeros(len(given), np.int32), 0
    for row, each in enumerate(given):
        try:
            own, kinds, is_cut = tokenizer.row(each.text, each.pair, length)
        except ValueError as error:
            raise DataError(f"{each.where}: {error}") from None
        if not own:
            raise DataError(f"{each.where}: the text has no codes")
        codes[row, : len(own)], types[row, : len(own)], lengths[row] = own, kinds, len(own)
        cut += is_cut
    return {"codes": codes, "types": types, "lengths": lengths}, cut
