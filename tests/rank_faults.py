"""Lets one process of a run of several fail, in every way and at random steps, and looks whether anything was lost.

    python tests/rank_faults.py --count 200          # with the mpiexec of the package mpich, else that of the system
    python tests/rank_faults.py --deadline 15        # on a busy machine, where a rank may wait for 3 s to be scheduled
    PROGRAD_MPIEXEC="mpiexec --oversubscribe" python tests/rank_faults.py --count 50

After a fault, the job must end within the deadline and five seconds, never with the exit code 0, and with a sentence
that names a rank. Then one process resumes from the last checkpoint and must reach the states of a run that nothing
happened to. The seconds count from the fault. A case in which the machine or this process stood still is made again.
"""

import argparse
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
from subjects.ranks import ROWS, WIDTH, Launcher, alone, mpich, save_network

DEADLINE = 3
SLACK = 5.0
STEPS = 16

START_SECONDS = 20.0
"""Seconds after which a job that makes no step must have ended, beside deadline and slack: machines are busy."""

STILL_SECONDS = 1.5
"""Gap between two readings of the clock, 0.1 s apart, from which on the machine stood still."""

DIFFER = "the processes differ in "


class Fault(NamedTuple):
    """A fault, the exit codes that a job may have then, and what stderr must say.

    Attributes:
        codes: exit codes; those above 128 are of signals.
        said: pattern of the sentence; empty if the launcher alone sees what happened.
        starts: False if no step is made.
        rank: rank that has it; None for any.
    """

    codes: tuple[int, ...]
    said: str = ""
    starts: bool = True
    rank: int | None = None


ANY = tuple(range(1, 256))
"""Exit codes of a job of which a process ends without a word: the launcher makes one of those of all processes."""

LOST = "rank [0-9] of [0-9]: the other processes gave no answer for [0-9]+ seconds|rank [0-9] of [0-9]: another process"
FAULTS = {
    "killed": Fault(ANY),
    "parent_killed": Fault(ANY),
    "stopped": Fault((7,), LOST),
    "sleeps": Fault((7,), LOST),
    "aborts": Fault(ANY),
    "raises": Fault((70,), "rank R of [0-9]: a fault of prograd itself, RuntimeError: a fault of the test"),
    "no_memory": Fault((6,), "rank R of [0-9]: there is not enough memory"),
    "exits": Fault((70,), "rank R of [0-9]: "),
    "exits_at_once": Fault(ANY, "rank R: the process ended in the middle of the run, with the exit code 0"),
    "exits_in_c": Fault(ANY, "rank R: the process ended in the middle of the run, with the exit code 0"),
    "terminated": Fault((143, 15), "interrupted after step"),
    "disk_full": Fault((6,), "rank 0 of [0-9]: .*no space left on device", rank=0),
    "other_file": Fault((2,), f"{DIFFER}the program", starts=False),
    "other_seed": Fault((2,), f"{DIFFER}the states", starts=False),
    "other_rows": Fault((2,), f"{DIFFER}the rows", starts=False),
    "other_engine": Fault((2,), f"{DIFFER}the engine", starts=False),
    "other_steps": Fault((2,), f"{DIFFER}--epochs", starts=False),
    "no_file": Fault((4, 3), "rank R of [0-9]: none.pb", starts=False),
}


class Case(NamedTuple):
    """A fault of a rank at a step of a job."""

    kind: str
    ranks: int
    rank: int
    step: int
    engine: str


class Stillness(threading.Thread):
    """A thread that notices when this process does not run, as when the machine or the process is suspended."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.was_still = False
        self.start()

    def run(self) -> None:
        """Read the clock, again and again."""
        last = time.monotonic()
        while True:
            time.sleep(0.1)
            now = time.monotonic()
            self.was_still |= now - last > STILL_SECONDS
            last = now


class Bench:
    """Runs with faults, in folders of their own, compared with a run that nothing happened to.

    Attributes:
        last: the seconds between the last fault in a step and the end of its job, and the case.
    """

    def __init__(self, folder: Path, launcher: Launcher, *, is_timed: bool = True, deadline: int = DEADLINE) -> None:
        """Make the programs; a job that does not end at all is a fault in any case."""
        from safetensors.numpy import save_file  # pyright: ignore[reportUnknownVariableType]: it is typed in part

        self._folder, self._launcher, self._is_timed, self._deadline = folder, launcher, is_timed, deadline
        self.last: tuple[float, Case | None] = (0.0, None)
        self._origin = folder / "origin"
        self._origin.mkdir()
        save_network(self._origin)
        save_network(self._origin, "other.pb", width=96)
        rng = np.random.default_rng(5)
        rows = {"x": rng.standard_normal((ROWS, WIDTH)).astype("float32"), "label": rng.integers(-1, 10, ROWS)}
        save_file(rows, self._origin / "other.safetensors")
        self._wanted: dict[str, str] = {}
        self._number = 0

    def wanted(self, engine: str) -> str:
        """Return the hash of the states of a run without faults."""
        if engine not in self._wanted:
            self._wanted[engine] = alone(self._words(engine), self._origin).field("state_sha256")
        return self._wanted[engine]

    def fault_of(self, case: Case) -> str:
        """Let a job have the fault; return what is wrong with its end, empty if nothing is."""
        fault = FAULTS[case.kind]
        self._number += 1
        place = self._folder / str(self._number)
        shutil.copytree(self._origin, place)
        kept = ["--checkpoint", "kept", "--every", "3"]
        script = [sys.executable, "-B", str(Path(__file__).parent / "faulty_rank.py")]
        words = [*self._launcher.command, "-n", str(case.ranks), *script, f"{case.kind}:{case.rank}:{case.step}"]
        words += [*self._words(case.engine), "--mpi", "--collective-timeout", str(self._deadline), *kept]
        start = time.monotonic()
        ended = self._ended(words, place)
        if ended is None:
            return "the job does not end"
        stop, beginning = time.monotonic(), place / "fault-begins-at"
        if beginning.exists():
            took, most = stop - float(beginning.read_text()), self._deadline + SLACK
            self.last = (took, case)
        else:
            took, most = stop - start, self._deadline + SLACK + START_SECONDS
        why = self._wrong(fault, case, ended)
        if not why and fault.starts and not beginning.exists():
            why = "the fault did not happen"
        if not why and self._is_timed and took > most:
            why = f"the job took {took:.1f} seconds"
        if not why and fault.starts:
            try:
                again = alone([*self._words(case.engine), *kept, "--resume"], place)
            except subprocess.TimeoutExpired:
                return "the resumed run does not end"
            if again.code or again.field("state_sha256") != self.wanted(case.engine):
                why = f"the checkpoints are lost: {again}"
        shutil.rmtree(place)
        return why

    def _ended(self, words: list[str], place: Path) -> tuple[int, str, str] | None:
        from os import environ

        everything = {**environ, **self._launcher.environment}
        with subprocess.Popen(
            words, cwd=place, env=everything, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as job:
            try:
                out, err = job.communicate(timeout=120 if self._is_timed else 300)
            except subprocess.TimeoutExpired:
                job.terminate()
                job.communicate()
                return None
            return job.returncode, out, err

    def _wrong(self, fault: Fault, case: Case, ended: tuple[int, str, str]) -> str:
        code, out, err = ended
        said = fault.said.replace("rank R", f"rank {case.rank}")
        if code % 256 not in fault.codes and 128 - code not in fault.codes and -code not in fault.codes:
            return f"the exit code is {code}: {err}"
        if re.search(said, err) is None:
            return f"stderr does not say {said!r}: {err}"
        if "OK " in out:
            return f"the result says OK: {out}"
        return ""

    def _words(self, engine: str) -> list[str]:
        return ["execute", "net.pb", "-q", "--threads", "1", "--engine", engine]


def random_case(random: random.Random) -> Case:
    """Return a case."""
    kind, ranks = random.choice(list(FAULTS)), random.choice([2, 3, 4])
    fault = FAULTS[kind]
    rank = random.randrange(ranks) if fault.rank is None else fault.rank
    if kind == "no_file" or not fault.starts:
        rank = random.randrange(1, ranks)
    engine = "native" if kind == "other_engine" else random.choice(["reference", "native"])
    return Case(kind, ranks, rank, random.randrange(2, STEPS), engine)


def main() -> int:
    """Try random faults, and print what was wrong with the ends of jobs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--deadline", type=int, default=DEADLINE, help="seconds of --collective-timeout")
    options = parser.parse_args()
    launcher = mpich()
    if launcher is None:
        print("there is no mpiexec")
        return 1
    draw, tried, wrong = random.Random(options.seed), Counter[str](), 0
    with tempfile.TemporaryDirectory() as name:
        bench, stillness, again = Bench(Path(name), launcher, deadline=options.deadline), Stillness(), 0
        slowest = 0.0
        for _ in range(options.count):
            case = random_case(draw)
            stillness.was_still = False
            while (why := bench.fault_of(case)) and stillness.was_still:
                again, stillness.was_still = again + 1, False
            tried[case.kind] += 1
            if bench.last[1] == case and not stillness.was_still:
                slowest = max(slowest, bench.last[0])
            if why:
                wrong += 1
                print(f"{case}: {why}", flush=True)
            if sum(tried.values()) % 20 == 0:
                print(f"-- {sum(tried.values())} of {options.count}, {wrong} wrong", flush=True)
    print(f"{sum(tried.values())} faults, {wrong} with a wrong end, {again} made again: {dict(tried)}")
    print(f"the slowest end came {slowest:.1f} s after its fault, with a deadline of {options.deadline} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
