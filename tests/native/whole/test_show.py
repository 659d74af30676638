"""`compiler show --engine`: a step as an engine computes it, after any of its passes, and the code."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from subjects.commands import run_compiler as command

from compiler import Program, adam, ops
from prograd_proto.files import load
from runtime.codegen.lowering.passes.pipeline import PASSES
from runtime.codegen.machine import INSTRUCTION_SETS, target
from runtime.engines.choice import make_engine
from runtime.engines.engine import EngineOptions
from runtime.engines.native import cpu
from runtime.entries import bound_entries

NAMES = [each.name for each in PASSES.of_step(is_instrumented=False)]


@pytest.fixture
def program(tmp_path: Path) -> Path:
    program = Program("layer")
    x = program.input("x", "float32", ("batch", 8))
    w, b = program.parameter("w", (8, 16)), program.parameter("b", (16,))
    y = ops.softmax(ops.relu(x @ w + b))
    gram = ops.matmul(w, w, transpose_b=True) + ops.eye.on(program)(shape=(8, 8))
    _, logarithm = ops.log_determinant(gram)
    program.minimize(ops.mean(y) + 0.0 * logarithm, adam(0.1))
    program.compile(batch=32).save(tmp_path / "p.pb", force=True)
    return tmp_path / "p.pb"


def test_groups_phases_memory_and_what_is_left_to_numpy_are_shown(program: Path, capsys: pytest.CaptureFixture[str]):
    code, printed, err = command(capsys, "show", program, "--engine", "native", "--threads", 2)
    assert (code, err) == (0, "")
    text, out = printed, printed.splitlines()
    assert out[0].startswith("train by the native engine, ")
    assert out[1] == "phase 1"
    assert "(32, 16)  matmul + add + relu" in text
    assert " in b, " in text  # the update, where the state lies
    assert "results are in memory" in text
    assert out[-1].startswith("by NumPy, between them: ")
    assert "log_determinant 1" in out[-1]


@pytest.mark.parametrize("name", NAMES)
def test_a_pass_is_shown_by_what_it_and_those_before_it_established(
    name: str, program: Path, capsys: pytest.CaptureFixture[str]
):
    code, text, err = command(capsys, "show", program, "--engine", "native", "--threads", 2, "--after", name)
    assert (code, err) == (0, "")
    later = NAMES[NAMES.index(name) + 1 :]
    assert ("product  matmul" in text) == ("fuse" in later)
    assert ("pointwise  " in text) == ("fuse" in later)
    assert ("matmul + add + relu" in text) == ("fuse" not in later)
    assert (" work item" in text) == (" functions for " in text) == ("partition" not in later)
    assert ("phase 1" in text) == (" phases" in text) == ("schedule" not in later)
    assert ("arena" in text) == (" -> " in text) == (" in b," in text) == ("place" not in later)
    assert (" chunk" in text) == ("chunk" not in later)


def test_parts_of_a_decomposition_have_names_of_their_own(program: Path, capsys: pytest.CaptureFixture[str]):
    _, read, _ = command(capsys, "show", program, "--engine", "native", "--after", "read")
    _, fused, _ = command(capsys, "show", program, "--engine", "native", "--after", "fuse")
    assert " reduction  softmax_" in read
    for part in ("max", "difference", "exp", "sum", "inverse", "product"):
        assert f" = softmax.{part}(" in read
    assert "softmax(max, difference, exp, sum, inverse, product)" in fused


def test_the_code_is_shown(program: Path, capsys: pytest.CaptureFixture[str]):
    code, printed, _ = command(capsys, "show", program, "--engine", "native", "--ir")
    assert code == 0
    assert any(line.startswith("define dso_local void @group_0_0(") for line in printed.splitlines())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--engine", "native", "--after", "fus"], "the native engine has no pass 'fus'; did you mean 'fuse'?"),
        (
            ["--engine", "native", "--after", "separate"],
            "the native engine has no pass 'separate'; the passes are " + ", ".join(NAMES),
        ),
        (["--engine", "reference", "--ir"], "the engine 'reference' compiles nothing; --ir is for the engine 'native'"),
        (["--engine", "native", "--memory"], "--engine and --memory are two views; ask for one of them"),
        (["--ir"], "--ir is for --engine"),
    ],
)
def test_what_makes_no_sense_is_refused(
    options: list[str], sentence: str, program: Path, capsys: pytest.CaptureFixture[str]
):
    code, _, err = command(capsys, "show", program, *options)
    assert (code, err) == (2, f"compiler: {sentence}\n")


@pytest.fixture
def no_cpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine that has code for no instruction set, and no LLVM."""
    monkeypatch.setattr(cpu.platform, "machine", lambda: "riscv64")
    monkeypatch.setitem(sys.modules, "llvmlite.binding", None)
    cpu.this_machine.cache_clear()
    yield
    cpu.this_machine.cache_clear()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("instructions", INSTRUCTION_SETS)
@pytest.mark.parametrize("view", [[], ["--ir"], ["--after", "fuse"], ["--after", next(reversed(NAMES))]])
@pytest.mark.usefixtures("no_cpu")
def test_every_view_is_shown_for_every_instruction_set_on_any_machine(
    instructions: str, view: list[str], program: Path, capsys: pytest.CaptureFixture[str]
):
    code, printed, err = command(capsys, "show", program, "--engine", f"native.{instructions}", "--threads", 2, *view)
    assert (code, err) == (0, "")
    architecture = target(instructions).triple.partition("-")[0]
    wanted = f'target triple = "{architecture}-' if "--ir" in view else f"train by the native engine, {instructions}, 2"
    assert printed.startswith(wanted)
    assert len(printed.splitlines()) > 10


@pytest.mark.usefixtures("no_cpu")
def test_without_a_named_instruction_set_a_machine_that_has_none_is_refused(
    program: Path, capsys: pytest.CaptureFixture[str]
):
    code, _, err = command(capsys, "show", program, "--engine", "native")
    assert (code, err) == (2, "compiler: the native engine has no code for this CPU, riscv64\n")


def test_what_is_shown_for_this_machine_is_what_its_engine_shows(program: Path, capsys: pytest.CaptureFixture[str]):
    """One of the two needs a machine that runs the code, and the caches of this one."""
    _, printed, _ = command(capsys, "show", program, "--engine", "native", "--threads", 1, "--ir")
    [bound] = bound_entries(load(program), "train")
    engine, _ = make_engine("native", load(program), EngineOptions())
    assert printed.strip() == engine.code(bound).strip()
    _, printed, _ = command(capsys, "show", program, "--engine", "native", "--threads", 1)
    assert printed.splitlines() == list(engine.explain(bound))
