"""The meaning of the fetches of a prediction: classes with probabilities, or numbers in the units of a column.

1. A label is a column that the training entry reads and the predicting entry does not.
2. A fetch with a float for each class of one label has its probabilities, or scores.
3. A fetch of an argmax has numbers of classes, if there is one label of classes.
4. A fetch of a sigmoid with one float has the probability of the second of two classes, if there is one such label.
5. Another fetch with one float has numbers of the label, if there is one label of numbers.
6. All other fetches are arrays without a column.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from prograd_proto import program_pb2 as pb
from prograd_proto import type_of
from runtime.dtypes import Array
from runtime.entries import BoundEntry, find_entry
from runtime.errors import UsageError
from runtime.rows.encoding.column import Column
from runtime.rows.encoding.encoding import Encoding
from runtime.rows.encoding.scores import value_of_largest, value_of_second

_VIEWS: Final = frozenset({"reshape", "squeeze", "cast", "index", "slice", "flatten", "copy"})
"""Operators between a sigmoid or an argmax and the fetch that leave its meaning."""


class Answer(NamedTuple):
    """A fetch and the column whose values it predicts; `column` is None where there is none.

    `is_second` is True for the probability of the second of two classes.
    """

    fetch: str
    column: Column | None
    is_second: bool = False

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


def answers_of(
    program: pb.ProgramDesc, bound: BoundEntry, encoding: Encoding, decode: Mapping[str, str] | None = None
) -> list[Answer]:
    """Return the answers of an entry's fetches that have rows, in their order.

    `decode` names the columns of some fetches. Raises UsageError for a column that a fetch cannot predict.
    """
    labels = [encoding.column(name) for name in _label_names(program, bound) if encoding.knows(name)]
    source = program.blocks[find_entry(program, bound.name).source_block]
    types = {tensor.name: type_of(tensor) for tensor in source.tensors}
    found: list[Answer] = []
    for fetch in bound.block.fetches:
        if fetch.name not in bound.row_names:
            continue
        tensor = next((one.tensor for one in source.fetches if one.name == fetch.name), fetch.tensor)
        type = bound.types[fetch.tensor]
        shape, is_float = tuple(type.static_shape[1:]), types.get(tensor, type).dtype.startswith(("float", "bfloat"))
        made = _maker(source, tensor)
        if decode and fetch.name in decode:
            column = encoding.column(decode[fetch.name])
            found.append(_asked(fetch.name, column, shape, is_float=is_float))
        else:
            found.append(_found(fetch.name, labels, shape, made, is_float=is_float))
    return found


def _found(name: str, labels: list[Column], shape: tuple[int, ...], made: str, *, is_float: bool) -> Answer:
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
    return Answer(name, numbers[0] if len(labels) == len(numbers) == 1 else None)


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
    if column.is_vector or not one:
        raise UsageError(f"--decode {name}={column.name}: a table of predictions has classes and single numbers alone")
    return Answer(name, column)


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
