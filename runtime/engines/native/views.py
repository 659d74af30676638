"""Descriptions of a step as the native engine computes it: groups, states of lowering, and LLVM's IR.

They need neither a machine that runs the code nor LLVM, so any machine can print them for every instruction set.
"""

from __future__ import annotations

from collections.abc import Iterator

from prograd_proto import program_pb2 as pb
from runtime.codegen.lowering.lowered_block import LoweredBlock
from runtime.codegen.machine import Target
from runtime.engines.engine import EngineOptions
from runtime.engines.native.cpu import target_of
from runtime.engines.native.step_code import lowered, step_options
from runtime.entries import BoundEntry


class NativeViews:
    """See `runtime.engines.engine.Views`."""

    def __init__(self, program: pb.ProgramDesc, options: EngineOptions, target: Target) -> None:
        self._program, self._threads, self._target = program, options.threads, target

    def explain(self, bound: BoundEntry, after: str | None = None) -> Iterator[str]:
        """Yield the groups of a step, or its state after a pass of lowering."""
        from runtime.codegen.explain import explained

        threads = f"{self._threads} thread{'s' * (self._threads > 1)}"
        yield f"{bound.name} by the native engine, {self._target.name}, {threads}"
        yield from explained(self._lowered(bound), after)

    def code(self, bound: BoundEntry) -> str:
        """Return LLVM's IR."""
        from runtime.codegen.explain import code_of

        return code_of(self._lowered(bound))

    def _lowered(self, bound: BoundEntry) -> LoweredBlock:
        return lowered(bound.block, self._target, step_options(bound, self._threads), self._program.blocks)


def views_for(program: pb.ProgramDesc, options: EngineOptions, instructions: str) -> NativeViews:
    """Return the descriptions for an instruction set, or for the best one of this machine."""
    return NativeViews(program, options, target_of(instructions).for_program(program))
