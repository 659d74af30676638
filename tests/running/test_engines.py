"""A second engine behind the same commands and the same library: what an engine is, is all that they know of it."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from oracles.other_engine import OtherEngine
from subjects.commands import told
from subjects.small_programs import BATCH, TRAIN, arrays, linear, rich, save, write_data
from subjects.spilling import spilled

import runtime
from prograd_proto import program_pb2 as pb
from prograd_proto.files import load
from prograd_proto.files import save as save_program
from runtime.__main__ import main
from runtime.engines.choice import ENGINES
from runtime.engines.engine import EngineOptions, Unavailable

PER_EPOCH = TRAIN // BATCH


def broken(program: pb.ProgramDesc, options: EngineOptions) -> OtherEngine:
    raise Unavailable("the engine 'broken' needs a package that is not here; pip install it")


@pytest.fixture(autouse=True)
def engines(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(ENGINES, "other", OtherEngine)
    monkeypatch.setitem(ENGINES, "broken", broken)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return save(rich(), tmp_path)


def printed(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, list[str], str]:
    code = main([str(word) for word in words])
    out, err = capsys.readouterr()
    return code, out.splitlines(), err


def field(line: str, name: str) -> str:
    return dict(word.split("=", 1) for word in line.split()[1:])[name]


def close(found: runtime.Run, wanted: runtime.Run) -> None:
    for name, state in wanted.state.items():
        np.testing.assert_allclose(found.state[name], state, rtol=1e-4, atol=1e-6, err_msg=name)


def test_a_training_run_gives_what_the_reference_gives(program: Path):
    one, other = runtime.load(program), runtime.load(program, engine="other")
    for wanted, found in zip(one.events(), other.events(), strict=True):
        assert type(found) is type(wanted)
        assert found.step == wanted.step
        assert vars_of(found) == pytest.approx(vars_of(wanted), rel=1e-4, abs=1e-6)
    close(other, one)
    assert other.states.sha256() != one.states.sha256(), "other functions have other last bits"
    again = runtime.load(program, engine="other")
    list(again.events())
    assert again.states.sha256() == other.states.sha256()


def vars_of(event: runtime.Event) -> dict[str, float]:
    return getattr(event, "metrics", {})


def test_evaluations_predictions_and_single_steps_give_what_the_reference_gives(program: Path):
    one, other = runtime.load(program), runtime.load(program, engine="other")
    x = arrays()["x"]
    assert other.evaluate("test") == pytest.approx(one.evaluate("test"), rel=1e-5)
    np.testing.assert_allclose(other.predict(x)["prediction"], one.predict(x)["prediction"], rtol=1e-5, atol=1e-7)
    for run in (one, other):
        run.state["total_steps"] = 100
    for _ in range(3):
        feeds = {name: arrays()[name][:BATCH] for name in "xy"}
        wanted, found = (run.step(feeds, fetch=["mul_1"]) for run in (one, other))
        assert found.keys() == wanted.keys()
        for name, array in wanted.items():
            np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-6)
    close(other, one)


def stop(run: runtime.Run) -> None:
    """Train into the second epoch, with checkpoints in the folder `c`."""
    events = run.events(checkpoint="c", every=5)
    while next(events).step < PER_EPOCH + 3:
        pass
    events.close()


def test_a_run_that_stopped_ends_where_one_does_that_did_not(program: Path):
    whole = runtime.load(program, engine="other")
    list(whole.events())
    stop(runtime.load(program, engine="other"))
    again = runtime.load(program, engine="other")
    again.resume("c")
    assert 0 < again.position.steps < whole.position.reached
    list(again.events())
    assert again.states.sha256() == whole.states.sha256()


def test_a_checkpoint_moves_between_engines(program: Path):
    whole = runtime.load(program)
    list(whole.events())
    stop(runtime.load(program, engine="other"))
    again = runtime.load(program)
    again.resume("c")
    list(again.events())
    assert again.position.reached == whole.position.reached
    close(again, whole)


def test_threads_of_one_run_have_a_workspace_each(program: Path):
    run = runtime.load(program, engine="other")
    x = arrays()["x"]
    wanted = run.predict(x)["prediction"].tobytes()
    with ThreadPoolExecutor(3) as pool:
        assert {found["prediction"].tobytes() for found in pool.map(run.predict, [x] * 12)} == {wanted}


def test_the_limit_of_memory_is_asked_by_any_engine(program: Path):
    free = runtime.load(program, engine="other")
    list(free.events())
    list(runtime.load(program, engine="other", max_memory=free.memory.most).events())
    with pytest.raises(runtime.ResourceLimit, match=f"needs {free.memory.most} bytes.*, and the limit is"):
        list(runtime.load(program, engine="other", max_memory=free.memory.most - 1).events())


def test_an_engine_that_needs_no_file_needs_no_folder(program: Path, capsys: pytest.CaptureFixture[str]):
    save_program(spilled(load(program), random.Random(0).randrange), "spilled.pb")
    assert printed(capsys, "execute", "spilled.pb", "-q")[0] == 2
    code, out, _ = printed(capsys, "execute", "spilled.pb", "-q", "--engine", "other")
    assert code == 0
    assert " spill=" not in out[-1]
    _, plain, _ = printed(capsys, "execute", program, "-q", "--engine", "other")
    assert field(out[-1], "state_sha256") == field(plain[-1], "state_sha256")


def test_the_result_line_and_the_record_name_the_engine_and_replay_asks_for_it(
    program: Path, capsys: pytest.CaptureFixture[str]
):
    code, out, _ = printed(
        capsys, "execute", program, "-q", "--engine", "other", "--record", "r.json", "--metrics", "m.csv"
    )
    assert (code, field(out[-1], "engine")) == (0, "other")
    assert json.loads(Path("r.json").read_text())["engine"] == "other"
    code, out, _ = printed(capsys, "replay", program, "-q", "--record", "r.json", "--expect-metrics", "m.csv")
    assert (code, field(out[-1], "engine")) == (0, "other")
    code, out, err = printed(capsys, "replay", program, "-q", "--record", "r.json", "--engine", "reference")
    assert code == 2
    assert err == (
        "runtime: the recorded run was computed by the engine 'other', and hashes are compared within one engine; "
        "leave --engine reference out\n"
    )


def test_a_record_of_an_engine_that_is_not_here_is_refused(program: Path, capsys: pytest.CaptureFixture[str]):
    printed(capsys, "execute", program, "-q", "--record", "r.json")
    Path("r.json").write_text(Path("r.json").read_text().replace('"reference"', '"gpu"'))
    code, _, err = printed(capsys, "replay", program, "-q", "--record", "r.json")
    assert (code, err) == (2, f"runtime: there is no engine 'gpu'; the engines are {', '.join(ENGINES)}\n")


@pytest.mark.parametrize(
    ("engine", "expected"),
    [
        ("otehr", "there is no engine 'otehr'; did you mean 'other'?"),
        ("broken", "the engine 'broken' needs a package that is not here; pip install it"),
    ],
)
def test_an_engine_that_is_not_here_is_one_sentence(program: Path, engine: str, expected: str):
    assert told(runtime.UsageError, lambda: runtime.load(program, engine=engine)) == expected


def test_an_engine_that_cannot_compute_here_ends_the_command_with_its_sentence(
    program: Path, capsys: pytest.CaptureFixture[str]
):
    code, out, err = printed(capsys, "execute", program, "--engine", "broken")
    assert (code, out) == (2, [])
    assert err == "runtime: the engine 'broken' needs a package that is not here; pip install it\n"


def test_a_profile_counts_the_parts_of_the_engine_and_the_threads_that_share_them(
    program: Path, capsys: pytest.CaptureFixture[str]
):
    run = runtime.load(program, engine="other")
    executor = run.session.workspaces.executor(run.session.bindings("train")[0])
    code, out, _ = printed(capsys, "profile", program, "--engine", "other", "--steps", 3, "--json")
    assert code == 0
    found = json.loads(out[-1])
    assert found["alive"] == [executor.footprint.arena] * len(executor.parts)
    assert sum(group["calls"] for group in found["by_op"]) == 3 * 2 * len(executor.parts)
    assert {group["name"] for group in found["by_thread"]} == {"thread 0", "thread 1"}
    assert {group["name"] for group in found["by_type"]} == {part.name for part in executor.parts}
    assert sum(group["seconds"] for group in found["by_stage"]) == pytest.approx(found["seconds"])
    code, out, _ = printed(capsys, "profile", program, "--engine", "other", "--steps", 1, "--by", "op")
    several = [part for part in executor.parts if len(part.ops) > 1]
    assert [f"with {len(part.ops) - 1} before it" in "\n".join(out) for part in several] == [True] * len(several)
    assert field(out[-1], "engine") == "other"


def test_a_trace_has_the_parts_of_the_engine(program: Path, capsys: pytest.CaptureFixture[str]):
    code, _, _ = printed(capsys, "execute", program, "-q", "--engine", "other", "--steps", 2, "--trace", "t.json")
    assert code == 0
    events = json.loads(Path("t.json").read_text())["traceEvents"]
    names = [event["name"] for event in events if event["ph"] == "X"]
    assert {"step 1", "step 2"} <= set(names)
    assert all(name.endswith(" ops") for name in names if not name.startswith("step "))
    assert {event["tid"] for event in events if event["ph"] == "X"} == {0, 1, 2}


def test_check_nan_and_what_it_keeps_are_of_any_engine(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    x = arrays()["x"].copy()
    x[3] = np.nan
    write_data(tmp_path, x=x)
    path = save(linear(), tmp_path)
    words = ("--engine", "other", "--check-nan")
    code, _, err = printed(capsys, "execute", path, "-q", *words, "--reproduce", "kept")
    assert code == 5
    assert ": op 1 (mul): %mul_1 has NaN or Inf; fed are the rows " in err
    assert "the step is kept: runtime execute kept/program.pb --check-nan --engine other\n" in err
    code, _, again = printed(capsys, "execute", "kept/program.pb", "-q", *words)
    assert (code, again.partition(": op ")[2].partition(";")[0]) == (5, "1 (mul): %mul_1 has NaN or Inf")


def test_nothing_is_imported_of_an_engine_that_is_not_used():
    script = (
        "import sys, runtime.runs.run, runtime.commands.execute, runtime.commands.profile\n"
        "print([name for name in sys.modules if name.startswith('runtime.engines.native')"
        " or name == 'runtime.engines.reference.executor'])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
