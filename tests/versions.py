"""The tests on other versions of Python and NumPy: `python tests/versions.py`, or `make versions`.

1. For every Python from 3.11 on that is found here, all tests with the newest dependencies that it can have.
2. For every minor version of NumPy from 2.0 on, the tests of kernels and operators, with the oldest Python that has it.

Each gets a virtual environment in --folder, which is kept and used again. The last lines are the table that
docs/reliability.md has; the code is 1 if anything failed. It takes about half an hour on two cores.

`--python 3.12` or `--numpy 2.0` runs only that one; `--list` says what there is.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
NUMPYS: Final = {"2.0": "3.11", "2.1": "3.11", "2.2": "3.11", "2.3": "3.11", "2.4": "3.11", "2.5": "3.12"}
"""By minor version of NumPy, the oldest of our Pythons that it has a wheel for."""

KERNEL_TESTS: Final = (
    "every_operator/test_ops.py",
    "operators/test_kernels.py",
    "operators/test_array_operators.py",
    "operators/test_half_casts.py",
    "operators/test_special_functions.py",
    "operators/matrices/test_decompositions.py",
    "operators/test_broadcasting.py",
    "every_operator/test_odd_calls.py",
    "every_operator/test_operand_types.py",
    "running/test_philox.py",
    "operators/test_sampling.py",
    "operators/test_scans.py",
    "operators/test_spatial.py",
    "rows/test_data.py",
    "running/test_executor.py",
    "running/test_training_runs.py",
)
REPORT: Final = (
    "import sys, numpy, google.protobuf, safetensors;"
    "print(sys.version.split()[0], numpy.__version__, google.protobuf.__version__, safetensors.__version__)"
)


class Job(NamedTuple):
    """A Python, a minor version of NumPy or none for the newest, and the test files, none for all."""

    python: str
    numpy: str | None
    tests: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"python{self.python}" + (f"-numpy{self.numpy}" if self.numpy else "")


def main() -> int:
    """Run the jobs; 1 if one of them failed."""
    options = parsed()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it is ignored, and tests send it
    found = interpreters()
    for minor in PYTHONS:
        print(f"Python {minor}: {found.get(minor, 'not found')}", flush=True)
    if options.list:
        return 0
    rows = [run(job, found[job.python], options) for job in jobs(options) if job.python in found]
    print("\n| Python | NumPy | protobuf | safetensors | tests | result |\n| --- | --- | --- | --- | --- | --- |")
    print("\n".join(rows))
    return int(any("failed" in row or "error" in row for row in rows) or not rows)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", choices=PYTHONS, action="append", help="all tests with this Python")
    parser.add_argument("--numpy", choices=sorted(NUMPYS), action="append", help="tests of kernels with this NumPy")
    parser.add_argument("--folder", type=Path, default=ROOT / ".versions", help="of the virtual environments")
    parser.add_argument("--workers", default="auto", help="of pytest; else one for each core")
    parser.add_argument("--list", action="store_true", help="only say which Pythons there are")
    return parser.parse_args()


def jobs(options: argparse.Namespace) -> list[Job]:
    """Return the requested versions, or all."""
    everything = not options.python and not options.numpy
    pythons = PYTHONS if everything else options.python or ()
    numpys = NUMPYS if everything else options.numpy or ()
    return [Job(python, None, ()) for python in pythons] + [Job(NUMPYS[n], n, KERNEL_TESTS) for n in numpys]


def interpreters() -> dict[str, Path]:
    """Map each minor version to a Python of PATH, else to the newest of pyenv."""
    found: dict[str, Path] = {}
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for minor in PYTHONS:
        of_pyenv = sorted(pyenv.glob(f"{minor}.*/bin/python3"), key=lambda path: number(path.parts[-3]))
        named = shutil.which(f"python{minor}")
        candidates = [*reversed(of_pyenv), *([Path(named)] if named else [])]
        works = next((path for path in candidates if answers(path, minor)), None)
        if works is not None:
            found[minor] = works
    return found


def number(version: str) -> tuple[int, ...]:
    return tuple(int(digits) for digits in re.findall(r"\d+", version))


def answers(path: Path, minor: str) -> bool:
    """Return True if it runs, which a shim of pyenv may not, and is that Python."""
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    return done.returncode == 0 and f" {minor}." in done.stdout


def run(job: Job, python: Path, options: argparse.Namespace) -> str:
    """Make the environment, run the tests in it, and give the row of the table."""
    print(f"\n== {job.name}", flush=True)
    folder = options.folder / job.name
    own = folder / "bin" / "python"
    if not own.exists():
        subprocess.run([python, "-m", "venv", folder], check=True)
    wanted = [f"numpy=={job.numpy}.*"] if job.numpy else []
    subprocess.run([own, "-m", "pip", "install", "-q", "-e", f"{ROOT}[test]", *wanted], check=True)
    versions = subprocess.run([own, "-c", REPORT], capture_output=True, text=True, check=True).stdout.split()
    files = [str(ROOT / "tests" / name) for name in job.tests]
    command = [own, "-m", "pytest", "-q", "-n", options.workers, "-p", "no:cacheprovider", *files]
    done = subprocess.run(command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout[-20_000:], flush=True)
    result = done.stdout.strip().rpartition("\n")[2].strip("= ") if done.returncode in (0, 1) else "error"
    return f"| {' | '.join(versions)} | {'kernels, operators' if files else 'all'} | {result} |"


def environment() -> dict[str, str]:
    """Environment of CI, where hypothesis tries the same examples each time."""
    return os.environ | {"CI": "true"}


if __name__ == "__main__":
    sys.exit(main())
