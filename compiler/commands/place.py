"""The verb `compiler place`: the planner alone, from a table of buffers to a table with offsets."""

from __future__ import annotations

import argparse
import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from compiler.commands.notes import note
from compiler.errors import DataError, LimitError
from prograd_proto.regular_files import open_regular
from runtime.command_line.streams import put
from runtime.files.output import write_output
from runtime.placement import EXHAUSTIVE, Buffer, Placement, check_placement
from runtime.placement import place as place_buffers

COLUMNS: Final = ("id", "lower", "upper", "size")
MAX_DIGITS: Final = 18
MOST_BYTES: Final = 1 << 62


def place(options: argparse.Namespace) -> None:
    """Read the table, place, check, and write the table with offsets; nothing is written on an error."""
    buffers = read_buffers(options.buffers)
    capacity = 0 if options.capacity is None else options.capacity
    effort = replace(EXHAUSTIVE, moves=options.moves)
    placement = place_buffers(buffers, effort, alignment=options.alignment, capacity=capacity, seconds=options.seconds)
    check_placement(buffers, placement.offsets, placement.arena_bytes, alignment=options.alignment)
    if options.capacity is not None and placement.arena_bytes > options.capacity:
        raise LimitError(f"{options.buffers}: {_too_large(placement, options.capacity, options.seconds)}")
    table = table_of(buffers, placement.offsets)
    if options.output is None:
        put(table.removesuffix("\n"))
    else:
        write_output(options.output, table.encode(), force=options.force)
    note(options, summary_of(buffers, placement, capacity))


def read_buffers(path: str) -> list[Buffer]:
    """Return the buffers of a CSV file; raise DataError with the line number of an error."""
    try:
        with io.TextIOWrapper(open_regular(path), encoding="utf-8-sig", newline="") as file:
            return _buffers(path, file)
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    except OSError as error:
        raise DataError(f"{path}: the file cannot be read: {error.strerror or error}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: this is not a table of comma-separated values: {error}") from error


def table_of(buffers: Sequence[Buffer], offsets: Sequence[int]) -> str:
    """Return the table with offsets, in the order of the buffers."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((*COLUMNS, "offset"))
    writer.writerows((b.name, b.start, b.stop, b.nbytes, offset) for b, offset in zip(buffers, offsets, strict=True))
    return text.getvalue()


def summary_of(buffers: Sequence[Buffer], placement: Placement, capacity: int = 0) -> str:
    """Return one line about the arena: its size, its bound, and the reason why the search ended."""
    above = placement.arena_bytes / (placement.lower_bound or 1) - 1 if placement.arena_bytes else 0
    return (
        f"OK buffers={len(buffers)} arena={placement.arena_bytes} lower_bound={placement.lower_bound} "
        f"above={above:.3%} optimal={'yes' if placement.optimal else 'unknown'} "
        f"by={placement.method.replace(' ', '-')} ended={_ended(placement, capacity)}"
    )


def _ended(placement: Placement, capacity: int) -> str:
    if placement.optimal:
        return "bound" if placement.arena_bytes == placement.lower_bound else "proof"
    if placement.arena_bytes <= capacity:
        return "capacity"
    return "seconds" if placement.stopped else "moves"


def _buffers(path: str, file: io.TextIOBase) -> list[Buffer]:
    rows = csv.reader(file, strict=True)
    header: list[str] = next(rows, list[str]())
    _check_header(path, header)
    result: list[Buffer] = []
    line_of: dict[str, int] = {}
    for row in rows:
        if not row:
            continue
        where = f"{path}, line {rows.line_num}"
        if len(row) != len(header):
            raise DataError(f"{where}: there are {len(row)} values; the first line names {len(header)} columns")
        buffer = _buffer(where, dict(zip(header, row, strict=True)))
        if line_of.setdefault(buffer.name, rows.line_num) != rows.line_num:
            raise DataError(f"{where}: the id {buffer.name!r} is that of line {line_of[buffer.name]} too; ids differ")
        result.append(buffer)
    together = sum(buffer.nbytes for buffer in result)
    if together > MOST_BYTES:
        raise DataError(f"{path}: the buffers have {together} bytes together; at most {MOST_BYTES} can be placed")
    return result


def _check_header(path: str, header: Sequence[str]) -> None:
    for column in (*COLUMNS, *header):
        if column not in header:
            raise DataError(f"{path}: there is no column {column!r}; the first line names {', '.join(COLUMNS)}")
        if header.count(column) > 1 or column not in (*COLUMNS, "offset"):
            raise DataError(f"{path}: the column {column!r} has no meaning here; take {', '.join(COLUMNS)}, each once")


def _buffer(where: str, row: dict[str, str]) -> Buffer:
    if not row["id"].isprintable():
        raise DataError(f"{where}: the id {row['id']!r} has letters that cannot be printed")
    for column in COLUMNS[1:]:
        text = row[column]
        if not (text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS):
            raise DataError(f"{where}: {column} is {text!r}; it is a whole number of at most {MAX_DIGITS} digits")
    lower, upper, size = (int(row[column]) for column in COLUMNS[1:])
    if lower >= upper:
        raise DataError(f"{where}: lower is {lower} and upper is {upper}; a buffer lives from lower until before upper")
    return Buffer(row["id"], size, lower, upper)


def _too_large(placement: Placement, capacity: int, seconds: float) -> str:
    if placement.lower_bound > capacity:
        return f"{placement.lower_bound} bytes are alive at once, more than the capacity of {capacity}"
    if placement.optimal:
        return f"every placement takes {placement.arena_bytes} bytes or more, which exceeds the capacity of {capacity}"
    found = f"the smallest arena found has {placement.arena_bytes} bytes, more than the capacity of {capacity}"
    if placement.stopped:
        return f"{found}, in {seconds:g} seconds; --max-time gives it more"
    return f"{found}, and there are no moves left; --moves allows more"
