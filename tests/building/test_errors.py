"""Sentences of bad calls, word for word, beginning with the line of the call."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from subjects.commands import told
from subjects.values import here

import compiler
from compiler import OpError, Program, Value, adam, global_norm, gradients, metrics, momentum, ops, sgd, warmup_cosine
from prograd_proto import ProgramError
from registry import OPS
from registry.other_names import METRICS, OTHER_ATTRIBUTES, OTHER_NAMES
from registry.table import SPELLED


@dataclass
class Given:
    """A program with a tensor of each kind."""

    p: Program
    a: Value
    b: Value
    x: Value
    i: Value
    d: Value
    flag: Value
    image: Value
    w: Value
    s: Value
    other: Value


def given() -> Given:
    program = Program()
    other = Program("other")
    return Given(
        p=program,
        a=program.input("a", "float32", (32, 784)),
        b=program.input("b", "float32", (512, 10)),
        x=program.input("x", "float32", ("batch", 784)),
        i=program.input("i", "int64", ("batch",)),
        d=program.input("d", "float64", (32, 784)),
        flag=program.input("flag", "bool", (32, 784)),
        image=program.input("image", "float32", ("batch", 8, 8, 1)),
        w=program.parameter("w", (784, 10)),
        s=program.parameter("s", ()),
        other=other.input("o", "float32", (3,)),
    )


def filter(g: Given, *shape: int) -> Value:
    return g.p.parameter("filter", shape)


# ruff: noqa: E501 - a row is one line, whose number its error begins with
# fmt: off
OPERATORS: list[tuple[Callable[[Given], object], str]] = [
    (lambda g: g.a @ g.b, "matmul(a: float32[32, 784], b: float32[512, 10]): inner sizes differ: 784 and 512; b "
     "needs 784 rows"),
    (lambda g: ops.matmul(g.a), "matmul: the operand 'b' is missing"),
    (lambda g: ops.matmul(g.a, g.b, g.a), "matmul: takes 2 tensors (a, b), not 3; attributes go by name, as transpose_a=…"),
    (lambda g: ops.softmax(g.a, 1), "softmax: takes 1 tensor (x), not 2; attributes go by name, as axis=…"),
    (lambda g: ops.matmul(g.a, g.b, a=g.b), "matmul: the operand 'a' is given twice"),
    (lambda g: ops.matmul(g.a, g.b, transpose_c=True), "matmul: there is no attribute 'transpose_c'; did you mean 'transpose_b'? There are transpose_a, transpose_b"),
    (lambda g: ops.softmax(g.a, dim=1), "softmax: there is no attribute 'dim'; here it is called axis"),
    (lambda g: ops.max_pool(g.image, kernel_size=2), "max_pool(x: float32[batch, 8, 8, 1]): there is no attribute 'kernel_size'; here it is called window"),
    (lambda g: ops.max_pool(g.image, wndow=2), "max_pool(x: float32[batch, 8, 8, 1]): there is no attribute 'wndow'; did you mean 'window'? There are window, stride, padding, dilation, ceil_mode, layout"),
    (lambda g: ops.max_pool(g.image), "max_pool(x: float32[batch, 8, 8, 1]): the attribute 'window' is missing; give it by name, as window=…"),
    (lambda g: ops.embedding(g.a), "embedding(table: float32[32, 784]): the operand 'indices' is missing"),
    (lambda g: ops.flatten(g.image, 1), "flatten(x: float32[batch, 8, 8, 1]): takes 1 tensor (x), not 2; attributes go by name, as first=…"),
    (lambda g: ops.conv2d(g.image, g.w, blue=2), "conv2d: there is no attribute 'blue'; there are stride, padding, dilation, groups"),
    (lambda g: ops.softmax(g.a, blue=2), "softmax: there is no attribute 'blue'; there is axis"),
    (lambda g: ops.matmul(g.a, g.b, transpose_b=1), "matmul: transpose_b=1 is not True or False"),
    (lambda g: ops.matmul(g.a, 3.0), "matmul: b=3.0 is not a tensor of a program"),
    (lambda g: ops.matmul(g.a, None), "matmul: b=None is not a tensor of a program"),
    (lambda g: ops.matmul(g.a, np.zeros((784, 3))), "matmul: b=<ndarray> is not a tensor of a program; feed it, or keep it in a state"),
    (lambda g: ops.matmul(g.a, g.d), "matmul(a: float32[32, 784], b: float64[32, 784]): dtypes differ: float32 and float64; cast one of them"),
    (lambda g: g.a + g.i, "add(a: float32[32, 784], b: int64[batch]): dtypes differ: float32 and int64; cast one of them"),
    (lambda g: g.a + g.b, "add(a: float32[32, 784], b: float32[512, 10]): shapes [32, 784] and [512, 10] do not broadcast: 32 is not 512"),
    (lambda g: g.x + g.a, "add(a: float32[batch, 784], b: float32[32, 784]): shapes [batch, 784] and [32, 784] do not broadcast: batch is not 32"),
    (lambda g: g.a + "1", "add: b='1' is not a tensor of a program"),
    (lambda g: g.a + g.other, "add: %o: float32[3] belongs to another program; build both in one"),
    (lambda g: g.i + 0.5, "add: 0.5 is not a whole number, as int64 needs"),
    (lambda g: g.i + float("nan"), "add: nan is not a whole number, as int64 needs"),
    (lambda g: g.a + 1e300, "add: 1e+300 does not fit float32"),
    (lambda g: g.i / 2, "div(a: int64[batch], b: int64[]): needs float32 or float64, not int64; cast it first"),
    (lambda g: ops.exp(g.i), "exp(x: int64[batch]): needs float32 or float64, not int64; cast it first"),
    (lambda g: ops.softmax(g.a, axis="last"), "softmax: axis='last' is not a whole number"),
    (lambda g: ops.softmax(g.a, axis=1.5), "softmax: axis=1.5 is not a whole number"),
    (lambda g: ops.softmax(g.a, axis=2**63), "softmax: axis=9223372036854775808 has more than 64 bits"),
    (lambda g: ops.reshape(g.a, shape=(2**63, 1)), "reshape: shape=(9223372036854775808, 1) has more than 64 bits"),
    (lambda g: ops.broadcast_to(g.s, shape=(-1,)), "broadcast_to(x: float32[]): its result would have an extent of -1"),
    (lambda g: ops.full.on(g.p)(shape=(-2,), value=0.0), "full(): its result would have an extent of -2"),
    (lambda g: ops.range.on(g.p)(stop=1e300), "range(): there are more numbers than a tensor has elements"),
    (lambda g: ops.rotary_embedding(g.x, g.i, [1.0, 2.0]), "rotary_embedding(x: float32[batch, 784], positions: int64[batch]): factors has the shape [2], not [392], one number for each pair"),
    (lambda g: ops.rotary_embedding(g.s, g.i), "rotary_embedding(x: float32[], positions: int64[batch]): x has no axis of pairs"),
    (lambda g: ops.leaky_relu(g.a, alpha=np.ones(2)), "leaky_relu: alpha=array([1., 1.]) is not a number"),
    (lambda g: ops.softmax(g.a, axis=2), "softmax(x: float32[32, 784]): axis 2 is out of range for rank 2"),
    (lambda g: ops.sum(g.a, axis="0"), "sum: axis='0' is not a tuple of whole numbers"),
    (lambda g: ops.sum(g.a, axis=(0, 0)), "sum(x: float32[32, 784]): axes (0, 0) name an axis twice"),
    (lambda g: ops.reshape(g.a, shape=(5, -1)), "reshape(x: float32[32, 784]): no size for -1 makes [5, -1] hold the elements of [32, 784]"),
    (lambda g: ops.reshape(g.x, shape=(784,)), "reshape(x: float32[batch, 784]): [batch, 784] does not reshape to [784]: the numbers of elements differ"),
    (lambda g: ops.reshape(g.a, shape=7.5), "reshape: shape=7.5 is not a tuple of sizes and symbols"),
    (lambda g: ops.concat(g.a, g.b), "concat(xs[0]: float32[32, 784], xs[1]: float32[512, 10]): float32[512, 10] and float32[32, 784] differ beside axis 0"),
    (lambda g: ops.split(g.a, sizes=(3, 4)), "split(x: float32[32, 784]): the sizes make 7, axis 0 has 32"),
    (lambda g: ops.split(g.x, sizes=(16, 16)), "split(x: float32[batch, 784]): the extent of a split axis is the symbol 'batch'; here it must be a number"),
    (lambda g: ops.conv2d(g.image, filter(g, 3, 3, 2, 4)), "conv2d(x: float32[batch, 8, 8, 1], w: float32[3, 3, 2, 4]): x has 1 channels, w expects 2"),
    (lambda g: ops.conv2d(g.image, filter(g, 9, 9, 1, 4)), "conv2d(x: float32[batch, 8, 8, 1], w: float32[9, 9, 1, 4]): the window spans 9 of a height that is 8 with padding"),
    (lambda g: ops.conv2d(g.image, filter(g, 3, 3, 1, 4), stride=2.5), "conv2d: stride=2.5 is not a tuple of whole numbers"),
    (lambda g: ops.cast(g.a, dtype="float8"), "cast: dtype='float8' is not one of float32, float64, int32, int64, bool, uint8, float16, bfloat16"),
    (lambda g: ops.full.on(g.p)(shape=(3,)), "full: the attribute 'value' is missing; give it by name, as value=…"),
    (lambda g: ops.dropout(g.a, ratio=1.0), "dropout(x: float32[32, 784], seed: int64[], step: int64[]): ratio=1.0 is not in [0, 1)"),
    (lambda g: ops.gather(g.a, g.a), "gather(x: float32[32, 784], indices: float32[32, 784]): indices are uint8, int32 or int64, not float32"),
    (lambda g: ops.where(g.a, g.a, g.a), "where(condition: float32[32, 784], a: float32[32, 784], b: float32[32, 784]): the condition is float32, not bool"),
    (lambda g: ops.softmax_cross_entropy(g.x @ g.w, g.i, reduction="avg"), "softmax_cross_entropy(logits: float32[batch, 10], labels: int64[batch]): reduction='avg' is not one of mean, sum, none"),
    (lambda g: ops.softmax_cross_entropy(g.a @ g.w, g.i), "softmax_cross_entropy(logits: float32[32, 10], labels: int64[batch]): labels have the shape [batch], not [32]"),
    (lambda g: g.a[40], "index 40 is out of range for axis 0 of %a: float32[32, 784]"),
    (lambda g: g.a[0, 0, 0], "3 indices are too many for %a: float32[32, 784]"),
    (lambda g: g.x[0], "axis 0 of %x: float32[batch, 784] is the symbol 'batch'; here it must be a number"),
    (lambda g: g.a[g.flag], "%flag: bool[32, 784] cannot index %a: float32[32, 784]; use numbers, slices, ... and None, or ops.gather"),
]

PROGRAMS: list[tuple[Callable[[Given], object], str]] = [
    (lambda g: g.p.input("x", "float32", (3,)), "input 'x': the name is taken by another tensor of this program; choose another, or a scope"),
    (lambda g: g.p.input("w", "float32", (3,)), "input 'w': the name is taken by another tensor of this program; choose another, or a scope"),
    (lambda g: g.p.input("step", "int64", ()), "input 'step': the name is taken by another tensor of this program; choose another, or a scope"),
    (lambda g: g.p.input("", "int64", ()), "input '': a name is not empty, and all printable without a colon"),
    (lambda g: g.p.input("a:b", "int64", ()), "input 'a:b': a name is not empty, and all printable without a colon"),
    (lambda g: g.p.input("y", "float8", (3,)), "input 'y': there is no dtype 'float8'; use one of float32, float64, int32, int64, bool, uint8, float16, bfloat16"),
    (lambda g: g.p.input("y", "float32", (None, 3)), "input 'y': the extent None is neither a size nor the name of a symbol"),
    (lambda g: g.p.input("y", "float32", (-1, 3)), "input 'y': the extent -1 is neither a size nor the name of a symbol"),
    (lambda g: g.p.input("y", "float32", ("n m", 3)), "input 'y': the extent 'n m' is neither a size nor the name of a symbol"),
    (lambda g: g.p.input("y", "float32", 5), "input 'y': the shape 5 is not a tuple of sizes and symbols, as in ('batch', 4)"),
    (lambda g: g.p.parameter("w", (3,)), "parameter 'w': the name is taken by another tensor of this program; choose another, or a scope"),
    (lambda g: g.p.parameter("v", ("batch", 3)), "parameter 'v': the extent 'batch' is a symbol; a state lives on, so its extents are numbers"),
    (lambda g: g.p.parameter("v", (3,), dtype="int32"), "parameter 'v': int32 cannot be trained; use float32 or float64, or a buffer"),
    (lambda g: g.p.parameter("v", (3,), 0.5), "parameter 'v': initial=0.5 is not an initialiser; for a number use compiler.constant"),
    (lambda g: g.p.parameter("v", (3,), lambda block, type: ops.full.on(block)(shape=(4,), value=0.0)), "the initialiser of 'v' does not make float32[3] by one op"),
    (lambda g: g.p.buffer("v", (3,), lifespan="forever"), "buffer 'v': lifespan='forever' is neither 'always' nor 'epoch'"),
    (lambda g: g.p.constant(0.5, "int32"), "0.5 is not a whole number, as int32 needs"),
    (lambda g: g.p.constant(1, "float8"), "constant: there is no dtype 'float8'; use one of float32, float64, int32, int64, bool, uint8, float16, bfloat16"),
    (lambda g: g.p.state("stepp"), "there is no state 'stepp'; did you mean 'step'?"),
    (lambda g: g.p.update(g.a, g.a), "update: %a: float32[32, 784] is not a state of this program"),
    (lambda g: g.p.update(g.w, g.a), "update: %a: float32[32, 784] cannot become the value of the state %w: float32[784, 10]; the types differ"),
    (lambda g: g.p.update(g.w, g.other), "update: %o: float32[3] belongs to another program; build both in one"),
    (lambda g: (g.p.fetch("y", g.a), g.p.fetch("y", g.b)), "fetch 'y': training already reports a value of that name; give another name"),
    (lambda g: g.p.fetch("y", g.other), "fetch 'y': %o: float32[3] belongs to another program; build both in one"),
    (lambda g: g.p.fetch("y", g.a, over="max"), "fetch 'y': over='max' is not one of last, mean, sum"),
    (lambda g: g.p.metrics(m=g.a), "metrics: m is float32[32, 784], not a scalar; take ops.mean(m)"),
    (lambda g: g.p.entry("train", y=g.a), "the entry 'train' is what minimize and update build; give another name"),
    (lambda g: g.p.entry("predict", y=g.other), "entry 'predict': %o: float32[3] belongs to another program; build both in one"),
    (lambda g: g.p.minimize(g.x, sgd(0.1)), "minimize(loss: float32[batch, 784]): the loss must be a scalar; take ops.mean(loss) or ops.sum(loss)"),
    (lambda g: g.p.minimize(g.other, sgd(0.1)), "minimize: %o: float32[3] belongs to another program; build both in one"),
    (lambda g: g.p.minimize(ops.sum(g.a), sgd(0.1)), "minimize(loss: float32[]): the loss does not depend on any trainable parameter"),
    (lambda g: g.p.minimize(ops.sum(g.i), sgd(0.1)), "%sum_1: int64[] has no gradient: only tensors of floats do"),
    (lambda g: g.p.minimize(g.s, sgd(0.1), [g.a]), "minimize: %a: float32[32, 784] is not a trainable parameter of this program"),
    (lambda g: g.p.minimize(g.s, sgd(0.1), [g.w]), "minimize(loss: float32[]): the loss does not depend on 'w'"),
    (lambda g: g.p.minimize(g.s, sgd(0.1), []), "minimize: there is no parameter to train"),
    (lambda g: g.p.minimize(g.s, 0.1), "minimize: 0.1 is not an optimizer; use one as sgd(0.1)"),
    (lambda g: g.p.minimize(g.s, sgd(0.1), clip=1.0), "clip=1.0 does not limit gradients; use a limit as global_norm(1.0)"),
    (lambda g: g.p.minimize(g.s, sgd(0.1), accumulate=0), "minimize: accumulate=0; it starts at 1"),
    (lambda g: g.p.data("rows.csv", shuffle=False, remainder="drop"), "data: 'rows.csv' is neither a .safetensors nor a .npz file; data.pack makes one of a table"),
    (lambda g: g.p.data("rows\\rows.npz", shuffle=False, remainder="drop"), "data: 'rows\\\\rows.npz' has a backslash; write / between the names of folders"),
    (lambda g: g.p.data("rows.npz", columns={"imag": "images"}, shuffle=False, remainder="drop"), "data: there is no input 'imag'; did you mean 'image'?"),
    (lambda g: g.p.data("rows.npz", splits={"train": slice(-5, None)}, shuffle=False, remainder="drop"), "data: the split 'train' counts rows from the front, forwards"),
    (lambda g: g.p.data("rows.npz", splits={"train": (1, 2)}, shuffle=False, remainder="drop"), "data: the split 'train' is (1, 2), neither a key of the file nor a slice of rows"),
    (lambda g: g.p.data("rows.npz", remainder="keep", shuffle=False), "data: remainder='keep' is not one of drop, exact, partial"),
    (lambda g: g.p.training(0), "training: epochs=0; it starts at 1"),
    (lambda g: g.p.training(1, evaluate="t", every=0), "training: every=0; it starts at 1"),
    (lambda g: g.p.training(1, evaluate="t", stop_after=-1), "training: stop_after=-1; it starts at 0"),
    (lambda g: ops.reshape(g.x, (3,)), "reshape: takes 1 tensor (x), not 2; attributes go by name, as shape=…"),
    (lambda g: ops.concat(g.x, g.x, 1), "concat: xs=1 is not a tensor of a program; attributes go by name, as axis=…"),
    (lambda g: ops.dropout(g.x, 0.5), "dropout: seed=0.5 is not a tensor of a program; attributes go by name, as ratio=…"),
    (
        lambda g: g.p.training(3, evaluate="test", stop_after=2),
        "training: stop_after=2 evaluations without improvement of what; give keep_best=",
    ),
    (lambda g: g.p.training(3, keep_best="accuracy"), "training: keep_best and stop_after need a split to evaluate on; give evaluate="),
    (lambda g: g.p.training(3, evaluate="test", best="large"), "training: best='large' is neither 'min' nor 'max'"),
    (lambda g: gradients(g.s, [g.i]), "%i: int64[batch] has no gradient: only tensors of floats do"),
    (lambda g: gradients([g.s, g.s], [g.s], [g.s]), "gradients: 2 targets and 1 seeds; give one seed, or None, for each"),
]

WITHOUT_A_LINE: list[tuple[Callable[[Given], object], str]] = [
    (lambda g: ops.concat([g.a, g.a]), "concat: the tensors are given one by one; those of a list as ops.concat(*xs)"),
    (lambda g: ops.concat(xs=[g.a]), "concat: the tensors are given one by one; those of a list as ops.concat(*xs)"),
    (lambda g: ops.full(shape=(3,), value=1.0), "full: no operand is a tensor of a program; use ops.full.on(program)(...)"),
    (lambda g: ops.add(1.0, 2.0), "add: no operand is a tensor of a program; use ops.add.on(program)(...)"),
    (lambda g: ops.add.on(g.p.block)(1.0, 2.0), "add: no tensor beside 1.0 gives it a dtype; make one with ops.full"),
    (lambda g: sgd("0.1"), "the rate '0.1' is neither a number, a setting nor a schedule"),
    (lambda g: sgd(g.s), "the rate %s: float32[] is neither a number, a setting nor a schedule"),
    (lambda g: adam(0.1, clip=1.0), "clip=1.0 does not limit gradients; use a limit as global_norm(1.0)"),
    (lambda g: global_norm(0.0), "global_norm: limit=0.0 is not above 0"),
    (lambda g: warmup_cosine(0.1, warmup=-1), "warmup_cosine: warmup=-1 is negative"),
]
# fmt: on


@pytest.mark.parametrize(
    ("call", "sentence"), OPERATORS + PROGRAMS, ids=lambda value: value[:40] if isinstance(value, str) else "call"
)
def test_a_bad_call_is_refused_in_a_sentence_that_begins_with_its_line(call: Callable[[Given], object], sentence: str):
    file = here().partition(":")[0]
    assert told(ProgramError, lambda: call(given())) == f"{file}:{call.__code__.co_firstlineno}: {sentence}"


@pytest.mark.parametrize(
    ("call", "sentence"), WITHOUT_A_LINE, ids=lambda value: value[:40] if isinstance(value, str) else "call"
)
def test_a_call_without_a_program_is_refused_in_a_sentence(call: Callable[[Given], object], sentence: str):
    with pytest.raises(OpError) as error:
        call(given())
    assert str(error.value).removeprefix(f"{here().partition(':')[0]}:{call.__code__.co_firstlineno}: ") == sentence


def test_an_operator_that_does_not_exist_has_a_neighbour():
    with pytest.raises(AttributeError) as error:
        _ = compiler.ops.matmull
    assert str(error.value) == "there is no operator 'matmull'; did you mean 'matmul'?"
    with pytest.raises(AttributeError) as error:
        _ = compiler.ops.nothing_like_it_at_all
    assert str(error.value) == "there is no operator 'nothing_like_it_at_all'; dir(ops) and compiler ops list them"


def test_a_notebook_completes_operators_and_nothing_else():
    assert dir(ops) == sorted({*OPS, *SPELLED, "cond", "map", "scan", "while_loop"})


@pytest.mark.parametrize(("name", "hint"), OTHER_NAMES.items())
def test_a_name_of_another_library_is_answered_with_what_to_write(name: str, hint: str):
    assert told(AttributeError, lambda: getattr(ops, name)) == f"there is no operator {name!r}; write {hint}"
    assert all(hasattr(ops, found) for found in re.findall(r"ops\.(\w+)", hint))
    assert all(hasattr(metrics, found) for found in re.findall(r"metrics\.(\w+)", hint))


def test_every_metric_that_is_no_operator_is_proposed():
    functions = {name for name in dir(metrics) if name[0].islower() and name != "summed"}
    assert set(METRICS) == {name for name in functions if name not in dir(ops)}


def test_other_names_of_attributes_are_no_names_of_theirs_and_lead_to_some():
    by_op = [set(inspect.signature(function).parameters) for function in (*OPS.values(), *SPELLED.values())]
    for name, words in OTHER_ATTRIBUTES.items():
        for word in words:
            assert any(word in attributes and name not in attributes for attributes in by_op), (name, word)


def test_a_tensor_has_no_truth_and_is_no_sequence():
    assert told(TypeError, lambda: bool(given().a)) == (
        "%a: float32[32, 784] has no value while the program is built; use ops.where to choose by it"
    )
    assert told(TypeError, lambda: list(given().a)) == "%a: float32[32, 784] cannot be iterated over; use ops.split"


def test_an_error_within_a_function_of_the_user_has_the_line_within_it():
    def layer(x: Value) -> Value:
        return x @ x

    with pytest.raises(OpError) as error:
        layer(given().a)
    file = here().partition(":")[0]
    assert str(error.value).startswith(f"{file}:{layer.__code__.co_firstlineno + 1}: matmul(")


def test_a_refused_call_leaves_no_op_behind():
    g = given()
    before = len(g.p.block.desc.ops)
    for call in (lambda: ops.matmul(g.a, g.b), lambda: ops.softmax(g.a, axis=9), lambda: g.a[40]):
        with pytest.raises(OpError):
            call()
    assert len(g.p.block.desc.ops) == before


def test_two_optimizers_of_one_parameter_keep_their_slots_apart():
    program = Program()
    w = program.parameter("w", ())
    program.minimize(w * w, momentum(0.1))
    program.minimize(w * 3.0, momentum(0.1))
    slots = {state.name: state.slot_of for state in program.states.values() if state.slot_of}
    assert slots == {"w.velocity": "w", "w.velocity_": "w"}
