"""The end of a command: the exit code and the sentence for every outcome, the same for both commands."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Final

from prograd_proto import PluginError, ProgramError
from prograd_proto.errors import Unwritable
from prograd_proto.wording import words_of_a_command
from runtime.command_line.os_errors import is_full, os_sentence
from runtime.command_line.say import log_by
from runtime.command_line.streams import drop
from runtime.errors import DataError, ExecutionError, NonFinite, ProcessLost, ResourceLimit, UsageError
from runtime.memory.shortage import shortage
from runtime.runs.interrupts import Interrupted

EXIT_DONE: Final = 0
EXIT_FAILED: Final = 1  # a verification failed
EXIT_USAGE: Final = 2
EXIT_PROGRAM: Final = 3
EXIT_DATA: Final = 4
EXIT_NON_FINITE: Final = 5
EXIT_LIMIT: Final = 6
EXIT_LOST: Final = ProcessLost.CODE
EXIT_BUG: Final = 70
EXIT_INTERRUPTED: Final = 130  # by Ctrl-C, or because the reader of the results has left

Codes = Sequence[tuple[type[BaseException], int]]
"""Exit codes by class of error; the first class that fits counts."""

_CODES: Final[Codes] = (
    (UsageError, EXIT_USAGE),
    (PluginError, EXIT_USAGE),
    (Unwritable, EXIT_DATA),
    (ProgramError, EXIT_PROGRAM),
    (DataError, EXIT_DATA),
    (NonFinite, EXIT_NON_FINITE),
    (ResourceLimit, EXIT_LIMIT),
    (ProcessLost, EXIT_LOST),
    (ExecutionError, EXIT_DATA),  # all other rejections by a kernel concern values: a label or an index out of range
    (MemoryError, EXIT_LIMIT),
    (KeyboardInterrupt, EXIT_INTERRUPTED),
)


def ended(options: argparse.Namespace, act: Callable[[argparse.Namespace], int | None], codes: Codes = ()) -> int:
    """Run a verb, and turn every outcome into one sentence and an exit code.

    `codes` are those of errors that only this command has; they come first.
    """
    with words_of_a_command(options.say.command), log_by(options.say):
        try:
            return act(options) or EXIT_DONE
        except BrokenPipeError:  # the reader of our results has left: no error of ours, and no success
            drop(sys.stdout)
            return EXIT_INTERRUPTED
        except BaseException as error:
            if options.traceback or isinstance(error, SystemExit | GeneratorExit):
                raise
            code = exit_code(error, codes)
            options.say(error_sentence(error, code))
            return code


def exit_code(error: BaseException, codes: Codes = ()) -> int:
    """Return the exit code of an error; 128 and its number for a signal, 70 for an internal error."""
    if isinstance(error, Interrupted):
        return 128 + error.number
    if isinstance(error, OSError):  # a system error about a file is no internal error
        return EXIT_LIMIT if is_full(error) else EXIT_DATA
    cause = error.__cause__
    if isinstance(error, ProgramError) and isinstance(cause, OSError):  # a program is written, or read
        if isinstance(cause, FileExistsError):
            return EXIT_USAGE
        if is_full(cause):
            return EXIT_LIMIT
    return next((code for kind, code in (*codes, *_CODES) if isinstance(error, kind)), EXIT_BUG)


def error_sentence(error: BaseException, code: int) -> str:
    """Return the description of an error in one line."""
    if isinstance(error, MemoryError):
        return shortage(error)
    if isinstance(error, KeyboardInterrupt):
        return str(error) or "interrupted"
    if isinstance(error, OSError):
        return os_sentence(error)
    if code != EXIT_BUG:
        return str(error)
    return f"a fault of prograd itself, {type(error).__name__}: {error}; --traceback shows where"
