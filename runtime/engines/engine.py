"""The interface of an engine: everything that the rest of the runtime knows about it.

    Engine      computes the steps of one program, in one way
    Workspace   the memory and the threads of one caller at a time, and the executors prepared in it
    Executor    a bound entry that is ready: feeds to fill, a step, fetches to read

An engine gets a program that `check_program` accepts, and arrays of states that belong to the run. It decides where it
places temporaries, which ops it computes together, and on which threads. It does not decide what a step means. Every
engine reads the states as they were at the start of the step, and updates them in place when it ends. The fetches are
complete by then. Ops with effects on one resource act in the order of the block (`runtime.step.effects`). Equal options
give equal bits, step by step, whatever the threads.

`runtime.engines.choice` has the engines by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from prograd_proto.wording import as_asked
from runtime.dtypes import Array
from runtime.engines.parts import Buffer, Part, Spell, TimeInBlocks
from runtime.entries import BoundEntry
from runtime.errors import UsageError
from runtime.memory.limit import NO_LIMIT, MemoryLimit


def no_folder() -> UsageError:
    """Return the error of an entry that needs a file beside the arena where `EngineOptions.spill` names no folder."""
    how = as_asked("--spill-dir DIR", "spill=DIR")
    return UsageError(f"the program moves values to a file and back; name a folder for it, by {how}")


class Unavailable(UsageError):
    """The engine cannot compute here; the message names the missing feature and a remedy.

    Attributes:
        word: one word for a result line, where another engine computed instead.
    """

    def __init__(self, sentence: str, word: str = "unavailable") -> None:
        super().__init__(sentence)
        self.word = word


class EngineOptions(NamedTuple):
    """Options of an engine.

    Attributes:
        threads: number of threads that compute; the results do not depend on it.
        check_nan: True if a step raises NonFinite for the first op of the list whose output has NaN or Inf. The error
            describes the op's inputs and holds the step. States and feeds are restored to their values before the step.
        spill: folder for a file beside the arena.
        memory: account that is asked before every large allocation.
    """

    threads: int = 1
    check_nan: bool = False
    spill: Path | None = None
    memory: MemoryLimit = NO_LIMIT


class Footprint(NamedTuple):
    """Bytes that a step takes.

    Attributes:
        arena: bytes of temporaries.
        file: bytes of the file beside the arena.
        copies: bytes of copies of fetched or instrumented tensors.
        packed: bytes derived from states only and kept while the states are unchanged; all threads share them.
    """

    arena: int = 0
    file: int = 0
    copies: int = 0
    packed: int = 0


class InMemory(NamedTuple):
    """Rows of a run that lie in memory, in an order.

    Attributes:
        columns: arrays whose axis 0 counts rows, by feed.
        whole: arrays that every step takes whole, by feed.
        numbers: int64, the number of the row at each position.
    """

    columns: Mapping[str, Array]
    whole: Mapping[str, Array]
    numbers: Array


Version = Callable[[], int | None]
"""Function that returns another number after every change of the states, or None if changes are not tracked.

The thread that makes a step calls it in the step. An engine may reuse what it derived from states only as long as the
number stays the same.
"""


def unknown_version() -> None:
    """Return None: changes of the states are not tracked."""


Repeat = Callable[[int, int], Mapping[str, Array]]
"""Function that makes a number of steps with the rows from a position on, and returns the fetches along axis 0.

It makes fewer steps where an op rejects the inputs of the next one, such as a label out of range. `step` then raises
the error.
"""


class Executor(Protocol):
    """A bound entry that is ready to step; one thread at a time uses it."""

    @property
    def feeds(self) -> Mapping[str, Array]:
        """The arrays to fill before a step, by feed name; they are the same in every step."""
        ...

    @property
    def fetches(self) -> Mapping[str, Array]:
        """The values of the last step, by fetch name; a fetched state is its value at the start of the step."""
        ...

    @property
    def footprint(self) -> Footprint:
        """The bytes that a step takes; executors of one workspace share arena and file."""
        ...

    @property
    def parts(self) -> Sequence[Part]:
        """The parts of a step, in the order of the block."""
        ...

    @property
    def buffers(self) -> Sequence[Buffer]:
        """The buffers of the arena."""
        ...

    def step(self) -> None:
        """Compute the fetches and update the states.

        An exception from outside, such as an interrupt or the end of the time, may leave within the step, at the latest
        after the current call. No thread computes any more then.

        Raises ExecutionError that names the op. The states are unusable then, except for NonFinite under `check_nan`.
        """
        ...

    def step_with(self, feeds: Mapping[str, Array]) -> None:
        """Compute as `step` does, with these arrays as feeds instead of `self.feeds`.

        Each array has the dtype and the shape of its feed. The step may read it in place and does not change it.
        """
        ...

    def profile_step(self) -> list[Spell]:
        """Make a step and return the time that each of `parts` took; every part has at least one spell."""
        ...

    def profile_blocks(self) -> list[TimeInBlocks]:
        """Make a step and return the times of ops in the blocks of loops and conditions; none if there are no blocks.

        Measuring each op takes about a microsecond, which its time contains.
        """
        ...

    def repeated(self, rows: InMemory, fetches: Sequence[str]) -> Repeat | None:
        """Return a function that makes many steps with these rows and keeps the fetches of each; None if it has none.

        The function computes the bits of `step`, and raises nothing; interrupts wait for its end.
        """
        ...


class Workspace(Protocol):
    """The memory of one caller at a time; no content of it outlives a step."""

    @property
    def footprint(self) -> Footprint:
        """The bytes that it holds now; `arena` and `copies` are counted in the account of memory."""
        ...

    def prepare(
        self,
        bound: BoundEntry,
        states: Mapping[str, Array],
        fetch: Sequence[str],
        version: Version = unknown_version,
    ) -> Executor:
        """Return an executor of a bound entry.

        Args:
            bound: bound entry of the engine's program.
            states: the arrays that it reads and updates.
            fetch: names of tensors to fetch besides those that the entry declares.
            version: version of the states.

        Raises ResourceLimit if its memory exceeds the limit or the free memory, or its file the disk. Raises UsageError
        if the file cannot be created.
        """
        ...

    def close(self) -> None:
        """End all threads but the caller's; existing executors can still step, on the caller's thread alone."""
        ...


class Views(Protocol):
    """Descriptions of the steps of one program by an engine; the machine need not be able to run them."""

    def explain(self, bound: BoundEntry, after: str | None = None) -> Iterator[str]:
        """Yield lines that describe how it computes a step, or the state of the step after one of its passes.

        Raises UsageError if it has no such pass.
        """
        ...

    def code(self, bound: BoundEntry) -> str:
        """Return the text that it compiles for a step; raise UsageError if it compiles nothing."""
        ...


class Engine(Views, Protocol):
    """An engine for the steps of one program.

    Several threads may call it at once. One thread may use an executor while another one is prepared.
    """

    @property
    def name(self) -> str:
        """The name of the engine in `--engine`, result lines and records."""
        ...

    @property
    def instructions(self) -> str:
        """The instruction set that it computes with, or an empty string if the bits do not depend on it."""
        ...

    @property
    def threads(self) -> int:
        """The number of threads that were asked for; by default, the most that a step of this engine has used."""
        ...

    def needs(self, bound: BoundEntry) -> Footprint:
        """Return the bytes that a step of a bound entry will take, without its copies, as far as known in advance.

        `file` is 0 if and only if the step needs no file.
        """
        ...

    def workspace(self) -> Workspace:
        """Return a new, empty workspace."""
        ...
