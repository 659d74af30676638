"""Whole runs in C by ctypes: rows, reports and checkpoints as structures, and a program that has a run."""

# pyright: basic

import ctypes

import numpy as np
from safetensors.numpy import load_file, save_file

from prograd import Program, adam, layers, metrics, ops, warmup_cosine


class Rows(ctypes.Structure):
    """`prograd_rows`."""

    _fields_ = (
        ("columns", ctypes.c_void_p),
        ("numbers", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("offsets", ctypes.c_void_p),
        ("padding", ctypes.c_void_p),
        ("total", ctypes.c_int64),
    )


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


heard_by = []
"""Functions that are called with each report."""

SAID = ctypes.CFUNCTYPE(None, ctypes.POINTER(Report), ctypes.c_void_p)


def rows_of(arrays, numbers, offsets=None, padding=None):
    """Return rows of arrays in the order of feeds; the result keeps them alive.

    `offsets` and `padding` have an array for each feed, or None.
    """
    columns = pointers(arrays)
    numbers = np.ascontiguousarray(numbers, np.int64)
    rows = Rows(ctypes.cast(columns, ctypes.c_void_p), numbers.ctypes.data, len(numbers))
    rows.kept = columns, numbers, arrays, offsets, padding
    if offsets is not None:
        tables = pointers(offsets), pointers(padding or [None] * len(arrays))
        rows.offsets, rows.padding = (ctypes.cast(table, ctypes.c_void_p) for table in tables)
        rows.total = max(len(each) - 1 for each in offsets if each is not None)
        rows.tables = tables
    return rows


def pointers(arrays):
    """Return an array of pointers to arrays, or NULL for None."""
    return (ctypes.c_void_p * len(arrays))(*(None if array is None else array.ctypes.data for array in arrays))


class Checkpoints(ctypes.Structure):
    """`prograd_checkpoints`."""

    _fields_ = (
        ("folder", ctypes.c_char_p),
        ("every", ctypes.c_int64),
        ("keep", ctypes.c_int64),
        ("resumes", ctypes.c_int),
        ("damaged", ctypes.c_int64),
    )


def reference(rows):
    """Return a pointer to rows, or to none."""
    return None if rows is None else ctypes.byref(rows)


def run_in_c(net, train, evaluate, epochs=0, checkpoints=None):
    """Make the run, and return its number and what it said."""
    heard = []

    def said(report, _):
        found = report.contents
        for function in heard_by:
            function(found)
        heard.append((found.epoch, bool(found.is_evaluation), found.metric.decode(), found.value))

    library = net._library
    library.prograd_run_bytes.restype = ctypes.c_int64
    room = ctypes.create_string_buffer(library.prograd_run_bytes(net.self, *map(reference, (train, evaluate))))
    called = SAID(said)
    first = [] if checkpoints is None else [ctypes.byref(checkpoints)]
    run = library.prograd_run if checkpoints is None else library.prograd_run_checkpointed
    rows = [reference(train), reference(evaluate)]
    code = run(net.self, *first, *rows, ctypes.c_int64(epochs), room, ctypes.cast(called, ctypes.c_void_p), None)
    return code, heard


def classifier(folder, *, rows=210, remainder="partial", hidden=24, shuffle=True, **training):
    """Write a program with rows of its own, of which the last step has fewer."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 12)).astype(np.float32)
    label = (x[:, 0] + 0.5 * rng.standard_normal(300) > 0).astype(np.int64)
    data = {"x": x, "label": label, "train": np.arange(rows), "test": np.arange(rows, 300)}
    save_file(data, folder / "rows.safetensors")
    program = Program("classifier", seed=9)
    x, label = program.input("x", "float32", ("batch", 12)), program.input("label", "int64", ("batch",))
    logits = layers.dense(ops.dropout(ops.relu(layers.dense(x, "first", hidden)), ratio=0.2), "second", 2)
    program.minimize(ops.softmax_cross_entropy(logits, label), adam(rate=warmup_cosine(0.05)))
    program.metrics(accuracy=metrics.accuracy(logits, label))
    program.data("rows.safetensors", splits={"train": "train", "test": "test"}, shuffle=shuffle, remainder=remainder)
    program.training(split="train", **training)
    program.compile(batch=32, folder=folder).save(folder / "classifier.pb")
    return folder / "classifier.pb"


def rows_of_program(run, folder):
    """Return the rows of a program's own data: those to train on, and those to evaluate on or None."""
    desc = run.program.run
    split = {split.name: split.key for split in run.program.data.splits}
    data = load_file(folder / run.program.data.file)
    evaluated = _rows(run, data, desc.evaluate.entry, split["test"]) if desc.HasField("evaluate") else None
    return _rows(run, data, "train", split["train"]), evaluated


def _rows(run, data, entry, split):
    keys = {column.feed: column.key for column in run.program.data.columns}
    arrays, offsets, padding = [], [], []
    for name in run.entries[entry].feeds:
        key = keys.get(name, name)
        stem, _, kind = key.partition(".")
        ends = data.get(f"{stem}.offsets") if kind in ("", "mask") else None
        if kind == "mask":
            arrays.append(np.ones(ends[-1], np.float32))
        else:
            arrays.append(np.diff(data[f"{stem}.offsets"]).astype(np.int32) if kind == "lengths" else data[key])
        offsets.append(ends)
        padding.append(data.get(f"{stem}.padding") if kind == "" else None)
    has_offsets = any(each is not None for each in offsets)
    return rows_of(arrays, data[split], offsets if has_offsets else None, padding)
