"""Endings of the command `runtime` when it is stopped, limited or given contradicting options."""

import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from subjects.commands import ended
from subjects.small_programs import arrays, linear, rich, save

from runtime.__main__ import main
from runtime.commands import execute
from runtime.commands.reports.metrics_file import MetricsFile
from runtime.runs.interrupts import Interrupted


def run(capsys, *arguments) -> tuple[int, str, str]:
    """The exit code, stdout and stderr."""
    return ended(capsys, main, *arguments)


def state_hash(out: str) -> str:
    return out.rpartition("state_sha256=")[2].strip()


def started(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """The command on a long run, in a process of its own that has made its first steps."""
    command = [sys.executable, "-m", "runtime", "execute", "p.pb", "--epochs", "100000", "--metrics", "m.jsonl"]
    child = subprocess.Popen(
        [*command, *arguments], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stderr is not None
    assert any("epoch 1 " in line for line in iter(child.stderr.readline, ""))
    return child


@pytest.mark.sampled(3)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_with_128_and_its_number_after_a_checkpoint_that_resumes(folder, capsys, number):
    child = started(folder, "--checkpoint", "c", "--every", "1000000")
    child.send_signal(number)
    out, err = child.communicate()
    assert (child.returncode, out) == (128 + number, "")
    [file] = Path("c").iterdir()
    steps = int(file.stem.removeprefix("step-"))
    assert err.endswith(f"runtime: interrupted after step {steps}; --resume goes on from the checkpoint in c\n")
    more = steps + 5
    arguments = ["--steps", more, "--retarget-schedule", "--checkpoint", "c", "--resume"]
    code, out, _ = run(capsys, "execute", "p.pb", "-q", *arguments)
    assert (code, f"steps={more} " in out) == (0, True)


def test_an_interrupt_before_the_first_checkpoint_says_that_there_is_none(folder, capsys, monkeypatch):
    def interrupt(self, event, more) -> None:
        raise Interrupted

    monkeypatch.setattr(MetricsFile, "write", interrupt)
    code, out, err = run(capsys, "execute", "p.pb", "-q", "--checkpoint", "c", "--metrics", "m.jsonl")
    assert (code, out) == (130, "")
    assert not [*Path("c").glob("*.safetensors")]
    assert re.fullmatch(
        r"runtime: interrupted after step [12]; there is no checkpoint in c yet, so the next run begins at step 1\n",
        err,
    )


def test_an_interrupt_without_a_checkpoint_says_so(folder):
    child = started(folder)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate()
    assert (child.returncode, out) == (130, "")
    assert "runtime: interrupted after step " in err
    assert err.endswith("; no checkpoint was asked for\n")
    assert "Traceback" not in err


def test_the_time_limit_ends_with_6(folder, capsys):
    code, out, err = run(capsys, "execute", "p.pb", "-q", "--max-time", "0")
    assert (code, out, err) == (6, "", "runtime: the run took its 0 seconds\n")


def limited(folder: Path, nbytes: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command in a process that cannot write files larger than that."""
    return subprocess.run(
        [sys.executable, "-m", "runtime", "execute", "p.pb", "-q", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},  # what Python keeps would be cut too
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, nbytes)),
    )


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("arguments", "file"),
    [
        (["--save", "s.safetensors"], "s.safetensors"),
        (["--checkpoint", "c"], "c/step-0000000007.safetensors"),
        (["--trace", "t.json"], "t.json"),
        (["--fetch", "x=@x.npy"], "x.npy"),
        (["--metrics", "m.csv"], "m.csv"),
    ],
)
def test_a_full_disk_ends_with_6_and_one_sentence(folder, arguments, file):
    done = limited(folder, 100, *arguments)
    assert (done.returncode, done.stdout) == (6, "")
    assert done.stderr == f"runtime: {file}: the file cannot be written: File too large\n"
    assert not list(folder.rglob("*.tmp"))


def test_a_full_disk_leaves_an_old_file_as_it_was(folder):
    Path("s").write_bytes(b"precious" * 100)
    assert limited(folder, 1000, "--save", "s", "--force").returncode == 6
    assert Path("s").read_bytes() == b"precious" * 100


def test_a_reader_that_leaves_is_no_fault(folder):
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "runtime", "execute", "p.pb", "-q"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, cwd=folder, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (130, "")


def test_a_fault_of_our_own_is_one_sentence_and_code_70(folder, capsys, monkeypatch):
    def broken(options: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(execute, "_loaded", broken)
    code, out, err = run(capsys, "execute", "p.pb")
    assert (code, out) == (70, "")
    assert err == ("runtime: a fault of prograd itself, ZeroDivisionError: division by zero; --traceback shows where\n")
    with pytest.raises(ZeroDivisionError):
        main(["execute", "p.pb", "--traceback"])


def test_too_little_memory_is_a_limit(folder, capsys, monkeypatch):
    def greedy(options: object) -> None:
        raise MemoryError

    monkeypatch.setattr(execute, "_loaded", greedy)
    assert run(capsys, "execute", "p.pb") == (6, "", "runtime: there is not enough memory\n")


CONTRADICTIONS = [
    (["--steps", "1", "--epochs", "1"], "--steps and --epochs both say how long to train; give one of them"),
    (["--every", "1"], "--every says how often to write checkpoints; give --checkpoint"),
    (["--resume"], "--resume goes on from --checkpoint DIR or --load FILE"),
    (["--resume", "--checkpoint", "c", "--seed", "1"], "--seed begins a run, and --resume goes on with one"),
    (["--retarget-schedule"], "--retarget-schedule belongs to --resume"),
    (["--in-place"], "--in-place saves to the file of --load; give --load"),
    (["--in-place", "--load", "s", "--save", "t"], "--in-place and --save both say where to save; give one of them"),
    (["--trace", "t", "--check-nan"], "--trace and --check-nan both look at every op; give one of them"),
    (["--feed", "x=1", "--split", "test"], "--feed and --split both say which rows; give one of them"),
    (["--metrics", "m.txt"], "--metrics m.txt: the name ends in neither .csv nor .jsonl"),
    (["--save", "none/s"], "none/s: there is no such folder"),
    (["--feed", "x"], "--feed x: write name=@file.npy, or name= and a JSON value"),
    (["--feed", "x=1", "--feed", "x=2"], "--feed x=2: the feed 'x' is given twice"),
    (["--feed", "x=q.npy"], "--feed x=q.npy: this is neither @file.npy nor a JSON value"),
    (["--fetch", "x=@"], "--fetch x=@: write name or name=@file.npy"),
    (["--expect", "x"], "--expect x: write name=@file.npy"),
    (["--entry", "predict", "--steps", "3"], "--steps belongs to training, and the entry 'predict' does not train"),
    (
        ["--entry", "predict", "--checkpoint", "c"],
        "--checkpoint belongs to training, and the entry 'predict' does not train",
    ),
    (["--split", "tset"], "the data has no split 'tset'; did you mean 'test'?"),
    (["--fetch", "los"], "entry 'train' has no fetch and no tensor 'los'; did you mean 'loss'?"),
]


@pytest.mark.parametrize(("arguments", "sentence"), CONTRADICTIONS)
def test_what_contradicts_itself_is_one_sentence_and_code_2(folder, capsys, arguments, sentence):
    before = sorted(folder.iterdir())
    assert run(capsys, "execute", "p.pb", "-q", *arguments) == (2, "", f"runtime: {sentence}\n")
    assert sorted(folder.iterdir()) == before


MISTYPED = [
    (["--steps", "0"], "argument --steps: '0' is not a whole number from 1 on, of at most 18 digits"),
    (["--steps", "two"], "argument --steps: 'two' is not a whole number from 1 on, of at most 18 digits"),
    (["--rtol", "-1"], "argument --rtol: '-1' is not a tolerance"),
    (["--max-time", "nan"], "argument --max-time: 'nan' is not a time as 90, 1.5min, 2h or 500ms"),
    (["--max-memory", "64MX"], "argument --max-memory: '64MX' is not a size as 1.5MiB, 1GB or 1000000"),
    (["--log-format", "jsn"], "argument --log-format: 'jsn' is not one of text, json; did you mean 'json'?"),
    (
        ["--engine", "gpu"],
        "argument --engine: 'gpu' is not one of reference, native, "
        "native.amx_int8, native.amx, native.avx512_bf16, native.avx512_vnni, native.avx512, "
        "native.avx_vnni, native.avx2, native.sse2, native.neon_dotprod, native.neon",
    ),
    (["q.pb"], "'q.pb' is one word too many"),
    (["--resume", "run1"], "'run1' is one word too many; --resume takes no value"),
    (["--chekpoint", "c"], "there is no option '--chekpoint'; did you mean '--checkpoint'?"),
    (["--chekpoint=c"], "there is no option '--chekpoint'; did you mean '--checkpoint'?"),
]


@pytest.mark.parametrize(("arguments", "sentence"), MISTYPED)
def test_what_is_mistyped_is_one_sentence_and_code_2(folder, capsys, arguments, sentence):
    found = run(capsys, "execute", "p.pb", *arguments)
    assert found == (2, "", f"runtime: {sentence}; see runtime execute --help\n")


@pytest.mark.parametrize(
    ("size", "fits"), [("500B", False), ("0KiB", False), ("1GB", True), ("1gib", True), ("1000000000", True)]
)
def test_sizes_have_units(folder, capsys, size, fits):
    code, _, _ = run(capsys, "execute", "p.pb", "-q", "--max-memory", size)
    assert code == (0 if fits else 6)


def test_another_runs_checkpoints_are_not_overwritten(folder, capsys):
    assert run(capsys, "execute", "p.pb", "-q", "--checkpoint", "c")[0] == 0
    found = run(capsys, "execute", "p.pb", "-q", "--checkpoint", "c")
    assert found == (2, "", "runtime: c: there are checkpoints already; --resume continues them, --force starts over\n")
    assert run(capsys, "execute", "p.pb", "-q", "--checkpoint", "c", "--force")[0] == 0


def test_a_first_run_may_say_resume_already(folder, capsys):
    code, _, err = run(capsys, "execute", "p.pb", "-q", "--checkpoint", "c", "--resume")
    assert (code, err) == (0, "runtime: warning: c: there is no checkpoint yet; the run begins\n")


def test_a_finished_run_that_is_resumed_ends_with_the_same_results(folder, capsys):
    _, first, _ = run(capsys, "execute", "p.pb", "-q", "--checkpoint", "c")
    code, again, _ = run(capsys, "execute", "p.pb", "-q", "--checkpoint", "c", "--resume")
    assert code == 0
    assert again.partition(" wall=")[0] == first.partition(" wall=")[0]
    assert state_hash(again) == state_hash(first)


def test_resuming_with_another_number_of_steps_is_refused(folder, capsys):
    run(capsys, "execute", "p.pb", "-q", "--checkpoint", "c", "--steps", "10")
    code, out, err = run(capsys, "execute", "p.pb", "-q", "--checkpoint", "c", "--resume")
    assert (code, out) == (2, "")
    assert err == (
        "runtime: the run began with 10 steps in all, this would be 21, which changes schedules; "
        "train for 10 steps, or go on with --retarget-schedule\n"
    )
    arguments = ["--checkpoint", "c", "--resume", "--retarget-schedule"]
    assert run(capsys, "execute", "p.pb", "-q", *arguments)[0] == 0


def test_a_checkpoint_of_another_program_ends_with_3(folder, capsys):
    save(linear(), folder, name="other.pb")
    run(capsys, "execute", "other.pb", "-q", "--save", "s")
    code, out, err = run(capsys, "execute", "p.pb", "-q", "--load", "s", "--resume")
    assert (code, out) == (3, "")
    assert err.startswith("runtime: s: the checkpoint is of another program, ")


def test_a_saved_run_is_resumed_from_its_file(folder, capsys):
    save(rich(), folder, name="q.pb", evaluate=None, keep_best=None)
    _, whole, _ = run(capsys, "execute", "q.pb", "-q", "--epochs", "3")
    run(capsys, "execute", "q.pb", "-q", "--checkpoint", "c", "--every", "10")
    code, out, _ = run(capsys, "execute", "q.pb", "-q", "--load", "c/step-0000000010.safetensors", "--resume")
    assert (code, state_hash(out)) == (0, state_hash(whole))


def test_in_place_saves_to_the_file_that_was_loaded(folder, capsys):
    run(capsys, "execute", "p.pb", "-q", "--save", "s")
    before = load_file("s")["w"]
    assert run(capsys, "execute", "p.pb", "-q", "--load", "s", "--in-place", "--steps", "1")[0] == 0
    assert not np.array_equal(load_file("s")["w"], before)


def test_a_difference_is_told_with_its_place_and_size(folder, capsys):
    np.save("x.npy", arrays()["x"][:7])
    arguments = ["execute", "p.pb", "-q", "--entry", "predict", "--feed", "x=@x.npy"]
    run(capsys, *arguments, "--fetch", "prediction=@y.npy")
    found = np.load("y.npy")
    wrong = found.copy()
    wrong[5] += 1
    wrong[2] -= 0.5
    np.save("y.npy", wrong)
    code, out, err = run(capsys, *arguments, "--expect", "prediction=@y.npy")
    assert code == 1
    assert out.startswith("FAILED entry=predict ")
    assert err == (
        "runtime: warning: nothing was loaded: the entry 'predict' computes with initial values; "
        "--load takes those of a run\n"
        "runtime: 'prediction' differs from y.npy in 2 of 7 elements, most at [5]: "
        f"{found[5]} instead of {wrong[5]} (rtol=1e-05, atol=1e-08)\n"
    )
    assert run(capsys, *arguments, "--expect", "prediction=@y.npy", "--atol", "2")[0] == 0
    np.save("y.npy", wrong.astype(np.float64))
    _, _, err = run(capsys, *arguments, "--expect", "prediction=@y.npy")
    assert err.endswith("\nruntime: 'prediction' is float32[7], and y.npy has float64[7]\n")


def test_nan_is_what_was_expected_where_nan_was_expected(folder, capsys):
    np.save("x.npy", np.full((2, 3), np.nan, np.float32))
    arguments = ["execute", "p.pb", "-q", "--entry", "predict", "--feed", "x=@x.npy"]
    np.save("y.npy", np.full(2, np.nan, np.float32))
    assert run(capsys, *arguments, "--expect", "prediction=@y.npy")[0] == 0
    np.save("y.npy", np.zeros(2, np.float32))
    assert run(capsys, *arguments, "--expect", "prediction=@y.npy")[0] == 1


def test_fetches_without_a_file_are_printed(folder, capsys):
    arguments = ["--entry", "predict", "--feed", "x=[[1, 2, 3], [4, 5, 6]]", "--fetch", "prediction"]
    code, out, _ = run(capsys, "execute", "p.pb", "-q", *arguments)
    assert code == 0
    assert out.splitlines()[0] == "prediction: float32[2] = [0.6, 1.5]"
    assert out.splitlines()[1].startswith("OK entry=predict steps=1 wall=")
