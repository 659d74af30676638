"""The command `runtime`: execute, check and profile program files."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from runtime.blas import ask_for_one_thread


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit code."""
    ask_for_one_thread()  # before NumPy is imported
    from runtime.commands import run_command

    return run_command(sys.argv[1:] if arguments is None else list(arguments))


if __name__ == "__main__":
    sys.exit(main())
