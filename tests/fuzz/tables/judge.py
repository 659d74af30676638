"""The comparison of what every source of a table gives: packed arrays, and rows encoded for a prediction.

1. The lists of Python are packed; their arrays are the ones that are wanted.
2. Every other source gives the same arrays, or is refused in a sentence.
3. By the encoding of the lists, every source gives the same rows for these and for new values, all at once, in pieces,
   and one by one as a server gets them; or all of them are refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from compiler.data.options import PackOptions, options_of
from compiler.data.pack import Packed, packed, packed_like
from compiler.data.write import write
from fuzz.campaign import Trial
from fuzz.tables.sources import Table, later, requests_of, sources, table
from fuzz.verdict import Verdict
from prograd import Program, load
from runtime.errors import DataError, UsageError
from runtime.memory.limit import NO_LIMIT
from runtime.rows.encoding.encoding import Encoding
from runtime.rows.tables import csv_pieces
from runtime.rows.tables.json_pieces import piece_of
from runtime.rows.tables.read_table import table_pieces
from runtime.runs.raw.single_rows import SingleRows
from runtime.serving.raw_requests import RawRequests

Arrays = Mapping[str, np.ndarray]

EVERY = 8
"""One of this many tables is sent to a program as one request too."""

PIECE_CHARACTERS = 200
"""Characters of the pieces in which files are read as for a prediction."""


def tried(seed: int) -> Trial:
    """Try the table of a seed."""
    trial = Trial(seed)
    with TemporaryDirectory() as folder:
        trial.note(judged(table(seed), Path(folder), seed))
    return trial


def judged(given: Table, folder: Path, seed: int) -> list[Verdict]:
    """Return the verdicts on a table, and on new rows that are encoded like it."""
    try:
        options = options_of(given.options)
        wanted = packed(given.mapping, options)
    except (DataError, UsageError) as error:
        return [Verdict("skipped", "lists", "packing", _kind(error))]
    except Exception as error:
        return [Verdict("raised", "lists", "packing", f"{type(error).__name__}: {error}")]
    arrays = wanted.arrays | wanted.splits
    found = [
        _compared(name, "packing", arrays, lambda s=source: _packed(s, options))
        for name, source in sources(given, folder, seed)
    ]
    for new in ([] if _drops(given) else [given]) + [later(given, seed)]:
        found += _encoded(new, wanted, folder, seed)
    return found


def _encoded(given: Table, wanted: Packed, folder: Path, seed: int) -> list[Verdict]:
    """Return the verdicts on rows that are encoded as others were packed."""
    encoding = wanted.encoding
    try:
        rows = _like(given.mapping, encoding)
    except (DataError, UsageError) as error:
        return _all_refused(given, encoding, folder, seed, error)
    found: list[Verdict] = []
    for name, source in sources(given, folder, seed):
        found.append(_compared(name, "encoding", rows, lambda s=source: _like(s, encoding)))
        if isinstance(source, Path):
            found.append(_compared(name, "pieces", rows, lambda s=source: _pieces(s, encoding)))
    found.append(_compared("server", "rows", rows, lambda: _served(requests_of(given), encoding)))
    if seed % EVERY == 0 and not any(column.is_ragged for column in encoding.columns.values()):
        found.append(_compared("server", "requests", rows, lambda: _requested(requests_of(given), wanted, folder)))
    return found


def _all_refused(given: Table, encoding: Encoding, folder: Path, seed: int, error: Exception) -> list[Verdict]:
    """Return a verdict on rows that lists have refused: every source with the same values refuses them."""
    for name, source in sources(given, folder, seed):
        try:
            _like(source, encoding)
        except (DataError, UsageError):
            continue
        except Exception as other:
            return [Verdict("raised", name, "encoding", f"{type(other).__name__}: {other}")]
        return [Verdict("differs", name, "encoding", f"is not refused, and lists are: {error}")]
    return [Verdict("agreed", "all sources", "refusal")]


def _compared(judge: str, what: str, wanted: Arrays, of: Any) -> Verdict:
    try:
        found = of()
    except (DataError, UsageError) as error:
        return Verdict("skipped", judge, what, _kind(error))
    except Exception as error:
        return Verdict("raised", judge, what, f"{type(error).__name__}: {error}")
    for name in {**wanted, **found}:
        if name not in wanted or name not in found:
            return Verdict("differs", judge, what, f"{name!r} is missing")
        a, b = wanted[name], found[name]
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            return Verdict("differs", judge, what, f"{name!r} is {b.dtype}{b.shape}, not {a.dtype}{a.shape}")
        if a.tobytes() != b.tobytes():
            return Verdict(
                "differs", judge, what, f"{name!r} is {b.ravel()[:8].tolist()}, not {a.ravel()[:8].tolist()}"
            )
    return Verdict("agreed", judge, what)


def _packed(source: object, options: PackOptions) -> Arrays:
    found = packed(source, options)
    return found.arrays | found.splits


def _like(source: object, encoding: Encoding) -> Arrays:
    return packed_like(source, encoding, PackOptions()).arrays


def _keys(encoding: Encoding) -> list[str]:
    members = {name for names in encoding.joined.values() for name in names}
    return [*(name for name in encoding.columns if name not in members), *encoding.joined]


def _pieces(path: Path, encoding: Encoding) -> Arrays:
    """Return the rows of a file that is read as for a prediction, in pieces, with numbers taken at once."""
    numbers = {
        c.name for c in encoding.columns.values() if c.kind == "number" and not (c.decimal or c.listed or c.values)
    }
    before, csv_pieces.PIECE_CHARACTERS = csv_pieces.PIECE_CHARACTERS, PIECE_CHARACTERS
    try:
        pieces = [piece.columns for piece in table_pieces(path, encoding.columns.keys(), numbers=numbers)]
    finally:
        csv_pieces.PIECE_CHARACTERS = before
    return _behind(encoding.encode(columns, _keys(encoding)) for columns in pieces)


def _served(rows: list[dict[str, Any]], encoding: Encoding) -> Arrays:
    """Return rows as a server encodes them, one after the other."""
    keys = {key: key for key in _keys(encoding)}
    is_ragged = any(column.is_ragged for column in encoding.columns.values())
    single = SingleRows(encoding, keys)
    parts: list[Arrays] = []
    for row in rows:
        whole = {name: row.get(name) for name in encoding.columns}
        by_value = None if is_ragged else single.feeds([row])
        by_columns = encoding.encode(piece_of([whole], np.arange(1), in_lines=False).columns, keys)
        if by_value is not None and any(by_value[key].tobytes() != by_columns[key].tobytes() for key in keys):
            raise AssertionError(f"{row} is encoded otherwise value by value")
        parts.append(by_columns)
    return _behind(parts)


def _requested(rows: list[dict[str, Any]], wanted: Packed, folder: Path) -> Arrays:
    """Return rows as a server makes feeds of a whole request, for a program that reads every array."""
    (folder / "rows.pb").unlink(missing_ok=True)
    write(folder / "rows.safetensors", wanted.arrays, metadata=wanted.encoding.metadata)
    program, keys = Program("rows"), [*wanted.arrays]
    for number, key in enumerate(keys):
        array = wanted.arrays[key]
        x = program.input(f"x{number}", str(array.dtype), ("batch", *array.shape[1:]))
        program.outputs(**{f"y{number}": x + 0})
    program.data(
        "rows.safetensors",
        columns={f"x{number}": key for number, key in enumerate(keys)},
        shuffle=False,
        remainder="drop",
    )
    with chdir(folder):
        program.compile(batch=1).save("rows.pb")
    session = load(folder / "rows.pb", engine="reference").session
    body = json.dumps([{name: row.get(name) for name in wanted.encoding.columns} for row in rows]).encode()
    request = RawRequests(session, "predict", {}).read(body, NO_LIMIT, form="application/json")
    assert request is not None, "a list of objects has raw rows"
    return {key: request.feeds[f"x{number}"] for number, key in enumerate(keys)}


def _behind(parts: Iterable[Arrays]) -> Arrays:
    """Return the arrays of parts as one; offsets of unequal rows count on."""
    found: dict[str, np.ndarray] = {}
    for part in parts:
        for name, array in part.items():
            if name not in found:
                found[name] = array
            elif name.endswith(".offsets"):
                found[name] = np.concatenate([found[name], array[1:] + found[name][-1]])
            else:
                found[name] = np.concatenate([found[name], array])
    return found


def _drops(given: Table) -> bool:
    return "drop" in given.options.get("missing", {}).values()


def _kind(error: Exception) -> str:
    """Return the words of a refusal that do not depend on the row."""
    from re import sub

    return sub(r"^/\S+: |'[^']*'|\"[^\"]*\"|\d[\d.e+-]*", "#", str(error))[:70]
