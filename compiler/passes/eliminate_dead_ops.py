"""Pass: drop ops whose results nothing reads.

1. A block's fetches, updates and results are needed.
2. From the last op to the first: an op with a needed output or a visible effect is kept, and its inputs are needed.
3. An op that runs blocks loses the outputs that nothing reads, and the ops in its blocks that only these need; see
   `prune_control`.
4. All other ops are dropped, with tensors and parameters that are no longer used, and their declarations.
   The descriptions of tensors are put in the order of their definitions.
5. The feeds of an entry are those that its source block reads. A block that runs keeps all of its feeds, even if
   its sizes and constants make some of them unused.
"""

from __future__ import annotations

from itertools import chain

from compiler.analyses.needed import needed
from compiler.passes.prune_control import prune_control
from prograd_proto.blocks import BlockAnalyses, BlockAnalysis


def eliminate_dead_ops(program: BlockAnalyses) -> None:
    """Drop ops that no fetch, update or result needs."""
    sources = program.sources
    for number in range(len(program)):
        drop_dead_ops(program[number], feeds=number in sources, inside=True)


def drop_dead_ops(block: BlockAnalysis, *, feeds: bool = False, inside: bool = False) -> None:
    """Drop dead ops, tensors and parameters from a block; drop feeds only with `feeds`.

    The parameters of a sub-block stay: its op passes operands by position. With `inside`, the blocks inside its ops are
    edited too; a reading that is only tried must leave them, as it shares them with the block itself.
    """
    if inside and block.has_sub_blocks:
        prune_control(block, drop_dead_ops)
    is_needed, read = needed(block)
    if not all(is_needed):
        block.keep_ops(is_needed)
    stay = ("argument",) if feeds else ("argument", "feed")
    stays = [
        name in read or parameter.WhichOneof("source") in stay
        for name, parameter in zip(block.parameter_names, block.parameters, strict=True)
    ]
    if not all(stays):
        block.keep_parameters(stays)
    order_tensors(block)


def order_tensors(block: BlockAnalysis) -> None:
    """Keep the descriptions of defined tensors only, in the order of the definitions."""
    order = [*block.parameter_names, *chain.from_iterable(block.outputs)]
    if block.names == order:
        return
    position = {name: i for i, name in enumerate(order)}
    defined = [name in position for name in block.names]
    if not all(defined):
        block.keep_tensors(defined)
    if block.names != order:
        block.order_tensors(position)
