"""Apply passes to a program, and find the one that is at fault if something is wrong."""

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
from prograd_proto.blocks import Readings

AfterPass = Callable[[str, pb.ProgramDesc], None]
"""Called with the name of a pass and the program as the pass left it."""


def run_passes(
    program: pb.ProgramDesc,
    passes: Iterable[Pass] = PASSES,
    *,
    after: AfterPass | None = None,
    well_formed: set[bytes] | None = None,
    readings: Readings | None = None,
) -> dict[str, object]:
    """Apply the passes to the program, and verify what they leave.

    If something is wrong then, what was there before is verified, and the passes are applied to it again with a look
    after each: verifying takes longer than most passes, and only a fault needs to be traced to one.

    Args:
        program: edited in place.
        passes: in order.
        after: called with each pass's name and the program as the pass left it.
        well_formed: what `verify` knows already of blocks, and learns.
        readings: of the program's blocks, as far as there are some; the passes keep them true.

    Returns:
        By the names of the passes, what they have to say; None of most.

    Raises:
        CompileError: a pass failed or left a malformed program; the message names the pass.
        LimitError: a pass could not do what it was asked for within a limit.
    """
    passes = tuple(passes)
    well_formed = set() if well_formed is None else well_formed
    readings = Readings(program) if readings is None else readings
    said: dict[str, object] = {}
    with no_garbage_collection():
        before = pb.ProgramDesc()
        before.CopyFrom(program)
        try:
            for each in passes:
                said[each.name] = _apply(each, readings)
                if after is not None:
                    after(each.name, program)
            verify(Readings(program), well_formed)  # read anew: a pass may have said too little of what it edited
        except LimitError:
            raise  # of what was asked, and nobody's fault
        except Exception:
            _find_the_fault(before, passes)
            raise
    return said


def _apply(each: Pass, program: Readings) -> object:
    """Return the one place where a pass is called."""
    return each.function(program, **each.settings)


@contextmanager
def no_garbage_collection() -> Generator[None]:
    """Passes make many objects that live and few that die: looking for garbage among them is a quarter of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _find_the_fault(program: pb.ProgramDesc, passes: Iterable[Pass]) -> None:
    """Raise CompileError that names the first pass that fails or leaves a malformed program; none if it was that."""
    verify(Readings(program))
    readings = Readings(program)
    for each in passes:
        try:
            _apply(each, readings)
            verify(Readings(program))
        except ProgramError as error:
            raise CompileError(f"{each.name}: {error}") from None
