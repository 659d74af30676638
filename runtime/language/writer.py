"""The entries of a program that write texts, with the caches of the texts."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Condition, Lock
from typing import Final

import numpy as np

from prograd_proto import TensorType
from runtime.dtypes import Array
from runtime.entries import BoundEntry
from runtime.errors import DataError, ExecutionError
from runtime.language.choices import Choices
from runtime.language.model import LanguageModel, language_model
from runtime.philox import WORK_ROWS, fill_random_bits
from runtime.runs.session import Session

DRAW_STREAM: Final = 0xFFFFFFFD
"""Number of the stream that draws codes; operators have smaller ones."""

_ENTRIES: Final = ("read", "next")


class Writer:
    """Texts that a program writes, each in a row of its own; rows begin and end independently of each other.

    A row's next code depends on its codes and its choices alone, not on the other rows. Threads may write in different
    rows; their steps are made one after the other.

    Attributes:
        model: what the program says of its language model.
        lengths: for each row, the codes that it has read or written.
    """

    def __init__(self, session: Session) -> None:
        """Take the memory of the caches; raise ResourceLimit if there is too little, DataError for other entries."""
        self._session = session
        self.model = language_model(session.program)
        self._bound = {entry: _bound(session, entry, self.model) for entry in _ENTRIES}
        shape = self.model.cache_shape
        session.memory.take(2 * 4 * int(np.prod(shape)), "the keys and values of texts")
        self._keys, self._values = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        session.memory.note(self._keys)
        session.memory.note(self._values)
        self._seen = np.zeros((self.model.texts, self.model.vocabulary), bool)
        self._choices = [Choices()] * self.model.texts
        self.lengths = np.zeros(self.model.texts, np.int32)
        self._lock = Lock()
        self._turn = Condition()
        self._is_making = False
        self._waiting: dict[int, int] = {}
        self._found: dict[int, int | Exception] = {}

    def begin(self, row: int, choices: Choices, kept: Sequence[int] = ()) -> None:
        """Empty a row for a new text; its first codes may stay, if they are those that it has."""
        self.lengths[row] = len(kept)
        self._seen[row] = False
        self._seen[row, np.asarray(kept, np.int64)] = True
        self._choices[row] = choices

    def room(self, row: int) -> int:
        """Return the number of codes that a row can take."""
        return self.model.positions - int(self.lengths[row])

    def read(self, row: int, codes: Sequence[int]) -> int:
        """Let a row take codes, and return the code behind them.

        Raises DataError for codes that the model does not have, or more than there is room for.
        """
        given = np.asarray(codes, np.int64)
        if not len(given):
            raise DataError("there is no code to read")
        if given.min() < 0 or given.max() >= self.model.vocabulary:
            raise DataError(f"the model has {self.model.vocabulary} codes, and {int(given.max())} is none of them")
        if len(given) > self.room(row):
            raise DataError(
                f"the text has {int(self.lengths[row]) + len(given)} codes; the program was compiled for "
                f"{self.model.positions}: compiler import lm --positions"
            )
        code = -1
        for at in range(0, len(given), self.model.chunk):
            part = given[at : at + self.model.chunk]
            entry = "next" if len(part) == 1 else "read"
            table = np.zeros((self.model.texts, len(part) if entry == "next" else self.model.chunk), np.int32)
            table[row, : len(part)] = part
            counts = np.zeros(self.model.texts, np.int32)
            counts[row] = len(part)
            code = int(self._step(entry, table, counts)[row])
        return code

    def next(self, codes: Sequence[int | None]) -> list[int | None]:
        """Let each row take a code, and return the code behind it; rows without a code stay as they are."""
        table = np.array([[0 if code is None else code] for code in codes], np.int32)
        counts = np.array([code is not None for code in codes], np.int32)
        found = self._step("next", table, counts)
        return [int(new) if count else None for new, count in zip(found, counts, strict=True)]

    def next_of(self, row: int, code: int) -> int:
        """Let a row take a code, and return the code behind it; rows of other threads take theirs in the same step.

        The first thread makes a step for all codes that wait; those that come meanwhile wait for the next one.
        """
        with self._turn:
            self._waiting[row] = code
            self._turn.wait_for(lambda: row in self._found or not self._is_making)
            if row not in self._found:
                self._is_making, taken = True, dict(self._waiting)
                self._waiting.clear()
                self._turn.release()
                found: dict[int, int | Exception] = {}
                try:
                    news = self.next([taken.get(each) for each in range(self.model.texts)])
                    found = {each: new for each, new in enumerate(news) if new is not None}
                except Exception as error:  # each of the threads raises it
                    found = dict.fromkeys(taken, error)
                finally:
                    self._turn.acquire()
                    self._is_making = False
                    self._found |= found
                    self._turn.notify_all()
            made = self._found.pop(row)
        if isinstance(made, Exception):
            raise made
        return made

    def _step(self, entry: str, codes: Array, counts: Array) -> Array:
        """Make a step, and put the new keys and values behind those of the rows that take part."""
        with self._lock:
            return self._made(entry, codes, counts)

    def _made(self, entry: str, codes: Array, counts: Array) -> Array:
        session, bound = self._session, self._bound[entry]
        for row, count in enumerate(counts):
            self._seen[row, codes[row, :count]] = True
        feeds = self._feeds(entry, codes, counts)
        with session.states.locks.shared(), session.workspaces.lent([bound]) as lent:
            executor = lent.executor(bound)
            session.stepper.call(lambda: executor.step_with(feeds))
            fetched = executor.fetches
            for row, count in enumerate(counts):
                start = int(self.lengths[row])
                for cache, new in ((self._keys, fetched["keys"]), (self._values, fetched["values"])):
                    cache[:, row, :, start : start + count] = new[:, row, :, :count]
            found = np.array(fetched["code"])
        self.lengths += counts
        if not ((found >= 0) & (found < self.model.vocabulary)).all():
            raise ExecutionError("the program wrote a code that the model does not have")
        return found

    def _feeds(self, entry: str, codes: Array, counts: Array) -> dict[str, Array]:
        behind = (self.lengths + counts).tolist()
        given: dict[str, Array] = {
            "codes": codes,
            "counts": counts,
            "lengths": self.lengths,
            "keys": self._keys,
            "values": self._values,
            "seen": self._seen,
            "draws": np.array([_draw(c.seed, at) for c, at in zip(self._choices, behind, strict=True)], np.float32),
            "temperature": np.array([each.temperature for each in self._choices], np.float32),
            "top_k": np.array([each.top_k for each in self._choices], np.int32),
            "top_p": np.array([each.top_p for each in self._choices], np.float32),
            "repetition_penalty": np.array([each.repetition_penalty for each in self._choices], np.float32),
        }
        there = self._bound[entry].feeds
        return {f"{entry}.{name}": array for name, array in given.items() if f"{entry}.{name}" in there}


def _draw(seed: int, position: int) -> float:
    """Return the number in [0, 1) that draws the code at a position of a text."""
    out, work = np.empty(4, np.uint32), np.empty((WORK_ROWS, 1), np.uint64)
    fill_random_bits(out, work, seed=seed, stream=DRAW_STREAM, step=position)
    return int(out[0] >> 8) / (1 << 24)


def _bound(session: Session, entry: str, model: LanguageModel) -> BoundEntry:
    """Return an entry; raise DataError unless its feeds are those that the program's text describes."""
    bound = session.bindings(entry)[0]
    count = 1 if entry == "next" else model.chunk
    wanted = {
        f"{entry}.codes": TensorType("int32", (model.texts, count)),
        f"{entry}.keys": TensorType("float32", model.cache_shape),
        f"{entry}.values": TensorType("float32", model.cache_shape),
        f"{entry}.lengths": TensorType("int32", (model.texts,)),
    }
    for name, type in wanted.items():
        if name not in bound.feeds or bound.feeds[name].type != type:
            raise DataError(f"the entry {entry!r} does not have the feed {name} of {type}; import the model again")
    fetched = {fetch.name for fetch in bound.block.fetches}
    if not {"code", "keys", "values"} <= fetched:
        raise DataError(f"the entry {entry!r} does not fetch code, keys and values; import the model again")
    return bound
