"""Program.load: a file as something to build on."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from subjects.commands import told
from subjects.small_programs import BATCH, arrays, linear, rich, save, write_data

import runtime
from compiler import CompileError, OpError, Program, from_file, gradients, metrics, ops, sgd, zeros
from compiler.build.compiled import compile_program
from compiler.build.last_batch import sizes_of
from prograd_proto import ProgramError
from prograd_proto import program_pb2 as pb
from prograd_proto.files import load
from prograd_proto.files import save as save_desc
from prograd_proto.identity import program_sha256

TESTS = Path(__file__).parents[1]
EXAMPLES = sorted((TESTS.parent / "examples").glob("*.pb"))
CORPUS = sorted((TESTS / "golden" / "compiled").glob("*.pb"))
X = arrays()["x"]


def trained(path) -> runtime.Run:
    run = runtime.load(path)
    run.train()
    return run


@pytest.mark.sampled(9)
@pytest.mark.parametrize("path", [*EXAMPLES, *CORPUS], ids=lambda path: path.stem)
def test_a_file_to_which_nothing_is_added_compiles_to_itself(path):
    desc = load(path)
    planned = any(op.recompute_of or op.type == "spill" for block in desc.blocks for op in block.ops)
    assert planned == (path.stem in ("v1_everything", "v1_repeated", "v1_spilled"))
    expected = program_sha256(desc)
    if planned or path.stem == "v1_partial":  # plans are made anew; the last rows get a step
        expected = compile_program(desc, sizes_of(desc)).sha256
    assert Program.load(path).compile().sha256 == expected


@pytest.mark.parametrize("make", [linear, rich])
def test_what_is_saved_again_is_the_same_file(tmp_path, make):
    path = save(make(), tmp_path)
    Program.load(path).compile().save(tmp_path / "again.pb")
    assert (tmp_path / "again.pb").read_bytes() == path.read_bytes()


def test_the_text_form_and_a_file_without_locations_open_too(tmp_path):
    path = save(rich(), tmp_path)
    desc = load(path)
    (tmp_path / "p.txt").write_text(str(Program.load(path).compile()))
    del desc.locations[:]
    for op in (op for block in desc.blocks for op in block.ops):
        op.location = 0
    for state in desc.states:
        if state.HasField("op"):
            state.op.location = 0
    save_desc(desc, tmp_path / "bare.pb")
    for name in ("p.txt", "bare.pb"):
        assert Program.load(tmp_path / name).compile().sha256 == program_sha256(desc)


def test_states_in_files_stay_there(tmp_path):
    write_data(tmp_path, start=np.ones(3, np.float32))
    program = Program("external")
    w = program.parameter("w", (3,), from_file("rows.safetensors", "start"))
    program.outputs(y=program.input("x", "float32", ("batch", 3)) * w)
    program.compile(batch=2).save(tmp_path / "p.pb")
    opened = Program.load(tmp_path / "p.pb")
    opened.outputs(z=opened["w"] + 1.0)
    opened.compile().save(tmp_path / "q.pb")
    found = runtime.load(tmp_path / "q.pb").predict(X[:2])
    np.testing.assert_array_equal(found["y"], X[:2])
    assert found["z"].tolist() == [2, 2, 2]


def test_tensors_and_states_are_found_by_name(tmp_path):
    program = Program.load(save(rich(), tmp_path))
    assert program["w"].name == "w"
    assert program.tensor("x").type.shape == ("batch", 3)
    assert list(program.states)[:3] == ["seed", "step", "total_steps"]
    assert {"x", "y", "w"} <= program.tensors.keys()
    assert {"loss", "rate", "total", "mean"} <= program.fetched().keys()
    assert program.fetched("predict")["prediction"].type.shape == ("batch",)
    assert told(OpError, lambda: program["ww"]).endswith("there is no tensor and no state 'ww'; did you mean 'w'?")
    assert told(OpError, lambda: program.fetched("predikt")) == "there is no entry 'predikt'; did you mean 'predict'?"


def test_more_outputs_and_metrics_leave_training_as_it_was(tmp_path):
    path = save(rich(), tmp_path)
    before = trained(path)
    program = Program.load(path)
    program.outputs(double=program.fetched("predict")["prediction"] * 2.0)
    error = program["y"] - 0.5
    program.metrics(
        off=ops.mean(error * error), variance=metrics.r2(program.fetched()["mean"] + program["y"] * 0.0, program["y"])
    )
    program.entry("look", largest=program["largest"])
    program.compile().save(tmp_path / "q.pb")
    after = trained(tmp_path / "q.pb")
    for name in before.state:
        np.testing.assert_array_equal(before.state[name], after.state[name])
    single = before.predict(X)["prediction"]
    found = after.predict(X)
    np.testing.assert_array_equal(found["prediction"], single)
    np.testing.assert_array_equal(found["double"], single * 2)
    assert after.evaluate("test")["off"] == pytest.approx(np.mean((arrays()["y"][31:] - 0.5) ** 2))
    assert {name: after.evaluate()[name] for name in before.evaluate()} == before.evaluate()
    assert after.predict({}, entry="look")["largest"] == after.state["largest"]


def test_an_output_of_another_name_takes_the_place_of_one(tmp_path):
    program = Program.load(save(linear(), tmp_path))
    program.outputs(prediction=program["x"] * 3.0)
    program.compile().save(tmp_path / "q.pb")
    assert list(runtime.load(tmp_path / "q.pb").predict(X)) == ["prediction"]
    np.testing.assert_array_equal(runtime.load(tmp_path / "q.pb").predict(X)["prediction"], X * 3)


def test_a_head_is_trained_on_what_was_trained(tmp_path):
    """Add a parameter and a second loss, as a loop by hand would."""
    path = save(linear(rate=0.05), tmp_path, keep_best=None, evaluate=None)
    program = Program.load(path)
    head = program.parameter("head", (3,), zeros())
    error = ops.sum(program["x"] * head, axis=(1,)) - program["y"]
    program.minimize(ops.mean(error * error), sgd(0.05), [head], name="head")
    program.outputs(head=ops.sum(program["x"] * head, axis=(1,)))
    program.data("rows.safetensors", splits={"train": "train"}, shuffle=False, remainder="drop")
    program.training(epochs=2)
    program.compile().save(tmp_path / "q.pb")
    run = trained(tmp_path / "q.pb")
    x, y, w = X[:31].astype(float), arrays()["y"][:31].astype(float), np.zeros(3)
    for start in [*range(0, 28, BATCH)] * 2:
        rows = slice(start, start + BATCH)
        w = w - 0.05 * 2 * (x[rows] @ w - y[rows]) @ x[rows] / BATCH
    np.testing.assert_allclose(run.state["head"], w, rtol=1e-4)
    np.testing.assert_allclose(run.predict(X)["head"], X @ run.state["head"], rtol=1e-5)
    assert set(run.evaluate("train")) == {"loss", "head"}


def test_gradients_of_what_was_opened(tmp_path):
    program = Program.load(save(linear(), tmp_path))
    [dw] = gradients(program.fetched()["loss"], [program["w"]])
    program.entry("slope", dw=dw)
    program.compile().save(tmp_path / "q.pb")
    run = runtime.load(tmp_path / "q.pb")
    feeds = {"x": X[:BATCH], "y": arrays()["y"][:BATCH]}
    error = X[:BATCH] @ run.state["w"] - feeds["y"]
    found = run.step(feeds, entry="slope")["dw"]
    np.testing.assert_allclose(found, 2 * error @ X[:BATCH] / BATCH, rtol=1e-5)


def test_ops_that_differ_outside_training_do_so_in_what_is_added(tmp_path):
    """Dropout trains with its mask, and what is added to `predict` behind it has none."""
    path = save(rich(), tmp_path)
    program = Program.load(path)
    dropout = next(op for op in program.block.desc.ops if op.type == "dropout" and op.stage == pb.STAGE_FORWARD)
    program.outputs(hidden=program[dropout.outputs[0]])
    program.compile().save(tmp_path / "q.pb")
    run = runtime.load(tmp_path / "q.pb")
    np.testing.assert_allclose(run.predict(X)["hidden"], X * run.state["w"], rtol=1e-6)


def test_other_sizes_are_bound(tmp_path):
    path = save(linear(), tmp_path)
    assert sizes_of(Program.load(path).compile(batch=7).desc) == {"batch": 7}


def test_averages_go_on(tmp_path):
    program = linear()
    program.average(0.9)
    path = save(program, tmp_path)
    opened = Program.load(path)
    opened.outputs(w=opened["w"] * 1.0)
    opened.compile().save(tmp_path / "q.pb")
    run = trained(tmp_path / "q.pb")
    np.testing.assert_array_equal(run.predict(X)["w"], run.state["w.average"])
    loss = opened["y"].block.value("w")
    found = told(OpError, lambda: opened.minimize(ops.sum(loss * loss), sgd(0.1), name="more"))
    assert found.endswith(
        "update: in the file, w.average follows what %w: float32[3] becomes, as averages do; "
        "to change that, build the program anew"
    )


def test_a_program_that_only_predicts_is_opened_and_trained(tmp_path):
    program = Program("predicts")
    w = program.parameter("w", (3,), zeros(), trainable=True)
    program.outputs(y=ops.sum(program.input("x", "float32", ("batch", 3)) * w, axis=(1,)))
    program.compile(batch=2).save(tmp_path / "p.pb")
    opened = Program.load(tmp_path / "p.pb")
    y = opened.input("wanted", "float32", ("batch",))
    opened.minimize(ops.squared_error(opened.fetched("predict")["y"], y), sgd(0.1))
    run = runtime.Run(opened.compile().desc)
    run.step({"x": X[:2], "wanted": np.ones(2, np.float32)})
    np.testing.assert_allclose(run.state["w"], 0.1 * X[:2].sum(axis=0), rtol=1e-5)


def test_what_cannot_be_opened_is_one_sentence(tmp_path):
    path = save(linear(), tmp_path)
    desc = load(path)
    for entry in desc.entries:
        entry.source_block = entry.bindings[0].block
    save_desc(desc, tmp_path / "bound.pb")
    assert told(CompileError, lambda: Program.load(tmp_path / "bound.pb")) == (
        f"{tmp_path / 'bound.pb'}: the entry 'train' has only the block that runs, and not the one that was built; "
        "a program is built on by the blocks that were built"
    )
    desc = load(path)
    desc.entries[0].name = desc.run.entry = "fit"
    save_desc(desc, tmp_path / "fit.pb")
    assert told(CompileError, lambda: Program.load(tmp_path / "fit.pb")) == (
        f"{tmp_path / 'fit.pb'}: the entry 'fit' trains; a program is built on if only the entry 'train' does"
    )
    assert told(ProgramError, lambda: Program.load(tmp_path / "none.pb")) == f"{tmp_path / 'none.pb'}: no such file"
    shutil.copy(path, tmp_path / "cut.pb")
    (tmp_path / "cut.pb").write_bytes(path.read_bytes()[:-6])
    assert "cut short" in told(ProgramError, lambda: Program.load(tmp_path / "cut.pb"))


def test_opening_leaves_the_file_alone(tmp_path):
    path = save(linear(), tmp_path)
    before = path.read_bytes()
    program = Program.load(path)
    program.outputs(more=program["x"])
    program.compile(batch=2)
    assert path.read_bytes() == before
    assert load(path).data.remainder == pb.REMAINDER_DROP
