"""The memory of an instance, and the tables of a library: the steps of all entries with places instead of addresses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from prograd_proto import TensorType, type_of
from prograd_proto import program_pb2 as pb
from prograd_proto.dtypes import ITEM_BYTES
from prograd_proto.states import held, trains
from runtime.ahead.range_checks import RangeCheck
from runtime.codegen.board import SLEEPERS, board_words
from runtime.codegen.code import ADDRESS_BYTES, ARENA, CHECK, FIXED_BASES, NUMBER, PACKED, NativeCode
from runtime.constants import constant_array
from runtime.dtypes import Array
from runtime.entries import BoundEntry
from runtime.files.safetensors_file import safetensors_header
from runtime.placement.alignment import aligned

IN_NUMBERS, IN_MEMORY, IN_CONSTANTS = range(3)
"""Bases of words and places: a number is itself, the others are offsets in an instance or in the constants."""

INSTANCE_BYTES: Final = 320
"""Room for `struct prograd`."""

TEAM_BYTES: Final = 1024
"""Room for the helper threads of an instance, see `prograd_threads.c`."""


VECTOR_BYTES: Final = 16
"""Alignment of short constants."""


class EntryCode(NamedTuple):
    """An entry for a number of rows.

    Attributes:
        bound: the entry.
        code: its code.
        checks: checks of numbers that ops refuse, by group.
        method: name of its function, without that of the program.
    """

    bound: BoundEntry
    code: NativeCode
    checks: Mapping[int, RangeCheck]
    method: str


class Place(NamedTuple):
    """A feed, a fetch or a copy after the groups; its fields are those of `prograd_place`."""

    name: str
    type: TensorType
    base: int
    at: int
    strides: tuple[int, ...]
    shape: tuple[int, ...]
    item: int
    to: int = 0
    early: bool = False
    widened: bool = False
    by_row: bool = False
    over: int = 0
    watched: bool = False
    width: int = 1
    described: str = ""


class EntryPlaces(NamedTuple):
    """The places of an entry in an instance.

    Attributes:
        words: base and offset of each word of its tables.
        words_at, checks_at: places of its tables of addresses, and of the words of checks.
        feeds, fetches, copies: arrays that a step takes, gives, and copies when its groups are done.
    """

    words: Array
    words_at: int
    checks_at: int
    feeds: list[Place]
    fetches: list[Place]
    copies: list[Place]


@dataclass
class Layout:
    """The memory of an instance.

    Attributes:
        states: places of the states by name, in the order of their files.
        entries: places of the entries.
        aside: places of the totals of entries that do not train, so an evaluation within an epoch leaves the epoch's
        totals.
        constants: bytes of all constants, and of the values of totals when an epoch begins.
        restored: for each state that lasts an epoch, its name and the offset of these bytes.
        board, team: places of the driver's words, and of its helper threads.
        versions, found: places of a word for each entry and for each state.
        working: the first byte behind the states, from which on the memory is that of steps.
        nbytes: size of all.
    """

    states: dict[str, int] = field(default_factory=dict[str, int])
    aside: dict[str, int] = field(default_factory=dict[str, int])
    entries: list[EntryPlaces] = field(default_factory=list[EntryPlaces])
    constants: bytearray = field(default_factory=bytearray)
    restored: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    board: int = 0
    team: int = 0
    versions: int = 0
    found: int = 0
    working: int = 0
    nbytes: int = INSTANCE_BYTES

    def take(self, nbytes: int) -> int:
        """Reserve `nbytes` bytes that begin a cache line, and return their offset."""
        at = self.nbytes
        self.nbytes += aligned(nbytes)
        return at

    def constant(self, content: bytes) -> int:
        """Return the offset of new bytes among the constants; those of more than a vector begin a cache line."""
        self.constants += bytes(-len(self.constants) % (64 if len(content) > VECTOR_BYTES else VECTOR_BYTES))
        at = len(self.constants)
        self.constants += content
        return at


def words_of_board(threads: int) -> int:
    """Return the number of words of the driver's board; those from `SLEEPERS` on are for helper threads."""
    return board_words(threads) if threads > 1 else SLEEPERS


def layout_of(
    program: pb.ProgramDesc,
    entries: Sequence[EntryCode],
    initial: Mapping[str, Array],
    threads: int,
    versions: int,
    first: Layout | None = None,
) -> Layout:
    """Return the layout of a program with these entries; `initial` has the values of states when an epoch begins.

    Layouts with equal `threads` and numbers of entries, `versions`, have the same places for states; a layout that gets
    the first of them adds its constants to it.
    """
    types = {state.name: type_of(state) for state in held(program)}
    layout = Layout() if first is None else Layout(constants=first.constants)
    layout.board = layout.take(words_of_board(threads) * ADDRESS_BYTES)
    layout.team = layout.take(TEAM_BYTES if threads > 1 else 0)
    layout.versions = layout.take(versions * ADDRESS_BYTES)
    layout.found = layout.take(len(types) * ADDRESS_BYTES)
    names, _ = safetensors_header(types, {})
    layout.states = {name: layout.take(types[name].nbytes) for name in names}
    passing = {state.name for state in program.states if state.lifespan == pb.LIFESPAN_EPOCH}
    layout.aside = {name: layout.take(types[name].nbytes) for name in names if name in passing}
    layout.restored = (
        first.restored
        if first
        else [(name, layout.constant(initial[name].tobytes())) for name in names if name in passing]
    )
    layout.working = layout.nbytes
    arena = layout.take(max(entry.code.arena_bytes for entry in entries))
    known: dict[bytes, int] = {}
    layout.entries = [_places(program, layout, entry, arena, known) for entry in entries]
    return layout


def _places(
    program: pb.ProgramDesc, layout: Layout, entry: EntryCode, arena: int, known: dict[bytes, int]
) -> EntryPlaces:
    bound, code = entry.bound, entry.code
    checks = layout.take((1 + code.group_count) * ADDRESS_BYTES)
    packed = layout.take(code.packed_bytes)
    bases = _bases(program, layout, entry, (arena, packed, checks), known)
    words = np.array([_at(bases, base, offset) for base, offset in code.words.tolist()], np.int64).reshape(-1, 2)
    words_at = layout.take(code.words.shape[0] * ADDRESS_BYTES)
    feeds = [
        _fed(_whole(feed.name, bound.types[feed.tensor], arena + feed.offset), by_row=bound.feeds[feed.name].by_row)
        for feed in code.feeds
    ]
    of_state = {p.tensor for p in bound.block.parameters if p.WhichOneof("source") == "state"}
    fetches = [
        _fetched(_strided(code, bases, name, tensor), early=tensor in of_state) for name, tensor in code.copied_fetches
    ]
    copies = _copies(program, layout, entry, bases)
    return EntryPlaces(words, words_at, checks, feeds, fetches, copies)


def _bases(
    program: pb.ProgramDesc,
    layout: Layout,
    entry: EntryCode,
    places: tuple[int, int, int],
    known: dict[bytes, int],
) -> list[tuple[int, int]]:
    """Return the place of every base of the code."""
    bound, code = entry.bound, entry.code
    arena, packed, checks = places
    fixed = dict.fromkeys(range(len(FIXED_BASES)), (IN_MEMORY, 0))
    fixed |= {ARENA: (IN_MEMORY, arena), PACKED: (IN_MEMORY, packed)}
    fixed |= {NUMBER: (IN_NUMBERS, 0), CHECK: (IN_MEMORY, checks)}
    ops = [bound.block.ops[op] for op in code.constants]
    ops += [program.blocks[number].ops[op] for number, op in code.inner_constants]
    constants: list[tuple[int, int]] = []
    for op in ops:
        content = constant_array(op.attributes[0].tensor_value).tobytes()
        if content not in known:
            known[content] = layout.constant(content)
        constants.append((IN_CONSTANTS, known[content]))
    states = [(IN_MEMORY, _state_at(program, layout, bound, name)) for name in code.states]
    feeds = [(IN_MEMORY, arena + feed.offset) for feed in code.feeds]
    return [*fixed.values(), *states, *constants, *feeds]


def _state_at(program: pb.ProgramDesc, layout: Layout, bound: BoundEntry, name: str) -> int:
    """Return the place of a state for the steps of an entry."""
    is_aside = name in layout.aside and not trains(program, bound.block)
    return layout.aside[name] if is_aside else layout.states[name]


def _at(bases: Sequence[tuple[int, int]], base: int, offset: int) -> tuple[int, int]:
    kind, start = bases[base]
    return kind, start + offset


def _whole(name: str, type: TensorType, at: int) -> Place:
    """Return the place of a tensor without gaps in an instance."""
    return Place(name, type, IN_MEMORY, at, (), (), type.nbytes)


def _strided(code: NativeCode, bases: Sequence[tuple[int, int]], name: str, tensor: str) -> Place:
    """Return the place of a tensor; the last axes without gaps are one item."""
    found = code.tensor(tensor)
    base, at = _at(bases, found.base, found.offset)
    type = found.type
    if found.strides is None or not type.nbytes:
        return Place(name, type, base, at, (), (), type.nbytes)
    shape, strides, item = list(type.static_shape), list(found.strides), ITEM_BYTES[type.dtype]
    while shape and (strides[-1] == item or shape[-1] == 1):
        item *= shape.pop()
        strides.pop()
    return Place(name, type, base, at, tuple(strides), tuple(shape), item)


def _fed(place: Place, *, by_row: bool) -> Place:
    """Return a feed; fingerprints of rows describe it by its name and the type of a row, with a gap for its length."""
    type = place.type
    shape = type.static_shape[1:] if by_row else type.static_shape
    shown = str(TensorType(type.dtype, shape))
    if by_row and shape:
        shown = shown.replace(f"[{shape[0]}", "[\1", 1)
    return place._replace(
        item=ITEM_BYTES[type.dtype],
        widened=type.dtype == "bool",
        by_row=by_row,
        width=max(shape[0], 1) if by_row and shape else 1,
        described=f"\n{len(place.name)} {place.name} {shown}",
    )


def _fetched(place: Place, *, early: bool) -> Place:
    """Return a fetch; bfloat16 becomes float32 for the caller."""
    return place._replace(early=early, widened=place.type.dtype == "bfloat16")


def _copies(program: pb.ProgramDesc, layout: Layout, entry: EntryCode, bases: Sequence[tuple[int, int]]) -> list[Place]:
    """Return the copies that update the states that no group updates.

    A source may be a state that is copied to as well; it is read before.
    """
    updates = [entry.bound.block.updates[i] for i in entry.code.late_updates]
    pairs = [
        (_strided(entry.code, bases, u.state, u.tensor), _state_at(program, layout, entry.bound, u.state))
        for u in updates
    ]
    written = {to for _, to in pairs}
    early: list[Place] = []
    late: list[Place] = []
    for place, to in pairs:
        if place.base == IN_MEMORY and place.at in written and place.type.nbytes:
            aside = layout.take(place.type.nbytes)
            early.append(place._replace(to=aside))
            place = _whole(place.name, place.type, aside)
        late.append(place._replace(to=to))
    return early + late


def file_header(program: pb.ProgramDesc, sha256: str) -> bytes:
    """Return the bytes of a file of all states before their elements."""
    types = {state.name: type_of(state) for state in held(program)}
    return safetensors_header(types, {"program_sha256": sha256})[1]
