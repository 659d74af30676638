"""Metrics in training: epochs, evaluations between steps, checkpoints, threads, entries, the command."""

from inspect import currentframe
from pathlib import Path

import numpy as np
import pytest
from subjects.commands import told
from subjects.small_programs import BATCH, TRAIN, arrays, write_data

import runtime
from compiler import Program, adam, constant, metrics, ops, sgd
from prograd import layers
from prograd_proto import program_pb2 as pb
from runtime.__main__ import main
from runtime.philox import permutation


def build(*, with_metrics: bool = True) -> Program:
    """Adam with dropout and updates by two steps; metrics of what does not depend on the parameters."""
    program = Program("linear", seed=5)
    x, y = program.input("x", "float32", ("batch", 3)), program.input("y", "float32", ("batch",))
    w = program.parameter("w", (3,), constant(0.1))
    prediction = ops.sum(ops.dropout(x, ratio=0.25) * w, axis=(1,))
    program.minimize(ops.squared_error(prediction, y), adam(0.1), accumulate=2)
    if with_metrics:
        program.metrics(
            mae=metrics.mean_absolute_error(prediction, y),
            data=metrics.mean_squared_error(x[:, 0], y),
            area=metrics.auc(x[:, 1], y > 0.0, rows=43),
            table=metrics.confusion_matrix(x[:, 1] > 0.0, y > 0.0),
        )
    program.outputs(prediction=prediction)
    program.data("rows.safetensors", splits={"train": "train", "test": "test"}, shuffle=True, remainder="drop")
    program.training(epochs=3, split="train", evaluate="test", keep_best="area", best="max") if with_metrics else None
    return program


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_data(tmp_path)
    build().compile(batch=BATCH).save(tmp_path / "p.pb", force=True)
    return tmp_path / "p.pb"


def area(scores: np.ndarray, positive: np.ndarray) -> float:
    pairs = [(p > n) + (p == n) / 2 for p in scores[positive] for n in scores[~positive]]
    return sum(pairs) / len(pairs)


def squared(chosen: np.ndarray) -> float:
    d = arrays()
    return float(np.mean((d["x"][chosen, 0].astype(np.float64) - d["y"][chosen].astype(np.float64)) ** 2))


def test_totals_begin_anew_with_each_epoch_and_are_of_its_rows_so_far(path):
    run = runtime.load(path)
    seen = 0
    for event in run.events():
        match event:
            case runtime.StepEnd():
                order = permutation(5, event.epoch - 1, TRAIN)
                seen = seen % (TRAIN // BATCH * BATCH) + BATCH
                assert event.metrics["data"] == pytest.approx(squared(order[:seen]), rel=1e-13)
                assert run.fetched["table"].sum() == seen
            case runtime.EpochEnd():
                whole = permutation(5, event.epoch - 1, TRAIN)[: TRAIN // BATCH * BATCH]
                assert event.metrics["data"] == pytest.approx(squared(whole), rel=1e-13)
            case runtime.EvaluationEnd():
                d = arrays()
                assert event.metrics["data"] == pytest.approx(squared(d["test"]), rel=1e-13)
                assert event.metrics["area"] == pytest.approx(area(d["x"][TRAIN:, 1], d["y"][TRAIN:] > 0), rel=1e-14)
            case _:
                pass


def test_an_evaluation_in_the_middle_of_an_epoch_leaves_its_totals(path):
    quiet, curious = runtime.load(path), runtime.load(path)
    first = list(quiet.events(epochs=2))
    second = []
    for event in curious.events(epochs=2):
        second.append(event)
        before = curious.states.sha256()
        curious.evaluate("train")
        curious.step({"x": arrays()["x"][:4], "y": arrays()["y"][:4]}, entry="evaluate")
        assert curious.states.sha256() == before
    assert first == second
    assert quiet.states.sha256() == curious.states.sha256()


def test_a_run_that_goes_on_in_the_middle_of_an_epoch_has_equal_totals(path, tmp_path):
    straight = runtime.load(path)
    whole = list(straight.events())
    halves = runtime.load(path)
    first = []
    for event in halves.events():
        first.append(event)
        if getattr(event, "step", 0) == 10 and isinstance(event, runtime.StepEnd):
            break
    halves.save(tmp_path / "half.safetensors")
    again = runtime.load(path)
    again.resume(tmp_path / "half.safetensors")
    assert 0 < again.position.step < TRAIN // BATCH
    assert first + list(again.events()) == whole
    assert again.states.sha256() == straight.states.sha256()


def test_metrics_have_the_same_bits_with_any_number_of_threads(path):
    runs = [runtime.load(path, threads=threads) for threads in (1, 2, 3)]
    events = [list(run.events()) for run in runs]
    assert events[0] == events[1] == events[2]
    assert len({run.states.sha256() for run in runs}) == 1
    for run in runs:
        run.close()


def test_metrics_leave_what_is_trained_as_it_is(path, tmp_path):
    plain = build(with_metrics=False).compile(batch=BATCH)
    plain.save(tmp_path / "plain.pb")
    weights = []
    for file in (path, tmp_path / "plain.pb"):
        run = runtime.load(file)
        for event in run.events(steps=11):
            if isinstance(event, runtime.StepEnd):
                weights.append(run.state["w"].tobytes())
    assert weights[:11] == weights[11:]


def test_an_evaluation_takes_inference_forms_and_rows_one_by_one(path):
    run = runtime.load(path)
    d = arrays()
    expected = np.abs((d["x"] * np.float32(0.1)).sum(axis=1) - d["y"]).mean()
    found = run.evaluate({"x": d["x"], "y": d["y"]})
    assert found["mae"] == pytest.approx(expected, rel=1e-6), "nothing is dropped"
    assert [bound.rows for bound in run.session.bindings("evaluate")] == [BATCH, 1]
    assert found["table"].sum() == len(d["y"]) == 43


def test_totals_that_only_the_evaluation_reports_cost_training_nothing():
    program = build(with_metrics=False)
    program.entry("evaluate", area=metrics.auc(program.block.value("x")[:, 1], program.block.value("y") > 0.0, rows=5))
    desc = program.compile(batch=BATCH).desc
    updated = {e.name: {u.state for u in desc.blocks[e.source_block].updates} for e in desc.entries}
    totals = {"area.seen", "area.scores", "area.positives"}
    assert updated["evaluate"] == totals
    assert not updated["train"] & totals
    assert not updated["predict"]
    lifespans = {state.name: state.lifespan for state in desc.states}
    assert {lifespans[name] for name in totals} == {pb.LIFESPAN_EPOCH}


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_score_too_many_stops_the_run_names_the_metric_and_puts_the_states_back(engine: str):
    program = Program()
    x = program.input("x", "float32", ("batch", 64))
    line = currentframe().f_lineno + 1  # pyright: ignore[reportOptionalMemberAccess]
    program.metrics(area=metrics.auc(x[:, 0], x[:, 0] > 0.0, rows=50))
    run = runtime.Run(program.compile(batch=32).desc, engine=engine)
    before = run.states.sha256()
    rows = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    assert told(runtime.ExecutionError, lambda: run.evaluate({"x": rows})) == (
        f"the metric 'area' from {Path(__file__).relative_to(Path.cwd())}:{line} keeps 50 scores, and there are more; "
        "declare it with rows= of at least the rows of an epoch and of an evaluation, or with bins="
    )
    assert run.states.sha256() == before
    assert run.evaluate({"x": rows[:50]})["area"] == 1.0


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("by", ["confusion", "f1", "loss"])
def test_a_number_out_of_range_is_blamed_on_the_feed_that_the_op_reads_and_on_its_metric(by: str, engine: str):
    program = Program()
    image, label = program.input("image", "uint8", ("batch", 64)), program.input("label", "int64", ("batch",))
    scores = layers.dense(ops.cast(image, dtype="float32") / 255.0, "output", 3)
    loss = ops.mean(ops.square(scores)) if by != "loss" else ops.softmax_cross_entropy(scores, label)
    program.minimize(loss, sgd(0.1))
    if by != "loss":
        program.metrics(quality=metrics.f1(scores, label) if by == "f1" else metrics.confusion_matrix(scores, label))
    run = runtime.Run(program.compile(batch=32), engine=engine)
    rows = {"image": np.full((64, 64), 7, np.uint8), "label": np.arange(64) % 3}
    rows["label"][50] = 7
    with pytest.raises(runtime.ExecutionError, match=r" out of range: .*; row 50 of the feed 'label' has it$") as error:
        run.train(data=rows, epochs=1)
    assert str(error.value).startswith("op " if by == "loss" else "metric 'quality': op ")
    with pytest.raises(runtime.ExecutionError, match=r"row 18 of the feed 'label' has it$"):
        run.step({name: array[32:] for name, array in rows.items()})


def test_a_row_that_two_feeds_may_have_is_not_named():
    program = Program()
    a, b = program.input("a", "int64", ("batch",)), program.input("b", "int64", ("batch",))
    table = program.parameter("table", (3, 64))
    program.outputs(y=ops.gather(table, ops.where(ops.equal(a, b), a, b)))
    run = runtime.Run(program.compile(batch=2))
    with pytest.raises(runtime.ExecutionError, match=r"there are 3 places, from 0; 'table' has a row for each"):
        run.predict({"a": np.array([7, 1]), "b": np.array([7, 1])})


def test_an_entry_accumulates_the_epochs_buffers_that_it_reads():
    program = Program()
    x = program.input("x", "float32", ("batch",))
    w = program.parameter("w", ())
    program.minimize(ops.mean(ops.square(x - w)), sgd(0.1))
    seen = program.buffer("seen", (), lifespan="epoch")
    lasting = program.buffer("lasting", ())
    total = seen + ops.sum(x)
    program.update(seen, total)
    program.update(lasting, lasting + 1.0)
    program.entry("evaluate", seen=total, lasting=lasting)
    run = runtime.Run(program.compile(batch=4).desc)
    run.step({"x": [1.0, 2.0, 3.0, 4.0]})
    found = run.evaluate({"x": np.arange(11, dtype=np.float32)})
    assert (found["seen"], found["lasting"]) == (55.0, 1.0)
    assert run.state["seen"] == 10


def test_averages_stand_in_for_parameters_in_metrics_too():
    program = Program()
    x = program.input("x", "float32", ("batch",))
    w = program.parameter("w", (), constant(1.0))
    program.minimize(ops.mean(ops.square(x - w)), sgd(0.25))
    program.average(0.5)
    program.metrics(w=metrics.mean(ops.broadcast_to(ops.reshape(w, shape=(1,)), shape=x.shape)))
    run = runtime.Run(program.compile(batch=2).desc)
    run.step({"x": [3.0, 3.0]})  # w becomes 2
    assert run.evaluate({"x": np.zeros(3, np.float32)})["w"] == 1.5


# The command


def test_the_command_prints_and_writes_matrices_and_keeps_the_best_by_a_metric(path, capsys, monkeypatch):
    monkeypatch.chdir(path.parent)
    assert main(["execute", "p.pb", "-q", "--save", "s.safetensors", "--metrics", "m.csv"]) == 0
    line = capsys.readouterr().out.strip()
    assert "evaluate.area=" in line
    assert "table" not in line
    assert "table" not in Path("m.csv").read_text().splitlines()[0]
    command = ["execute", "p.pb", "-q", "--entry", "evaluate", "--load", "s.safetensors", "--fetch"]
    assert main([*command, "table"]) == 0
    d = arrays()
    x, y = d["x"][TRAIN:, 1] > 0, d["y"][TRAIN:] > 0
    a, b, c, e = (int(np.sum((y == i) & (x == j))) for i in (0, 1) for j in (0, 1))
    printed = capsys.readouterr().out
    assert printed.startswith(f"table: int64[2, 2] = \n[[{a}, {b}],\n [{c}, {e}]]\nOK ")
    assert main([*command, "table=@t.npy"]) == 0
    assert np.load("t.npy").tolist() == [[a, b], [c, e]]
