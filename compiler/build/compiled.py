"""Compilation: binding, running the passes, and the finished program."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compiler.analyses.memory_report import MemoryReport
from compiler.build.brought_arrays import Arrays, file_of_arrays, write_arrays
from compiler.build.columns import data_files, keep_encoding, require_columns
from compiler.build.last_batch import Sizes, each, in_order, require_last_batch, row_symbol, sizes_of
from compiler.build.limits import require_within_limits
from compiler.build.other_words import no_attribute_of_compiled
from compiler.build.plugins import require_used
from compiler.build.whole_numbers import is_whole
from compiler.errors import CompileError
from compiler.passes.bind_dimensions import only_sources, symbols_of
from compiler.passes.pass_table import PassTable
from compiler.passes.pipeline import PASSES
from compiler.passes.run_passes import AfterPass, run_passes
from compiler.planning.keep_budget import DEFAULT_LIMIT_SECONDS
from compiler.planning.plan_program import plan_program
from prograd_proto import program_pb2 as pb
from prograd_proto.argument_kinds import with_kinds
from prograd_proto.blocks import BlockAnalyses
from prograd_proto.entry_views import Entries
from prograd_proto.files import FORMAT_VERSION, copy_of, is_saved, save
from prograd_proto.identity import program_sha256
from prograd_proto.regular_files import open_regular
from prograd_proto.spelling import closest
from prograd_proto.states import trains
from prograd_proto.text import to_text
from prograd_proto.wording import own_version

MOST_LENGTHS = 64
"""Upper bound on the row lengths of an entry."""


class Compiled:
    """A finished program: its message and its methods. `print(compiled)` shows it as text."""

    def __init__(self, desc: pb.ProgramDesc, passes: PassTable = PASSES) -> None:
        self.desc = desc
        self._passes = passes
        self.arrays: Arrays = {}
        self.recomputed: tuple[str, ...] = ()  # patterns of scopes whose forward ops run again
        self.rows_folder = ""  # path from the folder of the program to the folder of its rows

    def __str__(self) -> str:
        return to_text(self.desc)

    def __repr__(self) -> str:
        bound = [(entry.name, entry.bindings[0].dims if entry.bindings else ()) for entry in self.desc.entries]
        sizes = [
            f"{name} with {' '.join(f'{d.symbol}={d.size}' for d in dims)}" if dims else name for name, dims in bound
        ]
        return f"<Compiled {self.desc.name!r}: entries {', '.join(sizes)}>"

    def _repr_html_(self) -> str:
        """Return the summary for a notebook."""
        from html import escape

        from compiler.analyses.summary import summary

        return f"<pre>{escape(summary(self.desc))}</pre>"

    @property
    def entries(self) -> Entries:
        """The feeds and fetches of each entry, by name."""
        return Entries(self.desc)

    @property
    def sha256(self) -> str:
        """The program's identity; it does not depend on the lines of the script or on the run's length."""
        return program_sha256(self.desc)

    @with_kinds(CompileError)
    def plan(
        self,
        budget: int | None = None,
        *,
        spill: bool = False,
        threads: int = 1,
        seconds: float | None = DEFAULT_LIMIT_SECONDS,
    ) -> MemoryReport:
        """Plan the memory of every entry thoroughly, and return its bytes and its cost.

        With a budget, in bytes, no arena is larger: values are recomputed instead of being kept or, with `spill`, wait
        in a file beside the arena; no bit of a result changes. Raises LimitError, and leaves the program as it is, if
        the budget cannot be met, or not within `seconds` (None for no limit). A result found within the limit does not
        depend on the machine.

        For several threads, an arena may take half as much again, or the rest of the budget, if that lets more ops run
        at once. Raises CompileError for an invalid number of threads.
        """
        return plan_program(
            self.desc, budget, threads, spill=spill, seconds=seconds, recompute=self.recomputed, passes=self._passes
        )

    @with_kinds(CompileError)
    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the program file, whole or not at all. An identical file at `path` is left as it is.

        Initial values that an import brought are written beside it. Other files that the program names must be there:
        their sizes and hashes become part of the program. Nothing is compiled: a program that trains on the rows left
        at the end of an epoch must have a step for them, which `compile` makes where the file of the rows is.

        Args:
            path: path of the program file.
            force: replace a file of other content.

        Raises:
            CompileError: a file that the program names is missing, or does not have the rows or the columns; or the
                program has no step for the rows left at the end of an epoch.
            ProgramError: another file is at `path` and `force` is False, or the program cannot be written.
        """
        if not isinstance(path, str | os.PathLike):  # pyright: ignore[reportUnnecessaryIsInstance]: users may not check types
            raise CompileError(f"save: the path of a file is text or a Path, not {type(path).__name__}")
        path = Path(path)
        require_last_batch(self.desc, path.parent / self.rows_folder)
        self._complete(path.parent)
        write_arrays(self.arrays, path, force=force)
        if force or not is_saved(self.desc, path):
            save(self.desc, path, force=force)

    def beside(self, folder: str | os.PathLike[str]) -> pb.ProgramDesc:
        """Return the program as saved into that folder; without its data if the file is missing."""
        other = Compiled(copy_of(self.desc), self._passes)
        other.arrays, other.rows_folder, other.recomputed = self.arrays, self.rows_folder, self.recomputed
        there = Path(folder, self.rows_folder)
        if not all((there / name).is_file() for name in data_files(self.desc, there)):
            other.desc.ClearField("data")
        other._complete(Path(folder))
        return other.desc

    def with_rows(self, program: pb.ProgramDesc, rows: int) -> pb.ProgramDesc:
        """Return `program`, which `beside` returned, compiled for steps of that number of rows as well.

        Raises CompileError if the program has no symbol that counts rows, or cannot be compiled for that number.
        """
        other, symbol = copy_of(program), row_symbol(program)
        sizes = sizes_of(other)
        if symbol is None or symbol not in sizes:
            raise CompileError(f"the program has steps of a fixed number of rows, and none of {rows}")
        _compile_anew(other, {**sizes, symbol: [*in_order(sizes[symbol]), rows]}, self._passes)
        return other

    if not TYPE_CHECKING:  # hidden from type checkers, which know the attributes

        def __getattr__(self, name: str) -> Any:
            raise no_attribute_of_compiled(name, Compiled)

    def _complete(self, folder: Path) -> None:
        """Add the sizes and hashes of the files to the program, and the encoding of its rows."""
        there = folder / self.rows_folder
        rows = set(data_files(self.desc, there))
        names = rows | {s.external.path for s in self.desc.states if s.WhichOneof("initial") == "external"}
        del self.desc.files[:]
        self.desc.files.extend(
            _file_desc(there if name in rows else folder, name, is_rows=name in rows)
            if name not in self.arrays
            else file_of_arrays(name, self.arrays[name])
            for name in sorted(names)
        )
        require_columns(self.desc, there)
        keep_encoding(self.desc, there)


def _compile_anew(program: pb.ProgramDesc, sizes: Sizes, passes: PassTable) -> None:
    files = list(program.files)
    compile_program(program, sizes, passes=passes)
    del program.files[:]
    program.files.extend(files)


def compile_program(
    program: pb.ProgramDesc,
    sizes: Sizes,
    after: AfterPass | None = None,
    *,
    passes: PassTable = PASSES,
    unread: Collection[str] = (),
) -> Compiled:
    """Bind symbols and run the passes on a program, edited in place.

    Args:
        program: has its source blocks; its bindings are replaced.
        sizes: sizes of the symbols; several sizes of the row symbol give training entries as many bindings.
        after: called with each pass's name and the program as the pass left it.
        passes: a table with `bind_dimensions`.
        unread: symbols of inputs that no entry reads; they may have a size, too.

    Raises:
        CompileError: a symbol without a size or an unknown one, or an error of a pass.
        ProgramError: the program uses operators of a plugin that is not in use.
    """
    require_used(program)
    analyses = BlockAnalyses(program)
    known = list(dict.fromkeys(symbol for number in analyses.sources for symbol in symbols_of(analyses, number)))
    for symbol, size in sizes.items():
        if symbol not in {*known, *unread}:
            raise CompileError(f"there is no symbol {symbol!r} in this program{closest(symbol, known)}")
        _require_sizes(symbol, size)
    sizes = {symbol: size for symbol, size in sizes.items() if symbol in known}
    program.format_version = FORMAT_VERSION
    program.producer = f"prograd {own_version()}"
    only_sources(analyses)
    well_formed: set[bytes] = set()
    run_passes(program, passes.before("bind_dimensions"), after=after, well_formed=well_formed, analyses=analyses)
    rows = row_symbol(program)  # symbols of live ops: a symbol of dead ops needs no size
    for entry in program.entries:
        _bind(program, entry, sorted(symbols_of(analyses, entry.source_block)), sizes, rows)
    require_within_limits(program)
    run_passes(program, passes.since("bind_dimensions"), after=after, well_formed=well_formed, analyses=analyses)
    return Compiled(program, passes)


def _require_sizes(symbol: str, given: int | Sequence[int]) -> None:
    if isinstance(given, str):
        raise CompileError(f"{symbol}={given!r} is text; a symbol is bound to a whole number, as in {symbol}=32")
    for size in each(given):
        if not is_whole(size) or size < 1:
            raise CompileError(f"{symbol}={given}: a symbol is bound to a whole number, 1 or more, of at most 64 bits")
    if not each(given):
        raise CompileError(f"{symbol}={given}: a symbol needs a size, as in {symbol}=32")


def _bind(program: pb.ProgramDesc, entry: pb.EntryDesc, symbols: list[str], given: Sizes, rows: str | None) -> None:
    """Add a binding for every row length, and for every number of rows.

    The last rows of an epoch, which are fewer, have the longest length.
    """
    for symbol in symbols:
        if symbol not in given:
            raise CompileError(f"entry {entry.name!r}: the symbol {symbol!r} has no size; bind it, as in {symbol}=32")
        if len(in_order(given[symbol])) > 1 and rows is None:
            raise CompileError(
                f"{symbol}={given[symbol]}: several sizes need a symbol that counts the rows of all inputs"
            )
    others = [symbol for symbol in symbols if symbol != rows]
    several = list(product(*(in_order(given[symbol]) for symbol in others)))
    if len(several) > MOST_LENGTHS:
        raise CompileError(f"entry {entry.name!r}: rows of {len(several)} lengths; there are at most {MOST_LENGTHS}")
    counts = in_order(given[rows]) if rows is not None and rows in symbols else []
    trained = trains(program, program.blocks[entry.source_block])
    single = all(each.least <= 1 for each in program.limits if each.symbol == rows)
    for number, lengths in enumerate(several):
        taken = _counts(counts, number, trained=trained, single=single)
        _add_bindings(entry, dict(zip(others, lengths, strict=True)), rows, taken)


def _counts(counts: list[int], length: int, *, trained: bool, single: bool) -> list[int]:
    """Return the numbers of rows that steps of a length are made for; length 0 is the longest.

    Entries that do not train take `single` rows as well.
    """
    if trained:
        return counts[:1] if length else counts
    return [*counts, 1] if single and counts and counts[-1] != 1 else counts


def _add_bindings(entry: pb.EntryDesc, sizes: Mapping[str, int], rows: str | None, counts: Sequence[int]) -> None:
    if rows is None or not counts:
        _add_binding(entry, sizes)
        return
    for count in counts:
        _add_binding(entry, {**sizes, rows: count})


def _add_binding(entry: pb.EntryDesc, sizes: Mapping[str, int]) -> None:
    entry.bindings.add(dims=[pb.SymbolSize(symbol=symbol, size=size) for symbol, size in sorted(sizes.items())])


def _file_desc(folder: Path, name: str, *, is_rows: bool) -> pb.FileDesc:
    path = folder / name
    try:
        with open_regular(path) as file:
            digest, size = hashlib.file_digest(file, "sha256").digest(), file.tell()
    except FileNotFoundError:
        how = "; prograd.data.write and compiler data pack make files of rows" if is_rows else ""
        raise CompileError(
            f"{path}: no such file; the program reads it, so it must lie beside the program{how}"
        ) from None
    except OSError as error:
        raise CompileError(f"{path}: the program reads it, and it cannot be read: {error.strerror or error}") from None
    return pb.FileDesc(path=name, bytes=size, sha256=digest)
