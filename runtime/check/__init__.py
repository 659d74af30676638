"""The check of an untrusted program, before anything is allocated.

    names     what may be a name or a path
    states    states and their initial values
    settings  the states that a run may be given other values of
    blocks    a bound block: definitions, types, in-place, updates, fetches
    bindings  a bound block against the source of its entry
    ops       one op against its contract
    run       entries, data, files and what executing does

Every index, name, type, size, path and operator is looked at. What passes can be placed and run without a
further look.
"""

from __future__ import annotations

from prograd_proto import ProgramError, type_of
from prograd_proto import program_pb2 as pb
from prograd_proto.plugins import require_plugins
from prograd_proto.upgrades import every_op
from runtime.check.bindings import check_bindings
from runtime.check.blocks import check_block
from runtime.check.ops import Operators
from runtime.check.run import check_data, check_entries, check_files, check_run
from runtime.check.settings import check_settings
from runtime.check.states import check_states
from runtime.operators import CONTRACTS
from runtime.step.target import Target


def check_program(program: pb.ProgramDesc, target: Target) -> None:
    """Raise ProgramError with the first fault of a program; it is not changed, and nothing is allocated.

    Scratch and what is written in place have to be as the kernels of the target, which is to run it, allow.
    """
    require_plugins((op.type for op in every_op(program)), CONTRACTS)
    operators = Operators(program, target)
    check_states(operators)
    check_settings(program)
    check_files(program)
    check_entries(program)
    states = {state.name: type_of(state) for state in program.states}
    for number in bound_blocks(program):
        try:
            check_block(operators, program.blocks[number], states)
        except ProgramError as error:
            raise ProgramError(f"block {number}: {error}") from None
    _check_source_types(program)
    check_bindings(program)
    check_data(program)
    check_run(program)


def _check_source_types(program: pb.ProgramDesc) -> None:
    """Every tensor has a type, also of a block that does not run: its rows are counted by it."""
    for number, block in enumerate(program.blocks):
        try:
            for tensor in block.tensors:
                type_of(tensor)
        except ProgramError as error:
            raise ProgramError(f"block {number}: {error}") from None


def bound_blocks(program: pb.ProgramDesc) -> list[int]:
    """The numbers of the blocks that can run, each once."""
    return list(dict.fromkeys(binding.block for entry in program.entries for binding in entry.bindings))
