"""The tables of `prograd_tables.h` as numbers, and the text that they refer to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np

from prograd_proto import program_pb2 as pb
from prograd_proto import type_of
from prograd_proto.dtypes import FLOATS, ITEM_BYTES, REALS
from prograd_proto.lifespans import held, trains
from runtime.ahead.declared_run import run_table
from runtime.ahead.layout import EntryCode, EntryPlaces, Layout, Place
from runtime.codegen.board import board_words
from runtime.codegen.code import LOOP_STEP
from runtime.dtypes import Array
from runtime.entries import BoundEntry
from runtime.files.safetensors_file import WORDS
from runtime.runs.metrics import scalar_fetches

NAMES: Final = ("states", "entries", "places", "checks", "restored", "numbers", "words", "phases", "actions", "chunks")
"""The tables that grow entry by entry; `sizes` is the other one."""


KINDS: Final = {"float32": 1, "float64": 2, "int32": 3, "int64": 4, "uint8": 5}
"""Numbers of the element types that a whole run reads as metrics."""

CPUS: Final = {"avx2": 1, "avx512": 2, "avx512_bf16": 3}
"""Numbers of the instruction sets that `prograd.c` looks for; a machine has the others."""

LAST, MEAN, SUM, TABLE = range(4)
OVER: Final = {pb.OVER_MEAN: MEAN, pb.OVER_SUM: SUM}
"""The ways to combine a scalar fetch over steps; a fetch of several elements is a table."""


class Tables(NamedTuple):
    """The tables of a library, each a row of 64-bit numbers, with the members of `prograd_program` as names.

    Attributes:
        numbers: tables by name.
        text: names and sentences, each with a zero at its end.
        groups: names of the functions that chunks call.
    """

    numbers: dict[str, list[int]]
    text: bytes
    groups: list[str]


class _Writer:
    """Tables that grow entry by entry."""

    def __init__(self) -> None:
        self.tables: dict[str, list[int]] = {name: [] for name in NAMES}
        self.columns: dict[str, int] = {}
        self.text = bytearray()
        self.groups: dict[str, int] = {}
        self._texts: dict[str, int] = {}
        self._numbers: dict[tuple[int, ...], int] = {}

    def said(self, text: str) -> int:
        """Return the offset of a text."""
        if text not in self._texts:
            self._texts[text] = len(self.text)
            self.text += text.encode() + b"\0"
        return self._texts[text]

    def listed(self, numbers: Sequence[int]) -> int:
        """Return the index of numbers such as a shape."""
        key = tuple(numbers)
        if key not in self._numbers:
            self._numbers[key] = len(self.tables["numbers"])
            self.tables["numbers"] += key
        return self._numbers[key]

    def add(self, name: str, rows: Iterable[Sequence[int]]) -> tuple[int, int]:
        """Append rows to a table; return the number of the first, and how many there are."""
        new = [list(map(int, row)) for row in rows]
        table = self.tables[name]
        if new:
            self.columns[name] = len(new[0])
        first = len(table) // self.columns.get(name, 1)
        for row in new:
            table += row
        return first, len(new)


def tables_of(
    program: pb.ProgramDesc,
    entries: Sequence[EntryCode],
    layout: Layout,
    texts: tuple[str, str, str],
    header_bytes: int,
    threads: int,
) -> Tables:
    """Return the tables of a library with these entries; `texts` are its name, its hash, and the instruction set."""
    name, sha256, instructions = texts
    writer = _Writer()
    states = {state.name: state for state in held(program)}
    writer.add("states", (_state(writer, program, states[key], at) for key, at in layout.states.items()))
    sizes_of = {key: type_of(state).nbytes for key, state in states.items()}
    for places in (layout.states, layout.aside):
        writer.add("restored", ((places[key], sizes_of[key], at) for key, at in layout.restored))
    lengths = _lengths([entry.bound for entry in entries])
    rows = [
        _entry(writer, program, entry, places, length)
        for entry, places, length in zip(entries, layout.entries, lengths, strict=True)
    ]
    writer.add("entries", rows)
    order = {key: number for number, key in enumerate(layout.states)}
    by_name = [order[key] for key in sorted(order, key=lambda key: key.encode())]
    sizes = [
        *(layout.nbytes, layout.board, board_words(threads), layout.team, layout.versions, layout.found),
        *(len(states), len(entries), len(layout.restored), threads, header_bytes),
        *(layout.states["total_steps"], writer.listed(by_name), writer.said(name), writer.said(sha256)),
        *(CPUS.get(instructions, 0), layout.working),
    ]
    run = list(
        map(
            int, run_table(program, [entry.bound for entry in entries], list(layout.states), writer.said, writer.listed)
        )
    )
    return Tables({"sizes": sizes, "run": run, **writer.tables}, bytes(writer.text), list(writer.groups))


def _state(writer: _Writer, program: pb.ProgramDesc, state: pb.StateDesc, at: int) -> list[int]:
    type = type_of(state)
    updated = {update.state for block in program.blocks for update in block.updates}
    is_weight = state.kind in (pb.STATE_KIND_PARAMETER, pb.STATE_KIND_BUFFER)
    changes = state.name in updated and state.lifespan != pb.LIFESPAN_EPOCH
    return [
        writer.said(state.name),
        writer.said(type.dtype),
        writer.said(WORDS[type.dtype]),
        type.rank,
        writer.listed(type.static_shape),
        type.nbytes,
        at,
        not (is_weight and changes),
        ITEM_BYTES[type.dtype],
        state.WhichOneof("initial") == "external" or state.name == "seed",
        (1 + (state.kind == pb.STATE_KIND_PARAMETER)) * (changes and type.dtype in REALS),
    ]


def _lengths(bounds: Sequence[BoundEntry]) -> list[int]:
    """Return the length of each step as a number among those of its entry, from 0, the shortest, on."""
    found: dict[str, list[object]] = {}
    for bound in reversed(bounds):  # the shortest first
        lengths = found.setdefault(bound.name, [])
        if bound.lengths not in lengths:
            lengths.append(bound.lengths)
    return [found[bound.name].index(bound.lengths) for bound in bounds]


def _entry(writer: _Writer, program: pb.ProgramDesc, entry: EntryCode, places: EntryPlaces, length: int) -> list[int]:
    bound, code = entry.bound, entry.code
    words, word_count = writer.add("words", places.words.tolist())
    chunks, chunk_count = writer.add("chunks", _chunks(writer, code.functions, code.table_starts, code.chunks))
    phases, _ = writer.add("phases", code.phases.tolist())
    actions, _ = writer.add("actions", code.actions.tolist())
    scalars = {fetch.name: OVER.get(fetch.over, LAST) for fetch in scalar_fetches(bound)}
    reported = [place.name for place in places.fetches if place.name in scalars and place.type.dtype in FLOATS]
    watched = ["loss"] if "loss" in reported else reported
    judged = [
        place._replace(over=scalars.get(place.name, TABLE), watched=place.name in watched) for place in places.fetches
    ]
    feeds, fetches, copies = (
        writer.add("places", (_place(writer, place) for place in group))
        for group in (places.feeds, judged, places.copies)
    )
    checks = writer.add(
        "checks",
        (
            (group, writer.said(c.why), c.feed, c.size, *map(writer.said, (c.before, c.between, c.after)))
            for group, c in entry.checks.items()
        ),
    )
    reads_length = any(parameter.state == "total_steps" for parameter in bound.block.parameters)
    return [
        *(writer.said(bound.name), bound.rows, trains(program, bound.block), reads_length),
        *(words, word_count, places.words_at, chunks, chunk_count, places.chunks_at, places.checks_at),
        *(phases, code.phase_count, *code.packing, actions),
        *(*feeds, *fetches, *copies, *checks, writer.said(entry.method), length),
    ]


def _chunks(writer: _Writer, functions: Sequence[str], starts: Array, chunks: Array) -> list[list[int]]:
    """Return the chunks of an entry, with numbers of functions in the library and of words in the entry's tables."""
    numbers = [writer.groups.setdefault(name, len(writer.groups)) for name in functions]
    table = np.array(chunks, np.int64)
    table[:, 0] = [LOOP_STEP if number == LOOP_STEP else numbers[number] for number in chunks[:, 0].tolist()]
    table[:, 1] = starts[chunks[:, 1]]
    return table.tolist()


def _place(writer: _Writer, place: Place) -> list[int]:
    shape, strides = writer.listed(place.shape), writer.listed(place.strides)
    return [
        *(writer.said(place.name), writer.said(place.type.dtype), place.base, place.at),
        *(len(place.shape), shape, strides, place.item),
        *(place.type.nbytes, place.to, place.early, place.widened),
        *(KINDS.get(place.type.dtype, KINDS["uint8"]), place.by_row, place.over, place.watched),
        *(place.width, writer.said(place.described)),
    ]
