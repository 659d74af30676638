"""What metrics are called in the result line, which also says what the runtime itself knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prograd_proto.printable import field_name

if TYPE_CHECKING:
    from runtime.runs.metrics import Metrics  # brings NumPy
    from runtime.runs.run import Run

OWN: Final = frozenset(
    "entry steps wall arena spill state rss engine instructions native threads math state_sha256".split()  # noqa: SIM905 - words
)
"""Fields of the result line that say what the runtime knows, not what a program computes."""


def metric_fields(metrics: Metrics) -> list[tuple[str, object]]:
    """The fields of metrics, which a program may name as it likes: never as one of the line's own."""
    return [(f"metric.{name}" if field_name(name) in OWN else name, value) for name, value in metrics.items()]


def engine_fields(run: Run) -> list[tuple[str, object]]:
    """The engine; with which instructions it computes, if bits depend on that; and why it is not the native one."""
    session = run.session
    engine = session.engine
    instructions = [("instructions", engine.instructions)] if engine.instructions else []
    reason = [("native", session.why_not_native)] if session.why_not_native else []
    return [("engine", engine.name), *instructions, *reason]
