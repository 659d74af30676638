"""Compile bombs under limits, each in a process of its own: `python -m hostile.defused --scale 1`.

It prints one line for each bomb, engine and sandbox: exit code, peak of resident memory, and seconds. It ends with 1 if
a process ended by a signal, with a code that is not documented, with anything but one sentence, or beyond its limits:
1.2 times the memory, 3 seconds more than the time.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final, NamedTuple

from hostile.bombs import BOMBS

COUNTS: Final = {
    "products": 1200,
    "chains": 3000,
    "convolutions": 60,
    "scans": 60,
    "groups": 3000,
    "reductions": 3,
}
"""Sizes of the bombs at scale 1."""

ENDS: Final = (0, 6)
"""Codes that a bomb may end with: the run is done, or a limit is met."""

MEASURED: Final = """
import atexit, os, sys
from runtime.__main__ import main
def peak():
    return open("/proc/self/status").read().partition("VmHWM:")[2].split()[0]
leave = os._exit
def noted(code):
    print(peak(), file=sys.stderr, flush=True)
    leave(code)
os._exit = noted
sys.argv = ["runtime", *sys.argv[1:]]
code = main()
noted(code)
"""
"""Runs the command, and says at its end the most KiB that the process occupied."""


class Ending(NamedTuple):
    """Outcome of a bomb.

    Attributes:
        code: the exit code, negative for a signal.
        peak_bytes: the most resident memory.
        seconds: wall time of the process.
        said: stderr without the line of the peak.
    """

    code: int
    peak_bytes: int
    seconds: float
    said: str

    def faults(self, max_memory: int, max_time: float) -> list[str]:
        """Return what is wrong with it, as sentences."""
        lines = self.said.splitlines()
        wrong = {
            f"it ends with {self.code}": self.code not in ENDS,
            f"it occupies {self.peak_bytes} bytes of {max_memory}": self.peak_bytes > 1.2 * max_memory,
            f"it takes {self.seconds:.1f} of {max_time:g} seconds": self.seconds > max_time + 3,
            f"it says {len(lines)} sentences": len(lines) != (self.code != 0),
        }
        return [sentence for sentence, holds in wrong.items() if holds]


def ending(path: Path, engine: str, max_memory: int, max_time: float, *, sandbox: bool) -> Ending:
    """Run the entry `predict` of a file under limits of bytes and seconds, without a cache of code."""
    limits = [f"--max-memory={max_memory}", f"--max-time={max_time:g}", *(["--sandbox"] if sandbox else [])]
    arguments = ["execute", str(path), "--entry", "predict", "-q", "--engine", engine, *limits]
    start = perf_counter()
    done = subprocess.run(
        [sys.executable, "-P", "-c", MEASURED, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PROGRAD_CACHE": ""},
    )
    seconds = perf_counter() - start
    *said, peak = done.stderr.splitlines() or ["0"]
    said = [line for line in said if "computes with initial values" not in line]
    known = int(peak) * 1024 if peak.isdecimal() else 0
    return Ending(done.returncode, known, seconds, "\n".join(said if known else [*said, peak]))


def main() -> int:
    """Run all bombs; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m hostile.defused")
    parser.add_argument("--scale", type=float, default=1.0, help="factor of the sizes")
    parser.add_argument("--max-memory", type=int, default=200 << 20, help="bytes")
    parser.add_argument("--max-time", type=float, default=10.0, help="seconds")
    parser.add_argument("names", nargs="*", default=list(BOMBS), help="bombs; all unless named")
    options = parser.parse_args()
    wrong = 0
    with TemporaryDirectory() as folder:
        for name in options.names:
            path = Path(folder) / f"{name}.pb"
            BOMBS[name](max(int(COUNTS[name] * options.scale), 1)).compile().save(path)
            for engine in ("reference", "native"):
                for sandbox in (False, True):
                    found = ending(path, engine, options.max_memory, options.max_time, sandbox=sandbox)
                    faults = found.faults(options.max_memory, options.max_time)
                    wrong += len(faults)
                    where = f"{name:<12} {engine:<9} {'sandbox' if sandbox else '       '}"
                    numbers = f"{found.code:>4} {found.peak_bytes >> 20:>5} MiB {found.seconds:>6.1f} s"
                    print(where, numbers, *faults, found.said[:120], sep="  ", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
