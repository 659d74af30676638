"""Runs in C with plateaus, settings, windows of shuffled rows and rows of unequal length, beside those of Python."""

# pyright: basic

import numpy as np
import pytest
from ahead.hosts import Net, needs_cc
from ahead.runs import Checkpoints, classifier, rows_of_program, run_in_c
from rows import test_ragged

import prograd
from prograd import Program, layers, ops, schedules, sgd

pytestmark = needs_cc


def assert_same_run(path, folder, settings=None, code=0, **options):
    """Make the run in C and in Python, with checkpoints; compare hashes, histories and the bytes of checkpoints."""
    settings = settings or {}
    run = prograd.load(path, engine="native.avx2", threads=1, settings=settings)
    result = run.train(checkpoint=folder / "python", keep=2, **options)
    net = Net(path, folder / "out", "--cpu", "avx2")
    for name, value in settings.items():
        net.set(name, np.array(value, np.asarray(run.state[name]).dtype))
    kept = Checkpoints(str(folder / "c").encode(), options.get("every", 0), 2)
    found, heard = run_in_c(net, *rows_of_program(run, path.parent), 0, kept)
    assert found == code, net.error
    assert net.sha256() == run.states.sha256()
    files = sorted(path.name for path in (folder / "python").iterdir())
    assert sorted(path.name for path in (folder / "c").iterdir()) == files
    for name in files:
        assert (folder / "c" / name).read_bytes() == (folder / "python" / name).read_bytes(), name
    return run, result, heard


@pytest.mark.thorough
@pytest.mark.parametrize("window", [40, 100])
def test_rows_shuffled_within_windows_come_in_the_order_of_python(tmp_path, window):
    path = classifier(tmp_path, epochs=3, evaluate="test", shuffle=window, remainder="drop")
    assert_same_run(path, tmp_path)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shuffle", [True, False])
def test_rows_of_unequal_length_are_those_of_python(tmp_path, shuffle):
    test_ragged.write(tmp_path, test_ragged.unequal())
    run, _, _ = assert_same_run(test_ragged.saved(tmp_path, shuffle=shuffle), tmp_path, every=4)
    assert run.state["w"] != 0


@pytest.mark.thorough
def test_unequal_rows_are_filled_up_with_their_padding(tmp_path):
    test_ragged.write(tmp_path, test_ragged.unequal(), **{"text.padding": np.array(7)})
    assert_same_run(test_ragged.saved(tmp_path, remainder="drop"), tmp_path)


@pytest.mark.thorough
def test_a_row_that_is_too_long_is_named(tmp_path):
    rows = test_ragged.unequal()
    rows[5] = np.ones(13, np.int64)
    test_ragged.write(tmp_path, rows)
    path = test_ragged.saved(tmp_path)
    net = Net(path, tmp_path / "out", "--cpu", "avx2")
    code, _ = run_in_c(net, *rows_of_program(net.run, tmp_path))
    assert (code, net.error) == (8, "text: row 5 has 13 elements, and the longest that the entry takes is 12")


def plateau(folder, monitor=None, mode=None, **training):
    """Write a program whose rate falls where its evaluation improves no longer, by numbers that are settings."""
    classifier(folder, epochs=1)  # for its rows
    program = Program("plateau", seed=4)
    x, label = program.input("x", "float32", ("batch", 12)), program.input("label", "int64", ("batch",))
    logits = layers.dense(ops.relu(layers.dense(x, "first", 24)), "second", 2)
    patience = program.setting("patience", 3, dtype="int64", least=0)
    factor = program.setting("factor", 0.5, least=0)
    watched = {"monitor": monitor, "mode": mode} if monitor else {}
    rate = schedules.reduce_on_plateau(0.5, factor=factor, patience=1, cooldown=1, min_rate=1e-4, **watched)
    program.minimize(ops.softmax_cross_entropy(logits, label), sgd(rate))
    program.metrics(right=ops.accuracy(logits, label))
    program.data("rows.safetensors", splits={"train": "train", "test": "test"}, shuffle=True, remainder="partial")
    if "evaluate" in training:
        training |= {"stop_after": patience, "keep_best": "loss", "min_delta": 1e-3}
    program.training(epochs=16, **training)
    program.compile(batch=32, folder=folder).save(folder / "plateau.pb")
    return folder / "plateau.pb"


@pytest.mark.thorough
def test_plateaus_patience_and_ranked_checkpoints_are_those_of_python(tmp_path):
    path = plateau(tmp_path, evaluate="test", best_checkpoints=3)
    _, result, _ = assert_same_run(path, tmp_path, settings={"patience": 7, "factor": 0.25})
    assert len({*result.history["rate"]}) > 1
    assert len(result.history["rate"]) < 16


@pytest.mark.thorough
def test_a_run_that_does_not_evaluate_judges_its_epochs(tmp_path):
    path = plateau(tmp_path, monitor="train.right", mode="max")
    _, result, _ = assert_same_run(path, tmp_path)
    assert len({*result.history["rate"]}) > 1


@pytest.mark.thorough
def test_a_run_may_end_with_its_last_states(tmp_path):
    path = plateau(tmp_path, evaluate="test", restore_best=False)
    assert_same_run(path, tmp_path, settings={"patience": 2})
