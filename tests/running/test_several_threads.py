"""Several threads on one run: every answer is right, and what is trained is the same to the bit."""

import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from side_by_side import STEPS, look
from subjects.commands import told
from subjects.small_programs import BATCH, arrays, rich, save

import runtime
from compiler import Program, ops, sgd, zeros
from runtime.runs.evaluation import run_over
from runtime.runs.state_locks import StateLocks

THREADS = 8
LONG = 60  # seconds after which a test that hangs fails


@pytest.fixture
def path(tmp_path):
    return save(rich(), tmp_path)


def at_once(*works):
    """The results of functions that are called by as many threads, started together."""
    barrier = threading.Barrier(len(works))

    def begun(work):
        barrier.wait(LONG)
        return work()

    with ThreadPoolExecutor(len(works)) as pool:
        return [future.result(LONG) for future in [pool.submit(begun, work) for work in works]]


def counting() -> Program:
    """Predictions that say after which step they were made: each step adds 1 to `w`."""
    program = Program("counting")
    x = program.input("x", "float32", ("batch", 3))
    w = program.buffer("w", ())
    program.update(w, w + 1.0)
    program.outputs(steps=x * 0.0 + w)
    return program


@pytest.mark.parametrize("threads", [1, 2])
def test_predictions_of_eight_threads_are_those_of_one(path, threads):
    run = runtime.load(path, threads=threads)
    inputs = [np.full((11 + i, 3), i, np.float32) for i in range(THREADS)]
    expected = [run.predict(x)["prediction"] for x in inputs]
    for found in at_once(*(lambda x=x: [run.predict(x)["prediction"] for _ in range(20)] for x in inputs)):
        wanted = next(e for e in expected if len(e) == len(found[0]))
        assert all(np.array_equal(one, wanted) for one in found)


def test_evaluations_of_eight_threads_are_those_of_one(path):
    run = runtime.load(path)
    expected = {split: run.evaluate(split) for split in ("train", "test")}
    splits = ["train", "test"] * (THREADS // 2)
    found = at_once(*(lambda split=split: [run.evaluate(split) for _ in range(5)] for split in splits))
    assert found == [[expected[split]] * 5 for split in splits]


def test_what_is_trained_does_not_depend_on_the_other_threads(path, tmp_path):
    quiet = runtime.load(path)
    expected = [event.metrics for event in quiet.events() if isinstance(event, runtime.StepEnd)]
    run, done = runtime.load(path), threading.Event()
    x = arrays()["x"]

    def train():
        try:
            return [event.metrics for event in run.events() if isinstance(event, runtime.StepEnd)]
        finally:
            done.set()

    def until_done(work):
        def again():
            work()
            while not done.is_set():
                work()

        return again

    works = [
        lambda: run.predict(x),
        lambda: run.evaluate("test"),
        lambda: run.evaluate("train"),
        lambda: run.step({"x": x[:1]}, entry="predict"),
        lambda: run.state["w"],
        lambda: run.save(tmp_path / "other.safetensors", force=True),
        lambda: run.states.sha256(),
    ]
    assert at_once(train, *map(until_done, works))[0] == expected
    assert run.states.sha256() == quiet.states.sha256()


def test_a_run_saved_by_another_thread_resumes_to_the_same_end(path, tmp_path):
    whole = runtime.load(path)
    list(whole.events())
    run, files = runtime.load(path), [tmp_path / f"{i}.safetensors" for i in range(6)]
    turn = threading.Semaphore(0)

    def train():
        for event in run.events():
            if isinstance(event, runtime.StepEnd):
                turn.release()

    def save_all():
        for file in files:
            assert turn.acquire(timeout=LONG)
            run.save(file)

    at_once(train, save_all)
    for file in files:
        again = runtime.load(path)
        again.resume(file)
        list(again.events())
        assert again.states.sha256() == whole.states.sha256(), again.position.steps


def test_a_prediction_sees_the_states_between_two_steps(tmp_path):
    compiled = counting().compile(batch=2)
    run = runtime.Run(compiled.desc, tmp_path)
    done = threading.Event()

    def step():
        for _ in range(300):
            run.step({})
        done.set()

    def predict():
        seen = []
        while not done.is_set():
            rows = run.predict(np.zeros((31, 3), np.float32))["steps"]
            assert len(np.unique(rows)) == 1
            seen.append(rows.flat[0])
        return seen

    _, *seen = at_once(step, *[predict] * 3)
    assert all(found == sorted(found) for found in seen)
    assert run.state["w"] == 300


def test_steps_that_train_from_eight_threads_are_all_made(tmp_path):
    run = runtime.Run(counting().compile(batch=2).desc, tmp_path)
    at_once(*[lambda: [run.step({}) for _ in range(25)]] * THREADS)
    assert run.state["w"] == run.state["step"] == 25 * THREADS


def test_states_are_written_whole(path):
    run = runtime.load(path)

    def write(number):
        for _ in range(50):
            run.state["w"] = np.full(3, number, np.float32)

    def read():
        return [len(np.unique(run.state["w"])) for _ in range(200)]

    *_, first, second = at_once(*(lambda i=i: write(i) for i in range(THREADS - 2)), read, read)
    assert set(first + second) == {1}


def test_between_two_events_any_thread_may_predict(path):
    run, x = runtime.load(path), arrays()["x"]
    quiet = runtime.load(path)
    list(quiet.events())
    for _ in run.events():
        here = run.predict(x)["prediction"]
        [there] = at_once(lambda: run.predict(x)["prediction"])
        np.testing.assert_array_equal(here, there)
        run.evaluate("test")
    assert run.states.sha256() == quiet.states.sha256()


def test_predictions_run_side_by_side(path):
    run, x = runtime.load(path), arrays()["x"]
    together = threading.Barrier(2)
    rows = run.session.rows("predict", {"x": x[: 2 * BATCH]})
    expected = run.predict(x[: 2 * BATCH])["prediction"]
    before = run.session.workspaces.arena_bytes

    def predict():
        return run_over(run.session, "predict", rows, between=lambda: together.wait(LONG)).arrays["prediction"]

    for found in at_once(predict, predict):  # each step waits until the other thread is at one as well
        np.testing.assert_array_equal(found, expected)
    assert run.session.workspaces.arena_bytes == 2 * before


def test_one_thread_alone_keeps_to_one_arena(path):
    run = runtime.load(path)
    list(run.events())
    before = run.session.workspaces.arena_bytes
    run.predict(arrays()["x"])
    at_once(lambda: run.predict(arrays()["x"]))
    assert run.session.workspaces.arena_bytes == before


@pytest.fixture
def wide(tmp_path):
    """A program whose arena is much larger than its rows and results."""
    program = Program("wide")
    x, w = program.input("x", "float32", ("batch", 3)), program.parameter("w", (3, 5000), zeros())
    prediction = ops.sum(ops.exp(x @ w), axis=(1,))
    program.minimize(ops.mean(prediction), sgd(rate=0.1))
    program.outputs(prediction=prediction)
    program.compile(batch=BATCH).save(tmp_path / "wide.pb", force=True)
    return tmp_path / "wide.pb"


def test_predictions_wait_where_the_memory_is_for_one(wide):
    path, x = wide, arrays()["x"][:BATCH]
    free = runtime.load(path)
    expected = free.predict(x)["prediction"]
    limit = free.memory.taken + 1000 * THREADS  # numbers and results of their rows
    run = runtime.load(path, max_memory=limit)
    for found in at_once(*[lambda: [run.predict(x)["prediction"] for _ in range(10)]] * THREADS):
        assert all(np.array_equal(one, expected) for one in found)
    assert run.memory.most <= limit


def test_a_prediction_inside_an_evaluation_does_not_wait_for_itself(wide):
    path, x = wide, arrays()["x"][:BATCH]
    free = runtime.load(path)
    expected = free.predict(x)["prediction"]

    def nested(run):
        found = []
        rows = run.session.rows("predict", {"x": x[:BATCH]})
        run_over(run.session, "predict", rows, between=lambda: found.append(run.predict(x)["prediction"]))
        return found[0]

    np.testing.assert_array_equal(nested(free), expected)
    one = runtime.load(path)
    one.predict(x)
    limit = one.memory.taken + 48 * BATCH
    tight = runtime.load(path, max_memory=limit)
    tight.predict(x)
    found = told(runtime.ResourceLimit, lambda: nested(tight))
    assert re.fullmatch(rf"with the arena the run needs \d+ bytes.*, and the limit is {limit} bytes.*", found)
    np.testing.assert_array_equal(tight.predict(x)["prediction"], expected)  # it still works


def test_states_do_not_change_under_who_reads_them(path):
    run = runtime.load(path)
    rows = run.session.rows("predict", {"x": arrays()["x"]})

    def change():
        run.state["w"] = [1, 2, 3]

    found = told(runtime.UsageError, lambda: run_over(run.session, "predict", rows, between=change))
    assert found == (
        "states are changed while the same thread evaluates or predicts; change them afterwards, or enter the step "
        "that trains first, as in: with train, predict"
    )
    change()
    assert run.state["w"].tolist() == [1, 2, 3]


BUSY = "the run trains already; take all events of that call of events(), or close() them"


def test_two_trainings_of_one_run_are_one_sentence(path):
    run = runtime.load(path)
    events = run.events()
    next(events)
    assert told(runtime.UsageError, run.train) == f"train: {BUSY}"
    with ThreadPoolExecutor(1) as pool:
        assert told(runtime.UsageError, pool.submit(run.train).result) == f"train: {BUSY}"
    assert told(runtime.UsageError, lambda: run.resume(path)) == f"resume: {BUSY}"
    events.close()
    whole = runtime.load(path)
    list(whole.events())
    list(run.events())
    assert run.states.sha256() == whole.states.sha256()


def test_of_eight_threads_one_trains(path):
    run, whole = runtime.load(path), runtime.load(path)
    list(whole.events())
    met = threading.Barrier(THREADS)

    def train():
        try:
            events = run.events()
        except runtime.UsageError as error:
            events = str(error)
        met.wait(LONG)
        return events if isinstance(events, str) else len(list(events))

    found = at_once(*[train] * THREADS)
    assert found.count(f"events: {BUSY}") == THREADS - 1
    assert run.states.sha256() == whole.states.sha256()


def test_a_training_that_was_left_goes_on(path):
    run, whole = runtime.load(path), runtime.load(path)
    list(whole.events())
    run.events()  # never begun
    for event in run.events():
        if event.step == 5:
            break
    list(run.events())
    assert run.states.sha256() == whole.states.sha256()


def test_an_error_in_one_thread_leaves_the_others_their_turns(path):
    run, x = runtime.load(path), arrays()["x"]
    expected = run.predict(x)["prediction"]

    def fails():
        rows = run.session.rows("predict", {"x": x})
        with pytest.raises(ZeroDivisionError):
            run_over(run.session, "predict", rows, between=lambda: 1 // 0)

    *_, found = at_once(*[fails] * (THREADS - 1), lambda: run.predict(x)["prediction"])
    np.testing.assert_array_equal(found, expected)
    list(run.events())


def test_who_waited_to_read_goes_before_the_next_that_changes():
    locks = StateLocks()
    order = []

    def read():
        with locks.shared():
            order.append("read")

    reader = threading.Thread(target=read)
    with locks.exclusive():
        reader.start()
        while not locks._queued:
            time.sleep(0.001)
    for _ in range(3):  # as a training does, which asks again at once
        with locks.exclusive():
            order.append("changed")
    reader.join(LONG)
    assert order == ["read", "changed", "changed", "changed"]


def test_who_waits_to_change_goes_before_those_that_come_later_to_read():
    locks = StateLocks()
    order = []

    def act(lock, word):
        with lock():
            order.append(word)

    with locks.shared():
        writer = threading.Thread(target=act, args=(locks.exclusive, "changed"))
        writer.start()
        while not locks._waiting:
            time.sleep(0.001)
        reader = threading.Thread(target=act, args=(locks.shared, "read"))
        reader.start()
        while not locks._queued:
            time.sleep(0.001)
        assert order == []
    writer.join(LONG)
    reader.join(LONG)
    assert order == ["changed", "read"]


@pytest.mark.parametrize("engine", ["reference", None])
def test_predictions_during_a_training_are_right_and_change_nothing(engine):
    found = look(400, THREADS, engine)
    assert found.predictions == 400
    assert found.seen >= STEPS // 2, "they are of states in the middle of the training"
