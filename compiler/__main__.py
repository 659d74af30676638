"""The command `compiler`: shows, checks, compiles and plans programs."""

from __future__ import annotations

import sys


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return the exit code. The default is the process's own command line."""
    if arguments is None:
        from compiler.hidden_packages import hiding_file

        why = hiding_file()
        if why:
            sys.stderr.write(f"compiler: {why}\n")
            return 2
        from runtime.command_line.process import run_process

        return run_process("compiler", main)
    from compiler.commands import run_command

    return run_command(arguments)


if __name__ == "__main__":
    sys.exit(main())
