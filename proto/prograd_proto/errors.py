"""The one error that a program can cause by itself."""


class ProgramError(ValueError):
    """The program is malformed, unsupported or contradicts itself."""
