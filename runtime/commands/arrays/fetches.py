"""The options `--fetch` and `--expect`: arrays to print, to write, to compare."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from prograd_proto import TensorType
from prograd_proto.printable import MAX_WORD_CHARACTERS, printable, sentence
from runtime.command_line.streams import put
from runtime.dtypes import Array
from runtime.errors import UsageError
from runtime.files.output import require_form
from runtime.files.tensor_files import read_npy, write_npy
from runtime.memory.limit import MemoryLimit
from runtime.rows.confusion import is_confusion

_PRINTED_WHOLE = 1000
_LONG_TEXT = 80
_CLASS_CHARACTERS = 24  # of the name of a class in a printed matrix
_CORNER = "label \\ predicted"


class Wanted(NamedTuple):
    """A fetch by name, and the .npy file to write or to compare with; None to print it."""

    name: str
    file: Path | None


def wanted_fetches(given: Sequence[str]) -> list[Wanted]:
    """Return the parsed `name` or `name=@file.npy`.

    Raises UsageError for anything else, and for files of other formats.
    """
    wanted = [_parsed(text, "--fetch", optional=True) for text in given]
    for _, file in wanted:
        if file is not None:
            require_form(file, ".npy", "fetched arrays")
    return wanted


def expectations(given: Sequence[str], memory: MemoryLimit) -> dict[str, tuple[Path, Array]]:
    """Return the parsed `name=@file.npy` with the array of each file.

    Raises UsageError for anything else, DataError for a bad file.
    """
    parsed = [_parsed(text, "--expect", optional=False) for text in given]
    return {name: (file, read_npy(file, memory)) for name, file in parsed if file is not None}


def give(
    wanted: Sequence[Wanted],
    arrays: Mapping[str, Array],
    *,
    force: bool,
    classes: Callable[[int], list[str] | None] = lambda count: None,
) -> None:
    """Print or write the fetched arrays; `classes` returns the names of a number of classes, for confusion matrices."""
    for name, file in wanted:
        if file is None and (names := _classes_of(arrays[name], classes)):
            put(f"{sentence(name, MAX_WORD_CHARACTERS)}: {_type(arrays[name])}, a row for each label")
            put("\n".join(_confusion(arrays[name], names)))
        elif file is None:
            put(f"{sentence(name, MAX_WORD_CHARACTERS)}: {_type(arrays[name])} = {_shown(arrays[name])}")
        else:
            write_npy(file, arrays[name], force=force)


def differences(
    expected: Mapping[str, tuple[Path, Array]], arrays: Mapping[str, Array], *, rtol: float, atol: float
) -> list[str]:
    """Return a sentence for each array that differs from the expected one; NaN equals NaN."""
    found = (_difference(name, arrays[name], file, array, rtol, atol) for name, (file, array) in expected.items())
    return [sentence for sentence in found if sentence]


def _classes_of(array: Array, classes: Callable[[int], list[str] | None]) -> list[str] | None:
    """Return the names of the classes of a confusion matrix that is small enough to print; None for other arrays."""
    return classes(len(array)) if is_confusion(array) and array.size <= _PRINTED_WHOLE else None


def _confusion(counts: Array, names: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a confusion matrix: labels down, predictions across."""
    words = [sentence(name, _CLASS_CHARACTERS) for name in names]
    table = [[_CORNER, *words], *([word, *map(str, row)] for word, row in zip(words, counts, strict=True))]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for first, *cells in table:
        yield "  ".join([first.ljust(widths[0]), *map(str.rjust, cells, widths[1:])])


def _parsed(text: str, option: str, *, optional: bool) -> Wanted:
    name, at, file = text.partition("=@")
    if not name or (at and not file) or not (at or optional):
        form = "name or name=@file.npy" if optional else "name=@file.npy"
        raise UsageError(f"{option} {text}: write {form}")
    return Wanted(name, Path(file) if at else None)


def _difference(name: str, got: Array, file: Path, wanted: Array, rtol: float, atol: float) -> str:
    if (got.dtype, got.shape) != (wanted.dtype, wanted.shape):
        return f"{name!r} is {_type(got)}, and {file} has {_type(wanted)}"
    apart = ~np.isclose(got, wanted, rtol=rtol, atol=atol, equal_nan=True)
    if not apart.any():
        return ""
    if got.dtype == bool:
        size = apart.astype(np.float64)
    else:
        with np.errstate(all="ignore"):
            size = np.where(apart, np.abs(got.astype(np.float64) - wanted.astype(np.float64)), -1.0)
    worst = np.unravel_index(int(np.argmax(np.where(np.isnan(size), np.inf, size))), got.shape)
    at = f" at {[int(i) for i in worst]}" if got.ndim else ""
    return (
        f"{name!r} differs from {file} in {np.count_nonzero(apart)} of {got.size} elements, most{at}: "
        f"{got[worst]} instead of {wanted[worst]} (rtol={rtol:g}, atol={atol:g})"
    )


def _type(array: Array) -> str:
    return str(TensorType("text" if array.dtype.kind == "U" else array.dtype.name, array.shape))


def _shown(array: Array) -> str:
    if array.dtype.kind == "U" and any(len(text) > _LONG_TEXT for text in array.flat):
        return "".join(f"\n{_lines(str(text))}" for text in array.flat)
    text = np.array2string(array, threshold=_PRINTED_WHOLE, max_line_width=120, separator=", ")
    return text if "\n" not in text else "\n" + text


def _lines(text: str) -> str:
    """Return a text in its own lines, as a reader expects it, with escapes for what else a terminal acts upon."""
    return "\n".join(f"  {printable(line)}" for line in text.split("\n"))
