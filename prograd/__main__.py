"""The command `prograd`: the verbs of `runtime` and `compiler` under one name, as `pipx run prograd` calls it."""

from __future__ import annotations

import sys


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return the exit code; without arguments, parse this process's own command line."""
    if arguments is None:
        from prograd.found_packages import require_visible

        try:
            require_visible("compiler")
        except ImportError as error:
            sys.stderr.write(f"prograd: {error}\n")
            return 2
        from runtime.command_line.process import run_process

        return run_process("prograd", main)
    from runtime.blas import ask_for_one_thread

    ask_for_one_thread()  # before NumPy is imported
    from prograd.commands.verbs import run_command

    return run_command(arguments)


if __name__ == "__main__":
    sys.exit(main())
