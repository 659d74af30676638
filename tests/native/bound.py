"""Blocks lowered and bound as the engine does, with what lowering knew beside the code that is bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from prograd_proto import program_pb2 as pb
from runtime.codegen.lowering.lowered_block import LoweredBlock
from runtime.codegen.machine import Target
from runtime.engines.native import step_code
from runtime.engines.native.step import CompiledStep, bind_code


def lowered(
    desc: pb.BlockDesc,
    pinned: Sequence[str],
    target: Target,
    threads: int = 1,
    memory_budget: int | None = None,
    *,
    prepacks: bool = False,
    blocks: Sequence[pb.BlockDesc] = (),
) -> LoweredBlock:
    """Return a block after all passes; `blocks` are those of its program, to which ops refer by number."""
    options = step_code.StepOptions(tuple(pinned), threads, memory_budget, prepacks)
    return step_code.lowered(desc, target, options, blocks)


def bind_compiled(
    step: LoweredBlock, states: Mapping[str, np.ndarray], arena: np.ndarray, packed: np.ndarray | None = None
) -> CompiledStep:
    """The step, compiled and bound to this memory."""
    code, loaded = step_code.compiled_step(step)
    return bind_code(code, loaded, step.nodes.block.desc, states, arena, packed=packed)
