"""Thousands of short steps on more threads than cores, in hard conditions: no step hangs, and all have equal bits.

    python tests/thread_stress.py                                # 4,000 steps for each number of threads and condition
    python tests/thread_stress.py --steps 20000 --threads 2,64 --conditions pauses,signals

Conditions:

plain     steps one after the other
pauses    the caller waits between steps for about as long as a helper polls before it sleeps
one core  all threads share a core
signals   a signal interrupts the process every millisecond, and its handler runs in Python
stopped   SIGSTOP halts the whole process at random moments, and SIGCONT lets it go on
quota     the process has half of a core; left out where no control group can be made
fork      the process forks after some steps, with helpers asleep or at work; parent and child go on

Each condition is a process of its own that trains a small network. Its states at the end must have the hash of the same
steps on one thread. A process that takes longer than its time hangs: it is killed, and that is an error.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from compiler import Compiled, Program, adam, ops
from prograd import layers
from runtime.runs.run import Run

CONDITIONS = ("plain", "pauses", "one core", "signals", "stopped", "quota", "fork")
THREADS = (2, 3, 4, 8, 16)
ROWS, WIDTH = 32, 64

SECONDS_PER_STEP = 0.05
"""Time after which a step hangs, on average; a step takes a thousandth of it on an idle machine."""

LEAST_SECONDS = 300.0

CONTROL_GROUPS = (Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup"))
"""Folders of control groups of versions 1 and 2."""


class Hang(Exception):
    """A process did not end in time."""


def compiled() -> Compiled:
    """Return a small network whose step has phases of several chunks, and phases of one."""
    program = Program("stress", seed=5)
    x, y = program.input("x", "float32", ("n", WIDTH)), program.input("y", "int64", ("n",))
    hidden = ops.relu(layers.dense(ops.relu(layers.dense(x, "first", 4 * WIDTH)), "second", 4 * WIDTH))
    program.minimize(ops.softmax_cross_entropy(layers.dense(hidden, "output", 10), y), adam(1e-3))
    return program.compile(n=ROWS)


def feeds() -> dict[str, np.ndarray]:
    """Return the rows of every step."""
    rng = np.random.default_rng(0)
    return {"x": rng.normal(size=(ROWS, WIDTH)).astype("f4"), "y": rng.integers(0, 10, ROWS)}


def hash_of(threads: int, steps: int, condition: str = "plain") -> str:
    """Return the hash of the states after the steps; of the parent and the child, if the process forks."""
    run, rows = Run(compiled(), engine="native", threads=threads), feeds()
    run.step(rows)
    rng = random.Random(threads)
    forked_at = rng.randrange(1, steps) if condition == "fork" else 0
    child = -1
    with signals() if condition == "signals" else contextlib.nullcontext():
        for step in range(1, steps):
            if step == forked_at:
                with warnings.catch_warnings():  # that the process has several threads
                    warnings.simplefilter("ignore", DeprecationWarning)
                    child = os.fork()
            run.step(rows)
            if condition == "pauses":
                pause(rng)
    if not child:
        sys.stdout.write(run.state_sha256 + " ")
        sys.stdout.flush()
        os._exit(0)
    if child > 0:
        os.waitpid(child, 0)
    return run.state_sha256


def pause(rng: random.Random) -> None:
    """Wait up to a millisecond, busy or asleep."""
    seconds = rng.random() * 1e-3
    if rng.random() < 0.5:
        time.sleep(seconds)
        return
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


@contextlib.contextmanager
def signals() -> Iterator[None]:
    """Let a signal interrupt the process every millisecond."""
    received: list[int] = []
    signal.signal(signal.SIGALRM, lambda number, _: received.append(number))
    signal.setitimer(signal.ITIMER_REAL, 1e-3, 1e-3)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    if not received:
        raise RuntimeError("no signal has come")


@contextlib.contextmanager
def half_a_core(process: int) -> Iterator[bool]:
    """Give a process half of a core in a new control group, and yield True; False where none can be made."""
    for folder in CONTROL_GROUPS:
        group = folder / f"prograd-stress-{process}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            limit(group)
            (group / "cgroup.procs").write_text(str(process))
        except OSError:
            group.rmdir()
            continue
        try:
            yield True
        finally:
            leave(group)
        return
    yield False


def limit(group: Path) -> None:
    """Write the quota of a control group, of version 2 or 1."""
    if (group / "cpu.max").exists():
        (group / "cpu.max").write_text("50000 100000")
    else:
        (group / "cpu.cfs_period_us").write_text("100000")
        (group / "cpu.cfs_quota_us").write_text("50000")


def leave(group: Path) -> None:
    """Remove a control group as soon as its process has ended."""
    for _ in range(100):
        try:
            group.rmdir()
        except OSError:
            time.sleep(0.05)
        else:
            return


def stressed(threads: int, steps: int, condition: str) -> list[str] | None:
    """Return the hashes that a process in this condition prints, or None where the condition cannot be made.

    Raises Hang if it does not end in time, CalledProcessError if it fails.
    """
    command = [sys.executable, __file__, "--worker", condition, "--threads", str(threads), "--steps", str(steps)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            if condition == "one core" and hasattr(os, "sched_setaffinity"):
                os.sched_setaffinity(process.pid, {min(os.sched_getaffinity(0))})
            with half_a_core(process.pid) if condition == "quota" else contextlib.nullcontext(True) as is_made:
                if not is_made:
                    return None
                seconds = max(LEAST_SECONDS, steps * SECONDS_PER_STEP)
                if not has_ended(process, seconds, condition):
                    raise Hang(f"{threads} threads, {condition}: {steps} steps take longer than {seconds:g} s")
                assert process.stdout is not None, "it is a pipe"
                printed = process.stdout.read().split()
        finally:
            process.kill()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return printed


def has_ended(process: subprocess.Popen[str], seconds: float, condition: str) -> bool:
    """Wait until the process has ended, but no longer than this; halt it now and then if it is to be stopped."""
    deadline, rng = time.monotonic() + seconds, random.Random(0)
    while process.poll() is None:
        if time.monotonic() > deadline:
            return False
        if condition == "stopped":
            time.sleep(rng.random() * 0.02)
            process.send_signal(signal.SIGSTOP)
            time.sleep(rng.random() * 0.005)
            process.send_signal(signal.SIGCONT)
        else:
            time.sleep(0.01)
    return True


def main() -> int:
    """Run all conditions, and return 1 if a process hangs, fails or has other bits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--threads", default=",".join(map(str, THREADS)))
    parser.add_argument("--conditions", default=",".join(CONDITIONS))
    parser.add_argument("--worker", metavar="CONDITION", help="make the steps in this process, and print the hash")
    options = parser.parse_args()
    counts = [int(word) for word in options.threads.split(",")]
    if options.worker:
        print(hash_of(counts[0], options.steps, options.worker))
        return 0
    wanted, wrong = hash_of(1, options.steps), 0
    for condition in options.conditions.split(","):
        for threads in counts:
            start = time.monotonic()
            try:
                found = stressed(threads, options.steps, condition)
            except (Hang, subprocess.CalledProcessError) as error:
                found, words = [], str(error)
            else:
                words = "left out" if found is None else "equal" if set(found) == {wanted} else f"other bits: {found}"
            is_wrong = found is not None and set(found) != {wanted}
            wrong += is_wrong
            print(f"{condition:10}{threads:4} threads {time.monotonic() - start:8.1f} s  {words}", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
