"""Products of a weight of 16 bits and one column: the weight is widened in registers, and no float32 copy is kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import prograd
from compiler.__main__ import main
from prograd import Program, ops


def program(dtype: str, rows: int, size: int) -> Program:
    made = Program("column", seed=1)
    x = made.input("x", "float32", (size, 1))
    w = made.parameter("w", (rows, size), prograd.normal(0.0, 0.2), dtype=dtype, trainable=False)  # type: ignore[arg-type]
    made.outputs(y=ops.matmul(ops.cast(w, dtype="float32"), x))
    return made


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize(("rows", "size"), [(32, 64), (200, 256), (77, 67)])
def test_the_product_has_the_numbers_of_the_reference_engine(dtype: str, rows: int, size: int):
    x = {"x": np.random.default_rng(0).standard_normal((size, 1)).astype(np.float32)}
    compiled = program(dtype, rows, size).compile()
    runs = [prograd.Run(compiled, engine=engine) for engine in ("reference", "native")]
    wanted, found = (run.step(x, entry="predict")["y"] for run in runs)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    weight = np.asarray(runs[0].state["w"], np.float64)
    np.testing.assert_allclose(found, weight @ x["x"], rtol=1e-4, atol=1e-5)


def test_no_copy_of_the_weight_is_prepacked(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    program("bfloat16", 256, 256).compile().save(tmp_path / "net.pb")
    assert main(["show", str(tmp_path / "net.pb"), "--engine", "native", "--entry", "predict"]) == 0
    said = capsys.readouterr().out
    assert "matmul, whose operand is computed by cast" in said
    assert "prepacked" not in said
