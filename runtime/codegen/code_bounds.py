"""The check of NativeCode that was read from a file: that every number in it is within its bounds.

Code that fits reads and writes only tables, chunks, tensors and ops that exist, and addresses within the memory of its
base. The object code itself cannot be checked; a file of it is trusted as little as its folder allows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from prograd_proto import TensorType
from prograd_proto import program_pb2 as pb
from prograd_proto.dtypes import ITEM_BYTES
from runtime.codegen.actions import CLEAR, COPY, HOST, JUMPS, LIMIT, LINK, PAUSE, ROW, USED_WORDS, WRITING
from runtime.codegen.code import ADDRESS_BYTES, CHECK, LOOP_STEP, LOOP_WORDS, NUMBER, InnerHostOp, NativeCode
from runtime.codegen.machine import Target
from runtime.dtypes import Array


def fits(
    code: NativeCode,
    block: pb.BlockDesc,
    types: Mapping[str, TensorType],
    pinned: Sequence[str],
    target: Target,
    threads: int,
    blocks: Sequence[pb.BlockDesc] = (),
) -> bool:
    """Return True if the code is of this form for this block, target and number of threads.

    Args:
        code: value that `code_bytes.from_bytes` returned.
        block: bound block that it computes.
        types: types of the block's tensors.
        pinned: tensors that are fetched besides those of the block.
        target: machine of the caller.
        threads: number of threads of the caller.
        blocks: blocks of the program, which the constants of blocks inside ops name.
    """
    try:
        return (
            (code.target, code.threads) == (target.for_threads(threads), threads)
            and _fits_block(code, block, pinned)
            and _fits_inner_constants(code, blocks)
            and _fits_memory(code, block, types, blocks)
            and _fits_schedule(code)
            and _fits_actions(code, int(_base_bytes(code, block, types, blocks).max()))
            and len(code.inner_groups) == len(code.table_starts) - code.group_count
            and all(_fits_inner_group(group, blocks) for group in code.inner_groups)
            and all(_fits_inner_host(host, code, blocks) for host in code.inner_hosts)
            and _fits_groups(code, len(block.ops))
        )
    except OverflowError:  # a number of more than 64 bits
        return False


def _fits_block(code: NativeCode, block: pb.BlockDesc, pinned: Sequence[str]) -> bool:
    """Return True if feeds, fetches and updates are those of the block, and all that they name has memory."""
    fed = [(p.feed, p.tensor) for p in block.parameters if p.WhichOneof("source") == "feed"]
    owned = [p.tensor for p in block.parameters if p.WhichOneof("source") == "state"]
    needed = [
        *(x for _, x in fed),
        *owned,
        *(f.tensor for f in block.fetches),
        *(u.tensor for u in block.updates),
        *pinned,
    ]
    hosted = [name for host in code.hosts for name in (*host.inputs, *host.outputs) if name]
    return (
        [(feed.name, feed.tensor) for feed in code.feeds] == fed
        and code.copied_fetches == tuple((fetch.name, fetch.tensor) for fetch in block.fetches)
        and _are_indices(code.late_updates, len(block.updates))
        and set(_states_of(block)) >= set(code.states) >= {update.state for update in block.updates}
        and _are_indices(code.constants, len(block.ops))
        and all(block.ops[op].type == "constant" for op in code.constants)
        and len(code.tensor_names) == len(code.tensors)
        and all(code.has_tensor(name) for name in (*needed, *hosted))
    )


def _fits_inner_constants(code: NativeCode, blocks: Sequence[pb.BlockDesc]) -> bool:
    """Return True if the constants of blocks inside ops exist."""
    return all(
        0 <= number < len(blocks)
        and 0 <= op < len(blocks[number].ops)
        and blocks[number].ops[op].type == "constant"
        and len(blocks[number].ops[op].attributes) == 1
        for number, op in code.inner_constants
    )


def _fits_memory(
    code: NativeCode, block: pb.BlockDesc, types: Mapping[str, TensorType], blocks: Sequence[pb.BlockDesc]
) -> bool:
    """Return True if every word and every tensor is within the memory of its base."""
    sizes = _base_bytes(code, block, types, blocks)
    words, tensors = code.words, code.tensors
    if not (_in_range(words[:, 0], len(sizes)) and _in_range(tensors[:, 1], len(sizes))):
        return False
    is_memory = words[:, 0] != NUMBER
    limits = sizes[words[:, 0]]
    if not (
        bool(((words[:, 1] >= 0) & (words[:, 1] <= limits))[is_memory].all())
        and not (words[words[:, 0] == CHECK, 1] % ADDRESS_BYTES).any()
        and _in_range(tensors[:, 0], len(code.types))
        and bool((tensors[:, 3] >= -1).all() and (tensors[:, 3] < len(code.layouts)).all())
        and not np.isin(tensors[:, 1], (NUMBER, CHECK)).any()
        and all(type.dtype in ITEM_BYTES for type in code.types)
    ):
        return False
    spans = _tensor_spans(code)
    return (
        spans is not None
        and bool(((tensors[:, 2] >= 0) & (tensors[:, 2] <= sizes[tensors[:, 1]] - spans)).all())
        and all(types.get(name) in (None, code.types[row]) for name, row in _typed(code))
        and all(0 <= f.offset <= code.arena_bytes - types[f.tensor].nbytes for f in code.feeds)
    )


def _typed(code: NativeCode) -> zip[tuple[str, int]]:
    return zip(code.tensor_names, code.tensors[:, 0].tolist(), strict=True)


def _base_bytes(
    code: NativeCode, block: pb.BlockDesc, types: Mapping[str, TensorType], blocks: Sequence[pb.BlockDesc]
) -> Array:
    """Return the bytes of every base; 0 of numbers, and for checks the offset of the last one."""
    of_state = _states_of(block)
    return np.array(
        [
            *(code.arena_bytes, code.file_bytes, code.packed_bytes, 0, ADDRESS_BYTES * code.group_count),
            *(types[of_state[name]].nbytes for name in code.states),
            *(types[block.ops[op].outputs[0]].nbytes for op in code.constants),
            *(len(blocks[b].ops[op].attributes[0].tensor_value.data) for b, op in code.inner_constants),
            *(types[feed.tensor].nbytes for feed in code.feeds),
        ],
        np.int64,
    )


def _states_of(block: pb.BlockDesc) -> dict[str, str]:
    """Return by state the tensor that is it, or becomes it."""
    written = {update.state: update.tensor for update in block.updates}
    return written | {p.state: p.tensor for p in block.parameters if p.WhichOneof("source") == "state"}


def _tensor_spans(code: NativeCode) -> Array | None:
    """Return the bytes from the first element of each tensor to behind its last; None if strides do not fit."""
    whole = np.array([type.nbytes for type in code.types] or [0], np.int64)[code.tensors[:, 0]]
    known: dict[tuple[int, int], int | None] = {}
    with_strides: list[list[int]] = code.tensors[code.tensors[:, 3] >= 0].tolist()
    for type, layout in {(row[0], row[3]) for row in with_strides}:
        known[type, layout] = _span(code.types[type], code.layouts[layout])
    for i in np.flatnonzero(code.tensors[:, 3] >= 0).tolist():
        span = known[int(code.tensors[i, 0]), int(code.tensors[i, 3])]
        if span is None:
            return None
        whole[i] = span
    return whole


def _span(type: TensorType, strides: Sequence[int]) -> int | None:
    shape = type.static_shape
    if len(shape) != len(strides) or any(stride < 0 for stride in strides):
        return None
    if 0 in shape:
        return 0
    return sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True)) + ITEM_BYTES[type.dtype]


def _fits_schedule(code: NativeCode) -> bool:
    """Return True if chunks name functions and groups, phases name chunks, and segments name phases."""
    chunks, groups = code.chunks, len(code.table_starts)
    following = np.arange(len(chunks)) + chunks[:, 4]
    start, stop = code.packing
    return (
        1 <= code.useful_threads <= max(code.threads, 1)
        and _in_range(chunks[chunks[:, 0] != LOOP_STEP, 0], len(code.functions))
        and _in_range(chunks[:, 1], groups)
        and bool((chunks[:, 2] >= 0).all() and (chunks[:, 2] <= chunks[:, 3]).all())
        and bool((chunks[:, 4] >= 0).all())
        and _in_range(following, len(chunks))
        and _are_phases(code)
        and all(_fits_shared_loop(code, *place) for place in _shared_loops(code))
        and code.phase_count <= start <= stop == len(code.phases)
        and all(_are_segments(table, code) for table in (code.segments, code.group_segments))
        and len(code.group_segments) == code.group_count
    )


def _are_phases(code: NativeCode) -> bool:
    """Return True if phases name chunks or actions that exist."""
    has_chunks = code.phases[:, 1] >= 0
    first, count, of_actions = code.phases[has_chunks, 0], code.phases[has_chunks, 1], code.phases[~has_chunks]
    return _are_ranges(first, first + count, len(code.chunks)) and _are_ranges(
        of_actions[:, 0], of_actions[:, 0] - of_actions[:, 1], len(code.actions)
    )


def _shared_loops(code: NativeCode) -> Iterator[tuple[int, int]]:
    """Yield the phase and the group of each loop whose iterations threads share."""
    for number, (first, count) in enumerate(code.phases.tolist()):
        for function, group, *_ in code.chunks[first : first + max(count, 0)].tolist():
            if function == LOOP_STEP:
                yield number, group


def _fits_shared_loop(code: NativeCode, phase: int, group: int) -> bool:
    """Return True if the copies of the loop's block have phases and words, and no action changes where these are."""
    start = int(code.table_starts[group])
    table = code.words[start : start + LOOP_WORDS]
    if len(table) < LOOP_WORDS or (table[:, 0] != NUMBER).any():
        return False
    distance, count, row, apart, *words, _ = table[:, 1].tolist()
    rows = [row + thread * apart for thread in range(code.threads)]
    written = code.actions[np.isin(code.actions[:, 0], WRITING), 1]
    return (
        distance > 0
        and count > 0
        and phase + distance + code.threads * count <= len(code.phases)
        and _are_indices((*rows, *words), len(code.words))
        and not ((written >= start) & (written < start + LOOP_WORDS)).any()
    )


def _fits_actions(code: NativeCode, largest: int) -> bool:
    """Return True if actions name words of the tables, move addresses by at most `largest` bytes, and jump to phases.

    Copied bytes and cleared rows have the same bound. Only a phase that pauses may jump back.
    """
    actions = code.actions
    cleared = actions[actions[:, 0] == CLEAR]
    return (
        _in_range(actions[:, 0], len(USED_WORDS))
        and all(
            _in_range(actions[actions[:, 0] == opcode, 1 + column], len(code.words))
            for opcode, columns in enumerate(USED_WORDS)
            for column in columns
        )
        and bool((actions[np.isin(actions[:, 0], (COPY, CLEAR, LIMIT, LINK, PAUSE, ROW)), 3] >= 0).all())
        and bool((actions[np.isin(actions[:, 0], (COPY, CLEAR, LINK, ROW)), 3] <= largest).all())
        and bool(((cleared[:, 4] >= 0) & (cleared[:, 4] <= largest // np.maximum(cleared[:, 3], 1))).all())
        and _in_range(actions[actions[:, 0] == HOST, 1], len(code.inner_hosts))
        and all(0 <= target <= len(code.phases) for _, target in _jumps(code, range(len(code.phases))))
        and all(target > number for number, target in _jumps(code, _phases_without_pause(code)))
    )


def _fits_inner_group(group: Sequence[int], blocks: Sequence[pb.BlockDesc]) -> bool:
    """Return True if the block and the ops of a group inside an op exist."""
    return len(group) > 1 and 0 <= group[0] < len(blocks) and _are_indices(group[1:], len(blocks[group[0]].ops))


def _fits_inner_host(host: InnerHostOp, code: NativeCode, blocks: Sequence[pb.BlockDesc]) -> bool:
    """Return True if the op exists, runs no blocks, and has a word for each tensor."""
    if not (0 <= host.block < len(blocks) and 0 <= host.op < len(blocks[host.block].ops)):
        return False
    op = blocks[host.block].ops[host.op]
    present = [number for number, name in zip(host.inputs, op.inputs, strict=False) if name]
    return (
        0 <= host.group < code.group_count
        and not op.blocks
        and (len(host.inputs), len(host.outputs)) == (len(op.inputs), len(op.outputs))
        and _are_indices((*present, *host.outputs), len(code.words))
        and all(0 <= offset <= code.arena_bytes for offset in host.scratch)
    )


def _jumps(code: NativeCode, phases: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield the number of each of these phases that jumps, and of the phase with which it continues."""
    for number in phases:
        for opcode, _, _, distance, _ in _actions_of(code, number):
            if opcode in JUMPS:
                yield number, number + distance


def _phases_without_pause(code: NativeCode) -> Iterator[int]:
    """Yield the phases after which no loop may go on: signals could not end it."""
    for number in range(len(code.phases)):
        if not any(opcode == PAUSE and cycles > 0 for opcode, _, _, cycles, _ in _actions_of(code, number)):
            yield number


def _actions_of(code: NativeCode, phase: int) -> list[list[int]]:
    """Return the actions of a phase; none if it has chunks."""
    first, count = code.phases[phase].tolist()
    return code.actions[first : first - count].tolist() if count < 0 else []


def _are_segments(table: Array, code: NativeCode) -> bool:
    hosts = [host for host in table[:, 1].tolist() if host >= 0]
    return (
        _in_range(table[:, 0], code.group_count)
        and bool((table[:, 1] >= -1).all())
        and sorted(hosts) == list(range(len(code.hosts)))
        and _are_ranges(table[:, 2], table[:, 3], len(code.phases))
    )


def _fits_groups(code: NativeCode, ops: int) -> bool:
    """Return True if the lists of groups end within their tables and name ops and groups that exist."""
    groups = code.group_count
    return (
        len(code.table_starts) >= groups
        and _are_ends(code.table_starts, len(code.words))
        and _are_ends(code.group_ends, len(code.group_ops))
        and bool((np.diff(code.group_ends, prepend=0) > 0).all())
        and _in_range(code.group_ops, ops)
        and _are_indices(code.runtime_checks, groups)
        and all(_are_indices((host.group,), groups) and _are_indices((host.op,), ops) for host in code.hosts)
        and all(0 <= offset <= code.arena_bytes for host in code.hosts for offset in host.scratch)
        and len(code.buffer_names) == len(code.buffers)
        and bool((code.buffers[:, 0] >= 0).all())
        and _are_ends(code.buffers[:, 3], len(code.buffer_groups))
        and _in_range(code.buffer_groups, groups)
    )


def _in_range(values: Array, count: int) -> bool:
    return bool(((values >= 0) & (values < count)).all())


def _are_indices(values: Sequence[int], count: int) -> bool:
    return all(0 <= value < count for value in values)


def _are_ranges(starts: Array, stops: Array, limit: int) -> bool:
    return bool(((starts >= 0) & (starts <= stops) & (stops <= limit)).all())


def _are_ends(ends: Array, limit: int) -> bool:
    """Return True if these indices rise, from 0 on, to a limit at most."""
    return not len(ends) or bool(ends[0] >= 0 and ends[-1] <= limit and (np.diff(ends) >= 0).all())
