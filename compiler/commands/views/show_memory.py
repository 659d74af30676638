"""The view `compiler show --memory`: every buffer of a step, its lifetime, and the buffers at the peak."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from compiler.aligned_text import columns
from compiler.analyses.step_memory import KINDS, Resident, StepMemory, Tenant
from compiler.commands.ops_in_words import line_of, op_in_words, size_in_words, stage_in_words
from prograd_proto import program_pb2 as pb
from prograd_proto import type_of
from prograd_proto.printable import printable
from prograd_proto.text.words import LIFESPANS, name, tensor

SORTS: Final[dict[str, Callable[[Resident], tuple[int, ...]]]] = {
    "offset": lambda r: (r.offset, r.buffer.start),
    "bytes": lambda r: (-r.buffer.nbytes, r.offset, r.buffer.start),
    "time": lambda r: (r.buffer.start, r.offset),
}
"""Sort keys of the buffers: from the bottom of the arena up, the largest first, or by definition."""


def memory_text(title: str, program: pb.ProgramDesc, memory: StepMemory, sort: str, of_runs: str) -> str:
    """Return the whole view as text; `of_runs` are the arenas of the engines, in words."""
    parts = [
        list(_heading(title, program, memory, of_runs)),
        ["needed at the peak", *_indented(_peak(program, memory))],
        [f"buffers by {sort}", *_indented(_buffers(program, memory, sort))],
        ["in the file", *_indented(_in_file(memory))] if memory.in_file else [],
        ["states", *_indented(_states(memory))] if memory.states else [],
    ]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def _heading(title: str, program: pb.ProgramDesc, memory: StepMemory, of_runs: str) -> Iterator[str]:
    """Return the heading: sizes, and the position of the peak."""
    arena, together = memory.plan.arena_bytes, sum(r.buffer.nbytes for r in memory.residents)
    yield f"{title}: {len(memory.block.ops)} ops, {len(memory.residents)} buffers"
    yield f"arena  {_exactly(arena)}{_quality(memory)}; the buffers have {size_in_words(together)} together"
    yield f"runs   {of_runs}"
    if memory.in_file:
        yield f"file   {_exactly(memory.plan.file_bytes)} beside the arena, for {len(memory.in_file)} of its tensors"
    yield f"peak   {_exactly(memory.peak_bytes)} {peak_in_words(program, memory)}"
    yield f"by kind      {_totals(memory.residents, KINDS, [r.kind for r in memory.residents])}"
    words = [LIFESPANS[r.lifespan] for r in memory.residents]
    yield f"by lifespan  {_totals(memory.residents, ('forward', 'backward', 'iteration'), words)}"


def peak_in_words(program: pb.ProgramDesc, memory: StepMemory) -> str:
    """Return the op, stage and line at which the most bytes are needed."""
    ops = memory.block.ops
    if memory.peak_op >= len(ops):
        return "at the end of the step"
    op = ops[memory.peak_op]
    line = line_of(program, op)
    return f"at {op_in_words(op)}, {stage_in_words(op)}, {memory.peak_op + 1} of {len(ops)}{line and f', {line}'}"


def names_in_words(resident: Resident) -> str:
    """Return the tensors of a buffer: `%a, %b over %a`."""
    if not resident.tenants:
        return printable(resident.buffer.name)
    return ", ".join(_name(tenant) for tenant in resident.tenants)


def life_in_words(memory: StepMemory, resident: Resident) -> str:
    """Return a lifetime, `ops 3 to 9 of 40`, counted from 1 in execution order."""
    count = len(memory.block.ops)
    first, last = max(resident.buffer.start, 0) + 1, max(resident.buffer.stop, 1)
    return f"op {first}" if first == last else f"{first} to {'the end' if last > count else last}"


def maker(memory: StepMemory, resident: Resident, tenant: Tenant | None) -> pb.OpDesc | None:
    """Return the op that defines the tensor, or for scratch the op that needs it; None for a feed."""
    position = tenant.definition if tenant else resident.buffer.start
    return memory.block.ops[position] if position >= 0 else None


def _exactly(nbytes: int) -> str:
    return f"{nbytes} bytes" if nbytes < 1000 else f"{nbytes} bytes ({size_in_words(nbytes)})"


def _quality(memory: StepMemory) -> str:
    if memory.plan.arena_bytes == memory.peak_bytes:
        return ", as small as this order of ops allows"
    if memory.plan.optimal:
        return ", proven to be the smallest for this order of ops"
    return f", {size_in_words(memory.plan.arena_bytes - memory.peak_bytes)} above the peak"


def _totals(residents: Sequence[Resident], words: Sequence[str], word_of: Sequence[str]) -> str:
    totals = {
        word: [r.buffer.nbytes for r, own in zip(residents, word_of, strict=True) if own == word] for word in words
    }
    return ", ".join(f"{word} {size_in_words(sum(sizes))} in {len(sizes)}" for word, sizes in totals.items() if sizes)


def _peak(program: pb.ProgramDesc, memory: StepMemory) -> Iterator[str]:
    rows: list[list[str]] = []
    for r in memory.at_peak():
        tenant = r.at(memory.peak_phase)
        op = maker(memory, r, tenant)
        by, line = (op_in_words(op), line_of(program, op)) if op else ("fed", "")
        now = tensor(tenant.tensor) if tenant else r.buffer.name
        rows.append([str(r.buffer.nbytes), LIFESPANS[r.lifespan], r.kind, now, by, line])
    return columns(("bytes", "lifespan", "kind", "tensor", "defined by", "line"), rows, {"bytes"})


def _buffers(program: pb.ProgramDesc, memory: StepMemory, sort: str) -> Iterator[str]:
    rows: list[list[str]] = []
    for r in sorted(memory.residents, key=SORTS[sort]):
        place = [str(r.offset), str(r.buffer.nbytes)]
        if not r.tenants:
            op = memory.block.ops[r.buffer.start]
            by = _at(op, r.buffer.start)
            rows.append([*place, LIFESPANS[r.lifespan], r.buffer.name, "", by, by, line_of(program, op)])
        for tenant in r.tenants:
            rows.append([*place, *_tenant(program, memory, tenant)])
            place = ["", ""]
    head = ("offset", "bytes", "lifespan", "tensor", "type", "defined by", "last used by", "line")
    return columns(head, rows, {"offset", "bytes"})


def _tenant(program: pb.ProgramDesc, memory: StepMemory, tenant: Tenant) -> list[str]:
    ops, last = memory.block.ops, tenant.last_read
    definition = ops[tenant.definition] if tenant.definition >= 0 else None
    return [
        LIFESPANS[tenant.lifespan],
        _name(tenant),
        str(tenant.type),
        _at(definition, tenant.definition) if definition else "fed",
        "nobody" if last is None else "the end" if last == len(ops) else _at(ops[last], last),
        line_of(program, definition) if definition else "",
    ]


def _in_file(memory: StepMemory) -> Iterator[str]:
    ops, rows = memory.block.ops, list[list[str]]()
    for buffer, offset in memory.in_file:
        first, last = buffer.start, buffer.stop - 1
        of = tensor(ops[first].inputs[0])
        rows.append([str(offset), str(buffer.nbytes), of, _at(ops[first], first), _last(memory, last)])
    return columns(("offset", "bytes", "tensor", "put there by", "last read by"), rows, {"offset", "bytes"})


def _states(memory: StepMemory) -> Iterator[str]:
    rows = [[str(type_of(s).nbytes), LIFESPANS[s.lifespan], name(s.name), str(type_of(s))] for s in memory.states]
    total = sum(type_of(state).nbytes for state in memory.states)
    yield from columns(("bytes", "lifespan", "state", "type"), rows, {"bytes"})
    yield f"{_exactly(total)} in {len(rows)}"


def _last(memory: StepMemory, position: int) -> str:
    """Return the op at a position; the end of the step follows the last op."""
    ops = memory.block.ops
    return _at(ops[position], position) if position < len(ops) else "the end"


def _name(tenant: Tenant) -> str:
    own = tensor(tenant.tensor)
    return f"{own} {tenant.way} {tensor(tenant.other)}" if tenant.way else own


def _at(op: pb.OpDesc, position: int) -> str:
    return f"{position + 1}: {op_in_words(op)}"


def _indented(lines: Iterator[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)
