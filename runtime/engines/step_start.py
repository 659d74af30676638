"""Copies of the states that a step changes and of its feeds, restored after a failure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from prograd_proto import program_pb2 as pb
from prograd_proto.states import held
from runtime.dtypes import Array
from runtime.errors import FailedStep


class StepStart:
    """Copies of states and feeds, made before each step.

    Tensors that last an epoch are copied too, as they are restored before the failure is examined.
    """

    def __init__(
        self,
        program: pb.ProgramDesc,
        block: pb.BlockDesc,
        states: Mapping[str, Array],
        feeds: Mapping[str, Array],
        memory: Callable[[int], Array],
    ) -> None:
        """Allocate the copies; `memory` returns their bytes."""
        passing = {state.name for state in held(program) if state.lifespan == pb.LIFESPAN_EPOCH}
        changing = {update.state for update in block.updates} | passing
        self._block = block
        self._all = states
        self._states = {name: states[name] for name in sorted(changing)}
        self._feeds = dict(feeds)
        arrays = [*self._states.values(), *self._feeds.values()]
        room = memory(sum(array.nbytes for array in arrays))
        self._copies: list[tuple[Array, Array]] = []
        for array in arrays:
            here, room = room[: array.nbytes], room[array.nbytes :]
            self._copies.append((array, here))

    def keep(self) -> None:
        """Copy everything that the next step may overwrite."""
        for array, copy in self._copies:
            copy[...] = _bytes_of(array)

    def bring_back(self) -> None:
        """Restore states and feeds to their values before the step."""
        for array, copy in self._copies:
            _bytes_of(array)[...] = copy

    def failed_step(self) -> FailedStep:
        """Return the step that begins with the present values of states and feeds."""
        feeds = {name: array.copy() for name, array in self._feeds.items()}
        kept = {name: array.copy() for name, array in self._states.items()}
        return FailedStep(self._block, {**self._all, **kept}, feeds)


def _bytes_of(array: Array) -> Array:
    """Return the elements as bytes; states and feeds lie row-major in memory of their own or in the arena."""
    return array.reshape(-1).view(np.uint8)
