"""A run in C ends with the hash of `runtime execute`: order of rows, epochs, evaluations, best states, early end."""

# pyright: basic

import ctypes
from pathlib import Path

import numpy as np
import pytest
from ahead.hosts import Net, needs_cc
from safetensors.numpy import load_file, save_file

import prograd
from prograd import Program, adam, layers, metrics, ops, warmup_cosine

pytestmark = needs_cc
EXAMPLES = Path(__file__).parents[2] / "examples"
NO_ROWS, NOT_FINITE = 8, 10


class Rows(ctypes.Structure):
    """`prograd_rows`."""

    _fields_ = (("columns", ctypes.c_void_p), ("numbers", ctypes.c_void_p), ("count", ctypes.c_int64))


class Report(ctypes.Structure):
    """`prograd_report`."""

    _fields_ = (
        ("epoch", ctypes.c_int64),
        ("step", ctypes.c_int64),
        ("is_evaluation", ctypes.c_int),
        ("is_best", ctypes.c_int),
        ("metric", ctypes.c_char_p),
        ("value", ctypes.c_double),
    )


SAID = ctypes.CFUNCTYPE(None, ctypes.POINTER(Report), ctypes.c_void_p)


def rows_of(arrays, numbers):
    """Return rows of arrays in the order of feeds; the result keeps them alive."""
    columns = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
    numbers = np.ascontiguousarray(numbers, np.int64)
    rows = Rows(ctypes.cast(columns, ctypes.c_void_p), numbers.ctypes.data, len(numbers))
    rows.kept = columns, numbers, arrays
    return rows


def run_in_c(net, train, evaluate, epochs=0):
    """Make the run, and return its number and what it said."""
    heard = []

    def said(report, _):
        found = report.contents
        heard.append((found.epoch, bool(found.is_evaluation), found.metric.decode(), found.value))

    library = net._library
    library.prograd_run_bytes.restype = ctypes.c_int64
    room = ctypes.create_string_buffer(library.prograd_run_bytes(net.self, ctypes.byref(train)))
    library.prograd_run.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_int64] + [ctypes.c_void_p] * 3
    called = SAID(said)
    code = library.prograd_run(
        net.self,
        ctypes.addressof(train),
        None if evaluate is None else ctypes.addressof(evaluate),
        epochs,
        ctypes.addressof(room),
        ctypes.cast(called, ctypes.c_void_p),
        None,
    )
    return code, heard


def assert_same_run(path, folder, epochs=0, engine="avx2"):
    """Make the run of a program in C and in Python, and compare hashes and metrics."""
    net = Net(path, folder, "--cpu", engine)
    run = prograd.load(path, engine=f"native.{engine}", threads=1)
    result = run.train(**({"epochs": epochs} if epochs else {}))
    data = load_file(path.parent / run.program.data.file)
    keys = {column.feed: column.key for column in run.program.data.columns}
    feeds = [data[keys.get(name, name)] for name in run.entries["train"].feeds]
    split = {split.name: split.key for split in run.program.data.splits}
    evaluates = run.program.run.HasField("evaluate")
    evaluate = rows_of(feeds, data[split["test"]]) if evaluates else None
    code, heard = run_in_c(net, rows_of(feeds, data[split["train"]]), evaluate, epochs)
    assert code == 0, net.error
    assert net.sha256() == run.states.sha256()
    return result, heard


def test_the_digits_end_with_the_hash_of_python(tmp_path):
    result, heard = assert_same_run(EXAMPLES / "digits_mlp.pb", tmp_path / "out", epochs=3)
    losses = [value for _, is_evaluation, name, value in heard if name == "loss" and not is_evaluation]
    assert losses == result.history["loss"]


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["avx2", "sse2"])
def test_the_whole_run_of_the_convolutional_digits_ends_with_the_hash_of_python(tmp_path, engine):
    assert_same_run(EXAMPLES / "digits_cnn.pb", tmp_path / "out", engine=engine)


def classifier(folder, *, rows=210, remainder="partial", **training):
    """Write a program with rows of its own, of which the last step has fewer."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 12)).astype(np.float32)
    label = (x[:, 0] + 0.5 * rng.standard_normal(300) > 0).astype(np.int64)
    data = {"x": x, "label": label, "train": np.arange(rows), "test": np.arange(rows, 300)}
    save_file(data, folder / "rows.safetensors")
    program = Program("classifier", seed=9)
    x, label = program.input("x", "float32", ("batch", 12)), program.input("label", "int64", ("batch",))
    logits = layers.dense(ops.dropout(ops.relu(layers.dense(x, "first", 24)), ratio=0.2), "second", 2)
    program.minimize(ops.softmax_cross_entropy(logits, label), adam(rate=warmup_cosine(0.05)))
    program.metrics(accuracy=metrics.accuracy(logits, label))
    program.data("rows.safetensors", splits={"train": "train", "test": "test"}, shuffle=True, remainder=remainder)
    program.training(split="train", **training)
    program.compile(batch=32, folder=folder).save(folder / "classifier.pb")
    return folder / "classifier.pb"


@pytest.mark.thorough
def test_a_last_step_of_fewer_rows_counts_by_its_rows(tmp_path):
    assert_same_run(classifier(tmp_path, epochs=4), tmp_path / "out")


@pytest.mark.thorough
def test_rows_that_are_left_out_are_those_of_python(tmp_path):
    path = classifier(tmp_path, epochs=4, remainder="drop", evaluate="test")
    assert_same_run(path, tmp_path / "out")


def test_the_best_states_are_restored(tmp_path):
    path = classifier(tmp_path, epochs=12, evaluate="test", keep_best="accuracy")
    _, heard = assert_same_run(path, tmp_path / "out")
    assert len({epoch for epoch, *_ in heard}) == 12


@pytest.mark.thorough
def test_a_run_that_improves_no_longer_ends_early(tmp_path):
    path = classifier(tmp_path, epochs=40, evaluate="test", keep_best="loss", stop_after=2)
    _, heard = assert_same_run(path, tmp_path / "out")
    assert 2 < len({epoch for epoch, *_ in heard}) < 40


def test_a_run_that_no_library_makes_says_why(tmp_path):
    path = classifier(tmp_path, epochs=4)
    net = Net(path, tmp_path / "out", "--cpu", "avx2")
    data = load_file(tmp_path / "rows.safetensors")
    feeds = [data["x"], data["label"]]
    code, _ = run_in_c(net, rows_of(feeds, np.arange(40)), None)
    assert (code, net.error) == (NO_ROWS, "the rows to train on do not fill the steps of an epoch")
    feeds[0][7] = np.nan
    code, _ = run_in_c(net, rows_of(feeds, np.arange(210)), None)
    assert (code, net.error) == (NOT_FINITE, "loss is NaN or Inf; a lower learning rate or clipping may help")
    windows = prograd.Program.load(path)
    windows.data("rows.safetensors", splits={"train": "train"}, shuffle=64, remainder="drop")
    windows.compile(batch=32, folder=tmp_path).save(tmp_path / "windows.pb")
    net = Net(tmp_path / "windows.pb", tmp_path / "windows", "--cpu", "avx2")
    code, _ = run_in_c(net, rows_of(feeds, np.arange(210)), None)
    assert (code, net.error) == (
        NO_ROWS,
        "the program shuffles rows within windows, which prograd_run does not",
    )
