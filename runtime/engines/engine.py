"""What an engine is: all that the rest of the runtime knows of what computes.

    Engine      computes the steps of one program, in one way
    Workspace   the memory and the threads of one caller at a time, and what is prepared in it
    Executor    a bound entry that is ready: feeds to fill, a step, fetches to read

An engine gets a program that `check_program` accepts, and arrays of states that belong to the run. How it places what
dies within a step, what it computes together, and on which threads, is its own. What a step means is not: every engine
reads the states as they were at the start of the step, updates them in place when it ends, and has given the fetches by
then. Ops with effects on one resource act in the order of the block (`runtime.step.effects`). Equal options give equal
bits, step by step, whatever the threads.

`runtime.engines.choice` has the engines by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from prograd_proto.wording import as_asked
from runtime.dtypes import Array
from runtime.engines.parts import Buffer, Part, Spell
from runtime.entries import BoundEntry
from runtime.errors import UsageError
from runtime.memory_limit import NO_LIMIT, MemoryLimit

MathName = Literal["exact"]
ScheduleName = Literal["fifo", "parallel"]


def no_folder() -> UsageError:
    """Return the error of an entry that needs a file beside the arena where `EngineOptions.spill` names no folder."""
    how = as_asked("--spill-dir DIR", "spill=DIR")
    return UsageError(f"the program moves values to a file and back; name a folder for it, by {how}")


class Unavailable(UsageError):
    """The engine cannot compute here; the sentence says what it lacks, and what to do about it.

    Attributes:
        word: the same for a result line, where another engine computed instead.
    """

    def __init__(self, sentence: str, word: str = "unavailable") -> None:
        super().__init__(sentence)
        self.word = word


class EngineOptions(NamedTuple):
    """How steps are to be made.

    Attributes:
        math: "exact" computes as the program says.
        threads: how many threads compute; the results do not depend on it.
        schedule: "fifo" keeps the order of the op list on one thread, "parallel" starts what can start; unless given,
            parallel with more than one thread.
        check_nan: a step raises NonFinite for the first op of the list whose output has NaN or Inf. The error says what
            the op reads, and has the step; states and feeds are then what they were before it.
        spill: a folder for a file beside the arena.
        memory: is asked before anything large is allocated.
    """

    math: MathName = "exact"
    threads: int = 1
    schedule: ScheduleName | None = None
    check_nan: bool = False
    spill: Path | None = None
    memory: MemoryLimit = NO_LIMIT


class Footprint(NamedTuple):
    """Bytes of what a step takes.

    Attributes:
        arena: what dies within it.
        file: beside the arena.
        copies: of what is fetched or watched.
        packed: what is made of states alone and kept as long as they stay the same; all threads share it.
    """

    arena: int = 0
    file: int = 0
    copies: int = 0
    packed: int = 0


class InMemory(NamedTuple):
    """Rows of a run that lie in memory, in an order.

    Attributes:
        columns: by feed, arrays whose axis 0 counts rows.
        whole: by feed, what every step takes whole.
        numbers: int64, the row that stands at each position.
    """

    columns: Mapping[str, Array]
    whole: Mapping[str, Array]
    numbers: Array


Version = Callable[[], int | None]
"""Gives a number that is another one after every change of the states; None if they may change without that.

It is asked in a step, by the thread that makes it. What an engine keeps that follows from states alone is good for as
long as the number stays."""


def unknown_version() -> None:
    """Nobody says whether the states have changed."""


Repeat = Callable[[int, int], Mapping[str, Array]]
"""Makes steps with rows from a position on, so many; gives for each fetch its values, along axis 0.

They are fewer where an op refuses what the next step reads, such as a label of no class: `step` says so."""


class Executor(Protocol):
    """A bound entry, ready to step; one thread at a time uses it."""

    @property
    def feeds(self) -> Mapping[str, Array]:
        """By feed name, the arrays to fill before a step; they are the same ones in every step."""
        ...

    @property
    def fetches(self) -> Mapping[str, Array]:
        """By fetch name, the values of the last step, likewise; a fetched state is its value at the step's start."""
        ...

    @property
    def footprint(self) -> Footprint:
        """What a step takes; executors of one workspace share arena and file."""
        ...

    @property
    def parts(self) -> Sequence[Part]:
        """What a step is made of, in the order of the block."""
        ...

    @property
    def buffers(self) -> Sequence[Buffer]:
        """What lies in the arena."""
        ...

    @property
    def warm_up(self) -> int:
        """Steps after which the engine computes as it will go on to."""
        ...

    def step(self) -> None:
        """Compute, give the fetches, update the states.

        An exception that comes from outside, such as an interrupt or the end of the time, may leave within the step, at
        the latest after the call that is under way; no thread computes any more then.

        Raises ExecutionError that names the op; what the states hold is then of no use, but for NonFinite under
        `check_nan`.
        """
        ...

    def step_with(self, feeds: Mapping[str, Array]) -> None:
        """Compute likewise, with feeds in these arrays instead of `self.feeds`, which may be read where they lie.

        Each array has the dtype and the shape of its feed; a step that reads it does not change it.
        """
        ...

    def profile_step(self) -> list[Spell]:
        """A step, with the time that each of `parts` took; every part has at least one spell."""
        ...

    def repeated(self, rows: InMemory, fetches: Sequence[str]) -> Repeat | None:
        """What makes many steps with these rows and keeps these fetches of each; None if they are made one by one.

        It computes what `step` does, bit by bit, and raises nothing; interrupts wait for its end.
        """
        ...


class Workspace(Protocol):
    """The memory of one caller at a time; nothing in it is needed from one step to the next."""

    @property
    def footprint(self) -> Footprint:
        """All that it holds now, of which `arena` and `copies` were taken from the account of memory."""
        ...

    def prepare(
        self,
        bound: BoundEntry,
        states: Mapping[str, Array],
        fetch: Sequence[str],
        version: Version = unknown_version,
    ) -> Executor:
        """Make a bound entry ready to step.

        Args:
            bound: of the engine's program.
            states: the arrays that it reads and updates.
            fetch: tensors to fetch besides those that the entry declares, by tensor name.
            version: of the states.

        Raises ResourceLimit if its memory is more than the limit or than there is, or the disk has no room for its
        file, and UsageError if that cannot be made.
        """
        ...

    def close(self) -> None:
        """Let all its threads end but the caller's; what is prepared can still step, on that alone."""
        ...


class Engine(Protocol):
    """Computes the steps of one program.

    Several threads may ask it at once. What it has prepared may be used by one thread while another one is prepared.
    """

    @property
    def name(self) -> str:
        """As in `--engine`, result lines and records."""
        ...

    @property
    def math(self) -> str:
        """Likewise; states are compared bit for bit only where both are equal."""
        ...

    @property
    def instructions(self) -> str:
        """The instruction set that it computes with, if bits depend on that; else nothing."""
        ...

    def needs(self, bound: BoundEntry) -> Footprint:
        """What a step of a bound entry will take, without its copies, as far as is known before it is prepared.

        `file` is 0 if, and only if, it needs none.
        """
        ...

    def explain(self, bound: BoundEntry, after: str | None = None) -> Iterator[str]:
        """Lines that say how it computes a step; or what it has made of it after one of its passes.

        Raises UsageError if it has no such pass.
        """
        ...

    def code(self, bound: BoundEntry) -> str:
        """The text of what it compiles for a step; raises UsageError if it compiles nothing."""
        ...

    def workspace(self) -> Workspace:
        """A new one, still empty."""
        ...
