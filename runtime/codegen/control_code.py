"""Control flow as code: the blocks inside ops become phases between actions of the driver; see `codegen.actions`.

1. Each operand and each result of an op of control flow has a word with its address. So has each argument and each
   result of its blocks: the address of a row, of the carry that an iteration reads, of the one that it writes.
2. A word of a table in a block is an address in the arena, or it is linked to the word of an argument or of a result.
   Actions set linked words when the loop begins if they never change, else before each iteration.
3. `control_phases` has the phases of one op.
"""

from __future__ import annotations

from collections.abc import Mapping

from prograd_proto.blocks.control import COND
from prograd_proto.dtypes import ITEM_BYTES
from runtime.codegen.actions import HOST, Action
from runtime.codegen.code import ADDRESS_BYTES, ARENA, CHECK, LOOP_WORDS, NUMBER, PACKED, InnerHostOp
from runtime.codegen.control_phases import ControlOp, Link, Phase, TabledBlock
from runtime.codegen.lowering.chunks import Chunk, ItemRange, item_ranges
from runtime.codegen.lowering.lowered_block import LoweredBlock
from runtime.placement.alignment import aligned


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
        self._base_of_constant: dict[tuple[int, int], int] = {}
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
        *,
        is_copy: bool = False,
    ) -> TabledBlock:
        member = TabledBlock(block, self._groups, check, places, words, arena, packed, is_copy)
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
            if block.is_control(block.groups[i]):
                self.words += [(NUMBER, 0)] * LOOP_WORDS
            elif member.check >= 0:
                self.inner_hosts.append(self._inner_host(member, i))
            return
        for name in kernel.table:
            self.address(member, name)
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
            tuple([self.address(member, name) if name else -1 for name in names])
            for names in (node.inputs, node.outputs)
        )
        member.hosts[i] = len(self.inner_hosts)
        scratch = tuple([member.arena + offset for offset in block.memory.scratch[i]])
        return InnerHostOp(member.check, block.number, position, inputs, outputs, scratch)

    def word(self, base: int = NUMBER, offset: int = 0) -> int:
        """Append a word, by default the number 0; return its position."""
        self.words.append((base, offset))
        return len(self.words) - 1

    def address(self, member: TabledBlock, name: str) -> int:
        """Add the word of a tensor's address."""
        if name in member.places:
            return self.word(*member.places[name])
        nodes = member.block.nodes
        root, view = nodes.root[name], nodes.views.get(name)
        offset = 0 if view is None else view.offset * ITEM_BYTES[nodes.types[name].dtype]
        if root in member.places:
            base, at = member.places[root]
            return self.word(base, at + offset)
        word = self.word()
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

    def packing(self, member: TabledBlock) -> list[Phase]:
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
            op = ControlOp(self, member, i)
            self._known[number] = op.cond() if op.desc.type == COND else op.loop()
        return self._known[number]

    def body(
        self, around: TabledBlock, i: int, part: int, words: Mapping[str, int], copy: int | None = None
    ) -> tuple[TabledBlock, list[Phase]]:
        """Return a block inside an op, and its phases.

        Args:
            around: the block of the op.
            i: number of the op's group.
            part: position of the block in the op.
            words: addresses of arguments and direct results.
            copy: number of the copy of a block in several copies.
        """
        op = around.block.groups[i].nodes[0].op
        block, memory = around.block.bodies[op.id][part], around.block.memory.bodies[op.id]
        arena = around.arena + memory.arena + (copy or 0) * aligned(block.memory.arena_bytes)
        packed = ARENA, around.arena + memory.packed[part]
        places = {name: (ARENA, arena + offset) for name, offset in block.memory.offsets.items()}
        places |= {name: (packed[0], packed[1] + offset) for name, offset in block.memory.packed.items()}
        position = {id(op): k for k, op in enumerate(block.nodes.block.ops)}
        for name, constant in block.nodes.constants.items():
            places[name] = self._inner_constant(block.number, position[id(constant)]), 0
        check = around.check if around.check >= 0 else i
        is_copy = around.is_copy or copy is not None
        member = self._tabled(block, check, places, words, arena, packed, is_copy=is_copy)
        phases = [phase for phases in self._phases(member) for phase in phases]
        return member, phases

    def set_word(self, word: int, number: int) -> None:
        """Make a word a number."""
        self.words[word] = (NUMBER, number)

    def start(self, group: int) -> int:
        """Return the number of the first word of a group's table."""
        return self.starts[group]

    def _inner_constant(self, block: int, op: int) -> int:
        """Return the base of a constant of a block inside an op; copies of the block share it."""
        if (block, op) not in self._base_of_constant:
            self._base_of_constant[block, op] = self._first_inner_constant + len(self.inner_constants)
            self.inner_constants.append((block, op))
        return self._base_of_constant[block, op]


def _moved(chunk: Chunk, groups: int) -> Chunk:
    """Return a chunk of groups whose numbers begin later."""
    return tuple(items._replace(group=items.group + groups) for items in chunk)
