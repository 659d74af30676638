"""A bad call of an operator, and the one-line check that reports it."""

from collections.abc import Callable

from prograd_proto import ProgramError


class OpError(ProgramError):
    """An operator was called with operands or attributes it cannot take, or was declared wrongly."""


def require(condition: bool, message: str) -> None:
    """Raise OpError unless `condition` holds; the call adds the operator, its operands and the user's line."""
    if not condition:
        raise OpError(message)


class Located:
    """A context that puts the user's line, "" where it is unknown, before an error that does not begin with it yet."""

    def __init__(self, line: Callable[[], str]) -> None:
        self._line = line

    def __enter__(self) -> None:
        """Do nothing: only errors are looked at."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, ProgramError):
            return
        text = self._line()
        if text and not str(error).startswith(f"{text}: "):
            raise type(error)(f"{text}: {error}") from None
