"""A block as Python lists, read once because messages are slow to read.

Code that edits the block uses the edit methods, which update the columns and drop answers that may change. For an edit
without a method, change the message and call `read_again` or `forget`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import compress
from typing import Any, Final

from prograd_proto import program_pb2 as pb
from prograd_proto.blocks.answers import Answers
from prograd_proto.blocks.kinds import Kind
from prograd_proto.blocks.use_def import UseDef
from prograd_proto.dtypes import NUMBERS
from prograd_proto.errors import ProgramError
from prograd_proto.tensor_types import TensorType, shape_message, type_of


class BlockAnalysis:
    """A block as columns with an element for each op, in order; readers must not edit them."""

    def __init__(self, desc: pb.BlockDesc, find: Callable[[int], BlockAnalysis] | None = None) -> None:
        """Read a block; `find` returns the reading of the block of a number, for blocks inside ops."""
        self.desc = desc
        self._find = find
        self.answers = Answers()
        self._kinds: dict[object, Kind] = {}

    @cached_property
    def ops(self) -> list[pb.OpDesc]:
        """The messages."""
        return self.desc.ops[:]

    @cached_property
    def ids(self) -> list[int]:
        """The permanent numbers of the ops."""
        return [op.id for op in self.ops]

    @cached_property
    def stages(self) -> list[pb.Stage]:
        """The stages of the ops in training."""
        return [op.stage for op in self.ops]

    @cached_property
    def op_types(self) -> list[str]:
        """The names of the operators."""
        return [op.type for op in self.ops]

    @cached_property
    def inputs(self) -> list[list[str]]:
        """The operands; "" is an absent one."""
        return [op.inputs[:] for op in self.ops]

    @cached_property
    def outputs(self) -> list[list[str]]:
        """The results."""
        return [op.outputs[:] for op in self.ops]

    @cached_property
    def attributes(self) -> list[tuple[bytes, ...]]:
        """The serialized attributes: equal bytes are equal attributes."""
        return [tuple([one.SerializeToString() for one in op.attributes]) for op in self.ops]

    @cached_property
    def blocks(self) -> list[list[int]]:
        """The numbers of the blocks inside the ops."""
        return [op.blocks[:] for op in self.ops]

    @cached_property
    def has_sub_blocks(self) -> bool:
        """True if an op has blocks inside it."""
        return any(self.blocks)

    def sub_blocks(self, i: int) -> list[BlockAnalysis]:
        """Return the readings of the blocks inside op number i."""
        numbers = self.blocks[i]
        if numbers and self._find is None:
            raise ProgramError(f"op {self.ids[i]} ({self.op_types[i]}) has blocks, and their program is not known here")
        return [self._find(number) for number in numbers] if self._find is not None else []

    @cached_property
    def kinds(self) -> list[Kind]:
        """The kinds; ops of one kind have one object; raises KeyError for a tensor without description."""
        types, kind = self.types, self._kind
        columns = zip(self.op_types, self.attributes, self.inputs, self.outputs, strict=True)
        return [
            kind(op_type, attributes, [types[x] if x else None for x in inputs], [types[y] for y in outputs])
            for op_type, attributes, inputs, outputs in columns
        ]

    @cached_property
    def tensors(self) -> list[pb.TensorDesc]:
        """The descriptions of the tensors."""
        return self.desc.tensors[:]

    @cached_property
    def names(self) -> list[str]:
        """The names of the tensors, in the order of their descriptions."""
        return [tensor.name for tensor in self.tensors]

    @cached_property
    def types(self) -> dict[str, TensorType]:
        """The types of the tensors; raises ProgramError for an unknown dtype."""
        known: dict[tuple[int, bytes], TensorType] = {}  # a block has few different types and very many tensors
        types: dict[str, TensorType] = {}
        for name, tensor in zip(self.names, self.tensors, strict=True):
            key = tensor.dtype, tensor.shape.SerializeToString()
            if key not in known or not key[1]:  # empty for a scalar, and if it is missing
                known[key] = type_of(tensor)
            types[name] = known[key]
        return types

    @cached_property
    def parameters(self) -> list[pb.ParameterDesc]:
        """The parameters: tensors from outside the block."""
        return self.desc.parameters[:]

    @cached_property
    def parameter_names(self) -> list[str]:
        """The names of the tensors from outside the block."""
        return [parameter.tensor for parameter in self.parameters]

    @cached_property
    def state_of(self) -> dict[str, str]:
        """The states by the tensors that stand for them."""
        return {p.tensor: p.state for p in self.parameters if p.WhichOneof("source") == "state"}

    @cached_property
    def arguments(self) -> dict[str, int]:
        """The positions of the arguments, by the tensors that stand for them."""
        return {p.tensor: p.argument for p in self.parameters if p.WhichOneof("source") == "argument"}

    @cached_property
    def updates(self) -> dict[str, str]:
        """The tensors of the states' new values, by state; the last one for a state that is updated twice."""
        return {update.state: update.tensor for update in self.desc.updates}

    @cached_property
    def ends(self) -> list[str]:
        """The tensors that the end of the step reads: fetches, updates and results."""
        desc = self.desc
        return [*(f.tensor for f in desc.fetches), *(u.tensor for u in desc.updates), *desc.results]

    @cached_property
    def use_def(self) -> UseDef:
        """The use-def chains."""
        return UseDef(self.parameter_names, self.inputs, self.outputs, self.ends)

    def copied_to(self, desc: pb.BlockDesc) -> BlockAnalysis:
        """Fill an empty message with a copy of this block, and return its reading."""
        copy = BlockAnalysis(desc, self._find)
        copy.become(self)
        return copy

    def version(self, desc: pb.BlockDesc) -> BlockAnalysis:
        """Return the reading of another version of this block, whose ops have the same blocks inside them."""
        return BlockAnalysis(desc, self._find)

    def become(self, other: BlockAnalysis) -> None:
        """Replace the content of the block by that of another one."""
        if other is self:
            return
        self.desc.CopyFrom(other.desc)
        self.forget()
        for column in (
            *_READ,
            "kinds",
            "names",
            "types",
            "parameter_names",
            "state_of",
            "arguments",
            "updates",
            "ends",
        ):
            if column in other.__dict__:
                self.__dict__[column] = other.__dict__[column].copy()
        self._kinds.update(other._kinds)
        self.answers = other.answers

    def keep_ops(self, keep: Sequence[bool]) -> None:
        """Delete the ops whose element in `keep` is False."""
        _keep(self.desc.ops, keep)
        self._move((*_READ, "ops", "kinds"), lambda column: [*compress(column, keep)])
        self._edited()

    def reorder_ops(self, order: Sequence[int]) -> None:
        """Put the ops into another order, given by their positions."""
        position = {self.ids[i]: place for place, i in enumerate(order)}
        self.desc.ops.sort(key=lambda op: position[op.id])
        self._move((*_READ, "ops", "kinds"), lambda column: [column[i] for i in order])
        self._edited(self.answers.reordered(order))

    def keep_tensors(self, keep: Sequence[bool]) -> None:
        """Delete the descriptions whose element in `keep` is False."""
        _keep(self.desc.tensors, keep)
        self._move(("tensors", "names"), lambda column: [*compress(column, keep)])
        self._move(("types",), lambda types: {name: types[name] for name in self.names})
        self._edited()

    def order_tensors(self, position: Mapping[str, int]) -> None:
        """Sort the descriptions by these positions of their names."""
        order = sorted(range(len(self.names)), key=[position[name] for name in self.names].__getitem__)
        self.desc.tensors.sort(key=lambda tensor: position[tensor.name])
        self._move(("tensors", "names"), lambda column: [column[i] for i in order])

    def retype(self, now: Mapping[TensorType, TensorType]) -> None:
        """Replace the types of tensors by this mapping."""
        for name, tensor in zip(self.names, self.tensors, strict=True):
            old = self.types[name]
            new = self.types[name] = now.get(old, old)
            if new is not old:
                tensor.dtype = NUMBERS[new.dtype]
                tensor.shape.CopyFrom(shape_message(new.shape))
        if "kinds" in self.__dict__:
            kinds = {kind: self._retyped(kind, now) for kind in dict.fromkeys(self.kinds)}
            self.kinds = [kinds[kind] for kind in self.kinds]
        self._edited()

    def keep_parameters(self, keep: Sequence[bool]) -> None:
        """Delete the parameters whose element in `keep` is False."""
        _keep(self.desc.parameters, keep)
        self.ends_edited()

    def read_again(self, i: int) -> None:
        """Read op number i again, after an edit of its message."""
        for column, read in _READ.items():
            if column in self.__dict__:
                self.__dict__[column][i] = read(self.ops[i])
        if "kinds" in self.__dict__:
            types = self.types
            inputs = [types[name] if name else None for name in self.inputs[i]]
            outputs = [types[name] for name in self.outputs[i]]
            self.kinds[i] = self._kind(self.op_types[i], self.attributes[i], inputs, outputs)
        self._edited()

    def ends_edited(self) -> None:
        """Read parameters, fetches, updates and results again, after an edit of the message."""
        for column in ("parameters", "parameter_names", "state_of", "arguments", "updates", "ends"):
            self.__dict__.pop(column, None)
        self._edited()

    def forget(self) -> None:
        """Drop all columns and answers, after edits in many parts of the message; they are read again on demand."""
        for column in (*_READ, "ops", "kinds", "tensors", "names", "types"):
            self.__dict__.pop(column, None)
        self.ends_edited()

    def _kind(
        self,
        op_type: str,
        attributes: tuple[bytes, ...],
        inputs: Sequence[TensorType | None],
        outputs: Sequence[TensorType],
    ) -> Kind:
        key = op_type, attributes, *map(id, inputs), 0, *map(id, outputs)  # there are few type objects
        kind = self._kinds.get(key)
        if kind is None:  # keeps the types alive as long as the key has their ids
            kind = self._kinds[key] = Kind(op_type, tuple(inputs), tuple(outputs), attributes)
        return kind

    def _retyped(self, kind: Kind, now: Mapping[TensorType, TensorType]) -> Kind:
        inputs = [None if type is None else now.get(type, type) for type in kind.inputs]
        return self._kind(kind.op_type, kind.written, inputs, [now.get(type, type) for type in kind.outputs])

    def _move(self, columns: Iterable[str], move: Callable[[Any], object]) -> None:
        for column in columns:
            if column in self.__dict__:
                self.__dict__[column] = move(self.__dict__[column])

    def _edited(self, answers: Answers | None = None) -> None:
        self.__dict__.pop("use_def", None)
        self.__dict__.pop("has_sub_blocks", None)
        self.answers = answers or Answers()


def _attributes(op: pb.OpDesc) -> tuple[bytes, ...]:
    return tuple([attribute.SerializeToString() for attribute in op.attributes])


_READ: Final[dict[str, Callable[[pb.OpDesc], Any]]] = {
    "ids": lambda op: op.id,
    "stages": lambda op: op.stage,
    "op_types": lambda op: op.type,
    "inputs": lambda op: op.inputs[:],
    "outputs": lambda op: op.outputs[:],
    "attributes": _attributes,
    "blocks": lambda op: op.blocks[:],
}
"""Functions that read the value of each column from an op."""


def _keep(field: object, keep: Sequence[bool]) -> None:
    """Delete the runs of elements that are not kept, from the back."""
    stop = len(keep)
    for i in reversed(range(-1, len(keep))):
        if i < 0 or keep[i]:
            if i + 1 < stop:
                del field[i + 1 : stop]  # pyright: ignore[reportIndexIssue, reportUnknownMemberType]: a repeated field
            stop = i
