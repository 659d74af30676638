"""Strings of a file: a program has their codes, which are positions in a list of all strings of the file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from compiler.errors import CompileError
from prograd_proto.entry_views import STRINGS_KEY

OF_CODES: Final = {
    "ArrayFeatureExtractor", "CategoryMapper", "Compress", "Concat", "Equal", "Expand", "Flatten", "Gather",
    "GatherElements", "GatherND", "Identity", "LabelEncoder", "OneHotEncoder", "Reshape", "Shape", "Size", "Slice",
    "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze", "Where",
}  # fmt: skip
"""Operators that read strings, and for which codes do: they move strings or compare them."""

SHOWN: Final = 8
"""Number of strings that a note names."""


class Codes:
    """The strings of an import, in the order in which they were met."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}

    def of(self, array: Any) -> Any:
        """Return the codes of an array of strings, int64."""
        flat = [self._codes.setdefault(str(text), len(self._codes)) for text in array.reshape(-1)]
        return np.array(flat, np.int64).reshape(array.shape)

    def texts(self) -> dict[str, str]:
        """Return the text of a program that has the strings, as JSON; nothing if there are no strings."""
        return {STRINGS_KEY: json.dumps(self.all())} if self._codes else {}

    def all(self) -> tuple[str, ...]:
        """Return the strings by their codes."""
        return tuple(self._codes)


def require_strings(node: Any, dtypes: Mapping[str, str], is_known: Sequence[bool]) -> None:
    """Raise CompileError for a node that does more with strings than to move them or compare them with known ones.

    `is_known` is True for the operands that are constants.
    """
    if node.op_type == "Equal" and dtypes.get(node.input[0]) == "string" and not any(is_known):
        raise CompileError("compares strings that are both data, and all that the file does not have are one code, -1")
    if node.op_type in OF_CODES:
        return
    reads = any(dtypes.get(name) == "string" for name in node.input)
    makes = any(dtypes.get(name) == "string" for name in node.output)
    if node.op_type in ("Cast", "CastLike") and reads and makes:
        return
    if reads or (makes and node.domain != "ai.onnx.ml"):
        raise CompileError("computes strings, and a program has their codes alone, which it moves and compares")


def told(strings: Sequence[str], names: Sequence[str]) -> str:
    """Return the note about codes; `names` has the inputs and results that have them."""
    shown = ", ".join(f"{code} is {text!r}" for code, text in enumerate(strings[:SHOWN]))
    more = f", and so on up to {len(strings) - 1}" if len(strings) > SHOWN else ""
    where = ", ".join(map(repr, names)) or "constants"
    return (
        f"strings are codes, which are positions in program.strings_of_model: {shown}{more}; -1 is any other string; "
        f"{where} {'has' if len(names) < 2 else 'have'} them"
    )
