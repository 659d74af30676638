"""`compiler plan`: what it prints, what it writes, and how it refuses."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest
from subjects.budgets import deep
from subjects.commands import run_compiler as run

from compiler import global_norm, momentum
from compiler.__main__ import main as compiler_main
from compiler.commands.engine_arenas import engine_arenas, in_words
from prograd_proto import program_pb2 as pb
from prograd_proto.files import load, save
from prograd_proto.identity import program_sha256
from runtime.__main__ import main as runtime_main


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A chain of layers, compiled for 256 rows."""
    monkeypatch.chdir(tmp_path)
    deep(depth=4).compile(n=256).save("deep.pb", force=True)
    return Path("deep.pb")


def line_of_layers() -> int:
    """The line of `subjects/budgets.py` that makes a layer of `deep`."""
    lines, first = inspect.getsourcelines(deep)
    return first + next(i for i, line in enumerate(lines) if "ops.dropout" in line)


def test_the_plan_is_said_in_words(program: Path, capsys):
    before = program.read_bytes()
    code, out, err = run(capsys, "plan", program)
    assert (code, err) == (0, "")
    of_runs = [line for line in out.splitlines() if line.startswith("  in a run: ")]
    arenas = engine_arenas(load(program), 1)
    assert of_runs[0] == f"  in a run: arena {in_words({n: a['train'] for n, a in arenas.items()})}, on 1 thread"
    assert of_runs[1] == f"  in a run: arena {in_words({n: a['evaluate'] for n, a in arenas.items()})}, on 1 thread"
    lines = [line for line in out.splitlines() if line not in of_runs]
    assert lines[:-1] == [
        "train with {n=256}: arena 122 KiB (lower bound 122 KiB, optimal), persistent 2.02 KiB",
        f"  peak at op 25 dropout, budgets.py:{line_of_layers()}, which works on 58.0 KiB by itself",
        "  updates: 4 immediate",
        "evaluate with {n=256}: arena 24.0 KiB (lower bound 24.0 KiB, optimal), persistent 2.02 KiB",
        f"  peak at op 4 matmul, budgets.py:{line_of_layers()}, which works on 16.0 KiB by itself",
        "evaluate with {n=1}: arena 192 bytes (lower bound 192 bytes, optimal), persistent 2.02 KiB",
        f"  peak at op 4 matmul, budgets.py:{line_of_layers()}, which works on 128 bytes by itself",
    ]
    assert lines[-1] == f"OK program_sha256={program_sha256(load(program))}"
    assert program.read_bytes() == before


def test_a_budget_is_met_in_another_file_and_its_cost_is_said(program: Path, capsys):
    before = program.read_bytes()
    code, out, err = run(capsys, "plan", program, "--budget", "100KiB", "-o", "small.pb")
    assert (code, err) == (0, "")
    assert out.splitlines()[4] == "  4 ops run again: costs 1.09 times the operations"
    assert program.read_bytes() == before
    assert max(plan_bytes(Path("small.pb"))) <= 100 * 1024 < max(plan_bytes(program))
    assert run(capsys, "plan", "small.pb") == (0, out, ""), "what a file needs is all in the file"
    assert run(capsys, "check", "small.pb")[0] == 0


def test_the_program_itself_is_replaced_only_when_asked(program: Path, capsys):
    assert run(capsys, "plan", program, "--budget", "100KiB", "--in-place")[0] == 0
    assert max(plan_bytes(program)) <= 100 * 1024


def test_what_runs_again_is_a_stage_of_its_own_in_the_profile(program: Path, capsys):
    run(capsys, "plan", program, "--budget", "100KiB", "--in-place")
    assert runtime_main(["profile", str(program), "--steps", "1", "--by", "stage"]) == 0
    assert "recompute" in {line.split(" ")[0] for line in capsys.readouterr().out.splitlines()}


@pytest.mark.parametrize("threads", [1, 2])
def test_a_run_within_a_budget_ends_with_the_same_states(threads: int, program: Path, capsys):
    run(capsys, "plan", program, "--budget", "100KiB", "-o", "small.pb")
    np.save("x.npy", np.random.default_rng(0).normal(size=(512, 8)).astype(np.float32))
    ends: list[str] = []
    for name in ("deep.pb", "small.pb"):
        options = ["--entry", "train", "--feed", "x=@x.npy", "--steps", "5", "--threads", str(threads)]
        assert runtime_main(["execute", name, *options]) == 0
        ends.append(capsys.readouterr().out.split("state_sha256=")[1])
    assert ends[0] == ends[1]


def test_a_file_in_the_way_stays_unless_forced(program: Path, capsys):
    Path("small.pb").write_text("mine")
    code, out, err = run(capsys, "plan", program, "-o", "small.pb")
    assert (code, out) == (2, "")
    assert err == "compiler: small.pb: the file exists; --force replaces it\n"
    assert Path("small.pb").read_text() == "mine"
    assert run(capsys, "plan", program, "-o", "small.pb", "--force")[0] == 0
    assert load("small.pb") == load(program)


def test_an_impossible_budget_writes_nothing_and_names_the_op_in_the_way(program: Path, capsys):
    code, out, err = run(capsys, "plan", program, "--budget", 1000, "-o", "small.pb")
    assert (code, out) == (6, "")
    assert err == (
        "compiler: deep.pb: entry 'train': the smallest arena found has 75840 bytes, more than the budget of 1000; "
        "op 25 (dropout), where the peak is, works on 59392 by itself\n"
    )
    assert not Path("small.pb").exists()


@pytest.mark.parametrize("size", ["800", "0.75KiB", "800B", "0.0007MiB"])
def test_sizes_have_units_of_1024(size: str, program: Path, capsys):
    _, _, err = run(capsys, "plan", program, "--budget", size)
    nbytes = {"800": 800, "800B": 800, "0.75KiB": 768, "0.0007MiB": 734}[size]
    assert f"more than the budget of {nbytes}; " in err


@pytest.mark.parametrize("size", ["", "-1", "1e3", "KiB", "1 KiB", "1XB", "half", "1.KiB", "१"])
def test_other_sizes_are_refused(size: str, program: Path, capsys):
    assert run(capsys, "plan", program, f"--budget={size}") == (
        2,
        "",
        f"compiler: argument --budget: {size!r} is not a size as 1.5MiB, 1GB or 1000000; see compiler plan --help\n",
    )


def test_options_that_do_not_go_together_are_refused(program: Path, capsys):
    assert run(capsys, "plan", program, "--force") == (2, "", "compiler: --force is for -o\n")
    code, _, err = run(capsys, "plan", program, "--in-place", "-o", "small.pb")
    assert code == 2
    assert err == ("compiler: argument -o/--output: not allowed with argument --in-place; see compiler plan --help\n")


def test_a_program_that_is_not_compiled_is_refused(program: Path, capsys):
    desc = load(program)
    for entry in desc.entries:
        del entry.bindings[:]
    save(desc, "source.pb")
    assert run(capsys, "plan", "source.pb") == (
        3,
        "",
        "compiler: source.pb: there are entries without a block that runs; compile the program\n",
    )


def test_updates_that_clipping_holds_back_are_counted_with_the_reason(tmp_path: Path, capsys):
    deep(momentum(0.1, clip=global_norm(1.0)), depth=4).compile(n=2).save(tmp_path / "clipped.pb")
    _, out, _ = run(capsys, "plan", tmp_path / "clipped.pb")
    assert out.splitlines()[3] == (
        "  updates: 0 immediate; 4 deferred, as they read the gradients of other parameters too, "
        "like clipping by the global norm"
    )


def plan_bytes(path: Path) -> list[int]:
    return [binding.plan.arena_bytes for entry in load(path).entries for binding in entry.bindings]


@pytest.mark.parametrize("plan", [pb.MemoryPlan(), pb.MemoryPlan(arena_bytes=64), pb.MemoryPlan(arena_bytes=1 << 50)])
def test_a_wrong_plan_changes_no_step_and_no_identity(plan: pb.MemoryPlan, program: Path, capsys):
    desc, printed = load(program), []
    save(desc, "good.pb")
    desc.entries[0].bindings[0].plan.CopyFrom(plan)
    save(desc, "bad.pb")
    for path in ("good.pb", "bad.pb"):
        assert [check(["check", path]) for check in (compiler_main, runtime_main)] == [0, 0]
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]


def test_a_search_that_is_over_too_soon_says_how_far_it_came_and_writes_nothing(program: Path, capsys):
    before = program.read_bytes()
    code, out, err = run(capsys, "plan", program, "--budget", "100KiB", "--max-time", "0", "-o", "small.pb")
    assert (code, out) == (6, "")
    assert err == (
        "compiler: deep.pb: entry 'train': 0 seconds were not enough: with 0 more ops in the step, of which 0 move "
        "values to a file, what it needs at once fell from 124992 to 124992 bytes, and the budget is 102400; "
        "give it more time, by --max-time, or a larger budget\n"
    )
    assert program.read_bytes() == before
    assert not Path("small.pb").exists()


def test_a_budget_that_is_met_as_it_is_takes_no_time(program: Path, capsys):
    assert run(capsys, "plan", program, "--budget", "1MiB", "--max-time", "0")[0] == 0
