"""Chunk: the work items of each phase become ranges that one thread computes without synchronisation."""

from __future__ import annotations

from runtime.codegen.lowering.chunks import chunks_of
from runtime.codegen.lowering.lowered_block import LoweredBlock


def chunk(block: LoweredBlock) -> LoweredBlock:
    """Combine the work items of each phase into chunks, which threads take."""
    return block._replace(chunks=chunks_of(block.steps, block.phases, block.threads))
