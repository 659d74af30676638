"""Remedies for nodes that cannot be imported."""

from __future__ import annotations

import re
from typing import Final

NO_COUNTERPART: Final = (
    (r"Random.*|Bernoulli|Multinomial", "draw numbers in the program, by ops.uniform or ops.normal, or feed them"),
    (r"String.*|Tf-?Idf.*|Regex.*|ai\.onnx\.ml\.(LabelEncoder|CategoryMapper)", "compute it first, and feed numbers"),
    (r"ImageDecoder", "decode images before the model, and feed pixels"),
    (r"ai\.onnx\.ml\..*", "keep this part in ONNX Runtime, and feed its results"),
    (r"com\.microsoft.*", "export without the optimizer of ONNX Runtime, whose operator it is"),
    (r".*\..*", "put a function for it into the file, or export with operators of ONNX alone"),
    (r".*", "write it with other operators before the export; docs/from-onnx-operators.md lists them"),
)
"""Patterns of operators without a counterpart, and what to do."""

REASONS: Final = (
    (r"elements of (float|int|uint)\w+, which prograd has not", "export the model with float32 or int64"),
    (r"quantised to \w+", "quantise to 8 or 16 bits, or export floats"),
    (
        r"is the symbol '.*'; here it must be a number|; bind ",
        "give sizes by --input 'NAME=[SHAPE]', or --dim NAME=SIZE",
    ),
    (r"strings", "compute with strings before the model, and feed numbers"),
    (r"sequence|optional", "export tensors in place of sequences and optionals"),
    (r"do not fit the operator", "check the file by onnx.checker.check_model(model, full_check=True)"),
    (r"stay a loop|number of trips", "give the loop a known number of trips, or unroll it first"),
)
"""Patterns of other reasons, and what to do."""

TOLD: Final = r"--constant|--max-rows|--dim|export|give |convert"
"""Words that show that a reason states its own remedy."""


def remedy(operator: str, reason: str) -> str:
    """Return a remedy for an operator that cannot be imported, or "" if the reason states one."""
    if reason == "has no counterpart":
        return next(cure for pattern, cure in NO_COUNTERPART if re.fullmatch(pattern, operator))
    if re.search(TOLD, reason):
        return ""
    return next((cure for pattern, cure in REASONS if re.search(pattern, reason)), "")
