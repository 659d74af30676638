"""Steps during which every byte of the arena that the lifetimes call dead is filled with NaN."""

from __future__ import annotations

import numpy as np
from steps import Stepper

from compiler.compiled import Compiled
from compiler.plan_memory import block_buffers
from runtime.arena import aligned_bytes

POISON = 0xFF
"""A byte that makes every float NaN and every integer -1."""


class Poisoned(Stepper):
    """A stepper by the file's plan that fills its arena before a step, and around each op where no buffer lives."""

    def __init__(self, compiled: Compiled, entry: str = "train") -> None:
        [plan] = [entry_.bindings[0].plan for entry_ in compiled.desc.entries if entry_.name == entry]
        self._arena = aligned_bytes(plan.arena_bytes)
        super().__init__(compiled, entry, plan=plan, memory=self._memory)
        self._offsets = {placement.tensor: placement.offset for placement in plan.placements}
        self._buffers = block_buffers(self.block)

    def step(self, **feeds: np.ndarray | float) -> dict[str, np.ndarray]:
        self._arena.fill(POISON)
        for name, array in feeds.items():
            self.executor.feeds[name][...] = array
        calls = {op.desc.id: op.call for op in self.executor._bound.ops}
        with np.errstate(all="ignore"):
            for call in self.executor._before:
                call()
            for i, op in enumerate(self.block.ops):
                self._kill(2 * i)
                calls.get(op.id, lambda: None)()  # views and constants have nothing to compute
                self._kill(2 * i + 1)
            for call in self.executor._after:
                call()
        return {name: array.copy() for name, array in self.executor.fetches.items()}

    def _memory(self, nbytes: int) -> np.ndarray:
        assert nbytes == len(self._arena), "the runtime takes the plan as it is"
        return self._arena

    def _kill(self, now: int) -> None:
        dead = np.ones(len(self._arena), bool)
        for buffer in self._buffers:
            if buffer.start <= now < buffer.stop:
                dead[self._offsets[buffer.name] :][: buffer.nbytes] = False
        self._arena[dead] = POISON
