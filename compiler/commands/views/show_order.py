"""The view `compiler show --order`: when every forward op, its gradients, its derivatives and its updates run."""

from __future__ import annotations

from collections.abc import Iterable

from compiler.aligned_text import columns
from compiler.analyses.execution_orders import execution_orders, unlisted
from compiler.commands.ops_in_words import line_of, op_in_words
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalysis

HEAD = ("op", "forward", "gradient", "derivative", "update", "line")


def order_text(title: str, program: pb.ProgramDesc, block: BlockAnalysis) -> str:
    """Return the view as text; positions are counted from 1."""
    orders = execution_orders(program, block)
    rows = [
        [
            op_in_words(order.op),
            *map(positions, ([order.forward], order.gradient, order.derivative, order.update)),
            line_of(program, order.op),
        ]
        for order in orders
    ]
    rest = positions(unlisted(block, orders))
    lines = [
        f"{title}: {len(block.ops)} ops, by their positions",
        *(f"  {line}" for line in columns(HEAD, rows)),
        *([f"  of no forward op: {rest}"] if rest else []),
    ]
    return "\n".join(lines) + "\n"


def positions(numbers: Iterable[int]) -> str:
    """Return positions, counted from 1, as in `3, 7-9`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(f"{a + 1}" if a == b else f"{a + 1}-{b + 1}" for a, b in runs)
