"""Application of passes to a program, with a search for the faulty pass after an error."""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager

from compiler.errors import CompileError, LimitError
from compiler.passes.pass_table import Pass
from compiler.passes.pipeline import PASSES
from compiler.passes.verify import verify
from prograd_proto import ProgramError
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalyses
from prograd_proto.files import copy_of

AfterPass = Callable[[str, pb.ProgramDesc], None]
"""A callback with the name of a pass and the program as the pass left it."""


def run_passes(
    program: pb.ProgramDesc,
    passes: Iterable[Pass] = PASSES,
    *,
    after: AfterPass | None = None,
    well_formed: set[bytes] | None = None,
    analyses: BlockAnalyses | None = None,
) -> dict[str, object]:
    """Apply the passes to the program, and verify the result.

    If it is malformed, the original program is verified, and the passes are applied to it again with a check after
    each. Verifying takes longer than most passes, so this is done only after an error.

    Args:
        program: edited in place.
        passes: in order.
        after: called with each pass's name and the program as the pass left it.
        well_formed: digests of blocks that `verify` found well formed; it adds new ones.
        analyses: existing analyses of the program's blocks; the passes update them.

    Returns:
        The results of the passes by name; most are None.

    Raises:
        CompileError: a pass failed or left a malformed program; the message names the pass.
        LimitError: a pass could not meet its request within a limit.
    """
    passes = tuple(passes)
    well_formed = set() if well_formed is None else well_formed
    analyses = BlockAnalyses(program) if analyses is None else analyses
    said: dict[str, object] = {}
    with no_garbage_collection():
        before = copy_of(program)
        try:
            for each in passes:
                said[each.name] = _apply(each, analyses)
                if after is not None:
                    after(each.name, program)
            verify(BlockAnalyses(program), well_formed)  # read again: a pass may have missed a notification of an edit
        except LimitError:
            raise  # a limit of the request, not a fault
        except Exception:
            _find_the_fault(before, passes)
            raise
    return said


def _apply(each: Pass, program: BlockAnalyses) -> object:
    """Call a pass; this is the only place that does."""
    return each.function(program, **each.settings)


@contextmanager
def no_garbage_collection() -> Generator[None]:
    """Disable garbage collection, which would take a quarter of the time of the passes.

    Passes make many objects that live and few that die.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _find_the_fault(program: pb.ProgramDesc, passes: Iterable[Pass]) -> None:
    """Raise CompileError that names the first pass that fails or leaves a malformed program; "none" for the input."""
    verify(BlockAnalyses(program))
    analyses = BlockAnalyses(program)
    for each in passes:
        try:
            _apply(each, analyses)
            verify(BlockAnalyses(program))
        except ProgramError as error:
            raise CompileError(f"{each.name}: {error}") from None
