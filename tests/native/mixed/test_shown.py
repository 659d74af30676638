"""The view `compiler show --lists`: the three lists of mixed precision, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from subjects.commands import run_compiler

from prograd import Program, normal, ops, sgd

Captured = pytest.CaptureFixture[str]


def saved(path: Path, mixed: str | None) -> Path:
    """Save a program with two products, the second of 10 columns."""
    program = Program("net", seed=1)
    x, y = program.input("x", "float32", ("batch", 64)), program.input("y", "int64", ("batch",))
    hidden = ops.relu(x @ program.parameter("w", (64, 128), normal(0.0, 0.1)))
    logits = hidden @ program.parameter("v", (128, 10), normal(0.0, 0.1))
    program.minimize(ops.softmax_cross_entropy(logits, y), sgd(0.1))
    program.compile(batch=32, mixed=mixed).save(path / "net.pb", force=True)
    return path / "net.pb"


def test_every_op_is_in_one_of_three_lists(tmp_path: Path, capsys: Captured) -> None:
    code, out, _ = run_compiler(capsys, "show", saved(tmp_path, "bfloat16"), "--lists")
    assert code == 0
    assert out.startswith("train: ")
    found: dict[str, dict[str, str]] = {}
    here: dict[str, str] = {}
    for line in out.splitlines()[1:]:
        if not line.startswith(" "):
            found[line.partition(":")[0]] = here = {}
        else:
            here[line.split()[0]] = line
    assert list(found) == ["lower", "follow", "keep"]
    assert found["lower"].keys() >= {"matmul", "outer_sum"}
    assert "relu" in found["follow"]
    assert found["keep"].keys() >= {"softmax_cross_entropy", "sgd"}


def test_a_program_without_casts_is_refused(tmp_path: Path, capsys: Captured) -> None:
    path = saved(tmp_path, None)
    code, _, err = run_compiler(capsys, "show", path, "--lists")
    wanted = f"{path}: the entry 'train' has no casts to bfloat16; `compiler compile --mixed bfloat16` writes them"
    assert (code, err) == (2, f"compiler: {wanted}\n")


@pytest.mark.parametrize("other", ["--memory", "--order", "--bound"])
def test_other_views_are_refused(tmp_path: Path, capsys: Captured, other: str) -> None:
    code, _, err = run_compiler(capsys, "show", saved(tmp_path, "bfloat16"), "--lists", other)
    assert (code, err) == (2, f"compiler: --lists is a view of its own; leave out {other}\n")
