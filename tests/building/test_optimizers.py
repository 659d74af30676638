"""Every optimizer over 50 steps of a program in float64 against NumPy; averages, groups, accumulation and clipping."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from oracles import optimizers as by_hand
from subjects.steps import Stepper

import compiler
import prograd
from compiler import CompileError, OpError, Program, constant, ops
from compiler.train.optimizers import Optimizer
from prograd_proto.blocks import BlockAnalyses
from runtime.engines.reference.target import REFERENCE
from runtime.step import aliases_of

STEPS = 50
RNG = np.random.default_rng(8)
SHAPES = {"w": (3, 4), "b": (4,)}
START = {name: RNG.normal(size=shape) for name, shape in SHAPES.items()}
X = RNG.normal(size=(STEPS, 6, 3))
Y = RNG.normal(size=(STEPS, 6, 4))

OPTIMIZERS: dict[str, tuple[Callable[[], Optimizer], by_hand.Rule, float]] = {
    "nesterov": (lambda: compiler.nesterov(0.02, decay=0.1), by_hand.nesterov, 0.02),
    "adam": (lambda: compiler.adam(0.05, decay=0.1), by_hand.adam, 0.05),
    "adamw": (lambda: compiler.adamw(0.05, beta1=0.8, beta2=0.99, decay=0.1), by_hand.adamw, 0.05),
    "amsgrad": (lambda: compiler.adam(0.05, beta2=0.9, amsgrad=True, decay=0.1), by_hand.amsgrad(0.1, 0), 0.05),
    "amsgrad, decoupled": (
        lambda: compiler.adamw(0.05, beta2=0.9, amsgrad=True, decay=0.1),
        by_hand.amsgrad(0, 0.1),
        0.05,
    ),
    "adamax": (lambda: compiler.adamax(0.05, decay=0.1), by_hand.adamax, 0.05),
    "nadam": (lambda: compiler.nadam(0.05, decay=0.1), by_hand.nadam(0.1, 0), 0.05),
    "nadam, decoupled": (lambda: compiler.nadam(0.05, decay=0.1, decoupled=True), by_hand.nadam(0, 0.1), 0.05),
    "radam": (lambda: compiler.radam(0.05, decay=0.1), by_hand.radam(0.1, 0), 0.05),
    "radam, decoupled": (lambda: compiler.radam(0.05, decay=0.1, decoupled=True), by_hand.radam(0, 0.1), 0.05),
    "adagrad": (lambda: compiler.adagrad(0.1, rate_decay=0.05, initial=0.2, decay=0.1), by_hand.adagrad, 0.1),
    "adadelta": (lambda: compiler.adadelta(0.9, decay=0.1), by_hand.adadelta, 0.9),
    **{
        f"rmsprop, momentum {m}, centred {c}": (
            lambda m=m, c=c: compiler.rmsprop(0.01, momentum=m, centred=c, decay=0.1),
            by_hand.rmsprop(m, c),
            0.01,
        )
        for m in (0.0, 0.9)
        for c in (False, True)
    },
    "lion": (lambda: compiler.lion(0.01, decay=0.1), by_hand.lion, 0.01),
    "lamb": (lambda: compiler.lamb(0.02, decay=0.1), by_hand.lamb, 0.02),
    "lars": (lambda: compiler.lars(0.5, trust=0.02, decay=0.1), by_hand.lars, 0.5),
    "adafactor": (lambda: compiler.adafactor(0.05, decay=0.1), by_hand.adafactor, 0.05),
}


def program_of(optimizer: Optimizer, dtype: str = "float64", **options: object) -> Program:
    program = Program()
    w, b = (program.parameter(name, shape, constant(0.0), dtype=dtype) for name, shape in SHAPES.items())
    x, y = program.input("x", dtype, (6, 3)), program.input("y", dtype, (6, 4))
    program.minimize(ops.squared_error(ops.tanh(x @ w + b), y), optimizer, **options)
    return program


def started(program: Program) -> Stepper:
    stepper = Stepper(program.compile())
    for name, array in START.items():
        stepper.states.arrays[name][...] = array
        for copy in ("slow", "average"):
            if f"{name}.{copy}" in stepper.states.arrays:
                stepper.states.arrays[f"{name}.{copy}"][...] = array
    stepper.states.arrays["total_steps"][...] = STEPS
    return stepper


def history_of(stepper: Stepper, states: tuple[str, ...] = ("w", "b")) -> dict[str, np.ndarray]:
    taken: dict[str, list[np.ndarray]] = {name: [] for name in states}
    for x, y in zip(X, Y, strict=True):
        stepper.step(x=x, y=y)
        for name in states:
            taken[name].append(stepper.states.arrays[name].copy())
    return {name: np.array(arrays) for name, arrays in taken.items()}


def slopes(w: dict[str, np.ndarray], x: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    z = np.tanh(x @ w["w"] + w["b"])
    dz = 2 * (z - y) / y.size * (1 - z * z)
    return {"w": x.T @ dz, "b": dz.sum(0)}


def history_by_hand(
    step: Callable[[int, dict[str, np.ndarray], dict[str, np.ndarray]], dict[str, np.ndarray]],
) -> dict[str, np.ndarray]:
    w, taken = dict(START), []
    for t, (x, y) in enumerate(zip(X, Y, strict=True), 1):
        w = step(t, w, slopes(w, x, y))
        taken.append(w)
    return {name: np.array([w[name] for w in taken]) for name in taken[0]}


def stepping(rule: by_hand.Rule, rate: float):
    memory: dict[str, dict] = {name: {} for name in SHAPES}
    return lambda t, w, g: {name: rule(t, w[name], g[name], memory[name], rate) for name in w}


def same(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray], rtol: float = 1e-9):
    for name, array in found.items():
        np.testing.assert_allclose(array, wanted[name], rtol=rtol, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_is_that_of_its_definition(name: str):
    make, rule, rate = OPTIMIZERS[name]
    found = history_of(started(program_of(make())))
    same(found, history_by_hand(stepping(rule, rate)))
    assert not np.allclose(found["w"][-1], START["w"], atol=1e-3), "it moves"


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_takes_float32_and_stays_close(name: str):
    make, rule, rate = OPTIMIZERS[name]
    found = history_of(started(program_of(make(), "float32")))
    assert found["w"].dtype == np.float32
    wanted = history_by_hand(stepping(rule, rate))
    np.testing.assert_allclose(found["w"][:5], wanted["w"][:5], rtol=2e-3, atol=2e-4)


def test_slots_are_updated_in_place_and_say_whose_they_are():
    program = program_of(compiler.radam()).compile().desc
    [block] = [BlockAnalyses(program)[e.bindings[0].block] for e in program.entries if e.name == "train"]
    in_place = zip(block.op_types, aliases_of(block, REFERENCE).in_place, strict=True)
    assert [pairs for op_type, pairs in in_place if op_type == "radam"] == [[(0, 0), (1, 2), (2, 3)]] * 2
    assert {(s.name, s.slot_of, s.slot) for s in program.states if s.slot_of == "b"} == {
        ("b.m", "b", "m"),
        ("b.v", "b", "v"),
    }


def test_lamb_and_lars_keep_their_own_rate_where_a_norm_is_zero():
    for optimizer, step in ((compiler.lamb(0.5), 0.5), (compiler.lars(0.5), 0.5)):
        program = Program()
        w = program.parameter("w", (), constant(0.0), dtype="float64")
        program.minimize(ops.square(w - 0.5), optimizer)
        stepper = Stepper(program.compile())
        stepper.step()
        assert stepper.states.arrays["w"] == pytest.approx(step, rel=1e-5)  # the gradient is -1


def test_look_ahead_meets_the_fast_parameters_half_way():
    memory: dict[str, dict] = {name: {} for name in SHAPES}
    slow = dict(START)

    def step(t, w, g):
        w = {name: by_hand.adam(t, w[name], g[name], memory[name], 0.05) for name in w}
        if t % 3 == 0:
            slow.update({name: slow[name] + 0.4 * (w[name] - slow[name]) for name in w})
            return dict(slow)
        return w

    optimizer = compiler.look_ahead(compiler.adam(0.05, decay=0.1), every=3, share=0.4)
    same(history_of(started(program_of(optimizer))), history_by_hand(step))


def test_what_look_ahead_and_averages_begin_with_is_the_parameter_itself():
    program = Program(seed=3)
    w = program.parameter("w", (5, 4), compiler.normal(), dtype="float64")
    program.minimize(ops.sum(ops.square(w)), compiler.look_ahead(compiler.sgd(0.1)))
    program.average(0.9)
    arrays = Stepper(program.compile()).states.arrays
    assert np.any(arrays["w"])
    assert arrays["w.slow"].tolist() == arrays["w"].tolist() == arrays["w.average"].tolist()


@pytest.mark.parametrize("name", ["adam", "nadam", "lamb"])
def test_accumulated_steps_make_one_update_by_the_mean_of_their_gradients(name: str):
    make, rule, rate = OPTIMIZERS[name]
    stepper = started(program_of(make(), accumulate=4))
    memory: dict[str, dict] = {name: {} for name in SHAPES}
    sums = dict.fromkeys(SHAPES, 0.0)

    def step(t, w, g):
        for name in w:
            sums[name] = sums[name] + g[name] / 4
        if t % 4:
            return w
        new = {name: rule(t // 4, w[name], sums[name], memory[name], rate) for name in w}
        sums.update(dict.fromkeys(SHAPES, 0.0))
        return new

    same(history_of(stepper), history_by_hand(step))
    assert stepper.states.arrays["step"] == STEPS


def test_between_accumulated_updates_no_slot_changes_a_bit():
    stepper = started(program_of(compiler.nadam(0.05), accumulate=3))
    names = [n for n in stepper.states.arrays if n.partition(".")[2] in ("m", "v", "product")] + ["w", "b"]
    before = stepper.snapshot()
    for t, (x, y) in enumerate(zip(X[:9], Y[:9], strict=True), 1):
        stepper.step(x=x, y=y)
        now = stepper.snapshot()
        assert [n for n in names if (now[n].tobytes() != before[n].tobytes()) != (t % 3 == 0)] == []
        before = now


def test_groups_have_optimizers_rates_and_limits_of_their_own():
    program = Program()
    w, b = (program.parameter(name, shape, constant(0.0), dtype="float64") for name, shape in SHAPES.items())
    x, y = program.input("x", "float64", (6, 3)), program.input("y", "float64", (6, 4))
    loss = ops.squared_error(ops.tanh(x @ w + b), y)
    program.minimize(
        loss, compiler.adam(0.05, decay=0.1), groups=[([b], compiler.sgd(0.3, clip=compiler.by_norm(0.1)))]
    )
    memory: dict = {}

    def step(t, w, g):
        size = np.linalg.norm(g["b"])
        b = w["b"] - 0.3 * g["b"] * min(1.0, 0.1 / (size + 1e-6))
        return {"w": by_hand.adam(t, w["w"], g["w"], memory, 0.05), "b": b}

    stepper = started(program)
    same(history_of(stepper), history_by_hand(step))
    fetches = stepper.step(x=X[0], y=Y[0])
    assert (fetches["rate"], fetches["rate2"]) == (0.05, 0.3)


def test_losses_with_names_are_reported_by_training_and_evaluation():
    program = Program()
    w = program.parameter("w", (), constant(3.0), dtype="float64")
    program.minimize(w * w, compiler.sgd(0.1), name="square")
    program.minimize(ops.abs(w), compiler.sgd(0.2), name="size")
    compiled = program.compile()
    first = {"square": 9.0, "square_rate": 0.1, "size": 3.0, "size_rate": 0.2}
    assert {name: float(array) for name, array in Stepper(compiled).step().items()} == first
    assert {name: float(array) for name, array in Stepper(compiled, "evaluate").step().items()} == {
        "square": 9.0,
        "size": 3.0,
    }


def test_a_name_of_a_loss_is_taken_once():
    program = Program()
    w = program.parameter("w", (), constant(3.0))
    program.minimize(w * w, compiler.sgd(0.1), name="square")
    with pytest.raises(OpError, match="fetch 'square': training already reports a value of that name"):
        program.minimize(ops.abs(w), compiler.sgd(0.2), name="square")


CLIPS = {
    "by_value": lambda g: {name: np.clip(x, -0.05, 0.05) for name, x in g.items()},
    "by_norm": lambda g: {n: x * min(1.0, 0.05 / (np.linalg.norm(x) + 1e-6)) for n, x in g.items()},
    "global_norm": lambda g: {
        n: x * min(1.0, 0.05 / (np.sqrt(sum(np.sum(y * y) for y in g.values())) + 1e-6)) for n, x in g.items()
    },
}


@pytest.mark.parametrize("name", CLIPS)
def test_gradients_are_clipped_over_all_groups_or_for_one_optimizer(name: str):
    clip = getattr(compiler, name)(0.05)

    def step(t, w, g):
        limited = CLIPS[name](g)
        return {name: w[name] - 0.5 * limited[name] for name in w}

    wanted = history_by_hand(step)
    same(history_of(started(program_of(compiler.sgd(0.5, clip=clip)))), wanted)
    same(history_of(started(program_of(compiler.sgd(0.5), clip=clip))), wanted)


def test_averages_follow_the_parameters_and_stand_in_for_them_outside_training():
    program = program_of(compiler.sgd(0.5))
    program.average(0.8, every=2)
    stepper = started(program)
    found = history_of(stepper, ("w", "w.average"))
    average, wanted = START["w"], []
    for t, w in enumerate(found["w"], 1):
        average = 0.8 * average + 0.2 * w if t % 2 == 0 else average
        wanted.append(average)
    np.testing.assert_allclose(found["w.average"], wanted, rtol=1e-12, atol=1e-13)
    evaluate = Stepper(stepper.program, "evaluate")
    for name, array in stepper.states.arrays.items():
        evaluate.states.arrays[name][...] = array
    arrays = stepper.states.arrays
    z = np.tanh(X[0] @ arrays["w.average"] + arrays["b.average"])
    loss = evaluate.step(x=X[0], y=Y[0])["loss"]
    assert loss == pytest.approx(np.mean((z - Y[0]) ** 2), rel=1e-12)


def test_what_cannot_be_trained_so_is_an_error():
    program = Program()
    w, v = (program.parameter(name, (), constant(1.0)) for name in "wv")
    with pytest.raises(CompileError, match=r"minimize: %v: float32\[\] is in a group, and the loss does not train it"):
        program.minimize(w * w, compiler.sgd(0.1), groups=[([v], compiler.sgd(0.1))])
    twice = [([w], compiler.sgd(0.1)), ([w], compiler.sgd(0.2))]
    with pytest.raises(CompileError, match=r"minimize: %w: float32\[\] is in two groups; one optimizer trains it"):
        program.minimize(w * w, compiler.sgd(0.1), groups=twice)
    with pytest.raises(CompileError, match="minimize: accumulate=0; it starts at 1"):
        program.minimize(w * w, compiler.sgd(0.1), accumulate=0)
    with pytest.raises(OpError, match="look_ahead: every=0; it starts at 1"):
        compiler.look_ahead(compiler.sgd(0.1), every=0)
    with pytest.raises(OpError, match="by_value: limit=0 is not above 0"):
        compiler.by_value(0)
    with pytest.raises(OpError, match=r"average: decay=1.0 and every=1; they are in \[0, 1\) and from 1"):
        program.average(1.0)


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_accumulated_steps_with_few_labels_count_less_and_make_the_update_of_one_batch(engine: str):
    """Four steps of 8 rows with 0 to 8 labels that count are one step of 32 rows."""

    def made(batch: int, accumulate: int) -> prograd.Run:
        program = Program("counted", seed=3)
        x, y = program.input("x", "float32", ("batch", 64)), program.input("y", "int32", ("batch",))
        logits = x @ program.parameter("w", (64, 16))
        program.minimize(ops.cross_entropy(logits, y, ignored=-100), compiler.adam(1e-2), accumulate=accumulate)
        return prograd.Run(program.compile(batch=batch), engine=engine)  # type: ignore[arg-type]

    rng = np.random.default_rng(0)
    whole, parts = made(32, 1), made(8, 4)
    for _ in range(3):
        x, y = rng.standard_normal((32, 64)).astype(np.float32), rng.integers(0, 16, 32).astype(np.int32)
        y[8:16], y[17:24], y[28:] = -100, -100, -100
        whole.step({"x": x, "y": y})
        for at in range(0, 32, 8):
            parts.step({"x": x[at : at + 8], "y": y[at : at + 8]})
        np.testing.assert_allclose(parts.state["w"], whole.state["w"], rtol=1e-4, atol=1e-6)


def test_accumulated_terms_of_different_weights_are_said(caplog: pytest.LogCaptureFixture):
    for both in (False, True):
        program = Program("counted", seed=3)
        x, y, z = program.input("x", "float32", ("batch", 4)), *(program.input(n, "int32", ("batch",)) for n in "yz")
        logits = x @ program.parameter("w", (4, 5))
        loss = ops.cross_entropy(logits, y) + (ops.cross_entropy(logits, z) if both else ops.mean(x))
        caplog.clear()
        program.minimize(loss, compiler.sgd(0.1), accumulate=2)
        said = [record.getMessage().replace(loss.name, "loss") for record in caplog.records]
        assert len(said) == both
    assert said[0].startswith("minimize: accumulate=2: %loss has terms of different weights, %")
    assert said[0].endswith(
        ", so its steps count equally, and an update is not that of one batch of all their rows; "
        "minimize(weight=...) states the weight of a step"
    )


LAZY: dict[str, tuple[Callable[[], Optimizer], by_hand.Rule, float]] = {
    "adam": (lambda: compiler.adam(0.05, decay=0.1), by_hand.adam, 0.05),
    "adamw": (lambda: compiler.adamw(0.05, beta1=0.8, beta2=0.99, decay=0.1), by_hand.adamw, 0.05),
    "adagrad": (lambda: compiler.adagrad(0.1, rate_decay=0.05, initial=0.2, decay=0.1), by_hand.adagrad, 0.1),
}


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("name", LAZY)
def test_a_lazy_optimizer_moves_the_rows_that_occur_and_no_others(name: str, engine: str):
    """The oracle has separate slots for each row, and applies the rule to a row only in steps where the row occurs."""
    optimizer, rule, rate = LAZY[name]
    rng = np.random.default_rng(1)
    start, words = rng.normal(size=(9, 2, 4)), rng.integers(0, 8, (20, 3))  # the last row never occurs
    wanted = rng.normal(size=(20, 3, 2, 4))
    program = Program()
    w = program.parameter("w", start.shape, constant(0.0), dtype="float64")
    word, target = program.input("word", "int64", (3,)), program.input("target", "float64", (3, 2, 4))
    program.minimize(ops.sum((ops.gather(w, word) - target) ** 2), compiler.lazy(optimizer()))
    run = prograd.Run(program.compile(), engine=engine)
    run.state["w"] = start
    by_row, memory = [row.copy() for row in start], [dict[str, np.ndarray]() for _ in start]
    for t in range(20):
        for row in set(words[t].tolist()):
            gradient = sum(2 * (by_row[row] - wanted[t, at]) for at in np.flatnonzero(words[t] == row))
            by_row[row] = rule(t + 1, by_row[row], gradient, memory[row], rate)
        run.step({"word": words[t], "target": wanted[t]})
        assert np.allclose(run.state["w"], by_row, rtol=1e-12, atol=1e-14)
    assert np.array_equal(run.state["w"][8], start[8])


def test_parameters_without_rows_are_updated_by_a_lazy_optimizer_as_usual():
    def trained(optimizer: Optimizer) -> dict[str, np.ndarray]:
        stepper = started(program_of(optimizer))
        history_of(stepper)
        return {name: stepper.states.arrays[name] for name in ("b", "w")}

    lazy, usual = trained(compiler.lazy(compiler.adam(0.05))), trained(compiler.adam(0.05))
    assert np.array_equal(lazy["b"], usual["b"])
    assert np.array_equal(lazy["w"], usual["w"])  # all its rows occur
