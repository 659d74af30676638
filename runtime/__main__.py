"""The command `runtime`: execute, check and profile program files."""

from __future__ import annotations

import sys


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return the exit code; without arguments, parse this process's own command line."""
    if arguments is None:
        from runtime.hidden_packages import hiding_file

        why = hiding_file("prograd_proto")
        if why:
            sys.stderr.write(f"runtime: {why}\n")
            return 2
        from runtime.command_line.process import run_process

        return run_process("runtime", main)
    from runtime.blas import ask_for_one_thread

    ask_for_one_thread()  # before NumPy is imported
    from runtime.commands import run_command

    return run_command(arguments)


if __name__ == "__main__":
    sys.exit(main())
