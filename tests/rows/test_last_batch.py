"""remainder="partial": the rows that do not fill a step make a smaller one, as in a loop written by hand."""

import math
import subprocess
import sys

import numpy as np
import pytest
from safetensors.numpy import save_file
from subjects.commands import told
from subjects.small_programs import arrays, rich, write_data

import compiler.build.compiled as compiled_module
import compiler.planning.plan_program as plan_module
import runtime
from compiler import CompileError, Program, constant, momentum, ops, sgd, zeros
from compiler.passes.pipeline import PASSES
from prograd_proto import program_pb2 as pb
from prograd_proto.files import load as load_desc

ROWS, BATCH, LEFT, EPOCHS = 31, 4, 3, 3
STEPS = EPOCHS * 8
RATE = 0.05


def data(folder, rows: int = ROWS):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(rows, 3))
    y = x @ np.array([1.0, -2.0, 0.5]) + 0.1 * rng.normal(size=rows)
    save_file({"x": x, "y": y, "number": np.arange(rows)}, folder / "rows.safetensors")
    return x, y


def regression(*, accumulate: int = 1, shuffle: bool = True, epochs: int = EPOCHS) -> Program:
    program = Program("regression", seed=3)
    x, y = program.input("x", "float64", ("batch", 3)), program.input("y", "float64", ("batch",))
    number = program.input("number", "int64", ("batch",))
    w = program.parameter("w", (3,), zeros(), dtype="float64")
    b = program.parameter("b", (), zeros(), dtype="float64")
    error = ops.sum(x * w, axis=(1,)) + b - y
    program.minimize(ops.mean(error * error), momentum(RATE), accumulate=accumulate)
    program.metrics(bias=ops.mean(error))
    program.fetch("squares", ops.sum(error * error), over="sum")
    program.fetch("rows", ops.sum(y * 0.0 + 1.0), over="last")
    program.fetch("number", number)
    program.data("rows.safetensors", shuffle=shuffle, remainder="partial")
    program.training(epochs=epochs)
    return program


def by_hand(x, y, orders, accumulate=1):
    """Losses by step, epochs' means by row, and the parameters: drop_last=False, and a mean over each batch."""
    w, b, velocity, total = np.zeros(3), 0.0, np.zeros(4), np.zeros(4)
    losses, epochs, step = [], [], 0
    for order in orders:
        weighted = 0.0
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            error = x[rows] @ w + b - y[rows]
            losses.append(float(np.mean(error**2)))
            weighted += losses[-1] * len(rows)
            total += np.append(2 * error @ x[rows], 2 * error.sum()) / len(rows) / accumulate
            step += 1
            if step % accumulate == 0:
                velocity = 0.9 * velocity + total
                w, b, total = w - RATE * velocity[:3], b - RATE * velocity[3], np.zeros(4)
        epochs.append(weighted / len(order))
    return losses, epochs, np.append(w, b)


@pytest.mark.parametrize("accumulate", [1, 2, 3])
def test_training_is_that_of_a_loop_by_hand(tmp_path, accumulate):
    x, y = data(tmp_path)
    regression(accumulate=accumulate).compile(batch=BATCH, folder=tmp_path).save(tmp_path / "p.pb")
    run = runtime.load(tmp_path / "p.pb")
    losses, means, numbers = [], [], []
    for event in run.events():
        if isinstance(event, runtime.StepEnd):
            losses.append(event.metrics["loss"])
            numbers.append(run.fetched["number"].copy())
            assert event.metrics["rows"] == len(numbers[-1])
        if isinstance(event, runtime.EpochEnd):
            means.append(event.metrics)
    orders = [np.concatenate(numbers[i : i + 8]) for i in range(0, STEPS, 8)]
    assert [len(part) for part in numbers] == ([BATCH] * 7 + [LEFT]) * EPOCHS
    assert all(sorted(order) == list(range(ROWS)) for order in orders)
    assert len({order.tobytes() for order in orders}) == EPOCHS, "shuffled anew each epoch"
    expected_losses, expected_means, parameters = by_hand(x, y, orders, accumulate)
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-12)
    np.testing.assert_allclose([epoch["loss"] for epoch in means], expected_means, rtol=1e-12)
    assert [epoch["rows"] for epoch in means] == [LEFT] * EPOCHS, "over last"
    np.testing.assert_allclose([epoch["squares"] for epoch in means], [m * ROWS for m in expected_means], rtol=1e-12)
    np.testing.assert_allclose(np.append(run.state["w"], run.state["b"]), parameters, rtol=1e-10)
    assert run.state["total_steps"] == run.state["step"] == STEPS


def test_evaluation_after_it_is_of_all_rows(tmp_path):
    x, y = data(tmp_path)
    regression().compile(batch=BATCH, folder=tmp_path).save(tmp_path / "p.pb")
    run = runtime.load(tmp_path / "p.pb")
    list(run.events())
    error = x @ run.state["w"] + run.state["b"] - y
    found = run.evaluate()
    assert found["loss"] == pytest.approx(np.mean(error**2))
    assert found["bias"] == pytest.approx(np.mean(error))


def saved(folder, **options):
    """Slots, dropout, a schedule of all steps, totals of an epoch; the best kept; 31 rows in steps of 4."""
    program = rich()
    write_data(folder)
    program.data("rows.safetensors", splits={"train": "train", "test": "test"}, shuffle=True, remainder="partial")
    program.training(epochs=EPOCHS, evaluate="test", keep_best="loss", best="min")
    compiled = program.compile(batch=BATCH, folder=folder)
    if options:
        compiled.plan(**options)
    compiled.save(folder / "p.pb", force=True)
    return folder / "p.pb", compiled


def trained(path, **options) -> str:
    run = runtime.load(path, **options)
    list(run.events())
    assert run.state["total_steps"] == STEPS
    return run.states.sha256()


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_nothing(tmp_path, threads):
    path, _ = saved(tmp_path)
    assert trained(path, threads=threads) == trained(path)


@pytest.mark.parametrize("spill", [False, True])
def test_a_budget_holds_for_the_last_batch_and_changes_nothing(tmp_path, spill):
    path, _ = saved(tmp_path)
    expected = trained(path)
    free = max(b.plan.arena_bytes for e in load_desc(path).entries for b in e.bindings)
    path, compiled = saved(tmp_path, budget=free, spill=spill)
    plans = {e.name: [(b.dims[0].size, b.plan.arena_bytes) for b in e.bindings] for e in compiled.desc.entries}
    assert [size for size, _ in plans["train"]] == [BATCH, LEFT]
    assert all(0 < nbytes <= free for found in plans.values() for _, nbytes in found)
    assert trained(path, spill=tmp_path) == expected


def test_a_run_resumes_before_within_and_after_a_last_batch(tmp_path):
    path, _ = saved(tmp_path)
    whole = runtime.load(path)
    events = list(whole.events(checkpoint=tmp_path / "c", every=1, keep=100))
    files = [event.path for event in events if isinstance(event, runtime.CheckpointWritten)]
    assert len(files) >= STEPS
    for file in files[5:12]:  # the last batch of the first epoch is the eighth step
        run = runtime.load(path)
        run.resume(file)
        rest = list(run.events())
        assert run.states.sha256() == whole.states.sha256()
        steps = [event for event in rest if isinstance(event, runtime.EpochEnd)]
        assert steps == [event for event in events if isinstance(event, runtime.EpochEnd)][-len(steps) :]


def test_a_step_may_be_of_the_last_batch(tmp_path):
    x, y = data(tmp_path)
    regression().compile(batch=BATCH, folder=tmp_path).save(tmp_path / "p.pb")
    run = runtime.load(tmp_path / "p.pb")
    feeds = {"x": x[:LEFT], "y": y[:LEFT], "number": np.arange(LEFT)}
    assert run.step(feeds)["loss"] == pytest.approx(np.mean(y[:LEFT] ** 2))
    short = {name: array[:2] for name, array in feeds.items()}
    assert told(runtime.DataError, lambda: run.step(short)) == "entry 'train' takes 4 or 3 rows a step, and 2 are given"


def test_fewer_rows_than_a_step_takes_are_one_step(tmp_path):
    x, y = data(tmp_path, LEFT)
    regression(shuffle=False).compile(batch=BATCH, folder=tmp_path).save(tmp_path / "p.pb")
    run = runtime.load(tmp_path / "p.pb")
    list(run.events())
    np.testing.assert_allclose(run.state["w"], by_hand(x, y, [np.arange(LEFT)] * EPOCHS)[2][:3], rtol=1e-10)


def test_rows_that_fill_every_step_need_no_other(tmp_path):
    data(tmp_path, 32)
    compiled = regression().compile(batch=BATCH, folder=tmp_path)
    before = compiled.desc.entries[0].bindings[:]
    compiled.save(tmp_path / "p.pb")
    assert [binding.dims[0].size for binding in before] == [BATCH]
    assert compiled.desc.entries[0].bindings[:] == before
    assert trained_steps(tmp_path / "p.pb") == EPOCHS * 8


def trained_steps(path) -> int:
    run = runtime.load(path)
    list(run.events())
    return int(run.state["step"])


@pytest.mark.parametrize(
    ("selection", "left"), [(slice(0, 10), 2), (slice(1, 31, 3), 2), (slice(2, None), 1), ("train", 3), (None, 3)]
)
def test_the_last_batch_is_that_of_the_split(tmp_path, selection, left):
    data(tmp_path)
    program = regression()
    x, y = data(tmp_path)
    save_file({"x": x, "y": y, "number": np.arange(ROWS), "train": np.arange(7)}, tmp_path / "rows.safetensors")
    splits = {} if selection is None else {"train": selection}
    program.data("rows.safetensors", splits=splits, remainder="partial", shuffle=False)
    compiled = program.compile(batch=BATCH, folder=tmp_path)
    compiled.save(tmp_path / "p.pb")
    assert [binding.dims[0].size for binding in compiled.desc.entries[0].bindings] == [BATCH, left]
    trained_steps(tmp_path / "p.pb")


def test_npz_files_are_counted_too(tmp_path):
    x, y = data(tmp_path)
    np.savez(tmp_path / "rows.npz", x=x, y=y, number=np.arange(ROWS))
    program = regression()
    program.data("rows.npz", remainder="partial", shuffle=False)
    program.compile(batch=BATCH, folder=tmp_path).save(tmp_path / "p.pb")
    assert trained_steps(tmp_path / "p.pb") == STEPS


def test_sizes_may_be_given_without_a_file(tmp_path):
    x, y = data(tmp_path)
    program = regression()
    program.data_desc = program.run_desc = None
    run = runtime.Run(program.compile(batch=(BATCH, LEFT)).desc, tmp_path)
    list(run.events(data={"x": x, "y": y, "number": np.arange(ROWS)}, epochs=EPOCHS, shuffle=False))
    np.testing.assert_allclose(run.state["w"], by_hand(x, y, [np.arange(ROWS)] * EPOCHS)[2][:3], rtol=1e-10)


def test_rows_that_no_step_takes_are_one_sentence(tmp_path):
    data(tmp_path)
    regression().compile(batch=BATCH, folder=tmp_path).save(tmp_path / "p.pb")
    (tmp_path / "other").mkdir()
    x, y = data(tmp_path / "other", 30)
    expected = (
        "steps of 4 leave 2 of them, and the program has no step of 2; "
        "compile it anew beside this data, or with both sizes, as in batch=(4, 2)"
    )
    run = runtime.load(tmp_path / "p.pb", data=tmp_path / "other" / "rows.safetensors")
    assert told(runtime.DataError, run.train) == f"the split 'train' has 30 rows, {expected}"
    run = runtime.load(tmp_path / "p.pb")
    feeds = {"x": x, "y": y, "number": np.arange(30)}
    assert told(runtime.DataError, lambda: run.events(data=feeds)) == f"30 rows are given, {expected}"
    assert run.state["step"] == 0


def test_what_cannot_be_bound_is_one_sentence(tmp_path):
    program = regression()
    whole = "a symbol is bound to a whole number, 1 or more, of at most 64 bits"
    assert told(CompileError, lambda: program.compile(batch=(4, 0))) == f"batch=(4, 0): {whole}"
    assert told(CompileError, lambda: program.compile(batch=(4, "x"))) == f"batch=(4, 'x'): {whole}"
    assert told(CompileError, lambda: program.compile(batch=())) == "batch=(): a symbol needs a size, as in batch=32"
    other = Program("two")
    other.outputs(y=other.input("x", "float32", ("batch", "width")) * other.input("z", "float32", ("width",)))
    found = told(CompileError, lambda: other.compile(batch=4, width=(2, 3)))
    assert found == "width=(2, 3): several sizes need a symbol that counts the rows of all inputs"


def test_data_that_does_not_have_the_rows_is_one_sentence(tmp_path):
    write_data(tmp_path)
    program = regression()
    program.data("rows.safetensors", splits={"train": "trian"}, remainder="partial", shuffle=False)
    found = told(
        CompileError, lambda: program.compile(batch=BATCH, folder=tmp_path).save(tmp_path / "p.pb", force=True)
    )
    assert found == (
        f"data: {tmp_path / 'rows.safetensors'}: there is no key 'trian' in the file; did you mean 'train'?"
    )
    assert not (tmp_path / "p.pb").exists()


@pytest.mark.thorough
def test_compiling_the_file_anew_finds_the_new_last_batch(tmp_path):
    data(tmp_path)
    regression().compile(batch=BATCH, folder=tmp_path).save(tmp_path / "p.pb")

    def compiled(*options):
        command = [sys.executable, "-m", "compiler", "compile", "p.pb", "-o", "q.pb", "--force", *options]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
        train = load_desc(tmp_path / "q.pb").entries[0]
        return [binding.dims[0].size for binding in train.bindings]

    assert compiled() == [BATCH, LEFT]
    assert (tmp_path / "p.pb").read_bytes() == (tmp_path / "q.pb").read_bytes()
    assert compiled("--bind", "batch=8") == [8, 7]
    assert compiled("--bind", "batch=8,2") == [8, 7, 2]


def test_one_row_has_no_spread_and_batch_norm_keeps_finite(tmp_path):
    data(tmp_path, 5)
    program = Program("norm")
    image, wanted = program.input("x", "float64", ("batch", 3)), program.input("y", "float64", ("batch",))
    scale, offset = (program.parameter(name, (3,), constant(1.0), dtype="float64") for name in ("scale", "offset"))
    mean, variance = (program.buffer(name, (3,), constant(1.0), dtype="float64") for name in ("mean", "variance"))
    normal, new_mean, new_variance, *_ = ops.batch_norm(image, scale, offset, mean, variance)
    program.update(mean, new_mean)
    program.update(variance, new_variance)
    program.minimize(ops.squared_error(ops.sum(normal, axis=(1,)), wanted), sgd(0.01))
    program.data("rows.safetensors", remainder="partial", shuffle=False)
    program.training(epochs=2)
    program.compile(batch=BATCH, folder=tmp_path).save(tmp_path / "p.pb")
    run = runtime.load(tmp_path / "p.pb", check_nan=True)
    list(run.events())
    assert all(math.isfinite(value) for name in ("mean", "variance", "scale") for value in run.state[name])


def test_the_file_says_it_and_reads_back(tmp_path):
    path, compiled = saved(tmp_path)
    assert load_desc(path).data.remainder == pb.REMAINDER_PARTIAL
    assert "shuffle, partial" in str(compiled)
    assert arrays()["train"].size == ROWS


def test_save_runs_no_pass(tmp_path, monkeypatch):
    data(tmp_path)
    compiled = regression().compile(batch=BATCH, folder=tmp_path)
    compiled.plan(threads=2)
    before = [(e.name, [(b.dims[0].size, b.plan.arena_bytes) for b in e.bindings]) for e in compiled.desc.entries]
    assert dict(before)["train"][1][0] == LEFT
    assert all(nbytes for _, bindings in before for _, nbytes in bindings)

    def refused(*arguments: object, **options: object) -> None:
        raise AssertionError("save runs a pass")

    for module in (compiled_module, plan_module):
        monkeypatch.setattr(module, "run_passes", refused)
    compiled.save(tmp_path / "p.pb")
    entries = load_desc(tmp_path / "p.pb").entries
    assert [(e.name, [(b.dims[0].size, b.plan.arena_bytes) for b in e.bindings]) for e in entries] == before


@pytest.mark.parametrize("plan", [False, True])
def test_the_table_of_passes_holds_for_the_last_batch_too(tmp_path, plan):
    """Without merge_identical, equal operations stay; all steps have them."""
    data(tmp_path)
    program = regression()
    x = program["x"]
    program.metrics(twice=ops.mean(ops.tanh(x)) + ops.max(ops.tanh(x)))
    compiled = program.compile(PASSES.without("merge_identical"), batch=BATCH, folder=tmp_path)
    if plan:
        compiled.plan(threads=2)
    compiled.save(tmp_path / "p.pb")
    desc = load_desc(tmp_path / "p.pb")
    found = [[op.type for op in desc.blocks[b.block].ops].count("tanh") for b in desc.entries[0].bindings]
    assert found == [2, 2]


def test_a_program_without_a_step_for_the_rows_beside_it_is_not_saved(tmp_path):
    data(tmp_path)
    compiled = regression().compile(batch=BATCH)
    assert told(CompileError, lambda: compiled.save(tmp_path / "p.pb")) == (
        f"{tmp_path}/rows.safetensors: steps of 4 leave 3 of 31 rows, and the program has no step of 3; compile it for "
        f"both, as in compile(batch=(4, 3)), or where the file is, as in compile(batch=4, folder='{tmp_path}')"
    )
    assert not (tmp_path / "p.pb").exists()
    regression().compile(batch=(BATCH, LEFT)).save(tmp_path / "p.pb")
    assert trained_steps(tmp_path / "p.pb") == STEPS


def test_a_run_of_a_program_that_was_just_built_makes_the_step_itself(tmp_path):
    data(tmp_path)
    run = runtime.Run(regression().compile(batch=BATCH), tmp_path)
    list(run.events())
    regression().compile(batch=BATCH, folder=tmp_path).save(tmp_path / "p.pb")
    whole = runtime.load(tmp_path / "p.pb")
    list(whole.events())
    assert (run.position.steps, run.state_sha256) == (STEPS, whole.state_sha256)
