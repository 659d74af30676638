"""Rows as a table has them go to the server, and class names, probabilities and numbers come back; tokens and logs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from subjects.serving import Serving, ask, loaded, refusal

import prograd
from prograd import Program, adam, layers, ops
from runtime.__main__ import main
from runtime.serving.access import Access

CITIES = ("Bergen", "Oslo", "Rome")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> prograd.Run:
    return trained(tmp_path, monkeypatch, "reference")


def trained(folder: Path, monkeypatch: pytest.MonkeyPatch, engine: str) -> prograd.Run:
    monkeypatch.chdir(folder)
    rng = np.random.default_rng(0)
    kind = np.arange(150) % 3
    age = rng.normal(np.array([20, 40, 60])[kind], 3)
    columns = {"age": age, "city": [CITIES[i] for i in rng.integers(0, 3, 150)], "size": rng.random(150)}
    columns["pet"] = [("cat", "dog", "fish")[k] for k in kind]
    prograd.data.pack(
        columns, "rows.safetensors", join={"x": ["age", "size"]}, standardise=["age"], missing={"city": "other"}
    )
    program = Program("pets", seed=1)
    x, city = program.input("x", "float32", ("batch", 2)), program.input("city", "int64", ("batch",))
    pet = program.input("pet", "int64", ("batch",))
    joined = ops.concat(x, layers.embedding(city, "cities", count=4, size=6), axis=1)
    scores = layers.dense(ops.relu(layers.dense(joined, "hidden", 64)), "out", 3)
    program.minimize(ops.softmax_cross_entropy(scores, pet), adam(0.02))
    program.outputs(probabilities=ops.softmax(scores))
    program.data("rows.safetensors", shuffle=True, remainder="drop")
    program.training(epochs=20)
    program.compile(batch=32).save("p.pb")
    run = prograd.load("p.pb", engine=engine)
    run.train(progress=False)
    return run


def posted(port: int, rows: object, **more: str) -> object:
    status, headers, body = ask(port, json.dumps(rows).encode(), **more)
    assert (status, headers["Content-Type"]) == (200, "application/json"), body
    return json.loads(body)


ROWS = [{"age": 21, "city": "Oslo", "size": 0.5}, {"age": 61.5, "city": "Rome", "size": 0.25, "name": "Ann"}]


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_rows_of_the_table_are_answered_with_classes_and_probabilities(engine: str, tmp_path: Path, monkeypatch):
    run = trained(tmp_path, monkeypatch, engine)
    wanted = run.predict({name: [row[name] for row in ROWS] for name in ("age", "city", "size")})
    with Serving(run) as serving:
        found = posted(serving.port, ROWS)
        one = posted(serving.port, ROWS[0])
        both = posted(serving.port, {"x": [[0.0, 0.0]], "city": [1]})  # 1 is no city, so these are arrays
        many = posted(serving.port, ROWS * 2000)  # a body of more than 64 KiB
    assert [row["pet"] for row in found] == wanted["pet"].tolist() == ["cat", "fish"]
    assert list(found[0]) == ["pet", "probabilities"]
    for row, shares in zip(found, wanted["probabilities"], strict=True):
        assert list(row["probabilities"]) == ["cat", "dog", "fish"]
        np.testing.assert_allclose(list(row["probabilities"].values()), shares, rtol=1e-5)
    assert one["pet"] == "cat"
    assert np.shape(both["probabilities"]) == (1, 3)
    assert [row["pet"] for row in many] == ["cat", "fish"] * 2000


def test_values_that_only_columns_know_are_encoded_by_columns(run: prograd.Run):
    strange = [{"age": "21", "city": "Paris", "size": 0.5}, {"age": 21, "city": None, "size": "0.5"}]
    wanted = run.predict({"age": ["21", 21], "city": ["Paris", None], "size": [0.5, "0.5"]}, raw=True)
    with Serving(run) as serving:
        found = posted(serving.port, strange)
        np.testing.assert_allclose(
            [list(row["probabilities"].values()) for row in found], wanted["probabilities"], rtol=1e-5
        )


def test_bad_rows_are_one_sentence(run: prograd.Run):
    with Serving(run) as serving:
        for body, said in (
            (b'{"age": "old", "city": "Oslo", "size": 1}', "row 0 of 'age' is 'old', which is no number; "
             "write one, as in 3.5"),
            (b'{"age": 1, "citty": "Oslo", "size": 1}', "row 0 has no 'city'; did you mean 'citty'?"),
            (b'{"age": 1, "size": 1}', "row 0 has no 'city'; give null for a missing value"),
            (b'[{"age": 1, "city": "Oslo", "size": 1}, {"age": 1, "size": 1}]',
             "row 1 has no 'city'; give null for a missing value"),
            (b'{"age": 1, "age": 2, "city": "Oslo", "size": 1}',
             "the body is not application/json: the name 'age' is there twice"),
            (b'{"age": 1, "city": "Oslo", "size": 1e39}', "row 0 of 'size' has 1e+39, which float32 does not hold"),
            (b'[{"age": 1, "city": "Oslo", "size": 1}, 3]', "row 1 is of type int, and the rows before it are objects; "
             "send an object for each row"),
            (b'[{"age": 1, "city": "Oslo"}, {"age": 1, "city": "Oslo", "size": 1}]',
             "row 0 has no 'size'; give null for a missing value"),
            (b'[{"age": 1, "city": "Oslo", "size": null}, {"age": 1, "city": "Oslo", "size": 1}]',
             "row 0 of 'size' has no value; fill it in, or "
             "pack the training rows with missing={'size': …}"),
            (b'{"age": 1', "the body is not application/json: Expecting ',' delimiter: line 1 column 10 (char 9)"),
            (b'{"age": [1], "city": "Oslo", "size": 1}',
             "'age' has lists, and the rows it was packed from have one value each"),
        ):  # fmt: skip
            assert refusal(serving.port, body) == (400, said)
        row = json.dumps(ROWS[0]).encode()
        assert refusal(serving.port, row, Accept="application/x-npy", path="/predict?fetch=probabilities") == (
            406,
            "rows of a table are answered as application/json, and Accept asks for application/x-npy",
        )


def test_a_program_without_a_table_says_so(tmp_path: Path):
    with Serving(loaded(tmp_path)) as serving:
        assert refusal(serving.port, b'[{"x": 1}]') == (
            400,
            "the rows are objects, and the program has no encoding of a table; "
            "send an array for each feed, or train on rows of compiler data pack",
        )


def test_the_description_names_the_columns(run: prograd.Run):
    with Serving(run) as serving:
        columns = json.loads(ask(serving.port, path="/")[2])["columns"]
    assert columns == {"age": "number", "size": "number", "city": "class"}


def test_metrics_count_what_was_asked(run: prograd.Run):
    with Serving(run) as serving:
        posted(serving.port, ROWS)
        refusal(serving.port, b"{")
        status, headers, body = ask(serving.port, path="/metrics")
    lines = body.decode().splitlines()
    assert (status, headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    for line in (
        'prograd_requests_total{outcome="answered"} 1', 'prograd_requests_total{outcome="refused"} 1',
        "prograd_rows_total 2", "prograd_waiting_requests 0", "prograd_request_seconds_count 1",
        'prograd_request_seconds_bucket{le="+Inf"} 1',
    ):  # fmt: skip
        assert line in lines
    for line in lines:
        assert line.startswith(("# HELP ", "# TYPE ")) or re.fullmatch(r'[a-z_]+(\{[a-z]+="[^"]+"\})? [0-9.e+-]+', line)


TOKEN = "0123456789abcdef"


def test_requests_need_the_token_and_are_logged(run: prograd.Run):
    lines: list[str] = []
    with Serving(run, access=Access(TOKEN.encode(), lines.append)) as serving:
        for header in ({}, {"Authorization": "Bearer no"}, {"Authorization": f"Basic {TOKEN}"}):
            assert refusal(serving.port, b"{}", **header) == (
                401,
                "this server asks for a token; send the header Authorization: Bearer TOKEN",
            )
        assert posted(serving.port, ROWS[0], Authorization=f"Bearer {TOKEN}")["pet"] == "cat"
        assert ask(serving.port, path="/health", Host="models.example", Authorization=f"Bearer {TOKEN}")[0] == 200
    assert [line.split('"')[1:3] for line in lines][3:] == [
        ["POST /predict HTTP/1.1", lines[3].split('"')[2]],
        ["GET /health HTTP/1.1", lines[4].split('"')[2]],
    ]
    form = r'127\.0\.0\.1 - - \[\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d \+0000\] "[A-Z]+ \S+ HTTP/1.1" (\d{3}) \d+ \d+\.\d{6}'
    assert [re.fullmatch(form, line)[1] for line in lines] == ["401", "401", "401", "200", "200"]


def test_other_machines_need_a_token(run: prograd.Run, capsys, monkeypatch):
    monkeypatch.delenv("PROGRAD_TOKEN", raising=False)
    said = (
        "--host 0.0.0.0: other machines reach this address, so requests must bring a token; "
        "name a file with it by --token-file, or set PROGRAD_TOKEN"
    )
    assert main(["serve", "p.pb", "--host", "0.0.0.0"]) == 2
    assert capsys.readouterr().err == f"runtime: {said}\n"
    Path("token").write_text("short\n")
    assert main(["serve", "p.pb", "--host", "0.0.0.0", "--token-file", "token"]) == 2
    assert capsys.readouterr().err == (
        "runtime: token: a token has at least 16 letters, digits and signs, without spaces; "
        "openssl rand -hex 32 prints one\n"
    )
    Path("token").write_text(TOKEN)
    logged = ["--access-log", "requests.log", "--max-time", "100ms", "--port", "0", "-q"]
    assert main(["serve", "p.pb", "--host", "0.0.0.0", "--token-file", "token", *logged]) == 0
    assert "READY url=http://0.0.0.0:" in capsys.readouterr().out
    assert Path("requests.log").read_text() == ""
    assert main(["serve", "p.pb", "--host", "256.0.0.1", "--token-file", "token", *logged]) == 2
    assert "\nruntime: --host 256.0.0.1: this is no address of a machine: " in capsys.readouterr().err


def test_a_row_with_nan_is_answered_with_null_and_counted(run: prograd.Run, caplog):
    run.state["out.b"] = np.array([np.nan, 0, 0], "float32")
    with Serving(run) as serving:
        found = posted(serving.port, ROWS)
        assert [row["pet"] for row in found] == [None, None]
        assert found[0]["probabilities"] == {"cat": None, "dog": None, "fish": None}
        posted(serving.port, ROWS[0])
        assert json.loads(ask(serving.port, path="/health")[2])["unanswered"] == 3
        assert b"\nprograd_unanswered_rows_total 3\n" in ask(serving.port, path="/metrics")[2]
    assert caplog.messages == [
        "2 of 2 rows have no 'pet', because the program computes NaN for them; the first is row 0"
    ]
