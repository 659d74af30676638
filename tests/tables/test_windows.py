"""Windows of several series, of dates that fall and of tables with gaps: no window joins rows that do not follow."""

import logging
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from safetensors.numpy import load_file
from subjects.commands import told

import prograd
from prograd import DataError, Program, UsageError, ops
from runtime.__main__ import main

pytestmark = pytest.mark.usefixtures("here")

STORES = {
    "store": ["a"] * 5 + ["b"] * 7 + ["c"] * 2 + ["d"] * 6,
    "v": [*range(10, 15), *range(20, 27), *range(30, 32), *range(40, 46)],
}


def packed(table, **options):
    prograd.data.pack(table, "rows.safetensors", force=True, **options)
    return load_file("rows.safetensors")


def refused(table, kind=DataError, **options):
    with pytest.raises(kind) as caught:
        packed(table, **options)
    return str(caught.value)


def test_no_window_leaves_its_series():
    rows = packed(STORES, window=3, target="v", drop=["store"], by="group", of="store")
    assert rows["v"].tolist() == [
        [10, 11, 12], [11, 12, 13], [20, 21, 22], [21, 22, 23], [22, 23, 24], [23, 24, 25],
        [40, 41, 42], [41, 42, 43], [42, 43, 44],
    ]  # fmt: skip
    assert rows["v_next"].tolist() == [13, 14, 23, 24, 25, 26, 43, 44, 45]
    rows = packed(STORES, window=3, stride=2, drop=["store"], by="group", of="store")
    assert rows["v"][:, 0].tolist() == [10, 12, 20, 22, 24, 40, 42]


def test_a_series_is_in_one_split_as_a_whole():
    split = {"train": 0.5, "test": 0.5}
    rows = packed(STORES, window=3, target="v", standardise=["v"], by="group", of="store", split=split)
    train, test = (set(rows["store"][rows[name]].ravel().tolist()) for name in ("train", "test"))
    assert train | test == {0, 1, 3}  # the third is shorter than a window
    assert not train & test
    assert len(rows["train"]) + len(rows["test"]) == 9


def test_predictions_of_windows_are_those_of_their_last_rows(monkeypatch):
    packed(STORES, window=3, target="v", drop=["store"], by="group", of="store")
    program = Program("last", seed=1)
    v, wanted = program.input("v", "float32", ("batch", 3)), program.input("v_next", "float32", ("batch",))
    w = program.parameter("w", (), prograd.constant(1.0))
    program.minimize(ops.squared_error(v[:, 2] * w, wanted), prograd.sgd(0.0))
    program.outputs(last=v[:, 2] * w)
    program.data("rows.safetensors", shuffle=False, remainder="drop")
    program.training(epochs=1)
    program.compile(batch=3).save("p.pb")
    run = prograd.load("p.pb")
    run.train()
    run.save("s.safetensors")
    wanted = [12, 13, 14, 22, 23, 24, 25, 26, 42, 43, 44, 45]
    assert run.predict(STORES, raw=True)["last"].tolist() == wanted
    pd.DataFrame(STORES).to_csv("new.csv", index=False)
    for size in (1 << 21, 30, 12):
        monkeypatch.setattr("runtime.rows.tables.csv_pieces.PIECE_CHARACTERS", size)
        words = [
            "--entry",
            "predict",
            "--load",
            "s.safetensors",
            "--data",
            "new.csv",
            "--out",
            "o.csv",
            "--force",
            "-q",
        ]
        assert main(["execute", "p.pb", *words]) == 0
        out = pd.read_csv("o.csv")
        assert out["row"].tolist() == [2, 3, 4, 7, 8, 9, 10, 11, 16, 17, 18, 19]
        assert out["v_next"].tolist() == wanted
    with pytest.raises(DataError) as caught:
        run.predict({"store": ["a", "a", "b"], "v": [1, 2, 3]}, raw=True)
    assert str(caught.value) == "a window takes 3 rows, and no value of 'store' has as many; give more rows"
    assert told(DataError, lambda: run.predict({"v": [1, 2, 3]}, raw=True)) == "the rows have no column 'store'; add it"


def test_a_short_table_of_series_writes_no_predictions(capsys):
    with pytest.MonkeyPatch.context() as patch:
        test_predictions_of_windows_are_those_of_their_last_rows(patch)
    Path("short.csv").write_text("store,v\na,1\na,2\nb,3\n")
    words = ["--entry", "predict", "--load", "s.safetensors", "--data", "short.csv", "--out", "short.out.csv", "-q"]
    assert main(["execute", "p.pb", *words]) == 4
    assert capsys.readouterr().err == (
        "runtime: short.csv: a window takes 3 rows, and no value of 'store' has as many; give more rows\n"
    )
    assert not Path("short.out.csv").exists()


def test_a_series_that_begins_twice_is_refused():
    table = {"store": ["a", "a", "b", "b", "a", "a"], "v": [1, 2, 3, 4, 5, 6]}
    assert refused(table, window=2, by="group", of="store") == (
        "row 4 of 'store' is 'a' again, and the rows of a series follow each other; sort the table by 'store'"
    )
    assert refused(table, UsageError, window=2, by="stratified", of="store") == (
        "by=stratified: windows are split in the order of their rows, or by group, in series that no window leaves; "
        "leave it out"
    )


def test_times_that_fall_are_refused_and_other_dates_that_fall_are_said(caplog):
    table = {"d": ["2024-01-01", "2024-01-03", "2024-01-02", "2024-01-04"], "v": [1, 2, 3, 4]}
    assert refused(table, window=2, by="time", of="d", drop=["d"]) == (
        "row 2 of 'd' is before 'd' of the row above it, and windows take rows in their order; sort the table by 'd'"
    )
    caplog.set_level(logging.WARNING, "prograd")
    packed(table, window=2, date=["d"])
    wanted = "'d' falls from row 1 to the next, and windows take rows in their order; sort the table by 'd'"
    assert caplog.messages == [wanted]
    caplog.clear()
    prograd.data.encode(table, "rows.safetensors")
    assert caplog.messages == [wanted]
    caplog.clear()
    packed(table | {"g": ["a", "a", "b", "b"]}, window=2, date=["d"], by="group", of="g")
    assert caplog.messages == []


def test_rows_that_are_dropped_inside_a_table_are_refused():
    table = {"v": [None, 1.0, None, 3.0, 4.0, None]}
    assert refused(table, window=2, missing={"v": "drop"}) == (
        "row 2 of 'v' has no value, and without its row windows would join the rows around it; fill it in, or give "
        "'v' another replacement than drop"
    )
    assert packed({"v": [None, 1.0, 2.0, 3.0, None]}, window=2, missing={"v": "drop"})["v"].tolist() == [[1, 2], [2, 3]]


def test_columns_of_splits_and_series_have_single_values():
    odd = {"g": [{"a": 1}, {"a": 2}], "v": [1, 2]}
    wanted = "row 0 of 'g' is of type dict, which no row can be; leave the column out by drop=['g']"
    for by in ("group", "time", "stratified"):
        assert refused(odd, drop=["g"], by=by, of="g", split={"train": 0.5}) == wanted
    assert refused(odd, drop=["g"], by="group", of="g", window=2) == wanted
    packed({"g": ["a", "a"], "v": [1, 2]}, drop=["g"], by="group", of="g", window=2)
    lists = "'g' has lists, and tells series apart by single values"
    for values, sentence in ((odd["g"], wanted), ([[1], [1, 2]], lists)):
        with pytest.raises(DataError) as caught:
            prograd.data.encode({"g": values, "v": [1, 2]}, "rows.safetensors")
        assert str(caught.value) == sentence


def test_several_targets_stand_side_by_side_and_predictions_have_their_names():
    values = [float(v) for v in range(100, 130)]
    rows = packed({"v": values}, window=4, target="v", ahead=[5, 1, 2], standardise=["v"])
    assert rows["v_next"].shape == (22, 3)
    found = prograd.data.decode(rows["v_next"], "v_next", "rows.safetensors")
    assert found[:2].round(3).tolist() == [[104, 105, 108], [105, 106, 109]]
    program = Program("targets", seed=1)
    v, wanted = program.input("v", "float32", ("batch", 4)), program.input("v_next", "float32", ("batch", 3))
    guess = v[:, 3:] + program.parameter("w", (3,), prograd.constant(0.0))
    program.minimize(ops.mean((guess - wanted) ** 2), prograd.sgd(0.0))
    program.outputs(guess=guess)
    program.data("rows.safetensors")
    program.training(epochs=1)
    program.compile(batch=11).save("p.pb")
    run = prograd.load("p.pb")
    run.train()
    run.save("s.safetensors")
    found = run.predict({"v": [110.0, 111.0, 112.0, 113.0]}, raw=True)
    assert {name: float(array[0]) for name, array in found.items() if name != "guess"} == pytest.approx(
        dict.fromkeys(["v_next.1", "v_next.2", "v_next.5"], 113.0)
    )
    Path("new.csv").write_text("v\n" + "\n".join(map(str, values[:5])))
    words = ["--entry", "predict", "--load", "s.safetensors", "--data", "new.csv", "--out", "o.csv", "-q"]
    assert main(["execute", "p.pb", *words]) == 0
    out = pd.read_csv("o.csv")
    assert list(out.columns) == ["row", "v_next.1", "v_next.2", "v_next.5"]
    assert out["v_next.5"].tolist() == pytest.approx([103.0, 104.0])


def with_known_columns(**options: Any) -> prograd.Run:
    """A program whose prediction is what is known of the targets' rows, trained on two shops."""
    table = {
        "shop": ["a"] * 8 + ["b"] * 8,
        "v": [float(v) for v in range(16)],
        "open": [float(v % 3) for v in range(16)],
        "town": ["x", "y"] * 8,
    }
    rows = packed(table, window=3, target="v", known=["open", "town"], one_hot=["town"], **options)
    count = rows["open_next"][0].size
    program = Program("known", seed=1)
    v = program.input("v", "float32", ("batch", 3))
    wanted = program.input("v_next", "float32", ("batch", *rows["v_next"].shape[1:]))
    later = program.input("open_next", "float32", ("batch", *rows["open_next"].shape[1:]))
    town = program.input("town_next", "float32", ("batch", *rows["town_next"].shape[1:]))
    program.minimize(ops.mean((wanted - ops.sum(v)) ** 2) * program.parameter("w", ()), prograd.sgd(0.0))
    later = ops.reshape(later, shape=("batch", count))
    program.outputs(guess=later, last=v[:, 2], town=ops.sum(ops.reshape(town, shape=("batch", count, 2))[:, :, 1]))
    program.data("rows.safetensors", shuffle=False, remainder="drop")
    program.training(epochs=1)
    program.compile(batch=2).save("p.pb", force=True)
    run = prograd.load("p.pb")
    run.train()
    run.save("s.safetensors", force=True)
    return run


def test_known_columns_are_those_of_the_rows_of_the_targets():
    with_known_columns(drop=["shop"], ahead=[1, 2])
    rows = load_file("rows.safetensors")
    assert rows["open_next"][:3].tolist() == [[0, 1], [1, 2], [2, 0]]
    assert rows["v_next"][:2].tolist() == [[3, 4], [4, 5]]
    assert rows["town_next"][0].tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize("characters", [1 << 21, 40, 20])
def test_new_tables_end_with_rows_that_are_known_in_part(monkeypatch: pytest.MonkeyPatch, characters: int):
    monkeypatch.setattr("runtime.rows.tables.csv_pieces.PIECE_CHARACTERS", characters)
    run = with_known_columns(drop=["shop"], by="group", of="shop", ahead=[1, 2])
    shops = ["a"] * 6 + ["b"] * 5
    v = [1.0, 2.0, 3.0, 4.0, None, None, 7.0, 8.0, 9.0, None, None]
    opened = [0, 1, 2, 0, 1, 2, 2, 1, 0, 2, 1]
    lines = [f"{s},{'' if n is None else n},{o},x" for s, n, o in zip(shops, v, opened, strict=True)]
    Path("new.csv").write_text("\n".join(["shop,v,open,town", *lines]) + "\n")
    words = ["--entry", "predict", "--load", "s.safetensors", "--data", "new.csv", "--out", "o.csv", "-q", "--force"]
    assert main(["execute", "p.pb", *words]) == 0
    out = pd.read_csv("o.csv")
    assert out["row"].tolist() == [2, 3, 8]
    assert out["last"].tolist() == [3, 4, 9]
    assert out[["v_next.1", "v_next.2"]].to_numpy().tolist() == [[0, 1], [1, 2], [2, 1]]
    table = {"shop": shops, "v": v, "open": opened, "town": ["x"] * 11}
    assert run.predict(table, raw=True)["last"].tolist() == [3, 4, 9]
    with pytest.raises(DataError) as caught:
        run.predict(table | {"v": [None, *v[1:]]}, raw=True)
    assert str(caught.value).startswith("row 0 of 'v' has no value")
    assert told(DataError, lambda: run.predict({name: column[:4] for name, column in table.items()}, raw=True)) == (
        "a window takes 3 rows and what is known behind it 2 more, and no value of 'shop' has as many; give more rows"
    )


def test_what_cannot_be_known_is_refused():
    table = {"v": [1.0, 2, 3, 4], "w": [1.0, 2, 3, 4]}
    assert refused(table, UsageError, window=2, target="v", known=["v"]) == (
        "known: 'v' is the target of the windows, and no row knows it; leave it out"
    )
    assert refused(table, UsageError, known=["w"]) == (
        "known: what is known behind each window says nothing without them; give window too"
    )
    assert refused(table, UsageError, window=2, known=["x"]) == "known: there is no column 'x'; there are v, w"
    assert (
        refused(table, UsageError, window=2, target="v", ahead=[])
        == "pack: ahead=[]: give it as ahead=1, or ahead=[1, 24]"
    )
    assert refused(table, window=3, target="v", ahead=[1, 7]) == (
        "a window takes 3 rows and its target 7 more, and the table has 4; give more rows"
    )
