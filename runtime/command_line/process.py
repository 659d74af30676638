"""A command as a process: signals are handled from before anything large is imported, and streams at the end."""

from __future__ import annotations

import gc
import sys
from contextlib import suppress

from runtime.runs.interrupts import ignore_all, leave_at_once

TYPE_CHECKING = False  # as type checkers know it; typing itself is slow to import
if TYPE_CHECKING:
    from collections.abc import Callable

OBJECTS_BEFORE_SEARCH = 200_000
"""So many objects are made before Python looks for those that only each other still need. What a start makes stays, so
the usual search, after 700, finds nothing, dozens of times: a tenth of the start of a large program."""

EXIT_LIMIT = 6
"""The exit code of a process that a limit ends; `runtime.command_line.ending` imports too much to be asked here."""


def run_process(command: str, main: Callable[[list[str]], int]) -> int:
    """Let `main` act on the process's own words, as all that the process does; the exit code."""
    leave_at_once(command)
    gc.set_threshold(OBJECTS_BEFORE_SEARCH)
    from runtime.address_space import why_not_started

    why = why_not_started()
    if why is not None:
        with suppress(OSError, ValueError, AttributeError):  # AttributeError: there is no stderr
            sys.stderr.write(f"{command}: {why}\n")
        return EXIT_LIMIT
    from runtime.command_line.streams import open_missing, settle

    open_missing()
    try:
        return main(sys.argv[1:])
    finally:
        ignore_all()
        settle()
