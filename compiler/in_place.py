"""Pass: let updates write the state directly.

1. An op of the stage UPDATE may write its output over the state that the output becomes, if the kernel allows
   that pair and nothing reads the old value afterwards: no later op, no fetch, no other operand of the op itself.
2. Where that holds the pair is written into the op; elsewhere the runtime copies at the end of the step.
"""

from __future__ import annotations

from compiler.use_def import Chain, use_def
from prograd_proto import program_pb2 as pb
from runtime.memory import in_place_pairs


def update_in_place(program: pb.ProgramDesc) -> None:
    """Mark every update that may be in place, in every block."""
    for block in program.blocks:
        state_of = {p.tensor: p.state for p in block.parameters if p.WhichOneof("source") == "state"}
        becomes = {update.tensor: update.state for update in block.updates}
        chains = use_def(block).chains
        for i, op in enumerate(block.ops):
            del op.in_place[:]
            if op.stage != pb.STAGE_UPDATE:
                continue
            for output, position in in_place_pairs(op.type):
                operand, state = op.inputs[position], becomes.get(op.outputs[output])
                if state is not None and state_of.get(operand) == state and _reads_last_and_once(chains[operand], i):
                    op.in_place.add(output=output, input=position)


def _reads_last_and_once(chain: Chain, position: int) -> bool:
    return chain.uses[-1] == position and chain.uses.count(position) == 1
