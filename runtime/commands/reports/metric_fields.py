"""Names of metrics in the result line, which has fields of the runtime too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prograd_proto.printable import field_name

if TYPE_CHECKING:
    from runtime.runs.metrics import Metrics  # brings NumPy
    from runtime.runs.run import Run

RUNTIME_FIELDS: Final = frozenset(
    "entry steps wall arena spill state rss engine instructions native threads state_sha256".split()  # noqa: SIM905 - a list of words
)
"""Names of the fields of the result line that belong to the runtime, not to the program's metrics."""


def metric_fields(metrics: Metrics) -> list[tuple[str, object]]:
    """Return the fields of metrics, renamed where a program's name equals a field of the line itself."""
    return [
        (f"metric.{name}" if field_name(name) in RUNTIME_FIELDS else name, value) for name, value in metrics.items()
    ]


def engine_fields(run: Run) -> list[tuple[str, object]]:
    """Return the engine, its instruction set if bits depend on that, and the reason if it is not the native one."""
    session = run.session
    engine = session.engine
    instructions = [("instructions", engine.instructions)] if engine.instructions else []
    reason = [("native", session.why_not_native)] if session.why_not_native else []
    return [("engine", engine.name), *instructions, *reason]
