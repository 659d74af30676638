"""Errors of a running program; the class determines the command's exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from prograd_proto.printable import error_text

if TYPE_CHECKING:
    import numpy as np

    from prograd_proto import program_pb2 as pb


class FailedStep(NamedTuple):
    """The bound block of a failed step, and by name every state and feed at its start."""

    block: pb.BlockDesc
    states: dict[str, np.ndarray[Any, Any]]
    feeds: dict[str, np.ndarray[Any, Any]]


class ExecutionError(RuntimeError):
    """A run cannot go on."""

    def __str__(self) -> str:
        """Return one line of bounded length, see `ProgramError`."""
        return error_text(super().__str__())


class DataError(ExecutionError):
    """Rows, feeds or files do not fit the program."""


class Damaged(DataError):
    """A file can be read, but its content is corrupt or was never written by prograd."""


class NonFinite(ExecutionError):
    """A tensor has NaN or Inf where it must not.

    Attributes:
        step: the step and its inputs, if every output was checked (`check_nan`).
        is_restored: True if the run has the states of its best evaluation again.
    """

    def __init__(self, text: str, step: FailedStep | None = None, *, is_restored: bool = False) -> None:
        super().__init__(text)
        self.step = step
        self.is_restored = is_restored


class OutOfRange(ExecutionError):
    """An index or class number, such as a label, is out of range.

    Attributes:
        number: that number.
        op: id of the op that read it, in the block that runs; 0 for an op inside another one.
        place: the line of the user's script that declared the op; "" if it is not known.
    """

    def __init__(self, text: str, number: int, op: int = 0, place: str = "") -> None:
        super().__init__(text)
        self.number, self.op, self.place = number, op, place


class ResourceLimit(ExecutionError):
    """Memory, time or disk space ran out, or a requested limit was reached."""


class UsageError(ExecutionError):
    """A request names something that does not exist, or contradicts itself."""


class OutOfTime(ResourceLimit):
    """The time of a run is over; if it is raised within a step, the states are unusable."""


class ProcessLost(ExecutionError):
    """Another process of the run is gone, or gives no answer."""

    CODE = 7
    """The exit code of a command."""


class SourceEnded(Exception):
    """The source has no rows for another step; `left` are the rows that do not fill one. No run raises it."""

    def __init__(self, left: int) -> None:
        super().__init__(f"the source ended, and {left} rows are left")
        self.left = left
