"""The same rows mean the same in the library, in the command and in the server."""

import json
from pathlib import Path

import numpy as np
import pytest
from subjects.commands import told
from subjects.serving import Serving, ask, refusal

import prograd
from prograd import Program, adam, layers, ops
from runtime.__main__ import main

ENGINES = ["reference", "native"]


def sizes(folder: Path, engine: str, **outputs: int) -> prograd.Run:
    """A regression of a standardised price on an age whose feed has the column's name; outputs are columns of `q`."""
    rng = np.random.default_rng(0)
    age = rng.uniform(20, 70, 96)
    table = {"age": age, "price": 1000 * age + rng.normal(0, 10, 96)}
    prograd.data.pack(table, folder / "rows.safetensors", standardise=["age", "price"])
    program = Program("sizes", seed=1)
    age_, price = program.input("age", "float32", ("batch",)), program.input("price", "float32", ("batch",))
    q = layers.dense(ops.relu(layers.dense(age_[:, None], "hidden", 64)), "out", 3)
    program.minimize(ops.mean(ops.square(q - ops.reshape(price, shape=("batch", 1)))), adam(0.01))
    program.outputs(**{name: q[:, at] for name, at in (outputs or {"o": 0}).items()})
    program.data("rows.safetensors", shuffle=True, remainder="drop")
    program.training(epochs=30)
    program.compile(batch=32).save(folder / "p.pb")
    run = prograd.load(folder / "p.pb", engine=engine)
    run.train(progress=False)
    return run


@pytest.mark.parametrize("engine", ENGINES)
def test_lists_that_may_be_encoded_are_asked_about_by_library_and_server(engine: str, tmp_path: Path):
    run = sizes(tmp_path, engine)
    said = "'age' may be numbers of the table or encoded ones, which differ; "
    with pytest.raises(prograd.UsageError) as caught:
        run.predict({"age": [31.0, 52.0]})
    assert str(caught.value) == said + "say raw=True for those of the table, raw=False for encoded ones"
    body = b'{"age": [31, 52]}'
    with Serving(run) as server:
        assert refusal(server.port, body) == (
            400,
            said + "send a list with an object for each row of the table, or say ?raw=true for columns of the table, "
            "?raw=false for encoded arrays",
        )
        answers = {
            "objects": ask(server.port, b'[{"age": 31}, {"age": 52}]'),
            "columns": ask(server.port, body, path="/predict?raw=true"),
        }
        encoded = json.loads(ask(server.port, body, path="/predict?raw=false")[2])
        assert refusal(server.port, body, path="/predict?raw=1") == (
            400,
            "?raw=1: there are true, for rows of the table, and false, for encoded arrays",
        )
    wanted = run.predict({"age": [31.0, 52.0]}, raw=True)["price"]
    for _, _, answer in answers.values():
        np.testing.assert_allclose([row["price"] for row in json.loads(answer)], wanted, rtol=1e-5)
    np.testing.assert_allclose(encoded["o"], run.predict({"age": [31.0, 52.0]}, raw=False)["o"], rtol=1e-5)


def test_objects_are_rows_for_the_library_as_for_the_server(tmp_path: Path):
    run = sizes(tmp_path, "reference")
    rows = [{"age": 31}, {"age": 52.0, "name": "Ann"}]
    np.testing.assert_array_equal(run.predict(rows)["price"], run.predict({"age": [31, 52]}, raw=True)["price"])
    with pytest.raises(prograd.DataError, match=r"^row 1 has no 'age'; give null for a missing value$"):
        run.predict([{"age": 31}, {}])
    assert prograd.load(tmp_path / "p.pb").train(data=[{"age": 31, "price": 31000}] * 32, epochs=1).steps == 1


def test_a_missing_number_that_encoding_would_replace_is_asked_about(tmp_path: Path):
    prograd.data.pack({"age": [1.0, np.nan, 3.0] * 32, "y": [0.0] * 96}, tmp_path / "r.safetensors", missing={"age": 5})
    program = Program("p", seed=1)
    age = program.input("age", "float32", ("batch",))
    program.minimize(ops.mean(ops.square(layers.dense(age[:, None], "o", 1)[:, 0])), adam(0.01))
    program.outputs(same=age * 1.0)
    program.data("r.safetensors", shuffle=False, remainder="drop")
    program.compile(batch=32).save(tmp_path / "p.pb")
    run = prograd.load(tmp_path / "p.pb")
    assert run.predict({"age": [31.0, 2.0]})["same"].tolist() == [31.0, 2.0]
    with pytest.raises(prograd.UsageError, match=r"^'age' may be numbers of the table or encoded ones, which differ; "):
        run.predict({"age": [31.0, np.nan]})
    assert run.predict({"age": [31.0, np.nan]}, raw=True)["same"].tolist() == [31.0, 5.0]


@pytest.mark.parametrize("engine", ENGINES)
def test_several_outputs_of_one_label_keep_their_names(engine: str, tmp_path: Path, monkeypatch, capsys):
    run = sizes(tmp_path, engine, low=0, median=1, high=2)
    monkeypatch.chdir(tmp_path)
    found = run.predict({"age": [31.0, 52.0]}, raw=True)
    assert list(found) == ["low", "median", "high"]
    for name, at in (("low", 0), ("median", 1), ("high", 2)):
        np.testing.assert_allclose(found[name], [31000, 52000], rtol=0.2, err_msg=f"{name} {at}")
    run.save("s.safetensors")
    Path("new.csv").write_text("id,age\na,31\nb,52\n")
    command = ["execute", "p.pb", "--entry", "predict", "--load", "s.safetensors", "--data", "new.csv", "-q"]
    assert main([*command, "--engine", engine, "--out", "o.csv"]) == 0
    header, *lines = Path("o.csv").read_text().splitlines()
    assert header == "id,low,median,high"
    np.testing.assert_allclose(
        [[float(number) for number in line.split(",")[1:]] for line in lines],
        np.stack([found[name] for name in ("low", "median", "high")], 1),
        rtol=1e-4,
    )
    with Serving(run) as server:
        row = json.loads(ask(server.port, b'{"age": 31}')[2])
    np.testing.assert_allclose([row["low"], row["median"], row["high"]], [found[n][0] for n in found], rtol=1e-4)


def two_labels(folder: Path, *, joined: bool, names: tuple[str, str]) -> prograd.Run:
    """A regression of two standardised labels, in one array or two."""
    rng = np.random.default_rng(0)
    age = rng.uniform(20, 70, 96)
    table = {"age": age, "price": 1000 * age, "rent": 2 * age}
    join = {"y": ["price", "rent"]} if joined else None
    prograd.data.pack(table, folder / "r.safetensors", standardise=["age", "price", "rent"], join=join or {})
    program = Program("two", seed=1)
    x = program.input("age", "float32", ("batch",))
    out = layers.dense(ops.relu(layers.dense(x[:, None], "hidden", 64)), "out", 2)
    if joined:
        label = program.input("y", "float32", ("batch", 2))
        program.outputs(both=out)
    else:
        labels = [program.input(name, "float32", ("batch",)) for name in ("price", "rent")]
        label = ops.stack(*labels, axis=1)
        program.outputs(**{names[0]: out[:, 0], names[1]: out[:, 1]})
    program.minimize(ops.mean(ops.square(out - label)), adam(0.02))
    program.data("r.safetensors", shuffle=True, remainder="drop")
    program.training(epochs=60)
    program.compile(batch=32).save(folder / "p.pb")
    run = prograd.load(folder / "p.pb")
    run.train(progress=False)
    return run


@pytest.mark.parametrize("joined", [True, False])
def test_two_labels_of_numbers_are_answered_in_their_units(joined: bool, tmp_path: Path):
    run = two_labels(tmp_path, joined=joined, names=("price", "rent"))
    found = run.predict({"age": [31.0, 52.0]}, raw=True)
    np.testing.assert_allclose(found["price"], [31000, 52000], rtol=0.1)
    np.testing.assert_allclose(found["rent"], [62, 104], rtol=0.1)


def test_an_output_that_may_be_of_either_label_is_given_with_a_warning(tmp_path: Path, caplog):
    run = two_labels(tmp_path, joined=False, names=("price", "second"))
    found = run.predict({"age": [31.0, 52.0]}, raw=True)
    np.testing.assert_allclose(found["price"], [31000, 52000], rtol=0.1)
    assert abs(found["second"]).max() < 3
    assert [record.message for record in caplog.records if "may predict" in record.message] == [
        "the output 'second' may predict price or rent, and is given as the program computes it, not in units of the "
        "column; give it the name of the column, or take prograd.data.decode(found['second'], 'price', file)"
    ]


def test_probabilities_with_the_name_of_their_label_are_refused_everywhere(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    a = rng.normal(size=96)
    prograd.data.pack({"a": a, "mood": np.where(a > 0, "good", "bad").tolist()}, "r.safetensors")
    program = Program("p", seed=1)
    x, mood = program.input("a", "float32", ("batch",)), program.input("mood", "int64", ("batch",))
    scores = layers.dense(x[:, None], "o", 2)
    program.minimize(ops.softmax_cross_entropy(scores, mood), adam(0.1))
    program.outputs(mood=ops.softmax(scores))
    program.data("r.safetensors", shuffle=False, remainder="drop")
    program.training(epochs=1)
    program.compile(batch=32).save("p.pb")
    run = prograd.load("p.pb")
    run.train(progress=False)
    said = (
        "the output 'mood' has the name of the label whose values are predicted; give the output another name, "
        "as in program.outputs(probabilities=…)"
    )
    assert told(prograd.UsageError, lambda: run.predict([{"a": 1.0}])) == said
    with Serving(run) as server:
        assert refusal(server.port, b'{"a": 1}') == (400, said)
    run.save("s.safetensors")
    Path("new.csv").write_text("a\n1\n")
    command = ["execute", "p.pb", "--entry", "predict", "--load", "s.safetensors", "--data", "new.csv", "-q"]
    assert main([*command, "--out", "o.csv"]) == 2
    assert capsys.readouterr().err == f"runtime: {said}\n"
    assert not Path("o.csv").exists()
    assert run.predict(np.float32([1.0]))["mood"].shape == (1, 2)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_row_without_a_column_is_refused_by_library_server_and_command(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    run = sizes(tmp_path, engine)
    run.save(tmp_path / "s.safetensors")
    monkeypatch.chdir(tmp_path)
    rows = [{"age": 31}, {"aged": 52}, {"age": 40}]
    hint = "has no 'age'; did you mean 'aged'?"
    assert told(prograd.DataError, lambda: run.predict(rows)) == f"row 1 {hint}"
    with Serving(run) as server:
        assert refusal(server.port, json.dumps(rows).encode()) == (400, f"row 1 {hint}")
    Path("new.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ["execute", "p.pb", "--entry", "predict", "--load", "s.safetensors", "-q", "--engine", engine]
    assert main([*words, "--data", "new.jsonl", "--out", "out.csv"]) == 4
    assert capsys.readouterr().err == f"runtime: new.jsonl: line 2 {hint}\n"
    assert not Path("out.csv").exists()
    Path("new.jsonl").write_text('{"age": 31}\n\n{}\n')
    assert main([*words, "--data", "new.jsonl", "--out", "out.csv"]) == 4
    assert capsys.readouterr().err == "runtime: new.jsonl: line 3 has no 'age'; give null for a missing value\n"
