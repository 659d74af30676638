"""Declaration, calls and gradients of an operator, and the errors of wrong declarations and calls."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from subjects.commands import told

from compiler import CompileError
from compiler.train.backward import gradients
from prograd_proto import TensorType, attributes_of
from prograd_proto import program_pb2 as pb
from prograd_proto.dtypes import DTypeName
from prograd_proto.tensor_types import Shape
from registry import OPS, STATE, Block, Operand, OpError, Value, op, ops
from registry.audit import audit_op
from registry.gradients import differentiate
from registry.traits import identity_operand, keeps_single

FLOAT = TensorType("float32", (2, 3))


@pytest.fixture(autouse=True)
def _forget_new_operators() -> Iterator[None]:
    known = set(OPS)
    yield
    for name in set(OPS) - known:
        del OPS[name]


@pytest.fixture
def block() -> Block:
    return Block()


@pytest.fixture
def x(block: Block) -> Value:
    return block.define("x", FLOAT)


def test_the_signature_is_the_schema():
    @op("y", "extra", no_gradient=("extra",), version=3)
    def everything(
        x: Value,
        b: Operand,
        bias: Value | None = None,
        seed: Value = STATE,
        *,
        flag: bool = False,
        count: int = 1,
        rate: float = 0.5,
        mode: str = "same",
        dtype: DTypeName = "float32",
        shape: Shape,
        axes: tuple[int, ...] = (),
        rates: tuple[float, ...] = (),
        names: tuple[str, ...] = (),
        value: pb.SmallTensor,
    ) -> tuple[TensorType, TensorType]:
        """Nothing."""
        return x.type, x.type

    signature = everything.signature
    assert (everything.name, everything.version, everything.__doc__) == ("everything", 3, "Nothing.")
    assert signature.inputs == ("x", "b", "bias", "seed")
    assert signature.numbers == {"b"}
    assert signature.defaults == {"bias": None, "seed": STATE}
    assert signature.outputs == ("y", "extra")
    assert {name: spec.kind for name, spec in signature.attributes.items()} == {
        "flag": "bool",
        "count": "int",
        "rate": "float",
        "mode": "string",
        "dtype": "dtype",
        "shape": "shape",
        "axes": "ints",
        "rates": "floats",
        "names": "strings",
        "value": "tensor",
    }
    assert [name for name, spec in signature.attributes.items() if spec.required] == ["shape", "value"]


def test_a_call_writes_every_attribute_and_names_outputs_after_the_op(block: Block, x: Value):
    y = ops.sum(x, axis=(1,))
    [desc] = block.desc.ops
    assert repr(y) == "%sum_1: float32[2]"
    assert (desc.type, list(desc.inputs), list(desc.outputs)) == ("sum", ["x"], ["sum_1"])
    assert attributes_of(desc) == {"axes": (1,), "keepdims": False}


def test_several_outputs_come_as_a_tuple_and_a_variable_number_as_a_list(block: Block, x: Value):
    @op("low", "high")
    def halves(x: Value) -> tuple[TensorType, TensorType]:
        """Nothing."""
        return x.type, x.type

    low, high = halves(x)
    assert (low.name, high.name) == ("halves_1.low", "halves_1.high")
    assert [piece.name for piece in ops.split(x, sizes=(1, 1))] == ["split_2.0", "split_2.1"]
    assert [piece.name for piece in ops.split(x, sizes=(2,))] == ["split_3.0"]


def test_an_absent_optional_operand_is_an_empty_name_and_none_in_rules(block: Block, x: Value):
    @op
    def shifted(x: Value, shift: Value | None = None) -> TensorType:
        """Nothing."""
        return x.type

    @shifted.gradient
    def shifted_gradient(shift: Value | None, dy: Value) -> tuple[Value, Value | None]:
        return dy, shift and dy

    shifted(x)
    [desc] = block.desc.ops
    assert list(desc.inputs) == ["x", ""]
    assert differentiate(block, desc, [x]) == [x, None]


def test_a_variadic_operand_is_a_list_in_rules(block: Block, x: Value):
    ops.concat(x, x, axis=1)
    _, second = (desc.outputs for desc in _gradient_of_last(block))
    assert list(second) == ["split_3.0", "split_3.1"]
    assert told(OpError, lambda: ops.concat.on(block)(axis=1)) == "concat: needs at least one tensor for 'xs'"


def test_an_operand_with_the_default_state_is_the_programs_state_of_its_name(x: Value):
    @op
    def counted(x: Value, step: Value = STATE) -> TensorType:
        """Nothing."""
        return x.type

    block = Block(state=lambda name: block.define(name, TensorType("int64", ())))
    counted(block.define("x", FLOAT))
    assert list(block.desc.ops[0].inputs) == ["x", "step"]
    assert told(OpError, lambda: counted(x)) == "counted: the state 'step' exists only inside a Program"


def test_equal_numbers_share_a_constant(block: Block, x: Value):
    y = x + 1.5
    _ = 1.5 * y
    assert [desc.type for desc in block.desc.ops] == ["constant", "add", "mul"]


MISTAKES: dict[str, tuple[Callable[[Value], Any], str]] = {
    "an unknown operator": (
        lambda x: ops.matmull,  # pyright: ignore[reportAttributeAccessIssue]: the mistake
        "there is no operator 'matmull'; did you mean 'matmul'?",
    ),
    "an unknown attribute": (
        lambda x: ops.sum(x, dim=(1,)),
        "sum: there is no attribute 'dim'; here it is called axis",
    ),
    "nothing like it": (lambda x: ops.exp(x, blue=1), "exp: there is no attribute 'blue'; there are none"),
    "a mistyped attribute": (lambda x: ops.sum(x, axis=1.5), "sum: axis=1.5 is not a tuple of whole numbers"),
    "a mistyped element": (lambda x: ops.sum(x, axis=(1.0,)), "sum: axis=(1.0,) is not a tuple of whole numbers"),
    "a number for a flag": (lambda x: ops.sum(x, keepdims=1), "sum: keepdims=1 is not True or False"),
    "an unknown dtype": (
        lambda x: ops.cast(x, dtype="float8"),
        "cast: dtype='float8' is not one of float32, float64, int32, int64, bool, uint8, float16, bfloat16",
    ),
    "a missing attribute": (
        lambda x: ops.cast(x),
        "cast: the attribute 'dtype' is missing; give it by name, as dtype=…",
    ),
    "a missing operand": (lambda x: ops.add(x), "add: the operand 'b' is missing"),
    "too many operands": (lambda x: ops.add(x, x, x), "add: takes 2 tensors (a, b), not 3; attributes go by name"),
    "no tensor": (lambda x: ops.add(x, "2"), "add: b='2' is not a tensor of a program"),
    "a number where only a tensor goes": (
        lambda x: ops.where(True, x, x),
        "where: condition=True is not a tensor of a program",
    ),
    "None where nothing is optional": (lambda x: ops.add(x, None), "add: b=None is not a tensor of a program"),
    "two programs": (
        lambda x: ops.add(x, Block().define("z", FLOAT)),
        "add: %z: float32[2, 3] belongs to another program; build both in one",
    ),
    "a number too large": (lambda x: x * 1e40, "mul: 1e+40 does not fit float32"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_call_says_what_is_wrong_with_it(mistake: str, x: Value):
    call, sentence = MISTAKES[mistake]
    assert told((OpError, AttributeError), lambda: call(x)) == sentence


def test_an_error_begins_with_the_users_line():
    block = Block(locate=lambda: 1, location_text=lambda number: f"train.py:{number}")
    x, y = block.define("x", FLOAT), block.define("y", TensorType("float32", (3, 2)))
    with pytest.raises(OpError) as caught:
        _ = x + y
    assert (
        str(caught.value) == "train.py:1: add(a: float32[2, 3], b: float32[3, 2]): "
        "shapes [2, 3] and [3, 2] do not broadcast: 2 is not 3"
    )


def test_a_value_has_no_truth_and_no_elements_while_the_program_is_built(x: Value):
    with pytest.raises(TypeError) as caught:
        bool(x > 0.0)
    assert "has no value while the program is built; use ops.where to choose by it" in str(caught.value)
    with pytest.raises(TypeError) as caught:
        list(x)  # pyright: ignore[reportArgumentType]: the mistake
    assert str(caught.value) == "%x: float32[2, 3] cannot be iterated over; use ops.split"


def unknown_attribute_type():
    @op
    def odd(x: Value, *, callback: Callable[[], None]) -> TensorType:
        """Nothing."""
        return x.type


def annotations_that_are_evaluated():
    def odd(x: Value, *, flag: bool = False) -> TensorType:
        """Nothing."""
        return x.type

    odd.__annotations__ = {"x": Value, "flag": bool, "return": TensorType}
    op(odd)


def declared_twice():
    @op
    def add(x: Value) -> TensorType:
        """Nothing."""
        return x.type


def unknown_name_without_gradient():
    @op(no_gradient=("w",))
    def odd(x: Value) -> TensorType:
        """Nothing."""
        return x.type


def rule_asks_for_the_unknown():
    @op
    def odd(x: Value, *, axis: int) -> TensorType:
        """Nothing."""
        return x.type

    @odd.gradient
    def odd_gradient(dz: Value) -> Value:
        return dz


def inference_form_asks_for_a_gradient():
    @op
    def odd(x: Value) -> TensorType:
        """Nothing."""
        return x.type

    @odd.inference
    def odd_inference(dy: Value) -> Value:
        return dy


def no_docstring():
    @op
    def odd(x: Value) -> TensorType:
        return x.type

    audit_op(odd)


def trait_of_another_number_of_inputs():
    @identity_operand(0)
    @op
    def odd(x: Value) -> TensorType:
        """Nothing."""
        return x.type

    audit_op(odd)


def reduction_without_axes():
    @keeps_single
    @op
    def odd(x: Value) -> TensorType:
        """Nothing."""
        return x.type

    audit_op(odd)


def rule_of_a_non_differentiable_operator():
    @op(differentiable=False)
    def odd(x: Value) -> TensorType:
        """Nothing."""
        return x.type

    @odd.gradient
    def odd_gradient(dy: Value) -> Value:
        return dy

    audit_op(odd)


def rule_ignores_an_output():
    @op("y", "z")
    def odd(x: Value) -> tuple[TensorType, TensorType]:
        """Nothing."""
        return x.type, x.type

    @odd.gradient
    def odd_gradient(dy: Value) -> Value:
        return dy

    audit_op(odd)


def rule_calls_what_is_not_there():
    @op
    def odd(x: Value) -> TensorType:
        """Nothing."""
        return x.type

    @odd.gradient
    def odd_gradient(dy: Value) -> Value:
        return even(dy)  # noqa: F821 # pyright: ignore: the mistake

    audit_op(odd)


def rule_gives_too_few():
    @op
    def odd(a: Value, b: Value) -> TensorType:
        """Nothing."""
        return a.type

    @odd.gradient
    def odd_gradient(dy: Value) -> Value:
        return dy

    _differentiate(odd)


def rule_gives_another_type():
    @op
    def odd(a: Value, b: Value) -> TensorType:
        """Nothing."""
        return a.type

    @odd.gradient
    def odd_gradient(dy: Value) -> tuple[Value, Value]:
        return dy, ops.sum(dy)

    _differentiate(odd)


DECLARATIONS = {
    unknown_attribute_type: (
        "odd: the attribute 'callback' is annotated 'Callable[[], None]'; use one of ['bool', 'int', 'float', 'str', "
        "'DTypeName', 'Shape', 'tuple[int, ...]', 'tuple[float, ...]', 'tuple[str, ...]', 'pb.SmallTensor']"
    ),
    annotations_that_are_evaluated: "odd: begin its module with `from __future__ import annotations`",
    declared_twice: "operator 'add' is declared twice",
    unknown_name_without_gradient: "odd: no_gradient names ['w']; it may name ['x', 'y']",
    rule_asks_for_the_unknown: "the gradient of 'odd' asks for ['dz']; it may use ['axis', 'dy', 'x', 'y']",
    inference_form_asks_for_a_gradient: "the inference form of 'odd' asks for ['dy']; it may use ['x', 'y']",
    no_docstring: "operator 'odd' has no docstring; say in a line what it computes",
    trait_of_another_number_of_inputs: (
        "operator 'odd' has the trait 'identity_operand', which is for operators of 2 inputs"
    ),
    reduction_without_axes: "operator 'odd' has the trait 'keeps_single', and no attribute 'axes'",
    rule_of_a_non_differentiable_operator: "operator 'odd' is declared non-differentiable and has a gradient rule",
    rule_ignores_an_output: "the gradient of 'odd' ignores ['dz']; use it or name the output in no_gradient",
    rule_calls_what_is_not_there: "a rule of 'odd' calls 'even', which its module does not define",
    rule_gives_too_few: (
        f"the gradient of 'odd' gives 1 gradients for 2 inputs; mend the rule in {__name__.replace('.', '/')}.py"
    ),
    rule_gives_another_type: (
        "the gradient of 'odd' gives float32[] for the input %b: float32[2, 3]; "
        f"mend the rule in {__name__.replace('.', '/')}.py"
    ),
}


@pytest.mark.parametrize("declaration", DECLARATIONS, ids=lambda declaration: declaration.__name__)
def test_a_declaration_says_what_is_wrong_with_it(declaration: Callable[[], None]):
    assert told(OpError, declaration) == DECLARATIONS[declaration]


def gradient_ops(desc: pb.OpDesc) -> tuple[list[pb.OpDesc], list[str]]:
    """The ops of the gradient of an op from u and v to w, whose gradient is dw, and their results."""
    block = Block()
    values = {name: block.define(name, FLOAT) for name in ("u", "v", "w", "dw")}
    with block.on_behalf_of(stage=pb.STAGE_DERIVATIVE, op=desc):
        grads = differentiate(block, desc, [values["dw"]])
    return list(block.desc.ops), [grad.name for grad in grads if grad is not None]


def test_one_op_maps_to_the_ops_of_its_gradient():
    @op
    def minus(a: Value, b: Value) -> TensorType:
        """The difference a - b of equal shapes."""
        return a.type

    @minus.gradient
    def minus_gradient(dy: Value) -> tuple[Value, Value]:
        return ops.identity(dy), ops.neg(dy)

    desc = pb.OpDesc(id=7, type="minus", inputs=["u", "v"], outputs=["w"], location=4)
    made, grads = gradient_ops(desc)
    assert [(o.type, list(o.inputs), list(o.outputs)) for o in made] == [
        ("identity", ["dw"], [grads[0]]),
        ("neg", ["dw"], [grads[1]]),
    ]
    assert {*grads}.isdisjoint(["u", "v", "w", "dw"])
    assert [(o.gradient_of, o.location) for o in made] == [(7, 4)] * 2


def test_a_gradient_may_be_a_given_tensor_itself():
    desc = pb.OpDesc(type="add", inputs=["u", "v"], outputs=["w"])
    assert gradient_ops(desc) == ([], ["dw", "dw"])


def test_no_gradient_flows_to_integers_nor_where_it_is_declared(block: Block, x: Value):
    @op(no_gradient=("scale",))
    def scaled(x: Value, scale: Value, times: Value) -> TensorType:
        """Nothing."""
        return x.type

    @scaled.gradient
    def scaled_gradient(dy: Value) -> tuple[Value, Value, None]:
        return dy, dy, None

    scaled(x, x, block.define("n", TensorType("int64", ())))
    assert differentiate(block, block.desc.ops[-1], [x]) == [x, None, None]


def test_a_rule_a_declaration_and_neither_are_told_apart(x: Value):
    @op
    def unfinished(x: Value) -> TensorType:
        """Nothing."""
        return x.type

    @op(differentiable=False)
    def rounded(x: Value) -> TensorType:
        """Nothing."""
        return x.type

    @op("y", "extra", no_gradient=("extra",))
    def doubled(x: Value) -> tuple[TensorType, TensorType]:
        """Nothing."""
        return x.type, x.type

    @doubled.gradient
    def doubled_gradient(dy: Value) -> Value:
        return dy + dy

    assert [grad is not None for grad in gradients(doubled(x)[0], [x])] == [True]
    with pytest.raises(CompileError) as caught:
        gradients(unfinished(x) + rounded(x) + doubled(x)[1], [x])
    file = __name__.replace(".", "/") + ".py"
    assert str(caught.value) == (
        "no gradient through: "
        f"unfinished has no gradient rule; add one in {file} or declare differentiable=False, "
        "or cut the path with ops.stop_gradient; "
        "rounded is declared non-differentiable, so cut the path with ops.stop_gradient; "
        "doubled: its output 'extra' is declared non-differentiable; cut the path with ops.stop_gradient"
    )


USER_CODE = """
from prograd_proto import TensorType
from registry import Block, Value, ops

block = Block()
x = block.define("x", TensorType("float32", (2, 3)))
y: Value = ops.maximum(ops.sum(x, axis=1, keepdims=True), 0.0) + 1
first, *rest = ops.split(x[0, ::2], sizes=(1, 1))
z: Value = ops.matmul(first, rest[0], transpose_a=True)
ops.argmax(x, axis="last")  # wrong
ops.matmul(x, x, transpose_c=True)  # wrong
ops.matmul(x)  # wrong
ops.exp(2.0)  # wrong
ops.cast(x, dtype="float8")  # wrong
ops.unheard_of(x)  # wrong
"""


def test_a_type_checker_rejects_wrong_calls_and_nothing_else(tmp_path: Path):
    file = tmp_path / "user_code.py"
    file.write_text("# pyright: strict\n" + USER_CODE)
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, str(file)]
    report = json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
    lines = file.read_text().splitlines()
    wrong = {i for i, line in enumerate(lines) if line.endswith("# wrong")}
    assert {fault["range"]["start"]["line"] for fault in report["generalDiagnostics"]} == wrong


def _gradient_of_last(block: Block) -> list[pb.OpDesc]:
    first = len(block.desc.ops) - 1
    last = block.desc.ops[-1]
    with block.on_behalf_of(stage=pb.STAGE_DERIVATIVE):
        seed = ops.full.on(block)(shape=block.types[last.outputs[0]].shape, value=1.0)
        differentiate(block, last, [seed])
    return list(block.desc.ops)[first + 1 :]


def _differentiate(operator: Any) -> None:
    block = Block()
    operator(block.define("a", FLOAT), block.define("b", FLOAT))
    differentiate(block, block.desc.ops[-1], [block.define("dy", FLOAT)])


ONE_FOR_ALL = {
    "an axis": (lambda x: ops.sum(x, axis=1), lambda x: ops.sum(x, axis=(1,))),
    "no axis": (lambda x: ops.sum(x), lambda x: ops.sum(x, axis=())),
    "the axis of a slice": (
        lambda x: ops.slice(x, axis=0, starts=(1,), stops=(2,), strides=(1,)),
        lambda x: ops.slice(x, axis=(0,), starts=(1,), stops=(2,), strides=(1,)),
    ),
    "a shape": (lambda x: ops.reshape(x, shape=6), lambda x: ops.reshape(x, shape=(6,))),
    "a new axis": (lambda x: ops.unsqueeze(x, axis=0), lambda x: ops.unsqueeze(x, axis=(0,))),
    "a rotation": (lambda x: ops.roll(x, shifts=1, axis=1), lambda x: ops.roll(x, shifts=(1,), axis=(1,))),
    "strides and edges": (
        lambda x: ops.conv2d(image(x), filters(x), stride=2, padding=1),
        lambda x: ops.conv2d(image(x), filters(x), stride=(2, 2), padding=(1, 1, 1, 1)),
    ),
    "a window": (
        lambda x: ops.max_pool(image(x), window=1, stride=2, dilation=1),
        lambda x: ops.max_pool(image(x), window=(1, 1), stride=(2, 2), dilation=(1, 1)),
    ),
    "a size": (
        lambda x: ops.adaptive_avg_pool(image(x), size=1),
        lambda x: ops.adaptive_avg_pool(image(x), size=(1, 1)),
    ),
    "factors": (lambda x: ops.upsample(image(x), factors=2), lambda x: ops.upsample(image(x), factors=(2, 2))),
}


def image(x: Value) -> Value:
    return ops.reshape(x, shape=(1, 2, 3, 1))


def filters(x: Value) -> Value:
    return ops.reshape(x, shape=(2, 3, 1, 1))


@pytest.mark.parametrize("name", ONE_FOR_ALL)
def test_one_number_stands_for_all(name: str):
    blocks = [Block(), Block()]
    for call, block in zip(ONE_FOR_ALL[name], blocks, strict=True):
        call(block.define("x", FLOAT))
    assert blocks[0].desc == blocks[1].desc


def test_files_keep_the_names_of_attributes(x: Value, block: Block):
    ops.sum(x, axis=1)
    assert list(attributes_of(block.desc.ops[-1])) == ["axes", "keepdims"]
    assert OPS["sum"].signature.parameters == ["axis", "keepdims"]
    assert OPS["sum"].signature.spelled({"axes": (1,)}) == {"axis": (1,)}


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda x: ops.split(x, sizes=2), "split: sizes=2 is not a tuple of whole numbers"),
        (lambda x: ops.pad(x, before=1, after=1), "pad: before=1 is not a tuple of whole numbers"),
    ],
)
def test_one_number_does_not_stand_for_a_tuple_of_unknown_length(
    x: Value, call: Callable[[Value], Value], sentence: str
):
    assert told(OpError, lambda: call(x)) == sentence
