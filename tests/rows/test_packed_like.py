"""New rows as those of another packed file: texts and lists of unequal length, and images."""

import csv
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from subjects.commands import told

import prograd
import runtime
from compiler.__main__ import main as compiler_main
from prograd import Program, layers, ops, sgd
from runtime.__main__ import main as runtime_main

pytestmark = pytest.mark.usefixtures("here")

WORDS = ["a fine film", "a dull film", "fine", "dull and a film of a film"]


def table(path: str, rows: list[tuple[str, ...]]) -> None:
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows(rows)


def reviews() -> None:
    rows = [("review", "verdict"), *[(WORDS[i % 4], ("bad", "good")["fine" in WORDS[i % 4]]) for i in range(12)]]
    table("reviews.csv", rows)
    words = ["--words", "review", "--split", "train=0.75", "--by", "stratified=verdict"]
    assert compiler_main(["data", "pack", "reviews.csv", "-o", "r.safetensors", *words]) == 0


def classifier() -> None:
    """A mean of vectors of words, for sentences of at most 4 or 8."""
    program = Program("reviews", seed=1)
    review, verdict = program.input("review", "int64", ("n", "length")), program.input("verdict", "int64", ("n",))
    mask = program.input("mask", "float32", ("n", "length"))
    words = layers.embedding(review, "words", count=8, size=4)
    scores = layers.dense(ops.sum(words * mask[:, :, None], axis=(1,)), "out", 2)
    program.minimize(ops.softmax_cross_entropy(scores, verdict), sgd(0.1))
    program.outputs(scores=scores)
    program.data(
        "r.safetensors", columns={"mask": "review.mask"}, splits={"train": "train"}, shuffle=False, remainder="drop"
    )
    program.training(epochs=20)
    program.compile(n=2, length=(4, 8)).save("p.pb", force=True)


def test_texts_of_unequal_length_go_from_a_table_to_labels_of_new_rows(capsys):
    reviews()
    rows = load_file("r.safetensors")
    lengths = [len(WORDS[i % 4].split()) for i in range(12)]
    np.testing.assert_array_equal(rows["review.offsets"], np.cumsum([0, *lengths]))
    assert rows["review"].dtype == np.int64
    assert rows["review"].min() >= 2
    classifier()
    assert runtime_main(["execute", "p.pb", "-q", "--save", "t.safetensors"]) == 0
    table("new.csv", [("review",), ("A FINE zebra!",), ("a film, dull",), ("",), ("fine fine fine fine fine",)])
    capsys.readouterr()
    predict = ["execute", "p.pb", "--entry", "predict", "--load", "t.safetensors", "-q"]
    assert runtime_main([*predict, "--data", "new.csv", "--decode", "scores=verdict"]) == 0
    said = capsys.readouterr().out.splitlines()[0]
    assert runtime_main([*predict, "--data", "new.csv", "--fetch", "scores=@s.npy"]) == 0
    encoded = prograd.data.encode({"review": ["A FINE zebra!", "a film, dull", "", "fine " * 5]}, "r.safetensors")
    assert encoded["review"][0].tolist()[2] == 1
    run = prograd.load("p.pb")
    run.load("t.safetensors")
    scores = run.predict(encoded)["scores"]
    np.testing.assert_array_equal(np.load("s.npy"), scores)
    names = [("bad", "good")[row.argmax()] for row in scores]
    assert (names[0], names[1], names[3]) == ("good", "bad", "good")
    assert said == f"scores: text[4] = {names}"
    assert compiler_main(["data", "pack", "new.csv", "-o", "n.safetensors", "--like", "r.safetensors"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "OK rows=4 arrays=review,review.offsets"
    assert runtime_main([*predict, "--data", "n.safetensors", "--fetch", "scores=@s.npy", "--force"]) == 0
    np.testing.assert_array_equal(np.load("s.npy"), scores)


def test_numbers_of_words_become_texts_again():
    reviews()
    encoded = prograd.data.encode({"review": ["Dull zebra of film"]}, "r.safetensors")["review"]
    padded = np.array([[*encoded[0], 0, 0], [0] * 6])
    assert prograd.data.decode(padded, "review", "r.safetensors").tolist() == ["dull ? of film", ""]
    with pytest.raises(runtime.DataError, match=r"^'review' has no word or byte of the number 99$"):
        prograd.data.decode([99], "review", "r.safetensors")
    prograd.data.pack({"text": ["\u00e9a"]}, "b.safetensors", text={"text": 0})
    rows = load_file("b.safetensors")
    assert rows["text"].tolist() == [196, 170, 98]
    assert prograd.data.decode(rows["text"], "text", "b.safetensors") == "\u00e9a"


def test_lists_are_rows_of_unequal_length():
    source = {"tokens": [[3, 1], [], [2, 2, 5]], "tags": [["x", "y z"], ["x"], []], "level": [[0.5], [1, 2.5], [2.0]]}
    prograd.data.pack(source, "r.safetensors", standardise=["level"], split={"train": 0.67})
    rows = load_file("r.safetensors")
    assert rows["tokens"].tolist() == [3, 1, 2, 2, 5]
    assert rows["tokens.offsets"].tolist() == [0, 2, 2, 5]
    assert rows["tags"].tolist() in ([2, 3, 2], [2, 1, 2])  # "y z" is known if it is in a training row
    trained = np.concatenate([source["level"][row] for row in rows["train"]])
    every = np.array([0.5, 1, 2.5, 2.0])
    np.testing.assert_allclose(rows["level"], (every - trained.mean()) / trained.std(), rtol=1e-6)
    alike = prograd.data.encode({"tokens": [[7, 8]], "tags": [["new"]], "level": [[0.5]]}, "r.safetensors")
    assert alike["tokens"][0].tolist() == [7, 8]
    assert alike["tags"][0].tolist() == [1]
    assert alike["level"][0] == rows["level"][0]


@pytest.mark.parametrize(("column", "sentence"), [
    ([[1], [2.5, "x"]], "row 1 of 'x' has 'x' in its list, which is no finite number"),
    ([[1], [True, 2]], "row 1 of 'x' has True in its list, which is no whole number of int64"),
    ([[1], [1 << 63, 2]], "row 1 of 'x' has 9223372036854775808 in its list, which is no whole number of int64"),
    ([[1.5], None, [2.0]], "row 1 of 'x' has no value"),
    ([[1.5], 2, [2.0, 1]], "row 1 of 'x' is '2', and its rows are lists"),
    ([[[1], [2]], [[1]]], "row 0 of 'x' is a list of lists, which no row can be; leave the column out by drop=['x']"),
    ([{}, {}], "row 0 of 'x' is of type dict, which no row can be; leave the column out by drop=['x']"),
])  # fmt: skip
def test_lists_that_are_no_rows_are_one_sentence(column, sentence):
    assert told(runtime.DataError, lambda: prograd.data.pack({"x": column}, "r.safetensors")) == sentence


def test_parquet_has_lists(here):
    pyarrow = pytest.importorskip("pyarrow", reason='pip install -e ".[test]" brings it')
    parquet = pytest.importorskip("pyarrow.parquet", reason='pip install -e ".[test]" brings it')
    parquet.write_table(
        pyarrow.table({"x": [[1, 2], [3]], "y": pyarrow.array(["a", "b"]).dictionary_encode()}), "t.parquet"
    )
    assert compiler_main(["data", "pack", "t.parquet", "-o", "r.safetensors"]) == 0
    rows = load_file("r.safetensors")
    assert (rows["x"].tolist(), rows["x.offsets"].tolist(), rows["y"].tolist()) == ([1, 2, 3], [0, 2, 3], [0, 1])


def photos(folder: str, sizes: dict[str, tuple[int, int]], mode: str = "RGB") -> None:
    image = pytest.importorskip("PIL.Image", reason='pip install -e ".[test]" brings it')
    for name, size in sizes.items():
        Path(folder, name).parent.mkdir(parents=True, exist_ok=True)
        image.new(mode, size, 100 if mode == "L" else (100, 100, 100)).save(Path(folder, name))


def test_new_images_are_made_as_the_packed_ones(capsys):
    photos("old", {"cat/1.png": (9, 7), "dog/1.png": (5, 5)})
    photos("new", {"dog/a.png": (20, 10), "dog/b.png": (3, 3)})
    assert compiler_main(["data", "pack", "old", "-o", "o.safetensors", "--size", "4x6", "--grey"]) == 0
    assert compiler_main(["data", "pack", "new", "-o", "n.safetensors", "--like", "o.safetensors"]) == 0
    rows = load_file("n.safetensors")
    assert rows["image"].shape == (2, 4, 6, 1)
    assert rows["label"].tolist() == [1, 1]
    assert compiler_main(["data", "show", "o.safetensors"]) == 0
    assert "images, made 4 x 6" in capsys.readouterr().out
    with pytest.raises(runtime.DataError) as caught:
        prograd.data.encode({"image": np.zeros((1, 8, 8, 1), np.uint8)}, "o.safetensors")
    assert str(caught.value) == "'image' is uint8[1, 8, 8, 1], and the packed images are uint8[rows, 4, 6, 1]"


def test_images_of_another_size_are_refused_where_none_was_asked_for(capsys):
    photos("old", {"cat/1.png": (6, 4)})
    photos("new", {"cat/1.png": (6, 5)})
    assert compiler_main(["data", "pack", "old", "-o", "o.safetensors"]) == 0
    command = ["data", "pack", "new", "-o", "n.safetensors", "--like", "o.safetensors"]
    assert compiler_main(command) == 4
    wanted = "new/cat/1.png: the image is 5 x 6, those packed are 4 x 6; make them alike by --size 4x6"
    assert capsys.readouterr().err == f"compiler: {wanted}\n"
    assert compiler_main([*command, "--size", "4x6"]) == 0
    assert load_file("n.safetensors")["image"].shape == (1, 4, 6, 3)
    table("t.csv", [("x",), ("1",)])
    assert compiler_main(["data", "pack", "t.csv", "-o", "t.safetensors"]) == 0
    assert compiler_main(["data", "pack", "new", "-o", "m.safetensors", "--like", "t.safetensors"]) == 4
    assert capsys.readouterr().err == (
        "compiler: new: this is a folder of images, and the packed rows were made of none\n"
    )
