"""Steps during which every byte of the arena, or its file, that the lifetimes call dead is filled with NaN."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from subjects.steps import Stepper

from compiler.build.compiled import Compiled
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalyses
from runtime.engines.reference.target import REFERENCE
from runtime.memory.aligned import aligned_bytes
from runtime.step import places_within

POISON = 0xFF
"""A byte that makes every float NaN and every integer -1."""


class Poisoned(Stepper):
    """A stepper that fills its memory before a step, and around each op where no buffer lives."""

    def __init__(self, compiled: Compiled | pb.ProgramDesc, entry: str = "train") -> None:
        desc = compiled.desc if isinstance(compiled, Compiled) else compiled
        [(plan, number)] = [(e.bindings[0].plan, e.bindings[0].block) for e in desc.entries if e.name == entry]
        places = places_within(BlockAnalyses(desc)[number], REFERENCE, plan)
        self._arena, self._file = aligned_bytes(places.arena_bytes), aligned_bytes(places.file_bytes)
        self._buffers = [(self._arena, places.in_arena), (self._file, places.in_file)]
        super().__init__(desc, entry, plan=plan, memory=self._given(self._arena), file=self._given(self._file))

    def step(self, **feeds: np.ndarray | float) -> dict[str, np.ndarray]:
        self._arena.fill(POISON)
        self._file.fill(POISON)
        for name, array in feeds.items():
            self.executor.feeds[name][...] = array
        calls = {op.desc.id: op.call for op in self.executor._bound.ops}
        with np.errstate(all="ignore"):
            for call in self.executor._before:
                call()
            for i, op in enumerate(self.block.ops):
                self._kill(i, born=i - 1)  # a result has no value yet, and scratch never has one
                calls.get(op.id, lambda: None)()  # views and constants have nothing to compute
                self._kill(i, born=i)
            for call in self.executor._after:
                call()
        return {name: array.copy() for name, array in self.executor.fetches.items()}

    def _given(self, memory: np.ndarray) -> Callable[[int], np.ndarray]:
        def give(nbytes: int) -> np.ndarray:
            assert nbytes == len(memory), "the runtime takes the plan as it is"
            return memory

        return give

    def _kill(self, now: int, born: int) -> None:
        """Fill the memory of all buffers but those that live in a phase and had begun by another one."""
        for memory, buffers in self._buffers:
            dead = np.ones(len(memory), bool)
            for buffer, offset in buffers:
                if buffer.start <= born and now < buffer.stop:
                    dead[offset:][: buffer.nbytes] = False
            memory[dead] = POISON
