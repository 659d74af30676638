"""`runtime sweep`: every combination is run, sorted by what the program judges by, and can be made again."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from subjects.cluster import with_a_lost_worker
from subjects.commands import fields
from subjects.commands import run_runtime as run
from subjects.small_programs import save

from compiler import Program, ops, sgd, zeros
from prograd_proto import program_pb2 as pb
from runtime.commands.sweeps import runs
from runtime.commands.sweeps.runs import Outcome, outcomes, trials
from runtime.commands.sweeps.search import combinations
from runtime.commands.sweeps.seeds import seed_table
from runtime.commands.sweeps.table import as_json, in_order, table


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with `p.pb`, whose settings are `rate` and `drop`, and its rows."""
    program = Program("line", seed=5)
    x, y = program.input("x", "float32", ("batch", 3)), program.input("y", "float32", ("batch",))
    prediction = ops.sum(x * program.parameter("w", (3,), zeros()), axis=(1,))
    program.minimize(ops.squared_error(prediction, y), sgd(program.setting("rate", 0.1)))
    program.setting("other", 1.0)
    save(program, tmp_path, epochs=2)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.thorough
def test_the_best_run_stands_first_a_failed_one_last_and_the_command_gives_the_same_bits(folder, capsys):
    code, out, err = run(capsys, "sweep", "p.pb", "--set", "rate=1e-3,1e30,0.05", "--jobs", 2, "--results", "r.jsonl")
    assert code == 1
    assert out[0].split() == ["run", "rate", "seed", "evaluate.loss", "loss", "wall", "state_sha256"]
    assert [line.split()[:3] for line in out[1:4]] == [["3", "0.05", "5"], ["1", "0.001", "5"], ["2", "1e+30", "5"]]
    assert out[3].endswith("failed with code 5")
    assert out[4] == ""
    assert out[5] == "3  runtime execute p.pb --set rate=0.05 --seed 5"
    assert out[-1].startswith("FAILED runs=3 failed=1 best=3 evaluate.loss=")
    assert "runtime: run 2, rate=1e+30 seed=5, failed: step 2: loss is inf; a lower learning rate" in err
    lines = {line["run"]: line for line in map(json.loads, Path("r.jsonl").read_text().splitlines())}
    assert lines.keys() == {1, 2, 3}
    assert lines[2]["code"] == 5
    assert lines[2]["error"].startswith("step 2: loss is inf")
    best = lines[3]
    assert (best["settings"], best["seed"], best["code"], best["error"]) == ({"rate": 0.05}, 5, 0, None)
    assert best["command"] == out[5][3:]
    again = run(capsys, *shlex.split(best["command"])[1:], "-q")[1][-1]
    assert fields(again)["state_sha256"] == best["state_sha256"]
    assert float(fields(again)["evaluate.loss"]) == best["metrics"]["evaluate.loss"]


def test_every_combination_has_every_seed_and_further_words():
    asked = list(trials("p q.pb", combinations({"a": [1e-4, 2], "b": [0.5, 1.0]}), [7, 8], ["--epochs", "3"]))
    assert [trial.number for trial in asked] == [*range(1, 9)]
    assert [str(trial) for trial in asked[:3]] == [
        "a=0.0001 b=0.5 seed=7",
        "a=0.0001 b=0.5 seed=8",
        "a=0.0001 b=1.0 seed=7",
    ]
    assert asked[7].command == "runtime execute 'p q.pb' --set a=2 --set b=1.0 --seed 8 --epochs 3"


def judged(**run) -> list[int]:
    """The order of four runs of which one failed and one has NaN."""
    program = pb.ProgramDesc(run=pb.RunDesc(evaluate=pb.EvaluateDesc(entry="test"), **run))
    found = [
        ({"loss": "1", "test.loss": "3", "test.f1": "0.5"}, 0),
        ({"loss": "2", "test.loss": "2", "test.f1": "nan"}, 0),
    ]
    found += [({}, 5), ({"loss": "3", "test.loss": "4", "test.f1": "0.9"}, 0)]
    asked = list(trials("p.pb", combinations({"a": [1, 2, 3, 4]}), [0], []))
    done = [Outcome(trial, code, values, "") for trial, (values, code) in zip(asked, found, strict=True)]
    assert len([*table(program, done)]) == 10
    return [outcome.trial.number for outcome in in_order(program, done)]


def test_runs_are_sorted_by_what_keeps_the_best_states_else_by_the_loss():
    keep = pb.KeepBestDesc(metric="f1", direction=pb.DIRECTION_MAX)
    assert judged() == [2, 1, 4, 3]
    assert judged(keep_best=keep) == [4, 1, 2, 3]
    keep.direction = pb.DIRECTION_MIN
    assert judged(keep_best=keep) == [1, 4, 2, 3]


@pytest.mark.parametrize(("metric", "order"), [("accuracy", [3, 1, 2]), ("error", [2, 1, 3]), ("spread", [1, 2, 3])])
def test_runs_without_a_loss_are_sorted_by_what_their_metric_s_name_says(metric: str, order: list[int]):
    asked = list(trials("p.pb", combinations({"a": [1, 2, 3]}), [0], []))
    values = zip(asked, ("0.5", "0.2", "0.9"), strict=True)
    done = [Outcome(trial, 0, {metric: value, "other": "1"}, "") for trial, value in values]
    assert [outcome.trial.number for outcome in in_order(pb.ProgramDesc(), done)] == order


def test_seeds_of_equal_settings_are_summed_up_as_mean_and_deviation_the_best_mean_first():
    keep = pb.KeepBestDesc(metric="accuracy", direction=pb.DIRECTION_MAX)
    program = pb.ProgramDesc(run=pb.RunDesc(evaluate=pb.EvaluateDesc(entry="test"), keep_best=keep))
    asked = list(trials("p.pb", combinations({"rate": [0.1, 0.2, 0.3, 0.4]}), [1, 2, 3], []))
    accuracies = ("0.5", "0.6", "0.7", "0.8", "0.8", "0.8", "0.9", "", "", "nan", "0.5", "0.5")
    done = [
        Outcome(trial, 0 if text else 5, {"loss": "2", "test.accuracy": text} if text else {}, "")
        for trial, text in zip(asked, accuracies, strict=True)
    ]
    assert [*seed_table(program, done)] == [
        "mean ± standard deviation",
        "rate  seeds  test.accuracy     loss",
        " 0.3      1      0.9 ± nan  2 ± nan",
        " 0.2      3        0.8 ± 0    2 ± 0",
        " 0.1      3      0.6 ± 0.1    2 ± 0",
        " 0.4      3      nan ± nan    2 ± 0",
    ]
    assert [*seed_table(program, done[::3])] == []


@pytest.mark.thorough
def test_a_sweep_of_seeds_prints_their_means_before_its_last_line(folder, capsys):
    code, out, _ = run(capsys, "sweep", "p.pb", "--set", "rate=1e-3,0.05", "--seeds", 2, "-q")
    assert code == 0
    at = out.index("mean ± standard deviation")
    assert out[at - 1] == ""
    assert out[at + 1].split() == ["rate", "seeds", "evaluate.loss", "loss"]
    assert [line.split()[:2] for line in out[at + 2 : -1]] == [["0.05", "2"], ["0.001", "2"]]
    assert out[-1].startswith("OK runs=4 failed=0 ")


def test_numbers_that_json_has_not_are_words():
    [trial] = trials("p.pb", combinations({}), [0], [])
    assert as_json(Outcome(trial, 0, {"loss": "nan", "wall": "1.5", "set.a": "1"}, ""))["metrics"] == {"loss": "nan"}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--set", "rate=1,-1"], "the setting 'rate' is from 0 on, and -1 is not"),
        (["--set", "rte=1"], "the program has no setting 'rte'; did you mean 'rate'?"),
        (
            ["--set", "rate=1", "--set", "rate=2"],
            "--set rate: the setting is given twice; give all its values at once, as in 1e-3,1e-4",
        ),
        (
            ["--set", "rate=1,,2"],
            "argument --set: 'rate=1,,2' is not NAME=NUMBER,NUMBER as in rate=1e-4,3e-4; see runtime sweep --help",
        ),
        (["--seeds", "10001"], "these are 10001 runs; a sweep has at most 10000"),
        (["--results", "p.pb"], "p.pb: the file exists; --force replaces it"),
        (["--seed", str(2**63 - 1), "--seeds", "2"], f"--seeds 2: the seeds from {2**63 - 1} on leave 64 bits"),
    ],
)
def test_what_cannot_be_is_refused_before_any_run(folder, capsys, options, sentence):
    code, out, err = run(capsys, "sweep", "p.pb", *options)
    assert (code, out, err) == (2, [], f"runtime: {sentence}\n")


def test_runs_that_are_under_way_end_with_the_sweep(monkeypatch):
    begun = threading.Semaphore(0)
    processes: list[subprocess.Popen[str]] = []

    class Sleeping(subprocess.Popen):
        def __init__(self, *_, **options):
            super().__init__([sys.executable, "-c", "import time; time.sleep(60)"], **options)
            processes.append(self)
            begun.release()

    monkeypatch.setattr(runs.subprocess, "Popen", Sleeping)
    found = outcomes(trials("p.pb", combinations({"a": [1, 2, 3, 4]}), [0], []), 2)

    def kill_one() -> None:
        for _ in range(2):
            begun.acquire(timeout=60)
        processes[0].kill()

    threading.Thread(target=kill_one).start()
    first = next(found)
    assert (first.code, first.error) == (-9, "it ended with code -9, and said nothing")
    assert begun.acquire(timeout=60), "the third took its place"
    found.close()
    assert [process.poll() for process in processes] == [-9, -15, -15]


def test_a_signal_ends_the_sweep_and_its_runs_in_one_sentence(folder):
    words = [sys.executable, "-P", "-m", "runtime", "sweep", "p.pb", "--set", "rate=1e-3", "--seeds", "9"]
    with subprocess.Popen(
        [*words, "--jobs", "2", "--epochs", "1000000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as sweep:
        while sweep.poll() is None and not any(_children(sweep.pid)):
            time.sleep(0.02)
        sweep.terminate()
        found = _end_of(sweep)
    assert found == (143, "", "runtime: interrupted after 0 of 9 runs\n")


# When a signal comes is a matter of microseconds: here it comes when the script says. Runs only sleep.
AT_A_MOMENT = """
import os, signal, subprocess, sys, threading, time
from runtime.commands.sweeps import runs

def is_waiting():
    return sys._current_frames()[threading.main_thread().ident].f_code.co_name == "wait"

class Run(subprocess.Popen):
    told = False
    def __init__(self, *words, **options):
        self.tell("before a run starts")
        super().__init__([sys.executable, "-c", "import time; time.sleep(600)"], **options)
        self.tell("after a run started")
    def communicate(self):
        while not is_waiting():
            time.sleep(0.01)
        time.sleep(0.1)
        self.tell("while the sweep waits")
        return super().communicate()
    def tell(self, moment):
        if moment == {moment!r} and not Run.told:
            Run.told = True
            signal.pthread_kill(threading.get_ident(), signal.SIGTERM)  # this thread gets it: no wait is interrupted

runs.subprocess.Popen = Run
sys.argv = ["runtime", "sweep", "p.pb", "--seeds", "9", "--jobs", "2"]
from runtime.__main__ import main
sys.exit(main())
"""


@pytest.mark.parametrize("moment", ["before a run starts", "after a run started", "while the sweep waits"])
def test_a_signal_that_interrupts_no_wait_ends_the_sweep_as_well(folder, moment):
    with subprocess.Popen(
        [sys.executable, "-c", AT_A_MOMENT.format(moment=moment)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as sweep:
        found = _end_of(sweep)
    assert found == (143, "", "runtime: interrupted after 0 of 9 runs\n")


def _end_of(sweep: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Return exit code and output; check that the sweep and its runs leave no process."""
    try:
        out, err = sweep.communicate(timeout=60)
    finally:
        for number in _children(sweep.pid) if sweep.poll() is None else []:
            os.kill(int(number), signal.SIGKILL)
        sweep.kill()
    return sweep.returncode, out, err


def _children(number: int) -> list[str]:
    return [line for task in Path(f"/proc/{number}/task").iterdir() for line in (task / "children").read_text().split()]


@pytest.mark.thorough
def test_parts_make_every_run_once_and_their_files_give_the_table_of_all(folder, capsys):
    words = ["sweep", "p.pb", "--set", "rate=1e-3,1e-2,0.05", "--seeds", 1, "-q"]
    _, whole, _ = run(capsys, *words)
    Path("parts").mkdir()
    for part in (1, 2):
        code, out, _ = run(capsys, *words, "--part", f"{part}/2", "--results", f"parts/{part}.jsonl")
        assert code == 0
        assert fields(out[-1])["runs"] == ("2" if part == 1 else "1")
    code, out, _ = run(capsys, "sweep", "p.pb", "--merge", "parts")
    assert code == 0
    assert [line.split()[:5] for line in out[:4]] == [line.split()[:5] for line in whole[:4]]
    assert [line.split()[-1] for line in out[1:4]] == [line.split()[-1] for line in whole[1:4]]
    assert fields(out[-1])["best"] == fields(whole[-1])["best"]
    code, lines, _ = run(capsys, "sweep", "p.pb", "--merge", "parts/1.jsonl", "--merge", "parts/2.jsonl", "--json")
    assert [json.loads(line)["run"] for line in lines[:3]] == [1, 2, 3]


def test_what_cannot_be_merged_is_refused(folder, capsys):
    def said(*words: object) -> str:
        code, _, err = run(capsys, "sweep", "p.pb", *words)
        assert code != 0
        return err

    assert said("--set", "rate=0.1", "--part", "3/2") == (
        "runtime: argument --part: '3/2' is no part I/N, as in 3/16; see runtime sweep --help\n"
    )
    assert said("--merge", "a.jsonl", "--set", "rate=0.1") == (
        "runtime: --merge makes no run: it prints the table of runs that were made; leave other options out\n"
    )
    assert said("--merge", "none.jsonl") == "runtime: none.jsonl: the file cannot be read: No such file or directory\n"
    Path("bad.jsonl").write_text('{"run": 1}\n')
    assert said("--merge", "bad.jsonl") == "runtime: bad.jsonl: line 1 is no run of a sweep\n"
    for text in (
        "[" * 100_000,
        '{"run": Infinity}',
        '{"run": 1, "settings": {"rate": "0.1"}}',
        '{"run": 1, "settings": {"rate": Infinity}}',
    ):
        Path("bad.jsonl").write_text(text + "\n")
        assert said("--merge", "bad.jsonl") == "runtime: bad.jsonl: line 1 is no run of a sweep\n"
    Path("empty").mkdir()
    assert said("--merge", "empty") == "runtime: there is no run in these files\n"
    run(capsys, "sweep", "p.pb", "--set", "rate=0.1", "--results", "a.jsonl", "-q")
    run(capsys, "sweep", "p.pb", "--set", "rate=0.2", "--results", "b.jsonl", "-q")
    assert said("--merge", "a.jsonl", "--merge", "b.jsonl") == (
        "runtime: run 1 of a.jsonl and that of b.jsonl are of different sweeps\n"
    )
    other = json.loads(Path("a.jsonl").read_text()) | {"run": 2, "settings": {"rate": 0.1, "size": 3}}
    Path("b.jsonl").write_text(json.dumps(other) + "\n")
    assert said("--merge", "a.jsonl", "--merge", "b.jsonl") == (
        "runtime: run 1 of a.jsonl has values of rate, run 2 of b.jsonl of rate, size; merge runs of one sweep\n"
    )
    other = json.loads(Path("a.jsonl").read_text()) | {"code": float("inf")}
    Path("b.jsonl").write_text(json.dumps(other) + "\n")
    assert said("--merge", "b.jsonl") == "runtime: b.jsonl: line 1 is no run of a sweep\n"


@pytest.mark.thorough
def test_a_cluster_makes_all_runs_though_a_worker_is_lost(folder, capsys):
    pytest.importorskip("distributed", reason="Dask is an extra")
    _, here, _ = run(capsys, "sweep", "p.pb", "--set", "rate=1e-3,1e-2,0.05,0.1", "-q", "--threads", 1)
    done = with_a_lost_worker(1.0, ["sweep", "p.pb", "--set", "rate=1e-3,1e-2,0.05,0.1", "-q"], Path())
    assert done.returncode == 0, done.stderr
    out = done.stdout.splitlines()
    assert [line.split()[:3] for line in out[:5]] == [line.split()[:3] for line in here[:5]]
    assert [line.split()[-1] for line in out[1:5]] == [line.split()[-1] for line in here[1:5]]
    assert fields(out[-1])["failed"] == "0"


def test_a_scheduler_that_is_not_there_is_said(folder, capsys):
    pytest.importorskip("distributed", reason="Dask is an extra")
    from runtime.commands.sweeps import cluster

    before, cluster.CONNECT_SECONDS = cluster.CONNECT_SECONDS, 1
    try:
        code, _, err = run(capsys, "sweep", "p.pb", "--set", "rate=1", "--scheduler", "tcp://127.0.0.1:1")
    finally:
        cluster.CONNECT_SECONDS = before
    assert code == 2
    assert err.startswith("runtime: --scheduler tcp://127.0.0.1:1: there is no scheduler: ")
