"""A lowered block as NativeCode: the last step of the code generator, after which nothing reads lowering's own state.

1. The functions of all groups are compiled, by a function of the engine.
2. Every tensor that has memory becomes a base and an offset; so does every word of the groups' tables.
3. Phases become tables of chunks, of functions by number instead of by address.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from prograd_proto import TensorType
from prograd_proto.dtypes import ITEM_BYTES
from runtime.codegen.code import (
    ADDRESS_BYTES,
    ARENA,
    CHECK,
    CHUNK_COLUMNS,
    FILE,
    FIXED_BASES,
    NUMBER,
    PACKED,
    FeedPlace,
    HostOp,
    NativeCode,
)
from runtime.codegen.emit.code import CodeSource, emit
from runtime.codegen.ir import Module
from runtime.codegen.lowering.chunks import Chunk, ItemRange, item_ranges
from runtime.codegen.lowering.lowered_block import LoweredBlock
from runtime.codegen.lowering.memory import scratch_names
from runtime.codegen.machine import Target
from runtime.dtypes import Array
from runtime.placement.alignment import aligned


class KernelSource(NamedTuple):
    """The functions of a step before they are written.

    Attributes:
        target: machine that they are compiled for.
        keys: a key of each group's computation; equal groups have equal keys, and equal keys equal code.
        counts: number of functions of each group.
        write: writes them.
    """

    target: Target
    keys: list[bytes]
    counts: list[int]
    write: Callable[[], CodeSource]


class CompiledKernels(NamedTuple):
    """Object files, and the names of the functions of each group."""

    objects: Sequence[bytes]
    functions: Sequence[Sequence[str]]


def native_code(step: LoweredBlock, build: Callable[[KernelSource], CompiledKernels]) -> NativeCode:
    """Return the code of a step; `build` compiles its functions, or finds them compiled."""
    native = [i for i, kernel in enumerate(step.kernels) if kernel is not None]
    kernels, steps = [kernel for kernel in step.kernels if kernel is not None], [step.steps[i] for i in native]
    keys, counts = [kernel.key.encode() for kernel in kernels], [len(each.all) for each in steps]
    objects, named = build(KernelSource(step.target, keys, counts, lambda: emit(step.target, kernels, steps)))
    functions = tuple(dict.fromkeys(name for names in named for name in names))
    symbols, hosts = _Symbols(step), _host_ops(step)
    words, table_starts = _tables(step, symbols)
    types, layouts, tensors = _tensors(step, symbols)
    phases, chunks, packing = _phases(step, functions, dict(zip(native, named, strict=True)))
    buffers, buffer_groups = _buffers(step)
    ops = _ops(step)
    return NativeCode(
        target=step.target,
        threads=step.threads,
        functions=functions,
        states=symbols.states,
        constants=symbols.constants,
        feeds=symbols.feeds(),
        arena_bytes=step.memory.arena_bytes,
        file_bytes=step.memory.file_bytes,
        packed_bytes=step.memory.packed_bytes,
        phase_count=step.phases.count,
        packing=packing,
        runtime_checks=tuple(i for i, steps in enumerate(step.steps) if steps.has_runtime_check),
        late_updates=symbols.late_updates(),
        copied_fetches=tuple((fetch.name, fetch.tensor) for fetch in step.nodes.block.desc.fetches),
        hosts=hosts,
        tensor_names=tuple(symbols.of),
        types=types,
        layouts=layouts,
        buffer_names=tuple(buffer.name for buffer in step.memory.buffers),
        words=words,
        table_starts=table_starts,
        phases=phases,
        chunks=chunks,
        segments=_array(_segments(step, hosts), 4),
        group_segments=_array(_group_segments(step, hosts), 4),
        group_ops=_array([op for each in ops for op in each]),
        group_ends=np.cumsum(_array([len(each) for each in ops])),
        tensors=tensors,
        buffers=buffers,
        buffer_groups=buffer_groups,
        objects=tuple(objects),
    )


def compiled_with(compile_module: Callable[[Module], bytes]) -> Callable[[KernelSource], CompiledKernels]:
    """Return a `build` for `native_code` that compiles one module after the other."""

    def build(source: KernelSource) -> CompiledKernels:
        written = source.write()
        objects = [compile_module(module) for module in written.modules]
        return CompiledKernels(objects, written.functions)

    return build


class _Symbols:
    """The bases of a step, and the place of every tensor.

    Attributes:
        states: names of the states that have a base.
        constants: positions of the constants that have one.
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
        first += len(self.constants)
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


def _tables(step: LoweredBlock, symbols: _Symbols) -> tuple[Array, Array]:
    """Return the words of all groups, and where those of each group start."""
    words: list[tuple[int, int]] = []
    starts: list[int] = []
    for i, (kernel, steps) in enumerate(zip(step.kernels, step.steps, strict=True)):
        starts.append(len(words))
        if kernel is not None:
            words += [symbols.of[name] for name in kernel.table]
            words += [(NUMBER, node.op.random_stream) for node in kernel.streams]
            scratch = enumerate(step.memory.scratch[i])
            words += [(PACKED if number in steps.packed else ARENA, offset) for number, offset in scratch]
            words += [(CHECK, 0), (CHECK, ADDRESS_BYTES * (1 + i))] if steps.has_runtime_check else []
    return _array(words, 2), _array(starts)


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


def _phases(
    step: LoweredBlock, functions: Sequence[str], named: Mapping[int, Sequence[str]]
) -> tuple[Array, Array, tuple[int, int]]:
    """Return the table of phases, that of chunks, and the range of the phases that prepack."""
    number = {name: i for i, name in enumerate(functions)}
    numbers = {group: [number[name] for name in names] for group, names in named.items()}
    packing = _packing(step)
    phases = [*step.chunks, *_chunks_per_group(step), *packing]
    counts = _array([len(phase) for phase in phases])
    table = np.stack([np.cumsum(counts) - counts, counts], axis=1)
    chunks = _records([chunk for phase in phases for chunk in phase], numbers)
    return table, chunks, (len(phases) - len(packing), len(phases))


def _chunks_per_group(step: LoweredBlock) -> list[list[Chunk]]:
    """Return the chunks of every kernel step of every group alone, in order."""
    return [
        [(ItemRange(i, j, start, stop),) for start, stop in item_ranges(kernel_step, step.threads)]
        for i, steps in enumerate(step.steps)
        for j, kernel_step in enumerate(steps.steps, len(steps.prepacked))
    ]


def _packing(step: LoweredBlock) -> list[list[Chunk]]:
    """Return the chunks of everything that is prepacked, one kernel step after the other."""
    return [
        [(ItemRange(i, j, start, stop),) for start, stop in item_ranges(kernel_step, step.threads)]
        for i, steps in enumerate(step.steps)
        for j, kernel_step in enumerate(steps.prepacked)
    ]


def _records(chunks: Sequence[Chunk], numbers: Mapping[int, Sequence[int]]) -> Array:
    """Return the first record of each chunk, and behind all of them those that follow it."""
    heads: list[tuple[int, ...]] = []
    rest: list[tuple[int, ...]] = []
    for position, (first, *others) in enumerate(chunks):
        further = [len(chunks) + len(rest) - position, *[1] * (len(others) - 1), 0] if others else [0]
        first, *others = (
            (numbers[s.group][s.step], s.group, s.start, s.stop, on)
            for s, on in zip((first, *others), further, strict=True)
        )
        heads.append(first)
        rest += others
    return _array([*heads, *rest], CHUNK_COLUMNS)


def _segments(step: LoweredBlock, hosts: Sequence[HostOp]) -> list[tuple[int, int, int, int]]:
    at = {step.phases.first[host.group]: (host.group, number) for number, host in enumerate(hosts)}
    first_group: dict[int, int] = {}
    for i, phase in enumerate(step.phases.first):
        if not step.steps[i].is_prepacked:
            first_group.setdefault(phase, i)
    segments: list[tuple[int, int, int, int]] = []
    start = 0
    for phase in [*sorted(at), step.phases.count]:
        if start < phase:
            segments.append((first_group.get(start, 0), -1, start, phase))
        if phase in at:
            segments.append((*at[phase], phase, phase))
        start = phase + 1
    return segments


def _group_segments(step: LoweredBlock, hosts: Sequence[HostOp]) -> list[tuple[int, int, int, int]]:
    """Return the segments of single groups, whose phases follow those of the whole step."""
    numbers = {host.group: number for number, host in enumerate(hosts)}
    segments: list[tuple[int, int, int, int]] = []
    first = step.phases.count
    for i, steps in enumerate(step.steps):
        end = first + len(steps.steps)
        segments.append((i, numbers.get(i, -1), first, end))
        first = end
    return segments


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
        if group.is_host
        for node in group.nodes[:1]
    )


def _buffers(step: LoweredBlock) -> tuple[Array, Array]:
    """Return the table of the arena's buffers, and the groups that touch each."""
    end, memory = step.phases.count, step.memory
    touched: dict[str, list[int]] = {}
    for i, (group, stored) in enumerate(zip(step.groups, memory.stored, strict=True)):
        for name in dict.fromkeys([*group.reads, *stored, *scratch_names(i, len(memory.scratch[i]))]):
            touched.setdefault(name, []).append(i)
    rows: list[tuple[int, ...]] = []
    groups: list[int] = []
    for buffer in memory.buffers:
        groups += touched.get(buffer.name, [])
        rows.append((aligned(buffer.nbytes), buffer.start == 0, buffer.stop > end, len(groups)))
    return _array(rows, 4), _array(groups)


def _array(values: Iterable[object], columns: int = 0) -> Array:
    array = np.array(list(values), np.int64)
    return array.reshape(-1, columns) if columns else array
