import math
import os
import re
import signal

import numpy as np
import pytest
from safetensors.numpy import load_file
from subjects.commands import told
from subjects.small_programs import BATCH, TEST, TRAIN, arrays, linear, rich, save, write_data

import runtime
from compiler import Program, adam, ops, sgd, zeros
from prograd_proto import ProgramError
from prograd_proto import program_pb2 as pb
from prograd_proto.byte_sizes import exact_size
from prograd_proto.files import load as load_desc
from runtime.philox import permutation

PER_EPOCH = TRAIN // BATCH


def kinds(events) -> list[str]:
    return [type(event).__name__.removesuffix("End").lower() for event in events]


def by_hand(epochs: int, rate: float = 0.1) -> list[float]:
    """The losses of linear(), in float32 as the program computes, without any code of the project's ops."""
    data, f = arrays(), np.float32
    w, b, losses = np.full(3, 0.1, f), f(0), []
    for epoch in range(epochs):
        order = permutation(5, epoch, TRAIN)[: PER_EPOCH * BATCH].reshape(PER_EPOCH, BATCH)
        for rows in order:
            x, y = data["x"][rows], data["y"][rows]
            error = x @ w + b - y
            losses.append(float((error**2).mean()))
            slope = (2 / BATCH) * error
            w, b = w - f(rate) * (x.T @ slope).astype(f), f(b - f(rate) * slope.sum())
    return losses


def test_training_computes_what_a_loop_by_hand_computes(tmp_path):
    run = runtime.load(save(linear(), tmp_path, evaluate=None, keep_best=None))
    losses = [event.metrics["loss"] for event in run.events() if isinstance(event, runtime.StepEnd)]
    np.testing.assert_allclose(losses, by_hand(3), rtol=1e-4)


def test_events_come_in_the_order_of_what_happens(tmp_path):
    run = runtime.load(save(linear(), tmp_path, epochs=4, every=2))
    found = kinds(run.events(checkpoint=tmp_path / "c"))
    step = ["step"] * PER_EPOCH
    odd, even = [*step, "epoch", "checkpointwritten"], [*step, "epoch", "evaluation", "checkpointwritten"]
    assert found == odd + even + odd + even


def test_epochs_and_steps_count_from_one(tmp_path):
    events = list(runtime.load(save(linear(), tmp_path, epochs=2)).events())
    steps = [(event.epoch, event.step) for event in events if isinstance(event, runtime.StepEnd)]
    assert steps == [(1 + n // PER_EPOCH, 1 + n) for n in range(2 * PER_EPOCH)]
    assert [(e.epoch, e.step) for e in events if isinstance(e, runtime.EvaluationEnd)] == [(1, 7), (2, 14)]


def test_metrics_of_an_epoch_are_means_sums_and_last_values(tmp_path):
    events = list(runtime.load(save(rich(), tmp_path, epochs=1)).events())
    steps = [event.metrics for event in events if isinstance(event, runtime.StepEnd)]
    epoch = next(event.metrics for event in events if isinstance(event, runtime.EpochEnd))
    assert epoch == pytest.approx(
        {
            "loss": np.mean([step["loss"] for step in steps]),
            "mean": np.mean([step["mean"] for step in steps]),
            "total": sum(step["total"] for step in steps),
            "rate": steps[-1]["rate"],
        },
        rel=1e-12,
    )


def test_evaluation_weights_full_steps_and_single_rows_by_their_rows(tmp_path):
    write_data(tmp_path, test=np.arange(30, 41))  # two steps of 4, three of 1
    run = runtime.load(save(linear(), tmp_path))
    data = arrays()
    error = data["x"][30:41] @ np.full(3, 0.1, np.float32) - data["y"][30:41]
    assert run.evaluate("test")["loss"] == pytest.approx((error**2).mean(), rel=1e-6)


def test_evaluation_leaves_the_states_as_they_were(tmp_path):
    run = runtime.load(save(rich(), tmp_path))
    run.state["total_steps"] = PER_EPOCH
    run.step({"x": arrays()["x"][:4], "y": arrays()["y"][:4]})
    before = run.states.sha256()
    run.evaluate("train")
    run.evaluate("test", entry="train")  # even an entry that trains
    assert run.states.sha256() == before


def test_training_is_the_same_with_and_without_evaluations(tmp_path):
    often = runtime.load(save(rich(), tmp_path, keep_best=None))
    never = runtime.load(save(rich(), tmp_path, evaluate=None, keep_best=None, name="never.pb"))
    list(often.events())
    list(never.events())
    assert often.states.sha256() == never.states.sha256()


def test_states_that_last_an_epoch_begin_each_anew(tmp_path):
    run = runtime.load(save(rich(), tmp_path, epochs=2, keep_best=None))
    y = np.abs(arrays()["y"])
    for event in run.events():
        if isinstance(event, runtime.StepEnd):
            start = (event.step - 1) // PER_EPOCH
            rows = permutation(7, start, TRAIN)[: ((event.step - 1) % PER_EPOCH + 1) * BATCH]
            assert run.state["seen"] == pytest.approx(y[rows].sum(), rel=1e-5)


def test_the_best_states_are_back_at_the_end(tmp_path):
    run = runtime.load(save(linear(rate=0.65), tmp_path, epochs=6))  # so high a rate that it jumps about
    best = None
    evaluations = []
    for event in run.events():
        if isinstance(event, runtime.EvaluationEnd):
            evaluations.append(event)
            if event.is_best:
                best = event, run.states.sha256()
    assert best is not None
    losses = [event.metrics["loss"] for event in evaluations]
    assert best[0].metrics["loss"] == min(losses) != losses[-1]
    assert [e.is_best for e in evaluations] == [v == min(losses[: i + 1]) for i, v in enumerate(losses)]
    assert run.states.sha256() == best[1]
    assert run.evaluate()["loss"] == min(losses)
    assert run.position.evaluation == best[0].metrics


def test_the_largest_is_the_best_where_the_program_says_so(tmp_path):
    run = runtime.load(save(linear(rate=0.65), tmp_path, epochs=6, best="max"))
    losses = [event.metrics["loss"] for event in run.events() if isinstance(event, runtime.EvaluationEnd)]
    assert run.evaluate()["loss"] == max(losses)


def test_equal_evaluations_keep_the_first(tmp_path):
    run = runtime.load(save(linear(rate=0.0), tmp_path))
    assert [e.is_best for e in run.events() if isinstance(e, runtime.EvaluationEnd)] == [True, False, False]
    assert run.state["step"] == PER_EPOCH


def test_a_saved_best_run_stands_where_it_was_the_best_and_goes_on_from_there(tmp_path):
    path = save(linear(rate=0.65), tmp_path, epochs=6)
    run = runtime.load(path)
    list(run.events())
    run.save(tmp_path / "s.st")
    again = runtime.load(path)
    again.resume(tmp_path / "s.st")
    assert again.position.steps == again.state["step"] < 6 * PER_EPOCH
    list(again.events())
    assert again.states.sha256() == run.states.sha256()


def test_a_run_stops_when_evaluations_no_longer_improve(tmp_path):
    run = runtime.load(save(linear(rate=0.0), tmp_path, epochs=9, stop_after=3))
    evaluations = [event for event in run.events() if isinstance(event, runtime.EvaluationEnd)]
    assert len(evaluations) == 4


def test_stopping_without_a_metric_to_compare_is_refused(tmp_path):
    path = save(linear(), tmp_path)
    desc = load_desc(path)
    desc.run.stop_after = 3
    desc.run.ClearField("keep_best")
    assert told(ProgramError, lambda: runtime.Run(desc, tmp_path)) == (
        "the run stops after 3 evaluations without improvement, and names no metric"
    )


def test_stopping_early_survives_a_resumption(tmp_path):
    path = save(linear(rate=0.0), tmp_path, epochs=9, stop_after=3)
    list(runtime.load(path).events(checkpoint=tmp_path / "c"))
    run = runtime.load(path)
    run.resume(tmp_path / "c")
    assert kinds(run.events()) == []
    assert run.position.reached == 4 * PER_EPOCH


def test_a_number_of_steps_may_end_in_the_middle_of_an_epoch(tmp_path):
    run = runtime.load(save(linear(), tmp_path))
    events = list(run.events(steps=10))
    assert kinds(events[-3:]) == ["step", "epoch", "evaluation"]
    assert run.state["total_steps"] == 10
    ends = [event.metrics["loss"] for event in events if isinstance(event, runtime.StepEnd)][7:]
    assert events[-2].metrics["loss"] == pytest.approx(np.mean(ends), rel=1e-12)


def test_a_run_that_ended_within_an_epoch_goes_on_there(tmp_path):
    path = save(linear(), tmp_path, keep_best=None)  # a constant rate: the number of steps changes nothing
    run = runtime.load(path)
    list(run.events(steps=10))
    run.save(tmp_path / "s.st")
    again = runtime.load(path)
    again.resume(tmp_path / "s.st")
    events = list(again.events(retarget_schedule=True))
    whole = runtime.load(path)
    expected = list(whole.events())
    assert events == expected[-len(events) :]
    assert again.states.sha256() == whole.states.sha256()


def test_leaving_the_iterator_and_coming_back_is_the_same_run(tmp_path):
    path = save(rich(), tmp_path)
    whole = runtime.load(path)
    expected = list(whole.events())
    run = runtime.load(path)
    events = []
    while len(events) < len(expected):
        for event in run.events():
            events.append(event)
            if isinstance(event, runtime.StepEnd):
                break
    assert [e for e in events if isinstance(e, runtime.StepEnd)] == [
        e for e in expected if isinstance(e, runtime.StepEnd)
    ]
    list(run.events())
    assert run.states.sha256() == whole.states.sha256()


def test_a_run_that_was_trained_to_its_end_has_nothing_more_to_do(tmp_path):
    run = runtime.load(save(linear(rate=0.65), tmp_path, epochs=6))
    list(run.events())
    before = run.states.sha256()
    assert list(run.events()) == []
    assert run.states.sha256() == before


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_no_bit(tmp_path, threads):
    path = save(rich(), tmp_path)
    one, many = runtime.load(path), runtime.load(path, threads=threads)
    list(one.events())
    list(many.events())
    many.close()
    assert one.states.sha256() == many.states.sha256()


def test_another_seed_is_another_run(tmp_path):
    path = save(rich(), tmp_path)
    hashes = set()
    for seed in (None, 7, 8):
        run = runtime.load(path, seed=seed)
        list(run.events())
        run.state["seed"] = 0
        hashes.add(run.states.sha256())
    assert len(hashes) == 2


def diverging(tmp_path):
    """A program whose loss is NaN from the third step on."""
    program = Program("diverging")
    x = program.input("x", "float32", ("batch",))
    w = program.parameter("w", (), zeros())
    loss = ops.mean(x * w)
    program.minimize(loss, sgd(rate=1.0))
    step = ops.cast(program.state("step"), dtype="float32")
    program.fetch("odd", ops.log(1.5 - step))  # finite for the first two steps
    return program.compile(batch=2).desc


def test_a_loss_that_is_not_finite_ends_the_run_before_a_checkpoint_is_written(tmp_path):
    path = save(linear(rate=1e30), tmp_path)
    run = runtime.load(path)
    found = told(runtime.NonFinite, lambda: list(run.events(checkpoint=tmp_path / "c", every=1)))
    assert found == (
        "step 2: loss is inf; a lower learning rate or clipping may help, and check_nan=True "
        "names the op that makes the first one"
    )
    kept = sorted((tmp_path / "c").iterdir())
    assert [file.name for file in kept] == ["step-0000000001.safetensors"]
    assert all(np.isfinite(array).all() for array in load_file(kept[0]).values())


def test_where_there_is_a_loss_other_metrics_may_be_infinite(tmp_path):
    run = runtime.Run(diverging(tmp_path))
    events = list(run.events(data={"x": np.ones(2, np.float32)}, epochs=4, shuffle=False))
    odd = [event.metrics["odd"] for event in events if isinstance(event, runtime.StepEnd)]
    assert math.isfinite(odd[1])
    assert math.isnan(odd[2])


def test_where_there_is_no_loss_every_metric_must_be_finite(tmp_path):
    desc = diverging(tmp_path)
    for block in desc.blocks:
        for fetch in block.fetches:
            fetch.name = fetch.name.replace("loss", "cost")
    run = runtime.Run(desc)
    found = told(
        runtime.NonFinite, lambda: list(run.events(data={"x": np.ones(2, np.float32)}, epochs=4, shuffle=False))
    )
    assert found.startswith("step 3: odd is nan; ")


def test_looking_at_every_op_names_the_first_that_is_not_finite(tmp_path):
    run = runtime.Run(diverging(tmp_path), check_nan=True)
    found = told(
        runtime.NonFinite, lambda: list(run.events(data={"x": np.ones(2, np.float32)}, epochs=4, shuffle=False))
    )
    assert found.startswith("step 3: op ")
    assert "(log from " in found
    assert re.search(
        r" has 1 of 1 elements that are NaN or Inf; it reads %\w+ in \[-0.5, -0.5\]; fed are the rows 0, 1$", found
    )


def test_an_interrupt_acts_between_steps_and_after_a_checkpoint(tmp_path):
    path = save(rich(), tmp_path)
    whole = runtime.load(path)
    list(whole.events())
    run = runtime.load(path)
    events = run.events(checkpoint=tmp_path / "c", every=100)
    while next(events).step < 9:
        pass
    interrupt_within_a_step(run)
    with pytest.raises(KeyboardInterrupt):
        list(events)
    again = runtime.load(path)
    again.resume(tmp_path / "c")
    assert again.position.steps == 10
    list(again.events())
    assert again.states.sha256() == whole.states.sha256()


def interrupt_within_a_step(run):
    """Make the next steps of the run send the signal from their very middle."""
    executor = next(iter(run.session.workspaces._all[0]._executors.values()))
    executor._calls.insert(len(executor._calls) // 2, lambda: os.kill(os.getpid(), signal.SIGINT))


def test_an_interrupt_during_an_evaluation_is_resumed_there(tmp_path):
    path = save(rich(), tmp_path)
    whole = runtime.load(path)
    expected = list(whole.events())
    run = runtime.load(path)
    calls = 0

    def between():
        nonlocal calls
        calls += 1
        if calls == 2 * PER_EPOCH + TEST // BATCH + 2:  # the second step of the second evaluation
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(run.events(between=between, checkpoint=tmp_path / "c", every=100))
    again = runtime.load(path)
    again.resume(tmp_path / "c")
    assert (again.position.step, again.position.closed) == (PER_EPOCH, PER_EPOCH)
    events = list(again.events())
    assert kinds(events)[:2] == ["epoch", "evaluation"]
    assert events == expected[-len(events) :]
    assert again.states.sha256() == whole.states.sha256()


def test_a_limit_that_is_reached_writes_a_checkpoint_first(tmp_path):
    path = save(rich(), tmp_path)
    run = runtime.load(path)
    calls = []

    def between():
        calls.append(1)
        if len(calls) == 5:
            raise runtime.ResourceLimit("enough")

    assert told(runtime.ResourceLimit, lambda: list(run.events(between=between, checkpoint=tmp_path / "c"))) == "enough"
    again = runtime.load(path)
    again.resume(tmp_path / "c")
    assert again.position.steps == 4


def test_memory_beyond_the_limit_is_refused_before_the_first_step(tmp_path):
    path = save(linear(), tmp_path)
    state = runtime.load(path).states.nbytes
    found = told(runtime.ResourceLimit, lambda: runtime.load(path, max_memory=state - 1))
    assert found == (
        f"with the states the run needs {exact_size(state)}, and the limit is {exact_size(state - 1)}; allow more by "
        "max_memory"
    )
    run = runtime.load(path, max_memory=state)
    found = told(runtime.ResourceLimit, run.train)
    assert f", and the limit is {exact_size(state)}; " in found
    run = runtime.load(path)
    list(run.events())
    exact = run.memory.most
    list(runtime.load(path, max_memory=exact).events())
    with pytest.raises(runtime.ResourceLimit):
        list(runtime.load(path, max_memory=exact - 1).events())


def test_training_and_evaluating_take_turns_in_one_arena(tmp_path):
    run = runtime.load(save(rich(), tmp_path))
    list(run.events())
    executors = run.session.workspaces._all[0]._executors.values()
    assert len(executors) > 1
    assert run.session.workspaces.arena_bytes == max(executor.footprint.arena for executor in executors)


def test_arrays_take_the_place_of_the_programs_rows(tmp_path):
    program = linear()
    compiled = program.compile(batch=BATCH)
    run = runtime.Run(compiled.desc)
    given = {"x": arrays()["x"][:8], "y": arrays()["y"][:8]}
    events = list(run.events(data=given, epochs=2, shuffle=False, fetch=["x"]))
    assert kinds(events) == ["step", "step", "epoch"] * 2
    np.testing.assert_array_equal(run.fetched["x"], given["x"][4:])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"epochs": 0}, "epochs=0: it starts at 1"),
        ({"steps": -1}, "steps=-1: it starts at 1"),
        ({"every": 0}, "every=0: it starts at 1"),
        ({"epochs": 1, "steps": 1}, "epochs and steps both say how long to train; give one of them"),
        ({"checkpoint": "c", "keep": 0}, "keep=0: at least one checkpoint is kept"),
        ({"entry": "trian"}, "there is no entry 'trian'; did you mean 'train'?"),
        ({"fetch": ["losss"]}, "entry 'train' has no fetch and no tensor 'losss'; did you mean 'loss'?"),
    ],
)
def test_options_that_make_no_sense_are_refused_before_the_first_step(tmp_path, options, expected):
    run = runtime.load(save(linear(), tmp_path))
    assert told(runtime.UsageError, lambda: run.events(**options)) == expected


def test_a_metric_that_is_no_scalar_cannot_be_the_best(tmp_path):
    program = linear()
    program.entry("evaluate", x=program.block.value("x"))
    run = runtime.load(save(program, tmp_path, keep_best="x"))
    found = told(runtime.UsageError, lambda: list(run.events()))
    assert found == (
        "the run watches 'x', which is no scalar that it reports; there are loss, rate, train.loss, train.rate, "
        "evaluate.loss"
    )


def test_a_program_may_have_several_training_entries(tmp_path):
    program = linear()
    desc = program.compile(batch=BATCH).desc
    entry = desc.entries.add()
    entry.CopyFrom(next(e for e in desc.entries if e.name == "train"))
    entry.name = "warm"
    run = runtime.Run(desc)
    given = {"x": arrays()["x"][:4], "y": arrays()["y"][:4]}
    assert kinds(run.events(entry="warm", data=given)) == ["step", "epoch"]


def test_every_program_has_what_the_loop_relies_on(tmp_path):
    desc = load_desc(save(linear(), tmp_path))
    train = next(entry for entry in desc.entries if entry.name == "train")
    updates = {update.state for update in desc.blocks[train.bindings[0].block].updates}
    assert "step" in updates
    assert {"total_steps", "seed"} <= {s.name for s in desc.states if s.kind == pb.STATE_KIND_COUNTER}
    assert not {"total_steps", "seed"} & updates


def summing(every: int) -> runtime.Run:
    program = Program()
    x, w = program.input("x", "float32", (3,)), program.parameter("w", (3,), zeros())
    b = program.parameter("b", (3,), zeros())
    program.minimize(ops.sum((x - w) ** 2 + (x + b) ** 2), adam(0.1), accumulate=every)
    return runtime.Run(program.compile().desc)


FED = {"x": np.arange(60, dtype=np.float32)}


def test_a_run_that_ends_between_two_updates_says_so(caplog):
    run = summing(4)
    list(run.events(data=FED, steps=7))
    assert caplog.messages == [
        "the run ends after 7 steps, between two updates: the gradients since the last one wait in w.gradient and "
        "1 more; train for a multiple of the steps that make one update, or go on"
    ]
    assert run.state["w.gradient"].any()


@pytest.mark.parametrize("steps", [4, 8])
def test_a_run_that_ends_with_an_update_has_nothing_to_say(steps: int, caplog):
    list(summing(4).events(data=FED, steps=steps))
    assert not caplog.messages


def test_a_run_that_ended_between_two_updates_goes_on_as_if_it_had_not(tmp_path):
    whole, part, resumed = summing(4), summing(4), summing(4)
    list(whole.events(data=FED, steps=8))
    list(part.events(data=FED, steps=7))
    part.save(tmp_path / "run.safetensors")
    resumed.resume(tmp_path / "run.safetensors")
    for run in (part, resumed):
        list(run.events(data=FED, steps=8, retarget_schedule=True))
        assert run.states.sha256() == whole.states.sha256()
