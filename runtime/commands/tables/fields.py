"""The columns of a table of predictions: ids, values of labels, and the elements of fetches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from runtime.dtypes import Array
from runtime.errors import UsageError
from runtime.runs.raw.answers import Answer, values_by_name

MAX_FIELDS: Final = 10_000
"""Upper bound on the columns of a table of predictions."""


class Field(NamedTuple):
    """A column: its name, in parts where JSON nests objects, and its values: texts, or numbers of any dtype."""

    path: tuple[str, ...]
    values: Array


def fields_of(ids: Field, answers: Sequence[Answer], arrays: Mapping[str, Array]) -> list[Field]:
    """Return all columns: the ids, the predicted values of each label, then the elements of each fetch.

    Raises UsageError for two columns of one name, or too many.
    """
    found = [ids, *(Field((name,), values) for name, values in values_by_name(answers, arrays).items())]
    for answer in answers:
        found.extend(_elements(answer, arrays[answer.fetch]))
        if len(found) > MAX_FIELDS:
            raise UsageError(f"--out: the predictions have more than {MAX_FIELDS} columns; name fewer by --fetch")
    names = [".".join(field.path) for field in found]
    for name in names:
        if names.count(name) > 1:
            how = "name another column by --id" if name == names[0] else "give one of them another name"
            raise UsageError(f"--out: there would be two columns {name!r}; {how}")
    return found


def _elements(answer: Answer, array: Array) -> Iterator[Field]:
    """Yield the elements of a fetch: one for each class, or by index; nothing if it has only values of the label."""
    shares = answer.shares(array)
    if shares is not None and answer.column is not None:
        for at, value in enumerate(answer.column.values):
            yield Field((answer.fetch, value), shares[:, at])
    elif answer.is_array:
        flat = array.reshape(len(array), -1)
        inner = array.shape[1:]
        for at in range(min(flat.shape[1], MAX_FIELDS + 1)):
            index = [str(i) for i in np.unravel_index(at, inner)] if inner not in ((), (1,)) else []
            yield Field((answer.fetch, *index), flat[:, at])
