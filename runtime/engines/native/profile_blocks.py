"""The times of the groups in the blocks of loops and conditions: the driver returns after each phase.

The chunks of a phase may be those of several groups, which are measured together. So are all iterations that threads
share. Phases of actions count as "the loop itself".
"""

from __future__ import annotations

from runtime.codegen.actions import HOST
from runtime.codegen.code import LOOP_STEP
from runtime.engines.native.step import CompiledStep, Segment
from runtime.engines.parts import TimesInBlocks


def timed_blocks(compiled: CompiledStep, times: TimesInBlocks, segment: Segment) -> None:
    """Run a segment; if it is an op with blocks, add the times of its phases."""
    code = compiled.code
    start, stop = segment.phases
    if segment.host is not None or not (code.phases[start:stop, 1] < 0).any():
        compiled.run(segment)
        return
    names = _Names(compiled, segment.first)
    for phase, seconds in compiled.driver.timed(start, stop):
        times.add(names.of_phase(phase), seconds)
    if compiled.runtime_checks.any_failed:
        compiled.runtime_checks.raise_error(compiled.arrays)


class _Names:
    """The names of the phases of an op with blocks."""

    def __init__(self, compiled: CompiledStep, group: int) -> None:
        self._code, self._blocks = compiled.code, compiled.blocks
        self._outer = compiled.block.ops[compiled.code.ops_of(group)[-1]].type
        bodies = [*compiled.blocks, compiled.block]
        self._owners = {number: op.type for block in bodies for op in block.ops for number in op.blocks}
        self._known: dict[int, str] = {}

    def of_phase(self, phase: int) -> str:
        """Return the names of the groups of a phase, and of the op around them."""
        if phase not in self._known:
            self._known[phase] = self._name(phase)
        return self._known[phase]

    def _name(self, phase: int) -> str:
        first, count = self._code.phases[phase].tolist()
        if count < 0:
            action: list[int] = self._code.actions[first].tolist()
            opcode, number = action[:2]
            if opcode != HOST:
                return f"the loop itself: {self._outer}"
            host = self._code.inner_hosts[number]
            return f"{self._blocks[host.block].ops[host.op].type} by NumPy in {self._owners[host.block]}"
        records: list[list[int]] = self._code.chunks[first : first + count].tolist()
        if any(record[0] == LOOP_STEP for record in records):
            return f"iterations of {self._outer} on {self._code.threads} threads"
        return ", ".join(dict.fromkeys(self._group(group) for _, group, *_ in records)) or "nothing"

    def _group(self, group: int) -> str:
        block, *ops = self._code.inner_groups[group - self._code.group_count]
        return f"{'+'.join(self._blocks[block].ops[i].type for i in ops)} in {self._owners[block]}"
