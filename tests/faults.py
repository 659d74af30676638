"""Kills a training run and lets its system calls fail, everywhere, and looks whether anything was lost.

    python tests/faults.py --kills 500        # SIGKILL at random moments, again and again until the run is done
    python tests/faults.py --calls            # at every call that writes: each fault, and dying before, in and after it

Whatever happened, the folder must be usable: the run is resumed, and its states, its metrics file and its last
checkpoint must be those of a run that nothing happened to. A fault may end the command with 0, 4 or 6 only.
"""

import argparse
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from subjects.small_programs import rich, save

COMMAND = ("execute", "p.pb", "--checkpoint", "runs/c", "--every", "4", "--keep", "2", "--metrics")
FAULTS = ("ENOSPC", "EIO", "EACCES", "EMFILE")
DEATHS = ("before", "after")
LAST = "step-0000000021.safetensors"


class Outcome(NamedTuple):
    """Exit code and output of a command."""

    code: int
    out: str
    err: str


class Bench:
    """Runs of one program in folders of their own, compared with a run that nothing happened to."""

    def __init__(self, folder: Path, metrics: str = "m.csv") -> None:
        self._folder = folder
        self._metrics = metrics
        (folder / "origin").mkdir()
        save(rich(), folder / "origin")
        script = Path(__file__).parent / "faulty_calls.py"
        self._server = subprocess.Popen(
            [sys.executable, "-B", str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._number = 0
        place = self.place()
        whole = self.run(place)
        assert whole.code == 0, whole
        self.wanted = self._results(place, whole)

    def __enter__(self) -> "Bench":
        return self

    def __exit__(self, *error: object) -> None:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.close()
        self._server.wait()
        self._server.stdout.close()

    def place(self) -> Path:
        """A new folder with the program and its data."""
        self._number += 1
        place = self._folder / str(self._number)
        shutil.copytree(self._folder / "origin", place)
        return place

    def run(self, place: Path, *more: str, **case: Any) -> Outcome:
        """The command in a folder."""
        files = {name: self._folder / name for name in ("stdout", "stderr", "counted")}
        case |= {"folder": str(place), "arguments": [*COMMAND, self._metrics, *more]}
        case |= {name: str(file) for name, file in files.items()}
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        print(json.dumps(case), file=self._server.stdin, flush=True)
        code = json.loads(self._server.stdout.readline())
        return Outcome(code, files["stdout"].read_text(), files["stderr"].read_text())

    def calls(self, *more: str, place: Path | None = None) -> list[str]:
        """The names of the calls that write, in a run that they all succeed in."""
        done = self.run(place or self.place(), *more, how="count")
        assert done.code == 0, done
        return json.loads((self._folder / "counted").read_text())

    def require_whole(self, place: Path, what: object) -> None:
        """Resume the run; AssertionError unless it ends like one that nothing happened to, with nothing left over."""
        done = self.run(place, "--resume")
        assert done.code == 0, (what, done)
        assert self._results(place, done) == self.wanted, what
        left = [file.name for file in place.rglob("*") if file.name.startswith(".") or "damaged" in file.name]
        assert not left, (what, left)
        shutil.rmtree(place)

    def _results(self, place: Path, done: Outcome) -> tuple[str, bytes, bytes]:
        digest = re.findall("state_sha256=([0-9a-f]{64})", done.out)
        assert digest, done
        return digest[0], (place / self._metrics).read_bytes(), (place / "runs" / "c" / LAST).read_bytes()


def kill(bench: Bench, draw: random.Random, longest: float) -> int:
    """Kill a run and those that resume it at random moments, five times at most; how often it was alive."""
    place, kills = bench.place(), 0
    for attempt in range(5):
        done = bench.run(place, *(["--resume"] if attempt else []), kill_after=draw.uniform(0, longest))
        assert done.code in (0, -9), done
        kills += done.code == -9
        if done.code == 0:
            break
    bench.require_whole(place, "killed")
    return kills


def cases(names: list[str], numbers: Iterator[int] | range) -> Iterator[dict[str, Any]]:
    """Everything that can happen at these calls."""
    for number in numbers:
        for how in (*DEATHS, *FAULTS, *(f"{fault}+" for fault in FAULTS)):
            yield {"number": number, "how": how}
        if names[number] == "write":
            yield {"number": number, "how": "short"}
            yield {"number": number, "how": "torn"}


def go_wrong(bench: Bench, case: dict[str, Any], place: Path | None = None, *more: str) -> int:
    """Let one case happen, and look whether anything was lost; the exit code of the command that it happened to."""
    place = place or bench.place()
    done = bench.run(place, *more, **case)
    dies = case["how"] in ("before", "after", "torn")
    assert done.code in ((-9,) if dies else (0, 4, 6)), (case, done)
    assert "Traceback" not in done.err, (case, done)
    bench.require_whole(place, case)
    return done.code


def interrupted(bench: Bench) -> Path:
    """A folder in which a run was interrupted, so that resuming has lines to cut off and files to sweep up."""
    place = bench.place()
    names = bench.calls()
    writes = [number for number, name in enumerate(names) if name == "write"]
    bench.run(place, number=writes[len(writes) * 2 // 3], how="torn")
    return place


def main() -> int:
    """Kill, or go through the calls, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--calls", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--metrics", default="m.csv", choices=("m.csv", "m.jsonl"))
    options = parser.parse_args()
    failures = 0
    with tempfile.TemporaryDirectory() as folder, Bench(Path(folder), options.metrics) as bench:
        if options.kills:
            began = time.monotonic()
            bench.require_whole(bench.place(), "nothing")
            longest = time.monotonic() - began
            draw, kills, runs = random.Random(options.seed), 0, 0
            while kills < options.kills:
                kills += kill(bench, draw, longest)
                runs += 1
            print(f"{kills} kills in {runs} runs: the same states, metrics and last checkpoint")
        if options.calls:
            for what, more in (("a new run", ()), ("a resumed run", ("--resume",))):
                found: Counter[tuple[str, int]] = Counter()
                names = bench.calls(*more, place=interrupted(bench) if more else None)
                for case in cases(names, range(len(names))):
                    place = interrupted(bench) if more else None
                    try:
                        found[case["how"], go_wrong(bench, case, place, *more)] += 1
                    except AssertionError as error:
                        failures += 1
                        print(names[case["number"]], error)
                print(f"{what}: {len(names)} calls that write, {found.total()} cases: {dict(Counter(names))}")
                print("  ", ", ".join(f"{how} -> {code}: {n}" for (how, code), n in sorted(found.items())))
    return failures


if __name__ == "__main__":
    sys.exit(main() > 0)
