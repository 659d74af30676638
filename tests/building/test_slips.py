"""Slips that a first day brings: names that are not there, rows that cannot be, files of another kind."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from subjects.commands import told

import prograd
from prograd import CompileError, DataError, NonFinite, Program, Run, UsageError, adam, layers, ops
from runtime.__main__ import main

RNG = np.random.default_rng(0)


def rows() -> dict[str, np.ndarray]:
    x = RNG.normal(size=(10, 4)).astype(np.float32)
    return {"x": x, "label": RNG.integers(0, 3, 10), "train": np.arange(6), "test": np.arange(6, 10)}


def network(**data: object) -> Program:
    program = Program("slips", seed=1)
    x, label = program.input("x", "float32", ("batch", 4)), program.input("label", "int64", ("batch",))
    y = layers.dense(x, "d", 3)
    program.minimize(ops.softmax_cross_entropy(y, label), adam())
    program.metrics(accuracy=ops.accuracy(y, label))
    program.outputs(y=y)
    program.data("d.safetensors", **({"splits": {"train": "train", "test": "test"}} | data))  # pyright: ignore
    return program


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    save_file(rows(), "d.safetensors")
    program = network()
    program.training(epochs=1, evaluate="test")
    program.compile(batch=2).save("p.pb", force=True)
    return tmp_path


@pytest.mark.parametrize(
    ("run", "sentence"),
    [
        ({"evaluate": "tset"}, "training: evaluate='tset' is no split of this program; did you mean 'test'?"),
        ({"split": "trian"}, "training: split='trian' is no split of this program; did you mean 'train'?"),
        ({"evaluate": "all"}, "training: evaluate='all' is no split of this program; there are train, test"),
        (
            {"evaluate": "test", "keep_best": "acuracy"},
            "training: keep_best='acuracy' is no metric of this program; did you mean 'accuracy'?",
        ),
    ],
)
def test_names_that_the_run_gives_are_looked_up_when_a_program_is_compiled(run: dict[str, str], sentence: str):
    program = network()
    program.training(epochs=1, **run)  # pyright: ignore
    with pytest.raises(CompileError) as caught:
        program.compile(batch=2)
    line, _, said = str(caught.value).partition(": ")
    assert "test_slips.py:" in line
    assert said == sentence


def test_a_program_that_evaluates_nothing_says_so():
    program = Program()
    w = program.parameter("w", ())
    program.update(w, w + 1.0)
    program.training(epochs=1, evaluate="test")
    with pytest.raises(
        CompileError, match="training: there is nothing to evaluate on 'test'; minimize a loss, or name metrics"
    ):
        program.compile()


def test_compiler_check_looks_at_these_names_too(here: Path, capsys: pytest.CaptureFixture[str]):
    from compiler.__main__ import main as compiler
    from prograd_proto.files import load, save

    desc = load("p.pb")
    desc.run.evaluate.split = "tset"
    save(desc, "q.pb")
    assert compiler(["check", "q.pb"]) == 3
    assert (
        "q.pb: training: evaluate='tset' is no split of this program; did you mean 'test'?" in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (
            {"columns": {"x": "pixel"}},
            "data: d.safetensors: there is no key 'pixel' in the file; there are label, test, train, x",
        ),
        (
            {"splits": {"train": "trian", "test": "test"}},
            "data: d.safetensors: there is no key 'trian' in the file; did you mean 'train'?",
        ),
        (
            {"columns": {"x": "label", "label": "x"}},
            "data: d.safetensors: 'label' has the shape [10], and the input 'x' is float32[2, 4]",
        ),
    ],
)
def test_columns_are_looked_up_when_a_program_is_saved(data: dict[str, object], sentence: str, here: Path):
    program = network(**data)
    program.training(epochs=1)
    assert told(CompileError, lambda: program.compile(batch=2).save("q.pb")) == sentence
    assert not Path("q.pb").exists()


def test_an_input_of_other_entries_needs_no_column(here: Path):
    program = network()
    program.outputs(z=program["d.w"] * program.input("by", "float32", ()))
    program.training(epochs=1, evaluate="test")
    program.compile(batch=2).save("q.pb")
    prograd.load("q.pb").train()


def test_a_compiled_program_runs_as_if_it_were_saved(here: Path):
    compiled = network().compile(batch=2)
    run = Run(compiled, here)
    run.train(epochs=2)
    compiled.save("q.pb")
    saved = prograd.load("q.pb")
    saved.train(epochs=2)
    assert (run.sha256, run.states.sha256()) == (saved.sha256, saved.states.sha256())


def test_a_compiled_program_runs_where_its_data_are_not(tmp_path: Path):
    run = Run(network().compile(batch=2), tmp_path)
    assert run.predict(rows()["x"])["y"].shape == (10, 3)
    with pytest.raises(DataError, match=r"no such file; the entry 'train' takes its rows from it unless arrays are "):
        run.train()


def test_options_that_there_are_not(here: Path):
    with pytest.raises(UsageError, match=r"^train: there is no option 'epoch'; did you mean 'epochs'\?$"):
        prograd.load("p.pb").train(epoch=2)
    with pytest.raises(UsageError, match=r"^load: there is no option 'thread'; did you mean 'threads'\?$"):
        prograd.load("p.pb", thread=2)


def test_rows_of_another_kind_of_file(here: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["execute", "p.pb", "--data", "d.xlsx"]) == 4
    assert capsys.readouterr().err == (
        "runtime: d.xlsx: this is a spreadsheet; save the sheet with the rows as d.csv\n"
    )


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("d.npy", "; compiler data pack makes one of it"),
        ("d.h5", ""),
    ],
)
def test_rows_that_have_to_be_packed_first(here: Path, capsys: pytest.CaptureFixture[str], name: str, sentence: str):
    assert main(["execute", "p.pb", "--data", name]) == 4
    assert capsys.readouterr().err == (
        f"runtime: {name}: rows are read from .safetensors, .npz, .csv, .jsonl, .parquet and .txt files{sentence}\n"
    )


def test_a_label_out_of_range_is_named_with_its_feed_and_row(here: Path):
    wrong = rows()
    wrong["label"][[3, 7]] = 7, -1
    save_file(wrong, "wrong.safetensors")
    run = prograd.load("p.pb", data="wrong.safetensors")
    for split, number, row in (("train", 7, 3), ("test", -1, 7)):
        with pytest.raises(prograd.ExecutionError) as caught:
            list(run.events(data=split)) if split == "train" else run.evaluate(split)
        assert str(caught.value).endswith(
            f": label {number} is out of range: there are 3 classes, from 0; row {row} of the feed 'label' has it"
        )


def test_a_label_out_of_range_in_a_single_step_is_named_alike(here: Path):
    wrong = {name: rows()[name][:2] for name in ("x", "label")}
    wrong["label"][1] = 7
    for entry in ("train", "evaluate"):
        with pytest.raises(prograd.ExecutionError, match=r"7 is out of range: .*; row 1 of the feed 'label' has it$"):
            prograd.load("p.pb").step(wrong, entry=entry)


@pytest.mark.parametrize("check_nan", [False, True])
def test_a_row_with_nan_is_named_before_what_it_spoils(check_nan: bool, here: Path):
    wrong = rows()
    wrong["x"][3, 2] = np.nan
    save_file(wrong, "wrong.safetensors")
    with pytest.raises(NonFinite) as caught:
        list(prograd.load("p.pb", data="wrong.safetensors", check_nan=check_nan).events())
    then = "op 1 (matmul" if check_nan else "loss is nan; leave the row out, or replace the value"
    assert str(caught.value).startswith(f"step 2: row 3 of the feed 'x' has NaN or Inf: {then}")
    assert "learning rate" not in str(caught.value)


def test_initial_values_are_not_computed_with_in_silence(here: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["execute", "p.pb", "--entry", "evaluate"]) == 0
    assert capsys.readouterr().err == (
        "runtime: warning: nothing was loaded: the entry 'evaluate' computes with initial values; "
        "--load takes those of a run\n"
    )
    assert main(["execute", "p.pb", "-q", "--save", "s.safetensors"]) == 0
    assert main(["execute", "p.pb", "--entry", "evaluate", "--load", "s.safetensors"]) == 0
    assert capsys.readouterr().err == ""


def test_a_run_without_anything_to_train_says_what_to_call():
    program = Program()
    program.outputs(y=program.input("x", "float32", (3,)) * 2.0)
    program.training(epochs=1)
    with pytest.raises(
        CompileError, match=r"training: there is nothing to train; call minimize, or update a state, before compile$"
    ):
        program.compile()


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("reported", ["outputs", "metrics"])
def test_training_a_program_without_minimize_says_what_to_call(reported: str, engine: str, tmp_path: Path):
    program = Program()
    y = layers.dense(program.input("x", "float32", ("batch", 4)), "d", 2)
    entry = {"outputs": "predict", "metrics": "evaluate"}[reported]
    program.outputs(y=y) if reported == "outputs" else program.metrics(loss=ops.mean(y))
    program.compile(batch=2).save(tmp_path / "p.pb")
    run = prograd.load(tmp_path / "p.pb", engine=engine)
    assert told(prograd.UsageError, lambda: run.train(data={"x": np.zeros((2, 4), np.float32)})) == (
        f"the entry {entry!r} updates no state, so there is nothing to train; "
        "call minimize on the Program before you compile it"
    )
