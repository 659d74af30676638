"""Control flow in a program: the ops that run blocks, the order of their operands, and their types.

* `cond(predicate, *operands)` has two blocks, for true and for false. Both get the operands after the predicate, and
  give as many results of the same types, which are the op's outputs.
* `scan(*operands)` has one block, the body, which runs once for each row. The operands are the number of trips of a
  counted scan, the first values of the carries, the arrays whose rows are read, and tensors that all iterations share.
  The body gives the next values of the carries, then one row of each further output.
* `while_loop(*operands)` has two blocks, the condition and the body. The operands are the first values of the carries
  and shared tensors. The outputs are the last values of the carries, the number of trips, and rows that are saved.

Arguments of a block are numbered like the operands after the predicate or the number of trips. A block
has parameters for the arguments that it reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from prograd_proto import program_pb2 as pb
from prograd_proto.errors import ProgramError
from prograd_proto.tensor_types import TensorType, type_of

COND: Final = "cond"
SCAN: Final = "scan"
WHILE: Final = "while_loop"

ATTRIBUTES: Final[Mapping[str, Mapping[str, str]]] = {
    COND: {},
    SCAN: {"carries": "int", "rows": "int", "length": "shape", "counted": "bool", "reverse": "bool", "save": "string"},
    WHILE: {"carries": "int", "max_trips": "int", "save": "string"},
}
"""The attributes of each op that runs blocks, with their kinds, in the order in which they are stored."""

BLOCKS: Final[Mapping[str, tuple[str, ...]]] = {
    COND: ("branch for true", "branch for false"),
    SCAN: ("body",),
    WHILE: ("condition", "body"),
}
"""The roles of the blocks of each op, in their order."""

SAVES: Final = ("all", "carries")
"""The tensors that an iteration stores for the gradient: all, or the carries, from which others are computed again."""

MAX_DEPTH: Final = 16
"""Upper bound on blocks inside blocks."""

MAX_TRIPS: Final = 1 << 40
"""Upper bound on the rows of a scan and on `max_trips`."""

INDEX: Final = TensorType("int64", ())
PREDICATE: Final = TensorType("bool", ())


class BlockTypes(NamedTuple):
    """The types of a block's parameters, by argument, and of its results."""

    arguments: Mapping[int, TensorType]
    results: tuple[TensorType, ...]


class Layout(NamedTuple):
    """The positions of a control-flow op's operands.

    Attributes:
        first: operands before the arguments of the blocks: the predicate, or the number of trips of a counted scan.
        carries: how many arguments are carries; they come first.
        rows: how many arguments after them are read row by row.
    """

    first: int
    carries: int
    rows: int


def layout_of(op_type: str, attributes: Mapping[str, Any]) -> Layout:
    """Return the positions of the operands of an op of control flow."""
    if op_type == COND:
        return Layout(1, 0, 0)
    if op_type == WHILE:
        return Layout(0, attributes["carries"], 0)
    return Layout(int(attributes["counted"]), attributes["carries"], attributes["rows"])


def block_types(block: pb.BlockDesc) -> BlockTypes:
    """Return the types of a block that lies inside an op; raise ProgramError if it reads anything from outside."""
    types = {tensor.name: type_of(tensor) for tensor in block.tensors}
    arguments: dict[int, TensorType] = {}
    for parameter in block.parameters:
        if parameter.WhichOneof("source") != "argument":
            raise ProgramError(f"the parameter %{parameter.tensor} of a block inside an op is no argument")
        if parameter.argument in arguments:
            raise ProgramError(f"two parameters are the argument {parameter.argument}")
        if parameter.tensor not in types:
            raise ProgramError(f"the parameter %{parameter.tensor} is not described")
        arguments[parameter.argument] = types[parameter.tensor]
    for name in block.results:
        if name not in types:
            raise ProgramError(f"the result %{name} is not described")
    if block.updates or block.fetches:
        raise ProgramError("a block inside an op updates a state or has a fetch; only a block of an entry does")
    return BlockTypes(arguments, tuple(types[name] for name in block.results))


def result_types(
    op_type: str,
    operands: Sequence[TensorType | None],
    attributes: Mapping[str, Any],
    blocks: Sequence[BlockTypes],
) -> tuple[TensorType, ...]:
    """Return the output types of an op of control flow; raise ProgramError if its parts do not fit together."""
    names = BLOCKS[op_type]
    _require(len(blocks) == len(names), f"it has {len(blocks)} blocks, and takes {len(names)}: {', '.join(names)}")
    inputs = [type for type in operands if type is not None]
    _require(len(inputs) == len(operands), "one of its operands is absent")
    layout = layout_of(op_type, attributes)
    _require(layout.carries >= 0 and layout.rows >= 0, "its number of carries or rows is negative")
    _require(len(inputs) >= sum(layout), f"it has {len(inputs)} operands, fewer than the {sum(layout)} it counts")
    if op_type == COND:
        return _cond(inputs, blocks)
    _require(attributes["save"] in SAVES, f"save={attributes['save']!r} is neither 'all' nor 'carries'")
    return _scan(inputs, attributes, layout, blocks[0]) if op_type == SCAN else _while(inputs, attributes, blocks)


def _cond(inputs: Sequence[TensorType], blocks: Sequence[BlockTypes]) -> tuple[TensorType, ...]:
    _require(inputs[0] == PREDICATE, f"its predicate is {inputs[0]}, not {PREDICATE}")
    for name, block in zip(BLOCKS[COND], blocks, strict=True):
        _require_arguments(name, block, inputs[1:])
    one, other = (block.results for block in blocks)
    _require(one == other, f"its branches give {_shown(one)} and {_shown(other)}")
    _require(bool(one), "its branches give nothing")
    return one


def _scan(
    inputs: Sequence[TensorType], attributes: Mapping[str, Any], layout: Layout, body: BlockTypes
) -> tuple[TensorType, ...]:
    first, carries, rows = layout
    _require(len(attributes["length"]) == 1, "its length is not one extent")
    [length] = attributes["length"]
    _require(not isinstance(length, int) or 0 <= length <= MAX_TRIPS, f"it has {length} rows, not 0 to {MAX_TRIPS}")
    _require(not first or inputs[0] == INDEX, f"its number of trips is {inputs[0]}, not {INDEX}")
    arguments = list(inputs[first:])
    for k in range(carries, carries + rows):
        shape = arguments[k].shape
        _require(bool(shape) and shape[0] == length, f"it reads {length} rows of {arguments[k]}")
        arguments[k] = TensorType(arguments[k].dtype, shape[1:])
    _require_arguments("body", body, arguments)
    _require_carries(arguments[:carries], body)
    _require(bool(body.results), "its body gives nothing")
    return (*arguments[:carries], *(TensorType(t.dtype, (length, *t.shape)) for t in body.results[carries:]))


def _while(
    inputs: Sequence[TensorType], attributes: Mapping[str, Any], blocks: Sequence[BlockTypes]
) -> tuple[TensorType, ...]:
    carries, most = attributes["carries"], attributes["max_trips"]
    _require(0 <= most <= MAX_TRIPS, f"max_trips={most} is not 0, for none, to {MAX_TRIPS}")
    condition, body = blocks
    _require_arguments("condition", condition, inputs)
    _require_arguments("body", body, inputs)
    _require(condition.results == (PREDICATE,), f"its condition gives {_shown(condition.results)}, not {PREDICATE}")
    _require_carries(inputs[:carries], body)
    _require(carries > 0, "it has no carries, so its condition never changes")
    saved = body.results[carries:]
    _require(not saved or most > 0, "it saves rows, and has no bound of their number")
    return (*inputs[:carries], INDEX, *(TensorType(type.dtype, (most, *type.shape)) for type in saved))


def _require_arguments(name: str, block: BlockTypes, arguments: Sequence[TensorType]) -> None:
    for number, type in block.arguments.items():
        _require(number < len(arguments), f"its {name} reads the argument {number}, and there are {len(arguments)}")
        wanted = arguments[number]
        _require(type == wanted, f"the argument {number} of its {name} is {type}, and it is given {wanted}")


def _require_carries(carries: Sequence[TensorType], body: BlockTypes) -> None:
    given = body.results[: len(carries)]
    _require(tuple(carries) == given, f"its carries are {_shown(carries)}, and its body gives {_shown(given)}")


def _shown(types: Sequence[TensorType]) -> str:
    return f"({', '.join(map(str, types))})"


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ProgramError(message)
