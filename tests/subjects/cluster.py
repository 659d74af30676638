"""A command on a Dask cluster of two workers, one of which is lost while the command runs.

python tests/subjects/cluster.py SECONDS execute p.pb …     # SECONDS until a worker is killed
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

TIMEOUT = 300


def with_a_lost_worker(seconds: float, words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command of `runtime` in a folder; a worker is killed after some seconds."""
    command = [sys.executable, __file__, str(seconds), *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT)


def main(seconds: str, *words: str) -> int:
    """Run a command of `runtime` on a cluster of this process."""
    import distributed

    from runtime.__main__ import main as run

    made: Any = distributed.LocalCluster  # its types are partly wrong
    with made(n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None) as cluster:
        victim = next(iter(cluster.workers.values())).pid

        def lose() -> None:
            time.sleep(float(seconds))
            os.kill(victim, signal.SIGKILL)

        threading.Thread(target=lose, daemon=True).start()
        return run([*words, "--scheduler", cluster.scheduler_address])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
