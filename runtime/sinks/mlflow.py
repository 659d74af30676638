"""`--mlflow URI`: the reports of a run as one run of MLflow, in an experiment with the name of the program.

The URI names a server or a database, as in `http://localhost:5000` or `sqlite:///mlflow.db`. A run that resumes makes
another run of MLflow, whose steps go on.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from time import time
from typing import Any, Final

from prograd_proto.printable import printable
from runtime.errors import UsageError
from runtime.extras import extra
from runtime.runs.events import Event, StepEnd
from runtime.sinks.sink import About, Guard, finite, first_line, tagged

MAX_METRICS: Final = 500
"""Number of metrics that are sent together; a server takes at most 1000."""


class MlflowSink:
    """One run of MLflow; raises UsageError if the package is missing."""

    def __init__(self, uri: str, experiment: str | None = None) -> None:
        """Prepare for a server or database; the default experiment has the name of the program."""
        if "://" not in uri or not uri.isprintable():
            raise UsageError(
                f"{printable(uri)!r} is no address of MLflow, as http://localhost:5000 or sqlite:///mlflow.db is"
            )
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")  # its own default waits for minutes
        self._mlflow = extra("mlflow", "mlflow", "--mlflow")
        for name in ("mlflow", "alembic"):  # they report the tables that they make
            logging.getLogger(name).setLevel(logging.WARNING)
        self._entities = extra("mlflow.entities", "mlflow", "--mlflow")
        self._uri = uri
        self._experiment = experiment
        self._client: Any = None
        self._run = ""
        self._waiting: list[Any] = []
        self._guard = Guard(f"MLflow at {uri}")

    def open(self, about: About, done: int, *, force: bool) -> None:
        """Begin a run; raise UsageError if there is no answer, or none that helps."""
        name = self._experiment or about.name
        try:
            self._client = client = self._mlflow.MlflowClient(self._uri)
            found = client.get_experiment_by_name(name)
            number = client.create_experiment(name) if found is None else found.experiment_id
            tags = {"prograd.resumed_at": str(done)} if done else {}
            self._run = client.create_run(number, tags=tags, run_name=about.name).info.run_id
            params = [self._entities.Param(key, str(value)) for key, value in about.facts.items()]
            client.log_batch(self._run, params=params)
        except Exception as error:
            raise UsageError(f"MLflow at {self._uri} takes no run: {first_line(error)}") from None

    def write(self, event: Event, more: Iterable[Mapping[str, Any]]) -> None:
        """Take an event; metrics of steps are sent together, at the latest with the end of their epoch."""
        now = int(time() * 1000)
        for name, value in finite(tagged(event)).items():
            self._waiting.append(self._entities.Metric(name, value, now, event.step))
        if len(self._waiting) >= MAX_METRICS or not isinstance(event, StepEnd):
            self._send()

    def close(self, *, failed: bool = False) -> None:
        """Send what waits, and end the run."""
        self._send()
        if self._run and not self._guard.has_failed:
            try:
                self._client.set_terminated(self._run, status="FAILED" if failed else "FINISHED")
            except Exception as error:
                self._guard.failed(error)
        self._run = ""

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, []
        if not waiting or self._guard.has_failed:
            return
        try:
            for start in range(0, len(waiting), MAX_METRICS):
                self._client.log_batch(self._run, metrics=waiting[start : start + MAX_METRICS])
        except Exception as error:
            self._guard.failed(error)
