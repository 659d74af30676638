"""Blocks inside ops of control flow: which tensors come from outside, and where their results go.

1. An argument is read where the op's operand is: a whole tensor, or one row of it.
2. A result that a group of the block writes has no memory in the block. It is written where it is needed: in a row of
   the op's output, in the output itself, or in a buffer beside it from which the next iteration reads the carry.
3. Other results are copied when the block ends: an argument, a constant, or a tensor that is two results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, cast

from prograd_proto import TensorType, attributes_of
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks.control import COND, SCAN, WHILE, Layout, layout_of
from runtime.codegen.costs import (
    MAX_COMBINED_LOOP_CYCLES,
    MAX_CYCLES_BETWEEN_SIGNALS,
    MIN_CHUNK_CYCLES,
    MIN_ITERATION_CYCLES,
)
from runtime.codegen.groups.nodes import Nodes
from runtime.codegen.lowering.in_place import may_overwrite, overwrites_argument, units_of
from runtime.codegen.lowering.lowered_block import LoweredBlock
from runtime.codegen.lowering.phases import NEGLIGIBLE_BYTES
from runtime.constants import constant_array
from runtime.placement.alignment import ALIGNMENT
from runtime.step import Uses, written_over

COUNTER: Final = TensorType("int64", ())

MIN_SHARED_ITERATIONS: Final = 4
"""Least iterations for each thread that shares a loop: with fewer, one thread waits long for another."""


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

    A custom kernel that changes rows of the carry computes such a value, or a group that reads only the element that it
    overwrites. All other groups have read the carry before.
    """
    results, nodes = results_of(body), body.nodes
    maker = {name: i for i, names in enumerate(body.stored) for name in names}
    argument = {p.argument: p.tensor for p in body.desc.parameters}
    carry_of: dict[str, int] = {}
    step_units = units_of(body)
    for j in range(results.carries):
        if not results.is_direct(j) or j not in argument:
            continue
        i, new, old = maker[results.roots[j]], results.roots[j], argument[j]
        group = body.groups[i]
        if (not group.is_host and may_overwrite(old, group, nodes)) or overwrites_argument(group, old, new, nodes):
            step_units[i] = step_units[i]._replace(over=[*step_units[i].over, (new, old)])
            carry_of[new] = j
    return {carry_of[new] for new in written_over(step_units, Uses(step_units, results.roots))}


def is_loop(op: pb.OpDesc) -> bool:
    """Return True if an op computes a block several times."""
    return op.type != COND


def shared_arguments(block: LoweredBlock) -> set[str]:
    """Return the arguments of a block that are equal in all iterations."""
    if block.owner is None or not is_loop(block.owner):
        return set()
    _, carries, rows = operand_layout(block.owner)
    return {parameter.tensor for parameter in block.desc.parameters if parameter.argument >= carries + rows}


def copies_of_block(block: LoweredBlock, op: pb.OpDesc) -> int:
    """Return the number of copies of the block of an op: one for each thread that shares its iterations, else one.

    Threads share iterations that depend on each other by a counter alone, if there are at least
    `MIN_SHARED_ITERATIONS` for each of them and the copies take little memory beside the rows. Longer iterations are
    shared group by group.
    """
    threads, body = block.threads, block.bodies[op.id][-1]
    if threads == 1 or op.type != SCAN or not _only_counts(op, body) or not _can_be_shared(body):
        return 1
    cycles, least = cycles_of(body), threads * MIN_SHARED_ITERATIONS
    length = iterations_of(op.type, attributes_of(op))
    is_fitting = length >= least and least * cycles <= MAX_CYCLES_BETWEEN_SIGNALS
    is_worth_it = length * cycles >= threads * MIN_CHUNK_CYCLES
    rows = sum(block.nodes.types[name].nbytes for name in (*op.inputs, *op.outputs) if name)
    is_small = (threads - 1) * body.memory.arena_bytes <= max(rows, NEGLIGIBLE_BYTES)
    return threads if is_fitting and is_worth_it and is_small else 1


def iterations_of_a_round(block: LoweredBlock, op: pb.OpDesc) -> int:
    """Return how many iterations threads share before the driver looks for signals: some ten milliseconds of them."""
    length = iterations_of(op.type, attributes_of(op))
    most = MAX_CYCLES_BETWEEN_SIGNALS // cycles_of(block.bodies[op.id][-1])
    rounds = -(-length // min(most, length))
    return -(-length // rounds)


def _only_counts(op: pb.OpDesc, body: LoweredBlock) -> bool:
    """Return True if each carry of a scan is an integer to which an iteration adds 1, as that of random ops."""
    carries, nodes = operand_layout(op).carries, body.nodes
    if carries and attributes_of(op)["reverse"]:
        return False
    maker = {name: inner for inner in body.desc.ops for name in inner.outputs}
    argument = {p.argument: p.tensor for p in body.desc.parameters}
    return all(_counts(maker.get(body.desc.results[j]), argument.get(j), nodes) for j in range(carries))


def _counts(op: pb.OpDesc | None, carry: str | None, nodes: Nodes) -> bool:
    """Return True if an op adds 1 to a carry of one int64."""
    if op is None or carry is None or op.type != "add" or carry not in op.inputs or nodes.types[carry] != COUNTER:
        return False
    [other] = [name for name in op.inputs if name != carry] or [""]
    return other in nodes.constants and constant_array(nodes.constants[other].attributes[0].tensor_value).item() == 1


def counter_bytes(copies: int) -> int:
    """Return the bytes of a counter in all copies of a block: each reads it in one cache line and writes another."""
    return copies * 2 * ALIGNMENT


def _can_be_shared(body: LoweredBlock) -> bool:
    """Return True if compiled code computes all ops of a block, and no loop in it needs signals to end it."""
    if any(group.is_host and not body.is_control(group) for group in body.groups):
        return False
    return all(
        (op.type != WHILE or iterations_of(op.type, attributes_of(op))) and all(map(_can_be_shared, body.bodies[op.id]))
        for op in body.desc.ops
        if op.id in body.bodies
    )


def cycles_of(body: LoweredBlock) -> int:
    """Return the cycles of a block, including those of loops and conditions inside, up to some seconds.

    A `while_loop` without a bound counts as one iteration, because it pauses by itself.
    """
    own = sum(kernel_step.cost for steps in body.steps for kernel_step in steps.steps)
    inner = sum(_cycles_of_blocks(op, body.bodies[op.id]) for op in body.desc.ops if op.id in body.bodies)
    return min(MIN_ITERATION_CYCLES + int(own) + inner, MAX_COMBINED_LOOP_CYCLES + 1)


def _cycles_of_blocks(op: pb.OpDesc, blocks: Sequence[LoweredBlock]) -> int:
    cycles = [cycles_of(block) for block in blocks]
    if op.type == COND:
        return max(cycles)
    return max(iterations_of(op.type, attributes_of(op)), 1) * sum(cycles)


def iterations_of(type: str, attributes: Mapping[str, object]) -> int:
    """Return an upper bound on the iterations of a loop; 0 for a `while_loop` without a bound."""
    if type == WHILE:
        return cast("int", attributes["max_trips"])
    [length] = cast("tuple[int]", attributes["length"])
    return length
