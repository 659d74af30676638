"""Tables of predictions: rows as a table has them go in, classes, probabilities and numbers in own units come out."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import numpy as np
import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest
from subjects.commands import told

import prograd
from prograd import Program, adam, layers, ops
from runtime.__main__ import main

pytestmark = pytest.mark.usefixtures("here")

KINDS = ("Adelie", "Chinstrap", "Gentoo")
ISLANDS = ("Biscoe", "Dream")


def penguins(count: int = 120, seed: int = 0) -> list[dict[str, object]]:
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(count):
        kind = i % 3
        bill, mass = rng.normal((38, 48, 47)[kind], 1), rng.normal((3700, 3800, 5000)[kind], 150)
        row = {"id": f"p-{i:03}", "bill": round(bill, 1), "mass": round(mass), "island": ISLANDS[i % 2]}
        rows.append(row | {"species": KINDS[kind]})
    return rows


def table(path: str, rows: list[dict[str, object]], leave: tuple[str, ...] = ()) -> None:
    names = [name for name in rows[0] if name not in leave]
    with open(path, "w", newline="", encoding="utf-8") as file:
        out = csv.DictWriter(file, names, extrasaction="ignore")
        out.writeheader()
        out.writerows(rows)


def classifier() -> prograd.Run:
    table("train.csv", penguins())
    names = ["bill", "mass"]
    prograd.data.pack(
        "train.csv", "rows.safetensors", drop=["id"], join={"x": names}, standardise=names, split={"train": 0.8}
    )
    program = Program("penguins", seed=1)
    x, island = program.input("x", "float32", ("batch", 2)), program.input("island", "int64", ("batch",))
    species = program.input("species", "int64", ("batch",))
    places = layers.embedding(island, "islands", count=2, size=4)
    hidden = ops.relu(layers.dense(ops.concat(x, places, axis=1), "hidden", 64))
    scores = layers.dense(hidden, "out", 3)
    program.minimize(ops.softmax_cross_entropy(scores, species), adam(0.01))
    program.outputs(probabilities=ops.softmax(scores))
    program.data("rows.safetensors", splits={"train": "train"}, shuffle=True, remainder="drop")
    program.training(epochs=10)
    program.compile(batch=32).save("p.pb")
    run = prograd.load("p.pb")
    run.train(progress=False)
    run.save("t.safetensors")
    Path("rows.safetensors").unlink()  # the program has all that predictions need
    return prograd.load("p.pb")


PREDICT = ["execute", "p.pb", "--entry", "predict", "--load", "t.safetensors", "-q"]


def predict(*options: str) -> int:
    return main([*PREDICT, *options])


def read(path: str) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def by_hand(run: prograd.Run, rows: list[dict[str, object]]) -> np.ndarray:
    """Probabilities for rows that this function encodes itself, from the numbers in the training table."""
    trained = penguins()
    columns = json.loads(run.program.data.encoding)["columns"]
    known = {column["name"]: column for column in columns}
    assert known["bill"]["mean"] == pytest.approx(np.mean([row["bill"] for row in trained]), rel=0.01)
    x = [[(row[n] - known[n]["mean"]) / known[n]["deviation"] for n in ("bill", "mass")] for row in rows]
    island = [ISLANDS.index(row["island"]) for row in rows]
    feeds = {"x": np.array(x, np.float32), "island": np.array(island, np.int64)}
    return run.predict(feeds, raw=False)["probabilities"]


def test_a_column_that_is_named_for_a_result_is_that_of_its_table(capsys):
    classifier()
    table("new.csv", penguins(5, seed=7))
    assert predict("--data", "new.csv", "--out", "plain.csv") == 0
    assert predict("--data", "new.csv", "--out", "named.csv", "--decode", "probabilities=species") == 0
    assert capsys.readouterr().err == ""
    assert read("named.csv") == read("plain.csv")


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_table_of_new_rows_becomes_a_table_of_classes_and_probabilities(engine: str, capsys):
    classifier()
    new = penguins(100, seed=7)
    table("new.csv", new)
    assert predict("--data", "new.csv", "--out", "out.csv", "--engine", engine) == 0
    assert capsys.readouterr().out.startswith("OK entry=predict rows=100 ")
    found = read("out.csv")
    assert list(found[0]) == ["id", "species", *(f"probabilities.{kind}" for kind in KINDS)]
    assert [row["id"] for row in found] == [row["id"] for row in new]
    run = prograd.load("p.pb", engine=engine)
    run.load("t.safetensors")
    wanted = by_hand(run, new)
    got = np.array([[np.float32(row[f"probabilities.{kind}"]) for kind in KINDS] for row in found])
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-7)
    assert [row["species"] for row in found] == [KINDS[i] for i in wanted.argmax(axis=1)]
    right = sum(row["species"] == one["species"] for row, one in zip(found, new, strict=True))
    assert right >= 95


def test_labels_may_be_there_or_not_and_say_anything():
    classifier()
    new = penguins(40, seed=3)
    table("with.csv", [row | {"species": "a penguin of another kind"} for row in new])
    table("without.csv", new, leave=("species",))
    assert predict("--data", "with.csv", "--out", "a.csv") == 0
    assert predict("--data", "without.csv", "--out", "b.csv") == 0
    assert Path("a.csv").read_bytes() == Path("b.csv").read_bytes()


def test_every_format_of_tables_gives_the_same_predictions():
    classifier()
    new = penguins(50, seed=4)
    table("new.csv", new)
    Path("new.csv.gz").write_bytes(gzip.compress(Path("new.csv").read_bytes()))
    Path("new.jsonl").write_text("".join(json.dumps(row) + "\n" for row in new))
    Path("new.jsonl.gz").write_bytes(gzip.compress(Path("new.jsonl").read_bytes()))
    Path("new.tsv").write_text(Path("new.csv").read_text().replace(",", "\t"))
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(new), "new.parquet")
    for source in ("new.csv", "new.csv.gz", "new.jsonl", "new.jsonl.gz", "new.tsv", "new.parquet"):
        assert predict("--data", source, "--out", "out.csv", "--force") == 0
        if source == "new.csv":
            wanted = Path("out.csv").read_bytes()
        assert Path("out.csv").read_bytes() == wanted, source


def test_predictions_as_json_lines_and_parquet_have_what_those_as_csv_have():
    classifier()
    table("new.csv", penguins(50, seed=4))
    for out in ("out.csv", "out.jsonl", "out.parquet", "out.tsv"):
        assert predict("--data", "new.csv", "--out", out) == 0
    wanted = read("out.csv")
    lines = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert [list(line) for line in lines] == [["id", "species", "probabilities"]] * 50
    frame = pandas.read_parquet("out.parquet")
    assert frame["probabilities.Gentoo"].dtype == np.float32
    for row, line, (_, other) in zip(wanted, lines, frame.iterrows(), strict=True):
        assert (row["id"], row["species"]) == (line["id"], line["species"]) == (other["id"], other["species"])
        for kind in KINDS:
            number = np.float32(row[f"probabilities.{kind}"])
            assert number == np.float32(line["probabilities"][kind]) == other[f"probabilities.{kind}"]
    assert Path("out.tsv").read_text() == Path("out.csv").read_text().replace(",", "\t")


def test_rows_are_named_by_a_column_or_counted():
    classifier()
    rows = [row | {"name": f'a "{i}", b'} for i, row in enumerate(penguins(3))]
    table("new.csv", rows)
    assert predict("--data", "new.csv", "--out", "a.csv", "--id", "name") == 0
    assert [row["name"] for row in read("a.csv")] == ['a "0", b', 'a "1", b', 'a "2", b']
    table("new.csv", rows, leave=("id",))
    assert predict("--data", "new.csv", "--out", "b.csv") == 0
    assert [row["row"] for row in read("b.csv")] == ["0", "1", "2"]


@pytest.mark.parametrize("frame", [pandas.DataFrame, polars.DataFrame, pyarrow.Table.from_pylist, None])
def test_predict_takes_frames_and_columns_as_the_table_has_them(frame):
    run = classifier()
    run.load("t.safetensors")
    new = penguins(40, seed=5)
    columns = {name: [row[name] for row in new] for name in new[0]}
    found = run.predict(columns if frame is None else frame(new))
    np.testing.assert_allclose(found["probabilities"], by_hand(run, new), rtol=1e-5, atol=1e-7)
    assert found["species"].tolist() == [KINDS[i] for i in found["probabilities"].argmax(axis=1)]


def regression() -> prograd.Run:
    rng = np.random.default_rng(0)
    size, rooms = rng.uniform(20, 200, 400).round(1), rng.integers(1, 7, 400)
    price = 2000.0 * size + 10_000 * rooms + 5000
    frame = pandas.DataFrame({"size": size, "rooms": rooms, "price": price})
    frame.to_csv("homes.csv", index=False)
    prograd.data.pack("homes.csv", "homes.safetensors", standardise=["size", "rooms", "price"])
    program = Program("homes", seed=1)
    size_, rooms_ = program.input("size", "float32", ("batch",)), program.input("rooms", "float32", ("batch",))
    price_ = program.input("price", "float32", ("batch",))
    hidden = ops.relu(layers.dense(ops.stack(size_, rooms_, axis=1), "hidden", 64))
    guess = layers.dense(hidden, "out", 1)[:, 0]
    program.minimize(ops.squared_error(guess, price_), adam(0.01))
    program.outputs(guess=guess)
    program.data("homes.safetensors", shuffle=True, remainder="drop")
    program.training(epochs=40)
    run = prograd.Run(program.compile(batch=32))
    run.train(progress=False)
    return run


def test_numbers_are_predicted_in_their_own_units():
    run = regression()
    new = pandas.DataFrame({"size": [50.0, 120.0], "rooms": [2, 5]})
    found = run.predict(new)
    np.testing.assert_allclose(found["price"], [125_000, 295_000], rtol=0.05)
    price = json.loads(run.program.data.encoding)["columns"][2]
    np.testing.assert_allclose(found["price"], found["guess"] * price["deviation"] + price["mean"], rtol=1e-6)


def test_numbers_that_may_be_raw_or_encoded_are_asked_about():
    run = regression()
    assert told(prograd.UsageError, lambda: run.predict({"size": [50.0], "rooms": [2.0]})) == (
        "'size' may be numbers of the table or encoded ones, which differ; "
        "say raw=True for those of the table, raw=False for encoded ones"
    )
    raw = run.predict({"size": [50.0], "rooms": [2.0]}, raw=True)
    assert abs(raw["price"][0] - 125_000) < 10_000
    encoded = {"size": np.float32([0.5]), "rooms": np.float32([0.5])}
    np.testing.assert_array_equal(run.predict(encoded)["guess"], run.predict(encoded, raw=False)["guess"])


def test_a_table_of_many_pieces_is_read_as_one_of_few(monkeypatch: pytest.MonkeyPatch):
    classifier()
    rows = penguins(300, seed=9)
    rows[40]["id"] = 'a "quoted"\nid'  # a record of two lines: every piece from here on is parsed by records
    table("new.csv", rows)
    assert predict("--data", "new.csv", "--out", "one.csv") == 0
    monkeypatch.setattr("runtime.rows.tables.csv_pieces.PIECE_CHARACTERS", 100)
    assert predict("--data", "new.csv", "--out", "many.csv") == 0
    one, many = read("one.csv"), read("many.csv")
    assert [row["id"] for row in many] == [row["id"] for row in rows]
    assert [row["species"] for row in many] == [row["species"] for row in one]
    for kind in KINDS:  # steps of other sizes may round differently
        wanted = [float(row[f"probabilities.{kind}"]) for row in one]
        np.testing.assert_allclose([float(row[f"probabilities.{kind}"]) for row in many], wanted, rtol=1e-4)
    rows[250]["mass"] = "heavy"
    table("new.csv", rows)
    assert predict("--data", "new.csv", "--out", "other.csv") == 4
    assert not Path("other.csv").exists()


def test_numbers_alone_are_parsed_at_once_to_the_same_bits(monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng(0)
    lines = [f"{a!r},{b!r},x" for a, b in rng.normal(50, 1e3, (500, 2)).tolist()]
    Path("new.csv").write_text("size,rooms,note\n" + "\n".join(lines) + "\n")
    from runtime.rows.tables.read_table import table_pieces

    for size in (1 << 21, 500):
        monkeypatch.setattr("runtime.rows.tables.csv_pieces.PIECE_CHARACTERS", size)
        at_once = list(table_pieces(Path("new.csv"), ["size", "rooms"], numbers=["size", "rooms"]))
        apart = list(table_pieces(Path("new.csv"), ["size", "rooms"]))
        for name, at in (("size", 0), ("rooms", 1)):
            wanted = [float(line.split(",")[at]) for line in lines]
            assert np.concatenate([piece.columns[name] for piece in at_once]).tolist() == wanted
            assert [float(text) for piece in apart for text in piece.columns[name]] == wanted
        for pieces in (at_once, apart):
            assert np.concatenate([piece.numbers for piece in pieces]).tolist() == list(range(2, 502))
        assert at_once[0].columns["size"].dtype == np.float64


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("bill,mass,island\n38,3700,Dream\n38,heavy,Dream\n", "line 3: 'mass' is 'heavy', which is no number; "
         "write one, as in 3.5"),
        ("bill,mass,island\n38,,Dream\n", "line 2: 'mass' has no value; "
         "fill it in, or pack the training rows with --missing mass="),
        ("bill,mass,island\n38,3700,Dreem\n", "line 2: 'island' is 'Dreem', which is none of its values; "
         "did you mean 'Dream'?"),
        ("bill,mass\n38,3700\n", "the rows have no column 'island'; add it"),
        ("bill,mass,island\n38,3700\n", "line 2 has 2 values, and the first line names 3 columns"),
        ("bill,mass,island\n", "the table has no rows; give some below the names of its columns"),
        ("", "the file has no line that names columns"),
        ('bill,mass,island\n38,3700,"Dream\n', "this is no table: a quote in line 2 is not closed"),
    ],
)  # fmt: skip
def test_a_bad_table_is_one_sentence_and_no_file(text: str, said: str, capsys):
    classifier()
    Path("new.csv").write_text(text)
    capsys.readouterr()
    assert predict("--data", "new.csv", "--out", "out.csv") == 4
    assert capsys.readouterr().err == f"runtime: new.csv: {said}\n"
    assert not Path("out.csv").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--out", "out.xlsx"], "--out out.xlsx: tables of predictions are called *.csv, *.tsv, *.jsonl or *.parquet"),
        (["--id", "id"], "--id names the rows of a table of predictions; give --out predictions.csv"),
        (["--out", "o.csv", "--entry", "train"], "--out is a table of predictions, and the entry 'train' trains; "
         "say --entry predict"),
        (["--out", "o.csv", "--split", "train"], "--data new.csv has the rows, and so has --split"),
        (["--out", "o.csv", "--fetch", "scores"], "--out: the entry 'predict' has no fetch 'scores' with rows; "
         "there are probabilities"),
        (["--out", "o.csv", "--fetch", "p=@p.npy"], "--out writes fetches as columns of one table, and --fetch "
         "NAME=@FILE as files; leave one of them out"),
    ],
)  # fmt: skip
def test_options_that_do_not_fit_are_one_sentence(options: list[str], said: str, capsys):
    classifier()
    table("new.csv", penguins(3))
    capsys.readouterr()
    assert predict("--data", "new.csv", *options) == 2
    assert capsys.readouterr().err == f"runtime: {said}\n"


def test_an_id_that_is_not_there_is_one_sentence(capsys):
    classifier()
    table("new.csv", penguins(3))
    capsys.readouterr()
    assert predict("--data", "new.csv", "--out", "o.csv", "--id", "name") == 4
    assert capsys.readouterr().err.startswith("runtime: new.csv: --id name: there is no column 'name'")


def test_numbers_in_a_column_of_texts_are_texts(capsys):
    prograd.data.pack({"t": ["a 12", "c"] * 10, "y": ["p", "q"] * 10}, "texts.safetensors", words={"t": 3})
    program = Program("texts", seed=1)
    t, y = program.input("t", "int64", ("batch", 3)), program.input("y", "int64", ("batch",))
    scores = layers.dense(ops.mean(layers.embedding(t, "words", count=5, size=4), axis=1), "out", 2)
    program.minimize(ops.softmax_cross_entropy(scores, y), adam(0.1))
    program.outputs(t=t + 0)
    program.data("texts.safetensors", shuffle=False, remainder="drop")
    program.training(epochs=1)
    program.compile(batch=2).save("texts.pb")
    Path("new.jsonl").write_text('{"t": 12}\n{"t": null}\n')
    assert main(["execute", "texts.pb", "--entry", "predict", "--data", "new.jsonl", "--fetch", "t=@t.npy"]) == 0
    assert np.load("t.npy").tolist() == [[2, 0, 0], [0, 0, 0]]
