"""The rules of a well-formed program: for each a smallest program that breaks it, and the sentence."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from subjects.commands import told

from compiler import CompileError, Program, constant, ops, sgd
from compiler.passes.verify import BLOCK_RULES, PROGRAM_RULES, verify
from prograd_proto import program_pb2 as pb
from prograd_proto.attributes import attribute_message
from prograd_proto.blocks import BlockAnalyses
from prograd_proto.tensor_types import shape_message

Change = Callable[[pb.ProgramDesc, pb.BlockDesc], object]


def good() -> pb.ProgramDesc:
    """w is trained on the mean of its exponentials."""
    program = Program()
    x = program.input("x", "float32", ("n", 3))
    w = program.parameter("w", (3,), constant(0.5))
    loss = ops.mean(ops.exp(x * w))
    program.minimize(loss, sgd(0.1))
    return program.compile(n=2).desc


def lose_a_part(p: pb.ProgramDesc, b: pb.BlockDesc) -> None:
    """A weight that is used twice: its gradient is the sum of two, of which one is made to count twice."""
    program = Program()
    x = program.input("x", "float32", (2, 3))
    w = program.parameter("w", (3, 3), constant(0.5))
    program.minimize(ops.mean(ops.tanh(x @ w) @ w), sgd(0.1))
    p.CopyFrom(program.compile().desc)
    block = p.blocks[p.entries[0].bindings[0].block]
    parts = [op.outputs[0] for op in block.ops if op.type == "outer_sum"]
    total = next(op for op in block.ops if list(op.inputs) in (parts, parts[::-1]))
    total.inputs[1] = total.inputs[0]


def op_of(block: pb.BlockDesc, type: str) -> pb.OpDesc:
    return next(op for op in block.ops if op.type == type)


def tensor_of(block: pb.BlockDesc, name: str) -> pb.TensorDesc:
    return next(tensor for tensor in block.tensors if tensor.name == name)


ONCE = "every tensor has a name, is described once and defined once"
BEFORE = "every op reads only tensors that a parameter or an earlier op defines, so the order has no cycle"
IDS = "every op has an id of its own, from 1"
TYPES = "every op is known, has all its operands and attributes, and outputs of the types that inference gives"
STATES = "one tensor stands for a state; it has the state's type, and so has the one that becomes its value"
UPDATES = "every block updates a state at most once; one that trains updates every trainable parameter it reads"

AGAIN = "every op that recomputes another one follows it, has its type, attributes and random stream, and no effects"
HELPS = "every op that helps to differentiate names an op that existed before it, a forward op unless that was removed"
LOST = "every op of a planned block is read or has an effect, so no part of a gradient is lost"
LIFESPANS = "every tensor is defined and read, itself or through a view, only within its declared lifespan"
INSIDE = "every block inside an op exists, belongs to no entry, and is not inside itself or another op"
TAKES = "no op has sub-blocks unless its operator runs them, and such an op has them"
EFFECTS = "no op in a block of another op has an effect besides its results"


def put_inside(p: pb.ProgramDesc, b: pb.BlockDesc) -> None:
    """An empty block inside the op number 3."""
    op_of(b, "exp").blocks.append(len(p.blocks))
    p.blocks.add()


def put_an_effect_inside(p: pb.ProgramDesc, b: pb.BlockDesc) -> None:
    """A loop in place of the op number 3, in which an op writes to the file."""
    put_inside(p, b)
    op_of(b, "exp").type = "scan"
    p.blocks[-1].ops.add(id=1, type="spill")


BROKEN: list[tuple[str, Change, str, str]] = [
    (
        "two states of one name",
        lambda p, b: p.states.add().CopyFrom(p.states[3]),
        "the state 'w' is there twice or has a symbol in its shape",
        "every state has a name of its own and a static shape",
    ),
    (
        "a state with a symbol",
        lambda p, b: p.states[3].shape.dims.add(symbol="n"),
        "the state 'w' is there twice or has a symbol in its shape",
        "every state has a name of its own and a static shape",
    ),
    (
        "a state of a negative size",
        lambda p, b: setattr(p.states[3].shape.dims[0], "size", -1),
        "the state 'w': float32[-1] has a negative extent",
        "no state has a size that every run refuses",
    ),
    (
        "a tensor that is too large",
        lambda p, b: setattr(tensor_of(b, "exp_2").shape.dims[-1], "size", 1 << 40),
        "block 0: %exp_2: float32[n, 1099511627776] is larger than a tebibyte",
        "no tensor has a size that every run refuses",
    ),
    (
        "a tensor without elements that is too large",
        lambda p, b: tensor_of(b, "exp_2").shape.CopyFrom(shape_message((0, 1 << 40))),
        "block 0: %exp_2: float32[0, 1099511627776] has no elements and too many places for them",
        "no tensor has a size that every run refuses",
    ),
    (
        "a long name",
        lambda p, b: b.tensors.add(name="x" * 1001, shape=pb.Shape(), dtype=pb.D_TYPE_FLOAT32),
        f"block 0: %{'x' * 40}… has 1001 characters",
        "every name of a tensor has at most 1,000 characters",
    ),
    ("a tensor without a name", lambda p, b: b.tensors.add(name=""), "block 0: a tensor has no name", ONCE),
    (
        "an end that reads nothing",
        lambda p, b: setattr(b.fetches[0], "tensor", ""),
        "block 0: the end of the step reads %",
        BEFORE,
    ),
    (
        "an entry without its block",
        lambda p, b: setattr(p.entries[1].bindings[0], "block", 99),
        "the entry 'evaluate' is there twice or has a block that does not exist",
        "every entry has a name of its own and blocks that exist",
    ),
    (
        "two entries of one name",
        lambda p, b: setattr(p.entries[1], "name", "train"),
        "the entry 'train' is there twice or has a block that does not exist",
        "every entry has a name of its own and blocks that exist",
    ),
    (
        "one stream for two operators",
        lambda p, b: [setattr(op_of(b, type), "random_stream", 7) for type in ("mul", "exp")],
        "block 0: op 2 (exp) draws from the stream of an op of another type",
        "within a block ops of one random stream draw the same numbers: they have the same type",
    ),
    (
        "a line that is not in the table",
        lambda p, b: setattr(op_of(b, "exp"), "location", 255),
        "block 0: op 2 (exp) has line 255 of 3",
        "every op has a line of the program's table, or none",
    ),
    (
        "a parameter that lasts an epoch",
        lambda p, b: setattr(p.states[3], "lifespan", pb.LIFESPAN_EPOCH),
        "the parameter 'w' lasts an epoch",
        "every parameter, slot and counter outlives an epoch: only a buffer lasts an epoch",
    ),
    (
        "an order of additions that there is not",
        lambda p, b: setattr(p, "bfloat16_order", 7),
        "the order 7 of products of bfloat16",
        "products of bfloat16 add in an order that this version has",
    ),
    (
        "an evaluation that trains",
        lambda p, b: setattr(p.run.evaluate, "entry", "train"),
        "the run evaluates the entry 'train', which trains",
        "no entry that a run evaluates updates a state that outlives an epoch",
    ),
    ("a tensor described twice", lambda p, b: b.tensors.add(name="x"), "block 0: %x is described twice", ONCE),
    (
        "a tensor that is not described",
        lambda p, b: op_of(b, "exp").outputs.__setitem__(0, "gone"),
        "block 0: %gone is not described",
        ONCE,
    ),
    (
        "a tensor that nothing defines",
        lambda p, b: b.tensors.add(name="extra", dtype=pb.D_TYPE_FLOAT32),
        "block 0: %extra is described, and nothing defines it",
        ONCE,
    ),
    (
        "a tensor defined twice",
        lambda p, b: b.parameters.add(tensor="x", feed="other"),
        "block 0: %x is defined twice",
        ONCE,
    ),
    (
        "a use before the definition",
        lambda p, b: op_of(b, "mul").inputs.__setitem__(0, "exp_2"),
        "block 0: op 1 (mul) reads %exp_2",
        BEFORE,
    ),
    (
        "a fetch of nothing",
        lambda p, b: b.fetches.add(name="z", tensor="gone"),
        "block 0: the end of the step reads %gone",
        BEFORE,
    ),
    (
        "two ops of one id",
        lambda p, b: setattr(op_of(b, "exp"), "id", 1),
        "block 0: op 1 (exp) has the id 0 or that of another op",
        IDS,
    ),
    (
        "a repetition of another operator",
        lambda p, b: setattr(op_of(b, "exp"), "recompute_of", 1),
        "block 0: op 2 (exp) is no repetition of op 1",
        AGAIN,
    ),
    (
        "a repetition of a later op",
        lambda p, b: setattr(op_of(b, "mul"), "recompute_of", 2),
        "block 0: op 1 (mul) is no repetition of op 2",
        AGAIN,
    ),
    (
        "an op without an id",
        lambda p, b: setattr(op_of(b, "exp"), "id", 0),
        "block 0: op 0 (exp) has the id 0 or that of another op",
        IDS,
    ),
    (
        "a missing attribute",
        lambda p, b: op_of(b, "mean").attributes.pop(),
        "block 0: op 3 (mean) has the attributes axes: ints; its operator takes axes: ints, keepdims: bool",
        TYPES,
    ),
    (
        "an attribute of another kind",
        lambda p, b: op_of(b, "mean").attributes[0].CopyFrom(attribute_message("axes", "int", 0)),
        "block 0: op 3 (mean) has the attributes axes: int, keepdims: bool; its operator takes axes: ints, "
        "keepdims: bool",
        TYPES,
    ),
    (
        "an attribute of another name",
        lambda p, b: op_of(b, "mean").attributes[0].CopyFrom(attribute_message("axis", "ints", (0,))),
        "block 0: op 3 (mean) has the attributes axis: ints, keepdims: bool ('axes' was probably meant); its operator "
        "takes axes: ints, keepdims: bool",
        TYPES,
    ),
    (
        "a missing operand",
        lambda p, b: op_of(b, "mul").inputs.pop(),
        "block 0: op 1 (mul) has the operands ['x']",
        TYPES,
    ),
    (
        "an absent operand that is not optional",
        lambda p, b: op_of(b, "mul").inputs.__setitem__(1, ""),
        "block 0: op 1 (mul) has the operands ['x', '']",
        TYPES,
    ),
    (
        "a wrong type",
        lambda p, b: setattr(tensor_of(b, "exp_2"), "dtype", pb.D_TYPE_FLOAT64),
        "block 0: op 2 (exp) gives float32[n, 3], not float64[n, 3]",
        TYPES,
    ),
    (
        "a state's tensor of another type",
        lambda p, b: setattr(p.states[3], "dtype", pb.D_TYPE_FLOAT64),
        "block 0: %w is not of the type of the state 'w'",
        STATES,
    ),
    (
        "an update of another type",
        lambda p, b: setattr(b.updates[0], "tensor", "x"),
        "block 0: %x is not of the type of the state 'w'",
        STATES,
    ),
    (
        "an update of no state",
        lambda p, b: setattr(b.updates[0], "state", "gone"),
        "block 0: %{new} is not of the type of the state 'gone'",
        STATES,
    ),
    (
        "two tensors for a state",
        lambda p, b: (
            b.parameters.add(tensor="w again", state="w"),
            b.tensors.add().CopyFrom(tensor_of(b, "w")),
            setattr(b.tensors[-1], "name", "w again"),
        ),
        "block 0: two tensors stand for the state 'w'",
        STATES,
    ),
    (
        "two updates of a state",
        lambda p, b: b.updates.add().CopyFrom(b.updates[0]),
        "block 0: the state 'w' is updated twice",
        UPDATES,
    ),
    (
        "a parameter that is not trained",
        lambda p, b: b.updates.remove(b.updates[0]),
        "block 0: the trainable parameter 'w' is read and not updated",
        UPDATES,
    ),
    (
        "an op that differentiates a later one",
        lambda p, b: setattr(op_of(b, "sgd"), "gradient_of", op_of(b, "sgd").id + 1),
        "block 0: op {sgd} (sgd) helps to differentiate op 16, which was not there before it",
        HELPS,
    ),
    (
        "an op that differentiates itself",
        lambda p, b: setattr(op_of(b, "sgd"), "gradient_of", op_of(b, "sgd").id),
        "block 0: op {sgd} (sgd) helps to differentiate op {sgd}, which was not there before it",
        HELPS,
    ),
    (
        "an op that differentiates one of the backward pass",
        lambda p, b: [setattr(op_of(b, "exp"), "stage", pb.STAGE_DERIVATIVE)],
        "block 0: op 9 (mul) helps to differentiate op 2, whose stage is derivative",
        HELPS,
    ),
    ("a gradient with a part that is lost", lose_a_part, "block 2: op 10 (matmul) computes what nothing reads", LOST),
    (
        "a tensor read after it was to be gone",
        lambda p, b: setattr(tensor_of(b, "exp_2"), "lifespan", pb.LIFESPAN_FORWARD),
        "block 0: op 9 (mul) of the backward pass reads %exp_2, which lasts forward",
        LIFESPANS,
    ),
    (
        "a tensor that lasts an epoch",
        lambda p, b: setattr(tensor_of(b, "exp_2"), "lifespan", pb.LIFESPAN_EPOCH),
        "block 0: %exp_2 lasts epoch; a tensor lasts forward, backward or iteration",
        LIFESPANS,
    ),
    (
        "a state with a lifespan of a tensor",
        lambda p, b: setattr(tensor_of(b, "w"), "lifespan", pb.LIFESPAN_FORWARD),
        "block 0: %w stands for a state, which has a lifespan of its own",
        LIFESPANS,
    ),
    (
        "an effect in a sub-block",
        put_an_effect_inside,
        "block 0: op 2 (scan): in a block of it op 1 (spill) has an effect",
        EFFECTS,
    ),
    ("an op with a sub-block", put_inside, "block 0: op 2 (exp) has a sub-block", TAKES),
    (
        "a sub-block of two ops",
        lambda p, b: [put_inside(p, b), op_of(b, "mul").blocks.append(len(p.blocks) - 1)],
        "block 0: op 2 (exp) has the sub-block 5, which has another place",
        INSIDE,
    ),
    (
        "a sub-block that an entry runs",
        lambda p, b: op_of(p.blocks[1], "exp").blocks.append(0),
        "block 1: op 2 (exp) has the sub-block 0, which has another place",
        INSIDE,
    ),
]


def test_a_good_program_breaks_no_rule():
    verify(BlockAnalyses(good()))


@pytest.mark.parametrize(("change", "fault", "law"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN])
def test_a_broken_rule_is_reported_with_its_place_and_its_words(change: Change, fault: str, law: str):
    program = good()
    block = program.blocks[0]
    names = {"new": block.updates[0].tensor, "sgd": op_of(block, "sgd").id, "add": op_of(block, "add").id}
    names["one"] = op_of(block, "add").inputs[1]
    change(program, block)
    with pytest.raises(CompileError) as error:
        verify(BlockAnalyses(program))
    assert str(error.value) == f"{fault.format(**names)}; this breaks the rule: {law}"


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda desc: desc.ClearField("shape"), "'x' has no shape; that of a scalar is there, and empty"),
        (lambda desc: desc.shape.dims[0].ClearField("extent"), "'x': an extent is neither a size nor a symbol"),
    ],
)
def test_a_tensor_has_a_shape_and_every_extent_says_something(change: Callable[[pb.TensorDesc], None], fault: str):
    program = good()
    change(tensor_of(program.blocks[0], "x"))
    assert told(CompileError, lambda: verify(BlockAnalyses(program))) == f"block 0: {fault}"


def test_every_rule_is_broken_by_one_of_these_programs():
    laws = {law for _, _, _, law in BROKEN}
    written = [(rule.__doc__ or "").rstrip(".") for rule in (*PROGRAM_RULES, *BLOCK_RULES)]
    assert {doc[0].lower() + doc[1:] for doc in written} == laws


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda b: setattr(op_of(b, "exp"), "type", "exq"), "block 0: there is no operator 'exq'; did you mean 'exp'?"),
        (lambda b: setattr(b.tensors[0], "dtype", 99), "block 0: 'x' has no known dtype (number 99)"),
        (
            lambda b: op_of(b, "mean").attributes[0].ClearField("ints_value"),
            "block 0: the attribute 'axes' has no value",
        ),
        (
            lambda b: op_of(b, "mean").attributes[0].ints_value.values.append(7),
            "block 0: axis 7 is out of range for rank 2",
        ),
    ],
)
def test_what_cannot_be_read_at_all_is_said_with_its_block(change: Callable[[pb.BlockDesc], object], sentence: str):
    program = good()
    change(program.blocks[0])
    assert told(CompileError, lambda: verify(BlockAnalyses(program))) == sentence


def test_a_block_that_was_looked_at_is_not_looked_at_again_unless_it_or_a_state_changed():
    program = good()
    known: set[bytes] = set()
    verify(BlockAnalyses(program), known)
    assert len(known) == len({block.SerializeToString() for block in program.blocks})
    before = set(known)
    verify(BlockAnalyses(program), known)
    assert known == before
    program.states[3].dtype = pb.D_TYPE_FLOAT64
    with pytest.raises(CompileError):
        verify(BlockAnalyses(program), known)
