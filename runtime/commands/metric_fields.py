"""What metrics are called in the result line, which also says what the runtime itself knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prograd_proto.printable import field_name

if TYPE_CHECKING:
    from runtime.runs.metrics import Metrics  # brings NumPy

_OWN: Final = frozenset(
    "entry steps wall arena spill state rss engine math state_sha256".split()  # noqa: SIM905 - words, one after another
)
"""Fields of the result line that say what the runtime knows, not what a program computes."""


def metric_fields(metrics: Metrics) -> list[tuple[str, object]]:
    """The fields of metrics, which a program may name as it likes: never as one of the line's own."""
    return [(f"metric.{name}" if field_name(name) in _OWN else name, value) for name, value in metrics.items()]
