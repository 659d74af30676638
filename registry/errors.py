"""A bad call of an operator, and the one-line check that reports it."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

from prograd_proto import ProgramError


class OpError(ProgramError):
    """An operator was called with operands or attributes it cannot take, or was declared wrongly."""


def require(condition: bool, message: str) -> None:
    """Raise OpError unless `condition` holds; the call adds the operator, its operands and the user's line."""
    if not condition:
        raise OpError(message)


@contextmanager
def located(line: Callable[[], str]) -> Generator[None]:
    """Put the user's line, "" where it is unknown, before an error that does not begin with it yet."""
    try:
        yield
    except ProgramError as error:
        text = line()
        if not text or str(error).startswith(f"{text}: "):
            raise
        raise type(error)(f"{text}: {error}") from None
