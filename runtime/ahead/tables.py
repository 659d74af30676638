"""The tables of `prograd_tables.h` as bytes, and the text that they refer to."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from prograd_proto import program_pb2 as pb
from prograd_proto import type_of
from prograd_proto.dtypes import FLOATS, ITEM_BYTES, REALS
from prograd_proto.states import held, trains
from runtime.ahead.declared_run import run_table
from runtime.ahead.layout import IN_MEMORY, EntryCode, EntryPlaces, Layout, Place, words_of_board
from runtime.codegen.code import LOOP_STEP
from runtime.dtypes import Array
from runtime.entries import BoundEntry
from runtime.files.safetensors_file import WORDS
from runtime.runs.metrics import scalar_fetches

WIDE: Final = {
    "states": 2,
    "entries": 3,
    "places": 5,
    "checks": 1,
    "restored": 3,
    "phases": 0,
    "actions": 1,
    "chunks": 0,
}
"""Number of the columns of 64 bits with which a row of a table begins; the others have 32 bits.

Bytes of memory and numbers of the program are wide; positions in tables, numbers of functions and work items are not.
"""

SHARED: Final = ("states", "restored", "run", "numbers", "text", "header", "constants")
"""The tables that all steps of a program share, also that which draws initial values."""

NUMBER_BITS: Final = 5
"""Bits of a number in the first byte of a word; further bytes have seven each."""

IN_LINES, LINE_BYTES = 3, 64
"""Base of a word in the memory of an instance that is counted in cache lines, and the size of these."""

KINDS: Final = {"float32": 1, "float64": 2, "int32": 3, "int64": 4, "uint8": 5}
"""Numbers of the element types that a whole run reads as metrics."""

CPUS: Final = {"avx2": 1, "avx512": 2, "avx512_vnni": 3, "avx512_bf16": 4, "neon_dotprod": 1}
"""Numbers of the instruction sets that `prograd.c` looks for; a machine has the others."""

LAST, MEAN, SUM, TABLE = range(4)
OVER: Final = {pb.OVER_MEAN: MEAN, pb.OVER_SUM: SUM}
"""The ways to combine a scalar fetch over steps; a fetch of several elements is a table."""


class Tables(NamedTuple):
    """The tables of a program for some of its steps, with the members of `prograd_program` as names.

    Attributes:
        contents: tables by name; those of `SHARED` only for the first steps.
        groups: names of the functions that chunks call.
    """

    contents: dict[str, bytes]
    groups: list[str]


class _Texts:
    """Texts and lists of numbers, each of them once."""

    def __init__(self) -> None:
        self.text, self.numbers = bytearray(), list[int]()
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
            self._numbers[key] = len(self.numbers)
            self.numbers += key
        return self._numbers[key]


class _Writer:
    """Tables that grow entry by entry."""

    def __init__(self, texts: _Texts) -> None:
        self.said, self.listed = texts.said, texts.listed
        self.tables = {name: bytearray() for name in WIDE}
        self.words = bytearray()
        self.groups: dict[str, int] = {}

    def add(self, name: str, rows: Iterable[Sequence[int]]) -> tuple[int, int]:
        """Append rows to a table; return the number of the first, and how many there are."""
        table, new = self.tables[name], [_row(WIDE[name], row) for row in rows]
        first = len(table) // len(new[0]) if new else 0
        table += b"".join(new)
        return first, len(new)

    def add_words(self, words: Iterable[tuple[int, int]]) -> int:
        """Append the words of an entry, each a base and an offset; return the offset of the first."""
        first = len(self.words)
        for base, offset in words:
            self.words += _word(base, offset)
        return first


def _row(wide: int, numbers: Sequence[int]) -> bytes:
    row = struct.pack(f"<{wide}q{len(numbers) - wide}i", *map(int, numbers))
    return row + bytes(-len(row) % 8 if wide else 0)


def _word(base: int, offset: int) -> bytes:
    """Return a word in a few bytes: its base in two bits, and its number from the lowest bits on, the sign first."""
    if base == IN_MEMORY and offset % LINE_BYTES == 0:
        base, offset = IN_LINES, offset // LINE_BYTES
    left = offset << 1 if offset >= 0 else ~(offset << 1)
    found = bytearray([base | (left & (1 << NUMBER_BITS) - 1) << 2])
    left >>= NUMBER_BITS
    while left:
        found[-1] |= 128
        found.append(left & 127)
        left >>= 7
    return bytes(found)


def tables_of(
    program: pb.ProgramDesc,
    parts: Sequence[tuple[Sequence[EntryCode], Layout]],
    texts: tuple[str, str, str],
    header: bytes,
    threads: int,
) -> list[Tables]:
    """Return the tables of each part of a library, which is some entries and their layout.

    `texts` are its name, its hash, and the instruction set; `header` begins the files of its states. All layouts have
    the states and the constants of the first.
    """
    shared, states, (entries, layout) = _Texts(), {state.name: state for state in held(program)}, parts[0]
    writer = _Writer(shared)
    writer.add("states", (_state(writer, program, states[key], at) for key, at in layout.states.items()))
    sizes_of = {key: type_of(state).nbytes for key, state in states.items()}
    for places in (layout.states, layout.aside):
        writer.add("restored", ((places[key], sizes_of[key], at) for key, at in layout.restored))
    run = run_table(program, [entry.bound for entry in entries], list(layout.states), shared.said, shared.listed)
    found: list[Tables] = []
    for number, (codes, own) in enumerate(parts):
        writer = writer if number == 0 else _Writer(shared)
        lengths = _lengths([entry.bound for entry in codes])
        triples = zip(codes, own.entries, lengths, strict=True)
        writer.add("entries", [_entry(writer, program, *triple) for triple in triples])
        sizes = _sizes(shared, own, texts, (len(codes), len(header), threads))
        contents = {"sizes": _row(len(sizes), sizes), "words": bytes(writer.words)}
        contents |= {name: bytes(table) for name, table in writer.tables.items() if number == 0 or name not in SHARED}
        found.append(Tables(contents, list(writer.groups)))
    found[0].contents.update(
        run=_row(len(run), run),
        numbers=_row(len(shared.numbers), shared.numbers),
        text=bytes(shared.text),
        header=header,
        constants=bytes(layout.constants),
    )
    return found


def _sizes(
    shared: _Texts, layout: Layout, texts: tuple[str, str, str], counts: tuple[int, int, int]
) -> tuple[int, ...]:
    """Return the row of sizes; `counts` are those of entries, of bytes of the header and of threads."""
    name, sha256, instructions = texts
    entries, header_bytes, threads = counts
    order = {key: number for number, key in enumerate(layout.states)}
    by_name = [order[key] for key in sorted(order, key=lambda key: key.encode())]
    return (
        *(layout.nbytes, layout.board, words_of_board(threads), layout.team, layout.versions, layout.found),
        *(len(layout.states), entries, len(layout.restored), threads, header_bytes),
        *(layout.states["total_steps"], shared.listed(by_name), shared.said(name), shared.said(sha256)),
        *(CPUS.get(instructions, 0), layout.working),
    )


def _state(writer: _Writer, program: pb.ProgramDesc, state: pb.StateDesc, at: int) -> list[int]:
    type = type_of(state)
    updated = {update.state for block in program.blocks for update in block.updates}
    is_weight = state.kind in (pb.STATE_KIND_PARAMETER, pb.STATE_KIND_BUFFER)
    changes = state.name in updated and state.lifespan != pb.LIFESPAN_EPOCH
    return [
        *(type.nbytes, at),
        *(writer.said(state.name), writer.said(type.dtype), writer.said(WORDS[type.dtype])),
        *(type.rank, writer.listed(type.static_shape), not (is_weight and changes), ITEM_BYTES[type.dtype]),
        state.WhichOneof("initial") == "external" or state.name == "seed",
        (1 + (state.kind == pb.STATE_KIND_PARAMETER)) * (changes and type.dtype in REALS),
    ]


def _lengths(bounds: Sequence[BoundEntry]) -> list[int]:
    """Return the rank of each step's length among the steps of its entry; the shortest has rank 0."""
    found: dict[str, list[object]] = {}
    for bound in reversed(bounds):  # the shortest first
        lengths = found.setdefault(bound.name, [])
        if bound.lengths not in lengths:
            lengths.append(bound.lengths)
    return [found[bound.name].index(bound.lengths) for bound in bounds]


def _entry(writer: _Writer, program: pb.ProgramDesc, entry: EntryCode, places: EntryPlaces, length: int) -> list[int]:
    bound, code = entry.bound, entry.code
    words = writer.add_words(places.words.tolist())
    chunks, _ = writer.add("chunks", _chunks(writer, code.functions, code.table_starts, code.chunks))
    phases, _ = writer.add("phases", code.phases.tolist())
    actions, _ = writer.add("actions", ([c, opcode, a, b, d] for opcode, a, b, c, d in code.actions.tolist()))
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
            (c.size, group, writer.said(c.why), c.feed, *map(writer.said, (c.before, c.between, c.after)))
            for group, c in entry.checks.items()
        ),
    )
    reads_length = any(parameter.state == "total_steps" for parameter in bound.block.parameters)
    return [
        *(bound.rows, places.words_at, places.checks_at),
        *(writer.said(bound.name), trains(program, bound.block), reads_length, words, len(places.words), chunks),
        *(phases, code.phase_count, *code.packing, actions),
        *(*feeds, *fetches, *copies, *checks, writer.said(entry.method), length),
    ]


def _chunks(writer: _Writer, functions: Sequence[str], starts: Array, chunks: Array) -> list[list[int]]:
    """Return the chunks of an entry, with numbers of functions in the library and of words in the entry's tables."""
    numbers = [writer.groups.setdefault(name, len(writer.groups)) for name in functions]
    return [
        [LOOP_STEP if function == LOOP_STEP else numbers[function], int(starts[group]), *rest]
        for function, group, *rest in chunks.tolist()
    ]


def _place(writer: _Writer, place: Place) -> list[int]:
    shape, strides = writer.listed(place.shape), writer.listed(place.strides)
    return [
        *(place.at, place.type.nbytes, place.item, place.to, place.width),
        *(writer.said(place.name), writer.said(place.type.dtype), place.base, len(place.shape), shape, strides),
        *(place.early, place.widened, KINDS.get(place.type.dtype, KINDS["uint8"])),
        *(place.by_row, place.over, place.watched, writer.said(place.described)),
    ]
