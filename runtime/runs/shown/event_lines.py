"""Lines about the events of a training, as parts that a narrow terminal shows below each other.

A part is a text whose non-breaking spaces join the words that stay on one line, such as a metric and its value.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import Final

from prograd_proto.printable import MAX_WORD_CHARACTERS, printable, sentence
from runtime.command_line.colours import painted
from runtime.command_line.results import seconds_in_words
from runtime.runs.events import CheckpointWritten, EpochEnd, EvaluationEnd, Event, StepEnd
from runtime.runs.metrics import Metrics

GLUE: Final = "\u00a0"  # no name has it: `printable` writes an escape
_BEST: Final = GLUE.join(("best", "so", "far"))
_BETWEEN: Final = "  |  "
_INDENT: Final = "  "


def parts_of(event: Event, total: int, seconds: float | None = None) -> list[str]:
    """Return the parts of an event's line in a run of `total` steps; `seconds` are those of an epoch."""
    where = f"epoch{GLUE}{event.epoch}  step{GLUE}{event.step}/{total}"
    match event:
        case EvaluationEnd():
            return [f"{where}  {evaluation(event)}"]
        case CheckpointWritten():
            return [f"{where}  checkpoint {printable(str(event.path))}"]
        case EpochEnd() | StepEnd():
            time = "" if seconds is None else f"  {seconds_in_words(seconds).replace(' ', GLUE)}"
            return [f"{where}{time}  {numbers(event.metrics)}"]


def evaluation(event: EvaluationEnd) -> str:
    """Return the part about an evaluation: its entry, split and metrics."""
    best = f"  {_BEST}" if event.is_best else ""
    entry, split = sentence(event.entry, MAX_WORD_CHARACTERS), sentence(event.split or "all rows", MAX_WORD_CHARACTERS)
    return f"{entry} on {split}: {numbers(event.metrics)}{best}"


def numbers(metrics: Metrics) -> str:
    """Return metrics with four digits each."""
    return " ".join(metric_words(metrics))


def metric_words(metrics: Metrics) -> Iterator[str]:
    """Yield each metric with its value, joined by a non-breaking space."""
    for name, value in metrics.items():
        yield f"{sentence(name, MAX_WORD_CHARACTERS)}{GLUE}{value:.4g}"


def one_line(parts: Sequence[str]) -> str:
    """Return the parts on one line, without colours."""
    return _BETWEEN.join(parts).replace(GLUE, " ")


def fitted_lines(parts: Sequence[str], width: int) -> str:
    """Return the parts on one line if a terminal of `width` columns has room, and else below each other.

    Lines are broken between words, so that no metric is cut; a word that is longer than a line is left to the terminal.
    """
    line = _BETWEEN.join(parts)
    lines = [line] if len(line) <= width else [row for i, part in enumerate(parts) for row in _wrapped(part, width, i)]
    return "\n".join(_coloured(row) for row in lines)


def _wrapped(part: str, width: int, number: int) -> list[str]:
    first = _INDENT if number else ""
    return wrap(
        part, width, initial_indent=first, subsequent_indent=_INDENT, break_long_words=False, break_on_hyphens=False
    )


def _coloured(line: str) -> str:
    head, _, rest = line.partition("  ")
    if head.startswith(f"epoch{GLUE}"):
        line = f"{painted(head, 'bold', sys.stderr)}  {rest}" if rest else painted(head, "bold", sys.stderr)
    return line.replace(_BEST, painted(_BEST, "green", sys.stderr)).replace(GLUE, " ")
