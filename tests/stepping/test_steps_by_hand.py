"""`run.step` is prepared once for arrays that are alike, and computes what it computed before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from compiler import Program, ops, sgd
from runtime.errors import DataError, NonFinite, OutOfRange
from runtime.runs.own_loop import one_step
from runtime.runs.run import Run

ROWS, WIDE, CLASSES = 32, 64, 10


@pytest.fixture(params=["reference", "native"])
def engine(request: pytest.FixtureRequest) -> str:
    if request.param == "native":
        pytest.importorskip("llvmlite", reason="the native engine is an extra")
    return request.param


def program() -> Program:
    made = Program("classifier", seed=2)
    x = made.input("x", "float32", ("batch", WIDE))
    label = made.input("label", "int64", ("batch",))
    w = made.parameter("w", (WIDE, ROWS))
    hidden = ops.tanh(x @ w)
    out = made.parameter("out", (ROWS, CLASSES))
    made.minimize(ops.softmax_cross_entropy(hidden @ out, label), sgd(rate=0.1))
    made.outputs(logits=hidden @ out, again=x)
    return made


def new_run(engine: Any, **options: Any) -> Run:
    return Run(program().compile(batch=ROWS).desc, engine=engine, **options)


def feeds(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {"x": rng.normal(size=(ROWS, WIDE)).astype("f4"), "label": rng.integers(0, CLASSES, ROWS)}


def stepped_from_lists(engine: str, given: list[dict[str, np.ndarray]]) -> Run:
    """Return a run after steps that are prepared each by itself, as their feeds are lists."""
    run = new_run(engine)
    for each in given:
        run.step({name: array.tolist() for name, array in each.items()})
    return run


def test_arrays_that_are_alike_are_prepared_once(engine: str, monkeypatch: pytest.MonkeyPatch):
    prepared: list[object] = []
    given_rows = one_step.input_rows
    monkeypatch.setattr(one_step, "input_rows", lambda *words: prepared.append(words) or given_rows(*words))
    run = new_run(engine)
    batches = [feeds(seed) for seed in range(4)]
    for each in batches:
        run.step(each)
    assert len(prepared) == 1
    assert run.state_sha256 == stepped_from_lists(engine, batches).state_sha256


def test_native_code_reads_feeds_where_they_lie():
    pytest.importorskip("llvmlite", reason="the native engine is an extra")
    run, given = new_run("native", threads=2), feeds()
    run.step(given)
    executor = run.session.workspaces.executor(run.session.bindings("train")[0])
    executor.feeds["x"][...] = np.nan
    losses = [run.step(each)["loss"] for each in (given, feeds(1))]
    assert np.isfinite(losses).all()
    assert not (executor.feeds["x"] == feeds(1)["x"]).any()
    assert run.state_sha256 == stepped_from_lists("native", [given, given, feeds(1)]).state_sha256


def views(x: np.ndarray) -> dict[str, np.ndarray]:
    """Return arrays of the same numbers that lie otherwise."""
    apart = np.zeros((ROWS, 2 * WIDE), "f4")
    apart[:, ::2] = x
    shifted = np.zeros(x.nbytes + 1, "u1")
    unaligned = shifted[1:].view("f4").reshape(x.shape)
    unaligned[...] = x
    constant = x.copy()
    constant.flags.writeable = False
    return {
        "columns apart": apart[:, ::2],
        "by columns": np.asfortranarray(x),
        "backwards": x[::-1].copy()[::-1],
        "unaligned": unaligned,
        "constant": constant,
        "of the other byte order": x.astype(x.dtype.newbyteorder()),
        "a subclass": x.view(np.recarray).view(np.ndarray),
    }


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", views(feeds()["x"]))
def test_arrays_that_lie_otherwise_give_the_same_bits(engine: str, name: str):
    run = new_run(engine)
    given = feeds()
    for _ in range(3):
        run.step(given)
        run.step(given | {"x": views(given["x"])[name]})
    assert run.state_sha256 == stepped_from_lists(engine, [given] * 6).state_sha256


def test_a_feed_that_is_the_memory_of_a_state_is_read_before_the_step_changes_it(engine: str):
    run, other = new_run(engine), new_run(engine)
    label = feeds()["label"]
    for _ in range(3):
        w = run.states.arrays["w"]
        run.step({"x": w.reshape(ROWS, WIDE), "label": label})
        other.step({"x": other.states.arrays["w"].reshape(ROWS, WIDE).copy(), "label": label})
    assert run.state_sha256 == other.state_sha256


def test_feeds_and_states_that_change_between_steps_count(engine: str):
    run, other, given = new_run(engine), new_run(engine), feeds()
    for factor in (1.0, 0.5, 0.25):
        given["x"] *= np.float32(factor)
        run.state["out"] = run.state["out"] * np.float32(factor)
        other.state["out"] = other.state["out"] * np.float32(factor)
        other.step({name: array.tolist() for name, array in given.items()})
        run.step(given)
    assert run.state_sha256 == other.state_sha256


def test_an_entry_that_does_not_train_is_prepared_too_and_may_fetch_its_feed(engine: str):
    run = new_run(engine)
    for seed in range(3):
        x = feeds(seed)["x"]
        fetched = run.step({"x": x}, entry="predict")
        np.testing.assert_array_equal(fetched["again"], x)
        np.testing.assert_array_equal(fetched["logits"], run.predict(x)["logits"])
        assert not np.shares_memory(fetched["again"], x)


def test_steps_that_fetch_more_are_prepared_by_themselves(engine: str):
    run, given = new_run(engine), feeds()
    tensor = run.session.bindings("train")[0].block.ops[0].outputs[0]
    for _ in range(2):
        assert set(run.step(given)) == {"loss", "rate"}
        assert set(run.step(given, fetch=[tensor])) == {"loss", "rate", tensor}


def said(run: Run, given: object) -> str:
    with pytest.raises(DataError) as caught:
        run.step(given)  # pyright: ignore[reportArgumentType]
    return str(caught.value)


def test_what_does_not_fit_is_refused_as_before(engine: str):
    run, given = new_run(engine), feeds()
    x, label = given.values()
    wrong = [
        {"x": x},
        given | {"more": x},
        given | {"x": x[:, 1:]},
        given | {"x": x[:5]},
        {"x": x[:5], "label": label[:5]},
        given | {"label": label.astype("f4")},
    ]
    first = [said(run, each) for each in wrong]
    for _ in range(2):
        run.step(given)
    state = run.state_sha256
    assert [said(run, each) for each in wrong] == first
    assert run.state_sha256 == state
    assert first[4] == "entry 'train' takes 32 rows a step, and 5 are given"


def test_a_refused_index_is_named_with_its_row_and_later_steps_go_on(engine: str):
    run, given = new_run(engine), feeds()
    bad = given | {"label": given["label"].copy()}
    bad["label"][7] = CLASSES
    run.step(given)
    sentences: list[str] = []
    for wrong in (bad, {name: array.tolist() for name, array in bad.items()}):
        with pytest.raises(OutOfRange) as caught:
            run.step(wrong)
        sentences.append(str(caught.value))
    assert sentences[0] == sentences[1]
    assert sentences[0].endswith("there are 10 classes, from 0; row 7 of the feed 'label' has it")
    before = run.step(given)["loss"]
    assert np.isfinite(before)


def test_training_and_evaluation_after_a_step_read_their_own_rows(engine: str):
    run, other, given = new_run(engine), new_run(engine), feeds()
    for _ in range(2):
        run.step(given)
        other.step({name: array.tolist() for name, array in given.items()})
    rows = {name: np.concatenate([array] * 3) for name, array in feeds(5).items()}
    for each in (run, other):
        for _ in each.events(data=rows, epochs=1):
            pass
    assert run.state_sha256 == other.state_sha256
    assert run.evaluate(rows)["loss"] == other.evaluate(rows)["loss"]


def test_check_nan_puts_the_states_back(engine: str):
    run, given = new_run(engine, check_nan=True), feeds()
    run.step(given)
    state = run.state_sha256
    bad = given | {"x": np.full_like(given["x"], np.inf)}
    with pytest.raises(NonFinite):
        run.step(bad)
    assert run.state_sha256 == state
    run.step(given)
    other = new_run(engine, check_nan=True)
    for _ in range(2):
        other.step({name: array.tolist() for name, array in given.items()})
    assert run.state_sha256 == other.state_sha256
