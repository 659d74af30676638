"""What passes and verbs report."""

from prograd_proto import ProgramError


class CompileError(ProgramError):
    """A program cannot be compiled as asked."""


class UsageError(ProgramError):
    """Options that do not go together."""


class DataError(ProgramError):
    """A file that is not a program has not what was asked of it."""


class LimitError(ProgramError):
    """What was asked cannot be had within a limit."""
