"""The update of an optimizer's states, cut among the ranks (ZeRO stage 1: Rajbhandari and others, 2020).

1. The states of the optimizer that have `MIN_CUT_ELEMENTS` elements are cut: rank r of n has the elements rE/n to
   (r+1)E/n of E, in row-major order, as a vector.
2. The ops that read such a state, and those that read their results, compute these elements alone. Each of them must
   work element by element. So must the ops before them that nothing else needs, and these then do likewise.
3. A sum over shards that only such ops read is added up by the rank whose elements they are: a `reduce_scatter` instead
   of an `all_reduce`. Other tensors that they read are sliced.
4. An `all_gather` makes each new parameter whole again.

The elements are computed as in the whole tensors, so no bit changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from math import prod
from typing import Final, NamedTuple

from prograd_proto import ProgramError, TensorType
from prograd_proto import program_pb2 as pb
from prograd_proto.attributes import attribute_message
from runtime.operators import CONTRACTS
from runtime.ranks.tree import shards_of
from runtime.row_rules import pointwise

GATHER: Final = "all_gather"

MIN_CUT_ELEMENTS: Final = 1024
"""Elements of a state from which on it is cut; for smaller ones the messages cost more than the memory."""


class Share(NamedTuple):
    """The elements of tensors that a rank has.

    Attributes:
        rank: this rank.
        ranks: number of ranks.
    """

    rank: int
    ranks: int

    def of(self, type: TensorType) -> tuple[int, int]:
        """Return the first element of this rank, and the one after its last."""
        return shards_of(prod(type.static_shape), self.rank, self.ranks)

    def own(self, type: TensorType) -> TensorType:
        """Return the type of this rank's elements."""
        first, stop = self.of(type)
        return TensorType(type.dtype, (stop - first,))


class Cut(NamedTuple):
    """The ops of an update that is cut.

    Attributes:
        ops: the ops, in order.
        tensors: the types of the tensors that they need besides those of the block.
        scattered: the names of sums over shards, each with the name of the elements of this rank.
    """

    ops: list[pb.OpDesc]
    tensors: dict[str, TensorType]
    scattered: dict[str, str]


def states_to_cut(program: pb.ProgramDesc, dealt: Set[int]) -> dict[str, TensorType]:
    """Return the states that are cut, with their types.

    Args:
        program: the program.
        dealt: the numbers of the blocks whose ops are dealt to the ranks.
    """
    from prograd_proto import type_of

    updated = {update.state for number in dealt for update in program.blocks[number].updates}
    others = {binding.block for entry in program.entries for binding in entry.bindings} - dealt
    read = {parameter.state for number in others for parameter in program.blocks[number].parameters}
    slots = [state for state in program.states if state.kind == pb.STATE_KIND_SLOT]
    types = {slot.name: type_of(slot) for slot in slots if slot.name in updated - read}
    return {name: type for name, type in types.items() if prod(type.static_shape) >= MIN_CUT_ELEMENTS}


def cut_update(
    block: pb.BlockDesc,
    ops: Sequence[pb.OpDesc],
    sums: Set[str],
    types: Mapping[str, TensorType],
    states: Set[str],
    share: Share,
    numbers: Iterator[int],
) -> Cut:
    """Cut an update, and edit the parameters and updates of its block.

    Args:
        block: the block of a step.
        ops: its ops after the sums over shards, in order; they are not edited.
        sums: the names of the sums.
        types: the types of the block's tensors.
        states: the names of the states that are cut.
        share: the elements of the rank.
        numbers: ids for new ops.

    Raises ProgramError if an op that needs the states does not work element by element.
    """
    cutting = _Cutting(block, ops, types, states, share, numbers)
    cutting.find(sums)
    return cutting.cut()


class _Cutting:
    """The cut of one update.

    Attributes:
        names: the names of a rank's elements, by the name of the tensor that is cut.
    """

    def __init__(
        self,
        block: pb.BlockDesc,
        ops: Sequence[pb.OpDesc],
        types: Mapping[str, TensorType],
        states: Set[str],
        share: Share,
        numbers: Iterator[int],
    ) -> None:
        self._block, self._types, self._states, self._share, self._numbers = block, types, states, share, numbers
        self._ops = [pb.OpDesc.FromString(op.SerializeToString()) for op in ops]
        self._readers: dict[str, list[pb.OpDesc]] = {}
        for op in self._ops:
            for name in op.inputs:
                self._readers.setdefault(name, []).append(op)
        self._ends = {*(u.tensor for u in block.updates), *(f.tensor for f in block.fetches)}
        self._by_rank: set[int] = set()  # the ids of the ops that compute the elements of the rank
        self._new: dict[str, TensorType] = {}
        self.names = {p.tensor: _own(p.tensor) for p in block.parameters if p.state in states}

    def find(self, sums: Set[str]) -> None:
        """Find the tensors that are cut: those behind the states, then those before them."""
        for op in self._ops:
            if not self.names.keys().isdisjoint(op.inputs):
                self._require_by_element(op)
                self._take(op)
        for op in reversed(self._ops):
            if op.id not in self._by_rank and self._is_by_element(op) and all(map(self._is_cut_later, op.outputs)):
                self._take(op)
        scattered = [name for name in sums if self._is_cut_later(name)]
        self._scattered = {name: _own(name) for name in sorted(scattered)}
        self.names.update(self._scattered)
        self._require_no_fetch()

    def cut(self) -> Cut:
        """Return the ops, and edit the block."""
        ops: list[pb.OpDesc] = []
        sliced: dict[str, str] = {}
        for op in self._ops:
            if op.id in self._by_rank:
                ops.extend(self._slices([n for n in op.inputs if self._is_whole(n)], sliced))
                self._rename(op, sliced)
            ops.append(op)
        for parameter in self._block.parameters:
            if parameter.state in self._states:
                parameter.tensor = self.names[parameter.tensor]
        for update in self._block.updates:
            if update.state in self._states:
                if update.tensor not in self.names:
                    ops.extend(self._slices([update.tensor], sliced))
                update.tensor = self.names.get(update.tensor) or sliced[update.tensor]
        ops.extend(self._gathers())
        self._new.update((own, self._share.own(self._types[name])) for name, own in self.names.items())
        return Cut(ops, self._new, self._scattered)

    def _take(self, op: pb.OpDesc) -> None:
        self._by_rank.add(op.id)
        self.names.update((name, _own(name)) for name in op.outputs if self._types[name].rank)

    def _is_by_element(self, op: pb.OpDesc) -> bool:
        """Return True if an op works element by element on tensors of one shape, and on scalars."""
        contract = CONTRACTS.get(op.type)
        if contract is None or contract.random or not (contract.by_element or contract.rows is pointwise):
            return False
        if {"shape", "ints"} & {*contract.rule.attributes.values()}:
            return False
        shapes = {self._types[name].shape for name in (*op.inputs, *op.outputs) if name} - {()}
        return len(shapes) == 1 and bool(self._types[op.outputs[0]].rank)

    def _require_by_element(self, op: pb.OpDesc) -> None:
        if not self._is_by_element(op):
            cut = next(name for name in op.inputs if name in self.names)
            raise ProgramError(
                f"op {op.id} ({op.type}) needs all elements of %{cut}, so the states of this optimizer cannot be cut "
                "among processes; leave --zero out, or take an optimizer that works element by element, as adam does"
            )

    def _is_cut_later(self, name: str) -> bool:
        """Return True if only ops that are cut read a tensor of more than one element."""
        readers = self._readers.get(name, [])
        ends = name in self._ends
        return bool(self._types[name].rank and readers) and not ends and all(op.id in self._by_rank for op in readers)

    def _require_no_fetch(self) -> None:
        for fetch in self._block.fetches:
            if fetch.tensor in self.names:
                raise ProgramError(f"the fetch {fetch.name!r} needs all elements of what --zero cuts; leave --zero out")

    def _is_whole(self, name: str) -> bool:
        return bool(name) and name not in self.names and bool(self._types[name].rank)

    def _slices(self, names: Sequence[str], sliced: dict[str, str]) -> Iterator[pb.OpDesc]:
        """Yield the ops that take the rank's elements out of whole tensors, once for each tensor."""
        for name in names:
            if name in sliced:
                continue
            type, flat, own = self._types[name], f"{name}:flat", _own(name)
            first, stop = self._share.of(type)
            self._new[flat] = TensorType(type.dtype, (prod(type.static_shape),))
            self._new[own] = self._share.own(type)
            sliced[name] = own
            reshape = self._op("reshape", [name], [flat])
            reshape.attributes.append(attribute_message("shape", "shape", self._new[flat].shape))
            yield reshape
            slice = self._op("slice", [flat], [own])
            numbers = {"axes": (0,), "starts": (first,), "stops": (stop,), "strides": (1,)}
            slice.attributes.extend(attribute_message(name, "ints", values) for name, values in numbers.items())
            yield slice

    def _rename(self, op: pb.OpDesc, sliced: Mapping[str, str]) -> None:
        names = {**sliced, **self.names}
        op.inputs[:] = [names.get(name, name) for name in op.inputs]
        op.outputs[:] = [names.get(name, name) for name in op.outputs]

    def _gathers(self) -> Iterator[pb.OpDesc]:
        """Yield the exchanges that make whole the new values of the states that are not cut."""
        tensors = {p.state: p.tensor for p in self._block.parameters}
        for update in self._block.updates:
            if update.state in self._states or update.tensor not in self.names:
                continue
            if update.state not in tensors:
                raise ProgramError(f"the step does not read {update.state!r}, so --zero cannot gather it; leave it out")
            gather = self._op(GATHER, [self.names[update.tensor], tensors[update.state]], [update.tensor])
            numbers = {"rank": self._share.rank, "ranks": self._share.ranks}
            gather.attributes.extend(attribute_message(name, "int", value) for name, value in numbers.items())
            self._new[update.tensor] = self._types[update.tensor]
            yield gather

    def _op(self, type: str, inputs: Sequence[str], outputs: Sequence[str]) -> pb.OpDesc:
        return pb.OpDesc(id=next(self._numbers), type=type, inputs=inputs, outputs=outputs, stage=pb.STAGE_UPDATE)


def _own(name: str) -> str:
    """Return the name of a rank's elements of a tensor."""
    return f"{name}:own"
