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
from runtime.codegen.lowering.chunks import Chunk, Stretch, chunks_of, stretches
from runtime.codegen.lowering.groups import Group
from runtime.codegen.machine import Target
from runtime.constants import constant_array
from runtime.dtypes import Array
from runtime.engines.native.compiled import compiled_code
from runtime.engines.native.driver import Driver
from runtime.engines.native.host import host_call, scratch_of_node
from runtime.engines.native.refusals import Refusals
from runtime.memory.aligned import view
from runtime.memory.limit import NO_LIMIT, MemoryLimit

Call = Callable[[], object]


def lowered(
    desc: pb.BlockDesc,
    pinned: Sequence[str],
    target: Target,
    threads: int = 1,
    watched: bool = False,
    room: int | None = None,
    *,
    prepacks: bool = False,
) -> Lowered:
    """A block lowered as `runtime.codegen.lower` says, for this engine, whose host ops run as NumPy kernels."""
    return lower.lowered(desc, pinned, target, scratch_of_node, threads, watched, room, prepacks=prepacks)


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
        alone: of every group by itself, in order, for who measures them.
        packing: the phases that make what is prepacked, first and after the last.
        groups: in order.
        refusals: what compiled code found that an op refuses.
    """

    arrays: dict[str, Array]
    tables: Tables
    driver: Driver
    segments: list[Segment]
    alone: list[Segment]
    packing: tuple[int, int]
    groups: list[Group]
    refusals: Refusals

    def run(self, segment: Segment) -> None:
        """Make a segment. Raises Refused where an op does not take what it was given."""
        if segment.host is not None:
            segment.host()
        else:
            self.driver.drive(*segment.phases)
            if self.refusals.any:
                self.refusals.say(self.groups, self.arrays)

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
    native = [i for i, task in enumerate(step.tasks) if task is not None]
    tasks = [task for task in step.tasks if task is not None]
    keys = [task.key.encode() for task in tasks]
    staged = [step.stages[i] for i in native]
    counts = [len(stages.all) for stages in staged]
    code, named = compiled_code(
        program,
        step.target,
        keys,
        write=lambda: emit(step.target, tasks, staged),
        fits=lambda names: list(map(len, names)) == counts,
        memory=memory,
    )
    functions = {i: [code.address(name) for name in names] for i, names in zip(native, named, strict=True)}
    refusals = Refusals(len(step.groups), step.nodes.types)
    tables = _tables(step, arrays, arena, packed, refusals)
    whole, alone, packing = chunks_of(step.stages, step.phases, step.threads), _alone(step), _packing(step)
    phases = [*whole, *alone, *packing]
    chunks = _records([chunk for phase in phases for chunk in phase], functions, tables)
    alive = code, tables.words, packed
    driver = Driver(step.target, step.threads, _begins(phases), chunks, refusals.words, alive)
    hosts = {
        i: host_call(step.nodes, group.nodes[0], step.memory.scratch[i], arrays, arena)
        for i, group in enumerate(step.groups)
        if group.is_host
    }
    segments = _segments(step, hosts), _segments_alone(step, hosts, len(whole))
    packing = len(phases) - len(packing), len(phases)
    return CompiledStep(arrays, tables, driver, *segments, packing, step.groups, refusals)


def _alone(step: Lowered) -> list[list[Chunk]]:
    """The chunks of every stage of every group by itself, in order."""
    return [
        [(Stretch(i, j, start, stop),) for start, stop in stretches(stage, step.threads)]
        for i, staged in enumerate(step.stages)
        for j, stage in enumerate(staged.stages, len(staged.prepacked))
    ]


def _packing(step: Lowered) -> list[list[Chunk]]:
    """The chunks of all that is prepacked, stage by stage."""
    return [
        [(Stretch(i, j, start, stop),) for start, stop in stretches(stage, step.threads)]
        for i, staged in enumerate(step.stages)
        for j, stage in enumerate(staged.prepacked)
    ]


def _records(chunks: Sequence[Chunk], functions: Mapping[int, Sequence[int]], tables: Tables) -> Array:
    """The driver's table: the first stretch of each chunk, and behind all of them those that follow it."""
    heads: list[tuple[int, ...]] = []
    rest: list[tuple[int, ...]] = []
    for place, (first, *others) in enumerate(chunks):
        further = [len(chunks) + len(rest) - place, *[1] * (len(others) - 1), 0] if others else [0]
        first, *others = (
            (functions[s.group][s.stage], tables.starts[s.group], s.start, s.stop, on)
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
        if not step.stages[i].is_prepacked:
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


def _segments_alone(step: Lowered, hosts: Mapping[int, Call], first: int) -> list[Segment]:
    segments: list[Segment] = []
    for i, staged in enumerate(step.stages):
        end = first + len(staged.stages)
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
            access = nodes.accesses.get(name)
            shape = nodes.types[name].static_shape
            arrays[name] = arrays[root].reshape(shape) if access is None else access.of(arrays[root])
    return arrays


def _tables(step: Lowered, arrays: Mapping[str, Array], arena: Array, packed: Array, refusals: Refusals) -> Tables:
    starts: list[int] = []
    table: list[int] = []
    words_of: dict[str, list[int]] = {}
    at = arena.ctypes.data, packed.ctypes.data
    for i, (task, staged) in enumerate(zip(step.tasks, step.stages, strict=True)):
        starts.append(len(table))
        if task is not None:
            for place, name in enumerate(task.table, len(table)):
                words_of.setdefault(name, []).append(place)
            table += [arrays[name].ctypes.data for name in task.table]
            table += [node.op.random_stream for node in task.streams]
            rooms = enumerate(step.memory.scratch[i])
            table += [at[number in staged.packed] + offset for number, offset in rooms]
            table += refusals.addresses(i) if staged.refuses else []
    words = np.array(table or [0], np.int64)
    return Tables([words.ctypes.data + ADDRESS * start for start in starts], words, words_of)
