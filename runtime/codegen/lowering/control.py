"""Blocks inside ops of control flow: which tensors come from outside, and where their results go.

1. An argument is read where the op's operand is: a whole tensor, or one row of it.
2. A result that a group of the block writes has no memory in the block. It is written where it is needed: in a row of
   the op's output, in the output itself, or in a buffer beside it from which the next iteration reads the carry.
3. Other results are copied when the block ends: an argument, a constant, or a tensor that is two results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from prograd_proto import attributes_of
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks.control import COND, WHILE, Layout, layout_of
from runtime.codegen.lowering.in_place import may_overwrite, overwrites_argument
from runtime.codegen.lowering.lowered_block import LoweredBlock


class BodyResults(NamedTuple):
    """The results of a block inside an op.

    Attributes:
        roots: for each result, the tensor whose memory it has.
        direct: by root, the number of the result in whose place it is written.
        carries: number of results that are carries; they come first.
    """

    roots: Sequence[str]
    direct: Mapping[str, int]
    carries: int

    def is_direct(self, number: int) -> bool:
        """Return True if the block writes this result where it is needed."""
        return self.direct.get(self.roots[number]) == number

    def row_of(self, carry: int) -> int | None:
        """Return the result that is a row and the same tensor as a carry, if it is written in that row."""
        found = self.direct.get(self.roots[carry])
        return None if found is None or found < self.carries else found


def operand_layout(op: pb.OpDesc) -> Layout:
    """Return the positions of the operands of an op of control flow."""
    return layout_of(op.type, attributes_of(op))


def results_of(block: LoweredBlock) -> BodyResults:
    """Return where the results of a block go; the condition of a `while_loop` has a result in its own memory."""
    assert block.owner is not None, "the block of a step has no results"
    owner, nodes = block.owner, block.nodes
    roots = [nodes.root[name] for name in block.desc.results]
    if owner.type == WHILE and block.part == 0:
        return BodyResults(roots, {}, 0)
    _, carries, _ = operand_layout(owner)
    columns = zip(block.stored, block.steps, strict=True)
    written = {name for names, steps in columns if not steps.is_prepacked for name in names}
    direct: dict[str, int] = {}
    for number in (*range(carries, len(roots)), *range(carries)):  # a row first: the next iteration reads it there
        if roots[number] in written:
            direct.setdefault(roots[number], number)
    return BodyResults(roots, direct, carries)


def spare_carries(body: LoweredBlock) -> list[int]:
    """Return the carries that need a buffer beside the output: one is read while the other is written."""
    results, in_place = results_of(body), carries_in_place(body)
    return [j for j in range(results.carries) if results.row_of(j) is None and j not in in_place]


def carries_in_place(body: LoweredBlock) -> set[int]:
    """Return the carries whose next value is written over the present one, in the output.

    Such a value is the result of a custom kernel that changes rows of the carry, or of a group that reads only the
    element that it overwrites, after all other groups have read the carry.
    """
    results, nodes, phases = results_of(body), body.nodes, body.phases
    maker = {name: i for i, names in enumerate(body.stored) for name in names}
    argument = {p.argument: p.tensor for p in body.desc.parameters}
    found: set[int] = set()
    for j in range(results.carries):
        if not results.is_direct(j) or j not in argument or argument[j] in results.roots:
            continue
        i = maker[results.roots[j]]
        others = [k for k, group in enumerate(body.groups) if k != i and argument[j] in group.reads]
        is_last = all(phases.last[k] < phases.first[i] for k in others)
        group, old = body.groups[i], argument[j]
        is_overwritten = not group.is_host and may_overwrite(old, i if old in group.reads else -1, i, group, nodes)
        if is_last and (is_overwritten or overwrites_argument(group, old, results.roots[j], nodes)):
            found.add(j)
    return found


def is_loop(op: pb.OpDesc) -> bool:
    """Return True if an op computes a block several times."""
    return op.type != COND


def shared_arguments(block: LoweredBlock) -> set[str]:
    """Return the arguments of a block that are equal in all iterations."""
    if block.owner is None or not is_loop(block.owner):
        return set()
    _, carries, rows = operand_layout(block.owner)
    return {parameter.tensor for parameter in block.desc.parameters if parameter.argument >= carries + rows}
