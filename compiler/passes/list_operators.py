"""Pass: write down which version of each operator the program means."""

from __future__ import annotations

from prograd_proto import program_pb2 as pb
from registry.op import find_op


def list_operators(program: pb.ProgramDesc) -> None:
    """Write down the version of each operator that is used."""
    types = {op.type for block in program.blocks for op in block.ops}
    types |= {state.op.type for state in program.states if state.WhichOneof("initial") == "op"}
    del program.operators[:]
    program.operators.extend(pb.OperatorVersion(type=type, version=find_op(type).version) for type in sorted(types))
