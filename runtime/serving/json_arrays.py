"""Arrays in a large JSON body, read in pieces, so that what Python's parser builds of a body stays small.

1. The names of an object are read one after another; the value of each is found by its brackets.
2. The brackets and commas of a value, without its numbers, are compared with those of an array of the feed's shape.
   Nothing is allocated for lists of other shapes, however many there are.
3. Then the array is allocated, and its numbers are parsed in pieces, each a flat list.

Small bodies are left to Python's parser, which is as fast and has at most `PARSED_BYTES_RATIO` bytes for each byte.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from math import prod
from typing import Any, Final

import numpy as np

from runtime.dtypes import Array, array_type, numpy_dtype
from runtime.entries import BoundEntry, Feed
from runtime.errors import DataError
from runtime.memory.limit import MemoryLimit
from runtime.rows.rows import as_array, check_names, shown_feed
from runtime.serving.bodies import Bytes

MAX_PARSED_BYTES: Final = 1 << 16
"""Largest number of bytes that Python's parser gets at a time, a body or a piece of one."""

PARSED_BYTES_RATIO: Final = 48
"""Upper bound on the bytes that Python's parser allocates for a byte: empty lists take most."""

_BLANKS: Final = b" \t\r\n"
_MARKS: Final = b'[],{}"'
_NOT_MARKS: Final = bytes(byte for byte in range(256) if byte not in _MARKS)
_BLANKED: Final = bytes.maketrans(b"[]", b"  ")
_NAME: Final = re.compile(rb'\s*("(?:[^"\\]|\\.)*")\s*:\s*')
_NEXT: Final = re.compile(rb"\s*([,}])\s*")
_SCALAR: Final = re.compile(rb"[^\[\]{},\s]{1,1024}")


def parsed(body: Bytes) -> object:
    """Return the value of a body of JSON; raise ValueError for anything else, and for an object with a name twice."""
    return json.loads(bytes(body), object_pairs_hook=_object_of)


def _object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise ValueError(f"the name {counts.most_common(1)[0][0]!r} is there twice")
    return found


def large_json(body: Bytes, bound: BoundEntry, memory: MemoryLimit) -> dict[str, object]:
    """Return the arrays of a body by feed.

    Args:
        body: an object of arrays by feed, or the array of the only feed, in UTF-8.
        bound: entry whose feeds they are for.
        memory: asked before an array is allocated.

    Raises ValueError for malformed JSON, DataError for an array that does not fit its feed, ResourceLimit if it does
    not fit into the memory.
    """
    view = memoryview(body)
    start = _skip_blanks(body, 0)
    with memory.lent(PARSED_BYTES_RATIO * MAX_PARSED_BYTES, "a part of a body"):
        if body[start : start + 1] != b"{":
            if len(bound.feeds) != 1:
                names = ", ".join(bound.feeds) or "none"
                raise DataError(f"entry {bound.name!r} has the feeds {names}; give them by name")
            feed = next(iter(bound.feeds.values()))
            array, end = _array(view, start, bound, feed, memory)
            _require_end(body, end)
            return {feed.name: array}
        return _object(body, view, start + 1, bound, memory)


def _object(body: Bytes, view: memoryview, start: int, bound: BoundEntry, memory: MemoryLimit) -> dict[str, object]:
    found: dict[str, object] = {}
    while True:
        head = _NAME.match(body, start, min(len(body), start + MAX_PARSED_BYTES))
        if head is None:
            raise ValueError(f"there is no name of a feed at byte {start}")
        name: Any = json.loads(head[1])
        name = bound.names.own(name)
        if name not in bound.feeds:
            check_names(bound, {name: None})
        if name in found:
            raise ValueError(f"the name {name!r} is there twice")
        feed = bound.feeds[name]
        scalar = _SCALAR.match(body, head.end())
        if scalar is None:
            found[name], end = _array(view, head.end(), bound, feed, memory)
        else:
            found[name], end = json.loads(scalar[0]), scalar.end()
        after = _NEXT.match(body, end)
        if after is None:
            raise ValueError(f"there is neither a comma nor the end of the object at byte {end}")
        if after[1] == b"}":
            _require_end(body, after.end())
            return found
        start = after.end()


def _array(view: memoryview, start: int, bound: BoundEntry, feed: Feed, memory: MemoryLimit) -> tuple[Array, int]:
    """Return the array that begins at a byte, and where it ends."""
    end, marks = _extent(view, start)
    inner = feed.type.static_shape[feed.by_row :]
    with memory.lent(_count(inner) if _count(inner) < marks else 0, "the form of a body"):
        wrong = _first_wrong(view[start:end], marks, inner, by_row=feed.by_row)
    if wrong is not None:
        raise DataError(
            f"entry {bound.name!r}: the feed {feed.name!r} is {shown_feed(feed)}, "
            f"and the list given is none of this shape at byte {start + wrong}"
        )
    shape = (_rows(view[start:end], marks, inner), *inner) if feed.by_row else inner
    dtype = numpy_dtype(feed.type.dtype)
    memory.take(prod(shape) * dtype.itemsize, f"the array for the feed {feed.name!r}")
    out = np.empty(shape, dtype)
    memory.note(out)
    _fill(out, view[start:end], bound, feed)
    return out, end


def _fill(out: Array, view: memoryview, bound: BoundEntry, feed: Feed) -> None:
    """Write the numbers of a list, whose brackets are right, into an array."""
    flat, at = out.reshape(-1), 0
    for piece in _pieces(view):
        if not out.size:
            if piece.translate(None, _MARKS + _BLANKS):
                raise ValueError("there are numbers in an empty list")
            continue
        numbers = as_array(json.loads(b"[" + piece.translate(_BLANKED) + b"]"), feed.type.dtype)
        if numbers.dtype != out.dtype or numbers.ndim != 1:
            what = array_type(numbers).dtype if numbers.dtype.kind in "biuf" else "texts or null"
            raise DataError(
                f"entry {bound.name!r}: the feed {feed.name!r} is {shown_feed(feed)}, and the list given has {what}"
            )
        flat[at : at + len(numbers)] = numbers
        at += len(numbers)


def _extent(view: memoryview, start: int) -> tuple[int, int]:
    """Return the end of the list that begins at a byte, and the number of its brackets, commas and quotes."""
    depth = marks = 0
    for at in range(start, len(view), MAX_PARSED_BYTES):
        part = np.frombuffer(view[at : at + MAX_PARSED_BYTES], np.uint8)
        depths = depth + np.cumsum((part == ord("[")).astype(np.int32) - (part == ord("]")))
        ends = np.flatnonzero(depths <= 0)
        if at == start and part[0] != ord("["):
            break
        if len(ends):
            return at + int(ends[0]) + 1, marks + len(_marks(part[: int(ends[0]) + 1].tobytes()))
        depth = int(depths[-1])
        marks += len(_marks(part.tobytes()))
    raise ValueError(f"there is no whole list at byte {start}")


def _rows(view: memoryview, marks: int, inner: tuple[int, ...]) -> int:
    """Return the rows of a list whose brackets and commas are right."""
    if marks == 2 and not inner:
        return int(
            any(
                view[at : at + MAX_PARSED_BYTES].tobytes().strip(_MARKS + _BLANKS)
                for at in range(0, len(view), MAX_PARSED_BYTES)
            )
        )
    return (marks - 1) // (_count(inner) + 1) if marks > 2 else 0


def _first_wrong(view: memoryview, marks: int, inner: tuple[int, ...], *, by_row: bool) -> int | None:
    """Return where the brackets and commas of a list first differ from those of an array, None if they do not.

    Args:
        view: bytes of the list.
        marks: number of its brackets, commas and quotes.
        inner: shape of a row, or of the array if it has no rows.
        by_row: the list has any number of rows.
    """
    if marks == 2 and by_row:
        return None
    rest = (marks - 1) % (_count(inner) + 1) if by_row else marks - _count(inner)
    if _count(inner) + 2 * by_row > marks:
        return 0
    row = np.frombuffer(_nested(inner) + b",", np.uint8)
    at = place = 0
    for place in range(0, len(view), MAX_PARSED_BYTES):
        part = view[place : place + MAX_PARSED_BYTES].tobytes()
        found = np.frombuffer(_marks(part), np.uint8)
        numbers = np.arange(at, at + len(found))
        expected = row[(numbers - by_row) % len(row)]
        if by_row:
            expected = np.where(numbers == 0, ord("["), np.where(numbers == marks - 1, ord("]"), expected))
        different = np.flatnonzero(found != expected)
        if len(different):
            places = np.flatnonzero(np.isin(np.frombuffer(part, np.uint8), list(_MARKS)))
            return place + int(places[different[0]])
        at += len(found)
    return len(view) - 1 if rest else None


def _count(shape: tuple[int, ...]) -> int:
    """Return the number of brackets and commas of an array."""
    count = 0
    for extent in reversed(shape):
        count = 2 + extent * count + max(0, extent - 1)
    return count


def _nested(shape: tuple[int, ...]) -> bytes:
    """Return the brackets and commas of an array."""
    if not shape:
        return b""
    inner = _nested(shape[1:])
    return b"[" + b",".join([inner] * shape[0]) + b"]"


def _marks(part: bytes) -> bytes:
    return part.translate(None, _NOT_MARKS)


def _pieces(view: memoryview) -> Iterator[bytes]:
    """Yield a list in pieces that end at commas, without these."""
    start = 0
    while start < len(view):
        piece = view[start : start + MAX_PARSED_BYTES].tobytes()
        if start + len(piece) < len(view):
            cut = piece.rfind(b",")
            if cut < 0:
                raise ValueError(f"there are {MAX_PARSED_BYTES} bytes without a comma")
            piece = piece[:cut]
        yield piece
        start += len(piece) + 1


def _skip_blanks(body: Bytes, start: int) -> int:
    found = re.compile(rb"[ \t\r\n]*").match(body, start)
    return start if found is None else found.end()


def _require_end(body: Bytes, end: int) -> None:
    if _skip_blanks(body, end) != len(body):
        raise ValueError(f"there is more behind its end at byte {end}")
