"""`runtime profile`: medians of what was measured, by whatever names ops, and a trace that viewers read."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from subjects.budgets import block_buffers
from subjects.commands import fields
from subjects.small_programs import linear, rich, save
from subjects.steps import Stepper, bound_block

from compiler import Program, constant, ops
from prograd_proto.blocks import BlockAnalysis
from runtime.__main__ import main
from runtime.commands import profile as profiling
from runtime.commands.reports.trace import TraceFile, alive
from runtime.engines.parts import Spell
from runtime.engines.reference.executor import ReferenceExecutor
from runtime.placement import aligned

WARM_UP = 2


@pytest.fixture
def program(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    save(rich(), tmp_path, name="p.pb")
    return tmp_path / "p.pb"


def wide() -> Program:
    """Two branches that are joined, with a view on the way and an update."""
    program = Program("wide")
    x = program.input("x", "float32", (64, 32))
    w = program.buffer("w", (32, 32), constant(0.1))
    one = ops.tanh(ops.reshape(ops.tanh(x @ w), shape=(32, 64)))
    other = ops.reshape(ops.exp(x @ w - 1.0), shape=(32, 64))
    program.update(w, w * 0.5)
    program.fetch("y", one + other)
    return program


def printed(capsys, *arguments: object) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_means_are_over_the_steps_that_are_measured_and_no_others(program, capsys, monkeypatch):
    """A clock that stands still, but for 1 s an op while the steps warm up and 3 s an op afterwards."""
    made: list[int] = []
    step = ReferenceExecutor.profile_step

    def slow_at_first(self: ReferenceExecutor) -> list[Spell]:
        spells = step(self)
        made.append(len(spells))
        long = 1.0 if len(made) <= WARM_UP else 3.0
        return [Spell(i, i * long, (i + 1) * long, 0) for i in range(len(spells))]

    monkeypatch.setattr(ReferenceExecutor, "profile_step", slow_at_first)
    code, out, _ = printed(capsys, "profile", program, "--steps", 7, "--json")
    assert code == 0
    assert len(made) == WARM_UP + 7
    found = json.loads(out)
    assert found["seconds"] == 7 * 3.0 * made[0]
    assert sum(group["seconds"] for group in found["by_stage"]) == found["seconds"]
    groups = [group for by in ("type", "stage", "line", "op", "thread") for group in found[f"by_{by}"]]
    assert all(group["seconds"] == 3.0 * group["calls"] for group in groups)
    assert all(group["calls"] == 7 for group in found["by_op"])


def test_one_slow_step_does_not_change_what_a_step_takes(program, capsys, monkeypatch):
    """A clock that stands still, but for 1 s an op, and for 1,000 s for the last op of one step."""
    made: list[int] = []
    step = ReferenceExecutor.profile_step

    def slow_once(self: ReferenceExecutor) -> list[Spell]:
        spells = step(self)
        made.append(len(spells))
        last = 1000.0 if len(made) == WARM_UP + 3 else 1.0
        return [Spell(i, float(i), i + (last if i == len(spells) - 1 else 1.0), 0) for i in range(len(spells))]

    monkeypatch.setattr(ReferenceExecutor, "profile_step", slow_once)
    code, out, _ = printed(capsys, "profile", program, "--steps", 20)
    assert code == 0
    found = fields(out.splitlines()[-1])
    assert float(found["seconds_per_step"]) == made[0]
    stages = ("forward", "backward", "update")
    assert sum(float(found[stage]) for stage in stages) == made[0]
    assert float(found["update"]) < made[0]
    code, out, _ = printed(capsys, "profile", program, "--steps", 20, "--json")
    assert all(group["median"] * 20 == group["calls"] for group in json.loads(out)["by_stage"])


def test_forward_backward_and_update_are_by_stage(program, capsys):
    code, out, _ = printed(capsys, "profile", program, "--steps", 2)
    assert code == 0
    last = fields(out.splitlines()[-1])
    parts = sum(float(last[name]) for name in ("forward", "backward", "update"))
    assert parts == pytest.approx(float(last["seconds_per_step"]), rel=1e-4)
    assert min(float(last[name]) for name in ("forward", "backward", "update")) > 0


def test_lines_of_the_source_have_the_time_of_their_ops(program, capsys):
    code, out, _ = printed(capsys, "profile", program, "--steps", 2, "--by", "line")
    assert code == 0
    assert sum("small_programs.py:" in line for line in out.splitlines()[1:]) > 5


def test_the_most_memory_is_the_peak_of_the_plan(program, capsys):
    code, out, _ = printed(capsys, "profile", program, "--steps", 1)
    last = fields(out.splitlines()[-1])
    assert code == 0
    assert int(last["peak"]) <= int(last["arena"])
    assert f"most memory: {last['peak']} bytes of the arena are alive while op " in out


def test_bytes_alive_are_those_of_the_lifetimes():
    compiled = wide().compile()
    stepper = Stepper(compiled)
    block = bound_block(compiled.desc)
    buffers = block_buffers(BlockAnalysis(block))
    numbers = {op.id: i for i, op in enumerate(block.ops)}
    wanted = [
        sum(aligned(b.nbytes) for b in buffers if b.start <= i < b.stop) for i in (numbers[op.id] for op in stepper.ops)
    ]
    assert profiling._alive(stepper.executor) == wanted
    assert len(set(wanted)) > 1


def test_the_memory_of_a_step_that_ran_in_order_has_the_peak_of_the_plan():
    stepper = Stepper(wide().compile())
    count = len(stepper.ops)
    spells = [Spell(i, float(i), i + 1.0, 0) for i in range(count)]  # each op ends just as the next begins
    found = alive(stepper.executor, 0.0, spells, float(count))
    assert [at for at, _ in found] == sorted(at for at, _ in found)
    assert found[-1][1] == 0
    assert max(nbytes for _, nbytes in found) <= max(profiling._alive(stepper.executor))
    assert max(nbytes for _, nbytes in found) >= 64 * 32 * 4


@pytest.mark.parametrize("threads", [1, 2])
def test_a_trace_is_what_viewers_read(tmp_path, threads: int):
    stepper = Stepper(wide().compile(), threads=threads, large=0)
    executor = stepper.executor
    trace = TraceFile(tmp_path / "t.json", list(stepper.program.locations))
    executor.feeds["x"][...] = 0.5
    for _ in range(7):
        trace.step(executor)
    trace.write(force=False)
    executor.close()
    found = json.loads((tmp_path / "t.json").read_text())
    assert found["displayTimeUnit"] == "ms"
    events = found["traceEvents"]
    assert all(event["ph"] in "MXC" and event["pid"] == 1 for event in events)
    complete = [event for event in events if event["ph"] == "X"]
    assert all(event["ts"] >= 0 and event["dur"] >= 0 and isinstance(event["tid"], int) for event in complete)
    assert len(complete) == 7 * (1 + len(executor.parts))
    for track in {event["tid"] for event in complete}:
        spans = sorted((event["ts"], event["ts"] + event["dur"]) for event in complete if event["tid"] == track)
        assert all(stop <= start + 0.002 for (_, stop), (start, _) in pairwise(spans)), "rounding"
    named = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert {event["tid"] for event in complete} == set(named)
    assert named[0] == "steps"
    assert named[1] == "thread 0"
    counters = [event for event in events if event["ph"] == "C"]
    assert {event["name"] for event in counters} == {"arena"}
    assert all(0 <= event["args"]["bytes"] <= executor.footprint.arena for event in counters)
    assert [event["args"]["bytes"] for event in counters].count(0) >= 7, "nothing outlives a step"
    assert {event["cat"] for event in complete} >= {"step", "forward"}
    lines = {event["args"]["line"].partition(":")[0] for event in complete if event["cat"] != "step"}
    assert {line.rpartition("/")[2] for line in lines} == {"test_profile.py", ""}, "the step counter is nobody's line"


@pytest.mark.parametrize("threads", [1, 2])
def test_profile_writes_a_trace_and_runs_on_threads(program, capsys, threads: int):
    code, out, _ = printed(capsys, "profile", program, "--steps", 3, "--trace", "t.json", "--threads", threads)
    assert code == 0
    events = json.loads(Path("t.json").read_text())["traceEvents"]
    assert [event["name"] for event in events if event.get("cat") == "step"] == ["step 1", "step 2", "step 3"]
    assert ("thread 0" in out) == (threads == 2)


def test_profile_does_not_replace_a_file_without_force(program, capsys):
    Path("t.json").write_text("precious")
    code, out, err = printed(capsys, "profile", program, "--trace", "t.json")
    assert (code, out, err) == (2, "", "runtime: t.json: the file exists; --force replaces it\n")
    assert Path("t.json").read_text() == "precious"
    assert printed(capsys, "profile", program, "--steps", 1, "--trace", "t.json", "--force")[0] == 0


def test_a_profile_of_every_schedule_counts_the_same_calls(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    linear().compile(batch=4).save(tmp_path / "l.pb")
    np.save("x.npy", np.zeros((4, 3), "float32"))
    np.save("y.npy", np.zeros(4, "float32"))
    counts = []
    for threads in (1, 2):
        code, out, _ = printed(
            capsys, "profile", "l.pb", "--json", "--threads", threads, "--feed", "x=@x.npy", "--feed", "y=@y.npy"
        )
        assert code == 0
        counts.append({group["name"]: group["calls"] for group in json.loads(out)["by_op"]})
    assert counts[0] == counts[1]
