"""Numbers of a packed column that a program decodes by operations."""

from pathlib import Path

import numpy as np
import pytest
from subjects.commands import told

import prograd
from prograd import Program, metrics, ops

PRICES = np.array([80e3, 150e3, 310e3, 620e3])
TABLE = {
    "plain": PRICES / 1e4,
    "price": PRICES,
    "size": np.arange(1.0, 5.0),
    "rank": PRICES + 1,
    "town": ["A", "B", "A", "B"],
    "day": ["2026-01-01", "2026-01-02", "2026-01-03", "2026-01-04"],
}


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.safetensors"
    options = {"log": ["price"], "standardise": ["price", "size"], "quantile": ["rank"], "date": ["day"]}
    prograd.data.pack(TABLE, path, **options)
    return path


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("column", ["plain", "price", "size"])
def test_errors_are_in_units_of_the_table(rows: Path, column: str, engine: str):
    program = Program()
    stored = program.input("stored", "float32", ("n",))
    guess = prograd.data.decode(stored + 0.25, column, rows)
    program.metrics(error=metrics.mean_absolute_error(guess, prograd.data.decode(stored, column, rows)))
    program.outputs(value=prograd.data.decode(stored, column, rows))
    run = prograd.Run(program.compile(n=4), engine=engine)
    encoded = prograd.data.encode({column: TABLE[column]}, rows)[column]
    assert run.predict({"stored": encoded})["value"] == pytest.approx(TABLE[column], rel=1e-5)
    off = prograd.data.decode(encoded.astype(np.float64) + 0.25, column, rows) - TABLE[column]
    assert run.evaluate({"stored": encoded})["error"] == pytest.approx(np.abs(off).mean(), rel=1e-5)


@pytest.mark.parametrize(
    ("column", "what"), [("town", "classes"), ("day", "dates"), ("rank", "quantiles")], ids=lambda word: word
)
def test_a_column_without_numbers_is_refused(rows: Path, column: str, what: str):
    stored = Program().input("stored", "float32", ("n",))
    assert told(prograd.UsageError, lambda: prograd.data.decode(stored, column, rows)) == (
        f"decode: {column!r} has {what}, and a program decodes numbers, scaled or as logarithms"
    )


def test_a_tensor_is_decoded_to_a_tensor(rows: Path):
    stored = Program().input("stored", "float32", ("n",))
    assert prograd.data.decode(stored, "plain", rows) is stored
    assert ops.sum(prograd.data.decode(stored, "price", rows)).dtype == "float32"
