"""The sinks that a command asks for, as one."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from typing import Any

from runtime.runs.events import Event
from runtime.runs.run import Run
from runtime.sinks.logger import about
from runtime.sinks.sink import Sink


def sinks_of(options: argparse.Namespace) -> list[Sink]:
    """Return the sinks for --tensorboard, --mlflow and --wandb; raise UsageError if a package is missing."""
    found: list[Sink] = []
    if options.tensorboard is not None:
        from runtime.sinks.tensorboard import TensorBoardFolder  # few commands need it

        found.append(TensorBoardFolder(options.tensorboard))
    if options.mlflow is not None:
        from runtime.sinks.mlflow import MlflowSink

        found.append(MlflowSink(options.mlflow))
    if options.wandb is not None:
        from runtime.sinks.wandb import WandbSink

        found.append(WandbSink(options.wandb))
    return found


class OpenSinks:
    """Sinks that were opened for a run; used as a context, it closes them."""

    def __init__(self, sinks: list[Sink], run: Run, entry: str, *, force: bool) -> None:
        """Open the sinks."""
        self._sinks: list[Sink] = []
        try:
            for sink in sinks:
                sink.open(about(run, entry), run.position.steps, force=force)
                self._sinks.append(sink)
        except BaseException:
            self.__exit__(BaseException)
            raise

    def __enter__(self) -> OpenSinks:
        return self

    def __exit__(self, kind: object, *rest: object) -> None:
        for sink in self._sinks:
            sink.close(failed=kind is not None)

    def write(self, event: Event, more: Iterable[Mapping[str, Any]]) -> None:
        """Pass an event on."""
        values = list(more)
        for sink in self._sinks:
            sink.write(event, values)
