"""Measure the start of a program: processor time of a process with one step in it, and memory beside the plan."""

import os
import re
import subprocess
import sys
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from in_prograd import program
from subjects import SUBJECTS, rows


class Started(NamedTuple):
    """Bytes of the arena, and of that of the reference engine's plan; seconds without kept code, and with it."""

    arena: int
    plan: int
    cold: float
    warm: float


def started(name, threads, rounds):
    """Measure a subject; return medians of `rounds` rounds."""
    subject = SUBJECTS[name]
    with TemporaryDirectory() as folder:
        file = Path(folder, "program.pb")
        compiled = program(subject).compile(batch=subject.batch)
        compiled.save(file, force=True)
        for feed, array in zip("xy", rows(subject), strict=True):
            np.save(Path(folder, f"{feed}.npy"), array[: subject.batch])
        command = [sys.executable, "-P", "-m", "runtime", "execute", str(file), "--steps", "1", "-q"]
        command += ["--engine", "native", "--threads", str(threads), "--feed", "x=@x.npy", "--feed", "y=@y.npy"]
        _, line = seconds_of(command, folder, "kept")
        cold = median(seconds_of(command, folder, "")[0] for _ in range(rounds))
        warm = median(seconds_of(command, folder, "kept")[0] for _ in range(rounds))
        arena = int(re.search(r" arena=(\d+)", line)[1])
        [train] = [entry for entry in compiled.desc.entries if entry.name == "train"]
        return Started(arena, train.bindings[0].plan.arena_bytes, cold, warm)


def seconds_of(command, folder, cache):
    """Processor time of a process, and its last line; code is kept in a folder, or not at all."""
    environment = os.environ | {"PROGRAD_CACHE": cache and str(Path(folder, cache))}
    before = getrusage(RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    after = getrusage(RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout.splitlines()[-1]
