"""freeze(statistics=True): normalisations of frozen layers take their running statistics in training, too."""

import numpy as np
import pytest
from subjects.commands import told

from compiler import OpError, Program, ops, sgd
from prograd import Run, layers

ROWS, WIDTH, KINDS = 32, 64, 10
STATISTICS = ["trunk.norm.mean", "trunk.norm.variance"]


def built(*, fixed: bool = True, trained: bool = False) -> Program:
    """A frozen trunk with a normalisation, and a head; `trained` thaws the trunk's matrix again."""
    program = Program("tuned", seed=3)
    x = program.input("x", "float32", ("batch", WIDTH))
    label = program.input("label", "int64", ("batch",))
    with program.scope("trunk"):
        features = ops.relu(layers.batch_norm(layers.dense(x, "first", WIDTH), "norm"))
    scores = layers.dense(layers.batch_norm(features, "own"), "head", KINDS)
    if fixed:
        frozen = program.freeze("trunk.*", statistics=True)
        assert frozen == [
            "trunk.first.w", "trunk.first.b", "trunk.norm.scale", "trunk.norm.bias", *STATISTICS,
        ]  # fmt: skip
    if trained:
        program.thaw("trunk.first.*")
    program.minimize(ops.softmax_cross_entropy(scores, label), sgd(0.1))
    program.outputs(features=features)
    return program


def rows() -> dict[str, np.ndarray]:
    """32 rows."""
    random = np.random.default_rng(1)
    x = random.normal(2.0, 3.0, (ROWS, WIDTH)).astype(np.float32)
    return {"x": x, "label": random.integers(0, KINDS, ROWS)}


def prepared(program: Program, engine: str) -> Run:
    """A run whose trunk has statistics of its own."""
    run = Run(program.compile(batch=ROWS), engine=engine)
    random = np.random.default_rng(2)
    run.state["trunk.norm.mean"] = random.normal(size=WIDTH).astype(np.float32)
    run.state["trunk.norm.variance"] = random.uniform(0.5, 4.0, WIDTH).astype(np.float32)
    return run


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_training_computes_what_predictions_do_and_changes_no_statistics(engine: str):
    run = prepared(built(), engine)
    before = {name: run.state[name] for name in run.state if name.startswith("trunk")}
    features = run.predict(rows()["x"])["features"]
    for _ in range(3):
        run.step(rows())
    assert all(np.array_equal(run.state[name], value) for name, value in before.items())
    assert np.array_equal(run.predict(rows()["x"])["features"], features)
    assert not np.array_equal(run.state["own.mean"], np.zeros(WIDTH)), "those of other layers follow the rows"
    unfixed = prepared(built(fixed=False), engine)
    unfixed.step(rows())
    assert not np.array_equal(unfixed.state["trunk.norm.mean"], before["trunk.norm.mean"])


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_gradients_through_fixed_statistics_do_not_see_the_batch(engine: str):
    """Worked out by hand: with fixed statistics the normalisation is a scale and a shift of each column."""
    run = prepared(built(trained=True), engine)
    state = {name: np.asarray(run.state[name], np.float64) for name in run.state}
    x, label = rows()["x"].astype(np.float64), rows()["label"]
    factor = state["trunk.norm.scale"] / np.sqrt(state["trunk.norm.variance"] + 1e-5)
    shift = state["trunk.norm.bias"] - state["trunk.norm.mean"] * factor

    def loss(w: np.ndarray) -> float:
        y = np.maximum((x @ w + state["trunk.first.b"]) * factor + shift, 0.0)
        y = (y - y.mean(0)) / np.sqrt(y.var(0) + 1e-5) * state["own.scale"] + state["own.bias"]
        scores = y @ state["head.w"] + state["head.b"]
        scores -= scores.max(1, keepdims=True)
        return float(np.mean(np.log(np.exp(scores).sum(1)) - scores[np.arange(ROWS), label]))

    run.step(rows())
    w, random = state["trunk.first.w"], np.random.default_rng(5)
    for _ in range(5):
        i, j = random.integers(0, WIDTH, 2)
        step = np.zeros_like(w)
        step[i, j] = 1e-5
        slope = (loss(w + step) - loss(w - step)) / 2e-5
        found = (w[i, j] - float(run.state["trunk.first.w"][i, j])) / 0.1
        assert found == pytest.approx(slope, rel=2e-2, abs=2e-6)


def test_a_file_has_neither_updates_nor_the_operator_of_a_batch():
    desc = built().compile(batch=ROWS).desc
    train = desc.blocks[desc.entries[0].source_block]
    assert not {update.state for update in train.updates} & {*STATISTICS}
    assert sum(op.type == "batch_norm" for op in train.ops) == 1
    assert not any(STATISTICS[0] in tensor.name and "." in tensor.name[-3:] for tensor in train.tensors)


def test_adapters_of_a_network_with_statistics_come_before_minimize_as_well():
    program = built(fixed=False)
    with pytest.raises(OpError, match="adapters come before minimize"):
        program.lora("head", r=4)
    program = Program("net")
    x = program.input("x", "float32", ("batch", WIDTH))
    layers.dense(layers.batch_norm(x, "norm"), "head", KINDS)
    assert program.lora("head", r=4) == ["head.w"]


def test_what_cannot_be_fixed_is_refused():
    assert told(OpError, lambda: built(fixed=False).freeze("trunk.*", statistics=True)).endswith(
        "freeze: statistics=True comes before minimize and gradients, which would not see it"
    )
    assert "comes before minimize" in told(OpError, lambda: built(fixed=False).freeze("nothing.*", statistics=True))
    program = Program("plain")
    layers.dense(program.input("x", "float32", ("batch", WIDTH)), "head", KINDS)
    assert told(OpError, lambda: program.freeze("head.*", statistics=True)).endswith(
        "freeze: no normalisation has running statistics that match 'head.*'; leave statistics=True out"
    )
    program = Program("read")
    x, state = program.input("x", "float32", ("batch", 8)), {}
    for name in ("scale", "bias"):
        state[name] = program.parameter(f"n.{name}", (8,))
    for name in ("mean", "variance"):
        state[name] = program.buffer(f"n.{name}", (8,))
    _, mean, *_ = ops.batch_norm(x, *state.values())
    ops.square(mean)
    with pytest.raises(OpError) as read:
        program.freeze("n.*", statistics=True)
    assert str(read.value).endswith(
        f"freeze: %{mean.name} is read, and only a batch has it; leave n.mean out of the patterns"
    )
