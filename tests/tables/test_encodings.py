"""Dates, one-hot classes, transforms, decimal commas, windows and subwords: fitted on training rows alone."""

from __future__ import annotations

import gzip
import json
import math
import zlib
from datetime import date, datetime
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import prograd
from compiler.__main__ import main as compiler_main
from prograd import Program, adam, layers, ops
from prograd_proto.files import save
from runtime.__main__ import main
from runtime.errors import DataError

pytestmark = pytest.mark.usefixtures("here")


def packed(table: dict[str, object], **options: object) -> None:
    prograd.data.pack(table, "rows.safetensors", force=True, **options)


def encoded(table: dict[str, object]) -> dict[str, np.ndarray]:
    return prograd.data.encode(table, "rows.safetensors")


def test_parts_of_dates_are_those_of_the_calendar():
    dates = ["2024-02-29", "2026-11-23 14:05", "1969-12-31T23:59", " 2026-11-23T12:05:30 "]
    parts = ["days", "year", "month", "day", "weekday", "hour", "minute"]
    packed({"when": dates}, date={"when": parts}, split={"train": 1.0})
    found = encoded({"when": dates})["when"]
    naive = [datetime(2024, 2, 29), datetime(2026, 11, 23, 14, 5), datetime(1969, 12, 31, 23, 59)]
    naive.append(datetime(2026, 11, 23, 12, 5, 30))
    first = datetime(1969, 12, 31)
    for row, when in zip(found, naive, strict=True):
        wanted = [when.year, when.month, when.day, when.weekday(), when.hour, when.minute]
        assert row[1:].tolist() == wanted
        assert row[0] == pytest.approx((when - first).total_seconds() / 86400, rel=1e-6)
    assert found.dtype == np.float32


@pytest.mark.parametrize(
    ("part", "share"),
    [
        ("year_cycle", lambda d: (d - date(d.year, 1, 1)).days / (date(d.year + 1, 1, 1) - date(d.year, 1, 1)).days),
        ("month_cycle", lambda d: (d.day - 1) / ((date(d.year + d.month // 12, d.month % 12 + 1, 1)
                                                   - date(d.year, d.month, 1)).days)),
        ("week_cycle", lambda d: d.weekday() / 7),
    ],
)  # fmt: skip
def test_cycles_of_dates_lie_on_a_circle(part: str, share):
    days = [date.fromordinal(n) for n in range(738_000, 738_800, 7)]
    packed({"when": [str(day) for day in days]}, date={"when": [part]})
    for row, day in zip(encoded({"when": [str(day) for day in days]})["when"], days, strict=True):
        angle = 2 * math.pi * share(day)
        assert row.tolist() == pytest.approx([math.sin(angle), math.cos(angle)], abs=1e-6)


def test_days_count_from_the_first_training_row_and_are_scaled_by_training_rows():
    days = [f"2026-01-{n:02}" for n in range(1, 21)]
    packed(
        {"when": days[::-1]}, date={"when": ["days"]}, standardise=["when"], split={"train": 0.5}, by="time", of="when"
    )
    trained = np.arange(10)
    found = encoded({"when": ["2026-01-01", "2026-02-01"]})["when"][:, 0]
    np.testing.assert_allclose(found, (np.array([0, 31]) - trained.mean()) / trained.std(), rtol=1e-6)


def test_other_formats_of_dates_are_named():
    packed({"when": ["24.12.2025", "01.01.2026"]}, date={"when": ["month", "day"]}, date_format="%d.%m.%Y")
    assert encoded({"when": ["03.04.2026"]})["when"].tolist() == [[4, 3]]
    assert encoded({"when": [date(2026, 4, 3)]})["when"].tolist() == [[4, 3]]  # as a frame has it
    with pytest.raises(prograd.DataError) as caught:
        encoded({"when": ["2026/04/03"]})
    assert (
        str(caught.value) == "row 0 of 'when' is '2026/04/03', which is not a date like 23.11.2026; "
        "write it so, or pack with date_format="
    )


def test_one_hot_classes_are_joined_with_numbers_and_dates():
    table = {"city": ["Rome", "Oslo", "Rome"], "age": [1.0, 2.0, 3.0], "when": ["2026-01-01"] * 3}
    packed(table, one_hot=["city"], date={"when": ["month", "year"]}, join={"x": ["city", "age", "when"]})
    wanted = [[1, 0, 7, 5, 2025], [0, 1, 8, 6, 2024]]
    found = encoded({"city": ["Oslo", "Rome"], "age": [7, 8], "when": ["2025-05-01", "2024-06-30"]})["x"]
    assert found.tolist() == wanted


def test_logarithms_are_of_one_more_and_come_back():
    packed({"pay": [0.0, 1.0, 99.0]}, log=["pay"], standardise=["pay"])
    trained = [math.log(1 + number) for number in (0, 1, 99)]
    found = encoded({"pay": [9.0]})["pay"]
    assert found[0] == pytest.approx((math.log(10) - np.mean(trained)) / np.std(trained), rel=1e-6)
    assert prograd.data.decode(found, "pay", "rows.safetensors")[0] == pytest.approx(9, rel=1e-5)
    with pytest.raises(prograd.DataError) as caught:
        encoded({"pay": [3.0, -1.0]})
    assert str(caught.value) == "row 1 of 'pay' is -1, and log(1 + x) takes numbers above -1; leave out log=['pay']"


def test_quantiles_are_shares_of_the_training_rows():
    rng = np.random.default_rng(0)
    numbers = rng.exponential(size=500).round(2)
    packed({"pay": numbers}, quantile=["pay"], split={"train": 0.6}, by="time", of="pay")
    trained = np.sort(numbers)[:300]
    for number, share in zip([0.2, 0.4, 99, -1], encoded({"pay": [0.2, 0.4, 99.0, -1.0]})["pay"], strict=True):
        below, upto = np.mean(trained < number), np.mean(trained <= number)
        assert below - 0.01 <= share <= upto + 0.01
    inner = np.linspace(trained[10], trained[-10], 20)
    back = prograd.data.decode(encoded({"pay": inner})["pay"], "pay", "rows.safetensors")
    np.testing.assert_allclose(back, inner, atol=0.02)


def test_decimal_commas_are_read_at_training_and_at_prediction():
    Path("t.csv").write_text("pay;name\n1,5;a\n-2,25;b\n3;a\n")
    assert compiler_main(["data", "pack", "t.csv", "-o", "rows.safetensors", "--decimal", ","]) == 0
    assert encoded({"pay": ["1,25", "7"], "name": ["a", "b"]})["pay"].tolist() == [1.25, 7]
    assert encoded({"pay": [1.25], "name": ["a"]})["pay"].tolist() == [1.25]
    with pytest.raises(prograd.DataError) as caught:
        encoded({"pay": ["1.25"], "name": ["a"]})
    assert str(caught.value) == "row 0 of 'pay' is '1.25'; its numbers have decimal commas and no points"


def test_compressed_tables_and_json_lines_are_packed_like_the_same_csv(capsys):
    rows = [{"age": 31, "city": "Rome"}, {"age": 52.5, "city": "Oslo"}, {"city": "Rome", "age": 7}]
    Path("a.csv").write_text("age,city\n31,Rome\n52.5,Oslo\n7,Rome\n")
    Path("b.csv.gz").write_bytes(gzip.compress(Path("a.csv").read_bytes()))
    Path("c.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("d.jsonl.gz").write_bytes(gzip.compress(Path("c.jsonl").read_bytes()))
    for source in ("a.csv", "b.csv.gz", "c.jsonl", "d.jsonl.gz"):
        prograd.data.pack(source, f"{source[0]}.safetensors")
        assert Path(f"{source[0]}.safetensors").read_bytes() == Path("a.safetensors").read_bytes()
    Path("e.csv.gz").write_bytes(gzip.compress(b"age\n1\n")[:-6])
    with pytest.raises(prograd.DataError) as caught:
        prograd.data.pack("e.csv.gz", "e.safetensors")
    assert str(caught.value).startswith("e.csv.gz: this is no whole file of gzip: ")
    Path("f.jsonl").write_text('{"age": 1}\n[1]\n')
    with pytest.raises(prograd.DataError) as caught:
        prograd.data.pack("f.jsonl", "f.safetensors")
    assert str(caught.value) == 'f.jsonl: line 2 is of type list; each line is an object, as in {"age": 31}'


def test_windows_of_a_text_overlap_by_a_stride():
    Path("t.txt").write_bytes(b"abcdefghij")
    prograd.data.pack("t.txt", "t.safetensors", window=4, stride=3)
    from safetensors.numpy import load_file

    assert [bytes(row) for row in load_file("t.safetensors")["text"]] == [b"abcd", b"defg", b"ghij"]


def test_subwords_are_those_of_the_tokenizer_and_come_back():
    pytest.importorskip("tokenizers")
    texts = ["low lower lowest", "new newer newest", "wide wider widest"] * 20
    packed({"text": texts, "n": list(range(60))}, bpe={"text": 12}, vocabulary=300, split={"train": 0.5})
    found = encoded({"text": ["newest lower", "日"], "n": [0, 0]})["text"]
    assert (found.shape, found.dtype) == ((2, 12), np.int64)
    assert np.count_nonzero(found[0]) < len("newest lower")
    assert prograd.data.decode(found, "text", "rows.safetensors").tolist() == ["newest lower", "日"]


def test_subwords_are_no_fewer_than_the_bytes():
    pytest.importorskip("tokenizers")
    with pytest.raises(prograd.UsageError) as caught:
        packed({"text": ["a b", "b a"] * 30, "n": list(range(60))}, bpe={"text": 12}, vocabulary=200)
    assert str(caught.value) == "vocabulary 200: byte-pair encoding begins with 256 bytes, so say 256 or more"


def test_hashed_words_need_no_vocabulary_and_count_as_they_occur():
    texts = ["The cat, the hat", "Ünï x", ""]
    packed({"text": texts, "n": [0, 1, 2]}, hash={"text": 1000})
    found = encoded({"text": ["the THE hat", "never seen before"], "n": [0, 0]})["text"]
    assert [len(row) for row in found] == [3, 3]
    wanted = [zlib.crc32(word.encode()) % 999 + 1 for word in ("the", "the", "hat")]
    assert found[0].tolist() == wanted
    assert found[1].min() >= 1
    assert found[1].max() < 1000
    with pytest.raises(DataError) as caught:
        prograd.data.decode(found[0], "text", "rows.safetensors")
    assert str(caught.value).endswith("the words of 'text' are hashed, and a hash has no word")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"text": 1}, "pack: hash={'text': 1}: give it as hash={\"review\": 65536}"),
        ({"text": 1 << 40}, "hash: words of 'text' have 1099511627776 hashes; at most 2147483648 are supported"),
    ],
)
def test_hashes_that_cannot_be_are_refused(given, sentence):
    with pytest.raises(Exception, match="hash") as caught:
        packed({"text": ["a", "b"], "n": [1, 2]}, hash=given)
    assert str(caught.value) == sentence


SERIES = {"load": (np.sin(np.arange(150) / 4) * 20 + 100).round(3).tolist(), "hour": [i % 24 for i in range(150)]}


def forecast(engine: str) -> prograd.Run:
    packed(SERIES, window=16, target="load", standardise=["load", "hour"], join={"x": ["load", "hour"]},
           split={"train": 0.7, "test": 0.3})  # fmt: skip
    program = Program("load", seed=1)
    x, wanted = program.input("x", "float32", ("batch", 16, 2)), program.input("load_next", "float32", ("batch",))
    hidden = ops.relu(layers.dense(x[:, :, 0], "hidden", 64))
    guess = layers.dense(hidden, "out", 1)[:, 0]
    program.minimize(ops.squared_error(guess, wanted), adam(0.01))
    program.outputs(guess=guess)
    program.data("rows.safetensors", splits={"train": "train", "test": "test"}, shuffle=True, remainder="drop")
    program.training(epochs=40, evaluate="test", keep_best="loss", stop_after=10)
    program.compile(batch=32).save("p.pb", force=True)
    run = prograd.load("p.pb", engine=engine)
    run.train(progress=False)
    run.save("t.safetensors", force=True)
    return run


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_windows_of_a_series_predict_its_next_value(engine: str, monkeypatch: pytest.MonkeyPatch):
    run = forecast(engine)
    found = run.predict(SERIES, raw=True)
    assert len(found["load_next"]) == 150 - 15  # the last window ends with the last row
    np.testing.assert_allclose(found["load_next"][:-1], SERIES["load"][16:], atol=6)
    Path("new.csv").write_text("load,hour\n" + "".join(f"{a},{b}\n" for a, b in zip(*SERIES.values(), strict=True)))
    predict = ["execute", "p.pb", "--entry", "predict", "--load", "t.safetensors", "--data", "new.csv", "--force", "-q"]
    for size in (1 << 21, 200):  # one piece, and many
        monkeypatch.setattr("runtime.rows.tables.csv_pieces.PIECE_CHARACTERS", size)
        assert main([*predict, "--out", "out.csv", "--engine", engine]) == 0
        lines = Path("out.csv").read_text().splitlines()
        assert lines[0].split(",")[:2] == ["row", "load_next"]
        assert [int(line.split(",")[0]) for line in lines[1:]] == list(range(15, 150))
        got = [float(line.split(",")[1]) for line in lines[1:]]
        np.testing.assert_allclose(got, found["load_next"], rtol=1e-4)
    with pytest.raises(prograd.DataError) as caught:
        run.predict({name: values[:9] for name, values in SERIES.items()}, raw=True)
    assert str(caught.value) == "a window takes 16 rows, and the table has 9; give more rows"


def test_targets_of_a_later_split_come_after_all_rows_of_the_first():
    numbers = [float(i) for i in range(40)]
    packed({"v": numbers}, window=5, target="v", ahead=3, stride=2, split={"train": 0.5, "test": 0.5})
    from safetensors.numpy import load_file

    rows = load_file("rows.safetensors")
    assert rows["v"].shape == (17, 5)
    np.testing.assert_array_equal(rows["v_next"], rows["v"][:, -1] + 3)
    assert rows["v_next"][rows["test"]].min() > max(rows["v"][rows["train"]].max(), rows["v_next"][rows["train"]].max())


def test_a_damaged_encoding_in_a_program_is_one_sentence(capsys):
    forecast("reference")
    for old, new, said in (
        ('"length":16', '"length":0', "windows are not as they were written"),
        ('"kind":"number"', '"kind":"date"', "the column 'load' of the kind 'date' has 'mean', which it cannot have"),
        ('"target":"load"', '"target":"x"', "its windows have a target or a known column that it has not"),
    ):
        program = prograd.load("p.pb").program
        assert old in program.data.encoding
        program.data.encoding = program.data.encoding.replace(old, new)
        save(program, "bad.pb", force=True)
        Path("new.csv").write_text("load,hour\n1,1\n")
        capsys.readouterr()
        assert main(["execute", "bad.pb", "--entry", "predict", "--data", "new.csv", "--out", "o.csv", "-q"]) == 3
        said = f"program 'load': the encoding of its columns is damaged: {said}"
        assert capsys.readouterr().err == f"runtime: {said}\n"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"date": {"when": ["weeks"]}}, "date: a date has no part 'weeks'; did you mean 'weekday'?"),
        ({"one_hot": ["town"]}, "one_hot: there is no column 'town'; there are when, pay"),
        ({"decimal": ";"}, "pack: decimal=';': give it as decimal=\",\""),
({"stride": 2}, "stride: how far windows lie apart says nothing without them; give window too"),
    ],
)  # fmt: skip
def test_options_that_do_not_fit_are_one_sentence(options: dict[str, object], said: str):
    Path("new.csv").write_text("when,pay\n2026-01-01,3\n")
    with pytest.raises(prograd.UsageError) as caught:
        prograd.data.pack("new.csv", "o.safetensors", **options)
    assert str(caught.value) == said


RHYME = "the cat sat on the mat and the dog sat on the log. " * 40


def test_windows_of_subwords_overlap_by_the_stride_and_come_back(here: Path):
    pytest.importorskip("tokenizers", reason="subwords are an extra")
    Path("rhyme.txt").write_text(RHYME)
    words = ["--bpe", "text", "--window", "16", "--stride", "4", "--vocabulary", "300", "--split", "train=0.9"]
    assert compiler_main(["data", "pack", "rhyme.txt", "-o", "rows.safetensors", *words]) == 0
    rows = load_file("rows.safetensors")["text"]
    assert rows.dtype == np.int64
    assert np.array_equal(rows[:-1, 4:], rows[1:, :-4])
    texts = prograd.data.decode(rows, "text", "rows.safetensors").tolist()
    assert all(text in RHYME for text in texts)
    assert RHYME.startswith(texts[0])
    assert len(texts[0]) > 32, "a subword is longer than a byte"
    new = encoded({"text": ["the cat sat"]})["text"]
    assert new.shape == (1, 16)
    assert prograd.data.decode(new, "text", "rows.safetensors").tolist() == ["the cat sat"]
    prograd.data.pack("rhyme.txt", "apart.safetensors", bpe=["text"], window=16, vocabulary=300)
    assert np.array_equal(load_file("apart.safetensors")["text"][:5], rows[:20:4])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"bpe": {"text": 8}, "window": 2}, "bpe: a window has 2 subwords, so leave out the length of 'text'"),
        ({"bpe": ["txt"], "window": 2}, "bpe: there is no column 'txt'; did you mean 'text'?"),
        ({"bpe": ["text"], "window": 400}, "rhyme.txt: the file has 3 subwords, a row takes 400"),
    ],
)
def test_windows_of_subwords_that_cannot_be_are_refused(here: Path, options: dict[str, object], said: str):
    pytest.importorskip("tokenizers", reason="subwords are an extra")
    Path("rhyme.txt").write_text("cat")
    with pytest.raises((prograd.DataError, prograd.UsageError)) as caught:
        prograd.data.pack("rhyme.txt", "rows.safetensors", **options)
    assert str(caught.value) == said
