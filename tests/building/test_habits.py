"""Habits from elsewhere, and slips: each is answered by a sentence that says what to write."""

import copy
import operator
import pickle
from collections.abc import Callable

import numpy as np
import pytest
from subjects.commands import told

from prograd import (
    OpError,
    Program,
    ProgramError,
    Value,
    adafactor,
    adam,
    adamw,
    layers,
    lion,
    momentum,
    ops,
    schedules,
    sgd,
)


def network() -> Program:
    program = Program("habits")
    x, label = program.input("x", "float32", ("batch", 4)), program.input("label", "int64", ("batch",))
    y = layers.dense(x, "d", 3)
    program.minimize(ops.softmax_cross_entropy(y, label), adam())
    program.metrics(accuracy=ops.accuracy(y, label))
    return program


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (np.exp, "np.exp computes with arrays, and %x: float32[batch, 4] has no elements while the program is built; "
         "write ops.exp(x)"),
        (np.sum, "np.sum computes with arrays, and %x: float32[batch, 4] has no elements while the program is built; "
         "write ops.sum(x)"),
        (lambda x: np.concatenate([x, x]), "np.concatenate computes with arrays, and %x: float32[batch, 4] has no "
         "elements while the program is built; write ops.concat"),
        (np.spacing, "np.spacing computes with arrays, and %x: float32[batch, 4] has no elements while the program is "
         "built"),
        (np.asarray, "%x: float32[batch, 4] has no elements while the program is built; run.predict gives arrays"),
        (lambda x: np.add.reduce(x), "np.add computes with arrays, and %x: float32[batch, 4] has no elements while the "
         "program is built; write ops.add(x)"),
    ],
)  # fmt: skip
def test_functions_of_numpy_say_which_operator_there_is(call: Callable[[Value], object], sentence: str):
    assert told(TypeError, lambda: call(network()["x"])) == sentence


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("sum", "%x: float32[batch, 4] has no attribute 'sum'; write ops.sum(x)"),
        ("astype", "%x: float32[batch, 4] has no attribute 'astype'; write ops.cast"),
        ("men", "%x: float32[batch, 4] has no attribute 'men'; did you mean ops.mean(x)?"),
        ("shap", "%x: float32[batch, 4] has no attribute 'shap'; did you mean x.shape?"),
        ("T", "%x: float32[batch, 4] has no attribute 'T'; write ops.transpose(x)"),
        ("detach", "%x: float32[batch, 4] has no attribute 'detach'; write ops.stop_gradient(x)"),
        ("xylophone", "%x: float32[batch, 4] has no attribute 'xylophone'"),
        (
            "backward",
            "%x: float32[batch, 4] has no attribute 'backward'; write program.minimize(loss, adam()), or "
            "compiler.gradients",
        ),
        (
            "numpy",
            "%x: float32[batch, 4] has no attribute 'numpy'; elements are there when the program runs, as in "
            "run.predict(x) or run.step(feeds, fetch=[name])",
        ),
    ],
)
def test_methods_of_arrays_say_which_operator_there_is(name: str, sentence: str):
    assert told(AttributeError, lambda: getattr(network()["x"], name)) == sentence


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (len, "%x: float32[batch, 4] has no length; x.shape has its extents, and x.rank says how many there are"),
        (
            lambda x: operator.setitem(x, 0, 1.0),
            "%x: float32[batch, 4] is not changed where it is; "
            "ops.where chooses elements, ops.scatter puts some elsewhere",
        ),
        (float, "%x: float32[batch, 4] has no elements while the program is built; run.predict gives arrays"),
        (int, "%x: float32[batch, 4] has no elements while the program is built; run.predict gives arrays"),
    ],
)
def test_a_tensor_is_no_number_and_has_no_length(call: Callable[[object], object], sentence: str):
    assert told(TypeError, lambda: call(network()["x"])) == sentence


def test_numbers_of_numpy_on_the_left_of_a_tensor_are_those_of_python():
    def both(number: float) -> list[tuple[str, str]]:
        program = Program()
        x, n = program.input("x", "float32", (2,)), program.input("n", "int64", (2,))
        _ = [number + x, number - x, number * x, number / x, number // x, number % x, number**x]
        _ = [number < x, number <= x, number > x, number >= x]
        whole = 3 if type(number) is float else np.int64(3)
        _ = [whole & n, whole | n, whole ^ n, whole << n, whole >> n]
        assert (number == x, number != x) == (False, True)
        return [(op.type, str(op.inputs)) for op in program.block.desc.ops]

    assert both(np.float32(2.0)) == both(np.float64(2.0)) == both(2.0)


def test_arrays_on_the_left_of_a_tensor_are_refused_as_on_its_right():
    x = network()["x"]
    with pytest.raises(OpError, match="mul: a=<ndarray> is not a tensor of a program; feed it, or keep it in a state"):
        np.ones((9, 4)) * x
    with pytest.raises(
        OpError, match="matmul: a=<ndarray> is not a tensor of a program; feed it, or keep it in a state"
    ):
        np.ones((3, 9)) @ x


def test_a_copy_of_a_program_is_built_on_by_itself():
    program = Program("copied", seed=2)
    hidden = ops.dropout(layers.dense(program.input("x", "float32", ("n", 64)), "hidden", 64), ratio=0.5)
    copied, hidden_copy = copy.deepcopy((program, hidden))
    compiled: list[bytes] = []
    for built, h in ((copied, hidden_copy), (program, hidden)):
        built.minimize(ops.mean(ops.square(ops.dropout(layers.dense(h, "output", 64), ratio=0.5))), adam(0.1))
        compiled.append(built.compile(n=32).desc.SerializeToString(deterministic=True))
    assert compiled[0] == compiled[1]


def test_a_value_is_copied_as_before():
    x = network()["x"]
    assert copy.copy(x).name == "x"
    with pytest.raises((TypeError, AttributeError)):
        pickle.loads(pickle.dumps(x))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: adam(lr=1e-3), "adam: there is no setting 'lr'; here it is called rate"),
        (lambda: adamw(betas=(0.9, 0.99)), "adamw: there is no setting 'betas'; here it is called beta1 and beta2"),
        (lambda: lion(weight_decay=0.1), "lion: there is no setting 'weight_decay'; here it is called decay"),
        (lambda: momentum(0.1, nesterof=True), "momentum: there is no setting 'nesterof'; did you mean 'nesterov'?"),
        (lambda: sgd(0.1, eps=1e-3), "sgd: there is no setting 'eps'; there are rate, decay, clip"),
        (
            lambda: adafactor(learning_rate=1.0),
            "adafactor: there is no setting 'learning_rate'; here it is called rate",
        ),
        (lambda: adam(-1.0), "the rate -1.0 is no finite number from 0 on; to climb, minimize -loss"),
        (lambda: adam(float("nan")), "the rate nan is no finite number from 0 on; to climb, minimize -loss"),
        (
            lambda: schedules.piecewise(milestones=[3], rates=[0.1, -0.1])(network().block),
            "the rate -0.1 is no finite number from 0 on; to climb, minimize -loss",
        ),
        (
            lambda: network().compile(batch="32"),
            "batch='32' is text; a symbol is bound to a whole number, as in batch=32",
        ),
    ],
)  # fmt: skip
def test_settings_that_there_are_not_are_answered_by_those_that_there_are(call: Callable[[], object], sentence: str):
    assert told(ProgramError, call) == sentence


def test_numbers_of_numpy_are_rates():
    assert sgd(np.float32(0.5)).rate(network().block).dtype == "float64"


def test_a_program_that_was_not_compiled_says_so_when_it_is_to_be_saved():
    with pytest.raises(AttributeError) as caught:
        network().save("p.pb")
    assert str(caught.value) == ("a Program has no 'save'; a compiled one has, as in program.compile(batch=32).save")
    with pytest.raises(AttributeError, match=r"^a Program has no 'minimise'; did you mean 'minimize'\?$"):
        network().minimise()
