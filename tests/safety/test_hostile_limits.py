"""A few hostile ONNX files and programs under limits; `python -m hostile.limited` has thousands."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hostile.limited import Ending

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what a process occupied")


@pytest.mark.thorough
def test_hostile_files_end_within_limits_of_memory_and_time(tmp_path: Path):
    pytest.importorskip("onnx")
    words = [sys.executable, "-m", "hostile.limited", "--count", "12", "--seed", "100"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests"), "HOME": str(tmp_path)}
    environment.pop("PROGRAD_CACHE", None)
    done = subprocess.run(words, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert done.stdout.startswith("12 files in ")
    assert [*tmp_path.rglob("*")] == []  # nothing is stored for later runs


@pytest.mark.parametrize(
    ("found", "faults"),
    [
        (Ending(6, 300 << 20, 12.9, "runtime: the limit"), []),
        (Ending(70, 1, 1.0, "a fault of prograd itself"), ["code 70"]),
        (Ending(-9, 1, 1.0, ""), ["code -9"]),
        (Ending(0, 308 << 20, 1.0, ""), ["memory"]),
        (Ending(6, 1, 13.1, ""), ["time"]),
        (Ending(1, 1, 1.0, "Traceback (most recent call last)"), ["a traceback"]),
    ],
)
def test_an_ending_beyond_its_limits_is_a_fault(found: Ending, faults: list[str]):
    assert found.faults == faults
