"""An entry run over rows, and its predictions written as a table, in memory that does not grow with the rows.

1. The rows of a table, or the images of a folder, are read in pieces, and each is encoded by the encoding in the
   program.
2. The entry computes the rows of a piece, and its fetches become values and columns of the table.
3. The file appears when its last row is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import numpy as np

from prograd_proto.spelling import closest, closest_or_all
from runtime.commands.tables.fields import Field, fields_of
from runtime.commands.tables.writers import WRITERS
from runtime.dtypes import Array
from runtime.errors import DataError, UsageError
from runtime.files.output import write_output
from runtime.rows.encoding.encoding import Encoding
from runtime.rows.encoding.row_errors import original_rows
from runtime.rows.encoding.scores import Unanswered
from runtime.rows.orders import Listed
from runtime.rows.rows import Rows
from runtime.rows.table_names import are_images
from runtime.rows.tables.image_files import image_names, image_paths
from runtime.rows.tables.piece import PIECE_ROWS, Piece, with_rows_before
from runtime.rows.tables.read_table import table_pieces
from runtime.runs.evaluation import run_over
from runtime.runs.raw.answers import Answer, answers_of
from runtime.runs.raw.decoding import Decoding
from runtime.runs.raw.image_rows import ImageRows
from runtime.runs.raw.raw_rows import RawRows
from runtime.runs.run import Run

ID: Final = "id"
"""Name of the column of a table that names its rows, unless the encoding has a column of that name."""

_IMAGE_BYTES: Final = 1 << 26
"""Upper bound on the bytes of the images of a piece, unless one image is larger."""

ROW: Final = "row"
"""Name of the column of predictions that counts rows from 0, where nothing else names them."""

Between = Callable[[], None]


class Asked(NamedTuple):
    """The table to write.

    Attributes:
        out: path of the file.
        table: path of the table of new rows, of an image or of a folder of images; None for the program's own rows or
            arrays.
        feeds: arrays for the feeds, or the name of a split; unused with `table`.
        ids: column of the table that names its rows; None for the one called "id", or else the number of the row.
        decode: the column that each of some fetches predicts, or "utf-8"; the program tells those of the others.
        fetch: names of the fetches to write; all if there are none.
    """

    out: Path
    table: Path | None
    feeds: Mapping[str, object] | str | None
    ids: str | None
    decode: Decoding
    fetch: Sequence[str]


def predict_to_file(run: Run, entry: str, asked: Asked, *, force: bool, between: Between) -> int:
    """Write the predictions of an entry as a table, and return the number of its rows.

    Of several ranks, all compute and the first one writes.

    Raises UsageError for names that do not fit the entry, DataError for rows that cannot be read or encoded; there is
    no file then.
    """
    count, unanswered = 0, Unanswered()
    of = _of_rows if asked.table is None else _of_images if are_images(asked.table) else _of_table

    def write(stream: BinaryIO) -> None:
        nonlocal count
        with closing(WRITERS[asked.out.suffix.lower()](stream)) as writer:
            for fields in of(run, entry, asked, between):
                writer.write(fields)
                unanswered.add({field.path[0]: field.values for field in fields[1:] if len(field.path) == 1})
                count += len(fields[0].values)

    group = run.session.group
    if group is not None and group.rank:
        return sum(len(fields[0].values) for fields in of(run, entry, asked, between))
    write_output(asked.out, write, force=force)
    unanswered.warn()
    return count


def _of_table(run: Run, entry: str, asked: Asked, between: Between) -> Iterator[list[Field]]:
    """Yield the columns of predictions for the pieces of a table."""
    path = asked.table
    assert path is not None, "asked for rows of a table"
    rows = RawRows(run.session, entry, asked.decode.columns)
    answers = _chosen(rows.answers, entry, asked.fetch)
    ids = asked.ids or (ID if ID not in rows.names else None)
    wanted = [*rows.names, *([ids] if ids else [])]
    numbers = rows.numbers - {ids}
    done = found = 0
    for piece in with_rows_before(table_pieces(path, wanted, numbers=numbers, needed=rows.names), rows.lead):
        between()
        try:
            with original_rows(piece.numbers, lines=piece.in_lines):
                named = _named(piece, asked.ids, ids, done - (rows.lead if done else 0))
                done += len(piece) - (rows.lead if done else 0)
                ends = rows.ends(piece.columns, len(piece))
                found += len(ends)
                feeds = rows.feeds(piece.columns) if len(ends) else None
                named = named._replace(values=named.values[ends])
        except DataError as error:
            raise DataError(f"{path}: {error}") from None
        if feeds is not None:
            yield fields_of(named, answers, asked.decode.with_texts(_predicted(run, entry, feeds, between)))
    series = rows.encoding.series
    if not found and series is not None:
        raise DataError(f"{path}: {series.no_window(done, targets=False)}")


def _of_images(run: Run, entry: str, asked: Asked, between: Between) -> Iterator[list[Field]]:
    """Yield the names of an image, or of those of a folder, and their predictions."""
    folder, session = asked.table, run.session
    assert folder is not None, "asked for images"
    if asked.ids is not None:
        raise UsageError(f"--id {asked.ids} names a column of a table, and images have the names of their files as id")
    images = ImageRows(session, entry, asked.decode.columns)
    answers = _chosen(images.answers, entry, asked.fetch)
    paths = image_paths(folder)
    step = max(1, min(PIECE_ROWS, _IMAGE_BYTES // images.row_bytes))
    for start in range(0, len(paths), step):
        between()
        part = paths[start : start + step]
        names = image_names(part, folder)
        arrays = asked.decode.with_texts(_predicted(run, entry, images.feeds(part), between))
        yield fields_of(Field((ID,), names), answers, arrays)


def _predicted(run: Run, entry: str, feeds: Mapping[str, object], between: Between) -> Mapping[str, Array]:
    """Return the fetches for the rows of a piece; the ranks of a run share its steps."""
    if run.session.group is None:
        return run.predict(feeds, entry=entry, raw=False)
    return run_over(run.session, entry, run.session.rows(entry, feeds), between=between).arrays


def _named(piece: Piece, asked: str | None, ids: str | None, done: int) -> Field:
    """Return the column that names the rows."""
    if ids is not None and ids in piece.columns:
        values = piece.columns[ids]
        return Field((ids,), values)
    if asked is not None:
        raise DataError(f"--id {asked}: there is no column {asked!r}{closest(asked, piece.columns)}")
    return Field((ROW,), np.arange(done, done + len(piece)))


def _of_rows(run: Run, entry: str, asked: Asked, between: Between) -> Iterator[list[Field]]:
    """Yield the columns of predictions for rows that are encoded already."""
    if asked.ids is not None:
        raise UsageError(f"--id {asked.ids} names a column of a table; give one by --data, as in --data new.csv")
    session = run.session
    bound = session.bindings(entry)[0]
    encoding = session.data.encoding() if session.data.is_encoded or asked.decode.columns else Encoding({})
    answers = _chosen(answers_of(session.program, bound, encoding, asked.decode.columns), entry, asked.fetch)
    rows = session.rows(entry, asked.feeds)
    for start in range(0, len(rows), PIECE_ROWS):
        part = Rows(rows.columns, rows.whole, Listed(rows.order.numbers(start, PIECE_ROWS)))
        arrays = asked.decode.with_texts(run_over(session, entry, part, between=between).arrays)
        count = min(PIECE_ROWS, len(rows) - start)
        yield fields_of(Field((ROW,), np.arange(start, start + count)), answers, arrays)


def _chosen(answers: list[Answer], entry: str, fetch: Sequence[str]) -> list[Answer]:
    """Return the answers of the fetches that are named; raise UsageError if there are none."""
    known = [answer.fetch for answer in answers]
    for name in fetch:
        if name not in known:
            raise UsageError(f"--out: the entry {entry!r} has no fetch {name!r} with rows{closest_or_all(name, known)}")
    if not known:
        raise UsageError(f"--out: the entry {entry!r} has no fetch with rows; declare one by program.outputs")
    return [answer for answer in answers if not fetch or answer.fetch in fetch]
