"""Rows packed from what people have: what the arrays are, what the header says, and new rows that are encoded alike."""

import json
import struct
import zlib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file
from subjects.commands import told

import prograd
import runtime
from compiler.__main__ import main as compiler_main
from prograd import Program, layers, ops, sgd
from prograd_proto.files import save
from prograd_proto.wording import install_hint
from runtime.__main__ import main as runtime_main

PEOPLE = """name,age,height,city,species
Ann,31,1.70,Rome,cat
Bob,,1.80,Paris,dog
Cid,55,1.61,Rome,dog
Dora,18,1.75,Oslo,cat
Eve,44,1.66,,bird
Finn,29,1.90,Paris,cat
"""
OPTIONS = ("--drop", "name", "--missing", "age=mean", "--missing", "city=other", "--split", "train=0.5")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text(PEOPLE)
    return tmp_path


EXISTS = "a.safetensors: the file exists; {} replaces it"


def pack(*options: str, source: str = "people.csv", out: str = "rows.safetensors") -> int:
    return compiler_main(["data", "pack", source, "-o", out, "--force", *options])


def refused(capsys: pytest.CaptureFixture[str], *options: str, source: str = "people.csv") -> str:
    code = pack(*options, source=source)
    assert code in (2, 4)
    return capsys.readouterr().err.removeprefix("compiler: ").strip()


def test_columns_of_a_table_become_numbers_and_classes(here, capsys):
    assert pack(*OPTIONS, "--by", "time=height") == 0
    assert capsys.readouterr().out == "OK rows=6 arrays=age,height,city,species train=3\n"
    rows = load_file("rows.safetensors")
    assert {name: (array.dtype, array.shape) for name, array in rows.items()} == {
        "age": (np.float32, (6,)),
        "height": (np.float32, (6,)),
        "city": (np.int64, (6,)),
        "species": (np.int64, (6,)),
        "train": (np.int64, (3,)),
    }
    assert rows["train"].tolist() == [0, 2, 4]  # the smallest
    trained = np.mean([31, 55, 44])
    np.testing.assert_allclose(rows["age"], [31, trained, 55, 18, 44, 29], rtol=1e-6)
    assert rows["city"].tolist() == [2, 1, 2, 0, 3, 1]
    assert rows["species"].tolist() == [1, 2, 2, 1, 0, 1]
    with safe_open("rows.safetensors", "np") as file:
        said = json.loads(file.metadata()["prograd_columns"])
    assert said["columns"][2:] == [
        {"name": "city", "kind": "class", "values": ["Oslo", "Paris", "Rome", "other"], "fill": "other"},
        {"name": "species", "kind": "class", "values": ["bird", "cat", "dog"]},
    ]


def test_standardisation_is_of_the_training_rows_alone(here):
    assert pack(*OPTIONS, "--standardise", "age,height", "--join", "x=age,h*ght", "--by", "time=height") == 0
    x = load_file("rows.safetensors")["x"]
    raw = np.array([[31, 1.70], [np.nan, 1.80], [55, 1.61], [18, 1.75], [44, 1.66], [29, 1.90]])
    trained = raw[[0, 2, 4]]
    raw[1, 0] = trained[:, 0].mean()
    np.testing.assert_allclose(x, (raw - trained.mean(0)) / trained.std(0), rtol=1e-5)


def test_rows_without_a_value_are_left_out_where_asked(here):
    assert pack("--drop", "name", "--missing", "*=drop") == 0
    assert load_file("rows.safetensors")["age"].tolist() == [31, 55, 18, 29]


def test_texts_become_bytes_or_words(here):
    Path("texts.csv").write_text('text,n\n"The cat, the dog",1\ncat!,2\né,3\n')
    assert pack("--words", "text=3", source="texts.csv") == 0
    assert load_file("rows.safetensors")["text"].tolist() == [[3, 2, 3], [2, 0, 0], [5, 0, 0]]  # cat, the, dog, é
    assert pack("--words", "text=3", "--vocabulary", "1", source="texts.csv") == 0
    assert load_file("rows.safetensors")["text"].tolist() == [[1, 2, 1], [2, 0, 0], [1, 0, 0]]
    assert pack("--text", "text=4", source="texts.csv") == 0
    assert load_file("rows.safetensors")["text"].tolist() == [[85, 105, 102, 33], [100, 98, 117, 34], [196, 170, 0, 0]]
    Path("lines.txt").write_text("ab\n\ncd\n")
    assert pack("--text", "text=2", source="lines.txt") == 0
    assert load_file("rows.safetensors")["text"].tolist() == [[98, 99], [100, 101]]
    assert pack("--window", "3", source="lines.txt") == 0
    assert load_file("rows.safetensors")["text"].tolist() == [[97, 98, 10], [10, 99, 100]]


@pytest.mark.parametrize("by", ["random", "stratified=kind", "group=kind", "time=when"])
def test_splits_are_disjoint_and_as_large_as_asked(here, by):
    rng = np.random.default_rng(0)
    kind, when = rng.integers(0, 40, 1000) % 9, rng.permutation(1000)
    way, _, of = by.partition("=")
    options = {"split": {"train": 0.7, "test": 0.2}, "by": way, "of": of or None}
    prograd.data.pack({"kind": kind, "when": when}, "rows.safetensors", **options)
    rows = load_file("rows.safetensors")
    train, test = rows["train"], rows["test"]
    assert not {*train} & {*test}
    if way == "group":
        assert not {*kind[train]} & {*kind[test]}
        return
    counts = Counter(kind)
    spare = len(counts) if way == "stratified" else 0
    assert abs(len(train) - 700) <= spare
    assert abs(len(test) - 200) <= spare
    if way == "stratified":
        for value, count in counts.items():
            assert abs(np.count_nonzero(kind[train] == value) - 0.7 * count) <= 1
    if way == "time":
        assert when[train].max() < when[test].min()
    prograd.data.pack({"kind": kind, "when": when}, "other.safetensors", **options, seed=1)
    assert (load_file("other.safetensors")["train"].tolist() == train.tolist()) == (way == "time")


def classifier(fed: str = "x") -> None:
    """A program for packed people, trained."""
    program = Program("people", seed=1)
    x, species = program.input("x", "float32", ("batch", 2)), program.input("species", "int64", ("batch",))
    logits = layers.dense(x, "output", 3)
    program.minimize(ops.softmax_cross_entropy(logits, species), sgd(0.1))
    program.outputs(probabilities=ops.softmax(logits), guess=ops.argmax(logits, axis=1))
    program.data("rows.safetensors", splits={"train": "train"}, shuffle=False, remainder="drop")
    program.training(epochs=2)
    program.compile(batch=1).save("p.pb", force=True)


def test_new_rows_are_encoded_alike_and_labels_decoded(here, capsys):
    assert pack(*OPTIONS, "--standardise", "age", "--join", "x=age,height") == 0
    classifier()
    assert runtime_main(["execute", "p.pb", "-q", "--save", "t.safetensors"]) == 0
    lines = PEOPLE.splitlines()
    Path("new.csv").write_text(
        "\n".join(["height,age,more", *[f"{h},{a},?" for _, a, h, *_ in (s.split(",") for s in lines[1:])]])
    )
    capsys.readouterr()
    options = ["execute", "p.pb", "--entry", "predict", "--load", "t.safetensors", "-q", "--decode", "guess=species"]
    assert runtime_main([*options, "--data", "new.csv", "--fetch", "probabilities=@p.npy"]) == 0
    said = capsys.readouterr().out.splitlines()[0]
    run = prograd.load("p.pb")
    run.load("t.safetensors")
    wanted = run.predict(load_file("rows.safetensors")["x"])
    np.testing.assert_array_equal(np.load("p.npy"), wanted["probabilities"])
    names = [["bird", "cat", "dog"][number] for number in wanted["guess"]]
    assert said == f"guess: text[6] = {names}"
    assert runtime_main([*options[:-1], "probabilities=species", "--data", "new.csv"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == f"probabilities: text[6] = {names}"
    encoded = prograd.data.encode({"age": ["31"], "height": [1.7]}, "rows.safetensors")
    np.testing.assert_array_equal(encoded["x"], load_file("rows.safetensors")["x"][:1])
    assert prograd.data.decode([2, 0], "species", "rows.safetensors").tolist() == ["dog", "bird"]


def test_packing_like_another_file_gives_its_arrays(here):
    assert pack(*OPTIONS, "--standardise", "age", "--join", "x=age,height") == 0
    assert pack("--like", "rows.safetensors", out="again.safetensors") == 0
    first, again = load_file("rows.safetensors"), load_file("again.safetensors")
    for name in ("x", "city", "species"):
        np.testing.assert_array_equal(first[name], again[name])


def test_parquet_and_frames_are_packed_as_the_same_table(here):
    pandas = pytest.importorskip("pandas", reason='pip install -e ".[test]" brings it')
    pytest.importorskip("pyarrow", reason='pip install -e ".[test]" brings it')
    assert pack(*OPTIONS) == 0
    frame = pandas.read_csv("people.csv")
    frame.to_parquet("people.parquet")
    assert pack(*OPTIONS, source="people.parquet", out="other.safetensors") == 0
    assert Path("other.safetensors").read_bytes() == Path("rows.safetensors").read_bytes()
    asked = {"drop": ["name"], "missing": {"age": "mean", "city": "other"}, "split": {"train": 0.5}}
    prograd.data.pack(frame, "frame.safetensors", **asked)
    assert Path("frame.safetensors").read_bytes() == Path("rows.safetensors").read_bytes()


def test_folders_of_images_are_packed_with_the_names_of_the_folders(here):
    image = pytest.importorskip("PIL.Image", reason='pip install -e ".[test]" brings it')
    for name, colour in (("red", (255, 0, 0)), ("blue", (0, 0, 255))):
        Path("photos", name).mkdir(parents=True)
        for number in range(2):
            image.new("RGB", (6, 4), colour).save(Path("photos", name, f"{number}.png"))
    assert pack(source="photos") == 0
    rows = load_file("rows.safetensors")
    assert rows["image"].shape == (4, 4, 6, 3)
    assert rows["label"].tolist() == [0, 0, 1, 1]
    assert rows["image"][:, 0, 0].tolist() == [[0, 0, 255]] * 2 + [[255, 0, 0]] * 2
    assert pack("--size", "2x3", "--grey", source="photos") == 0
    assert load_file("rows.safetensors")["image"].shape == (4, 2, 3, 1)


def test_a_missing_package_is_one_sentence(here, capsys, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    Path("p.parquet").write_bytes(b"")
    found = refused(capsys, source="p.parquet")
    assert found == f"reading Parquet needs pyarrow, which is not installed; {install_hint('data')}"


def test_arrays_are_written_in_the_order_of_their_axes(here):
    x = np.asfortranarray(np.arange(12, dtype=np.float64).reshape(4, 3))
    prograd.data.write(
        "rows.safetensors", {"x": x, "y": x[:, ::-1], "n": np.arange(4, dtype=np.int16), "z": [1, 2, 3, 4]}
    )
    rows = load_file("rows.safetensors")
    np.testing.assert_array_equal(rows["x"], x)
    np.testing.assert_array_equal(rows["y"], x[:, ::-1])
    assert (rows["n"].dtype, rows["z"].dtype) == (np.int32, np.int64)
    np.savez("arrays.npz", x=x.T, label=np.arange(3))
    assert pack(source="arrays.npz") == 0
    np.testing.assert_array_equal(load_file("rows.safetensors")["x"], x.T)


WRONG = [
    ({"x": [[1], [2, 3]]}, None, "'x' cannot be made an array: "),
    ({"x": ["a"]}, None, "'x' is an array of texts or objects; programs have "),
    ({"x": np.zeros(2, np.complex64)}, None, "'x' is an array of complex64; programs have "),
    ({"x": 1.0}, None, "'x' is one number, and axis 0 counts the rows"),
    ({"x": [1, 2], "y": [1]}, None, "the arrays differ in their number of rows: 'x' has 2, 'y' 1"),
    ({"x": [1, 2]}, {"train": [0, 2]}, "the split 'train' has row 2, there are 2 rows"),
    ({"x": [1, 2]}, {"x": [0]}, "'x' is the name of a split and of an array"),
    ({}, None, "there are no arrays to write"),
    ({"x": np.array([1 << 63], np.uint64)}, None, "'x' is an array of uint64; programs have "),
    ({"__metadata__": [1]}, None, "'__metadata__' is what a safetensors file calls its header"),
]


@pytest.mark.parametrize(("arrays", "splits", "sentence"), WRONG)
def test_what_cannot_be_written_is_one_sentence(here, arrays, splits, sentence):
    with pytest.raises(runtime.DataError) as caught:
        prograd.data.write("rows.safetensors", arrays, splits=splits)
    assert str(caught.value).startswith(sentence)


JOINED = "join: the column 'city' has classes, and only columns of float32 numbers are joined; leave it out"
REFUSED = [
    ((), "line 3: 'age' has no value; say what stands for it, as in --missing age=mean, or --missing age=drop"),
    (("--drop", "nam"), "drop: there is no column 'nam'; did you mean 'name'?"),
    (("--split", "train=1.5"), "split train=1.5: the fraction of the rows is above 0 and at most 1"),
    (("--split", "a=0.6", "--split", "b=0.6"), "the splits take 1.2 of the rows together, which is more than all"),
    (("--missing", "*=drop", "--split", "a=0.01"), "split a=0.01: of 4 rows that is none"),
    (
        ("--missing", "age=x"),
        "'age' is a column of numbers; for a missing one say a number, mean, median, or drop for the row, not 'x'",
    ),
    (
        ("--missing", "age=median,city=none"),
        "'age' is a column of numbers; for a missing one say a number, mean, median, or drop for the row, not "
        "'median,city=none'; each column has an option of its own",
    ),
    (("--missing", "*=drop", "--join", "x=city"), JOINED),
    (
        ("--drop", "name", "--missing", "age=1", "--missing", "city=x", "--split", "a=0.5", "--by", "time=species"),
        "line 2: 'species' is 'cat', which is not a date like 2026-11-23; write it so, or pack with --date-format",
    ),
    (("--by", "time=age"), "line 3: 'age' has no value, and splits go by it"),
    (("--size", "4x4"), "size: people.csv is none of the folders of images that this is for"),
    (("--stride", "4"), "stride: how far windows lie apart says nothing without them; give window too"),
    (("--by", "time=agee"), "by: there is no column 'agee'; did you mean 'age'?"),
    (("--whole", "height", "--missing", "*=drop"), "line 2: 'height' is 1.7, which is no whole number"),
    (("--split", "age=0.5"), "'age' is a column, and a split or joined columns cannot have its name"),
]


@pytest.mark.parametrize(("options", "sentence"), REFUSED)
def test_what_cannot_be_packed_is_one_sentence(here, capsys, options, sentence):
    assert refused(capsys, *options) == sentence


SOURCES = [
    ("a.csv", b"", "a.csv: the file has no line that names columns"),
    ("a.csv", b"x,x\n1,2\n", "a.csv: the first line names columns, and 'x' is there twice"),
    ("a.csv", b"x,y\n1,2\n1\n", "a.csv: line 3 has 1 values, and the first line names 2 columns"),
    ("a.csv", b"x\n", "there are no rows of x"),
    (
        "a.csv",
        b"a\n\xe9",
        "a.csv: the file is not text in UTF-8: byte 2 is 0xe9, as in Latin-1; "
        "iconv -f latin1 -t utf-8 a.csv makes it so",
    ),
    (
        "a.csv",
        b"\xff\xfea\0",
        "a.csv: the file is not text in UTF-8: it is UTF-16; iconv -f utf-16 -t utf-8 a.csv makes it so",
    ),
    (
        "a.csv",
        b"1,2\n3,4\n",
        "a.csv: the first line names columns, and it has numbers, '1' the first; put a line with names before it",
    ),
    (
        "a.csv",
        b",x\n0,4\n",
        "a.csv: the first line names columns, and column 1 has no name; "
        "pandas writes a table without its index by to_csv(\u2026, index=False)",
    ),
    ("a.csv", b'x,y\n1,2\n3,"4\n', "a.csv: this is no table: a quote in line 3 is not closed"),
    (
        "a.csv",
        b"x\n1\nb\n3\n",
        "line 3: 'x' is 'b', and 2 rows have numbers; mend it, or empty it and say "
        "--missing x=mean; --class x takes all as classes, --drop x leaves the column out",
    ),
    (
        "a.csv",
        b"x;y\n1;2,5\n",
        "line 2: 'y' is '2,5'; numbers have a point and no commas; --decimal , takes decimal commas; "
        "--class y takes all as classes, --drop y leaves the column out",
    ),
    (
        "a.csv",
        b"x\n2024-03-01\n2024-03-02\n",
        "'x' has dates, which are no classes; --date x makes numbers of them, --drop x leaves the column "
        "out, and --by time=x still splits by it; --class x takes them as classes",
    ),
    (
        "a.csv",
        b"__metadata__\n1\n",
        "'__metadata__' is what a safetensors file calls its header, and no array can have that name",
    ),
    (
        "a.csv",
        b"x\n1" + b"0" * 400,
        "line 2: 'x' is '100000000000000000000000000000000000000\u2026, which is not finite",
    ),
    ("a.xlsx", b"", "a.xlsx: this is a spreadsheet; save the sheet with the rows as a.csv"),
    (
        "a.feather",
        b"",
        "a.feather: rows are packed from .csv, .tsv, .jsonl, .parquet, .npy, .npz and .txt files, "
        "and folders of images",
    ),
    ("a.json", b"[]", "a.json: JSON is read in lines, an object for each row; write it so, as a.jsonl"),
    ("a.npz", b"no", "a.npz: this cannot be read as a npz file: "),
]


@pytest.mark.parametrize(("name", "raw", "sentence"), SOURCES)
def test_a_source_that_is_none_is_one_sentence(here, capsys, name, raw, sentence):
    Path(name).write_bytes(raw)
    assert refused(capsys, source=name).startswith(sentence)


def test_a_source_that_is_not_there_is_one_sentence(here, capsys):
    assert refused(capsys, source="none.csv") == "none.csv: the rows cannot be read: No such file or directory"
    assert refused(capsys, source="none") == "none: no such file or folder"


def test_new_rows_that_cannot_be_encoded_are_named(here, capsys):
    assert (
        pack(
            "--drop",
            "name",
            "--missing",
            "age=1",
            "--missing",
            "city=other",
            "--join",
            "x=age,height",
            "--split",
            "train=0.5",
        )
        == 0
    )
    classifier()
    for text, sentence in (
        ("age\n1\n", "the rows have no column 'height'; add it"),
        ("age,height\n1,tall\n", "line 2: 'height' is 'tall', which is no number; write one, as in 3.5"),
        (
            "age,height\n1,\n",
            "line 2: 'height' has no value; fill it in, or pack the training rows with missing={'height': …}",
        ),
        ("age,height\n1,1e40\n", "line 2: 'height' has 1e+40, which float32 does not hold"),
    ):
        Path("new.csv").write_text(text)
        with pytest.raises(runtime.DataError) as caught:
            prograd.load("p.pb", data="new.csv").session.rows("predict", None)
        assert str(caught.value) == f"new.csv: {sentence}"
    with pytest.raises(
        runtime.DataError, match=r"^row 0 of 'species' is 'fox', which is none of its values; there are bird"
    ):
        prograd.data.encode({"species": ["fox"]}, "rows.safetensors")
    with pytest.raises(runtime.DataError, match=r"^'species' has 3 values, and 3 is the number of none$"):
        prograd.data.decode([3], "species", "rows.safetensors")


def test_of_two_files_that_are_missing_the_one_that_was_typed_is_named(here, capsys):
    assert pack(*OPTIONS, "--join", "x=age,height") == 0
    classifier()
    Path("rows.safetensors").unlink()
    command = ["execute", "p.pb", "--entry", "predict", "-q", "--data", "new.csv"]
    assert runtime_main(command) == 4
    assert capsys.readouterr().err == "runtime: new.csv: the rows cannot be read: No such file or directory\n"
    Path("new.csv").write_text("age,height\n1,1\n")
    assert runtime_main(command) == 0  # the program has the encoding
    program = prograd.load("p.pb").program
    program.data.ClearField("encoding")  # as one of before has none
    save(program, "p.pb", force=True)
    capsys.readouterr()
    assert runtime_main(command) == 4
    assert capsys.readouterr().err == (
        "runtime: new.csv: a table is encoded as the program's own rows were; rows.safetensors: the program's file "
        "cannot be read: No such file or directory\n"
    )


def test_a_file_that_was_not_packed_or_lies_is_one_sentence(here):
    prograd.data.write("rows.safetensors", {"x": [1]})
    wanted = "rows.safetensors: the file does not say how its rows were made; compiler data pack writes one that does"
    assert told(runtime.DataError, lambda: prograd.data.decode([0], "x", "rows.safetensors")) == wanted
    for text in (
        "", "[]", '{"format":2}', '{"format":1,"columns":[1],"joined":{}}',
        '{"format":1,"columns":[],"joined":{"x":["y"]}}',
        '{"format":1,"columns":[{"name":"x","kind":"class","values":[1]}],"joined":{}}',
        '{"format":1,"columns":[{"name":"x","kind":"class","other":1}],"joined":{}}', "[" * 99999,
    ):  # fmt: skip
        prograd.data.write("rows.safetensors", {"x": [1]}, metadata={"prograd_columns": text}, force=True)
        with pytest.raises(runtime.DataError, match=r"^rows.safetensors: the encoding of its columns is damaged: "):
            prograd.data.decode([0], "x", "rows.safetensors")


@pytest.mark.parametrize(
    ("option", "count"), [({"words": ["text"]}, 6), ({"text": ["text"]}, 257), ({"hash": {"text": 64}}, 64)]
)
def test_show_tells_the_count_of_an_embedding(here, capsys, option: dict[str, object], count: int):
    prograd.data.pack({"text": ["a cat", "a dog and"]}, "texts.safetensors", **option)
    assert compiler_main(["data", "show", "texts.safetensors"]) == 0
    assert f"  an embedding of them takes count={count}\n" in capsys.readouterr().out
    numbers = np.concatenate(prograd.data.encode({"text": ["dog zzz \xff"]}, "texts.safetensors")["text"])
    assert numbers.max() < count


def test_show_prints_arrays_and_how_they_were_made(here, capsys):
    assert pack(*OPTIONS, "--standardise", "age", "--join", "x=age,height", "--by", "time=height") == 0
    capsys.readouterr()
    assert compiler_main(["data", "show", "rows.safetensors", "--rows", "2"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "rows.safetensors: 4 arrays of at most 6 rows",
        "  city     int64[6]  from 0 to 3",
        "           4 classes: Oslo, Paris, Rome, other",
        "           missing values are 'other'",
        "           first rows: Rome, Paris",
        "  species  int64[6]  from 0 to 2",
        "           3 classes: bird, cat, dog",
        "           first rows: cat, dog",
        "  x        float32[6, 2]  from -2.58259 to 1.9",
        "           columns: age, height",
        "           age: standardised: mean 43.3333 and deviation 9.80929 of the training rows",
        "           age: missing values are 43.333333333333336",
        "           first rows: [-1.257 1.7], [0 1.8]",
        "  train    int64[3]  from 0 to 4",
        "           first rows: 0, 2",
    ]
    np.savez("a.npz", x=np.array([[np.nan, 2.0]], np.float16), flag=np.array([True]))
    assert compiler_main(["data", "show", "a.npz"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "a.npz: 2 arrays of at most 1 rows",
        "  flag  bool[1]  from 1 to 1",
        "        first rows: True",
        "  x     float16[1, 2]  from 2 to 2, 1 are NaN or infinite",
        "        first rows: [nan 2]",
    ]
    assert compiler_main(["data", "show", "none.safetensors"]) == 4
    assert capsys.readouterr().err == "compiler: none.safetensors: no such file\n"


def test_what_separates_columns_is_seen_in_the_first_line(here):
    for name, text in (("a.csv", "x;y\n1;a,b\n"), ("b.csv", "x\ty\n1\ta,b\n"), ("c.csv", 'x,y\n1,"a,b"\n')):
        Path(name).write_text(text)
        assert pack(source=name) == 0
        assert prograd.data.decode(load_file("rows.safetensors")["y"], "y", "rows.safetensors").tolist() == ["a,b"]


def test_a_file_that_is_there_stays_where_packing_fails(here, capsys):
    Path("rows.safetensors").write_bytes(b"as it was")
    assert refused(capsys, "--missing", "age=x").startswith("'age' is")
    assert Path("rows.safetensors").read_bytes() == b"as it was"
    assert sorted(path.name for path in here.iterdir()) == ["people.csv", "rows.safetensors"]


def test_whole_numbers_stay_what_they_are_or_it_is_said(here, caplog):
    Path("ids.csv").write_text("id\n9007199254740993\n7\n")
    assert pack("--whole", "id", source="ids.csv") == 0
    assert load_file("rows.safetensors")["id"].tolist() == [9007199254740993, 7]
    assert caplog.messages == []
    Path("near.csv").write_text("id\n9007199254740993\n9007199254740992\n")
    for source, first in (
        ({"id": [1 << 24, (1 << 24) + 1]}, "16777217 in row 1"),
        ("near.csv", "9007199254740993 in line 2"),  # as float64 they are equal, and float32 has this number
        ({"id": np.array([7, (1 << 53) + 1])}, "9007199254740993 in row 1"),
    ):
        caplog.clear()
        prograd.data.pack(source, "rows.safetensors", force=True)
        assert caplog.messages == [
            f"'id' has whole numbers that float32 rounds, {first} the first; "
            "whole=['id'] keeps them, classes=['id'] makes classes of them"
        ]


def test_zeros_in_front_of_numbers_are_not_lost_without_a_word(here, caplog):
    Path("towns.csv").write_text("zip,y\n1234,1\n00123,2\n0.5,3\n")
    assert pack(source="towns.csv") == 0
    assert load_file("rows.safetensors")["zip"].tolist() == [1234, 123, 0.5]
    told = "'zip' has numbers with zeros in front, which are lost, 00123 in line 3 the first; "
    assert caplog.messages[0] == f"{told}--class zip makes classes of them"
    caplog.clear()
    for source, options in (("towns.csv", {"classes": ["zip"]}), ({"a": ["0", "10"], "b": [0, 1]}, {})):
        prograd.data.pack(source, "rows.safetensors", force=True, **options)
        assert caplog.messages == []


OPTIONS_THAT_ARE_NONE = [
    ({"clases": ["a"]}, "pack: there is no option 'clases'; did you mean 'classes'?"),
    ({"split": 0.8}, 'pack: split=0.8: give it as split={"train": 0.8, "test": 0.2}'),
    ({"size": 32}, "pack: size=32: give it as size=(32, 32)"),
    ({"missing": "mean"}, 'pack: missing=\'mean\': give it as missing={"age": "mean", "city": "other"}'),
    (
        {"by": "stratifed", "of": "a"},
        'pack: by=\'stratifed\': give it as by="stratified", with of="label"; or "time", "group" or "random"',
    ),
]


@pytest.mark.parametrize(("options", "sentence"), OPTIONS_THAT_ARE_NONE)
def test_options_that_are_none_are_one_sentence(here, options, sentence):
    assert told(runtime.UsageError, lambda: prograd.data.pack({"a": [1, 2]}, "rows.safetensors", **options)) == sentence


COLUMNS = [
    (3, "'a' is of type int; a column is a list or an array"),
    ("abc", "'a' is of type str; a column is a list or an array"),
    ({1}, "'a' is of type set; a column is a list or an array"),
    ([1j], "row 0 of 'a' is of type complex, which no row can be; leave the column out by drop=['a']"),
    ([0.5, float("inf")], "row 1 of 'a' is inf, which is not finite"),
    ([1 << 70], "row 0 of 'a' is '1180591620717411303424', which int64 does not hold"),
]


@pytest.mark.parametrize(("column", "sentence"), COLUMNS)
def test_a_column_that_is_none_is_one_sentence(here, column, sentence):
    whole = ["a"] if "int64" in sentence else []
    with pytest.raises(runtime.DataError) as caught:
        prograd.data.pack({"a": column}, "rows.safetensors", whole=whole)
    assert str(caught.value) == sentence


def test_columns_that_are_dropped_may_be_anything(here):
    prograd.data.pack({"a": [1, 2], "b": [{}, b"x"], "day": ["1/2/2024", "x"]}, "r.safetensors", drop=["b", "day"])
    assert sorted(load_file("r.safetensors")) == ["a"]


def test_frames_keep_the_order_of_categories_and_whole_numbers_that_may_be_missing(here):
    pandas = pytest.importorskip("pandas", reason='pip install -e ".[test]" brings it')
    size = pandas.Categorical(["low", "high", "low"], categories=["low", "mid", "high"], ordered=True)
    frame = pandas.DataFrame({"size": size, "n": pandas.array([1, None, 3], "Int64")}, index=[7, 8, 9])
    prograd.data.pack(frame, "r.safetensors", missing={"n": 0})
    rows = load_file("r.safetensors")
    assert (rows["size"].tolist(), rows["n"].tolist()) == ([0, 2, 0], [1, 0, 3])


def test_arrays_of_texts_are_classes_and_objects_are_refused(here, capsys):
    np.savez("a.npz", x=np.zeros((2, 3)), label=np.array(["dog", "cat"]))
    assert pack(source="a.npz") == 0
    assert load_file("rows.safetensors")["label"].tolist() == [1, 0]
    np.savez("b.npz", x=np.array([{}, []], object))
    wanted = "b.npz: there are objects of Python in it; save arrays of numbers or of texts"
    assert refused(capsys, source="b.npz") == wanted
    assert refused(capsys, "--standardise", "x", source="a.npz") == (
        "standardise: 'x' is an array, which stays as it is"
    )


def test_folders_that_are_no_classes_are_said(here, capsys):
    image = pytest.importorskip("PIL.Image", reason='pip install -e ".[test]" brings it')
    for name in ("a/1.png", "2.png"):
        Path("half", name).parent.mkdir(parents=True, exist_ok=True)
        image.new("L", (2, 2)).save(Path("half", name))
    assert refused(capsys, source="half") == (
        "half: 1 of 2 images lie in no folder of a class; move them, or those in folders"
    )
    for name in ("train/cat/1.png", "test/cat/1.png"):
        Path("all", name).parent.mkdir(parents=True, exist_ok=True)
        image.new("L", (2, 2)).save(Path("all", name))
    assert refused(capsys, source="all") == (
        "all: the folders test, train are splits, and no classes; pack each: "
        "compiler data pack all/train -o train.safetensors, and the others likewise, with --like that file"
    )
    Path("bad/a").mkdir(parents=True)
    Path("bad/a/1.png").write_bytes(b"no")
    wanted = "bad/a/1.png: the image cannot be read: it is none that pillow knows, or is damaged"
    assert refused(capsys, source="bad") == wanted


def test_what_is_there_already_may_be_written_again_and_something_else_may_not(here):
    """A script or a cell of a notebook is run again."""
    arrays = {"x": np.arange(3), "y": np.eye(3, dtype="f")}
    for _ in range(2):
        prograd.data.write("a.safetensors", arrays, splits={"train": [0]}, metadata={"by": "me"})
    before = Path("a.safetensors").stat()
    prograd.data.write("a.safetensors", arrays, splits={"train": [0]}, metadata={"by": "me"})
    assert Path("a.safetensors").stat() == before  # not even written anew
    for other in ({"splits": {"train": [1]}, "metadata": {"by": "me"}}, {"splits": {"train": [0]}}):
        with pytest.raises(runtime.UsageError) as caught:
            prograd.data.write("a.safetensors", arrays, **other)
        assert str(caught.value) == EXISTS.format("force=True")
    with Path("a.safetensors").open("ab") as file:
        file.write(b"more")
    with pytest.raises(runtime.UsageError):
        prograd.data.write("a.safetensors", arrays, splits={"train": [0]}, metadata={"by": "me"})


def test_rows_that_come_with_prograd(here):
    for _ in range(2):
        prograd.data.sample("digits", "digits.safetensors")
    rows = load_file("digits.safetensors")
    assert {name: array.shape for name, array in rows.items()} == {
        "image": (1797, 8, 8, 1), "label": (1797,), "train": (1198,), "test": (599,)
    }  # fmt: skip
    Path("digits.safetensors").write_bytes(b"mine")
    for arguments, sentence in (
        (("digits", "digits.safetensors"), EXISTS.format("force=True").replace("a.safe", "digits.safe")),
        (("digist", "d.safetensors"), "there are no rows 'digist'; there are digits"),
    ):
        with pytest.raises(runtime.UsageError) as caught:
            prograd.data.sample(*arguments)
        assert str(caught.value) == sentence
    prograd.data.sample("digits", "digits.safetensors", force=True)
    assert load_file("digits.safetensors").keys() == rows.keys()


def test_errors_of_packing_are_those_that_prograd_names(here):
    Path("empty.csv").write_text("")
    for by, sentence in (
        ({"by": "time"}, "splits by time go by a column; name it, as in of='species'"),
        (
            {"of": "age"},
            "of='age' is a column that splits go by, and splits at random go by none; "
            'give by="stratified", "time" or "group" with it',
        ),
    ):
        with pytest.raises(prograd.UsageError) as caught:
            prograd.data.pack("people.csv", "rows.safetensors", **by)
        assert str(caught.value) == sentence
    for error, act in (
        (prograd.DataError, lambda: prograd.data.pack("empty.csv", "rows.safetensors")),
        (prograd.DataError, lambda: prograd.data.write("rows.safetensors", {})),
        (prograd.UsageError, lambda: prograd.data.pack("people.csv", "rows.safetensors", of="name")),
    ):
        with pytest.raises(error):
            act()


def test_what_is_shown_is_a_file_of_rows(here, capsys):
    assert compiler_main(["data", "show", "people.csv"]) == 2
    wanted = "people.csv: files of rows are called *.safetensors or *.npz; compiler data pack makes the first"
    assert capsys.readouterr().err == f"compiler: {wanted}\n"


def test_joined_columns_have_the_order_of_the_request(here):
    table = {"age": [20, 21], "height": [150, 151], "h2": [5, 6], "y": ["a", "b"]}
    prograd.data.pack(table, "t.safetensors", join={"x": ["height", "age"]})
    assert load_file("t.safetensors")["x"].tolist() == [[150, 20], [151, 21]]
    assert prograd.data.encode(table, "t.safetensors")["x"].tolist() == [[150, 20], [151, 21]]
    prograd.data.pack(table, "u.safetensors", join={"x": ["h2", "h*", "age"]})
    assert load_file("u.safetensors")["x"].tolist() == [[5, 150, 20], [6, 151, 21]]


def test_folders_of_digits_are_classes_by_their_names_and_hidden_ones_are_none(here):
    image = pytest.importorskip("PIL.Image", reason='pip install -e ".[test]" brings it')
    names = ["0", "00", "1", "2", "10", "1.0", ".ipynb_checkpoints"]
    for number, name in enumerate(names):
        Path("digits", name).mkdir(parents=True)
        image.new("L", (2, 2), number).save(Path("digits", name, "a.png"))
        image.new("L", (2, 2), 99).save(Path("digits", name, "._a.png"))
    assert pack("--grey", source="digits") == 0
    rows = load_file("rows.safetensors")
    assert rows["label"].dtype == np.int64
    found = prograd.data.decode(rows["label"], "label", "rows.safetensors").tolist()
    assert dict(zip(found, rows["image"][:, 0, 0, 0].tolist(), strict=True)) == {
        name: number for number, name in enumerate(names[:-1])
    }
    for name in ("1.0", "00", ".ipynb_checkpoints"):
        for path in Path("digits", name).iterdir():
            path.unlink()
    assert pack("--grey", source="digits") == 0
    rows = load_file("rows.safetensors")
    assert prograd.data.decode(np.arange(4), "label", "rows.safetensors").tolist() == ["0", "1", "2", "10"]


def test_times_are_compared_as_times(here, capsys):
    times = ["2024-03-31T00:30:00Z", "2024-03-31 04:00+02:00", "2024-03-31T01:30:00Z", "2024-03-31T03:10+05:00"]
    prograd.data.pack({"t": times, "x": [1, 2, 0, 3]}, "t.safetensors", date=["t"], by="time", of="t",
                      split={"first": 0.5, "last": 0.5})  # fmt: skip
    assert load_file("t.safetensors")["first"].tolist() == [0, 3]
    table = {"t": ["31.12.2023", "01.02.2024", "02.01.2024"], "x": [1, 2, 3]}
    prograd.data.pack(table, "u.safetensors", drop=["t"], by="time", of="t", date_format="%d.%m.%Y",
                      split={"first": 0.67, "last": 0.33})  # fmt: skip
    assert load_file("u.safetensors")["first"].tolist() == [0, 2]
    stamps = [1700000000000000002, 1700000000000000001, 1700000000000000003]
    for column in (stamps, [str(stamp) for stamp in stamps]):
        table = {"t": column, "x": [1, 2, 3]}
        prograd.data.pack(table, "v.safetensors", drop=["t"], by="time", of="t", force=True,
                          split={"first": 0.34, "last": 0.66})  # fmt: skip
        assert load_file("v.safetensors")["first"].tolist() == [1]
    for text, sentence in (
        ("2024-03-31 24:30", "which is not a date like 2026-11-23; write it so, or pack with date_format="),
        ("2024-03-31 01:00", "and the dates before it differ; write all dates alike"),
    ):
        with pytest.raises(prograd.DataError, match=f"^row 2 of 't' is '{text}'.*{sentence}$"):
            prograd.data.pack({"t": [*times[:2], text], "x": [1, 2, 3]}, "w.safetensors", date=["t"], by="time",
                              of="t", split={"first": 0.5})  # fmt: skip


def test_images_of_16_bits_are_refused_and_transparent_pixels_counted(here, capsys, caplog):
    image = pytest.importorskip("PIL.Image", reason='pip install -e ".[test]" brings it')
    Path("wide").mkdir()
    pixels = np.full((2, 2, 3), 300, ">u2").tobytes()
    lines = b"".join(b"\0" + pixels[row : row + 12] for row in (0, 12))
    header = struct.pack(">IIBBBBB", 2, 2, 16, 2, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(lines)), (b"IEND", b"")]
    png = b"".join(struct.pack(">I", len(d)) + t + d + struct.pack(">I", zlib.crc32(t + d)) for t, d in parts)
    for name, content in (("a.png", b"\x89PNG\r\n\x1a\n" + png), ("a.ppm", b"P6 2 2 65535\n" + pixels)):
        Path("wide", name).write_bytes(content)
        wanted = f"wide/{name}: the image has more than 8 bits for each channel; save it with 8, as values are uint8"
        assert refused(capsys, source="wide") == wanted
        Path("wide", name).unlink()
    Path("clear").mkdir()
    for name, colour in (("a", (1, 2, 3, 255)), ("b", (4, 5, 6, 9)), ("c", (7, 8, 9, 0))):
        image.new("RGBA", (2, 2), colour).save(Path("clear", f"{name}.png"))
    assert pack(source="clear") == 0
    assert load_file("rows.safetensors")["image"][:, 0, 0].tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    assert "2 of 3 images have transparent pixels, clear/b.png the first; their colours are kept" in caplog.text


def test_windows_of_bytes_have_no_words(tmp_path: Path):
    (tmp_path / "t.txt").write_text("how do you do\n" * 9)
    with pytest.raises(runtime.UsageError) as error:
        prograd.data.pack(tmp_path / "t.txt", tmp_path / "r.safetensors", window=8, words=["text"])
    assert str(error.value) == (
        "words: 'text' is an array, which stays as it is; leave window out, so that each line is a row"
    )


ANIMALS = {"age": [10.0, 20.0, 30.0], "kind": ["cat", "dog", "cat"], "says": ["meow", "woof woof", "purr"]}


def packed_animals(**options: object) -> None:
    prograd.data.pack(ANIMALS, "animals.safetensors", standardise=["age"], words={"says": 3}, **options)


def test_numbers_of_an_npz_are_encoded_like_those_of_a_table(here):
    """They stayed as they were, and a network that was trained on scaled numbers took them for scaled ones."""
    packed_animals()
    wanted = prograd.data.encode(ANIMALS, "animals.safetensors")
    np.savez("new.npz", age=np.array(ANIMALS["age"]), kind=ANIMALS["kind"], says=ANIMALS["says"])
    prograd.data.pack("new.npz", "new.safetensors", like="animals.safetensors")
    for found in (prograd.data.encode("new.npz", "animals.safetensors"), load_file("new.safetensors")):
        assert found.keys() == wanted.keys()
        for name, array in wanted.items():
            np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize("kind", [list, np.array])
def test_columns_with_a_second_axis_are_encoded_or_refused(here, kind):
    packed_animals()
    found = prograd.data.encode({"age": kind([[10.0], [20.0]])}, "animals.safetensors")["age"]
    np.testing.assert_array_equal(found, prograd.data.encode({"age": [10.0, 20.0]}, "animals.safetensors")["age"])
    found = prograd.data.encode({"says": kind([["woof", "meow"]])}, "animals.safetensors")["says"]
    np.testing.assert_array_equal(found, prograd.data.encode({"says": ["woof meow"]}, "animals.safetensors")["says"])
    for name, values in (("age", [[1.0, 2.0]]), ("kind", [["cat"]]), ("kind", [["cat", "dog"]])):
        with pytest.raises(prograd.DataError) as caught:
            prograd.data.encode({name: kind(values)}, "animals.safetensors")
        assert str(caught.value) == f"{name!r} has lists, and the rows it was packed from have one value each"


def test_an_array_that_columns_were_joined_to_is_refused_as_a_source(here):
    packed_animals(one_hot=["kind"], join={"x": ["age", "kind"]})
    with pytest.raises(prograd.DataError) as caught:
        prograd.data.encode({"x": np.zeros((2, 3))}, "animals.safetensors")
    assert str(caught.value) == "'x' was joined of age, kind; give these, which are encoded"
