"""A limit of time, or a wish to end, holds within a step and before the first one; clocks here are not real."""

import signal
import threading
from pathlib import Path

import numpy as np
import pytest
from subjects.small_programs import rich, save

from compiler import Program, ops
from runtime.__main__ import main
from runtime.engines.reference.threads.in_phases import InPhases
from runtime.engines.reference.threads.lanes import Lanes
from runtime.errors import OutOfTime
from runtime.runs import overtime
from runtime.runs.interrupts import ENDINGS, Interrupted, Interrupts
from runtime.runs.overtime import ALARM_SECONDS, EXTRA_CALL_SECONDS, EXTRA_STEP_SECONDS, Overtime
from runtime.runs.states import States

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="Windows has no alarms")


class Clock:
    """Shows the time that it is set to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(overtime, "perf_counter", clock)
    return clock


def ring() -> None:
    signal.raise_signal(signal.SIGALRM)


def test_before_the_first_step_an_alarm_raises_anywhere(clock: Clock):
    with Overtime(1000.0):
        clock.now += 999
        ring()
        clock.now += 1
        with pytest.raises(OutOfTime, match=r"^the run took its 1000 seconds$"):
            ring()


class Slow:
    """An object whose end takes until the alarm has come."""

    def __del__(self) -> None:
        ring()


def test_an_alarm_while_an_object_is_freed_waits_for_its_end(clock: Clock):
    """An exception would be dropped there, and its words would stand on stderr."""
    with Overtime(1000.0):
        clock.now += 1000
        slow = [Slow()]
        slow.clear()  # says nothing, and comes again soon
        with pytest.raises(OutOfTime):
            signal.pause()


def test_between_steps_an_alarm_does_nothing_and_the_check_raises(clock: Clock):
    with Overtime(1000.0) as limit:
        limit.hold(keeps=False)
        limit.check()
        clock.now += 1000
        ring()
        with pytest.raises(OutOfTime):
            limit.check()


def test_a_step_is_cut_at_once_where_nothing_is_kept(clock: Clock):
    def step() -> None:
        clock.now += 1000
        ring()

    with Overtime(1000.0) as limit:
        limit.hold(keeps=False)
        with pytest.raises(OutOfTime):
            limit.step(step)
        ring()  # the step is over


def test_a_step_before_a_checkpoint_has_as_long_as_the_longest_and_a_second_more(clock: Clock):
    seconds = [30.0]

    def step() -> None:
        clock.now += seconds.pop()
        ring()

    with Overtime(1000.0) as limit:
        limit.hold(keeps=True)
        limit.step(step)
        seconds[:] = [970.0 + 30.0 + EXTRA_STEP_SECONDS - 0.5]
        limit.step(step)
        with pytest.raises(OutOfTime):
            limit.check()
        seconds[:] = [1000.0]
        with pytest.raises(OutOfTime):
            limit.step(step)


def test_a_wish_to_end_cuts_a_step_by_its_own_error(clock: Clock):
    def step() -> None:
        limit.ask(lambda: KeyboardInterrupt("wished"))
        ring()

    with Overtime(None) as limit:
        limit.hold(keeps=False)
        with pytest.raises(KeyboardInterrupt, match="wished"):
            limit.step(step)
        with pytest.raises(KeyboardInterrupt, match="wished"):
            limit.check()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_cuts_a_step_where_nothing_is_kept(number: int, clock: Clock):
    def step() -> None:
        signal.raise_signal(number)
        ring()

    with Interrupts(*ENDINGS, at_once=True) as interrupts, Overtime(None) as limit:
        interrupts.hold(limit.ask)
        limit.hold(keeps=False)
        with pytest.raises(Interrupted) as caught:
            limit.step(step)
    assert caught.value.number == number


def test_a_signal_leaves_a_step_its_time_where_a_checkpoint_follows(clock: Clock):
    def step() -> None:
        signal.raise_signal(signal.SIGTERM)
        clock.now += EXTRA_STEP_SECONDS - 0.5
        ring()

    with Interrupts(*ENDINGS, at_once=True) as interrupts, Overtime(None) as limit:
        interrupts.hold(limit.ask)
        limit.hold(keeps=True)
        limit.step(step)
        with pytest.raises(Interrupted):
            interrupts.check()


def test_alarms_end_with_the_limit():
    with Overtime(1000.0):
        assert signal.getitimer(signal.ITIMER_REAL)[1] == ALARM_SECONDS
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) == signal.SIG_DFL


def test_alarms_of_somebody_else_stay():
    def handler(*_: object) -> None:
        """Somebody else's."""

    before = signal.signal(signal.SIGALRM, handler)
    try:
        with Overtime(1000.0) as limit:
            assert signal.getsignal(signal.SIGALRM) == handler
            assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
            limit.check()
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_call_that_does_not_return_ends_the_process(clock: Clock, monkeypatch: pytest.MonkeyPatch):
    said: list[str] = []
    codes: list[int] = []

    def leave(code: int) -> None:
        codes.append(code)
        limit._left.set()

    monkeypatch.setattr(overtime.os, "_exit", leave)
    limit = Overtime(2.0, said.append)
    clock.now += 2.0 + EXTRA_CALL_SECONDS
    limit._watch()
    assert (codes, said) == ([6], ["the run took its 2 seconds, and one operation went on for 1 more"])


def products(folder: Path) -> None:
    """A program whose one step is 400 products, of which each takes about a tenth of a second."""
    program = Program("products")
    x = y = program.input("x", "float32", (1000, 1000))
    for _ in range(400):
        y = ops.matmul(y, x)
    program.outputs(y=ops.mean(y))
    program.compile().save(folder / "p.pb", force=True)
    np.save(folder / "x.npy", np.zeros((1000, 1000), np.float32))


@pytest.mark.parametrize("threads", ["1", "2"])
def test_the_limit_of_time_holds_within_a_step(threads: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    products(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(overtime, "EXTRA_CALL_SECONDS", 600.0)
    arguments = ["--feed=x=@x.npy", "--max-time=0.7", "--threads", threads]
    assert main(["execute", "p.pb", *arguments]) == 6
    out, err = capsys.readouterr()
    assert out == ""
    assert "the run took its 0.7 seconds\n" in err


def test_the_limit_of_time_holds_while_states_are_initialised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    save(rich(), tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(overtime, "EXTRA_CALL_SECONDS", 600.0)  # a busy machine ends no test
    ended: list[bool] = []
    initialise = States.initialise

    def slow(self: States, seed: int | None = None) -> None:
        initialise(self, seed)
        for _ in range(100):
            threading.Event().wait(0.1)
        ended.append(True)

    monkeypatch.setattr(States, "initialise", slow)
    assert main(["execute", "p.pb", "-q", "--max-time", "0.2"]) == 6
    assert capsys.readouterr().err == "runtime: the run took its 0.2 seconds\n"
    assert not ended


NONE_YET = "; there is no checkpoint in c yet, so the next run begins at step 1"


@pytest.mark.parametrize(("every", "kept"), [("1", "; --resume goes on from the last checkpoint in c"), ("2", "")])
def test_a_step_that_is_cut_leaves_the_last_checkpoint(
    every: str, kept: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
):
    save(rich(), tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["execute", "p.pb", "-q"]) == 0
    whole = capsys.readouterr().out.rpartition("=")[2]
    steps: list[Overtime] = []
    make = Overtime.step

    def cut_in_the_second(self: Overtime, step) -> None:
        steps.append(self)
        if len(steps) < 2:
            make(self, step)
            return
        self._error = lambda: OutOfTime("op 7 (matmul): the run took its 9 seconds")
        self._asked = 0.0
        make(self, lambda: (step(), ring()))

    monkeypatch.setattr(Overtime, "step", cut_in_the_second)
    monkeypatch.setattr(overtime, "EXTRA_STEP_SECONDS", 0.0)
    arguments = ["execute", "p.pb", "-q", "--checkpoint", "c", "--every", every]
    assert main([*arguments, "--max-time", "1000"]) == 6
    said = capsys.readouterr().err
    assert said == f"runtime: op 7 (matmul): the run took its 9 seconds{kept or NONE_YET}\n"
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert [file.name for file in tmp_path.glob("c/*")] == (["step-0000000001.safetensors"] if kept else [])
    assert main([*arguments, *(["--resume"] if kept else [])]) == 0
    assert capsys.readouterr().out.rpartition("=")[2] == whole


def test_a_thread_that_is_in_a_phase_ends_after_the_op_that_it_is_at():
    """The caller is cut while another thread is in the first of three ops."""
    main_thread = threading.main_thread()
    begun = threading.Event()
    made: list[str] = []

    def first() -> None:
        if threading.current_thread() is main_thread:
            begun.wait(60)
            raise OutOfTime("over")
        begun.set()
        while not way._ends:
            pass
        made.append("first")

    way = InPhases([[[0, 1, 2], [3, 4, 5]]])
    rest = [lambda: made.append("second"), lambda: made.append("third")]
    failure = way.run([first, *rest, first, *rest])
    way.close()
    assert failure is not None
    assert isinstance(failure.error, OutOfTime)
    assert made == ["first"]


def test_transfers_end_after_the_op_that_they_are_at():
    begun = threading.Event()
    made: list[str] = []

    def compute() -> None:
        begun.wait(60)
        raise OutOfTime("over")

    def transfer() -> None:
        begun.set()
        while len(lanes._calls):
            pass
        made.append("transfer")

    lanes = Lanes([set(), set(), set()], [False, True, True])
    failure = lanes.run([compute, transfer, lambda: made.append("next")])
    lanes.close()
    assert failure is not None
    assert isinstance(failure.error, OutOfTime)
    assert made == ["transfer"]
