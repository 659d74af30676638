"""The encoding of a table's columns as nodes, so that a model takes raw rows: numbers, and texts of classes.

A column of numbers is an input float32 [rows, 1], in which NaN is a missing value; a column of classes is an input of
texts [rows, 1]. Nodes fill in missing values, take logarithms, scale to mean 0 and deviation 1, number classes by a
LabelEncoder of ai.onnx.ml, make one-hot numbers, and join columns.
"""

from __future__ import annotations

import logging
from typing import Any, Final

import numpy as np

from compiler.errors import CompileError
from compiler.exporters.onnx.graph import Graph
from prograd_proto import program_pb2 as pb
from prograd_proto.tensor_types import TensorType
from prograd_proto.wording import as_asked
from runtime.errors import DataError
from runtime.rows.encoding.column import Column
from runtime.rows.encoding.encoding import Encoding

_log = logging.getLogger("prograd")

ML: Final = "ai.onnx.ml"
STRING: Final = 8
"""Number of ONNX's element type for texts."""


class RawColumns:
    """The columns of a program's data as inputs of a model.

    Attributes:
        inputs: descriptions of the inputs that were made.
    """

    def __init__(self, graph: Graph, program: pb.ProgramDesc) -> None:
        encoding = Encoding.of_program(program)
        if encoding is None:
            raise CompileError("to_onnx: the program knows no encoding of columns; only packed tables bring one")
        self.graph, self.encoding = graph, encoding
        self.columns = encoding.columns
        self.joined = encoding.joined
        self.keys = {column.feed: column.key for column in program.data.columns}
        self.inputs: list[Any] = []
        self._made: dict[str, str] = {}

    def names(self, feed: str) -> list[str]:
        """Return the columns that a feed is made of; none if its array is no column of a table."""
        key = self.keys.get(feed, feed)
        return list(self.joined.get(key, [key] if key in self.columns else []))

    def feed(self, feed: str, type: TensorType) -> str:
        """Append the nodes that make a feed of its columns; return its name."""
        try:
            self.encoding.require_row(feed, self.keys.get(feed, feed), type)
        except DataError as error:
            raise CompileError(f"to_onnx: {error}") from None
        parts = [self._encoded(name, type.shape[0]) for name in self.names(feed)]
        whole = self.graph.add("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]
        dtype = "float32" if self.keys.get(feed, feed) in self.joined else self._dtype(self.names(feed)[0])
        whole = self._cast(whole, type.dtype) if dtype != type.dtype else whole
        return self.graph.reshaped(whole, type.shape)

    def _dtype(self, name: str) -> str:
        column = self.columns[name]
        return "int64" if column.kind == "class" and not column.one_hot else "float32"

    def _cast(self, name: str, dtype: str) -> str:
        from compiler.frontends.onnx.dtypes import DTYPES

        return self.graph.add("Cast", name, to=DTYPES[dtype])

    def _encoded(self, name: str, rows: int | str) -> str:
        column = self.columns[name]
        flags = column.kind == "number" and bool(column.values)
        if column.kind not in ("number", "class") or column.transform == "quantile" or column.listed or flags:
            what = "a boolean" if flags else "lists" if column.listed else column.transform or column.kind
            raise CompileError(
                f"to_onnx: the column {name!r} is encoded as {what}, which ONNX cannot say; "
                f"leave out {as_asked('--raw', 'raw=True')}"
            )
        if name not in self._made:
            is_class = column.kind == "class"
            helper = self.graph.model.onnx.helper
            self.inputs.append(helper.make_tensor_value_info(name, STRING if is_class else 1, [rows, 1]))
            self._made[name] = (self._class if is_class else self._number)(name, column)
        return self._made[name]

    def _number(self, name: str, column: Column) -> str:
        """Return a number, filled in, transformed and scaled as rows are packed, in float64."""
        graph, x = self.graph, self._cast(name, "float64")
        missing = self._cast(graph.add("IsNaN", x), "float32") if column.indicated else None
        if isinstance(column.fill, int | float):
            fill = graph.constant(float(column.fill), "float64")
            x = graph.add("Where", graph.add("IsNaN", x), fill, x)
        if column.transform == "log":
            x = graph.add("Log", graph.add("Add", x, graph.constant(1.0, "float64")))
        if column.mean is not None and column.deviation is not None:
            x = graph.add("Sub", x, graph.constant(column.mean, "float64"))
            x = graph.add("Div", x, graph.constant(column.deviation, "float64"))
        x = self._cast(x, "float32")
        return x if missing is None else graph.add("Concat", x, missing, axis=1)

    def _class(self, name: str, column: Column) -> str:
        """Return the number of a class, or its one-hot numbers.

        A class that the training rows lack becomes the class of missing values, and a warning says so. If there is no
        such class, its number lies outside of every table, so that the runtime of the model refuses it.
        """
        graph, values = self.graph, list(column.values)
        graph.model.domains[ML] = 2
        other = values.index(column.fill) if isinstance(column.fill, str) else len(values)
        number = graph.add(
            "LabelEncoder", name, domain=ML, keys_strings=values, values_int64s=list(range(len(values))),
            default_int64=other,
        )  # fmt: skip
        if other < len(values):
            _log.warning(
                "the model takes any %s that the training rows lack for %r, and does not say so; runs of prograd count "
                "such values in a warning", name, column.fill,
            )  # fmt: skip
        else:
            number = graph.add("Gather", graph.constant(np.arange(len(values)), "int64"), number)
        if not column.one_hot:
            return number
        return self._cast(graph.add("Equal", number, graph.constant(np.arange(len(values))[None])), "float32")
