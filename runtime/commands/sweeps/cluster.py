"""The workers of a Dask cluster, and the runs of a sweep on them, each a process of `runtime execute` there.

Dask gives the run of a worker that was lost to another one. Workers need prograd, the program and its files, under the
same names as here.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

from runtime.commands.sweeps.runs import Outcome, Trial, outcome_of
from runtime.errors import DataError, ExecutionError, UsageError
from runtime.extras import extra
from runtime.ranks.join import without_launcher

WAIT_SECONDS: Final = 0.2
"""Seconds between two looks at signals and limits while a result is waited for."""

CONNECT_SECONDS: Final = 10
"""Seconds after which a scheduler that does not answer is an error."""


class Cluster:
    """The workers of a scheduler; see `runtime.commands.sweeps.runs.Started`.

    Attributes:
        cores: number of threads of all workers, and so of concurrent runs.
    """

    def __init__(self, address: str) -> None:
        """Connect; raise UsageError if there is no scheduler at this address, or if it has no workers."""
        distributed = extra("distributed", "cluster", "--scheduler")
        try:
            self._client = distributed.Client(address, timeout=CONNECT_SECONDS)
        except (OSError, ValueError, TimeoutError) as error:
            raise UsageError(f"--scheduler {address}: there is no scheduler: {error}") from None
        self.cores: int = sum(self._client.nthreads().values())
        self._futures: set[Any] = set()
        self._over = False
        if not self.cores:
            raise UsageError(f"--scheduler {address}: the cluster has no workers yet")

    def run(self, trial: Trial) -> Outcome | None:
        """Make a run on a worker; return None if the sweep is over."""
        if self._over:
            return None
        future = self.start(make_run, os.getcwd(), trial.words)
        try:
            code, out, said = future.result()
        except Exception as error:
            if self._over:
                return None
            return Outcome(trial, 1, {}, f"the cluster lost the run: {error}")
        finally:
            self._futures.discard(future)
        return outcome_of(trial, code, out, said)

    def start(self, function: Callable[..., object], *arguments: object) -> Any:
        """Let a worker call a function of a module, and return the future of its result."""
        future = self._client.submit(function, *arguments, pure=False)
        self._futures.add(future)
        return future

    def result(self, future: Any, between: Callable[[], None]) -> Any:
        """Return a result; call `between` while waiting. Raise ExecutionError if the cluster cannot give it."""
        while True:
            between()
            try:
                return future.result(timeout=WAIT_SECONDS)
            except TimeoutError:
                continue
            except Exception as error:
                raise ExecutionError(f"--scheduler: the cluster lost a process: {error}") from None
            finally:
                if future.done():
                    self._futures.discard(future)

    def end(self, *, kill: bool = False) -> None:
        """Start no more runs; those that workers have begun go on there."""
        del kill
        self._over = True
        for future in list(self._futures):
            future.cancel()


def make_run(folder: str, words: Sequence[str]) -> tuple[int, str, str]:
    """Make a run on a worker; return its exit code, and what it printed on stdout and stderr."""
    threads = [] if "--threads" in words else ["--threads", "1"]
    done = runtime_process(folder, [*words, *threads])
    return done.returncode, done.stdout, done.stderr


def runtime_process(folder: str, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run the command `runtime` quietly in a folder of this machine; raise DataError if there is no such folder."""
    if not os.path.isdir(folder):
        raise DataError(f"a worker has no folder {folder}")
    return subprocess.run(
        [sys.executable, "-P", "-m", "runtime", *words, "-q"],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=without_launcher(os.environ) | {"PYTHONUTF8": "1"},
        text=True,
        check=False,
    )
