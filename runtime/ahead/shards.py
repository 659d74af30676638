"""A step in shards as two: the sums of one shard, and the update by the sums over all; hosts of several processes add.

The order of the additions is that of the program, a balanced tree over the shards (`runtime.ranks.tree`), so any number
of processes ends with the bits of one.

The function of a shard is that of the first one, with two changes where the ops of the second one read other rows. A
slice of rows that are fed becomes a feed of that many rows. A slice of what is computed for all rows, such as a mask of
dropout, becomes a `gather` by the number of the shard, a further feed that the host does not see.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from types import MappingProxyType
from typing import Final, NamedTuple

from prograd_proto import TensorType, type_of
from prograd_proto import program_pb2 as pb
from prograd_proto.attributes import attribute_message, attributes_of
from prograd_proto.tensor_types import tensor_desc
from runtime.entries import BoundEntry, Feed, bound_entries
from runtime.errors import UsageError
from runtime.ranks.deal import REDUCE, dealt

NUMBER: Final = "number of the shard"
"""The feed of the number of a shard, from 0, which prograd_shards.c fills."""


class ShardSteps(NamedTuple):
    """The two steps, and the number of shards.

    Attributes:
        sums: computes the sums of a shard, which are its fetches; its feeds have the rows of a shard.
        update: takes the sums over all shards as feeds, in that order; its fetches are those of the whole step.
        shards: number of shards.
    """

    sums: BoundEntry
    update: BoundEntry
    shards: int


def shard_steps(program: pb.ProgramDesc, bound: BoundEntry) -> ShardSteps:
    """Return the steps of an entry in shards; raise UsageError if it has none, or a feed with the name of ours."""
    shards = _shards(program, bound)
    if NUMBER in bound.feeds:
        raise UsageError(f"entry {bound.name!r} has a feed named {NUMBER!r}, which --by-shard adds; rename it")
    block, second = (_dealt(program, bound, shards, rank) for rank in range(2))
    first = next(i for i, op in enumerate(block.ops) if op.type == REDUCE)
    reduces = [op for op in block.ops if op.type == REDUCE]
    parts = [name for op in reduces for name in op.inputs]
    roots = [name for op in reduces for name in op.outputs]
    types = {tensor.name: type_of(tensor) for tensor in block.tensors}
    ops = _sums_of(block)
    feeds, ops, more = _fed(bound, block, ops, shards, _own_slices(ops, _sums_of(second)))
    types |= more
    made = {f"sum_{i}": name for i, name in enumerate(parts)}
    sums = _bound(f"{bound.name}_sums", bound, block, ops, feeds, made, [], types)
    ends = [*(u.tensor for u in block.updates), *(f.tensor for f in block.fetches)]
    after = _needed([*block.ops[:first], *block.ops[first + len(reduces) :]], ends)
    totals = {f"sum_{i}": Feed(f"sum_{i}", types[name], False) for i, name in enumerate(roots)}
    named = {name: (root, totals[name]) for name, root in zip(totals, roots, strict=True)}
    update = _bound(f"{bound.name}_update", bound, block, after, named, None, block.updates, types)
    return ShardSteps(sums, update._replace(rows=1), shards)


def _shards(program: pb.ProgramDesc, bound: BoundEntry) -> int:
    for op in _dealt(program, bound, 2, 0).ops:
        if op.type == REDUCE:
            shards = attributes_of(op)["shards"]
            assert isinstance(shards, int), "the contract says so"
            return shards
    raise UsageError(
        f"entry {bound.name!r} has no shards to compute apart; compile the program in shards, as in "
        "compile(batch=256, shards=8)"
    )


def _dealt(program: pb.ProgramDesc, bound: BoundEntry, ranks: int, rank: int) -> pb.BlockDesc:
    """Return the block of one of several ranks."""
    found = bound_entries(dealt(program, rank, ranks), bound.name)
    return next(each.block for each in found if each.number == bound.number)


def _sums_of(block: pb.BlockDesc) -> list[pb.OpDesc]:
    """Return the ops of the sums of a shard, in order."""
    first = next(i for i, op in enumerate(block.ops) if op.type == REDUCE)
    return _needed(block.ops[:first], [name for op in block.ops if op.type == REDUCE for name in op.inputs])


def _own_slices(ops: Sequence[pb.OpDesc], others: Sequence[pb.OpDesc]) -> set[str]:
    """Return the results of the slices that read other rows in another shard, whose ops are otherwise the same."""
    found: set[str] = set()
    for op, other in zip(ops, others, strict=True):
        assert op.type == other.type, "the ops of shards differ in rows only"
        if [each.SerializeToString() for each in op.attributes] != [
            each.SerializeToString() for each in other.attributes
        ]:
            assert op.type == "slice", "no other op names rows"
            found.add(op.outputs[0])
    return found


def _needed(ops: Sequence[pb.OpDesc], ends: Sequence[str]) -> list[pb.OpDesc]:
    """Return the ops on which tensors depend, in order."""
    wanted, found = set(ends), list[pb.OpDesc]()
    for op in reversed(ops):
        if not wanted.isdisjoint(op.outputs):
            wanted.update(op.inputs)
            found.append(op)
    return found[::-1]


def _fed(
    bound: BoundEntry, block: pb.BlockDesc, ops: Sequence[pb.OpDesc], shards: int, slices: Set[str]
) -> tuple[dict[str, tuple[str, Feed]], list[pb.OpDesc], dict[str, TensorType]]:
    """Return the feeds of a shard by name, each with its tensor, the ops for any shard, and the types of new tensors.

    `slices` are the results of the ops that slice the rows of a shard.
    """
    types = {tensor.name: type_of(tensor) for tensor in block.tensors}
    feeds: dict[str, tuple[str, Feed]] = {}
    renamed: dict[str, str] = {}
    for parameter in (p for p in block.parameters if p.WhichOneof("source") == "feed"):
        feed, readers = bound.feeds[parameter.feed], [op for op in ops if parameter.tensor in op.inputs]
        if not feed.by_row:
            feeds[feed.name] = parameter.tensor, feed
            continue
        shape = feed.type.static_shape
        type = TensorType(feed.type.dtype, (shape[0] // shards, *shape[1:]))
        own = [op for op in readers if op.outputs[0] in slices]
        if len(own) < len(readers):
            raise UsageError(f"entry {bound.name!r} reads rows of {feed.name!r} that are of another shard")
        tensor = own[0].outputs[0] if own else parameter.tensor
        renamed |= {op.outputs[0]: tensor for op in own}
        feeds[feed.name] = tensor, Feed(feed.name, type, True)
    found, more = list[pb.OpDesc](), dict[str, TensorType]()
    for op in (op for op in ops if op.outputs[0] not in renamed):
        if op.outputs[0] not in slices:
            found.append(_renamed(op, renamed))
            continue
        feeds[NUMBER] = NUMBER, Feed(NUMBER, TensorType("int64", ()), False)
        stacked = f"{op.inputs[0]}.of_shards"
        if stacked not in more:
            shape = shards, *types[op.outputs[0]].static_shape
            more[stacked] = TensorType(types[op.outputs[0]].dtype, shape)
            found.append(_op("reshape", op, [op.inputs[0]], stacked, attribute_message("shape", "shape", shape)))
        found.append(_op("gather", op, [stacked, NUMBER], op.outputs[0], attribute_message("axis", "int", 0)))
    return feeds, found, more


def _op(type: str, op: pb.OpDesc, inputs: Sequence[str], output: str, attribute: pb.AttrDesc) -> pb.OpDesc:
    """Return an op in the place of another one."""
    return pb.OpDesc(id=op.id, type=type, inputs=inputs, outputs=[output], attributes=[attribute], stage=op.stage)


def _renamed(op: pb.OpDesc, names: dict[str, str]) -> pb.OpDesc:
    found = pb.OpDesc.FromString(op.SerializeToString())
    found.inputs[:] = [names.get(name, name) for name in op.inputs]
    return found


def _bound(
    name: str,
    bound: BoundEntry,
    block: pb.BlockDesc,
    ops: Sequence[pb.OpDesc],
    feeds: dict[str, tuple[str, Feed]],
    fetches: dict[str, str] | None,
    updates: Sequence[pb.UpdateDesc],
    types: dict[str, TensorType],
) -> BoundEntry:
    """Return an entry of some ops of a block; without `fetches`, those of the block."""
    found = pb.BlockDesc(updates=updates)
    own = {tensor: feed.type for tensor, feed in feeds.values()}
    read = {name for op in ops for name in op.inputs}
    read |= {u.tensor for u in updates} | {f.tensor for f in block.fetches if fetches is None}
    parameters = [p for p in block.parameters if p.WhichOneof("source") == "state" and p.tensor in read]
    parameters += [pb.ParameterDesc(tensor=tensor, feed=name) for name, (tensor, _) in feeds.items()]
    found.parameters.extend(parameters)
    for op in ops:
        found.ops.append(op)
    outputs = [name for op in ops for name in op.outputs]
    types = {tensor: own.get(tensor) or types[tensor] for tensor in [*(p.tensor for p in parameters), *outputs]}
    found.tensors.extend(tensor_desc(tensor, type) for tensor, type in types.items())
    listed = block.fetches if fetches is None else [pb.FetchDesc(name=n, tensor=t) for n, t in fetches.items()]
    found.fetches.extend(listed)
    given = {name: feed for name, (_, feed) in feeds.items()}
    rows = next((feed.type.static_shape[0] for feed in given.values() if feed.by_row), 1)
    return BoundEntry(name, bound.number, found, None, rows, given, frozenset(), (), MappingProxyType(types))
