"""The meaning of the fetches of a prediction: classes with probabilities, or numbers in the units of a column.

1. A label is a column that the training entry reads and the predicting entry does not.
2. A fetch with a float for each class of one label has its probabilities, or scores.
3. A fetch of an argmax has numbers of classes, if there is one label of classes.
4. A fetch of a sigmoid with one float has the probability of the second of two classes, if there is one such label.
5. Another fetch with one float has numbers of the label of its own name, or of the only label.
6. A fetch whose column the caller names may have several numbers of it, such as its quantiles.
7. A fetch with a float for each member of a label that joins columns of numbers has numbers of these.
8. All other fetches are arrays without a column.

Predicted values have the name of their column. If several fetches have numbers of one column, such as its quantiles,
the values of each have the name of the fetch.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Final, NamedTuple

import numpy as np

from prograd_proto import program_pb2 as pb
from prograd_proto import type_of
from prograd_proto.wording import as_asked
from runtime.dtypes import Array
from runtime.entries import BoundEntry, find_entry
from runtime.errors import UsageError
from runtime.rows.encoding.column import Column
from runtime.rows.encoding.encoding import Encoding
from runtime.rows.encoding.scores import value_of_largest, value_of_second

MAX_QUANTILES: Final = 9
"""Largest number of floats of a row that may be quantiles of a label; more are features."""

_VIEWS: Final = frozenset({"reshape", "squeeze", "cast", "index", "slice", "flatten", "copy"})
"""Operators between a sigmoid or an argmax and the fetch that leave its meaning."""


_log = logging.getLogger("prograd")


class Answer(NamedTuple):
    """A fetch and the column whose values it predicts.

    Attributes:
        fetch: name of the fetch.
        column: the column; None where there is none, or several.
        is_second: True for the probability of the second of two classes.
        members: columns of numbers, one for each element of a row.
        by_fetch: True if the values have the name of the fetch, because other fetches predict the same columns.
    """

    fetch: str
    column: Column | None
    is_second: bool = False
    members: tuple[Column, ...] = ()
    by_fetch: bool = False

    @property
    def is_array(self) -> bool:
        """True for a fetch without a column, whose elements are given as they are."""
        return self.column is None and not self.members

    @property
    def is_scaled(self) -> bool:
        """True for a fetch with numbers of a column that are not in its units."""
        return self.column is not None and self.column.kind == "number" and self.column.changes_numbers

    def named(self, array: Array) -> dict[str, Array]:
        """Return the predicted values by name, for an array of this fetch."""
        if self.members:
            return {
                f"{self.fetch}.{column.name}" if self.by_fetch else column.name: column.decode(array[:, at])
                for at, column in enumerate(self.members)
            }
        if self.column is None:
            return {}
        return {self.fetch if self.by_fetch else self.column.name: self.values(array)}

    def values(self, array: Array) -> Array:
        """Return the values of the column that an array of this fetch predicts: texts of classes, or numbers.

        A row with NaN has None as its class, and NaN as its number.
        """
        assert self.column is not None, "asked for answers with a column"
        if self.column.kind != "class":
            return self.column.decode(array.reshape(len(array)))
        if self.is_second:
            return value_of_second(self.column, array.reshape(len(array)))
        if array.dtype.kind == "f":
            return value_of_largest(self.column, array)
        return self.column.decode(array.reshape(len(array)))

    def shares(self, array: Array) -> Array | None:
        """Return the float of each class, [rows, classes]; None if the fetch has none."""
        if self.column is None or self.column.kind != "class" or array.dtype.kind != "f":
            return None
        if self.is_second:
            second = array.reshape(len(array), 1)
            return np.concatenate([1 - second, second], axis=1)
        return array


def values_by_name(answers: Sequence[Answer], arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return all predicted values by name; of several fetches with classes of one label, the first tells them.

    Raises UsageError if the elements of a fetch would have the name of predicted values.
    """
    found: dict[str, Array] = {}
    for answer in answers:
        named = answer.named(arrays[answer.fetch]) if answer.fetch in arrays else {}
        found |= {name: values for name, values in named.items() if name not in found}
    _leave_out_unknown(found, answers, arrays)
    for answer in answers:
        if answer.fetch in found and answer.fetch in arrays and _has_elements(answer, arrays[answer.fetch]):
            raise UsageError(
                f"the output {answer.fetch!r} has the name of the label whose values are predicted; give the output "
                "another name, as in program.outputs(probabilities=…)"
            )
    return found


def _leave_out_unknown(found: dict[str, Array], answers: Sequence[Answer], arrays: Mapping[str, Array]) -> None:
    """Replace classes by None where another fetch has scores of the same label that are NaN, as beside an argmax."""
    for answer in answers:
        column, scores = answer.column, arrays.get(answer.fetch)
        if column is None or column.kind != "class" or column.name not in found or scores is None:
            continue
        if scores.dtype.kind == "f":
            unknown = np.isnan(scores.reshape(len(scores), -1)).any(axis=1) if scores.size else np.zeros(0, bool)
            if np.any(unknown):
                values = found[column.name].astype(object)
                values[unknown] = None
                found[column.name] = values


def _has_elements(answer: Answer, array: Array) -> bool:
    """Return True if the elements of a fetch are given beside the values that it predicts."""
    return answer.is_array or answer.shares(array) is not None


def answers_of(
    program: pb.ProgramDesc,
    bound: BoundEntry,
    encoding: Encoding,
    decode: Mapping[str, str] | None = None,
    *,
    is_quiet: bool = False,
) -> list[Answer]:
    """Return the answers of an entry's fetches that have rows, in their order.

    `decode` names the columns of some fetches. A warning names a fetch that may predict a scaled column, unless
    `is_quiet`. Raises UsageError for a column that a fetch cannot predict.
    """
    names = _label_names(program, bound)
    labels = [encoding.column(name) for name in names if encoding.knows(name)]
    joined = [encoding.members(name) for name in names if encoding.joins(name)]
    source = program.blocks[find_entry(program, bound.name).source_block]
    types = {tensor.name: type_of(tensor) for tensor in source.tensors}
    found: list[Answer] = []
    for fetch in bound.block.fetches:
        if fetch.name not in bound.row_names:
            continue
        tensor = next((one.tensor for one in source.fetches if one.name == fetch.name), fetch.tensor)
        type = bound.types[fetch.tensor]
        shape, is_float = tuple(type.static_shape[1:]), types.get(tensor, type).dtype.startswith(("float", "bfloat"))
        if decode and fetch.name in decode:
            column = encoding.column(decode[fetch.name])
            found.append(_asked(fetch.name, column, shape, is_float=is_float))
            continue
        others = [label for label in labels if label.name == fetch.name or label.name not in bound.row_names]
        answer = _found(fetch.name, labels, others, shape, _maker(source, tensor), is_float=is_float)
        if answer.is_array and is_float:
            answer = _joined(fetch.name, joined, shape)
            if not is_quiet:
                _warn_if_scaled(answer, labels, shape)
        found.append(answer)
    return _told_apart(found)


def _joined(name: str, joined: list[list[Column]], shape: tuple[int, ...]) -> Answer:
    """Return the answer of a fetch with floats: the members of the only joined label, if these are numbers."""
    members = joined[0] if len(joined) == 1 and shape == (len(joined[0]),) else []
    is_numbers = all(column.kind == "number" and not column.is_vector for column in members)
    return Answer(name, None, members=tuple(members) if is_numbers else ())


def _told_apart(answers: list[Answer]) -> list[Answer]:
    """Return the answers, where those with numbers of one column have the names of their fetches."""

    def columns(answer: Answer) -> list[str]:
        is_number = answer.column is not None and answer.column.kind != "class"
        return [column.name for column in (*answer.members, *([answer.column] if is_number and answer.column else []))]

    counts = Counter(name for answer in answers for name in columns(answer))
    return [
        answer._replace(by_fetch=answer.by_fetch or any(counts[name] > 1 for name in columns(answer)))
        for answer in answers
    ]


def _warn_if_scaled(answer: Answer, labels: list[Column], shape: tuple[int, ...]) -> None:
    """Warn of a fetch with few floats that may predict a scaled label, and is given as it is."""
    scaled = [label.name for label in labels if label.kind == "number" and label.changes_numbers]
    if scaled and answer.is_array and len(shape) < 2 and prod(shape) <= MAX_QUANTILES:
        python = f"take prograd.data.decode(found[{answer.fetch!r}], {scaled[0]!r}, file)"
        _log.warning(
            "the output %r may predict %s, and is given as the program computes it, not in units of the column; "
            "give it the name of the column, or %s",
            answer.fetch,
            " or ".join(scaled),
            as_asked(f"ask for --decode {answer.fetch}={scaled[0]}", python),
        )


def _found(
    name: str, labels: list[Column], others: list[Column], shape: tuple[int, ...], made: str, *, is_float: bool
) -> Answer:
    """Return the answer of a fetch; `others` are the labels that no other fetch has the name of."""
    classes = [label for label in labels if label.kind == "class"]
    numbers = [label for label in labels if label.kind == "number" and not label.is_vector]
    if is_float and len(shape) == 1 and shape[0] > 1:
        meant = [label for label in classes if len(label.values) == shape[0]]
        return Answer(name, meant[0] if len(meant) == 1 else None)
    if shape not in ((), (1,)):
        return Answer(name, None)
    if not is_float:
        return Answer(name, classes[0] if made == "argmax" and len(classes) == 1 else None)
    if made == "sigmoid":
        binary = len(labels) == 1 and len(classes) == 1 and len(classes[0].values) == 2
        return Answer(name, classes[0] if binary else None, is_second=binary)
    meant = [label for label in numbers if label in others and (label.name == name or len(labels) == 1)]
    return Answer(name, meant[0] if meant else None)


def _asked(name: str, column: Column, shape: tuple[int, ...], *, is_float: bool) -> Answer:
    """Return the answer of a fetch whose column the caller names."""
    one = shape in ((), (1,))
    if column.kind == "class":
        fits = one if not is_float else shape == (len(column.values),) or (one and len(column.values) == 2)
        if fits:
            return Answer(name, column, is_second=is_float and one)
        raise UsageError(
            f"--decode {name}={column.name}: a row of {name!r} has the shape {list(shape)}; the {len(column.values)} "
            f"values of {column.name!r} take a whole number, or a float for each"
        )
    if column.is_vector or len(shape) > 1:
        raise UsageError(
            f"--decode {name}={column.name}: a table of predictions has classes and numbers, and a row of {name!r} has "
            f"the shape {list(shape)}"
        )
    if one:
        return Answer(name, column)
    return Answer(name, None, members=tuple(replace(column, name=str(at)) for at in range(prod(shape))), by_fetch=True)


def _label_names(program: pb.ProgramDesc, bound: BoundEntry) -> list[str]:
    """Return the keys of the data that only the training entry reads."""
    keys = {column.feed: column.key for column in program.data.columns}
    trained = program.run.entry or "train"
    entry = next((entry for entry in program.entries if entry.name == trained), None)
    if entry is None:
        return []
    fed = [p.feed for p in program.blocks[entry.source_block].parameters if p.WhichOneof("source") == "feed"]
    read = {keys.get(feed, feed) for feed in bound.feeds}
    return [keys[feed] for feed in fed if feed in keys and keys[feed] not in read]


def _maker(block: pb.BlockDesc, tensor: str) -> str:
    """Return the type of the op that makes a tensor, behind those that only move its elements."""
    makers = {output: op for op in block.ops for output in op.outputs}
    for _ in block.ops:
        op = makers.get(tensor)
        if op is None:
            return ""
        if op.type not in _VIEWS or not op.inputs:
            return op.type
        tensor = op.inputs[0]
    return ""
