"""A lowered block as NativeCode: the last step of the code generator, after which nothing reads lowering's own state.

1. The functions of all groups are compiled, by a function of the engine.
2. Every tensor that has memory becomes a base and an offset; so does every word of the groups' tables.
3. Phases become tables of chunks, of functions by number instead of by address.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import accumulate, chain, pairwise
from typing import NamedTuple

import numpy as np

from prograd_proto import TensorType
from prograd_proto.dtypes import ITEM_BYTES
from prograd_proto.plugins import namespace_of
from runtime.codegen.actions import ACTION_COLUMNS, Action
from runtime.codegen.code import (
    ARENA,
    CHUNK_COLUMNS,
    FILE,
    FIXED_BASES,
    LOOP_STEP,
    PACKED,
    FeedPlace,
    HostOp,
    NativeCode,
)
from runtime.codegen.control_code import ControlCode
from runtime.codegen.control_phases import Phase
from runtime.codegen.emit.code import CodeSource, emit
from runtime.codegen.lowering.chunks import Chunk, ItemRange, item_ranges
from runtime.codegen.lowering.control import is_loop, operand_layout
from runtime.codegen.lowering.lowered_block import LoweredBlock
from runtime.codegen.lowering.memory import scratch_names
from runtime.codegen.lowering.useful_threads import chunk_cycles, useful_threads
from runtime.codegen.machine import Target
from runtime.dtypes import Array
from runtime.placement.alignment import aligned
from runtime.step import FED


class KernelSource(NamedTuple):
    """The functions of a step before they are written.

    Attributes:
        target: machine that they are compiled for.
        keys: a key of each group's computation; equal groups have equal keys, and equal keys equal code.
        counts: number of functions of each group.
        write: writes them; takes the prefix of their names, and functions by key that are written already, as `emit`.
        has_plugin_rules: True if rules of plugins compute some of them: their sources are not part of the keys.
    """

    target: Target
    keys: list[bytes]
    counts: list[int]
    write: Callable[..., CodeSource]
    has_plugin_rules: bool


def _useful_threads(step: LoweredBlock) -> int:
    """Return the number of threads that are enough for a step; loops inside it may use all of them."""
    if step.bodies:
        return step.threads
    return useful_threads(chunk_cycles(step.steps, step.chunks), step.threads)


class Assembly:
    """A step on the way to NativeCode: first the source of its functions, then the code with their names.

    Attributes:
        source: the functions before they are written.
    """

    def __init__(self, step: LoweredBlock) -> None:
        self._step, self._symbols = step, _Symbols(step)
        self._control = ControlCode(step, self._symbols.of, self._symbols.first_inner_constant)
        self._phases = self._control.phases()
        native = [
            (member.first + i, kernel, steps)
            for member in self._control.members
            for i, (kernel, steps) in enumerate(zip(member.block.kernels, member.block.steps, strict=True))
            if kernel is not None
        ]
        self._native = [i for i, _, _ in native]
        kernels, steps = [kernel for _, kernel, _ in native], [steps for _, _, steps in native]
        keys, counts = [kernel.key.encode() for kernel in kernels], [len(each.all) for each in steps]
        of_plugins = any(namespace_of(op.type) for kernel in kernels for op in kernel.group.ops)
        self.source = KernelSource(step.target, keys, counts, partial(emit, step.target, kernels, steps), of_plugins)

    def code(self, named: Sequence[Sequence[str]], objects: Sequence[bytes] = ()) -> NativeCode:
        """Return the code of the step.

        Args:
            named: the names of the functions of each group of the source.
            objects: object files that have them.
        """
        step, symbols, control, hosts = self._step, self._symbols, self._control, _host_ops(self._step)
        functions = tuple(dict.fromkeys(name for names in named for name in names))
        types, layouts, tensors = _tensors(step, symbols)
        flat = _Flat(step, control, self._phases)
        phases, actions, chunks = flat.tables(functions, dict(zip(self._native, named, strict=True)))
        buffers, buffer_groups = _buffers(step)
        ops = _ops(step)
        return NativeCode(
            target=step.target,
            threads=step.threads,
            useful_threads=_useful_threads(step),
            functions=functions,
            states=symbols.states,
            constants=symbols.constants,
            inner_constants=tuple(control.inner_constants),
            feeds=symbols.feeds(),
            arena_bytes=step.memory.arena_bytes,
            file_bytes=step.memory.file_bytes,
            packed_bytes=step.memory.packed_bytes,
            phase_count=flat.starts[step.phases.count],
            packing=flat.packing,
            runtime_checks=tuple(i for i in range(len(step.groups)) if _has_runtime_check(step, i)),
            late_updates=symbols.late_updates(),
            copied_fetches=tuple((fetch.name, fetch.tensor) for fetch in step.nodes.block.desc.fetches),
            hosts=hosts,
            inner_hosts=tuple(control.inner_hosts),
            inner_groups=tuple(
                (member.block.number, *ops) for member in control.members[1:] for ops in _ops(member.block)
            ),
            tensor_names=tuple(symbols.of),
            types=types,
            layouts=layouts,
            buffer_names=tuple(buffer.name for buffer in step.memory.buffers),
            words=_array(control.words, 2),
            table_starts=_array([control.starts[i] for i in sorted(control.starts)]),
            phases=phases,
            actions=actions,
            chunks=chunks,
            segments=_array(_segments(step, hosts, flat.starts), 4),
            group_segments=_array(_group_segments(hosts, flat.group_starts), 4),
            group_ops=_array([op for each in ops for op in each]),
            group_ends=np.cumsum(_array([len(each) for each in ops])),
            tensors=tensors,
            buffers=buffers,
            buffer_groups=buffer_groups,
            objects=tuple(objects),
        )


class _Symbols:
    """The bases of a step, and the place of every tensor.

    Attributes:
        states: names of the states that have a base.
        constants: positions of the constants that have one.
        first_inner_constant: the base after these, for constants of blocks inside ops.
        of: base and offset of every tensor that has memory.
    """

    def __init__(self, step: LoweredBlock) -> None:
        self._step, block = step, step.nodes.block.desc
        written = [*step.nodes.state_of.values(), *step.memory.in_state.values(), *(u.state for u in block.updates)]
        self.states = tuple(dict.fromkeys(written))
        position = _positions(step)
        self.constants = tuple(position[id(op)] for op in step.nodes.constants.values())
        first = len(FIXED_BASES)
        self._of_state = {name: first + i for i, name in enumerate(self.states)}
        first += len(self.states)
        self._of_constant = {name: first + i for i, name in enumerate(step.nodes.constants)}
        self.first_inner_constant = first = first + len(self.constants)
        first += _count_inner_constants(step)
        self._fed = {p.tensor: p.feed for p in block.parameters if p.WhichOneof("source") == "feed"}
        self._of_feed = {tensor: first + i for i, tensor in enumerate(self._fed)}
        self.of = self._found()

    def feeds(self) -> tuple[FeedPlace, ...]:
        """Return the feeds in the order of their bases."""
        step = self._step
        halved = {
            kernel.group.nodes[0].inputs[0]
            for kernel, steps in zip(step.kernels, step.steps, strict=True)
            if kernel is not None and steps.reads_row_halves
        }
        return tuple(
            FeedPlace(name, x, step.memory.offsets[x], x in step.nodes.ends, x in halved)
            for x, name in self._fed.items()
        )

    def late_updates(self) -> tuple[int, ...]:
        """Return the positions of the updates whose source is not the memory of the state itself."""
        types, updates = self._step.nodes.types, self._step.nodes.block.desc.updates
        return tuple(
            i
            for i, update in enumerate(updates)
            if self.of[update.tensor] != (self._of_state[update.state], 0) or not types[update.tensor].nbytes
        )

    def _found(self) -> dict[str, tuple[int, int]]:
        """Return all symbols; a view has the base of its root."""
        nodes, memory = self._step.nodes, self._step.memory
        found = {tensor: (self._of_state[state], 0) for tensor, state in nodes.state_of.items()}
        found |= {name: (base, 0) for name, base in self._of_constant.items()}
        for base, offsets in ((ARENA, memory.offsets), (FILE, memory.in_file), (PACKED, memory.packed)):
            found |= {name: (base, offset) for name, offset in offsets.items()}
        found |= {name: (base, 0) for name, base in self._of_feed.items()}
        found |= {name: (self._of_state[state], 0) for name, state in memory.in_state.items()}
        for name, root in nodes.root.items():
            if name not in found and root in found:
                base, offset = found[root]
                view = nodes.views.get(name)
                skipped = 0 if view is None else view.offset * ITEM_BYTES[nodes.types[name].dtype]
                found[name] = base, offset + skipped
        return found


def _count_inner_constants(block: LoweredBlock) -> int:
    """Return the number of constants of the blocks inside the ops of a block."""
    inside = [body for bodies in block.bodies.values() for body in bodies]
    return sum(len(body.nodes.constants) + _count_inner_constants(body) for body in inside)


def _tensors(
    step: LoweredBlock, symbols: _Symbols
) -> tuple[tuple[TensorType, ...], tuple[tuple[int, ...], ...], Array]:
    """Return the distinct types, the distinct strides, and the table of tensors."""
    types: dict[TensorType, int] = {}
    layouts: dict[tuple[int, ...], int] = {}
    rows: list[tuple[int, int, int, int]] = []
    for name, (base, offset) in symbols.of.items():
        type, view = step.nodes.types[name], step.nodes.views.get(name)
        layout = -1
        if view is not None:
            strides = tuple(stride * ITEM_BYTES[type.dtype] for stride in view.layout.strides)
            layout = layouts.setdefault(strides, len(layouts))
        rows.append((types.setdefault(type, len(types)), base, offset, layout))
    return tuple(types), tuple(layouts), _array(rows, 4)


class _Flat:
    """The phases of a step as one list: those of the step, those of single groups, and those that prepack.

    Attributes:
        starts: for each phase of lowering, its first phase; last the end.
        group_starts: for each group alone, its first phase; last the end.
        packing: first phase that prepacks, and the one after the last.
    """

    def __init__(self, step: LoweredBlock, control: ControlCode, phases: Sequence[Sequence[Phase]]) -> None:
        packing = _packing(step)
        groups = [control.phases_of_group(i) for i in range(len(step.groups))]
        self.starts = [0, *accumulate(map(len, phases))]
        self.group_starts = [0, *accumulate(map(len, groups))]
        self.group_starts = [self.starts[-1] + start for start in self.group_starts]
        self.packing = self.group_starts[-1], self.group_starts[-1] + len(packing)
        self._phases = [*chain.from_iterable(phases), *chain.from_iterable(groups), *packing]

    def tables(self, functions: Sequence[str], named: Mapping[int, Sequence[str]]) -> tuple[Array, Array, Array]:
        """Return the tables of phases, of actions and of chunks."""
        number = {name: i for i, name in enumerate(functions)}
        numbers = {group: [number[name] for name in names] for group, names in named.items()}
        table: list[tuple[int, int]] = []
        actions: list[Action] = []
        chunks: list[Chunk] = []
        for phase in self._phases:
            here = [each for each in phase if isinstance(each, Action)]
            table.append((len(actions), -len(here)) if here else (len(chunks), len(phase)))
            actions += here
            chunks += [] if here else [each for each in phase if not isinstance(each, Action)]
        return _array(table, 2), _array(actions, ACTION_COLUMNS), _records(chunks, numbers)


def _packing(step: LoweredBlock) -> list[list[Chunk]]:
    """Return the chunks of everything that is prepacked, one kernel step after the other."""
    return [
        [(ItemRange(i, j, start, stop),) for start, stop in item_ranges(kernel_step, step.threads)]
        for i, steps in enumerate(step.steps)
        for j, kernel_step in enumerate(steps.prepacked)
    ]


def _has_runtime_check(step: LoweredBlock, i: int) -> bool:
    """Return True if a group may find a number that an op rejects, also in the blocks inside its op."""
    group = step.groups[i]
    if not step.is_control(group):
        return step.steps[i].has_runtime_check or (group.is_host and step.owner is not None)
    op = group.nodes[0].op
    return bool(operand_layout(op).first and is_loop(op)) or any(
        _has_runtime_check(body, j) for body in step.bodies[op.id] for j in range(len(body.groups))
    )


def _records(chunks: Sequence[Chunk], numbers: Mapping[int, Sequence[int]]) -> Array:
    """Return the first record of each chunk, and behind all of them those that follow it."""
    heads: list[tuple[int, ...]] = []
    rest: list[tuple[int, ...]] = []
    for position, (first, *others) in enumerate(chunks):
        further = [len(chunks) + len(rest) - position, *[1] * (len(others) - 1), 0] if others else [0]
        first, *others = (
            (LOOP_STEP if s.step == LOOP_STEP else numbers[s.group][s.step], s.group, s.start, s.stop, on)
            for s, on in zip((first, *others), further, strict=True)
        )
        heads.append(first)
        rest += others
    return _array([*heads, *rest], CHUNK_COLUMNS)


def _segments(step: LoweredBlock, hosts: Sequence[HostOp], starts: Sequence[int]) -> list[tuple[int, int, int, int]]:
    at = {step.phases.first[host.group]: (host.group, number) for number, host in enumerate(hosts)}
    first_group: dict[int, int] = {}
    for i, phase in enumerate(step.phases.first):
        if not step.steps[i].is_prepacked:
            first_group.setdefault(phase, i)
    segments: list[tuple[int, int, int, int]] = []
    start = 0
    for phase in [*sorted(at), step.phases.count]:
        if start < phase:
            segments.append((first_group.get(start, 0), -1, starts[start], starts[phase]))
        if phase in at:
            segments.append((*at[phase], starts[phase], starts[phase]))
        start = phase + 1
    return segments


def _group_segments(hosts: Sequence[HostOp], starts: Sequence[int]) -> list[tuple[int, int, int, int]]:
    """Return the segments of single groups, whose phases follow those of the whole step."""
    numbers = {host.group: number for number, host in enumerate(hosts)}
    return [(i, numbers.get(i, -1), first, end) for i, (first, end) in enumerate(pairwise(starts))]


def _positions(step: LoweredBlock) -> dict[int, int]:
    """Return the position in the block of each op, by identity."""
    return {id(op): i for i, op in enumerate(step.nodes.block.ops)}


def _ops(step: LoweredBlock) -> list[list[int]]:
    """Return the positions of the ops of every group."""
    position = _positions(step)
    return [[position[id(op)] for op in group.ops] for group in step.groups]


def _host_ops(step: LoweredBlock) -> tuple[HostOp, ...]:
    position = _positions(step)
    return tuple(
        HostOp(i, position[id(node.op)], node.inputs, node.outputs, tuple(step.memory.scratch[i]))
        for i, group in enumerate(step.groups)
        if group.is_host and not step.is_control(group)
        for node in group.nodes[:1]
    )


def _buffers(step: LoweredBlock) -> tuple[Array, Array]:
    """Return the table of the arena's buffers, and the groups that touch each."""
    end, memory = step.phases.count, step.memory
    touched: dict[str, list[int]] = {}
    for i, (group, stored) in enumerate(zip(step.groups, memory.stored, strict=True)):
        of_op = f" of op {group.nodes[0].op.id}" if step.is_control(group) else None
        bodies = [buffer.name for buffer in memory.buffers if of_op and buffer.name.endswith(of_op)]
        for name in dict.fromkeys([*group.reads, *stored, *scratch_names(i, len(memory.scratch[i])), *bodies]):
            touched.setdefault(name, []).append(i)
    rows: list[tuple[int, ...]] = []
    groups: list[int] = []
    for buffer in memory.buffers:
        groups += touched.get(buffer.name, [])
        rows.append((aligned(buffer.nbytes), buffer.start == FED, buffer.stop > end, len(groups)))
    return _array(rows, 4), _array(groups)


def _array(values: Iterable[object], columns: int = 0) -> Array:
    array = np.array(list(values), np.int64)
    return array.reshape(-1, columns) if columns else array
