"""The command `runtime`: execute, check and profile program files."""

from __future__ import annotations

import sys


def main(arguments: list[str] | None = None) -> int:
    """Run the command; the exit code. Without arguments this is the process's own command line, and all it does."""
    if arguments is None:
        return _process()
    from runtime.blas import ask_for_one_thread

    ask_for_one_thread()  # before NumPy is imported
    from runtime.commands import run_command

    return run_command(arguments)


def _process() -> int:
    """The command as a process: signals are minded before anything large is imported, and streams at the end."""
    from runtime.runs.interrupts import ignore_all, leave_at_once

    leave_at_once()
    from runtime.commands.streams import open_missing, settle

    open_missing()
    try:
        return main(sys.argv[1:])
    finally:
        ignore_all()
        settle()


if __name__ == "__main__":
    sys.exit(main())
