"""The passes, in order: a list to read aloud.

Gradients and updates are appended while the program is built, because users look at them and build on them. What
is left changes how the program is written down, never what it computes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from compiler.bind_dimensions import bind_dimensions
from compiler.dead_ops import eliminate_dead_ops
from compiler.errors import CompileError
from compiler.inference_forms import use_inference_forms
from compiler.share_memory import share_memory
from compiler.verify import verify
from compiler.versions import list_operators
from prograd_proto import ProgramError
from prograd_proto import program_pb2 as pb

Pass = Callable[[pb.ProgramDesc], None]

PASSES: tuple[Pass, ...] = (
    use_inference_forms,  # evaluate and predict stop being copies of the training block
    eliminate_dead_ops,  # rules state every gradient; drop what nobody reads
    bind_dimensions,  # copies the finished source blocks
    share_memory,  # needs the final list of reads
    list_operators,
)

MUST_PRECEDE: tuple[tuple[Pass, Pass, str], ...] = (
    (use_inference_forms, eliminate_dead_ops, "the operands that only the training form reads die with it"),
    (eliminate_dead_ops, share_memory, "a dead op's read would keep an update from being in place"),
    (bind_dimensions, share_memory, "only blocks that run have memory"),
    (eliminate_dead_ops, bind_dimensions, "bound blocks are copies"),
    (bind_dimensions, list_operators, "every op of the file is listed"),
)


def run_passes(
    program: pb.ProgramDesc,
    passes: Sequence[Pass] = PASSES,
    *,
    after: Callable[[str, pb.ProgramDesc], None] | None = None,
) -> None:
    """Apply the passes to the program, and verify it before the first and after each.

    Args:
        program: edited in place.
        passes: in order.
        after: called with each pass's name and the program as the pass left it.

    Raises:
        CompileError: a pass failed or left a malformed program; the message names the pass.
    """
    well_formed: set[bytes] = set()
    verify(program, well_formed)
    for change in passes:
        try:
            change(program)
            verify(program, well_formed)
        except ProgramError as error:
            raise CompileError(f"{change.__name__}: {error}") from None
        if after is not None:
            after(change.__name__, program)
