"""Errors of passes and verbs."""

from prograd_proto import ProgramError


class CompileError(ProgramError):
    """A program cannot be compiled as asked."""


class UsageError(ProgramError):
    """Options contradict each other or do not apply."""


class DataError(ProgramError):
    """A file that is not a program lacks the requested content."""


class LimitError(ProgramError):
    """A request cannot be met within a limit."""
