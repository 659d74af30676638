"""Small compile bombs of each kind: limits hold on both engines; `python -m hostile.defused` has the large ones."""

import sys
from pathlib import Path

import pytest
from hostile.bombs import BOMBS
from hostile.defused import ending

pytest.importorskip("llvmlite", reason="the native engine is an extra")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what a process occupies now")

COUNTS = {"products": 300, "chains": 200, "convolutions": 10, "scans": 6, "groups": 100, "reductions": 1}
LIMIT = 200 << 20
SECONDS = 600.0


@pytest.mark.sampled(20)
@pytest.mark.parametrize("sandbox", [False, True])
@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("name", [name for name in BOMBS if name != "reductions"])
def test_a_compile_bomb_stays_within_its_memory(name: str, engine: str, sandbox: bool, tmp_path: Path):
    BOMBS[name](COUNTS[name]).compile().save(tmp_path / "p.pb")
    found = ending(tmp_path / "p.pb", engine, LIMIT, SECONDS, sandbox=sandbox)
    assert (found.code, found.faults(LIMIT, SECONDS)) == (0, []), found.said


def test_many_products_under_a_tight_limit_end_with_6_or_stay_below(tmp_path: Path):
    BOMBS["products"](300).compile().save(tmp_path / "p.pb")
    for limit in (100 << 20, 140 << 20, 160 << 20):
        found = ending(tmp_path / "p.pb", "native", limit, SECONDS, sandbox=True)
        assert found.faults(limit, SECONDS) == [], found.said


@pytest.mark.thorough
def test_a_reduction_without_end_ends_with_its_time(tmp_path: Path):
    BOMBS["reductions"](4).compile().save(tmp_path / "p.pb")
    found = ending(tmp_path / "p.pb", "native", LIMIT, 2.0, sandbox=False)
    assert found.code == 6
    assert "the run took its 2 seconds" in found.said
