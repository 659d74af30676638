"""The step of a rank: the ops of its own shards, and exchanges where other ranks have the rest.

1. `join_shards` ops add the values of shards in a tree. A *root* is the sum over all shards, which other ops read.
2. The ops of a rank are those that its parts of the tree need, and those that need no shard. They come first, in their
   order; those that need a root come last.
3. Between them an `all_reduce` makes roots of the rank's parts. Small tensors of one dtype are sent as one, up to
   `BUCKET_BYTES`; a tensor of `ALONE_BYTES` is sent by itself, without a copy.
4. If the states of the optimizer are cut among the ranks (`runtime.ranks.cut`), some sums are a `reduce_scatter`.
5. Where an op wrote over an operand that a later op now reads, it writes elsewhere. The engine places the buffers.

All ranks make the same exchanges in the same order, because the roots are those of the whole step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from itertools import count
from typing import Final, NamedTuple

from prograd_proto import ProgramError, TensorType, type_of
from prograd_proto import program_pb2 as pb
from prograd_proto.attributes import attributes_of
from prograd_proto.files import copy_of
from prograd_proto.tensor_types import tensor_desc
from runtime.operators import CONTRACTS
from runtime.ranks.cut import MIN_CUT_ELEMENTS, Cut, Share, cut_update, states_to_cut
from runtime.ranks.tree import Range, middle_of, parts_of
from runtime.step import is_transfer, runs_once

JOIN: Final = "join_shards"
REDUCE: Final = "all_reduce"
SCATTER: Final = "reduce_scatter"

BUCKET_BYTES: Final = 4 << 20
"""Bytes of tensors that are sent as one; a longer message is no faster for each byte."""

ALONE_BYTES: Final = 1 << 18
"""Bytes of a tensor that is sent by itself, which saves two copies of it for another message."""


class Root(NamedTuple):
    """The sum over all shards of a step.

    Attributes:
        name: name of the tensor.
        parts: names of the sums of the rank's parts, from left to right.
        shards: number of shards.
        type: type of the tensor.
    """

    name: str
    parts: list[str]
    shards: int
    type: TensorType


def dealt(program: pb.ProgramDesc, rank: int, ranks: int, *, cuts_states: bool = False) -> pb.ProgramDesc:
    """Return the program as a rank of several runs it; entries without shards stay as they are.

    With `cuts_states`, the states of the optimizer have the elements of this rank only.

    Raises ProgramError if the sums over shards form no balanced tree, if an op acts on more than tensors, or if the
    states of the optimizer cannot be cut.
    """
    found = copy_of(program)
    share = Share(rank, ranks)
    numbers = _blocks_with_shards(found)
    cut = states_to_cut(found, numbers.keys()) if cuts_states else {}
    if cuts_states and not cut:
        raise ProgramError(
            "--zero cuts the states of the optimizer among processes, and no step in shards updates one of at least "
            f"{MIN_CUT_ELEMENTS} elements; leave it out"
        )
    for number, entry in numbers.items():
        _require_only_tensors(entry, found.blocks[number])
        _Dealing(found.blocks[number], share, cut.keys()).deal()
    for binding in (binding for entry in found.entries for binding in entry.bindings):
        if binding.block in numbers:
            binding.ClearField("plan")
    for state in found.states:
        if state.name in cut:
            state.shape.CopyFrom(tensor_desc("", share.own(cut[state.name])).shape)
            state.ClearField("initial")
    _list_operators(found)
    return found


def _blocks_with_shards(program: pb.ProgramDesc) -> dict[int, str]:
    """Return the numbers of the blocks whose ops are dealt, each with the name of its entry."""
    bindings = [(binding.block, entry.name) for entry in program.entries for binding in entry.bindings]
    return {number: name for number, name in bindings if any(op.type == JOIN for op in program.blocks[number].ops)}


def _list_operators(program: pb.ProgramDesc) -> None:
    """List the operators that dealing has added."""
    listed = {operator.type for operator in program.operators}
    used = {op.type for block in program.blocks for op in block.ops}
    versions = {type: CONTRACTS[type].rule.version for type in used - listed if type in CONTRACTS}
    program.operators.extend(pb.OperatorVersion(type=type, version=version) for type, version in versions.items())
    operators = sorted(program.operators, key=lambda operator: operator.type)
    copies = [pb.OperatorVersion.FromString(operator.SerializeToString()) for operator in operators]
    del program.operators[:]
    program.operators.extend(copies)


def shards_of_entry(program: pb.ProgramDesc, name: str) -> int:
    """Return the number of shards of an entry's largest step, 0 for an entry without shards."""
    blocks = [program.blocks[b.block] for entry in program.entries if entry.name == name for b in entry.bindings]
    joins = [op for block in blocks for op in block.ops if op.type == JOIN]
    return max((_range(op)[1] for op in joins), default=0)


def _require_only_tensors(entry: str, block: pb.BlockDesc) -> None:
    for op in block.ops:
        if runs_once(op.type):
            raise ProgramError(
                f"entry {entry!r}: op {op.id} ({op.type}) acts on more than its tensors, and each process would "
                "repeat that; a step in shards with such an op runs in one process"
            )


class _Dealing:
    """The edit of one bound block."""

    def __init__(self, block: pb.BlockDesc, share: Share, cut: Set[str]) -> None:
        self._block, (self._rank, self._ranks), self._share, self._states = block, share, share, cut
        self._types = {tensor.name: type_of(tensor) for tensor in block.tensors}
        self._joins = {op.outputs[0]: op for op in block.ops if op.type == JOIN}
        self._moved = {op.outputs[0]: op.inputs[0] for op in block.ops if is_transfer(op.type)}
        self._numbers = count(max((op.id for op in block.ops), default=0) + 1)

    def deal(self) -> None:
        """Replace the ops by those of the rank."""
        roots = self._roots()
        made = {root.name for root in roots}
        early, late = self._split(roots)
        cut = Cut(late, {}, {})
        if self._states:
            cut = cut_update(self._block, late, made, self._types, self._states, self._share, self._numbers)
        scatters = [self._scatter(root, cut.scattered[root.name]) for root in roots if root.name in cut.scattered]
        reduces = list(self._reduces([root for root in roots if root.name not in cut.scattered]))
        self._replace([*early, *reduces, *scatters, *cut.ops], cut)

    def _split(self, roots: Sequence[Root]) -> tuple[list[pb.OpDesc], list[pb.OpDesc]]:
        """Return the ops of the rank that need no sum over all shards, and those that do."""
        made = {root.name for root in roots}
        needed = self._needed(roots)
        after: set[str] = set(made)
        early: list[pb.OpDesc] = []
        late: list[pb.OpDesc] = []
        for op in self._block.ops:
            if made.isdisjoint(op.outputs) and not needed.isdisjoint(op.outputs):
                waits = not after.isdisjoint(op.inputs)
                after.update(op.outputs if waits else ())
                (late if waits else early).append(op)
        if any(part in after for root in roots for part in root.parts):
            raise ProgramError("a sum over some shards needs a sum over all of them")
        return early, late

    def _roots(self) -> list[Root]:
        """Return the sums over all shards, in the order of the ops; raise ProgramError unless they are balanced."""
        block = self._block
        ends = {*(update.tensor for update in block.updates), *(fetch.tensor for fetch in block.fetches)}
        readers = [op for op in block.ops if op.type != JOIN and not is_transfer(op.type)]
        read = {self._origin(name) for name in (*ends, *(name for op in readers for name in op.inputs))}
        roots: list[Root] = []
        for name, op in self._joins.items():
            self._require_balanced(op)
            if name in read:
                first, shards = _range(op)
                if first:
                    raise ProgramError(f"op {op.id} ({JOIN}): the sum over some shards is read as if it were of all")
                parts = [*self._parts(op, shards)]
                roots.append(Root(name, parts, shards, self._types[name]))
        return roots

    def _origin(self, name: str) -> str:
        """Return the tensor that was moved to the file beside the arena and back, if `name` is a copy of one."""
        while name in self._moved:
            name = self._moved[name]
        return name

    def _require_balanced(self, op: pb.OpDesc) -> None:
        first, stop = _range(op)
        middle = int(attributes_of(op)["middle"])  # pyright: ignore[reportArgumentType]: the contract says int
        fits = middle == middle_of((first, stop))
        for name, part in zip(op.inputs, ((first, middle), (middle, stop)), strict=True):
            join = self._joins.get(self._origin(name))
            known = (part[0], part[0] + 1) if join is None else _range(join)
            fits = fits and known == part
        if not fits:
            raise ProgramError(f"op {op.id} ({JOIN}): the sums over shards {first} to {stop} form no balanced tree")

    def _parts(self, root: pb.OpDesc, shards: int) -> Iterator[str]:
        """Yield the tensors of the rank's parts; of the first shard for a rank without any, which sends nothing."""
        for part in parts_of(shards, self._rank, self._ranks) or [(0, 1)]:
            name, node = root.outputs[0], (0, shards)
            while node != part:
                middle = middle_of(node)
                is_right = part[0] >= middle
                name = self._joins[self._origin(name)].inputs[is_right]
                node = (middle, node[1]) if is_right else (node[0], middle)
            yield name

    def _needed(self, roots: Sequence[Root]) -> set[str]:
        """Return the tensors that the rank computes or reads."""
        parts = {root.name: root.parts for root in roots}
        needed = {*(update.tensor for update in self._block.updates), *(fetch.tensor for fetch in self._block.fetches)}
        needed.update(name for names in parts.values() for name in names)
        for op in reversed(self._block.ops):
            if not needed.isdisjoint(op.outputs) and parts.keys().isdisjoint(op.outputs):
                needed.update(op.inputs)
        return needed

    def _reduces(self, roots: Sequence[Root]) -> Iterator[pb.OpDesc]:
        """Yield the exchanges that give all ranks the sums."""
        for bucket in _buckets(roots):
            parts = [name for root in bucket for name in root.parts]
            yield self._exchange(REDUCE, parts, [root.name for root in bucket], bucket[0].shards)

    def _scatter(self, root: Root, own: str) -> pb.OpDesc:
        """Return the exchange that gives each rank its elements of a sum."""
        return self._exchange(SCATTER, root.parts, [own], root.shards)

    def _exchange(self, type: str, parts: Sequence[str], outputs: Sequence[str], shards: int) -> pb.OpDesc:
        op = pb.OpDesc(id=next(self._numbers), type=type, inputs=parts, outputs=outputs, stage=pb.STAGE_UPDATE)
        numbers = {"shards": shards, "rank": self._rank, "ranks": self._ranks}
        op.attributes.extend(pb.AttrDesc(name=name, int_value=value) for name, value in numbers.items())
        return op

    def _replace(self, ops: Sequence[pb.OpDesc], cut: Cut) -> None:
        """Replace the ops, and drop all tensors and links of others."""
        block = self._block
        copies = [pb.OpDesc.FromString(op.SerializeToString()) for op in ops]
        described = {t.name: pb.TensorDesc.FromString(t.SerializeToString()) for t in block.tensors}
        described.update((name, tensor_desc(name, type)) for name, type in cut.tensors.items())
        names = [p.tensor for p in block.parameters]
        names += [name for op in copies for name in op.outputs]
        known, ids = set(names), {op.id for op in copies}
        del block.ops[:], block.tensors[:]
        for op in copies:
            op.gradient_of = op.gradient_of if op.gradient_of in ids else 0
            op.recompute_of = op.recompute_of if op.recompute_of in ids else 0
        for name in names:
            of = described[name].gradient_of
            described[name].gradient_of = of if of in known else ""
        block.ops.extend(copies)
        block.tensors.extend(described[name] for name in names)


def _range(op: pb.OpDesc) -> Range:
    attributes = attributes_of(op)
    return int(attributes["first"]), int(attributes["stop"])  # pyright: ignore[reportArgumentType]: the contract says int


def _buckets(roots: Sequence[Root]) -> Iterator[list[Root]]:
    """Yield the roots that are sent as one, of one dtype and number of shards."""
    kinds = dict.fromkeys((root.type.dtype, root.shards) for root in roots)
    for kind in kinds:
        bucket: list[Root] = []
        nbytes = 0
        for root in roots:
            if (root.type.dtype, root.shards) != kind:
                continue
            if root.type.nbytes >= ALONE_BYTES:
                yield [root]
                continue
            if bucket and nbytes + root.type.nbytes > BUCKET_BYTES:
                yield bucket
                bucket, nbytes = [], 0
            bucket.append(root)
            nbytes += root.type.nbytes
        if bucket:
            yield bucket
