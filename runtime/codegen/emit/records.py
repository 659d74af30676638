"""The tables that a driver reads: phases, chunks and actions.

The engine's tables have words of 64 bits and addresses. Those of a library are constants that all its instances share,
so they have numbers of functions and of words, most of them of 32 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from runtime.codegen.actions import ACTION_COLUMNS
from runtime.codegen.board import FUNCTIONS, WORDS
from runtime.codegen.code import CHUNK_COLUMNS
from runtime.codegen.ir import INT32, INT64, Function, Index, Type, Value, pointer
from runtime.codegen.ir.words import convert

PHASE_WORDS: Final = 2
"""Words of a phase: the first chunk, and the number of chunks."""

WIDE_ACTION_WORDS: Final = 3
"""Words of 64 bits of an action of a library: c, and then the opcode, a, b and d in 32 bits each."""


class Records(NamedTuple):
    """The format of the tables of a driver.

    Attributes:
        in_library: True for the tables of a library.
    """

    in_library: bool = False

    @property
    def type(self) -> Type:
        """The type of the address of phases, of chunks and of a chunk."""
        return pointer(INT32 if self.in_library else INT64)

    def numbers(self, f: Function, record: Value, positions: Sequence[Index]) -> list[Value]:
        """Return numbers of a phase or a chunk, by their positions from an address on."""
        found = [f.load(record, i) for i in positions]
        return [convert(each, INT64) for each in found] if self.in_library else found

    def phase(self, f: Function, phases: Value, phase: Value) -> list[Value]:
        """Return the first chunk of a phase, and the number of its chunks."""
        return self.numbers(f, phases, [phase * PHASE_WORDS + i for i in range(2)])

    def chunk(self, chunks: Value, number: Index) -> Value:
        """Return the address of a chunk."""
        return chunks + number * CHUNK_COLUMNS

    def further(self, f: Function, record: Value) -> Value:
        """Return the distance to the record that the same thread runs next, 0 for none."""
        return self.numbers(f, record, [4])[0]

    def is_loop(self, f: Function, record: Value) -> Value:
        """Return a mask of one lane that is set for a chunk of iterations."""
        [function] = self.numbers(f, record, [0])
        return function < 0 if self.in_library else function.equal(0)

    def table(self, f: Function, board: Value, record: Value) -> Value:
        """Return the address of the words of a chunk's group."""
        if not self.in_library:
            return f.address_at(record, 1, INT64)
        return f.address_at(board, WORDS, INT64) + self.numbers(f, record, [1])[0]

    def items(self, f: Function, record: Value) -> list[Value]:
        """Return the first work item of a chunk, and the one after its last."""
        return self.numbers(f, record, [2, 3])

    def call(self, f: Function, board: Value, record: Value, thread: Value) -> None:
        """Call the function of a chunk."""
        table = self.table(f, board, record)
        if self.in_library:
            functions, [number] = f.address_at(board, FUNCTIONS, INT64), self.numbers(f, record, [0])
            at = f.emit(f"getelementptr ptr, ptr {functions.text}, i64 {number.text}", pointer(INT64))
            function = f.emit(f"load ptr, ptr {at.text}, align 4", pointer(INT64))
        else:
            function = f.address_at(record, 0, INT64)
        f.call_at(function, table, *self.items(f, record), thread)

    def action(self, f: Function, actions: Value, number: Value) -> list[Value]:
        """Return the opcode of an action, and its numbers a, b, c and d."""
        if not self.in_library:
            record = actions + number * ACTION_COLUMNS
            return [f.load(record, column) for column in range(ACTION_COLUMNS)]
        record = actions + number * WIDE_ACTION_WORDS
        opcode, a, b, d = self.numbers(f, f.cast(record + 1, INT32), range(4))
        return [opcode, a, b, f.load(record), d]
