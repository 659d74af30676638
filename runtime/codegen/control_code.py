"""Control flow as code: the blocks inside ops become phases between actions of the driver; see `codegen.actions`.

1. Each operand and each result of an op of control flow has a word with its address. So has each argument and each
   result of its blocks: the address of a row, of the carry that an iteration reads, of the one that it writes.
2. A word of a table in a block is an address in the arena, or it is linked to the word of an argument or of a result.
   Actions set linked words when the loop begins if they never change, else before each iteration.
3. The next iteration reads a carry where this one has written it: in a row of an output, in the output itself if it is
   updated in place, or in one of two buffers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple, cast

from prograd_proto import attributes_of
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks.control import COND, WHILE
from prograd_proto.dtypes import ITEM_BYTES
from runtime.codegen.actions import (
    ADD,
    CLEAR,
    COPY,
    HOST,
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
from runtime.codegen.code import ADDRESS_BYTES, ARENA, CHECK, NUMBER, PACKED, InnerHostOp
from runtime.codegen.costs import MAX_COMBINED_LOOP_CYCLES, MIN_ITERATION_CYCLES
from runtime.codegen.lowering.chunks import Chunk, ItemRange, item_ranges
from runtime.codegen.lowering.control import operand_layout, results_of
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
    links: list[Link] = field(default_factory=list[Link])
    hosts: dict[int, int] = field(default_factory=dict[int, int])


class ControlCode:
    """The tables and phases of a step and of the blocks inside its ops.

    Attributes:
        words: base and offset of every word.
        starts: by number of a group, the first word of its table.
        members: the blocks, that of the step first.
        inner_constants: constants of the blocks inside ops that have a base: numbers of the block and of the op.
        inner_hosts: ops of the blocks inside ops that have no code.
    """

    def __init__(self, step: LoweredBlock, places: Mapping[str, tuple[int, int]], first_inner_constant: int) -> None:
        """Write the tables of the step's own block; `places` are those of its tensors."""
        self.words: list[tuple[int, int]] = []
        self.starts: dict[int, int] = {}
        self.members: list[TabledBlock] = []
        self.inner_constants: list[tuple[int, int]] = []
        self.inner_hosts: list[InnerHostOp] = []
        self._first_inner_constant = first_inner_constant
        self._groups = 0
        self._known: dict[int, list[Phase]] = {}
        self._step = self._tabled(step, -1, places, {}, 0, (PACKED, 0))

    def phases(self) -> list[list[Phase]]:
        """Return the phases of the step, by their numbers in lowering; an op of control flow becomes several."""
        return self._phases(self._step)

    def phases_of_group(self, i: int) -> list[Phase]:
        """Return the phases of a group of the step that runs alone."""
        step = self._step.block
        if step.is_control(step.groups[i]):
            return self._control(self._step, i)
        steps = step.steps[i]
        return [
            [(ItemRange(i, j, start, stop),) for start, stop in item_ranges(kernel_step, step.threads)]
            for j, kernel_step in enumerate(steps.steps, len(steps.prepacked))
        ]

    # Tables.

    def _tabled(
        self,
        block: LoweredBlock,
        check: int,
        places: Mapping[str, tuple[int, int]],
        words: Mapping[str, int],
        arena: int,
        packed: tuple[int, int],
    ) -> TabledBlock:
        member = TabledBlock(block, self._groups, check, places, words, arena, packed)
        self._groups += len(block.groups)
        self.members.append(member)
        for i in range(len(block.groups)):
            self._table(member, i)
        return member

    def _table(self, member: TabledBlock, i: int) -> None:
        block = member.block
        kernel, steps = block.kernels[i], block.steps[i]
        self.starts[member.first + i] = len(self.words)
        if kernel is None:
            if _is_inner_host(member, i):
                self.inner_hosts.append(self._inner_host(member, i))
            return
        for name in kernel.table:
            self._address(member, name)
        self.words += [(NUMBER, node.op.random_stream) for node in kernel.streams]
        base, at = member.packed
        self.words += [
            (base, at + offset) if number in steps.packed else (ARENA, member.arena + offset)
            for number, offset in enumerate(block.memory.scratch[i])
        ]
        check = member.check if member.check >= 0 else i
        self.words += [(CHECK, 0), (CHECK, ADDRESS_BYTES * (1 + check))] if steps.has_runtime_check else []

    def _inner_host(self, member: TabledBlock, i: int) -> InnerHostOp:
        block, node = member.block, member.block.groups[i].nodes[0]
        position = next(k for k, op in enumerate(block.nodes.block.ops) if op is node.op)
        inputs, outputs = (
            tuple([self._address(member, name) if name else -1 for name in names])
            for names in (node.inputs, node.outputs)
        )
        member.hosts[i] = len(self.inner_hosts)
        scratch = tuple([member.arena + offset for offset in block.memory.scratch[i]])
        return InnerHostOp(member.check, block.number, position, inputs, outputs, scratch)

    def _word(self, base: int = NUMBER, offset: int = 0) -> int:
        self.words.append((base, offset))
        return len(self.words) - 1

    def _address(self, member: TabledBlock, name: str) -> int:
        """Add the word of a tensor's address."""
        if name in member.places:
            return self._word(*member.places[name])
        nodes = member.block.nodes
        root, view = nodes.root[name], nodes.views.get(name)
        offset = 0 if view is None else view.offset * ITEM_BYTES[nodes.types[name].dtype]
        if root in member.places:
            base, at = member.places[root]
            return self._word(base, at + offset)
        word = self._word()
        member.links.append(Link(word, member.words[root], offset))
        return word

    # Phases.

    def _phases(self, member: TabledBlock) -> list[list[Phase]]:
        block = member.block
        found: list[list[Phase]] = [[[_moved(c, member.first) for c in chunks]] for chunks in block.chunks]
        for i, number in member.hosts.items():
            found[block.phases.first[i]] = [[Action(HOST, number)]]
        for i, group in enumerate(block.groups):
            if block.is_control(group):
                found[block.phases.first[i]] = self._control(member, i)
        return found

    def _packing(self, member: TabledBlock) -> list[Phase]:
        """Return the phases that prepack, before the first iteration."""
        block = member.block
        return [
            [(ItemRange(member.first + i, j, start, stop),) for start, stop in item_ranges(kernel_step, block.threads)]
            for i, steps in enumerate(block.steps)
            for j, kernel_step in enumerate(steps.prepacked)
        ]

    def _control(self, member: TabledBlock, i: int) -> list[Phase]:
        """Return the phases of an op of control flow."""
        number = member.first + i
        if number not in self._known:
            op = _ControlOp(self, member, i)
            self._known[number] = op.cond() if op.desc.type == COND else op.loop()
        return self._known[number]

    def body(self, around: TabledBlock, i: int, part: int, words: Mapping[str, int]) -> tuple[TabledBlock, list[Phase]]:
        """Return a block inside an op, and its phases; `words` have the addresses of arguments and direct results."""
        op = around.block.groups[i].nodes[0].op
        block, memory = around.block.bodies[op.id][part], around.block.memory.bodies[op.id]
        arena = around.arena + memory.arena
        packed = ARENA, around.arena + memory.packed[part]
        places = {name: (ARENA, arena + offset) for name, offset in block.memory.offsets.items()}
        places |= {name: (packed[0], packed[1] + offset) for name, offset in block.memory.packed.items()}
        position = {id(op): k for k, op in enumerate(block.nodes.block.ops)}
        for name, constant in block.nodes.constants.items():
            places[name] = self._first_inner_constant + len(self.inner_constants), 0
            self.inner_constants.append((block.number, position[id(constant)]))
        check = around.check if around.check >= 0 else i
        member = self._tabled(block, check, places, words, arena, packed)
        phases = [phase for phases in self._phases(member) for phase in phases]
        return member, phases

    packing = _packing
    word = _word
    address = _address


class _ControlOp:
    """The words of one op of control flow, and its phases."""

    def __init__(self, code: ControlCode, member: TabledBlock, i: int) -> None:
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
        code, is_while = self._code, self.desc.type == WHILE
        count, row, trips, going, cycles = (code.word() for _ in range(5))
        body, results = self._bodies[-1], results_of(self._bodies[-1])
        carried = [code.word() for _ in range(self._carries)]
        written = [code.word() for _ in range(self._carries)]
        stacks = self._outputs[self._carries + is_while :]
        stacked = [code.word() for _ in stacks]
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
        row_bytes = [body.nodes.types[name].nbytes for name in body.desc.results[self._carries :]]
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
        rows = [Action(ROW, a, b, size, row) for a, b, size in zip(stacked, stacks, row_bytes, strict=True)]
        operands = range(self._first + self._carries, self._first + self._carries + self._rows)
        rows += [Action(ROW, a, self._inputs[k], self._row_bytes(k), row) for a, k in zip(given, operands, strict=True)]
        linked = [[link.action for link in member.links if link.source not in unchanging] for member in members]
        step = -1 if self._attributes.get("reverse") else 1
        onward += [Action(ADD, count, c=1), Action(ADD, row, c=step)]
        end = [Action(COPY, self._outputs[j], carried[j], size) for j, size in enumerate(carry_bytes)]
        clear = [
            Action(CLEAR, a, count if is_while else trips, size, self._length)
            for a, size in zip(stacks, row_bytes, strict=True)
        ]
        packing = [phase for member in members for phase in code.packing(member)]
        begin += [] if is_while or not self._first else clear
        if is_while:
            end += [Action(STORE, self._outputs[self._carries], count), *clear]
        cost = cycles_of(body)
        is_endless = is_while and not self._length
        price = Action(PAUSE, cycles, c=cost, d=int(is_endless or self._length * cost > MAX_COMBINED_LOOP_CYCLES))
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
        return _iterations(self.desc.type, self._attributes)

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
            begin += [Action(LINK, row, trips, -1)]
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


def cycles_of(body: LoweredBlock) -> int:
    """Return the cycles of a block, including those of loops and conditions inside, up to some seconds.

    A `while_loop` without a bound counts as one iteration, because it pauses by itself.
    """
    own = sum(kernel_step.cost for steps in body.steps for kernel_step in steps.steps)
    inner = sum(_cycles_of_blocks(op, body.bodies[op.id]) for op in body.desc.ops if op.id in body.bodies)
    return min(MIN_ITERATION_CYCLES + int(own) + inner, MAX_COMBINED_LOOP_CYCLES + 1)


def _cycles_of_blocks(op: pb.OpDesc, blocks: Sequence[LoweredBlock]) -> int:
    cycles = [cycles_of(block) for block in blocks]
    if op.type == COND:
        return max(cycles)
    return max(_iterations(op.type, attributes_of(op)), 1) * sum(cycles)


def _iterations(type: str, attributes: Mapping[str, object]) -> int:
    """Return the iterations of a loop, at most; 0 for a `while_loop` without a bound."""
    if type == WHILE:
        return cast("int", attributes["max_trips"])
    [length] = cast("tuple[int]", attributes["length"])
    return length


def _is_inner_host(member: TabledBlock, i: int) -> bool:
    """Return True if a NumPy kernel computes a group of a block inside an op."""
    group = member.block.groups[i]
    return member.check >= 0 and group.is_host and not member.block.is_control(group)


def _actions(phase: Phase) -> list[Action]:
    return [action for action in phase if isinstance(action, Action)]


def _moved(chunk: Chunk, groups: int) -> Chunk:
    """Return a chunk of groups whose numbers begin later."""
    return tuple(items._replace(group=items.group + groups) for items in chunk)
