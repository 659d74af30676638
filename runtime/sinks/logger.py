"""Sinks as callbacks of a training from Python: `run.train(callbacks=[MlflowLogger("sqlite:///mlflow.db")])`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runtime.runs.events import Event
from runtime.runs.watching.callbacks import Callback
from runtime.sinks.sink import About, Sink

if TYPE_CHECKING:
    from runtime.runs.run import Run


class Logger(Callback):
    """A callback that passes all events to a sink; the states may be ahead of an event."""

    def __init__(self, sink: Sink, *, force: bool = False) -> None:
        self._sink = sink
        self._force = force

    def on_train_begin(self) -> None:
        """Begin."""
        self._sink.open(about(self.run), self.run.position.steps, force=self._force)

    def on_event(self, event: Event) -> None:
        """Pass an event on."""
        self._sink.write(event, [])

    def on_train_end(self) -> None:
        """End; a training that ends by an error is a failed run."""
        self._sink.close(failed=not isinstance(sys.exception(), GeneratorExit | None))


class MlflowLogger(Logger):
    """Write the metrics of a training to MLflow; needs the extra `mlflow`.

    Args:
        uri: a server or a database, as "http://localhost:5000" or "sqlite:///mlflow.db".
        experiment: name of the experiment; by default that of the program.
    """

    def __init__(self, uri: str, *, experiment: str | None = None) -> None:
        from runtime.sinks.mlflow import MlflowSink

        super().__init__(MlflowSink(uri, experiment))


class WandbLogger(Logger):
    """Write the metrics of a training to Weights & Biases; needs the extra `wandb`.

    Args:
        project: name of the project.
        options: further arguments of `wandb.init`, such as `name`, `tags` and `mode="offline"`.
    """

    def __init__(self, project: str, **options: Any) -> None:
        from runtime.sinks.wandb import WandbSink

        super().__init__(WandbSink(project, **options))


class TensorBoardLogger(Logger):
    """Write the metrics of a training as event files for TensorBoard; needs the extra `tensorboard`.

    Args:
        folder: folder of the files.
        force: remove the files of another run from the folder.
    """

    def __init__(self, folder: str | os.PathLike[str], *, force: bool = False) -> None:
        from runtime.sinks.tensorboard import TensorBoardFolder

        super().__init__(TensorBoardFolder(Path(folder)), force=force)


def about(run: Run, entry: str | None = None) -> About:
    """Return what sinks say about a run."""
    facts: dict[str, str | int | float] = {
        "program_sha256": run.sha256,
        "entry": entry or run.session.training_entry(),
        "seed": int(run.states.arrays["seed"]),
        "engine": run.session.engine.name,
        "total_steps": int(run.states.arrays["total_steps"]),
    }
    return About(run.program.name, facts | {f"setting.{name}": number for name, number in run.settings.items()})
