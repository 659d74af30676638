"""The file beside the arena: in a folder that the user names, of the right size, and nothing left of it."""

from __future__ import annotations

import errno
import json
import os
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from subjects.commands import ended, fields, told
from subjects.small_programs import arrays, rich, save
from subjects.spilling import spilled

import runtime
from prograd_proto import program_pb2 as pb
from prograd_proto.files import load
from prograd_proto.files import save as save_program
from runtime import ResourceLimit, UsageError
from runtime.__main__ import main
from runtime.engines import spill_file
from runtime.placement import PAGE

PLAIN, SPILLED = "plain.pb", "spilled.pb"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a program, the same with two tensors in a file at once, and a folder `disk`."""
    save(rich(), tmp_path, name=PLAIN)
    tries = (spilled(load(tmp_path / PLAIN), random.Random(seed).randrange, pairs=8) for seed in range(50))
    save_program(next(desc for desc in tries if desc.entries[0].bindings[0].plan.file_bytes > PAGE), tmp_path / SPILLED)
    (tmp_path / "disk").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """The exit code, stdout and stderr."""
    return ended(capsys, main, *arguments)


def plan_of(path: str, entry: str) -> pb.MemoryPlan:
    [found] = [e for e in load(Path(path)).entries if e.name == entry]
    return found.bindings[0].plan


# The file


def test_bytes_stay_when_their_pages_are_given_back(tmp_path):
    memory = spill_file.spill_file(tmp_path, 10 * PAGE + 5)
    assert len(memory) == 10 * PAGE + 5
    wanted = np.random.default_rng(0).integers(0, 256, len(memory)).astype("uint8")
    memory[...] = wanted
    for start, stop in ((0, PAGE), (3, 3 * PAGE), (PAGE, 10 * PAGE + 5), (7, 9), (0, len(wanted)), (4, 4)):
        spill_file.give_back(memory[start:stop])
        spill_file.expect(memory[start:stop])
        assert memory.tobytes() == wanted.tobytes()


def test_only_whole_pages_are_given_back(monkeypatch):
    asked: list[tuple[int, int, int]] = []

    class Mapping(spill_file.mmap.mmap):
        def madvise(self, *arguments: int) -> None:
            asked.append(arguments)

    size = spill_file.mmap.PAGESIZE
    whole = np.ndarray(8 * size, np.uint8, buffer=Mapping(-1, 8 * size))
    for start, stop in ((0, size), (1, 3 * size), (size, 3 * size + 7), (1, size), (2, 7), (4, 4)):
        spill_file.give_back(whole[start:stop].view(np.uint8).reshape(1, -1))
    spill_file.give_back(np.zeros(8 * size, np.uint8))
    advice = spill_file.mmap.MADV_DONTNEED
    assert asked == [(advice, 0, size), (advice, size, 2 * size), (advice, size, 2 * size)]


def test_nothing_can_be_seen_in_the_folder_even_while_the_file_is_in_use(tmp_path):
    memory = spill_file.spill_file(tmp_path, PAGE)
    memory.fill(1)
    assert list(tmp_path.iterdir()) == []


def test_room_is_taken_on_the_disk_before_anything_is_written(tmp_path, monkeypatch):
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "posix_fallocate", lambda fd, start, count: asked.append((start, count)))
    monkeypatch.setattr(spill_file.mmap, "mmap", lambda fd, count: bytearray(count))
    assert spill_file.spill_file(tmp_path, 5000).nbytes == 5000
    assert asked == [(0, 5000)]


def refuse(number: int) -> Callable[..., None]:
    def call(*arguments: object, **more: object) -> None:
        raise OSError(number, os.strerror(number))

    return call


@pytest.mark.parametrize("number", [None, errno.EOPNOTSUPP, errno.EINVAL])
def test_where_the_system_cannot_take_room_zeros_are_written(tmp_path, monkeypatch, number: int | None):
    if number is None:
        monkeypatch.delattr(os, "posix_fallocate")
    else:
        monkeypatch.setattr(os, "posix_fallocate", refuse(number))
    nbytes = (5 << 20) + 3
    memory = spill_file.spill_file(tmp_path, nbytes)
    assert (len(memory), int(memory.max())) == (nbytes, 0)
    memory.fill(7)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_is_a_limit(tmp_path, monkeypatch, number: int):
    monkeypatch.setattr(os, "posix_fallocate", refuse(number))
    assert told(ResourceLimit, lambda: spill_file.spill_file(tmp_path, 8192)) == (
        f"{tmp_path}: there is no room for the 8192 bytes that the plan moves to a file: {os.strerror(number)}"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_takes_no_file_is_refused(tmp_path, monkeypatch):
    missing = tmp_path / "missing"
    assert told(UsageError, lambda: spill_file.spill_file(missing, 1)) == f"{missing}: there is no such folder"
    (tmp_path / "file").write_text("")
    inside = tmp_path / "file"
    assert told(UsageError, lambda: spill_file.spill_file(inside, 1)) == f"{inside}: there is no such folder"
    monkeypatch.setattr(spill_file, "TemporaryFile", refuse(errno.EACCES))
    assert told(UsageError, lambda: spill_file.spill_file(tmp_path, 1)) == (
        f"{tmp_path}: no file can be made there: Permission denied"
    )


def test_without_advice_to_give_the_bytes_are_copied_all_the_same(folder, capsys, monkeypatch):
    monkeypatch.setattr(spill_file, "_ADVICE", False)
    assert hash_of(run(capsys, "execute", SPILLED, "-q", "--spill-dir", "disk")) == hash_of(
        run(capsys, "execute", PLAIN, "-q")
    )


# Runs


def hash_of(done: tuple[int, str, str]) -> str:
    code, out, err = done
    assert (code, err) == (0, "")
    return fields(out.splitlines()[-1])["state_sha256"]


def test_execute_moves_tensors_to_a_file_and_says_how_large_it_is(folder, capsys):
    code, out, _ = run(capsys, "execute", SPILLED, "-q", "--spill-dir", "disk")
    assert code == 0
    found = fields(out)
    needed = {plan_of(SPILLED, entry).file_bytes for entry in ("train", "evaluate")}
    assert int(found["spill"]) >= max(needed) > 0
    assert int(found["spill"]) <= sum(needed)
    assert list(found)[list(found).index("arena") + 1] == "spill"
    plain = fields(run(capsys, "execute", PLAIN, "-q")[1])
    assert "spill" not in plain
    same = {name for name in plain if name not in ("wall", "arena", "rss")}
    assert {name: found[name] for name in same} == {name: plain[name] for name in same}
    assert list((folder / "disk").iterdir()) == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_change_no_bit(folder, capsys, threads: int):
    spilled = run(capsys, "execute", SPILLED, "-q", "--spill-dir", "disk", "--threads", threads)
    assert hash_of(spilled) == hash_of(run(capsys, "execute", PLAIN, "-q"))


NO_FOLDER = "the program moves values to a file and back; name a folder for it, by --spill-dir DIR"


def test_without_a_folder_nothing_begins(folder, capsys):
    assert run(capsys, "execute", SPILLED) == (2, "", f"runtime: {NO_FOLDER}\n")
    assert run(capsys, "profile", SPILLED) == (2, "", f"runtime: {NO_FOLDER}\n")
    assert run(capsys, "execute", SPILLED, "--spill-dir", "gone") == (2, "", "runtime: gone: there is no such folder\n")


def test_that_only_the_evaluation_needs_a_file_shows_before_the_first_step(folder, capsys):
    desc, plain = load(Path(SPILLED)), load(Path(PLAIN))
    numbers = [e.bindings[0].block for e in desc.entries if e.name == "train"]
    assert numbers == [e.bindings[0].block for e in plain.entries if e.name == "train"]
    desc.blocks[numbers[0]].CopyFrom(plain.blocks[numbers[0]])
    desc.entries[0].bindings[0].CopyFrom(plain.entries[0].bindings[0])
    save_program(desc, Path("e.pb"))
    run_ = runtime.load("e.pb")
    assert told(UsageError, run_.train) == NO_FOLDER.replace("--spill-dir DIR", "spill=DIR")
    assert run_.state["step"] == 0
    assert run(capsys, "execute", "e.pb", "-q")[::2] == (2, f"runtime: {NO_FOLDER}\n")
    assert run(capsys, "execute", "e.pb", "-q", "--spill-dir", "disk")[0] == 0


def test_a_folder_for_a_program_that_spills_nothing_is_not_looked_at(folder, capsys):
    code, out, err = run(capsys, "execute", PLAIN, "-q", "--spill-dir", "gone")
    assert (code, err) == (0, "")
    assert "spill" not in fields(out)
    assert not Path("gone").exists()


def test_a_full_disk_ends_with_6_before_the_first_step(folder, capsys, monkeypatch):
    monkeypatch.setattr(os, "posix_fallocate", refuse(errno.ENOSPC))
    nbytes = plan_of(SPILLED, "train").file_bytes
    why = f"disk: there is no room for the {nbytes} bytes that the plan moves to a file: No space left on device"
    assert run(capsys, "execute", SPILLED, "-q", "--spill-dir", "disk") == (6, "", f"runtime: {why}\n")
    assert list((folder / "disk").iterdir()) == []


def test_max_memory_counts_states_and_arena_and_not_the_file(folder):
    free = runtime.load(SPILLED, spill="disk")
    list(free.events())
    enough, file = free.memory.most, plan_of(SPILLED, "train").file_bytes
    assert free.states.nbytes + free.session.workspaces.arena_bytes <= enough
    whole = runtime.load(SPILLED, spill="disk", max_memory=enough)
    list(whole.events())
    assert whole.session.workspaces.file_bytes >= file
    with pytest.raises(runtime.ResourceLimit, match=f" needs {enough} bytes.*, and the limit is {enough - 1} bytes"):
        list(runtime.load(SPILLED, spill="disk", max_memory=enough - 1).events())


def test_executors_share_the_file_and_a_larger_one_makes_a_larger_file(folder):
    run_ = runtime.load(SPILLED, spill="disk")
    run_.state["total_steps"] = 10
    sizes = sorted({plan_of(SPILLED, entry).file_bytes for entry in ("train", "evaluate")})
    rows = {name: arrays()[name][:4] for name in "xy"}
    run_.step(rows)
    assert run_.session.workspaces.file_bytes == plan_of(SPILLED, "train").file_bytes
    run_.evaluate("test")
    run_.step(rows)
    assert [len(file) for file in run_.session.workspaces._all[0].workspace._memory._files] in ([sizes[-1]], sizes)
    assert run_.session.workspaces.file_bytes == sum(
        len(file) for file in run_.session.workspaces._all[0].workspace._memory._files
    )
    run_.close()


def test_any_tensor_can_be_fetched_also_one_in_the_file(folder):
    plain, other = runtime.load(PLAIN), runtime.load(SPILLED, spill="disk")
    plain.state["total_steps"] = other.state["total_steps"] = 10
    placed = next(op.outputs[0] for block in load(Path(SPILLED)).blocks for op in block.ops if op.type == "spill")
    moved = placed.rpartition("_spilled_")[0]
    rows = {name: arrays()[name][:4] for name in "xy"}
    for _ in range(3):
        wanted = plain.step(rows, fetch=[moved])
        found = other.step(rows, fetch=[moved, placed])
        assert found[placed].tobytes() == found[moved].tobytes() == wanted[moved].tobytes()
        assert found["loss"].tobytes() == wanted["loss"].tobytes()
    other.close()


def test_a_run_that_stopped_goes_on_to_the_same_end(folder, capsys):
    whole = hash_of(run(capsys, "execute", PLAIN, "-q"))
    stopped = runtime.load(SPILLED, spill="disk")
    for number, _ in enumerate(stopped.events(checkpoint="c", every=5)):
        if number == 12:
            break
    stopped.close()
    again = ["--checkpoint", "c", "--resume"]
    assert hash_of(run(capsys, "execute", SPILLED, "-q", "--spill-dir", "disk", *again)) == whole


def test_states_saved_are_those_of_a_run_without_a_file(folder, capsys):
    for program, more in ((PLAIN, []), (SPILLED, ["--spill-dir", "disk"])):
        assert run(capsys, "execute", program, "-q", "--save", f"{program}.safetensors", *more)[0] == 0
    one, other = (load_file(f"{name}.safetensors") for name in (PLAIN, SPILLED))
    assert {name: array.tobytes() for name, array in one.items()} == {n: a.tobytes() for n, a in other.items()}


# Profiles


def test_profile_gives_transfers_a_stage_and_a_track_of_their_own(folder, capsys):
    code, out, _ = run(capsys, "profile", SPILLED, "--spill-dir", "disk", "--steps", 1, "--trace", "t.json")
    assert code == 0
    found = fields(out.splitlines()[-1])
    assert float(found["transfer"]) > 0
    parts = sum(float(found[name]) for name in ("forward", "backward", "update", "transfer"))
    assert parts == pytest.approx(float(found["seconds_per_step"]), rel=1e-4)
    lines = [line.split()[0] for line in out.splitlines() if line]
    assert {"transfer", "spill", "reload", "transfers"} <= set(lines)
    events = json.loads(Path("t.json").read_text())["traceEvents"]
    named = {event["args"]["name"]: event["tid"] for event in events if event["name"] == "thread_name"}
    assert set(named) == {"steps", "thread 0", "transfers"}
    moved = [event for event in events if event["name"] in ("spill", "reload")]
    assert {(event["cat"], event["tid"]) for event in moved} == {("transfer", named["transfers"])}
    assert not any(
        event["tid"] == named["transfers"] for event in events if event.get("cat") in ("forward", "gradient")
    )
    assert "transfer" not in fields(run(capsys, "profile", PLAIN, "--steps", 1)[1].splitlines()[-1])
