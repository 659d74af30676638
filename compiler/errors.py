"""Errors of passes and verbs."""

from collections.abc import Generator
from contextlib import contextmanager

from prograd_proto import ProgramError
from runtime.errors import ExecutionError


class CompileError(ProgramError):
    """A program cannot be compiled as asked."""


class UsageError(ProgramError):
    """Options contradict each other or do not apply."""


class DataError(ProgramError):
    """A file that is not a program lacks the requested content."""


class LimitError(ProgramError):
    """A request cannot be met within a limit."""


@contextmanager
def compile_errors(before: str = "") -> Generator[None]:
    """Return a context that raises the runtime's errors about files as CompileError, with words before them."""
    try:
        yield
    except ExecutionError as error:
        raise CompileError(f"{before}{error}") from None
