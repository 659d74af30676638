"""The time of every op, in the format that chrome://tracing and Perfetto read."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Final

from prograd_proto import program_pb2 as pb
from runtime.executor import Executor
from runtime.output import write_output

MAX_EVENTS: Final = 200_000
"""What comes later is not in the trace: viewers become slow."""


class TraceFile:
    """Notes the steps of executors, and writes them at the end."""

    def __init__(self, path: Path, locations: list[str]) -> None:
        self._path = path
        self._locations = locations
        self._events: list[dict[str, object]] = []
        self._start = perf_counter()

    def step(self, executor: Executor) -> None:
        """Make a step of the executor, and note it while there is room."""
        if len(self._events) >= MAX_EVENTS:
            executor.step()
            return
        at = (perf_counter() - self._start) * 1e6
        for op, seconds in executor.profile_step():
            self._events.append(self._event(op, at, seconds * 1e6))
            at += seconds * 1e6

    def write(self, *, force: bool) -> None:
        """Write the file; for errors see `write_output`."""
        from json import dumps

        text = dumps({"traceEvents": self._events, "displayTimeUnit": "ms"})
        write_output(self._path, text.encode(), force=force)

    def _event(self, op: pb.OpDesc, at: float, microseconds: float) -> dict[str, object]:
        stage = pb.Stage.Name(op.stage).removeprefix("STAGE_").lower()
        line = self._locations[op.location - 1] if op.location else ""
        arguments = {"id": op.id, "outputs": list(op.outputs), "line": line}
        return {
            "name": op.type,
            "cat": stage,
            "ph": "X",
            "ts": round(at, 3),
            "dur": round(microseconds, 3),
            "pid": 1,
            "tid": 1,
            "args": arguments,
        }
