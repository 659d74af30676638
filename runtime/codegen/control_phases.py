"""The phases of an op of control flow: those of its blocks, between actions of the driver.

1. The next iteration reads a carry where this one has written it: in a row of an output, in the output itself if it is
   updated in place, or in one of two buffers.
2. Iterations of a scan whose carries only count may be shared by threads. Each thread has a copy of the block with
   memory and tables of its own. A chunk is a range of iterations; a round of chunks takes some milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple, Protocol

from prograd_proto import attributes_of
from prograd_proto.blocks.control import WHILE
from prograd_proto.dtypes import ITEM_BYTES
from runtime.codegen.actions import (
    ADD,
    CLEAR,
    COPY,
    JUMP,
    JUMP_IF_DONE,
    JUMP_IF_ZERO,
    LIMIT,
    LINK,
    LOAD,
    LOAD_BYTE,
    PAUSE,
    ROW,
    SET,
    STORE,
    TOGGLE,
    Action,
)
from runtime.codegen.code import ADDRESS_BYTES, ARENA, CHECK, LOOP_STEP, NUMBER
from runtime.codegen.costs import MAX_COMBINED_LOOP_CYCLES
from runtime.codegen.lowering.chunks import Chunk, ItemRange, split_items
from runtime.codegen.lowering.control import (
    copies_of_block,
    counter_bytes,
    cycles_of,
    iterations_of,
    iterations_of_a_round,
    operand_layout,
    results_of,
)
from runtime.codegen.lowering.lowered_block import LoweredBlock

Phase = list[Chunk] | list[Action]
"""The chunks of a phase, or its actions."""


class Link(NamedTuple):
    """A word that is set from another one: `target` = `source` + `offset`."""

    target: int
    source: int
    offset: int

    @property
    def action(self) -> Action:
        """The action that sets it."""
        return Action(LINK, self.target, self.source, self.offset)


@dataclass
class TabledBlock:
    """A block whose groups have tables.

    Attributes:
        block: the block.
        first: number of its first group among those of all blocks.
        check: group of the step that reports a failed runtime check; -1 for the group itself.
        places: by tensor with memory of the block's own, base and offset.
        words: by root that is outside of the block, the word with its address.
        arena: offset of the block's arena in that of the step.
        packed: base and offset of what it prepacks.
        is_copy: True if it is a copy of a block whose iterations threads share, or inside one.
        links: words that are set from others.
        hosts: by group that is a host op in a block inside an op, its number among all such.
    """

    block: LoweredBlock
    first: int
    check: int
    places: Mapping[str, tuple[int, int]]
    words: Mapping[str, int]
    arena: int
    packed: tuple[int, int]
    is_copy: bool
    links: list[Link] = field(default_factory=list[Link])
    hosts: dict[int, int] = field(default_factory=dict[int, int])


class Tables(Protocol):
    """The methods of a step's tables that a `ControlOp` calls; `ControlCode` has them."""

    def word(self, base: int = NUMBER, offset: int = 0) -> int:
        """Add a word, and return its number."""
        ...

    def set_word(self, word: int, number: int) -> None:
        """Make a word a number."""
        ...

    def address(self, member: TabledBlock, name: str) -> int:
        """Add the word of a tensor's address, and return its number."""
        ...

    def body(
        self, around: TabledBlock, i: int, part: int, words: Mapping[str, int], copy: int | None = None
    ) -> tuple[TabledBlock, list[Phase]]:
        """Return a block inside an op, and its phases."""
        ...

    def packing(self, member: TabledBlock) -> list[Phase]:
        """Return the phases that prepack."""
        ...

    def start(self, group: int) -> int:
        """Return the number of the first word of a group's table."""
        ...


class ControlOp:
    """The words of one op of control flow, and its phases."""

    def __init__(self, code: Tables, member: TabledBlock, i: int) -> None:
        node = member.block.groups[i].nodes[0]
        self.desc = node.op
        self._code, self._around, self._i = code, member, i
        self._attributes = attributes_of(node.op)
        self._first, self._carries, self._rows = operand_layout(node.op)
        self._bodies, self._memory = member.block.bodies[node.op.id], member.block.memory.bodies[node.op.id]
        self._inputs = [code.address(member, name) for name in node.inputs]
        self._outputs = [code.address(member, name) for name in node.outputs]
        self._of_input = [member.block.nodes.types[name] for name in node.inputs]

    def cond(self) -> list[Phase]:
        """Return the phases of both branches, of which one is jumped over."""
        first, arguments = self._first, range(len(self._inputs) - self._first)
        parts: list[list[Phase]] = []
        links: list[Action] = []
        for part, block in enumerate(self._bodies):
            results = results_of(block)
            words = self._arguments(part, {a: self._inputs[first + a] for a in arguments})
            words |= {root: self._outputs[number] for root, number in results.direct.items()}
            member, phases = self._code.body(self._around, self._i, part, words)
            copies = self._copies(member, self._outputs)
            links += [link.action for link in member.links]
            parts.append([*phases, copies])
        taken, other = parts
        going = self._code.word()
        jump = Action(JUMP_IF_ZERO, going, c=len(taken) + 1)
        taken[-1] = [*_actions(taken[-1]), Action(JUMP, c=len(other) + 1)]
        return [[*links, Action(LOAD_BYTE, going, self._inputs[0]), jump], *taken, *other]

    def loop(self) -> list[Phase]:
        """Return the phases of a scan or of a `while_loop`."""
        copies = 1 if self._around.is_copy else copies_of_block(self._around.block, self.desc)
        return self._shared_loop(copies) if copies > 1 else self._sequential_loop()

    def _shared_loop(self, copies: int) -> list[Phase]:
        """Return the phases of a scan whose iterations threads share.

        They are begin | prepack | test | chunks of a round | next | copy of the block for each thread.
        """
        code, body = self._code, self._bodies[0]
        count, row, trips, cycles = (code.word() for _ in range(4))
        begin = self._begin(count, row, trips, cycles)
        begin += self._cleared(trips) if self._first else []
        rows: list[int] = []
        phases: list[Phase] = []
        packing: list[Phase] = []
        counters, end = self._counters(trips, begin)
        for copy in range(copies):
            rows.append(code.word())
            member, block = self._copy_of_block(rows[-1], copy, counters, begin)
            packing = packing or code.packing(member)
            phases += block
        size = iterations_of_a_round(self._around.block, self.desc)
        step = -1 if self._attributes.get("reverse") else 1
        group = self._around.first + self._i
        record = (2, len(phases) // copies, rows[0], rows[1] - rows[0], count, trips, row, step)
        for k, number in enumerate(record):
            code.set_word(code.start(group) + k, number)
        ranges = split_items(size, size * cycles_of(body), copies)
        chunks: Phase = [(ItemRange(group, LOOP_STEP, *items),) for items in ranges]
        price = Action(PAUSE, cycles, c=size * cycles_of(body), d=int(self._may_take_long(body)))
        onward = [Action(ADD, count, c=size), Action(ADD, row, c=step * size), Action(JUMP, c=-2), price]
        test = [Action(JUMP_IF_DONE, count, trips, 3 + len(phases))]
        return [begin, *packing, test, chunks, onward, *phases, end]

    def _counters(self, trips: int, begin: list[Action]) -> tuple[list[int], list[Action]]:
        """Return the words with the first values of the counters that are carried, and actions that store the last."""
        code, end = self._code, list[Action]()
        counters = [code.word() for _ in range(self._carries)]
        for j, counter in enumerate(counters):
            last = code.word()
            begin.append(Action(LOAD, counter, self._inputs[self._first + j]))
            end += [Action(ROW, last, counter, 1, trips), Action(STORE, self._outputs[j], last)]
        return counters, end

    def _copy_of_block(
        self, row: int, copy: int, counters: Sequence[int], begin: list[Action]
    ) -> tuple[TabledBlock, list[Phase]]:
        """Return a copy of the block and its phases for the row in a word; add to `begin` what no iteration changes."""
        code, body = self._code, self._bodies[0]
        stacked, given = [code.word() for _ in self._stacked_bytes], [code.word() for _ in range(self._rows)]
        shared = self._inputs[self._first + self._carries + self._rows :]
        counted: list[Action] = []
        read: list[int] = []
        written: list[int] = []
        for j, counter in enumerate(counters):
            at = self._around.arena + self._memory.spare[j] + copy * counter_bytes(1)
            number = code.word()
            read.append(code.word(ARENA, at))
            written.append(code.word(ARENA, at + counter_bytes(1) // 2))
            counted += [Action(ROW, number, counter, 1, row), Action(STORE, read[-1], number)]
        words = self._arguments(0, dict(enumerate([*read, *given, *shared])))
        targets = [*written, *stacked]
        words |= {root: targets[number] for root, number in results_of(body).direct.items()}
        member, phases = code.body(self._around, self._i, 0, words, copy)
        copies = self._copies(member, targets)
        begin += [link.action for link in member.links if link.source in shared]
        links = [link.action for link in member.links if link.source not in shared]
        return member, [[*self._row_actions(stacked, given, row), *counted, *links], *phases, copies]

    def _row_actions(self, stacked: Sequence[int], given: Sequence[int], row: int) -> list[Action]:
        """Return the actions that set the addresses of the rows of outputs and operands."""
        outputs, operands = len(self._outputs) - len(stacked), self._first + self._carries
        found = [
            Action(ROW, word, stack, size, row)
            for word, stack, size in zip(stacked, self._outputs[outputs:], self._stacked_bytes, strict=True)
        ]
        numbers = range(operands, operands + self._rows)
        return found + [
            Action(ROW, word, self._inputs[k], self._row_bytes(k), row) for word, k in zip(given, numbers, strict=True)
        ]

    def _cleared(self, trips: int) -> list[Action]:
        """Return the actions that write zeros to the rows behind those of the iterations."""
        stacks = self._outputs[len(self._outputs) - len(self._stacked_bytes) :]
        return [
            Action(CLEAR, stack, trips, size, self._length)
            for stack, size in zip(stacks, self._stacked_bytes, strict=True)
        ]

    @property
    def _stacked_bytes(self) -> list[int]:
        """The bytes of a row of each stacked output."""
        body = self._bodies[-1]
        return [body.nodes.types[name].nbytes for name in body.desc.results[self._carries :]]

    def _may_take_long(self, body: LoweredBlock) -> bool:
        """Return True if nothing but a signal may end the loop in time."""
        is_endless = self.desc.type == WHILE and not self._length
        return is_endless or self._length * cycles_of(body) > MAX_COMBINED_LOOP_CYCLES

    def _sequential_loop(self) -> list[Phase]:
        code, is_while = self._code, self.desc.type == WHILE
        count, row, trips, going, cycles = (code.word() for _ in range(5))
        body, results = self._bodies[-1], results_of(self._bodies[-1])
        carried = [code.word() for _ in range(self._carries)]
        written = [code.word() for _ in range(self._carries)]
        stacked = [code.word() for _ in self._stacked_bytes]
        targets = [*written, *stacked]
        given = [code.word() for _ in range(self._rows)]
        shared = self._inputs[self._first + self._carries + self._rows :]
        arguments = dict(enumerate([*carried, *given, *shared]))
        members: list[TabledBlock] = []
        parts: list[list[Phase]] = []
        for part in range(len(self._bodies)):
            words = self._arguments(part, arguments)
            if part == len(self._bodies) - 1:
                words |= {root: targets[number] for root, number in results.direct.items()}
            member, phases = code.body(self._around, self._i, part, words)
            members.append(member)
            parts.append(phases)
        copies = self._copies(members[-1], targets)
        tests = self._tests(members, count, trips, going)  # before links are read: a result outside of a block adds one
        carry_bytes = [body.nodes.types[name].nbytes for name in body.desc.results[: self._carries]]
        begin = self._begin(count, row, trips, cycles)
        unchanging = {*shared}
        begin += [link.action for member in members for link in member.links if link.source in unchanging]
        onward: list[Action] = []
        for j in range(self._carries):
            begin.append(Action(LINK, carried[j], self._inputs[self._first + j]))
            in_row = results.row_of(j)
            if in_row is not None:
                onward.append(Action(LINK, carried[j], targets[in_row]))
                continue
            if j not in self._memory.spare:
                begin.append(Action(LINK, written[j], self._outputs[j]))
                onward.append(Action(LINK, carried[j], written[j]))
                continue
            spare = code.word(ARENA, self._around.arena + self._memory.spare[j])
            begin.append(Action(LINK, written[j], self._outputs[j] if is_while or self._length % 2 else spare))
            onward.append(Action(LINK, carried[j], written[j]))
            onward.append(Action(TOGGLE, written[j], self._outputs[j], spare))
        rows = self._row_actions(stacked, given, row)
        linked = [[link.action for link in member.links if link.source not in unchanging] for member in members]
        step = -1 if self._attributes.get("reverse") else 1
        onward += [Action(ADD, count, c=1), Action(ADD, row, c=step)]
        end = [Action(COPY, self._outputs[j], carried[j], size) for j, size in enumerate(carry_bytes)]
        clear = self._cleared(count if is_while else trips)
        packing = [phase for member in members for phase in code.packing(member)]
        begin += [] if is_while or not self._first else clear
        if is_while:
            end += [Action(STORE, self._outputs[self._carries], count), *clear]
        price = Action(PAUSE, cycles, c=cycles_of(body), d=int(self._may_take_long(body)))
        return _assembled(
            begin,
            packing,
            parts,
            rows,
            linked,
            copies,
            onward,
            end,
            is_while,
            tests,
            price,
        )

    @property
    def _length(self) -> int:
        """The rows of the outputs: as many as iterations, or the most iterations of a `while_loop` that stores rows."""
        return iterations_of(self.desc.type, self._attributes)

    def _tests(self, members: Sequence[TabledBlock], count: int, trips: int, going: int) -> list[list[Action]]:
        """Return the actions before each block that decide whether it is run; the distance of a jump is not known."""
        if self.desc.type != WHILE:
            return [[Action(JUMP_IF_DONE, count, trips)]]
        result = self._code.address(members[0], results_of(members[0].block).roots[0])
        bounded = [Action(JUMP_IF_DONE, count, trips)] if self._length else []
        return [bounded, [Action(LOAD_BYTE, going, result), Action(JUMP_IF_ZERO, going)]]

    def _begin(self, count: int, row: int, trips: int, cycles: int) -> list[Action]:
        begin = [Action(SET, word) for word in (count, row, cycles)] + [Action(SET, trips, c=self._length)]
        if self._first:
            check = self._around.check if self._around.check >= 0 else self._i
            of_all, own = self._code.word(CHECK, 0), self._code.word(CHECK, ADDRESS_BYTES * (1 + check))
            begin += [Action(LOAD, trips, self._inputs[0]), Action(LIMIT, trips, of_all, self._length, own)]
        if self._attributes.get("reverse"):
            begin += [Action(LINK, row, trips), Action(ADD, row, c=-1)]
        return begin

    def _arguments(self, part: int, words: Mapping[int, int]) -> dict[str, int]:
        return {p.tensor: words[p.argument] for p in self._bodies[part].desc.parameters}

    def _copies(self, member: TabledBlock, targets: Sequence[int]) -> list[Action]:
        """Return the copies of the results that the block does not write where they are needed."""
        results, types = results_of(member.block), member.block.nodes.types
        return [
            Action(COPY, targets[number], self._code.address(member, root), types[root].nbytes)
            for number, root in enumerate(results.roots)
            if not results.is_direct(number) and not (number < results.carries and results.row_of(number) is not None)
        ]

    def _row_bytes(self, k: int) -> int:
        type = self._of_input[k]
        return prod(type.static_shape[1:]) * ITEM_BYTES[type.dtype]


def _assembled(
    begin: list[Action],
    packing: list[Phase],
    parts: list[list[Phase]],
    rows: list[Action],
    linked: list[list[Action]],
    copies: list[Action],
    onward: list[Action],
    end: list[Action],
    is_while: bool,
    tests: list[list[Action]],
    price: Action,
) -> list[Phase]:
    """Return the phases of a loop, with the distances of its jumps."""
    last = len(parts) - 1
    phases: list[Phase] = []
    left = sum(map(len, parts)) + len(parts) + 1  # phases from the first test to the end
    size = left
    for number, (part, test, links) in enumerate(zip(parts, tests, linked, strict=True)):
        jumps = [
            action._replace(c=left) if action.opcode in (JUMP_IF_DONE, JUMP_IF_ZERO) else action for action in test
        ]
        phases.append([*(rows if number == last else []), *links, *jumps])
        phases += part
        left -= 1 + len(part)
    phases.append([*copies, *onward, Action(JUMP, c=1 - size), price])
    return [begin, *packing, *phases, end]


def _actions(phase: Phase) -> list[Action]:
    return [action for action in phase if isinstance(action, Action)]
