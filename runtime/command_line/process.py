"""A command as a process: it handles signals before large imports, and streams at the end."""

from __future__ import annotations

import gc
import sys
from contextlib import suppress

from runtime.runs.interrupts import ignore_all, leave_at_once

TYPE_CHECKING = False  # as type checkers know it; typing itself is slow to import
if TYPE_CHECKING:
    from collections.abc import Callable

OBJECTS_BEFORE_SEARCH = 200_000
"""Number of allocations before Python searches for reference cycles.

Objects of the start-up stay alive, so the default search after 700 allocations finds nothing, dozens of times: a tenth
of the start-up time of a large program.
"""

EXIT_LIMIT = 6
"""Exit code of a process that reaches a limit; `runtime.command_line.ending` imports too much to be used here."""


def run_process(command: str, main: Callable[[list[str]], int]) -> int:
    """Run `main` with the process's own arguments, and return the exit code; the process does nothing else."""
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
