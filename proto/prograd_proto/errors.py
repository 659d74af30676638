"""What a program can cause by itself, and what a plugin can."""


class ProgramError(ValueError):
    """The program is malformed, unsupported or contradicts itself."""


class Unwritable(ProgramError):
    """A program cannot be written where it was asked; the OSError is the cause."""


class PluginError(ProgramError):
    """A plugin is not there, or cannot be used."""
