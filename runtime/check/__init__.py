"""The check of an untrusted program, before anything is allocated.

    names     rules for names, paths and sizes
    states    states and their initial values
    settings  the states whose values a run may replace
    blocks    a bound block: definitions, types, in-place pairs, updates, fetches
    bindings  a bound block against the source of its entry
    ops       one op against its contract
    run       entries, data, files and the run
    plateaus  what the run does when a metric stops improving

The check covers every index, name, type, size, path and operator. A program that passes can be placed and run without
further checks.
"""

from __future__ import annotations

from prograd_proto import ProgramError, type_of
from prograd_proto import program_pb2 as pb
from prograd_proto.plugins import require_plugins
from prograd_proto.upgrades import every_op
from runtime.check.bindings import check_bindings
from runtime.check.blocks import check_block, check_inner_block
from runtime.check.ops import Operators
from runtime.check.run import check_data, check_entries, check_files, check_run
from runtime.check.settings import check_settings
from runtime.check.states import check_states
from runtime.operators import CONTRACTS
from runtime.step.target import Target


def check_program(program: pb.ProgramDesc, target: Target, *, is_dealt: bool = False) -> None:
    """Raise ProgramError with the first fault of a program; do not change it, and allocate nothing.

    Scratch and in-place pairs must be those that the kernels of `target` ask for and allow. Only a program that was
    dealt to the ranks of a run (`is_dealt`) has ops that exchange values.
    """
    require_plugins((op.type for op in every_op(program)), CONTRACTS)
    operators = Operators(program, target, check_inner_block, is_dealt=is_dealt)
    check_states(operators)
    check_settings(program)
    check_files(program)
    check_entries(program)
    states = {state.name: type_of(state) for state in program.states}
    operators.owned.update(entry.source_block for entry in program.entries)
    operators.owned.update(bound_blocks(program))
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
    """Raise ProgramError unless every tensor has a type.

    Blocks that do not run are included, because the rows of a step are counted by their types.
    """
    for number, block in enumerate(program.blocks):
        try:
            for tensor in block.tensors:
                type_of(tensor)
        except ProgramError as error:
            raise ProgramError(f"block {number}: {error}") from None


def bound_blocks(program: pb.ProgramDesc) -> list[int]:
    """Return the numbers of the blocks that can run, each once."""
    return list(dict.fromkeys(binding.block for entry in program.entries for binding in entry.bindings))
