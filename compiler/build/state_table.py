"""The states that a program declares: their descriptions, with the ops of their initial values."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from compiler.train.initialisers import FromFile, Initialiser
from prograd_proto import TensorType
from prograd_proto import program_pb2 as pb
from prograd_proto.dtypes import NUMBERS
from prograd_proto.files import copy_of
from prograd_proto.tensor_types import shape_message
from registry import Block, OpError, Value


class StateTable:
    """The states of one program.

    `descs` has their messages by name. `locate` returns the location number of the user's current line, `streams` the
    next random streams.
    """

    def __init__(self, locate: Callable[[], int], streams: Iterator[int]) -> None:
        self.descs: dict[str, pb.StateDesc] = {}
        self._locate = locate
        self._streams = streams
        self._ops: dict[tuple[Initialiser, TensorType], pb.OpDesc] = {}

    def add(
        self, name: str, type: TensorType, kind: pb.StateKind, initial: Initialiser | FromFile | None = None
    ) -> pb.StateDesc:
        """Describe a new state; without an initial value the runtime sets it, as for counters.

        Initial ops compute float32 for 16-bit floats, and the state stores the rounded value.
        """
        state = pb.StateDesc(
            name=name,
            dtype=NUMBERS[type.dtype],
            shape=shape_message(type.shape),
            kind=kind,
            lifespan=pb.LIFESPAN_ALWAYS,
        )
        if isinstance(initial, FromFile):
            state.external.path, state.external.key = initial.path, initial.key or name
        elif initial is not None:
            state.op.CopyFrom(self._initial_op(name, type.wide, initial))
        self.descs[name] = state
        return state

    def begin_like(self, state: pb.StateDesc, other: str) -> None:
        """Give a state the initial value of another state, which has the same type or its 16-bit form."""
        begin = self.descs[other]
        if begin.WhichOneof("initial") == "external":
            state.external.CopyFrom(begin.external)
        else:
            state.op.CopyFrom(begin.op)
            state.op.outputs[:] = [state.name]

    def trainable(self) -> list[str]:
        """Return the names of the parameters that are not frozen."""
        return [name for name, state in self.descs.items() if state.trainable]

    def _initial_op(self, name: str, type: TensorType, initial: Initialiser) -> pb.OpDesc:
        is_first = (initial, type) not in self._ops
        if is_first:
            self._ops[initial, type] = self._made(name, type, initial)
        op = copy_of(self._ops[initial, type])
        op.id, op.outputs[:] = 1, [name]
        op.location = self._locate()
        if op.random_stream and not is_first:
            op.random_stream = next(self._streams)
        return op

    def _made(self, name: str, type: TensorType, initial: Initialiser) -> pb.OpDesc:
        block = Block(locate=self._locate, streams=self._streams, state=lambda state: _counter(block, state))
        value = initial(block, type)
        if value.type != type or len(block.desc.ops) != 1:
            raise OpError(f"the initialiser of {name!r} does not make {type} by one op")
        return block.desc.ops[0]


def _counter(block: Block, name: str) -> Value:
    return block.value(name) if name in block.types else block.define(name, TensorType("int64", ()))
