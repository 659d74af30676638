"""The time of every op and the memory in use, in the format that chrome://tracing and Perfetto read.

Each thread has a track with its ops, or with the groups of ops that the engine computes together. One track has the
steps, and a counter has the live bytes of the arena.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Final

from prograd_proto import program_pb2 as pb
from runtime.engines.engine import Executor
from runtime.engines.parts import TRANSFER_THREAD, Part, Spell
from runtime.files.output import write_output
from runtime.step import is_transfer

MAX_EVENTS: Final = 200_000
"""Upper bound on the events of a trace, which drops later ones: viewers become slow."""

Event = dict[str, object]

_STEPS: Final = 0  # the track of the steps; thread n has track n + 1
_LAST: Final = 1000  # the track of transfers, below all others


class TraceFile:
    """A recorder of executors' steps that writes them at the end."""

    def __init__(self, path: Path, locations: Sequence[str]) -> None:
        self._path = path
        self._locations = locations
        self._events: list[Event] = []
        self._threads: set[int] = set()
        self._steps = 0
        self._origin = perf_counter()

    def step(self, executor: Executor) -> None:
        """Make a step of the executor, and record it while the trace has room."""
        if len(self._events) >= MAX_EVENTS:
            executor.step()
            return
        begin = perf_counter()
        spells = executor.profile_step()
        self.note(executor, begin, spells, perf_counter())

    def note(self, executor: Executor, begin: float, spells: Sequence[Spell], end: float) -> None:
        """Add a step that ran from `begin` to `end` to the trace, while there is room."""
        if len(self._events) >= MAX_EVENTS:
            return
        self._steps += 1
        self._threads.update(spell.thread for spell in spells)
        self._events.append(self._complete(f"step {self._steps}", "step", begin, end, _STEPS, {}))
        for spell in spells:
            part = executor.parts[spell.part]
            op = part.ops[-1]
            line = self._locations[op.location - 1] if op.location else ""
            details: Event = {"id": op.id, "outputs": list(op.outputs), "line": line}
            self._events.append(
                self._complete(part.name, stage_of(part), spell.start, spell.stop, _track(spell.thread), details)
            )
        for at, nbytes in alive(executor, begin, spells, end):
            counter: Event = {"name": "arena", "ph": "C", "ts": self._microseconds(at), "pid": 1}
            self._events.append(counter | {"args": {"bytes": nbytes}})

    def write(self, *, force: bool) -> None:
        """Write the file; for errors see `write_output`."""
        from json import dumps

        tracks = {_STEPS: "steps"} | {_track(thread): thread_name(thread) for thread in sorted(self._threads)}
        names: list[Event] = [{"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "prograd"}}]
        for track, name in tracks.items():
            names.append({"name": "thread_name", "ph": "M", "pid": 1, "tid": track, "args": {"name": name}})
        text = dumps({"traceEvents": names + self._events, "displayTimeUnit": "ms"})
        write_output(self._path, text.encode(), force=force)

    def _complete(self, name: str, kind: str, start: float, stop: float, track: int, details: Event) -> Event:
        at = self._microseconds(start)
        long = round((stop - start) * 1e6, 3)
        return {"name": name, "cat": kind, "ph": "X", "ts": at, "dur": long, "pid": 1, "tid": track, "args": details}

    def _microseconds(self, at: float) -> float:
        return round((at - self._origin) * 1e6, 3)


def stage_of(part: Part) -> str:
    """Return the name of a part's stage; `recompute` if it runs again, `transfer` to the file and back."""
    op = part.ops[-1]
    if is_transfer(op.type):
        return "transfer"
    return "recompute" if op.recompute_of else pb.Stage.Name(op.stage).removeprefix("STAGE_").lower()


def thread_name(thread: int) -> str:
    """Return the name of the thread of a spell."""
    return "transfers" if thread == TRANSFER_THREAD else f"thread {thread}"


def _track(thread: int) -> int:
    return _LAST if thread == TRANSFER_THREAD else thread + 1


def alive(executor: Executor, begin: float, spells: Sequence[Spell], end: float) -> list[tuple[float, int]]:
    """Return the times at which the live bytes of the arena changed during a step, each with the new number.

    A buffer is alive from the start of the first part that touches it to the end of the last one, by the clock.
    """
    spent: list[list[Spell]] = [[] for _ in executor.parts]
    for spell in spells:
        spent[spell.part].append(spell)
    changes: dict[float, int] = {begin: 0, end: 0}
    for buffer in executor.buffers:
        used = [spell for part in buffer.parts for spell in spent[part]]
        first = begin if buffer.fed or not used else min(spell.start for spell in used)
        last = end if buffer.kept else max((spell.stop for spell in used), default=first)
        changes[first] = changes.get(first, 0) + buffer.nbytes
        changes[last] = changes.get(last, 0) - buffer.nbytes
    total = 0
    return [(at, total := total + changes[at]) for at in sorted(changes)]
