"""Names of options and arguments in errors: options for a command, arguments for a Python program."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

_commands = 0
"""Number of commands that run in this process: 1 in the process of a command, 0 in a Python program."""


def as_asked(option: str, argument: str) -> str:
    """Return the words by which the caller asks for something.

    Args:
        option: words of the command line, as in "--force".
        argument: words of Python, as in "force=True".
    """
    return option if _commands else argument


@contextmanager
def words_of_a_command() -> Generator[None]:
    """Let `as_asked` return options in all threads until the block ends."""
    global _commands
    _commands += 1
    try:
        yield
    finally:
        _commands -= 1
