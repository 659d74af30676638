"""What can go wrong while a program runs; the command's exit code follows from the class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np

    from prograd_proto import program_pb2 as pb


class FailedStep(NamedTuple):
    """What a step began with: the bound block, and by name every state and feed."""

    block: pb.BlockDesc
    states: dict[str, np.ndarray[Any, Any]]
    feeds: dict[str, np.ndarray[Any, Any]]


class ExecutionError(RuntimeError):
    """A run cannot go on."""


class DataError(ExecutionError):
    """Rows, feeds or files do not fit the program."""


class Damaged(DataError):
    """A file can be read, and what it holds is not what was written, or was never written by us."""


class NonFinite(ExecutionError):
    """A tensor has NaN or Inf where it must not.

    Attributes:
        step: what the step began with, if every output was looked at (`check_nan`).
    """

    def __init__(self, text: str, step: FailedStep | None = None) -> None:
        super().__init__(text)
        self.step = step


class OutOfRange(ExecutionError):
    """A number that counts places or classes, such as a label, is none of theirs; `number` is which."""

    def __init__(self, text: str, number: int) -> None:
        super().__init__(text)
        self.number = number


class ResourceLimit(ExecutionError):
    """Memory, time or disk space ran out, or a limit that was asked for is reached."""


class UsageError(ExecutionError):
    """What was asked of a run does not exist, or contradicts itself."""


class OutOfTime(ResourceLimit):
    """The time of a run is over; raised within a step, what its states hold is of no use."""


class SourceEnded(Exception):
    """There are no rows for another step; `left` are those that do not fill one. No run raises it."""

    def __init__(self, left: int) -> None:
        super().__init__(f"the source ended, and {left} rows are left")
        self.left = left
