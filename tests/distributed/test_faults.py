"""Twelve faults of one process of several; `python tests/rank_faults.py` tries hundreds, at random steps."""

import pytest

pytest.importorskip("mpi4py", reason="mpi4py is an extra")
from rank_faults import FAULTS, Bench, Case
from subjects.ranks import mpich

LAUNCHER = mpich()
pytestmark = pytest.mark.skipif(LAUNCHER is None, reason="there is no mpiexec: pip install mpich")

CASES = [
    Case("killed", 3, 1, 8, "native"),
    Case("stopped", 2, 1, 7, "reference"),
    Case("sleeps", 2, 0, 5, "reference"),
    Case("raises", 2, 1, 7, "native"),
    Case("exits_at_once", 2, 1, 9, "reference"),
    Case("parent_killed", 2, 0, 4, "reference"),
    Case("terminated", 2, 1, 7, "reference"),
    Case("disk_full", 2, 0, 7, "reference"),
    Case("other_file", 2, 1, 2, "reference"),
    Case("other_seed", 2, 1, 2, "reference"),
    Case("other_rows", 2, 1, 2, "reference"),
    Case("other_engine", 2, 1, 2, "native"),
]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Runs with faults."""
    return Bench(tmp_path_factory.mktemp("faults"), LAUNCHER, is_timed=False)


@pytest.mark.parametrize("case", CASES, ids=[case.kind for case in CASES])
def test_a_fault_of_one_process_ends_all_and_loses_no_checkpoint(case, bench):
    assert case.kind in FAULTS
    assert bench.fault_of(case) == ""
