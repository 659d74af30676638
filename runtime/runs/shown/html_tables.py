"""HTML tables of runs, states and results for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from runtime.conversion import handed_out
from runtime.dtypes import Array, array_type

if TYPE_CHECKING:
    from runtime.runs.run import Run

MAX_TABLE_ROWS: Final = 60
"""Upper bound on the rows of a table; further rows are counted."""

LOOKED_AT: Final = 1 << 24
"""Upper bound on the elements of an array whose range is shown, so that the display takes no noticeable time."""


def run_html(run: Run) -> str:
    """Return the position of a run, its entries, its settings and its states."""
    program = run.program
    entries = [
        (view.name, _listed(f"{n} {type}" for n, type in view.feeds.items()), _listed(view.fetches))
        for view in run.entries.values()
    ]
    about = f"<b>{escape(program.name)}</b>: step {run.position.steps}, program {run.sha256[:12]}"
    settings = [(name, f"{value:g}") for name, value in run.settings.items()]
    return "".join(
        [
            f"<p>{about}</p>",
            table(("entry", "feeds", "fetches"), entries),
            table(("setting", "value"), settings) if settings else "",
            run.state._repr_html_(),  # pyright: ignore[reportPrivateUsage]: the name that notebooks ask for
        ]
    )


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in HTML whose cells are escaped."""
    more = [f"and {len(rows) - MAX_TABLE_ROWS} more", *[""] * (len(head) - 1)] if len(rows) > MAX_TABLE_ROWS else None
    shown = [*rows[:MAX_TABLE_ROWS], *([more] if more else [])]
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in shown)
    return f"<table><thead><tr>{''.join(f'<th>{word}</th>' for word in head)}</tr></thead><tbody>{body}</tbody></table>"


def described(value: Any) -> tuple[str, str]:
    """Return the type of a number or an array, and its value or the range of its elements."""
    if isinstance(value, float | int):
        return type(value).__name__, f"{value:.6g}"
    array = np.asarray(value)
    return str(array_type(array)), _range(handed_out(array))


def _range(array: Array) -> str:
    if array.size == 0 or array.size > LOOKED_AT:
        return ""
    if array.size == 1:
        return f"{array.item():.6g}" if array.dtype != np.bool_ else str(array.item())
    if array.dtype == np.bool_:
        return f"{int(array.sum())} of {array.size} are true"
    return f"{array.min():.4g} … {array.max():.4g}"


def _listed(words: Any) -> str:
    return ", ".join(words) or "-"
