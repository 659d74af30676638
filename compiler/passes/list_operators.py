"""Pass: record the version of each operator of the program."""

from __future__ import annotations

from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalyses
from registry.op import find_op


def list_operators(program: BlockAnalyses) -> None:
    """Record the version of each operator that is used."""
    desc = program.desc
    types = {type for number in range(len(program)) for type in program[number].op_types}
    types |= {state.op.type for state in desc.states if state.WhichOneof("initial") == "op"}
    del desc.operators[:]
    desc.operators.extend(pb.OperatorVersion(type=type, version=find_op(type).version) for type in sorted(types))
