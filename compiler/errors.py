"""What a pass reports."""

from prograd_proto import ProgramError


class CompileError(ProgramError):
    """A program cannot be compiled as asked."""
