"""The passes, in order: a list to read aloud.

Gradients and updates are appended while the program is built, because users look at them and build on them. What
is left changes how the program is written down, never what it computes.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from compiler.errors import CompileError
from compiler.passes.bind_dimensions import bind_dimensions
from compiler.passes.eliminate_dead_ops import eliminate_dead_ops
from compiler.passes.fold_constants import fold_constants
from compiler.passes.leave_frozen import leave_frozen
from compiler.passes.list_operators import list_operators
from compiler.passes.merge_identical import merge_identical
from compiler.passes.order_ops import order_ops
from compiler.passes.plan_memory import plan_memory
from compiler.passes.share_memory import share_memory
from compiler.passes.simplify import simplify
from compiler.passes.use_inference_forms import use_inference_forms
from compiler.passes.verify import verify
from prograd_proto import ProgramError
from prograd_proto import program_pb2 as pb

Pass = Callable[[pb.ProgramDesc], None]

PASSES: tuple[Pass, ...] = (
    use_inference_forms,  # evaluate and predict stop being copies of the training block
    eliminate_dead_ops,  # rules state every gradient; drop what nobody reads
    bind_dimensions,  # copies the source blocks; from here on blocks that run differ from what was built
    leave_frozen,  # of the blocks that run: those that were built keep what thawing needs
    fold_constants,  # sizes are numbers now
    simplify,  # sees the numbers that folding found
    merge_identical,  # sees what is equal when simplified
    order_ops,  # knows all ops that are left
    share_memory,  # needs the final list of reads
    list_operators,
    plan_memory,  # of the blocks as they will run
)

MUST_PRECEDE: tuple[tuple[Pass, Pass, str], ...] = (
    (use_inference_forms, eliminate_dead_ops, "the operands that only the training form reads die with it"),
    (use_inference_forms, bind_dimensions, "bound blocks are copies"),
    (eliminate_dead_ops, bind_dimensions, "bound blocks are copies"),
    (bind_dimensions, leave_frozen, "source blocks stay whole"),
    (leave_frozen, fold_constants, "sums of squares are still as they were built"),
    (leave_frozen, order_ops, "what is not computed needs no place"),
    (bind_dimensions, fold_constants, "a number of elements is known when its symbols have sizes"),
    (fold_constants, simplify, "what is folded to 1 is no factor"),
    (simplify, merge_identical, "ops become identical when what is between them goes"),
    (bind_dimensions, order_ops, "what an order needs is a matter of sizes"),
    (merge_identical, order_ops, "every op that is left has its place, and no other"),
    (order_ops, share_memory, "what is dead depends on the order"),
    (bind_dimensions, share_memory, "bound blocks are what runs"),
    (eliminate_dead_ops, share_memory, "a dead op's read would keep an update from being in place"),
    (simplify, share_memory, "reads of what is left out become later reads of something else"),
    (merge_identical, share_memory, "reads of all identical ops become reads of the first"),
    (merge_identical, list_operators, "every op of the file is listed, and no other"),
    (share_memory, plan_memory, "tensors that share memory are one buffer"),
)


def run_passes(
    program: pb.ProgramDesc,
    passes: Sequence[Pass] = PASSES,
    *,
    after: Callable[[str, pb.ProgramDesc], None] | None = None,
    well_formed: set[bytes] | None = None,
) -> None:
    """Apply the passes to the program, and verify it before the first and after the last.

    If something is wrong then, they are applied again to what was there, with a look after each: verifying takes
    longer than most passes, and only a fault needs to be traced to one.

    Args:
        program: edited in place.
        passes: in order.
        after: called with each pass's name and the program as the pass left it.
        well_formed: what `verify` knows already of blocks, and learns.

    Raises:
        CompileError: a pass failed or left a malformed program; the message names the pass.
    """
    well_formed = set() if well_formed is None else well_formed
    with _no_garbage_collection():
        verify(program, well_formed)
        before = pb.ProgramDesc()
        before.CopyFrom(program)
        try:
            for change in passes:
                change(program)
                if after is not None:
                    after(change.__name__, program)
            verify(program, well_formed)
        except Exception:
            _verify_each(before, passes)
            raise


@contextmanager
def _no_garbage_collection() -> Generator[None]:
    """Passes make many objects that live and few that die: looking for garbage among them is a quarter of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _verify_each(program: pb.ProgramDesc, passes: Sequence[Pass]) -> None:
    """Raise CompileError that names the first pass that fails or leaves a malformed program."""
    for change in passes:
        try:
            change(program)
            verify(program)
        except ProgramError as error:
            raise CompileError(f"{change.__name__}: {error}") from None
