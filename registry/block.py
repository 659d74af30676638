"""Block: a BlockDesc under construction, with the types of its tensors."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from prograd_proto import TensorType
from prograd_proto import program_pb2 as pb
from prograd_proto.dtypes import NUMBERS
from prograd_proto.elements import scalar_bytes
from prograd_proto.files import copy_of
from prograd_proto.settings import Interval
from prograd_proto.tensor_types import tensor_desc, type_of
from registry.errors import OpError
from registry.table import OPS
from registry.value import Value


class Differentiation(NamedTuple):
    """One differentiation, as tensor names; `first` is the id of the first op that it appended."""

    first: int
    targets: tuple[str, ...]
    inputs: tuple[str, ...]
    seeds: tuple[str, ...]  # "" for a seed of ones
    constants: frozenset[str]
    results: tuple[str, ...]  # "" where no target depends on the input


class Setting(NamedTuple):
    """A setting of a program under construction: its default value and the interval of its values."""

    number: float
    interval: Interval


def streams_from(first: int) -> Iterator[int]:
    """Return the random streams from `first` on; unlike `itertools.count`, they can be copied with their program."""
    return iter(range(first, 1 << 31))


class Block:
    """A block under construction.

    `desc` is the message that grows. `locate` returns the location number of the user's current line, `streams` the
    next random streams, and `state` the tensor that stands for a state of the program. `program` is the program that
    the block grows for, in which a function of its tensors may declare states; None for a block of its own. `settings`
    has the settings of the program by name.
    """

    def __init__(
        self,
        desc: pb.BlockDesc | None = None,
        *,
        locate: Callable[[], int] = lambda: 0,
        location_text: Callable[[int], str] = lambda number: "",
        streams: Iterator[int] | None = None,
        state: Callable[[str], Value] | None = None,
        program: object = None,
    ) -> None:
        self.program = program
        self.desc = pb.BlockDesc() if desc is None else desc
        self.tensors = {tensor.name: tensor for tensor in self.desc.tensors}
        self.types = {tensor.name: type_of(tensor) for tensor in self.desc.tensors}
        self.state_tensors = {p.tensor for p in self.desc.parameters if p.WhichOneof("source") == "state"}
        self.location_text = location_text
        self.next_id = 1 + max((op.id for op in self.desc.ops), default=0)
        self.differentiations: list[Differentiation] = []
        self.weights: dict[str, str] = {}  # weighted means, with the scalar that is the weight of each
        self.settings: dict[str, Setting] = {}
        self.weak: set[str] = set()  # settings and values computed from them, which adopt the other operand's dtype
        self._locate = locate
        self._streams = streams_from(1) if streams is None else streams
        self._state = state
        self._constants: dict[tuple[str, bytes], Value] = {}
        self._location: int | None = None
        self._gradient_of = 0
        self.prefix = ""  # prefix of the names of tensors that forward ops compute
        self._stage: pb.Stage = pb.STAGE_FORWARD
        self.root = self  # the block of an entry, in which all others lie
        self.parent: Block | None = None
        self.what = ""  # of a block inside an op: the op, for messages
        self.active = self  # of a root: the block that calls append to
        self.bodies: list[pb.BlockDesc] = []  # of a root: the blocks inside ops, by the numbers that ops give them
        self.captured: dict[str, Value] = {}  # of a block inside an op: outer tensors, by the tensor that has each here
        self.counter: Callable[[], Value] | None = None  # of the body of a loop: the number of the iteration
        self._drawing_step: Value | None = None

    def value(self, name: str) -> Value:
        """Return the tensor of that name; raise KeyError if the block has none."""
        return Value(self, name, self.types[name])

    @contextmanager
    def inside(self, what: str) -> Generator[Block]:
        """Yield a new block for the inside of an op of this block; until the context ends, all calls append to it."""
        inner = Block(
            locate=self._locate, location_text=self.location_text, streams=self._streams, program=self.program
        )
        inner.root, inner.parent, inner.what = self.root, self, what
        inner.settings, inner.prefix, inner._stage = self.settings, self.prefix, self._stage
        inner._location = self._location
        with inner.appending():
            yield inner

    @contextmanager
    def appending(self) -> Generator[None]:
        """Let calls append to this block."""
        before, self.root.active = self.root.active, self
        try:
            yield
        finally:
            self.root.active = before

    def taken(self, value: Value) -> Value:
        """Return the tensor in this block that stands for a value of this or an outer block.

        Raises OpError for a value of another program, or of a block that this one does not lie in.
        """
        if value.block is self:
            return value
        if value.block.root is not self.root:
            raise OpError(f"{value!r} belongs to another program; build both in one")
        if self.parent is None:
            raise OpError(f"{value!r} exists only inside {value.block.what}; let its function return it")
        outer = self.parent.taken(value)
        for name, captured in self.captured.items():
            if captured.name == outer.name:
                return self.value(name)
        inner = self.argument(outer.name, outer.type)
        self.captured[inner.name] = outer
        if outer.name in self.parent.weak:
            self.weak.add(inner.name)
        return inner

    def argument(self, name: str, type: TensorType) -> Value:
        """Return a new tensor that stands for an argument; its name is free, its parameter is declared later."""
        return self.define_free(name, type)

    def define_free(self, name: str, type: TensorType) -> Value:
        """Declare a new tensor with this name; underscores are added until the name is free."""
        while name in self.types:
            name += "_"
        return self.define(name, type)

    def drawing_step(self) -> Value:
        """Return the step that random ops draw by: in the body of a loop, another one for each iteration."""
        if self.parent is None:
            return self.state("step")
        if self._drawing_step is None:
            step = self.taken(self.parent.drawing_step())
            if self.counter is not None:
                with self.appending():  # the op that asks may lie in a condition inside this body
                    step = OPS["iteration_step"](step, self.counter())
            self._drawing_step = step
            return step
        return self._drawing_step

    def copied(self, numbers: Sequence[int]) -> list[int]:
        """Return the numbers of copies of blocks inside ops, and of the blocks inside them."""
        return [self.keep(self.root.bodies[number], copy=True) for number in numbers]

    def keep(self, body: pb.BlockDesc, *, copy: bool = False) -> int:
        """Return the number of a block for the inside of an op; with `copy` that of a copy."""
        bodies, kept = self.root.bodies, body
        if copy:
            kept = copy_of(body)
            for op in kept.ops:
                op.blocks[:] = self.copied(op.blocks)
        bodies.append(kept)
        return len(bodies) - 1

    def define(self, name: str, type: TensorType) -> Value:
        """Describe a new tensor; raise OpError if the name is taken."""
        if name in self.types:
            raise OpError(f"the name {name!r} is taken by another tensor of this program")
        self.tensors[name] = self.desc.tensors.add()
        self.tensors[name].CopyFrom(tensor_desc(name, type))
        self.types[name] = type
        return Value(self, name, type)

    def append(
        self,
        type: str,
        inputs: Sequence[str],
        outputs: Sequence[tuple[str, TensorType]],
        attributes: Sequence[pb.AttrDesc],
        *,
        random_stream: int = 0,
    ) -> list[Value]:
        """Append an op; each output has a name suffix ("" for a single output) and a type."""
        stem = self._free_stem(type, [suffix for suffix, _ in outputs])
        values = [self.define(stem + suffix, output_type) for suffix, output_type in outputs]
        self.desc.ops.add(
            id=self.next_id,
            type=type,
            inputs=inputs,
            outputs=[value.name for value in values],
            attributes=attributes,
            stage=self._stage,
            gradient_of=self._gradient_of,
            random_stream=random_stream,
            location=self.location(),
        )
        self.next_id += 1
        return values

    @contextmanager
    def stand_ins(self, values: Sequence[Value]) -> Generator[list[Value]]:
        """Yield a separate stand-in tensor for each value, even if several values are the same tensor.

        A fact recorded under the name of a stand-in applies to that use alone. On exit the appended ops read the
        original values, and the names of the stand-ins are free again.
        """
        first_tensor, first_op = len(self.desc.tensors), len(self.desc.ops)
        suffixes = [f".{i}" for i in range(len(values))]
        stem = self._free_stem("stand_in", suffixes)
        names = {stem + suffix: value.name for suffix, value in zip(suffixes, values, strict=True)}
        try:
            yield [self.define(name, value.type) for name, value in zip(names, values, strict=True)]
        finally:
            for desc in self.desc.ops[first_op:]:
                desc.inputs[:] = [names.get(name, name) for name in desc.inputs]
            del self.desc.tensors[first_tensor : first_tensor + len(names)]
            for name in names:
                del self.tensors[name], self.types[name]

    def new_stream(self) -> int:
        """Return a random stream that no other op draws from."""
        return next(self._streams)

    def constant(self, dtype: str, number: float) -> Value:
        """Return a rank-0 constant that the whole block shares; raise OpError if `dtype` cannot hold it."""
        key = (dtype, scalar_bytes(dtype, number))
        if key not in self._constants:
            tensor = pb.SmallTensor(dtype=NUMBERS[dtype], data=key[1])
            attribute = pb.AttrDesc(name="value", tensor_value=tensor)
            with self.on_behalf_of(stage=pb.STAGE_FORWARD):  # all stages share it, whichever op asks first
                [self._constants[key]] = self.append("constant", (), [("", TensorType(dtype, ()))], [attribute])
        return self._constants[key]

    def state(self, name: str) -> Value:
        """Return the tensor that stands for a state of the program; raise OpError outside a program."""
        if self.parent is not None:
            return self.taken(self.parent.state(name))
        if self._state is None:
            raise OpError(f"the state {name!r} exists only inside a Program")
        return self._state(name)

    def note_weak(self, type: str, inputs: Sequence[str], outputs: Sequence[Value]) -> None:
        """Record outputs that depend on settings and numbers only; a cast fixes the dtype."""
        if type == "cast" or self.weak.isdisjoint(inputs):
            return
        constants = {constant.name for constant in self._constants.values()}
        if all(name in self.weak or name in constants for name in inputs):
            self.weak.update(value.name for value in outputs)

    def at(self, location: int | None) -> None:
        """Give the next ops that location number; None gives them the user's current line again."""
        self._location = location

    def named(self, value: Value, name: str) -> Value:
        """Return the result of the last op under another name; raise OpError if the name is taken."""
        if name in self.types:
            raise OpError(f"the name {name!r} is taken by another tensor of this program")
        self.desc.ops[-1].outputs[list(self.desc.ops[-1].outputs).index(value.name)] = name
        tensor = self.tensors.pop(value.name)
        tensor.name = name
        self.tensors[name] = tensor
        self.types[name] = self.types.pop(value.name)
        return Value(self, name, value.type)

    def location(self) -> int:
        """Return the location number of the next op."""
        return self._locate() if self._location is None else self._location

    def line(self) -> str:
        """Return the user's line of the next op as text; "" if it is unknown."""
        return self.location_text(self.location())

    @contextmanager
    def on_behalf_of(self, *, stage: pb.Stage, op: pb.OpDesc | None = None) -> Generator[None]:
        """Give new ops that stage and, if `op` is given, its line and its number as `gradient_of`."""
        before = self._stage, self._location, self._gradient_of
        self._location = self.location() if op is None else op.location
        self._stage, self._gradient_of = stage, 0 if op is None else op.id
        try:
            yield
        finally:
            self._stage, self._location, self._gradient_of = before

    def _free_stem(self, type: str, suffixes: list[str]) -> str:
        in_scope = self._stage == pb.STAGE_FORWARD and type != "constant"  # shared by all ops, as gradients are
        stem = f"{self.prefix if in_scope else ''}{type}_{self.next_id}"
        while any(stem + suffix in self.types for suffix in suffixes):
            stem += "_"
        return stem
