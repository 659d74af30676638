"""Errors caused by a program or a plugin."""


class ProgramError(ValueError):
    """The program is malformed, unsupported or contradicts itself."""


class OpError(ProgramError):
    """An operator was called with operands or attributes that it cannot take, or was declared wrongly."""


class Unwritable(ProgramError):
    """A program cannot be written to the requested path; the OSError is the cause."""


class PluginError(ProgramError):
    """A plugin does not exist or cannot be used."""


def require(condition: bool, message: str) -> None:
    """Raise OpError unless `condition` holds; the caller adds the operator, its operands and the user's line."""
    if not condition:
        raise OpError(message)
