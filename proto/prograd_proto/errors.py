"""Errors caused by a program or a plugin."""


class ProgramError(ValueError):
    """The program is malformed, unsupported or contradicts itself."""


class Unwritable(ProgramError):
    """A program cannot be written to the requested path; the OSError is the cause."""


class PluginError(ProgramError):
    """A plugin does not exist or cannot be used."""
