"""Rows that stay in their files: the same bits as from memory, from any number of files, resumed anywhere."""

import os
from pathlib import Path
from threading import enumerate as enumerate_threads

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.philox import scalar_words
from safetensors.numpy import save_file
from subjects.commands import told
from subjects.small_programs import BATCH, TRAIN, arrays, linear, save, write_data

import runtime
from compiler import Program, ops
from runtime.__main__ import main
from runtime.errors import DataError
from runtime.files.held_file import HeldFile, OpenFiles
from runtime.rows import data_files, fingerprint
from runtime.rows.orders import Span
from runtime.rows.rows import Rows
from runtime.rows.stored_column import Part, StoredColumn, rows_of


@pytest.fixture
def stored(monkeypatch):
    """Nothing is read into memory."""
    monkeypatch.setattr(data_files, "IN_MEMORY", 0)


def refused(action, folder: Path) -> str:
    with pytest.raises(DataError) as caught:
        action()
    return str(caught.value).replace(f"{folder}/", "")


def trained(path: Path, **options) -> str:
    run = runtime.load(path, **options)
    list(run.events())
    return run.states.sha256()


def with_data(folder: Path, file: str = "rows.safetensors", **options) -> Path:
    """The program, saved beside its rows."""
    program = linear()
    program.data(file, splits={"train": "train", "test": slice(TRAIN, None)}, **options)
    program.training(epochs=3, evaluate="test", keep_best="loss", best="min")
    program.compile(batch=BATCH, folder=folder).save(folder / "p.pb", force=True)
    return folder / "p.pb"


def cut(folder: Path, places: list[int]) -> None:
    """Several files with the rows of `arrays`, in which row numbers count the rows of their file."""
    content = arrays()
    for number, (start, stop) in enumerate(zip([0, *places], [*places, len(content["x"])], strict=True)):
        train = content["train"][(content["train"] >= start) & (content["train"] < stop)] - start
        part = {"x": content["x"][start:stop].copy(), "y": content["y"][start:stop].copy(), "train": train}
        save_file(part, folder / f"part-{number}.safetensors")


@pytest.mark.parametrize("shuffle", [False, True, 8, 64, 1000])
def test_rows_in_files_train_to_the_bits_of_rows_in_memory(tmp_path, monkeypatch, shuffle):
    write_data(tmp_path)
    path = with_data(tmp_path, shuffle=shuffle)
    from_memory = trained(path)
    monkeypatch.setattr(data_files, "IN_MEMORY", 0)
    rows = runtime.load(path).session.rows("train", "train")
    assert set(rows.stored) == {"x", "y"}
    assert trained(path) == from_memory


@pytest.mark.sampled(3)
@pytest.mark.parametrize("places", [[20], [5, 5, 40], list(range(1, 43))])
@pytest.mark.parametrize("held", [False, True])
def test_several_files_train_to_the_bits_of_one(tmp_path, monkeypatch, places, held):
    write_data(tmp_path)
    wanted = trained(with_data(tmp_path, shuffle=16))
    cut(tmp_path, places)
    if held:
        monkeypatch.setattr(data_files, "IN_MEMORY", 0)
    # more than ten files have names whose order is not that of their numbers
    for number in reversed(range(len(places) + 1)):
        os.rename(tmp_path / f"part-{number}.safetensors", tmp_path / f"part-{number:02}.safetensors")
    path = with_data(tmp_path, "part-*.safetensors", shuffle=16)
    assert trained(path) == wanted
    assert trained(path, data=tmp_path / "part-*.safetensors") == wanted


@pytest.mark.parametrize("stop", [1, 6, 7, 9, 20])
def test_a_run_over_files_goes_on_where_it_stopped(tmp_path, stored, stop):
    write_data(tmp_path)
    path = with_data(tmp_path, shuffle=8)
    wanted = trained(path)
    run = runtime.load(path)
    events = run.events()
    while run.position.steps < stop:
        next(events)
    events.close()
    run.save(tmp_path / "s.safetensors")
    other = runtime.load(path)
    other.resume(tmp_path / "s.safetensors")
    list(other.events())
    assert other.states.sha256() == wanted


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_every_selection_of_rows_is_read_as_it_is_in_memory(tmp_path_factory, data):
    lengths = data.draw(st.lists(st.integers(0, 7), min_size=1, max_size=5).filter(sum))
    total = sum(lengths)
    whole = np.random.default_rng(total).integers(0, 99, (total, 3)).astype(np.int32)
    folder = tmp_path_factory.mktemp("parts")
    parts, start, files = [], 0, OpenFiles()
    for number, length in enumerate(lengths):
        path = folder / f"{number}"
        path.write_bytes(b"head" + whole[start : start + length].tobytes())
        parts.append(Part(HeldFile(path, path.stat(), files), 4, length))
        start += length
    numbers = data.draw(st.lists(st.integers(0, total - 1), max_size=12))
    if data.draw(st.booleans()):
        numbers = list(range(min(numbers, default=0), max(numbers, default=0)))
    column = StoredColumn("x", parts, whole.dtype, (3,))
    np.testing.assert_array_equal(rows_of(column, np.array(numbers, np.int64)), whole[numbers])


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 700), st.integers(1, 400), st.integers(0, 3), st.data())
def test_every_row_comes_once_an_epoch_and_stands_where_it_stands(count, window, epoch, data):
    rows = Rows({"x": np.arange(3, 3 + 2 * count)}, {}, Span(3, count, 2)).shuffled(1, epoch, window)
    numbers = rows.numbers
    assert sorted(numbers) == list(range(3, 3 + 2 * count, 2))
    start = data.draw(st.integers(0, count - 1))
    length = data.draw(st.integers(0, count - start))
    np.testing.assert_array_equal(rows.order.numbers(start, length), numbers[start : start + length])


def test_windows_are_shuffled_otherwise_each_epoch_and_as_the_format_says():
    def keys(epoch: int, count: int) -> list[int]:
        w = scalar_words(2 * count, seed=7, stream=0xFFFFFFFF, step=epoch)
        return [(w[2 * i] << 32) + w[2 * i + 1] for i in range(count)]

    rows, block = 517, 3  # of windows of 200 rows
    for epoch in range(2):
        number = -(-rows // block)
        blocks = sorted(range(number), key=keys(epoch, number).__getitem__)
        wanted: list[int] = []
        for window in range(-(-number // 64)):
            inside = [r for b in blocks[64 * window : 64 * window + 64] for r in range(b * 3, min(b * 3 + 3, rows))]
            place = keys(epoch + ((window + 1) << 32), len(inside))
            wanted += [inside[i] for i in sorted(range(len(inside)), key=place.__getitem__)]
        found = Rows({}, {}, Span(0, rows)).shuffled(7, epoch, 200)
        assert found.numbers.tolist() == wanted


def test_rows_of_a_file_that_is_changed_during_a_run_are_refused(tmp_path, stored):
    file = write_data(tmp_path)
    run = runtime.load(with_data(tmp_path))
    events = run.events()
    next(events)
    os.utime(file, ns=(1, 1))
    sentence = "rows.safetensors: the file was changed while its rows are read; leave it as it is during a run"
    assert refused(lambda: list(events), tmp_path) == sentence
    run = runtime.load(with_data(tmp_path))
    events = run.events()
    next(events)
    os.truncate(file, 100)
    assert refused(lambda: list(events), tmp_path) == sentence


def test_another_file_than_the_programs_is_refused_before_the_first_step(tmp_path, stored):
    file = write_data(tmp_path)
    path = with_data(tmp_path)
    raw = bytearray(file.read_bytes())
    raw[-1] ^= 1
    file.write_bytes(raw)
    assert refused(lambda: trained(path), tmp_path).startswith("rows.safetensors: the file's SHA-256 is ")


def test_a_bool_in_a_file_that_is_none_is_refused(tmp_path, stored):
    program = Program("flags")
    flag = program.input("flag", "bool", ("batch",))
    program.outputs(y=ops.cast(flag, dtype="float32"))
    save_file({"flag": np.ones(4, bool)}, tmp_path / "rows.safetensors")
    raw = bytearray((tmp_path / "rows.safetensors").read_bytes())
    raw[-1] = 2
    (tmp_path / "rows.safetensors").write_bytes(raw)
    program.data("rows.safetensors", shuffle=False, remainder="drop")
    program.compile(batch=1).save(tmp_path / "p.pb")
    run = runtime.load(tmp_path / "p.pb")
    rows = run.session.rows("predict", None)
    found = refused(lambda: rows.fill({"flag": np.zeros(4, bool)}, 0), tmp_path)
    assert found == "rows.safetensors: 'flag' has a bool that is neither 0 nor 1"


@pytest.mark.parametrize("held", [False, True])
def test_float64_rows_feed_float32_and_that_is_said_once(tmp_path, monkeypatch, caplog, held):
    caplog.set_level("INFO", "prograd")
    write_data(tmp_path)
    wanted = trained(with_data(tmp_path, remainder="partial"))
    write_data(tmp_path, x=arrays()["x"].astype(np.float64))
    if held:
        monkeypatch.setattr(data_files, "IN_MEMORY", 0)
    assert trained(with_data(tmp_path, remainder="partial")) == wanted
    said = [text.replace(f"{tmp_path}/", "") for text in caplog.messages]
    assert said == ["rows.safetensors: 'x' is float64 and is rounded to float32, which the feed takes"]


@pytest.mark.parametrize("held", [False, True])
def test_a_number_that_float32_does_not_hold_is_named_with_its_row(tmp_path, monkeypatch, held):
    x = arrays()["x"].astype(np.float64)
    x[2, 1] = 1e300
    write_data(tmp_path, x=x)
    if held:
        monkeypatch.setattr(data_files, "IN_MEMORY", 0)
    found = refused(lambda: trained(with_data(tmp_path)), tmp_path)
    assert found == "row 2 of 'x' has 1e+300, which float32 does not hold"


def test_files_that_differ_are_refused(tmp_path):
    cut(tmp_path, [20])
    path = with_data(tmp_path, "part-*.safetensors")
    for change, sentence in (
        ({"x": np.zeros((3, 2), np.float32)}, "'x' is float32[3, 2], and float32[20, 3] in part-0.safetensors"),
        ({"x": np.zeros((3, 3), np.int32)}, "'x' is int32[3, 3], and float32[20, 3] in part-0.safetensors"),
    ):
        rest = {"y": np.zeros(3, np.float32), "train": np.arange(3)}
        save_file(rest | change, tmp_path / "part-1.safetensors")
        found = refused(lambda: trained(path, data=tmp_path / "part-*.safetensors"), tmp_path)
        assert found == f"part-1.safetensors: {sentence}"
    save_file({"x": np.zeros((3, 3), np.float32)}, tmp_path / "part-1.safetensors")
    found = refused(lambda: trained(path, data=tmp_path / "part-*.safetensors"), tmp_path)
    assert found == "part-1.safetensors: there is no key 'y' in the file; there are x"


def test_a_row_number_counts_the_rows_of_its_file(tmp_path, stored):
    cut(tmp_path, [20])
    content = {"x": np.zeros((3, 3), np.float32), "y": np.zeros(3, np.float32), "train": np.array([3])}
    save_file(content, tmp_path / "part-1.safetensors")
    found = refused(lambda: trained(with_data(tmp_path, "part-*.safetensors")), tmp_path)
    assert found == "part-*.safetensors: the split 'train' has row 3, there are 3 rows"


def test_a_pattern_without_files_is_one_sentence(tmp_path):
    from compiler import CompileError

    assert told(CompileError, lambda: with_data(tmp_path, "part-*.safetensors")).replace(f"{tmp_path}/", "") == (
        "part-*.safetensors: no such file; the program reads it, so it must lie beside the program; "
        "prograd.data.write and compiler data pack make files of rows"
    )
    path = save(linear(), tmp_path)
    found = refused(lambda: trained(path, data=tmp_path / "none-*.safetensors"), tmp_path)
    assert found == "none-*.safetensors: no such file"


def test_where_memory_is_short_rows_stay_in_their_file(tmp_path):
    write_data(tmp_path, x=np.zeros((43, 3), np.float32), y=np.zeros(43, np.float32))
    path = with_data(tmp_path, shuffle=8)
    assert not runtime.load(path, max_memory=4000).session.rows("train", "train").stored
    assert runtime.load(path, max_memory=1500).session.rows("train", "train").stored


def test_a_window_that_does_not_fit_is_refused(tmp_path, stored):
    write_data(tmp_path)
    run = runtime.load(with_data(tmp_path, shuffle=1000), max_memory=900)
    with pytest.raises(runtime.ResourceLimit, match="with a window of 31 rows the run needs"):
        list(run.events())


def test_rows_are_read_ahead_on_a_thread_that_ends_with_the_run(tmp_path, stored):
    write_data(tmp_path)
    run = runtime.load(with_data(tmp_path, shuffle=8))
    events = run.events()
    next(events)
    assert [thread.name for thread in enumerate_threads()].count("prograd rows") == 1
    events.close()
    assert "prograd rows" not in [thread.name for thread in enumerate_threads()]
    list(run.events())
    assert "prograd rows" not in [thread.name for thread in enumerate_threads()]


def test_what_fails_while_rows_are_read_ahead_is_raised_where_they_are_needed(tmp_path, stored, monkeypatch):
    monkeypatch.setattr(fingerprint, "MAX_WHOLE_BYTES", 0)  # nothing is read before,
    monkeypatch.setattr(fingerprint, "SAMPLED_BLOCKS", 2)  # but the first row and the last
    x = arrays()["x"].astype(np.float64)
    x[9, 1] = 1e300
    write_data(tmp_path, x=x)
    run = runtime.load(with_data(tmp_path, shuffle=False))
    events = run.events()
    next(events), next(events)
    assert refused(lambda: next(events), tmp_path) == "row 9 of 'x' has 1e+300, which float32 does not hold"


def test_several_files_in_place_of_the_programs_are_recorded_and_replayed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    save(linear(), tmp_path)
    cut(tmp_path, [20])
    with_data(tmp_path, "part-*.safetensors")
    command = ["p.pb", "-q", "--data", "part-*.safetensors"]
    assert main(["execute", *command, "--epochs", "1", "--record", "r.json"]) == 0
    assert main(["replay", *command, "--record", "r.json"]) == 0
    cut(tmp_path, [21])
    capsys.readouterr()
    assert main(["replay", *command, "--record", "r.json"]) != 0
    assert "part-*.safetensors" in capsys.readouterr().err
