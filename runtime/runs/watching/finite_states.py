"""A look at the states that a training changes, before a file or a prediction has them.

1. A state is looked at if a step updates it and it outlives an epoch: parameters, slots, averages, running statistics.
2. NaN in one of them is an error, and so is Inf in a parameter that had none when the training began.
3. Where states are cut among the ranks of a run, all ranks report the same state. Otherwise each has all of them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from prograd_proto import program_pb2 as pb
from runtime.dtypes import extreme, is_float
from runtime.errors import NonFinite

if TYPE_CHECKING:
    from runtime.ranks.group import Group
    from runtime.runs.states import States


class FiniteStates:
    """The states of a run that training changes."""

    def __init__(self, program: pb.ProgramDesc, states: States, group: Group | None) -> None:
        updated = {update.state for block in program.blocks for update in block.updates} - states.passing
        self._names = [name for name, array in states.arrays.items() if name in updated and is_float(array)]
        self._parameters = {state.name for state in program.states if state.kind == pb.STATE_KIND_PARAMETER}
        self._infinite: frozenset[str] = frozenset()
        self._states = states
        self._group = group

    def begin(self) -> None:
        """Note the parameters that have Inf before a training, as constant masks do; it is no error there."""
        with self._states.locks.shared():
            arrays = self._states.arrays
            self._infinite = frozenset(
                n for n in self._names if n in self._parameters and math.isinf(extreme(arrays[n]))
            )

    def fault(self) -> str:
        """Return a clause about the first state with NaN or Inf; "" if there is none.

        Ranks with cut states call it together.
        """
        with self._states.locks.shared():
            found = next((2 * at + kind for at, name in enumerate(self._names) if (kind := self._fault_of(name))), 0)
        if self._group is not None and self._states.pieces is not None:
            found = self._group.largest(found)
        if not found:
            return ""
        return f"the state {self._names[(found - 1) // 2]!r} has {'NaN' if found % 2 == 0 else 'Inf'}"

    def require(self, what: str) -> None:
        """Raise NonFinite, before `what` is written, if there is such a state."""
        fault = self.fault()
        if fault:
            raise NonFinite(f"{what}: {fault}, so nothing is written; go on from states that were saved before")

    def _fault_of(self, name: str) -> int:
        """Return 2 for NaN, 1 for an infinity that is an error, else 0."""
        found = extreme(self._states.arrays[name])
        if math.isnan(found):
            return 2
        return int(math.isinf(found) and name in self._parameters and name not in self._infinite)
