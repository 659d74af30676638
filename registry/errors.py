"""Errors of operator calls, and the one-line check that raises them."""

from collections.abc import Callable

from prograd_proto import ProgramError


class OpError(ProgramError):
    """An operator was called with operands or attributes that it cannot take, or was declared wrongly."""


def require(condition: bool, message: str) -> None:
    """Raise OpError unless `condition` holds; the call adds the operator, its operands and the user's line."""
    if not condition:
        raise OpError(message)


class Located:
    """A context that prepends the user's line to an error that does not begin with it yet; "" if unknown."""

    def __init__(self, line: Callable[[], str]) -> None:
        self._line = line

    def __enter__(self) -> None:
        """Do nothing; only errors need handling."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, ProgramError):
            return
        text = self._line()
        if text and not str(error).startswith(f"{text}: "):
            raise type(error)(f"{text}: {error}") from None
