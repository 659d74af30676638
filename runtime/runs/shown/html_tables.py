"""HTML tables of runs, states and results for notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final

import numpy as np

from prograd_proto.entry_views import Entries
from runtime.conversion import handed_out
from runtime.dtypes import Array, array_type
from runtime.runs.session import Session

MAX_TABLE_ROWS: Final = 60
"""Upper bound on the rows of a table; further rows are counted."""

LOOKED_AT: Final = 1 << 24
"""Upper bound on the elements of an array whose range is shown, so that the display takes no noticeable time."""


def run_html(session: Session, steps: int, settings: Mapping[str, float], states: str) -> str:
    """Return the position of a run, its entries, its settings and its states, which are HTML already."""
    entries = [
        (view.name, _listed(f"{n} {type}" for n, type in view.feeds.items()), _listed(view.fetches))
        for view in Entries(session.program).values()
    ]
    about = f"<b>{escape(session.program.name)}</b>: step {steps}, program {session.sha256[:12]}"
    numbers = [(name, f"{value:g}") for name, value in settings.items()]
    return "".join(
        [
            f"<p>{about}</p>",
            table(("entry", "feeds", "fetches"), entries),
            table(("setting", "value"), numbers) if numbers else "",
            states,
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
