"""Pass: compute identical ops once.

1. Two ops are identical if their types, operands, attributes and random streams are equal: they give equal bits. Ops
   that draw random numbers are identical only if they share a stream, ops with effects never. The order of operands
   matters, also in a sum: it determines which of two NaNs is the result.
2. The first one is kept, under its names, and all readers of the others read it.
3. Its stage is the earliest among them: an op that the forward pass needs belongs to the forward pass. It gets the id
   of the op that was built first, and the op that this one helps to differentiate; but it helps none if an op of an
   earlier stage among them helps none.
4. A merged value is live from its first use to its last. If that raises the peak of the block, ops of low cost are
   left unmerged until it does not.
5. Blocks inside ops read one of several operands that are the same tensor (`control_operands`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from math import prod
from typing import Final

from compiler.analyses.step_graph import step_graph
from compiler.passes.control_operands import unify_operands
from compiler.passes.order_ops import best_order
from compiler.passes.rewrite import computation, rewrite
from prograd_proto import program_pb2 as pb
from prograd_proto import type_of
from prograd_proto.blocks import BlockAnalyses, BlockAnalysis
from prograd_proto.files import copy_of
from runtime.step import effects_of, is_view
from runtime.step.arithmetic import operations

UNCHECKED_BYTES_RATIO: Final = 1000
"""Ratio of the largest result's bytes to the bytes of all merged results; above it, the peak is not checked."""

UNCHECKED_BYTES: Final = 64
"""Bytes of results that are merged without a check of the peak: the least that a buffer takes."""


def merge_identical(program: BlockAnalyses, *, most_tried: int = 16) -> None:
    """Keep the first of ops that are equal in type, operands, attributes and random stream.

    Cheap ops whose merging raises the peak are left unmerged.

    Args:
        program: its blocks that run are edited.
        most_tried: ops of a block that are tried one by one if the peak would rise; further ones stay.
    """
    for block in program.bound:  # outer ones come first, so that blocks inside ops read one of identical tensors
        merged, before = _merge(block)
        stay = _that_stay(block, before, merged, most_tried) if before is not None else set[int]()
        if before is not None and stay:
            block.desc.CopyFrom(before)
            block.forget()
            _merge(block, stay)
        unify_operands(block)


def _merge(block: BlockAnalysis, stay: Collection[int] = ()) -> tuple[Set[int], pb.BlockDesc | None]:
    """Merge identical ops except those of these ids; return the ids of removed ops and the block before."""
    readers: dict[object, int] = {}  # the first op of a type with these operands; few ops have duplicates
    first: dict[object, int] = {}
    alike: dict[int, list[pb.OpDesc]] = {}  # by the id of a kept op, the op and those that it replaces
    before: pb.BlockDesc | None = None

    def visit(i: int) -> Sequence[str] | None:
        nonlocal before
        reader = readers.setdefault((block.op_types[i], *block.inputs[i]), i)
        if reader == i or effects_of(block.op_types[i]):
            return None
        first.setdefault(computation(block, reader), reader)
        kept = first.setdefault(what := computation(block, i), i)
        if kept == i:
            return None
        if block.ids[i] in stay:
            first[what] = i
            return None
        if before is None:  # nothing is edited before the first removal
            before = copy_of(block.desc)
        alike.setdefault(block.ids[kept], [copy_of(block.ops[kept])]).append(copy_of(block.ops[i]))
        return block.outputs[kept]

    rewrite(block, visit)
    if alike:
        _name_anew(block, alike)
    return {op.id for ops in alike.values() for op in ops[1:]}, before


def _name_anew(block: BlockAnalysis, alike: Mapping[int, Sequence[pb.OpDesc]]) -> None:
    """Let the kept ops take the stage, id and link of the ops that they replace."""
    now: dict[int, int] = {}
    for ops in alike.values():
        now.update(dict.fromkeys([op.id for op in ops], min(op.id for op in ops)))
    for i, kept in enumerate(block.ops):
        ops = sorted(alike.get(block.ids[i], ()), key=lambda op: op.id)
        if ops:
            kept.id, kept.stage, kept.gradient_of = ops[0].id, min(op.stage for op in ops), ops[0].gradient_of
            if any(op.stage < ops[0].stage and not op.gradient_of for op in ops):
                kept.gradient_of = 0
            block.read_again(i)
        helped = kept.gradient_of
        if helped in now:
            kept.gradient_of = now[helped]


def _that_stay(now: BlockAnalysis, block: pb.BlockDesc, merged: Set[int], most_tried: int) -> set[int]:
    """Return the ids of the merged ops that must stay unmerged to keep the peak low."""
    cheap = _cheap(block, merged)
    stay = set(cheap)
    if not cheap or _peak(now, block) <= (least := _peak(now, block, stay)):
        return set()
    for number in cheap[:most_tried]:
        need = _peak(now, block, stay - {number})
        if need <= least:
            stay, least = stay - {number}, need
    return stay


def _cheap(block: pb.BlockDesc, merged: Set[int]) -> list[int]:
    """Return the merged ops with many bytes for the cost of recomputing them, in order.

    The readers of the results of an op that stays must stay too, so they must be cheap as well.
    """
    tensors = {tensor.name: tensor for tensor in block.tensors}
    cheap: dict[int, int] = {}
    needed: set[str] = set()  # by merged ops that are not cheap
    for op in reversed(block.ops):
        if op.id not in merged:
            continue
        inputs = [type_of(tensors[name]) if name else None for name in op.inputs]
        results = [type_of(tensors[name]) for name in op.outputs]
        costs_more = operations(op.type, inputs, results) > sum(prod(type.static_shape) for type in results)
        if costs_more or not needed.isdisjoint(op.outputs):
            needed.update(op.inputs)
        elif _makes_bytes(op) and (nbytes := sum(type.nbytes for type in results)) > UNCHECKED_BYTES:
            cheap[op.id] = nbytes
    if not cheap:
        return []
    largest = max(type_of(tensors[name]).nbytes for op in block.ops if _makes_bytes(op) for name in op.outputs)
    return [*reversed(cheap)] if sum(cheap.values()) * UNCHECKED_BYTES_RATIO >= largest else []


def _makes_bytes(op: pb.OpDesc) -> bool:
    return op.type != "constant" and not is_view(op.type)


def _peak(now: BlockAnalysis, block: pb.BlockDesc, stay: Collection[int] = ()) -> int:
    """Return the bytes of the block in its best order, with identical ops merged except those of these ids."""
    copy = copy_of(block)
    trial = now.version(copy)
    _merge(trial, stay)
    return best_order(trial, step_graph(trial))[1]
