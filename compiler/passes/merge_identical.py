"""Pass: compute once what is computed twice.

1. Two ops are identical if their types, operands, attributes and random streams are equal: they give equal bits. Ops
   that draw random numbers are identical only if they share a stream, ops with effects never. The order of operands
   counts, also in a sum: which of two NaNs it hands on depends on it.
2. The first one is kept, under its names, and all readers of the others read it.
3. It counts to the earliest stage among them: what the forward pass needs is a part of the forward pass, whoever else
   uses it. It goes by the id of the one that was built first, and helps to differentiate what that one helped to,
   which was there before all of them; none if one of an earlier stage helps none.
4. A merged value is live from its first use to its last. If that raises the peak of the block, ops of low cost are
   not merged, as many of them as it takes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from math import prod
from typing import Final

from compiler.analyses.costs import operations
from compiler.analyses.step_graph import step_graph
from compiler.passes.order_ops import best_order
from compiler.passes.rewrite import computation, rewrite
from prograd_proto import program_pb2 as pb
from prograd_proto import type_of
from prograd_proto.blocks import Reading, Readings
from runtime.step import effects_of, is_view

SLACK: Final = 1000
"""What is kept of identical ops is not looked at if all of it has less bytes than the largest result by this factor."""

SMALL: Final = 64
"""Bytes that are kept without a look: the least that a buffer takes."""


def merge_identical(program: Readings, *, most_tried: int = 16) -> None:
    """Keep the first of ops that are equal in type, operands, attributes and random stream.

    Not where that takes memory and the op is cheap.

    Args:
        program: its blocks that run are edited.
        most_tried: ops of a block that are tried one by one where the peak would rise; further ones stay.
    """
    for block in program.bound:
        merged, before = _merge(block)
        if before is None:
            continue
        stay = _that_stay(before, merged, most_tried)
        if stay:
            block.desc.CopyFrom(before)
            block.forget()
            _merge(block, stay)


def _merge(block: Reading, stay: Collection[int] = ()) -> tuple[Set[int], pb.BlockDesc | None]:
    """Leave out identical ops but those of these ids; gives the ids of those left out, and the block before that."""
    readers: dict[object, int] = {}  # the first of a type that reads these operands; few ops are not alone
    first: dict[object, int] = {}
    alike: dict[int, list[pb.OpDesc]] = {}  # by the id of an op that is kept, it and what it stands for
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
        if before is None:  # nothing is edited before the first is left out
            before = pb.BlockDesc()
            before.CopyFrom(block.desc)
        alike.setdefault(block.ids[kept], [_copy(block.ops[kept])]).append(_copy(block.ops[i]))
        return block.outputs[kept]

    rewrite(block, visit)
    if alike:
        _name_anew(block, alike)
    return {op.id for ops in alike.values() for op in ops[1:]}, before


def _name_anew(block: Reading, alike: Mapping[int, Sequence[pb.OpDesc]]) -> None:
    """Let the kept ops count for all that they stand for."""
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


def _copy(op: pb.OpDesc) -> pb.OpDesc:
    copy = pb.OpDesc()
    copy.CopyFrom(op)
    return copy


def _that_stay(block: pb.BlockDesc, merged: Set[int], most_tried: int) -> set[int]:
    """Return the ids of those ops, of the ones that merging leaves out, without which the peak would be higher."""
    cheap = _cheap(block, merged)
    stay = set(cheap)
    if not cheap or _peak(block) <= (least := _peak(block, stay)):
        return set()
    for number in cheap[:most_tried]:
        need = _peak(block, stay - {number})
        if need <= least:
            stay, least = stay - {number}, need
    return stay


def _cheap(block: pb.BlockDesc, merged: Set[int]) -> list[int]:
    """Those of the merged ops that make many bytes for what computing them again takes, in order.

    What reads the results of an op that stays has to stay too, so that is to be cheap as well.
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
        elif _makes_bytes(op) and (nbytes := sum(type.nbytes for type in results)) > SMALL:
            cheap[op.id] = nbytes
    if not cheap:
        return []
    largest = max(type_of(tensors[name]).nbytes for op in block.ops if _makes_bytes(op) for name in op.outputs)
    return [*reversed(cheap)] if sum(cheap.values()) * SLACK >= largest else []


def _makes_bytes(op: pb.OpDesc) -> bool:
    return op.type != "constant" and not is_view(op.type)


def _peak(block: pb.BlockDesc, stay: Collection[int] = ()) -> int:
    """The bytes that the block needs in its best order when all identical ops but those of these ids are merged."""
    copy = pb.BlockDesc()
    copy.CopyFrom(block)
    trial = Reading(copy)
    _merge(trial, stay)
    return best_order(trial, step_graph(trial))[1]
