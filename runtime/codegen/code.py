"""NativeCode: a compiled step as a value, which names memory by symbols instead of addresses.

A word of a table is a base and an offset. The first bases are the same in every step; those of its states, constants
and feeds follow. An engine adds the addresses of the bases each time it binds the code.

    state w + 64      arena + 4096      packed + 0      file + 8192      feed x + 0      number 7      check 8
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Final, NamedTuple, cast

import numpy as np

from prograd_proto import TensorType
from runtime.codegen.actions import NAMES
from runtime.codegen.machine import Target
from runtime.dtypes import Array

ARENA, FILE, PACKED, NUMBER, CHECK = range(5)
FIXED_BASES: Final = ("arena", "file", "packed", "number", "check")
"""Names of the bases of every step. With the base `number`, the offset is the number itself. With the base `check`,
it is the byte offset of a check's word in the array of all check words."""

ADDRESS_BYTES: Final = 8

CHUNK_COLUMNS: Final = 5
"""Columns of a record: function, group, first work item, end of the work items, and the distance to the chunk's next
record, 0 if this one is its last."""


LOOP_STEP: Final = -1
"""The number of a kernel step, and of a function, in a record of iterations that threads share: its work items are
iterations. Its group is the op of the loop, whose table has `LOOP_WORDS` numbers."""

LOOP_WORDS: Final = 8
"""Numbers in the table of an op of control flow: phases from that of the record to the first copy of the block, and the
phases of a copy; the word with the row of the first copy, and the number of words to that of the next one; the words
with the first iteration of the round, with the number of iterations, and with the row of that first iteration; and the
rows from one iteration to the next, 1 or -1. All are 0 if threads do not share the iterations."""


class FeedPlace(NamedTuple):
    """A feed and its place in the arena.

    Attributes:
        name: name of the feed.
        tensor: name of its tensor.
        offset: bytes of the arena before it.
        is_read_at_end: True if fetches or updates read it, which happens when the groups are done.
        is_halved: True if threads read halves of each of its rows.
    """

    name: str
    tensor: str
    offset: int
    is_read_at_end: bool
    is_halved: bool


class HostOp(NamedTuple):
    """An op that the engine computes between two phases.

    Attributes:
        group: number of its group.
        op: position in the block.
        inputs: names of tensors, "" for absent ones.
        outputs: names of tensors.
        scratch: offsets of its scratch in the arena.
    """

    group: int
    op: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    scratch: tuple[int, ...]


class InnerHostOp(NamedTuple):
    """An op in a block inside an op that the engine computes between two phases of that block.

    Attributes:
        group: number of the group of the step with the op of control flow around it.
        block: number of its block in the program.
        op: position in that block.
        inputs: numbers of the words with the addresses of its operands; -1 for absent ones.
        outputs: numbers of the words with the addresses of its results.
        scratch: offsets of its scratch in the arena.
    """

    group: int
    block: int
    op: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    scratch: tuple[int, ...]


class TensorPlace(NamedTuple):
    """Place of a tensor in memory.

    Attributes:
        type: dtype and static shape.
        base: number of its base.
        offset: bytes from there to its first element.
        strides: bytes from one element to the next along each axis; None if it is row-major without gaps.
    """

    type: TensorType
    base: int
    offset: int
    strides: tuple[int, ...] | None


class GroupBuffer(NamedTuple):
    """A buffer of the arena.

    Attributes:
        name: name of the tensor or scratch.
        nbytes: aligned size in bytes.
        groups: numbers of the groups that touch it.
        fed: True if it lives from the start of the step.
        kept: True if it lives to the end of the step.
    """

    name: str
    nbytes: int
    groups: list[int]
    fed: bool
    kept: bool


@dataclass(frozen=True, eq=False)
class NativeCode:
    """A step as object code and symbolic tables.

    Attributes:
        target: machine that runs the object code.
        threads: number of threads that share the work items.
        useful_threads: number of threads beyond which a step does not get faster.
        functions: names of the functions in the object code.
        states: names of the states that have a base.
        constants: positions in the block of the constants that have a base.
        inner_constants: constants of blocks inside ops that have a base: numbers of the block and of the op in it.
        feeds: feeds of the step; each has a base.
        arena_bytes: size of the arena.
        file_bytes: size of the file beside the arena.
        packed_bytes: size of the memory of prepacked values.
        phase_count: number of phases of a step. `phases` lists these first, then the phases that run single groups,
            then those that prepack.
        packing: first phase that prepacks, and the one after the last.
        runtime_checks: numbers of the groups that may find a number that an op rejects.
        late_updates: positions of the updates that no group makes in place.
        copied_fetches: names of fetches that are copied when the step ends, and of their tensors.
        hosts: ops without code, in order.
        inner_hosts: ops without code in blocks inside ops, as the action `HOST` numbers them.
        inner_groups: for each group of a block inside an op, the number of the block and the positions of its ops.
        tensor_names: tensors that have memory, internal ones included.
        types: distinct dtypes and shapes of tensors.
        layouts: distinct strides in bytes.
        buffer_names: buffers of the arena.
        words: tables of all groups, one behind the other: base and offset of each word.
        table_starts: index of the first word of each group; those of blocks inside ops follow those of the step.
        phases: for each phase the first chunk and the number of chunks, or the first action and minus their number.
        actions: records of conditions and loops; see `codegen.actions`.
        chunks: records as `CHUNK_COLUMNS` says; those that are not first in their chunk come last.
        segments: for each stretch of the step without a break its first group, its host op or -1, its first phase and
            the one after the last.
        group_segments: the same for every group alone.
        group_ops: positions of the ops of each group, one group behind the other.
        group_ends: for each group the end of its ops in `group_ops`.
        tensors: for each tensor its type, base, offset, and layout or -1.
        buffers: for each buffer its aligned bytes, whether it is fed, whether it is kept, and the end of its groups in
            `buffer_groups`.
        buffer_groups: numbers of the groups that touch each buffer.
        objects: object files.
    """

    target: Target
    threads: int
    useful_threads: int
    functions: tuple[str, ...]
    states: tuple[str, ...]
    constants: tuple[int, ...]
    inner_constants: tuple[tuple[int, int], ...]
    feeds: tuple[FeedPlace, ...]
    arena_bytes: int
    file_bytes: int
    packed_bytes: int
    phase_count: int
    packing: tuple[int, int]
    runtime_checks: tuple[int, ...]
    late_updates: tuple[int, ...]
    copied_fetches: tuple[tuple[str, str], ...]
    hosts: tuple[HostOp, ...]
    inner_hosts: tuple[InnerHostOp, ...]
    inner_groups: tuple[tuple[int, ...], ...]
    tensor_names: tuple[str, ...]
    types: tuple[TensorType, ...]
    layouts: tuple[tuple[int, ...], ...]
    buffer_names: tuple[str, ...]
    words: Array
    table_starts: Array
    phases: Array
    actions: Array
    chunks: Array
    segments: Array
    group_segments: Array
    group_ops: Array
    group_ends: Array
    tensors: Array
    buffers: Array
    buffer_groups: Array
    objects: tuple[bytes, ...]

    def __eq__(self, other: object) -> bool:
        """Return True if all fields are equal."""
        if not isinstance(other, NativeCode):
            return False
        pairs = [(getattr(self, field.name), getattr(other, field.name)) for field in fields(self)]
        return all(
            np.array_equal(cast("Array", mine), cast("Array", its)) if isinstance(mine, np.ndarray) else mine == its
            for mine, its in pairs
        )

    __hash__ = None  # type: ignore[assignment]  # arrays have none

    def __str__(self) -> str:
        """Return the code as lines; see `lines`."""
        return "\n".join(self.lines())

    @property
    def group_count(self) -> int:
        """The number of groups."""
        return len(self.group_ends)

    @property
    def is_one_segment(self) -> bool:
        """True if compiled code computes the step in one stretch: no op of it, or of a block in it, is a host op."""
        return len(self.segments) == 1 and not self.hosts and not self.inner_hosts

    @property
    def first_feed(self) -> int:
        """The base of the first feed."""
        return self.first_inner_constant + len(self.inner_constants)

    @property
    def first_inner_constant(self) -> int:
        """The base of the first constant of a block inside an op."""
        return len(FIXED_BASES) + len(self.states) + len(self.constants)

    @cached_property
    def bases(self) -> list[str]:
        """The names of all bases, by number."""
        states = (f"state {name}" for name in self.states)
        constants = (f"constant {op}" for op in self.constants)
        inner = (f"constant {op} of block {block}" for block, op in self.inner_constants)
        return [*FIXED_BASES, *states, *constants, *inner, *(f"feed {feed.name}" for feed in self.feeds)]

    def ops_of(self, group: int) -> list[int]:
        """Return the positions of a group's ops in the block."""
        start = int(self.group_ends[group - 1]) if group else 0
        return self.group_ops[start : int(self.group_ends[group])].tolist()

    def has_tensor(self, name: str) -> bool:
        """Return True if the tensor has memory."""
        return name in self._rows

    def tensor(self, name: str) -> TensorPlace:
        """Return the place of a tensor; raises KeyError if it has no memory."""
        type, base, offset, layout = self.tensors[self._rows[name]].tolist()
        return TensorPlace(self.types[type], base, offset, None if layout < 0 else self.layouts[layout])

    def tensors_at(self, base: int) -> list[str]:
        """Return the names of the tensors at a base."""
        return [self.tensor_names[row] for row in np.flatnonzero(self.tensors[:, 1] == base).tolist()]

    def arena_tensors(self) -> list[tuple[int, int]]:
        """Return the offset and the size of each tensor in the arena."""
        sizes = np.array([type.nbytes for type in self.types], np.int64)
        rows = self.tensors[self.tensors[:, 1] == ARENA]
        return [(offset, size) for offset, size in zip(rows[:, 2].tolist(), sizes[rows[:, 0]].tolist(), strict=True)]

    def words_at(self, base: int) -> Array:
        """Return the positions of the words that lead to a base."""
        return np.flatnonzero(self.words[:, 0] == base)

    def group_buffers(self) -> list[GroupBuffer]:
        """Return the buffers of the arena."""
        found: list[GroupBuffer] = []
        start = 0
        for name, (nbytes, fed, kept, end) in zip(self.buffer_names, self.buffers.tolist(), strict=True):
            found.append(GroupBuffer(name, nbytes, self.buffer_groups[start:end].tolist(), bool(fed), bool(kept)))
            start = end
        return found

    def lines(self) -> Iterator[str]:
        """Yield the memory, the table of every group and the chunks of every phase as text."""
        yield f"code for {self.target.name}, {self.threads} thread{'s' * (self.threads > 1)}"
        yield f"{len(self.functions)} functions in {len(self.objects)} objects of {sum(map(len, self.objects))} bytes"
        yield f"arena {self.arena_bytes} bytes, file {self.file_bytes}, packed {self.packed_bytes}"
        yield from (f"feed {feed.name}: {feed.tensor} at arena + {feed.offset}" for feed in self.feeds)
        yield from (f"late update {position}" for position in self.late_updates)
        yield from (f"fetch {name}: copy of {tensor}" for name, tensor in self.copied_fetches)
        hosts = {host.group: host for host in self.hosts}
        ends = [*self.table_starts.tolist()[1:], len(self.words)]
        for group, (start, end) in enumerate(zip(self.table_starts.tolist(), ends, strict=True)):
            if group >= self.group_count:
                yield f"group {group} of a block inside an op: {', '.join(self._symbols(start, end)) or 'no table'}"
                continue
            what = "host op" if group in hosts else "ops"
            words = ", ".join(self._symbols(start, end))
            check = "; runtime check" if group in self.runtime_checks else ""
            yield f"group {group}: {what} {', '.join(map(str, self.ops_of(group)))}: {words or 'no table'}{check}"
        yield from self._phase_lines(range(self.phase_count), "phase")
        yield from self._phase_lines(range(*self.packing), "prepacking phase")

    def _phase_lines(self, phases: Sequence[int], name: str) -> Iterator[str]:
        for number, phase in enumerate(phases):
            first, count = self.phases[phase].tolist()
            if count < 0:
                records: list[list[int]] = self.actions[first : first - count].tolist()
                yield f"{name} {number}: {'; '.join(f'{NAMES[opcode]}{tuple(more)}' for opcode, *more in records)}"
                continue
            yield f"{name} {number}: {'; '.join(self._chunk(chunk) for chunk in range(first, first + count))}"

    def _chunk(self, chunk: int) -> str:
        parts: list[str] = []
        further = 1
        while further:
            record: list[int] = self.chunks[chunk].tolist()
            function, group, start, stop, further = record
            name = "iterations" if function == LOOP_STEP else self.functions[function]
            parts.append(f"{name}(group {group}, {start}:{stop})")
            chunk += further
        return " then ".join(parts)

    def _symbols(self, start: int, end: int) -> list[str]:
        return [self._symbol(*word) for word in self.words[start:end].tolist()]

    def _symbol(self, base: int, offset: int) -> str:
        return f"{self.bases[base]} {'' if base in (NUMBER, CHECK) else '+ '}{offset}"

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self.tensor_names)}
