"""The view `compiler show --lists`: what mixed precision does with each op of an entry, as three lists."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from compiler.aligned_text import columns
from prograd_proto.blocks import BlockAnalysis
from prograd_proto.text.words import name as in_words
from registry.control.control_op import CONTROL
from registry.op import find_op
from runtime.step.arithmetic import is_pointwise

LISTS: Final = {
    "lower": "bfloat16 operands, sums of float32",
    "follow": "computed in float32, read from bfloat16 or rounded to it",
    "keep": "float32",
}
"""The name of each list, with what mixed precision does to its ops."""

HEAD: Final = ("operator", "ops", "results")

MAX_NAMES: Final = 6
"""Upper bound on the names of results that a line shows."""


def mixed_text(title: str, block: BlockAnalysis) -> str:
    """Return the view as text: for each list its operators, with the number and the names of their results."""
    found: dict[str, dict[str, list[str]]] = {name: {} for name in LISTS}
    casts = {i for i in range(len(block.ops)) if is_cast_of_halves(block, i)}
    ends = {name for i in casts for name in (block.inputs[i][0], block.outputs[i][0])} - block.state_of.keys()
    for i, op in enumerate(block.ops):
        if i not in casts:
            found[list_of(block, i, ends)].setdefault(op.type, []).append(op.outputs[0] if op.outputs else "")
    lines = [f"{title}: {len(block.ops) - len(casts)} ops, and {len(casts)} casts between float32 and bfloat16"]
    for name, operators in found.items():
        count = sum(map(len, operators.values()))
        lines.append(f"{name}: {count} op{'s' * (count != 1)}, {LISTS[name]}")
        rows = [[type, str(len(names)), _shown(names)] for type, names in sorted(operators.items())]
        lines += [f"  {line}" for line in columns(HEAD, rows)] if rows else []
    return "\n".join(lines) + "\n"


def is_cast_of_halves(block: BlockAnalysis, i: int) -> bool:
    """Return True if an op is a cast between float32 and bfloat16."""
    op = block.ops[i]
    dtypes = {block.types[name].dtype for name in (*op.inputs, *op.outputs) if name}
    return op.type == "cast" and dtypes == {"float32", "bfloat16"}


def list_of(block: BlockAnalysis, i: int, ends: set[str]) -> str:
    """Return the list of an op, from the dtypes of its operands; `ends` are the tensors that casts read and write."""
    inputs, type = block.inputs[i], block.op_types[i]
    if type in CONTROL:
        return "keep"
    traits = find_op(type).traits
    if any(name and block.types[name].dtype == "bfloat16" for name in inputs):
        return "lower" if traits.lowered else "follow"
    follows = is_pointwise(type) or bool(traits.follows)
    return "follow" if follows and not ends.isdisjoint((*inputs, *block.outputs[i])) else "keep"


def _shown(names: Iterable[str]) -> str:
    shown = [in_words(name) for name in names if name]
    more = len(shown) - MAX_NAMES
    return ", ".join(shown[:MAX_NAMES]) + (f" and {more} more" if more > 0 else "")
