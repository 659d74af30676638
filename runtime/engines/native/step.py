"""A step bound to memory: its symbols become addresses, and segments of phases and host ops run one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from prograd_proto import program_pb2 as pb
from runtime.codegen.code import ADDRESS_BYTES, ARENA, FILE, FIXED_BASES, PACKED, NativeCode
from runtime.constants import constant_array
from runtime.dtypes import Array, numpy_dtype
from runtime.engines.native.driver import Driver
from runtime.engines.native.jit import Loaded
from runtime.engines.native.runtime_checks import RuntimeChecks

Call = Callable[[], object]


class Segment(NamedTuple):
    """A stretch of the step without a break: a host op, or phases of compiled code.

    Attributes:
        first: number of its first group.
        host: call of the host op, or None.
        phases: first phase and the one after the last, in the driver's table.
    """

    first: int
    host: Call | None
    phases: tuple[int, int]


class Tensors(Mapping[str, Array]):
    """The tensors of a step that have memory, as arrays; each array is made on its first use."""

    def __init__(self, code: NativeCode, memory: Mapping[int, Array]) -> None:
        """Keep `memory`, which has the bytes of every base but those of numbers and checks."""
        self._code, self._memory = code, memory
        self._known: dict[str, Array] = {}

    def __getitem__(self, name: str) -> Array:
        if name not in self._known:
            self._known[name] = self.at(name)
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._code.tensor_names)

    def __len__(self) -> int:
        return len(self._code.tensor_names)

    def at(self, name: str, memory: Array | None = None) -> Array:
        """Return a tensor in the memory of its base, or in these bytes instead."""
        type, base, offset, strides = self._code.tensor(name)
        buffer = self._memory[base] if memory is None else memory
        return np.ndarray(type.static_shape, numpy_dtype(type.dtype), buffer, offset, strides)


class CompiledStep(NamedTuple):
    """A step that can run, and the memory that it works on.

    Attributes:
        code: the step as a value.
        block: the block that it computes.
        arrays: every tensor that has memory.
        words: the tables of all groups, with addresses.
        driver: runs phases.
        segments: of the whole step.
        group_segments: of every group alone, in order.
        runtime_checks: words that compiled code sets where an op rejects a number.
        blocks: the blocks of the program.
    """

    code: NativeCode
    block: pb.BlockDesc
    arrays: Tensors
    words: Array
    driver: Driver
    segments: list[Segment]
    group_segments: list[Segment]
    runtime_checks: RuntimeChecks
    blocks: Sequence[pb.BlockDesc]

    def run(self, segment: Segment) -> None:
        """Run a segment; raises CheckFailed if an op rejects a number that it was given."""
        if segment.host is not None:
            segment.host()
        else:
            self.driver.drive(*segment.phases)
            if self.runtime_checks.any_failed:
                self.runtime_checks.raise_error(self.arrays)

    def unconverted_fetches(self, fetches: Mapping[str, Array]) -> dict[str, Array]:
        """Return, of the arrays to which fetches are copied, those with the dtype of their tensor, as their tensors."""
        tensor_of = dict(self.code.copied_fetches)
        found = {name: self.arrays[tensor_of.get(name, name)] for name in fetches}
        return {name: array for name, array in found.items() if array.dtype == fetches[name].dtype}

    def prepack(self) -> None:
        """Compute values that are derived from states alone: before the first step, and when they have changed."""
        self.driver.drive(*self.code.packing)

    def __call__(self) -> None:
        """Run the step."""
        for segment in self.segments:
            self.run(segment)


def bind_code(
    code: NativeCode,
    loaded: Loaded,
    block: pb.BlockDesc,
    states: Mapping[str, Array],
    arena: Array,
    file: Array | None = None,
    packed: Array | None = None,
    program: pb.ProgramDesc | None = None,
    *,
    check_nan: bool = False,
    max_threads: int | None = None,
) -> CompiledStep:
    """Bind code to states, the arena, the file beside it and the memory of prepacked values.

    Memory that a step does not need may be absent. The same code may be bound several times. `program` has the blocks
    inside ops, whose ops check their outputs with `check_nan`. `max_threads` may be less than the threads of the code.
    """
    blocks = () if program is None else program.blocks
    memory = _memory(code, block, states, arena, file, packed, blocks)
    checks = RuntimeChecks(code, block, program)
    bases = np.zeros(code.first_feed + len(code.feeds), np.int64)
    for base, array in memory.items():
        bases[base] = array.__array_interface__["data"][0]
    bases[len(FIXED_BASES) - 1] = checks.words.ctypes.data
    words = np.append(bases[code.words[:, 0]] + code.words[:, 1], 0)
    chunks = code.chunks.copy()
    addresses = np.array([*(loaded.address(name) for name in code.functions), 0], np.int64)
    chunks[:, 0] = addresses[code.chunks[:, 0]]  # `LOOP_STEP` has the last one, 0
    chunks[:, 1] = words.ctypes.data + ADDRESS_BYTES * code.table_starts[code.chunks[:, 1]]
    phases = np.ascontiguousarray(code.phases)
    arrays = Tensors(code, memory)
    actions = np.ascontiguousarray(code.actions)
    alive = loaded, words, *memory.values()
    inner = _inner_host_calls(code, blocks, words, arena, checks) if code.inner_hosts else []
    threads = max(min(max_threads or code.threads, int(phases[:, 1].max(initial=1))), 1)  # more would find no chunk
    driver = Driver(code.target, threads, phases, chunks, checks.words, alive, actions, words, inner)
    hosts = _host_calls(code, block, arrays, arena, program, check_nan) if code.hosts else []
    return CompiledStep(
        code,
        block,
        arrays,
        words,
        driver,
        _segments(code.segments, hosts),
        _segments(code.group_segments, hosts),
        checks,
        blocks,
    )


def _segments(table: Array, hosts: list[Call]) -> list[Segment]:
    rows: list[list[int]] = table.tolist()
    return [Segment(first, None if host < 0 else hosts[host], (start, stop)) for first, host, start, stop in rows]


def _memory(
    code: NativeCode,
    block: pb.BlockDesc,
    states: Mapping[str, Array],
    arena: Array,
    file: Array | None,
    packed: Array | None,
    blocks: Sequence[pb.BlockDesc],
) -> dict[int, Array]:
    """Return the bytes of every base that has memory."""
    constants = [block.ops[op] for op in code.constants]
    constants += [blocks[number].ops[op] for number, op in code.inner_constants]
    own = [states[name] for name in code.states]
    own += [constant_array(op.attributes[0].tensor_value) for op in constants]
    fed = (arena[feed.offset :] for feed in code.feeds)
    known = {ARENA: arena, FILE: arena if file is None else file, PACKED: arena if packed is None else packed}
    return known | dict(enumerate([*map(_bytes_of, own), *fed], len(FIXED_BASES)))


def _bytes_of(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)


def _host_calls(
    code: NativeCode,
    block: pb.BlockDesc,
    arrays: Mapping[str, Array],
    arena: Array,
    program: pb.ProgramDesc | None,
    check_nan: bool,
) -> list[Call]:
    from runtime.engines.native.host import NOTHING, Around, host_call

    around = NOTHING if program is None else Around(program.blocks, program.locations, check_nan)
    return [host_call(host, block.ops[host.op], arrays, arena, around) for host in code.hosts]


def _inner_host_calls(
    code: NativeCode, blocks: Sequence[pb.BlockDesc], words: Array, arena: Array, checks: RuntimeChecks
) -> list[Callable[[], None]]:
    from runtime.engines.native.inner_hosts import inner_host_calls  # few programs need it

    return inner_host_calls(code, blocks, words, arena, checks)
