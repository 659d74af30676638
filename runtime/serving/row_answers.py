"""The answer to rows as a table has them, or to images: an object for each row.

It has the predicted values by the label's name, and the elements of each fetch, by class where it has classes.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

from runtime.dtypes import Array
from runtime.rows.encoding.scores import Unanswered
from runtime.runs.raw.answers import Answer, values_by_name
from runtime.serving.forms import listed

_log = logging.getLogger("prograd")


class RawRequest(NamedTuple):
    """The feeds for the rows of a request; `is_one` is True if it was one row without a list."""

    feeds: dict[str, Array]
    is_one: bool


class RowAnswers:
    """The conversion of fetches to objects, one for each row.

    Attributes:
        unanswered: number of rows without a predicted value, because the program computed NaN for them.
    """

    def __init__(self, answers: Sequence[Answer]) -> None:
        self._answers = answers
        self.unanswered = 0
        self._counts = Unanswered()
        self._scaled = {a.fetch: a.column.name for a in answers if a.column is not None and a.is_scaled}

    def written(self, arrays: Mapping[str, Array], *, is_one: bool) -> bytes:
        """Return the body of the answer for the fetches of a request."""
        chosen = [answer for answer in self._answers if answer.fetch in arrays]
        count = len(arrays[chosen[0].fetch]) if chosen else 0
        values = values_by_name(chosen, arrays)
        self._count(values)
        members = {name: listed(array) for name, array in values.items()}
        for answer in chosen:
            said = _elements(answer, arrays[answer.fetch])
            if said is not None:
                members[answer.fetch] = said
        rows = [{name: values[row] for name, values in members.items()} for row in range(count)]
        return json.dumps(rows[0] if is_one else rows, allow_nan=False).encode()

    def say_scaled(self, asked: Sequence[str], decoded: Mapping[str, str]) -> None:
        """Warn once that encoded arrays are answered by numbers that are not in the units of their column."""
        name = next((name for name in asked if name in self._scaled and name not in decoded), None)
        if name is not None:
            _log.warning(
                "a request with encoded arrays got %r as the program computes it, not in units of %r; send rows of the "
                "table, or ask for --decode %s=%s",
                *(name, self._scaled[name], name, self._scaled[name]),
            )
            self._scaled = {}

    def _count(self, values: Mapping[str, Array]) -> None:
        """Count the rows without a predicted value; warn of the first."""
        before = self.unanswered
        self.unanswered += self._counts.add(values)
        if self.unanswered and not before:
            self._counts.warn()


def _elements(answer: Answer, array: Array) -> list[object] | None:
    shares = answer.shares(array)
    if shares is not None and answer.column is not None:
        return [dict(zip(answer.column.values, row, strict=True)) for row in cast(list[list[object]], listed(shares))]
    return listed(array) if answer.is_array else None
