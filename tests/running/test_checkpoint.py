import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from subjects.small_programs import linear, rich, save

import runtime
from prograd_proto import ProgramError
from runtime.runs.checkpoints.checkpoint_folder import CheckpointFolder

STEPS = 21  # of rich() in three epochs


def finished(path: Path, **options) -> runtime.Run:
    run = runtime.load(path)
    for _ in run.events(**options):
        pass
    return run


def stopped_after(path: Path, steps: int, **options) -> runtime.Run:
    """Return a run that was left after `steps` steps."""
    run = runtime.load(path)
    for event in run.events(**options):
        if isinstance(event, runtime.StepEnd) and event.step == steps:
            return run
    raise AssertionError("the run ended before")


def sentence(kind: type[Exception], action, folder: Path) -> str:
    with pytest.raises(kind) as caught:
        action()
    return str(caught.value).replace(f"{folder}/", "").replace(str(folder), ".")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("stop", range(1, STEPS))
def test_a_run_stopped_at_any_step_and_resumed_ends_in_the_same_states(tmp_path, stop):
    path = save(rich(), tmp_path)
    whole = runtime.load(path)
    expected = list(whole.events())

    first = stopped_after(path, stop)
    first.save(tmp_path / "s.safetensors")
    second = runtime.load(path)
    second.resume(tmp_path / "s.safetensors")
    events = list(second.events())

    assert second.states.sha256() == whole.states.sha256()
    assert events == expected[-len(events) :]  # also the means of the epoch that was interrupted
    assert second.position.to_json() == whole.position.to_json()


def test_resuming_again_and_again_is_the_same_run(tmp_path):
    path = save(rich(), tmp_path)
    whole = finished(path)
    run = runtime.load(path)
    for stop in range(1, STEPS):
        for event in run.events():
            if isinstance(event, runtime.StepEnd) and event.step == stop:
                break
        run.save(tmp_path / "s.safetensors", force=True)
        run = runtime.load(path)
        run.resume(tmp_path / "s.safetensors")
    list(run.events())
    assert run.states.sha256() == whole.states.sha256()


def test_two_runs_write_equal_files(tmp_path):
    path = save(rich(), tmp_path)
    files = []
    for folder in ("a", "b"):
        finished(path, checkpoint=tmp_path / folder, every=4, keep=100)
        files.append({file.name: file.read_bytes() for file in (tmp_path / folder).iterdir()})
    assert files[0] == files[1]
    assert sorted(files[0]) == [f"step-{n:010}.safetensors" for n in (4, 8, 12, 16, 20, 21)]


def test_a_resumed_run_writes_the_same_last_checkpoint(tmp_path):
    path = save(rich(), tmp_path)
    finished(path, checkpoint=tmp_path / "whole")
    stopped_after(path, 17, checkpoint=tmp_path / "parts", every=5)
    run = runtime.load(path)
    run.resume(tmp_path / "parts")
    assert run.position.steps == 15
    for _ in run.events(checkpoint=tmp_path / "parts"):
        pass
    last = f"step-{STEPS:010}.safetensors"
    assert (tmp_path / "parts" / last).read_bytes() == (tmp_path / "whole" / last).read_bytes()


def test_the_file_is_plain_safetensors_with_one_line_of_json(tmp_path):
    run = stopped_after(save(rich(), tmp_path), 10)
    run.save(tmp_path / "s.safetensors")
    with safe_open(tmp_path / "s.safetensors", "np") as file:
        names, metadata = set(file.keys()), file.metadata()
    states = set(run.state)
    assert names == states | {f"run:best:{name}" for name in states}
    assert sorted(metadata) == ["prograd", "prograd_sha256"]
    assert metadata["prograd_sha256"] == hashlib.sha256(metadata["prograd"].encode()).hexdigest()
    about = json.loads(metadata["prograd"])
    assert metadata["prograd"] == json.dumps(about, sort_keys=True, separators=(",", ":"))
    assert about["program_sha256"] == run.sha256
    assert about["slots"] == ["w.m", "w.v"]
    assert about["counters"] == ["seed", "step", "total_steps"]
    position = about["position"]
    assert (position["epoch"], position["step"], position["steps"], position["closed"]) == (1, 3, 10, 7)
    tensors = load_file(tmp_path / "s.safetensors")
    for name in states:
        np.testing.assert_array_equal(tensors[name], run.state[name])


def test_every_tensor_is_aligned_to_its_elements(tmp_path):
    finished(save(rich(), tmp_path)).save(tmp_path / "s.safetensors")
    raw = (tmp_path / "s.safetensors").read_bytes()
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + size])
    del header["__metadata__"]
    widths = {"F32": 4, "I64": 8}
    assert size % 8 == 0
    assert all(entry["data_offsets"][0] % widths[entry["dtype"]] == 0 for entry in header.values())


def test_a_folder_keeps_the_newest(tmp_path):
    finished(save(rich(), tmp_path), checkpoint=tmp_path / "c", every=2, keep=2)
    assert sorted(f.name for f in (tmp_path / "c").iterdir()) == [
        "step-0000000020.safetensors",
        "step-0000000021.safetensors",
    ]


def test_without_every_a_checkpoint_is_written_after_each_epoch(tmp_path):
    run = runtime.load(save(rich(), tmp_path))
    written = [e for e in run.events(checkpoint=tmp_path / "c") if isinstance(e, runtime.CheckpointWritten)]
    assert [(event.epoch, event.step) for event in written] == [(1, 7), (2, 14), (3, 21)]


def test_a_damaged_checkpoint_is_passed_over_with_a_warning(tmp_path, caplog):
    path = save(rich(), tmp_path)
    finished(path, checkpoint=tmp_path / "c", every=5)
    newest = sorted((tmp_path / "c").iterdir())[-1]
    newest.write_bytes(newest.read_bytes()[:-1])
    run = runtime.load(path)
    run.resume(tmp_path / "c")
    assert run.position.steps == 20
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert caplog.messages[0].startswith(f"{newest}: this cannot be read as a safetensors file: ")
    assert caplog.messages[0].endswith("; the one before it is taken")


@pytest.mark.parametrize("keep", [1, 3])
def test_what_is_written_after_a_damaged_checkpoint_is_not_rotated_away(tmp_path, keep):
    path = save(rich(), tmp_path)
    stopped_after(path, 12, checkpoint=tmp_path / "c", every=5)
    (tmp_path / "c" / "step-0000000099.safetensors").write_bytes(b"damaged")
    run = runtime.load(path)
    run.resume(tmp_path / "c")
    written = next(e for e in run.events(checkpoint=tmp_path / "c", every=1, keep=keep) if hasattr(e, "path"))
    assert written.step == 11
    assert written.path.exists()
    assert (tmp_path / "c" / "step-0000000099.safetensors.damaged").read_bytes() == b"damaged"
    assert not (tmp_path / "c" / "step-0000000099.safetensors").exists()


def test_one_flipped_bit_is_noticed(tmp_path):
    path = save(rich(), tmp_path)
    finished(path).save(tmp_path / "s.safetensors")
    raw = bytearray((tmp_path / "s.safetensors").read_bytes())
    raw[-1] ^= 1
    (tmp_path / "s.safetensors").write_bytes(raw)
    run = runtime.load(path)
    expected = "s.safetensors: the checkpoint is damaged: its tensors do not have the hash that it names"
    assert sentence(runtime.DataError, lambda: run.resume(tmp_path / "s.safetensors"), tmp_path) == expected
    assert sentence(runtime.DataError, lambda: run.load(tmp_path / "s.safetensors"), tmp_path) == expected


def test_if_all_checkpoints_are_damaged_it_is_said(tmp_path):
    path = save(rich(), tmp_path)
    finished(path, checkpoint=tmp_path / "c", keep=2)
    for file in (tmp_path / "c").iterdir():
        file.write_bytes(b"")
    run = runtime.load(path)
    found = sentence(runtime.DataError, lambda: run.resume(tmp_path / "c"), tmp_path)
    assert found == "c: all 2 checkpoints are damaged"


def test_an_empty_folder_has_nothing_to_resume(tmp_path):
    run = runtime.load(save(rich(), tmp_path))
    (tmp_path / "c").mkdir()
    found = sentence(runtime.DataError, lambda: run.resume(tmp_path / "c"), tmp_path)
    assert found == "c: there is no checkpoint in this folder"


def test_a_checkpoint_of_another_program_is_refused(tmp_path):
    other = finished(save(linear(), tmp_path, name="other.pb"))
    other.save(tmp_path / "s.safetensors")
    run = runtime.load(save(rich(), tmp_path))
    found = sentence(ProgramError, lambda: run.resume(tmp_path / "s.safetensors"), tmp_path)
    assert found == (
        f"s.safetensors: the checkpoint is of another program, {other.sha256[:16]}..., "
        f"this one is {run.sha256[:16]}...; load takes its parameters only"
    )


def test_a_longer_run_of_the_same_program_resumes_only_when_the_schedule_may_change(tmp_path):
    finished(save(rich(), tmp_path, epochs=3), checkpoint=tmp_path / "c")
    longer = save(rich(), tmp_path, epochs=4, name="longer.pb")  # the run is not part of a program's identity
    run = runtime.load(longer)
    run.resume(tmp_path / "c")
    assert sentence(runtime.UsageError, run.train, tmp_path) == (
        "the run began with 21 steps in all, this would be 28, which changes schedules; "
        "train for 21 steps, or go on with retarget_schedule=True"
    )
    events = list(run.events(retarget_schedule=True))
    assert sum(isinstance(event, runtime.StepEnd) for event in events) == 7
    assert run.state["total_steps"] == 28


def test_resuming_with_other_rows_is_refused(tmp_path):
    path = save(rich(), tmp_path)
    run = stopped_after(path, 3)
    x = np.ones((8, 3), np.float32)
    found = sentence(runtime.DataError, lambda: run.events(data={"x": x, "y": x[:, 0]}), tmp_path)
    assert found == (
        "the run began with 31 rows per epoch, and there are 8 now; give those, or load what was trained into a new run"
    )


def test_loading_takes_parameters_and_lasting_buffers_only(tmp_path):
    path = save(rich(), tmp_path)
    trained = finished(path)
    trained.save(tmp_path / "s.safetensors")
    run = runtime.load(path)
    run.load(tmp_path / "s.safetensors")
    for name in ("w", "largest"):
        np.testing.assert_array_equal(run.state[name], trained.state[name])
    for name in ("step", "total_steps", "w.m", "w.v", "seen"):
        assert not run.state[name].any()
    assert run.position.steps == 0
    assert run.evaluate() == trained.evaluate()


def test_parameters_of_another_optimizer_can_be_loaded(tmp_path):
    finished(save(rich(), tmp_path)).save(tmp_path / "adam.safetensors")
    other = linear()
    other.buffer("seen", ())
    other.buffer("largest", ())
    tensors = load_file(tmp_path / "adam.safetensors")
    run = runtime.load(save(other, tmp_path, name="other.pb"))
    found = sentence(runtime.DataError, lambda: run.load(tmp_path / "adam.safetensors"), tmp_path)
    assert found == (
        "adam.safetensors: there is no tensor 'b', which the program has as a state; "
        "only= loads some, rename= other names"
    )
    save_file(
        {k: tensors[k] for k in ("w", "seen", "largest")} | {"b": np.zeros((), np.float32)}, tmp_path / "plain.st"
    )
    run.load(tmp_path / "plain.st")  # a file of anybody's making, with exactly the parameters and buffers
    np.testing.assert_array_equal(run.state["w"], tensors["w"])


WRONG_TENSORS = [
    (
        {"w": None},
        "s.st: there is no tensor 'w', which the program has as a state; only= loads some, rename= other names",
    ),
    ({"ww": np.zeros(1, np.float32)}, "s.st: the tensor 'ww' is no state of the program; did you mean 'w'?"),
    ({"w": np.zeros(4, np.float32)}, "s.st: the tensor 'w' is float32[4], the program's state is float32[3]"),
    ({"w": np.zeros(3, np.float64)}, "s.st: the tensor 'w' is float64[3], the program's state is float32[3]"),
]


@pytest.mark.parametrize(("changes", "expected"), WRONG_TENSORS)
def test_loading_says_what_does_not_fit_and_changes_nothing(tmp_path, changes, expected):
    run = runtime.load(save(linear(), tmp_path))
    before = run.states.sha256()
    tensors = {"w": np.ones(3, np.float32), "b": np.ones((), np.float32)} | changes
    save_file({name: array for name, array in tensors.items() if array is not None}, tmp_path / "s.st")
    assert sentence(runtime.DataError, lambda: run.load(tmp_path / "s.st"), tmp_path) == expected
    assert run.states.sha256() == before


def test_tensors_without_a_run_cannot_be_resumed(tmp_path):
    run = runtime.load(save(linear(), tmp_path))
    save_file({"w": np.ones(3, np.float32), "b": np.ones((), np.float32)}, tmp_path / "s.st")
    found = sentence(runtime.DataError, lambda: run.resume(tmp_path / "s.st"), tmp_path)
    assert found == "s.st: this has tensors but no run to resume; load it instead"


HASHES = {"program_sha256": "", "tensors_sha256": ""}
GOOD = {"format": 1, **HASHES, "slots": [], "counters": []}
DAMAGED = "s.st: the checkpoint's description is damaged: "
NEWER = "s.st: the checkpoint has format 3, this prograd reads those up to 2; update prograd"
ABOUT = [
    ("not json", DAMAGED + "it is no JSON"),
    ("[" * 100_000, DAMAGED + "it is nested too deeply"),
    ("[]", DAMAGED + "it is no JSON object"),
    ("{}", DAMAGED + "it has no format, or no hash, which its format wants"),
    ('{"format":true}', DAMAGED + "it has no format, or no hash, which its format wants"),
    (json.dumps({**GOOD, "format": 2}), DAMAGED + "it has no format, or no hash, which its format wants"),
    (json.dumps({**GOOD, "format": 3}), NEWER),
    (json.dumps({**GOOD, "tensors_sha256": 5}), DAMAGED + "tensors_sha256 is no text"),
    (json.dumps({**GOOD, "slots": 5}), DAMAGED + "slots is no list of names"),
    (json.dumps({**GOOD, "counters": [[]]}), DAMAGED + "counters is no list of names"),
    (json.dumps(GOOD), DAMAGED + "there is no position"),
]


@pytest.mark.parametrize(("about", "expected"), ABOUT)
def test_a_description_that_is_not_ours_is_one_sentence(tmp_path, about, expected):
    run = runtime.load(save(linear(), tmp_path))
    save_file({"w": np.ones(3, np.float32)}, tmp_path / "s.st", metadata={"prograd": about})
    for action in (run.resume, run.load):
        assert sentence(runtime.DataError, lambda action=action: action(tmp_path / "s.st"), tmp_path) == expected


def crafted(file: Path, *, hashed: bool = True, **position: object) -> None:
    """Change a checkpoint's position, and make its hash fit, as somebody would who wishes harm."""
    with safe_open(file, "np") as opened:
        metadata = opened.metadata()
    about = json.loads(metadata["prograd"])
    about["position"] |= position
    text = json.dumps(about)
    if hashed:
        metadata["prograd_sha256"] = hashlib.sha256(text.encode()).hexdigest()
    save_file(load_file(file), file, metadata=metadata | {"prograd": text})


POSITIONS = [
    ({"epoch": -1}, "epoch is no count"),
    ({"steps": 1.5}, "steps is no count"),
    ({"rows": 10**30}, "rows is no count"),
    ({"sums": 5}, "sums is no list of names and numbers"),
    ({"sums": [3]}, "sums is no list of names and numbers"),
    ({"sums": [["a", None]]}, "sums has what is no number"),
    ({"sums": [["a", 10**400]]}, "sums has what is no number"),
    ({"metrics": [["a", 1], ["a", 2]]}, "metrics has a name twice, or one that is no text"),
    ({"best_at": [1]}, "best_at is no list of 3 counts"),
    ({"stopped": 1}, "stopped is neither true nor false"),
    ({"closed": 100}, "it is further than its own steps"),
    ({"step": 100}, "it is further than its own steps"),
]


@pytest.mark.parametrize(("change", "reason"), POSITIONS)
def test_a_position_that_makes_no_sense_is_one_sentence(tmp_path, change, reason):
    path = save(linear(), tmp_path)
    stopped_after(path, 2).save(tmp_path / "s.st")
    crafted(tmp_path / "s.st", **change)
    run = runtime.load(path)
    found = sentence(runtime.DataError, lambda: run.resume(tmp_path / "s.st"), tmp_path)
    assert found == f"s.st: the checkpoint's description is damaged: {reason}"


NOT_HERE = [
    (
        {"step": 1},
        "the run stands at step 2 and says that this is step 1 after 0 epochs, which have 7 steps each; "
        "its checkpoint is of other rows, or damaged",
    ),
    (
        {"summed_rows": 0},
        "the metrics of the epoch so far are not those of this entry; the run's checkpoint is of another, or damaged",
    ),
    (
        {"sums": [["other", 1.0]]},
        "the metrics of the epoch so far are not those of this entry; the run's checkpoint is of another, or damaged",
    ),
]


@pytest.mark.parametrize(("change", "expected"), NOT_HERE)
def test_a_position_where_the_run_cannot_stand_is_one_sentence(tmp_path, change, expected):
    path = save(linear(), tmp_path)
    stopped_after(path, 2).save(tmp_path / "s.st")
    crafted(tmp_path / "s.st", **change)
    run = runtime.load(path)
    run.resume(tmp_path / "s.st")
    assert sentence(runtime.DataError, run.train, tmp_path) == expected


def test_a_flipped_bit_anywhere_is_noticed_or_means_nothing(tmp_path):
    path = save(linear(), tmp_path)
    first = stopped_after(path, 2)
    first.save(tmp_path / "s.st")
    raw = (tmp_path / "s.st").read_bytes()
    wanted, position = first.states.sha256(), first.position.to_json()
    run = runtime.load(path)
    for bit in range(0, 8 * len(raw), 31):  # all of them take half a minute
        changed = bytearray(raw)
        changed[bit // 8] ^= 1 << bit % 8
        (tmp_path / "s.st").write_bytes(changed)
        try:
            run.resume(tmp_path / "s.st")
        except (runtime.DataError, ProgramError):
            continue
        assert (run.states.sha256(), run.position.to_json()) == (wanted, position), bit


def test_a_checkpoint_of_format_1_which_had_no_such_hash_is_resumed(tmp_path):
    path = save(linear(), tmp_path)
    stopped_after(path, 2).save(tmp_path / "s.st")
    with safe_open(tmp_path / "s.st", "np") as opened:
        about = json.loads(opened.metadata()["prograd"]) | {"format": 1}
    save_file(load_file(tmp_path / "s.st"), tmp_path / "s.st", metadata={"prograd": json.dumps(about)})
    run = runtime.load(path)
    run.resume(tmp_path / "s.st")
    assert run.position.steps == 2


def test_nothing_is_overwritten_without_force(tmp_path):
    run = runtime.load(save(linear(), tmp_path))
    (tmp_path / "s.st").write_text("mine")
    found = sentence(runtime.UsageError, lambda: run.save(tmp_path / "s.st"), tmp_path)
    assert found == "s.st: the file exists; force=True replaces it"
    assert (tmp_path / "s.st").read_text() == "mine"
    run.save(tmp_path / "s.st", force=True)
    assert load_file(tmp_path / "s.st")


def test_another_runs_checkpoints_are_not_mixed_with_ours(tmp_path):
    path = save(rich(), tmp_path)
    finished(path, checkpoint=tmp_path / "c")
    run = runtime.load(path)
    found = sentence(runtime.UsageError, lambda: run.events(checkpoint=tmp_path / "c"), tmp_path)
    assert found == "c: there are checkpoints already; run.resume continues them, force=True starts over"
    written = [e.step for e in run.events(checkpoint=tmp_path / "c", force=True, epochs=1) if hasattr(e, "path")]
    assert written == [7]
    assert [file.name for file in CheckpointFolder(tmp_path / "c").files()] == ["step-0000000007.safetensors"]


CHILD = """
import sys, runtime
run = runtime.load(sys.argv[1])
if sys.argv[3] == "resume":
    run.resume(sys.argv[2])
for event in run.events(checkpoint=sys.argv[2], every=1, epochs=2000, retarget_schedule=True):
    if hasattr(event, "path"):
        print(event.step, flush=True)
"""


def test_a_run_that_is_killed_while_it_writes_checkpoints_leaves_a_whole_one(tmp_path):
    path = save(rich(), tmp_path, evaluate=None, keep_best=None)
    reached = 0
    for attempt in range(4):
        how = "resume" if attempt else "begin"
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, path, tmp_path / "c", how], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        for _ in range(5):
            child.stdout.readline()
        time.sleep(0.003 * attempt)  # another moment of the writing each time
        child.send_signal(signal.SIGKILL)
        last = [int(line) for line in child.stdout.read().split()]
        child.wait()
        child.stdout.close()
        run = runtime.load(path)
        run.resume(tmp_path / "c")
        assert run.position.steps > reached
        assert run.position.steps >= max(last, default=0)
        reached = run.position.steps
    undisturbed = stopped_after(path, reached, epochs=2000)
    assert {n: a.tobytes() for n, a in run.state.items()} == {n: a.tobytes() for n, a in undisturbed.state.items()}


def test_what_a_killed_process_left_is_swept_up(tmp_path, monkeypatch):
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    (tmp_path / "c").mkdir()
    processes = {"dead": int(dead.stdout), "ours": os.getpid(), "alive": os.getppid()}
    left = {name: tmp_path / "c" / f".prograd-{number}-0123456789ab.tmp" for name, number in processes.items()}
    other = tmp_path / "c" / "notes.tmp"
    for file in (*left.values(), other):
        file.touch()
    with monkeypatch.context() as patch:
        patch.setattr("runtime.runs.checkpoints.checkpoint_folder.TEMPORARY_FILES", {os.path.realpath(left["ours"])})
        finished(save(rich(), tmp_path), checkpoint=tmp_path / "c")
    assert [name for name, file in left.items() if file.exists()] == ["ours", "alive"]
    finished(tmp_path / "p.pb", checkpoint=tmp_path / "c", force=True)  # a process before us had our number
    assert [name for name, file in left.items() if file.exists()] == ["alive"]
    assert other.exists()


FULL = """
import resource, sys, runtime
run = runtime.load(sys.argv[1])
events = run.events(checkpoint=sys.argv[2], every=5)
for event in events:
    if hasattr(event, "path") and event.step == 10:
        break
size = event.path.stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size - 8, size - 8))
try:
    list(events)
except runtime.ResourceLimit as error:
    print(error)
"""


def test_a_full_disk_leaves_the_checkpoints_that_are_there(tmp_path):
    path = save(rich(), tmp_path)
    child = subprocess.run(
        [sys.executable, "-c", FULL, path, tmp_path / "c"],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},  # the limit would truncate .pyc files too
    )
    assert child.stderr == ""
    wanted = tmp_path / "c" / "step-0000000015.safetensors"
    assert child.stdout == f"{wanted}: the file cannot be written: File too large\n"
    assert sorted(f.name for f in (tmp_path / "c").iterdir()) == [
        "step-0000000005.safetensors",
        "step-0000000010.safetensors",
    ]
    run = runtime.load(path)
    run.resume(tmp_path / "c")
    list(run.events())
    assert run.states.sha256() == finished(path).states.sha256()


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path):
    run = runtime.load(save(linear(), tmp_path))
    found = sentence(runtime.DataError, lambda: run.save(tmp_path / "none" / "s.st"), tmp_path)
    assert found == "none/s.st: the file cannot be written: No such file or directory"
    (tmp_path / "file").touch()
    found = sentence(runtime.DataError, lambda: list(run.events(checkpoint=tmp_path / "file" / "c")), tmp_path)
    assert found == "file/c: the file cannot be written: Not a directory"


def test_metrics_that_are_not_finite_survive(tmp_path):
    run = stopped_after(save(linear(), tmp_path), 2)
    run.position.evaluation = {"a": float("nan"), "b": float("inf"), "c": 3, "d": 0.1}
    run.save(tmp_path / "s.st")
    run.resume(tmp_path / "s.st")
    found = run.position.evaluation
    assert np.isnan(found.pop("a"))
    assert found == {"b": float("inf"), "c": 3, "d": 0.1}
    assert type(found["c"]) is int
