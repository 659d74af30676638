"""`runtime bench`: ways by turns, operations that are counted, groups by name."""

import json
from pathlib import Path

import pytest
from subjects.commands import run_runtime as command

import runtime.commands.bench as bench
from compiler import Program, ops, sgd
from prograd_proto import TensorType
from runtime.step.arithmetic import operations


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(bench, "ROUND_SECONDS", 0.001)
    program = Program("layer")
    x = program.input("x", "float32", ("batch", 8))
    w = program.parameter("w", (8, 16))
    _, logarithm = ops.log_determinant(ops.matmul(w, w, transpose_b=True))
    program.minimize(ops.mean(ops.relu(x @ w)) + 0.0 * logarithm, sgd(0.1))
    program.compile(batch=32).save(tmp_path / "p.pb", force=True)
    return tmp_path / "p.pb"


def test_engines_and_threads_take_turns_and_groups_are_named(program: Path, capsys: pytest.CaptureFixture[str]):
    code, out, err = command(
        capsys, "bench", program, "--engine", "native", "--against", "reference", "--threads", "1,2"
    )
    assert (code, err) == (0, "runtime: warning: the program has no data, so its feeds are zeros\n" * 4)
    ways = [line.split()[:2] for line in out[1:5]]
    assert ways == [["native", "1"], ["reference", "1"], ["native", "2"], ["reference", "2"]]
    assert any("matmul+relu" in line and "tests/native/whole/test_bench.py" in line for line in out)
    assert any("log_determinant by NumPy" in line for line in out)
    assert out[-1].startswith("OK entry=train engine=native threads=1 seconds_per_step=")


def test_json_has_the_same(program: Path, capsys: pytest.CaptureFixture[str]):
    code, out, _ = command(capsys, "bench", program, "--engine", "native", "--threads", 1, "--json")
    assert code == 0
    found = json.loads(out[-1])
    [way] = found["ways"]
    assert (way["engine"], way["threads"]) == ("native", 1)
    assert 0 < way["of_peak"] < 1
    assert sum(group["share"] for group in found["groups"]) == pytest.approx(1)


def test_a_number_of_threads_is_a_whole_number(program: Path, capsys: pytest.CaptureFixture[str]):
    code, _, err = command(capsys, "bench", program, "--threads", "1,x")
    assert code == 2
    assert "'x' is not a whole number from 1 on" in err


def of(*shape: int) -> TensorType:
    return TensorType("float32", shape)


@pytest.mark.parametrize(
    ("op", "inputs", "outputs", "count"),
    [
        ("matmul", [of(3, 4), of(4, 5)], [of(3, 5)], 2 * 3 * 4 * 5),
        ("matmul", [of(7, 4, 3), of(4, 5)], [of(7, 3, 5)], 2 * 7 * 3 * 4 * 5),
        ("outer_sum", [of(9, 3), of(9, 5)], [of(3, 5)], 2 * 9 * 3 * 5),
        ("conv2d", [of(2, 8, 8, 6), of(5, 5, 3, 4)], [of(2, 4, 4, 4)], 2 * 2 * 4 * 16 * 3 * 25),
        ("conv2d_filter_gradient", [of(2, 8, 8, 6), of(2, 4, 4, 4)], [of(5, 5, 3, 4)], 2 * 2 * 4 * 16 * 3 * 25),
        ("scaled_dot_product_attention", [of(1, 2, 7, 8), *[of(1, 2, 9, 8)] * 2], [of(1, 2, 7, 8)], 4 * 2 * 7 * 9 * 8),
        (
            "lstm_layer",
            [of(2, 7, 12), of(3, 12), of(2, 3), of(2, 3), None],
            [of(2, 7, 3)],
            2 * 14 * 3 * 12 + 2 * 7 * 12,
        ),
        ("sum", [of(3, 4)], [of()], 12),
        ("add", [of(3, 4), of(4)], [of(3, 4)], 16),
    ],
)
def test_operations_are_counted(op, inputs, outputs, count):
    assert operations(op, inputs, outputs) == count
