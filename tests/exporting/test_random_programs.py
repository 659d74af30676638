"""A sample of the random programs that `python -m fuzz.export` exports and compares."""

import pytest

pytest.importorskip("onnx", reason='needs ONNX: pip install ".[onnx]"')
pytest.importorskip("onnxruntime", reason="needs ONNX Runtime: pip install onnxruntime")

from fuzz.export import tried


@pytest.mark.parametrize("seed", range(0, 240, 20))
def test_a_random_program_has_the_same_numbers_in_onnx_runtime(seed: int):
    trial = tried(seed)
    assert trial.faults == []
    assert trial.counts["ops"] > 0
