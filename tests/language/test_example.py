"""The example of a tiny language model."""

import runpy
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "language_model.py"


def test_the_example_answers_what_it_was_trained_to_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("tokenizers", reason='needs tokenizers: pip install ".[lm]"')
    runpy.run_path(str(EXAMPLE))["main"](tmp_path)
    loss, *answers = capsys.readouterr().out.splitlines()[-4:]
    assert float(loss.removeprefix("loss ")) < 0.1
    assert answers == [
        f"{land}: the capital of {land} is {city} ."
        for land, city in (("belgium", "brussels"), ("japan", "tokyo"), ("peru", "lima"))
    ]
    assert {path.name for path in tmp_path.iterdir()} >= {"model", "rows.safetensors", "net.pb"}


def test_the_example_is_short():
    assert len(EXAMPLE.read_text(encoding="utf-8").splitlines()) <= 100
