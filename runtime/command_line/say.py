"""Sentences of a command on stderr: its own, and those of the log, all behind the name of the command."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

from prograd_proto.printable import sentence
from prograd_proto.wording import command_name
from runtime.command_line.colours import Colour, painted
from runtime.command_line.streams import say as print_line


class Say:
    """A function that prints a sentence to stderr; the progress display of a run replaces `show`.

    Attributes:
        command: name of the command.
        level: level of `logging` of its own sentences.
        show: function that prints a sentence of a level.
    """

    def __init__(self, command: str) -> None:
        self.command = command
        self.level = logging.INFO
        self.show: Callable[[int, str], None] = lambda level, text: print_line(labelled(level, text))

    def __call__(self, text: str) -> None:
        """Print the text with unprintable characters replaced, up to a bounded length."""
        self.show(self.level, sentence(text))


def labelled(level: int, text: str) -> str:
    """Return a sentence behind the name of the command, and of its level if that is a warning or worse."""
    if level < logging.WARNING:
        return f"{command_name()}: {text}"
    colour: Colour = "red" if level >= logging.ERROR else "yellow"
    return f"{command_name()}: {painted(logging.getLevelName(level).lower(), colour, sys.stderr)}: {text}"


@contextmanager
def log_by(say: Say) -> Generator[None]:
    """Print the warnings of the log by `say` until the block ends."""
    logger, handler = logging.getLogger("prograd"), _Handler(say)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class _Handler(logging.Handler):
    def __init__(self, say: Say) -> None:
        super().__init__()
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        """Print the message of a record."""
        self._say.show(record.levelno, sentence(record.getMessage()))
