"""Errors of operator calls, and the one-line check that raises them."""

from collections.abc import Callable

from prograd_proto import ProgramError
from prograd_proto.errors import OpError as OpError
from prograd_proto.errors import require as require


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
