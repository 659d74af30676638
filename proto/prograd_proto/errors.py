"""Errors caused by a program or a plugin."""

from prograd_proto.printable import error_text


class ProgramError(ValueError):
    """The program is malformed, unsupported or contradicts itself."""

    def __str__(self) -> str:
        """Return one line of bounded length: the sentence may show a value that its reader gave, such as an array."""
        return error_text(super().__str__())


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
