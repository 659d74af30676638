"""`--wandb PROJECT`: the reports of a run as one run of Weights & Biases.

The package reads its own variables: `WANDB_API_KEY`, `WANDB_ENTITY`, and `WANDB_MODE=offline` for a folder that
`wandb sync` sends later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from prograd_proto.printable import printable
from runtime.errors import UsageError
from runtime.extras import extra
from runtime.runs.events import Event
from runtime.sinks.sink import About, Guard, finite, first_line, tagged

MAX_NAME: Final = 128
"""Upper bound on the characters of a project's name."""


class WandbSink:
    """One run of Weights & Biases; raises UsageError if the package is missing."""

    def __init__(self, project: str, **options: Any) -> None:
        """Prepare for a project; `options` are further ones of `wandb.init`, such as `name` and `mode`."""
        if not project or len(project) > MAX_NAME or set(project) & set("/\\#?%:") or not project.isprintable():
            raise UsageError(
                f"{printable(project[:MAX_NAME])!r} is no name of a project of Weights & Biases: "
                f"it has 1 to {MAX_NAME} characters, and none of / \\ # ? % :"
            )
        self._wandb = extra("wandb", "wandb", "--wandb")
        self._project = project
        self._options = options
        self._run: Any = None
        self._guard = Guard(f"the project {project} of Weights & Biases")

    def open(self, about: About, done: int, *, force: bool) -> None:
        """Begin a run; raise UsageError if that is impossible, as without a key."""
        options = {"name": about.name, "config": {**about.facts, **({"resumed_at": done} if done else {})}}
        try:
            quiet = self._wandb.Settings(silent=True, console="off")
            self._run = self._wandb.init(project=self._project, settings=quiet, **(options | self._options))
        except Exception as error:
            raise UsageError(
                f"the project {self._project} of Weights & Biases takes no run: {first_line(error)}"
            ) from None

    def write(self, event: Event, more: Iterable[Mapping[str, Any]]) -> None:
        """Take the metrics of an event."""
        metrics = finite(tagged(event))
        if metrics and not self._guard.has_failed:
            try:
                self._run.log(metrics, step=event.step)
            except Exception as error:
                self._guard.failed(error)

    def close(self, *, failed: bool = False) -> None:
        """End the run."""
        run, self._run = self._run, None
        if run is not None:
            try:
                run.finish(exit_code=int(failed))
            except Exception as error:
                self._guard.failed(error)
