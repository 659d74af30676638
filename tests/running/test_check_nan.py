"""--check-nan: the first op that makes NaN or Inf, what it read, the fed rows, and the step as a program of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from subjects.commands import run_runtime as command
from subjects.commands import told
from subjects.random_training import training_programs
from subjects.small_programs import BATCH, arrays, linear, rich, save, write_data
from subjects.steps import Stepper

import runtime
from compiler import Program, constant, ops, sgd
from prograd_proto.blocks import BlockAnalysis
from runtime.engines.reference.target import REFERENCE
from runtime.errors import NonFinite
from runtime.step import aliases_of


def failing(run: runtime.Run, **options: object) -> NonFinite:
    with pytest.raises(NonFinite) as error:
        list(run.events(**options))
    return error.value


def poisoned(folder: Path, program: Program, row: int, **options: object) -> Path:
    """The program with data of which one row of x is NaN."""
    x = arrays()["x"]
    x[row, 1] = np.nan
    write_data(folder, x=x)
    return save(program, folder, **options)


def test_the_sentence_says_what_the_op_read_and_which_rows_were_fed(tmp_path):
    path = poisoned(tmp_path, linear(), 3)
    error = failing(runtime.load(path, check_nan=True))
    start, _, rest = str(error).partition(": op ")
    assert start.endswith(": row 3 of the feed 'x' has NaN or Inf")
    assert "(mul from tests/subjects/small_programs.py:" in rest
    assert "has 1 of 12 elements that are NaN or Inf; it reads %x in [" in rest
    assert " with 1 of 12 NaN or Inf, %w in [" in rest
    rows = [int(word) for word in rest.rpartition("fed are the rows ")[2].split(", ")]
    assert len(rows) == BATCH
    assert 3 in rows


@pytest.mark.parametrize("threads", [1, 2])
def test_an_input_that_the_op_writes_over_is_shown_as_it_was_before(threads: int):
    program = Program()
    x = program.input("x", "float64", (4,))
    made = ops.log(x - 1.0)  # over the difference, which nothing reads later
    program.outputs(y=made * 2.0)
    stepper = Stepper(program.compile(), "predict", threads=threads, check_nan=True)
    block = BlockAnalysis(stepper.block)
    in_place = dict(zip(block.op_types, aliases_of(block, REFERENCE).in_place, strict=True))
    assert in_place["log"] == [(0, 0)]
    with pytest.raises(NonFinite, match=r"has 1 of 4 elements that are NaN or Inf; it reads %sub_\d+ in \[-0\.5, 2\]$"):
        stepper.step(x=[3, 0.5, 2, 2.25])
    stepper.executor.close()


@pytest.mark.parametrize(
    ("dtype", "elements", "words"),
    [
        ("float64", [1.0, np.nan], "%x in [1, 1] with 1 of 2 NaN or Inf"),
        ("float64", [-np.inf, np.nan], "%x of only NaN or Inf"),
        ("float32", [-1.25, 1e30], "%x in [-1.25, 1e+30]"),
    ],
)
def test_a_range_is_of_the_finite_elements(dtype: str, elements: list[float], words: str):
    program = Program()
    x = program.input("x", dtype, (2,))
    program.outputs(y=ops.log(x))
    stepper = Stepper(program.compile(), "predict", check_nan=True)
    assert told(NonFinite, lambda: stepper.step(x=elements)).rpartition("; it reads ")[2] == words


def test_more_inputs_than_a_sentence_holds_are_counted():
    program = Program()
    parts = [program.input(f"x{i}", "float64", (2,)) for i in range(5)]
    program.outputs(y=ops.concat(*parts, axis=0))
    stepper = Stepper(program.compile(), "predict", check_nan=True)
    with pytest.raises(NonFinite) as error:
        stepper.step(x0=1, x1=2, x2=3, x3=np.nan, x4=5)
    assert str(error.value).endswith("; it reads %x0 in [1, 1], %x1 in [2, 2], %x2 in [3, 3], and 2 more inputs")


def test_states_are_afterwards_what_they_were_before_the_step(tmp_path):
    path = poisoned(tmp_path, rich(), 5)
    run = runtime.load(path, check_nan=True)
    step = int(str(failing(run)).partition(":")[0].removeprefix("step "))
    other = runtime.load(path)
    events = other.events()
    seen = 0
    while seen < step - 1:
        seen += isinstance(next(events), runtime.StepEnd)
    assert {n: a.tobytes() for n, a in run.state.items()} == {n: a.tobytes() for n, a in other.state.items()}


def test_copies_are_counted_by_the_memory_limit_and_made_only_when_asked_for(tmp_path):
    path = save(linear(), tmp_path)
    run = runtime.load(path)
    list(run.events(steps=1))
    tight = run.memory.most
    list(runtime.load(path, max_memory=tight).events(steps=1))
    with pytest.raises(runtime.ResourceLimit):
        list(runtime.load(path, max_memory=tight, check_nan=True).events(steps=1))


def test_a_loss_that_is_not_finite_suggests_looking_at_every_op(tmp_path, monkeypatch, capsys):
    save(linear(rate=1e30), tmp_path)
    monkeypatch.chdir(tmp_path)
    code, out, err = command(capsys, "execute", "p.pb", "-q")
    assert (code, out) == (5, [])
    assert err == (
        "runtime: step 2: loss is inf; a lower learning rate or clipping may help, and --check-nan "
        "names the op that makes the first one\n"
    )


def test_a_reproducer_runs_by_itself_and_fails_at_the_same_op(tmp_path, monkeypatch, capsys):
    poisoned(tmp_path, rich(), 5)
    monkeypatch.chdir(tmp_path)
    code, out, err = command(capsys, "execute", "p.pb", "-q", "--check-nan", "--reproduce", "r")
    assert (code, out) == (5, [])
    said, failed = err.splitlines()
    assert said == "runtime: the step is kept: runtime execute r/program.pb --check-nan"
    assert {path.name for path in Path("r").iterdir()} == {"program.pb", "states.safetensors", "rows.safetensors"}
    (tmp_path / "rows.safetensors").unlink()
    code, out, err = command(capsys, "execute", "r/program.pb", "--check-nan")
    assert (code, out) == (5, [])
    assert cause(err) == cause(failed)
    assert err.startswith("runtime: step 1: ")
    assert command(capsys, "check", "r/program.pb")[0] == 0


def cause(text: str) -> str:
    """The op, its output and what it read: not the number of the step, nor the numbers of rows."""
    return text.partition(": op ")[2].partition("; fed ")[0]


@pytest.mark.thorough
@settings(max_examples=12)
@given(training_programs(), st.integers(1, 6), st.integers(0, 9))
def test_the_step_of_a_reproducer_is_that_step_to_the_bit(tmp_path_factory, program: Program, at: int, seed: int):
    """The NaN is in an output that no state depends on, so both can go on where no one looks at it."""
    folder = tmp_path_factory.mktemp("reproduced")
    x = np.random.default_rng(seed).normal(size=(18, 4))
    step = ops.cast(program.state("step"), dtype="float64")
    program.fetch("odd", ops.log(at - 0.5 - step))  # finite for the first steps
    desc = program.compile(rows=3).desc
    run = runtime.Run(desc, folder, check_nan=True)
    error = failing(run, data={"x": x}, epochs=2)
    assert str(error).startswith(f"step {at + 1}: op ")
    assert error.step is not None
    assert runtime.write_reproducer(desc, error.step, folder / "r") == []

    whole = runtime.Run(desc, folder)
    for _ in steps(whole.events(data={"x": x}, epochs=2), at + 1):
        pass
    again = runtime.load(folder / "r" / "program.pb")
    for _ in steps(again.events(), 1):
        pass
    assert {n: a.tobytes() for n, a in again.state.items()} == {n: a.tobytes() for n, a in whole.state.items()}


def steps(events, count: int):
    """Return the events up to the end of `count` steps."""
    for event in events:
        yield event
        count -= isinstance(event, runtime.StepEnd)
        if not count:
            return


def test_feeds_without_rows_are_given_with_the_command(tmp_path, monkeypatch, capsys):
    program = Program("fed", seed=2)
    x, rate = program.input("x", "float32", ("n", 2)), program.input("rate", "float32", ())
    w = program.parameter("w", (2,), constant(1.0))
    program.minimize(ops.mean(ops.log(x * w) * rate), sgd(0.1))
    monkeypatch.chdir(tmp_path)
    program.compile(n=2).save("p.pb")
    np.save("x.npy", np.array([[1, 2], [3, 4], [-1, 2], [3, 4]], np.float32))
    arguments = ["--feed", "x=@x.npy", "--feed", "rate=1", "--check-nan", "--reproduce", "my r"]
    code, _, err = command(capsys, "execute", "p.pb", "-q", *arguments)
    said, failed = err.splitlines()
    assert code == 5
    assert failed.endswith("; fed are the rows 2, 3")
    assert said == (
        "runtime: the step is kept: runtime execute 'my r/program.pb' --check-nan "
        "--feed 'x=@my r/feed0.npy' --feed 'rate=@my r/feed1.npy'"
    )
    given = ["--feed", "x=@my r/feed0.npy", "--feed", "rate=@my r/feed1.npy"]
    code, _, err = command(capsys, "execute", "my r/program.pb", "--check-nan", *given)
    assert (code, cause(err)) == (5, cause(failed))


def test_an_evaluation_that_fails_is_kept_as_well(tmp_path, monkeypatch, capsys):
    poisoned(tmp_path, rich(), 35)
    monkeypatch.chdir(tmp_path)
    code, _, err = command(capsys, "execute", "p.pb", "-q", "--check-nan", "--reproduce", "r")
    failed = err.splitlines()[-1]
    assert code == 5
    assert failed.startswith("runtime: entry 'evaluate': row 35 of the feed 'x' has NaN or Inf: op ")
    code, _, err = command(capsys, "execute", "r/program.pb", "-q", "--check-nan")
    assert (code, cause(err)) == (5, cause(failed))
    assert err.startswith("runtime: entry 'evaluate': row 0 of the feed 'x' has NaN or Inf: op ")


def test_half_floats_and_a_negative_seed_are_kept(tmp_path):
    program = Program("half", seed=1)
    x = program.input("x", "bfloat16", ("n", 2))
    w = program.parameter("w", (2,), constant(1.5), dtype="bfloat16")
    y = ops.cast(x, dtype="float32") * ops.cast(w, dtype="float32")
    program.minimize(ops.mean(ops.log(ops.dropout(y, ratio=0.0) - 1.0)), sgd(0.1))
    desc = program.compile(n=2).desc
    rows = np.array([[1, 2], [3, 4], [5, 0.25], [3, 4]], np.float32)
    error = failing(runtime.Run(desc, tmp_path, check_nan=True, seed=-4), data={"x": rows})
    runtime.write_reproducer(desc, error.step, tmp_path / "r")
    again = failing(runtime.load(tmp_path / "r" / "program.pb", check_nan=True))
    assert cause(str(again)) == cause(str(error))
    assert int(again.step.states["seed"]) == -4


def test_a_reproducer_writes_over_nothing(tmp_path, monkeypatch, capsys):
    poisoned(tmp_path, rich(), 5)
    monkeypatch.chdir(tmp_path)
    Path("r").mkdir()
    Path("r/program.pb").write_text("precious")
    code, _, err = command(capsys, "execute", "p.pb", "-q", "--check-nan", "--reproduce", "r")
    assert (code, err) == (2, "runtime: r: a reproducer is there already; --force replaces it\n")
    code, _, err = command(capsys, "execute", "p.pb", "-q", "--check-nan", "--reproduce", "p.pb")
    assert (code, err) == (2, "runtime: p.pb: this is a file, and a reproducer is a folder; name another one\n")
    code, _, err = command(capsys, "execute", "p.pb", "-q", "--check-nan", "--reproduce", "no/r")
    assert (code, err) == (2, "runtime: no/r: there is no folder to make it in\n")
    assert Path("r/program.pb").read_text() == "precious"
    assert command(capsys, "execute", "p.pb", "-q", "--check-nan", "--reproduce", "r", "--force")[0] == 5
    assert command(capsys, "check", "r/program.pb")[0] == 0


def test_a_reproducer_needs_a_look_at_every_op(tmp_path, monkeypatch, capsys):
    save(rich(), tmp_path)
    monkeypatch.chdir(tmp_path)
    code, _, err = command(capsys, "execute", "p.pb", "-q", "--reproduce", "r")
    assert (code, err) == (2, "runtime: --reproduce keeps what --check-nan finds; give --check-nan\n")
