"""Twelve faults of one process of several, and a pause of all; `tests/rank_faults.py` tries hundreds of faults."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("mpi4py", reason="mpi4py is an extra")
from rank_faults import FAULTS, Bench, Case
from subjects.ranks import LAUNCHER, Ended, alone, run_of, save_network, starts_jobs

pytestmark = starts_jobs

DEADLINE = 10
"""Seconds of --collective-timeout: on a busy machine a rank may not be scheduled for the 3 s of the script."""

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
    return Bench(tmp_path_factory.mktemp("faults"), LAUNCHER, is_timed=False, deadline=DEADLINE)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("case", CASES, ids=[case.kind for case in CASES])
def test_a_fault_of_one_process_ends_all_and_loses_no_checkpoint(case, bench):
    assert case.kind in FAULTS
    assert bench.fault_of(case) == ""


@pytest.mark.thorough
def test_a_job_that_is_stopped_as_a_whole_and_continued_loses_no_process(tmp_path):
    save_network(tmp_path)
    words = run_of("reference", "--epochs", "60", "--mpi", "--collective-timeout", "2", "--checkpoint", "kept")
    wanted = alone(run_of("reference", "--epochs", "60"), tmp_path)
    command = [*LAUNCHER.command, "-n", "2", sys.executable, "-m", "runtime", *words, "--every", "10"]
    everything = {**os.environ, **LAUNCHER.environment}
    with subprocess.Popen(command, cwd=tmp_path, env=everything, stdout=subprocess.PIPE, text=True) as started:
        while started.poll() is None and not list(tmp_path.glob("kept/step-*")):
            time.sleep(0.01)
        processes = descendants(started.pid)
        for number, seconds in ((signal.SIGSTOP, 5), (signal.SIGCONT, 0)):
            for process in processes:
                os.kill(process, number)
            time.sleep(seconds)
        out, _ = started.communicate(timeout=120)
    assert len(processes) >= 4, "each rank is watched by a process"
    assert started.returncode == 0
    assert Ended(0, out, "").field("state_sha256") == wanted.field("state_sha256")


def descendants(parent: int) -> list[int]:
    """Return the numbers of the processes that a process has started, and that these have started."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    found = [parent]
    for process in found:
        found += [child for child, of in parents.items() if of == process]
    return found[1:]
