"""A bad call of an operator, and the one-line check that reports it."""

from prograd_proto import ProgramError


class OpError(ProgramError):
    """An operator was called with operands or attributes it cannot take, or was declared wrongly."""


def require(condition: bool, message: str) -> None:
    """Raise OpError unless `condition` holds; the call adds the operator, its operands and the user's line."""
    if not condition:
        raise OpError(message)
