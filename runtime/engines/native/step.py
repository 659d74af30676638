"""A bound entry as one step: lowered, compiled, and bound to the memory that it works in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from prograd_proto import program_pb2 as pb
from runtime.codegen import lower
from runtime.codegen.emit.code import ADDRESS, emit
from runtime.codegen.emit.driver import CHUNK_WORDS
from runtime.codegen.lower import Lowered
from runtime.codegen.lowering.chunks import Chunk, ItemRange, chunks_of, item_ranges
from runtime.codegen.lowering.groups import Group
from runtime.codegen.machine import Target
from runtime.constants import constant_array
from runtime.dtypes import Array
from runtime.engines.native.compiled import compiled_code
from runtime.engines.native.driver import Driver
from runtime.engines.native.host import host_call, scratch_of_node
from runtime.engines.native.runtime_checks import RuntimeChecks
from runtime.memory.aligned import view
from runtime.memory.limit import NO_LIMIT, MemoryLimit

Call = Callable[[], object]


def lowered(
    desc: pb.BlockDesc,
    pinned: Sequence[str],
    target: Target,
    threads: int = 1,
    is_instrumented: bool = False,
    memory_budget: int | None = None,
    *,
    prepacks: bool = False,
) -> Lowered:
    """A block lowered as `runtime.codegen.lower` says, for this engine, whose host ops run as NumPy kernels."""
    return lower.lowered(
        desc, pinned, target, scratch_of_node, threads, is_instrumented, memory_budget, prepacks=prepacks
    )


class Segment(NamedTuple):
    """What runs without a break: a host op, or phases of compiled code.

    Attributes:
        first: the position of its first group.
        host: the call of the host op, or None.
        phases: the first phase and the one after the last, in the driver's table.
    """

    first: int
    host: Call | None
    phases: tuple[int, int]


class Tables(NamedTuple):
    """The addresses that the functions of groups are given.

    Attributes:
        starts: of each group, the address of its table.
        words: all tables, one behind the other.
        words_of: by tensor, the words that have its address.
    """

    starts: list[int]
    words: Array
    words_of: dict[str, list[int]]


class CompiledStep(NamedTuple):
    """A step that can be made, and what it works on.

    Attributes:
        arrays: of every tensor that has memory.
        tables: where its functions find them.
        driver: what makes phases.
        segments: of the whole step.
        per_group: of every group by itself, in order, for who measures them.
        packing: the phases that make what is prepacked, first and after the last.
        groups: in order.
        runtime_checks: what compiled code found that an op refuses.
    """

    arrays: dict[str, Array]
    tables: Tables
    driver: Driver
    segments: list[Segment]
    per_group: list[Segment]
    packing: tuple[int, int]
    groups: list[Group]
    runtime_checks: RuntimeChecks

    def run(self, segment: Segment) -> None:
        """Make a segment. Raises Refused where an op does not take what it was given."""
        if segment.host is not None:
            segment.host()
        else:
            self.driver.drive(*segment.phases)
            if self.runtime_checks.any_failed:
                self.runtime_checks.raise_error(self.groups, self.arrays)

    def prepack(self) -> None:
        """Make what follows from states alone: before the first step, and when they have changed."""
        self.driver.drive(*self.packing)

    def __call__(self) -> None:
        """Make the step."""
        for segment in self.segments:
            self.run(segment)


def bind_compiled(
    step: Lowered,
    states: Mapping[str, Array],
    arena: Array,
    file: Array | None = None,
    program: str = "no program",
    packed: Array | None = None,
    memory: MemoryLimit = NO_LIMIT,
) -> CompiledStep:
    """Compile the groups, and bind them to states, arena, the file beside it, and the memory of what is prepacked.

    `program` is the name by which the code is kept. What a step has nothing of may be absent. `memory` counts what
    compiling takes; raises ResourceLimit if that is too much.
    """
    packed = arena if packed is None else packed
    arrays = _arrays(step, states, arena, arena if file is None else file, packed)
    native = [i for i, kernel in enumerate(step.kernels) if kernel is not None]
    kernels = [kernel for kernel in step.kernels if kernel is not None]
    keys = [kernel.key.encode() for kernel in kernels]
    steps = [step.steps[i] for i in native]
    counts = [len(kernel_steps.all) for kernel_steps in steps]
    code, named = compiled_code(
        program,
        step.target,
        keys,
        write=lambda: emit(step.target, kernels, steps),
        fits=lambda names: list(map(len, names)) == counts,
        memory=memory,
    )
    functions = {i: [code.address(name) for name in names] for i, names in zip(native, named, strict=True)}
    runtime_checks = RuntimeChecks(len(step.groups), step.nodes.types)
    tables = _tables(step, arrays, arena, packed, runtime_checks)
    whole, alone, packing = chunks_of(step.steps, step.phases, step.threads), _chunks_per_group(step), _packing(step)
    phases = [*whole, *alone, *packing]
    chunks = _records([chunk for phase in phases for chunk in phase], functions, tables)
    alive = code, tables.words, packed
    driver = Driver(step.target, step.threads, _begins(phases), chunks, runtime_checks.words, alive)
    hosts = {
        i: host_call(step.nodes, group.nodes[0], step.memory.scratch[i], arrays, arena)
        for i, group in enumerate(step.groups)
        if group.is_host
    }
    segments = _segments(step, hosts), _segments_per_group(step, hosts, len(whole))
    packing = len(phases) - len(packing), len(phases)
    return CompiledStep(arrays, tables, driver, *segments, packing, step.groups, runtime_checks)


def _chunks_per_group(step: Lowered) -> list[list[Chunk]]:
    """The chunks of every stage of every group by itself, in order."""
    return [
        [(ItemRange(i, j, start, stop),) for start, stop in item_ranges(kernel_step, step.threads)]
        for i, steps in enumerate(step.steps)
        for j, kernel_step in enumerate(steps.steps, len(steps.prepacked))
    ]


def _packing(step: Lowered) -> list[list[Chunk]]:
    """The chunks of all that is prepacked, stage by stage."""
    return [
        [(ItemRange(i, j, start, stop),) for start, stop in item_ranges(kernel_step, step.threads)]
        for i, steps in enumerate(step.steps)
        for j, kernel_step in enumerate(steps.prepacked)
    ]


def _records(chunks: Sequence[Chunk], functions: Mapping[int, Sequence[int]], tables: Tables) -> Array:
    """The driver's table: the first stretch of each chunk, and behind all of them those that follow it."""
    heads: list[tuple[int, ...]] = []
    rest: list[tuple[int, ...]] = []
    for position, (first, *others) in enumerate(chunks):
        further = [len(chunks) + len(rest) - position, *[1] * (len(others) - 1), 0] if others else [0]
        first, *others = (
            (functions[s.group][s.step], tables.starts[s.group], s.start, s.stop, on)
            for s, on in zip((first, *others), further, strict=True)
        )
        heads.append(first)
        rest += others
    return np.array([*heads, *rest], np.int64).reshape(-1, CHUNK_WORDS)


def _begins(phases: Sequence[Sequence[Chunk]]) -> Array:
    """For each phase its first chunk and how many there are."""
    counts = np.array([len(phase) for phase in phases], np.int64)
    return np.ascontiguousarray(np.stack([np.cumsum(counts) - counts, counts], axis=1))


def _segments(step: Lowered, hosts: Mapping[int, Call]) -> list[Segment]:
    at = {step.phases.first[i]: i for i in hosts}
    first_group: dict[int, int] = {}
    for i, phase in enumerate(step.phases.first):
        if not step.steps[i].is_prepacked:
            first_group.setdefault(phase, i)
    segments: list[Segment] = []
    start = 0
    for phase in [*sorted(at), step.phases.count]:
        if start < phase:
            segments.append(Segment(first_group.get(start, 0), None, (start, phase)))
        if phase in at:
            segments.append(Segment(at[phase], hosts[at[phase]], (phase, phase)))
        start = phase + 1
    return segments


def _segments_per_group(step: Lowered, hosts: Mapping[int, Call], first: int) -> list[Segment]:
    segments: list[Segment] = []
    for i, steps in enumerate(step.steps):
        end = first + len(steps.steps)
        segments.append(Segment(i, hosts.get(i), (first, end)))
        first = end
    return segments


def _arrays(step: Lowered, states: Mapping[str, Array], arena: Array, file: Array, packed: Array) -> dict[str, Array]:
    nodes, memory = step.nodes, step.memory
    arrays = {tensor: states[state] for tensor, state in nodes.state_of.items()}
    arrays |= {name: constant_array(op.attributes[0].tensor_value) for name, op in nodes.constants.items()}
    arrays |= {name: view(arena, offset, nodes.types[name]) for name, offset in memory.offsets.items()}
    arrays |= {name: view(file, offset, nodes.types[name]) for name, offset in memory.in_file.items()}
    arrays |= {name: view(packed, offset, nodes.types[name]) for name, offset in memory.packed.items()}
    arrays |= {name: states[state].reshape(nodes.types[name].static_shape) for name, state in memory.in_state.items()}
    for name, root in nodes.root.items():
        if name not in arrays and root in arrays:
            found_view = nodes.views.get(name)
            shape = nodes.types[name].static_shape
            arrays[name] = arrays[root].reshape(shape) if found_view is None else found_view.of(arrays[root])
    return arrays


def _tables(
    step: Lowered, arrays: Mapping[str, Array], arena: Array, packed: Array, runtime_checks: RuntimeChecks
) -> Tables:
    starts: list[int] = []
    table: list[int] = []
    words_of: dict[str, list[int]] = {}
    at = arena.ctypes.data, packed.ctypes.data
    for i, (kernel, steps) in enumerate(zip(step.kernels, step.steps, strict=True)):
        starts.append(len(table))
        if kernel is not None:
            for position, name in enumerate(kernel.table, len(table)):
                words_of.setdefault(name, []).append(position)
            table += [arrays[name].ctypes.data for name in kernel.table]
            table += [node.op.random_stream for node in kernel.streams]
            rooms = enumerate(step.memory.scratch[i])
            table += [at[number in steps.packed] + offset for number, offset in rooms]
            table += runtime_checks.addresses(i) if steps.has_runtime_check else []
    words = np.array(table or [0], np.int64)
    return Tables([words.ctypes.data + ADDRESS * start for start in starts], words, words_of)
