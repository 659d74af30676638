"""Signals at every time of a process: while it imports, while it loads, while it trains, and under nohup."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from subjects.small_programs import rich, save

from runtime.runs.interrupts import Interrupted, Interrupts

ENDINGS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]

# The process sends itself a signal when a module is first asked for, which is a moment that can be repeated.
AT_IMPORT = """
import os, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), {number})
sys.meta_path.insert(0, Finder())
sys.argv = ["runtime", "execute", "p.pb", "-q"]
from runtime.__main__ import main
sys.exit(main())
"""


def send(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)
    sum(range(1000))  # Python acts on it between two of its instructions


def child(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("number", ENDINGS)
@pytest.mark.parametrize("module", ["runtime.commands", "numpy", "numpy.linalg", "runtime.runs.run"])
def test_a_signal_while_modules_are_imported_is_one_sentence(tmp_path, module, number):
    save(rich(), tmp_path)
    done = child(tmp_path, AT_IMPORT.format(module=module, number=int(number)))
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, "", "runtime: interrupted\n")


WHILE_LOADING = """
import os, sys
import runtime.runs.run, runtime.runs.states
def initialise(self, seed=None):
    os.kill(os.getpid(), {number})
    sum(range(1000))
    print("went on")
runtime.runs.states.States.initialise = initialise
sys.argv = ["runtime", "execute", "p.pb", "-q", "--checkpoint", "c"]
from runtime.__main__ import main
sys.exit(main())
"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("number", ENDINGS)
def test_the_first_signal_ends_a_run_that_is_not_under_way(tmp_path, number):
    save(rich(), tmp_path)
    before = sorted(tmp_path.iterdir())
    done = child(tmp_path, WHILE_LOADING.format(number=int(number)))
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, "", "runtime: interrupted\n")
    assert sorted(tmp_path.iterdir()) == before


IGNORED = """
import os, signal, sys
signal.signal(signal.SIGHUP, signal.SIG_IGN)
import runtime.runs.training
step = runtime.runs.training.Training._step
def and_hang_up(self):
    os.kill(os.getpid(), signal.SIGHUP)
    return step(self)
runtime.runs.training.Training._step = and_hang_up
sys.argv = ["runtime", "execute", "p.pb", "-q"]
from runtime.__main__ import main
sys.exit(main())
"""


def test_a_signal_that_is_ignored_as_under_nohup_stays_so(tmp_path):
    save(rich(), tmp_path)
    done = child(tmp_path, IGNORED)
    assert (done.returncode, done.stderr) == (0, "")


def test_only_a_second_ctrl_c_is_impatient():
    with Interrupts(*ENDINGS) as interrupts:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGHUP)
        with pytest.raises(Interrupted) as second:
            send(signal.SIGINT)
        with pytest.raises(Interrupted) as first:
            interrupts.check()
        interrupts.check()
    assert (first.value.number, second.value.number) == (signal.SIGTERM, signal.SIGINT)


def test_held_signals_wait_and_others_do_not():
    with Interrupts(signal.SIGTERM, at_once=True) as interrupts:
        with pytest.raises(Interrupted):
            send(signal.SIGTERM)
        with pytest.raises(Interrupted):
            interrupts.check()  # it might have been swallowed where it came
        interrupts.hold()
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(Interrupted):
            interrupts.check()
