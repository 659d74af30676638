"""Run the examples and the native tests under emulated aarch64: python tests/aarch64/run.py FOLDER [--only examples].

FOLDER is made by `make_tree.sh` where it is not there. It takes hours: emulated code takes some 5 to 10 times the
processor time, and so does LLVM. The last line says how many failed. docs/native.md has the results.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

ROOT: Final = Path(__file__).parents[2]

EXPECTED: Final = Path(__file__).with_name("expected.json")
"""By example, the hash of the states that `native.neon` trains; `--update` writes it anew."""

HASH_LETTERS: Final = 64

HASH: Final = re.compile(r"^OK .*instructions=neon .*state_sha256=([0-9a-f]{64})", re.MULTILINE)


def main() -> int:
    """Make the tree, run what is asked for, and return 1 if something failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the emulated Python is, or is made")
    parser.add_argument("--only", choices=("examples", "tests"), help="leave the other group out")
    parser.add_argument("--update", action="store_true", help="note the hashes of the examples as expected")
    parser.add_argument("--timeout", type=float, default=3600, help="seconds for one example or one file of tests")
    parser.add_argument(
        "--tests", nargs="+", default=["tests/native"], help="files or folders; by default tests/native"
    )
    given = parser.parse_args()
    python = given.folder.resolve() / "python"
    if not python.exists():
        subprocess.run([Path(__file__).with_name("make_tree.sh"), given.folder], check=True)
    wrong = 0
    if given.only != "tests":
        wrong += examples(python, given.timeout, given.update)
    if given.only != "examples":
        wrong += native_tests(python, given.timeout, given.tests)
    print("OK" if not wrong else f"{wrong} failed")
    return int(wrong > 0)


def examples(python: Path, timeout: float, update: bool) -> int:
    """Train every example on copies of its files, and return how many fail or have other states than expected."""
    expected = json.loads(EXPECTED.read_text()) if EXPECTED.exists() else {}
    found: dict[str, str] = {}
    programs = sorted((ROOT / "examples").glob("*.pb"))
    with TemporaryDirectory() as folder:
        for path in sorted((ROOT / "examples").iterdir()):
            if path.suffix in (".pb", ".safetensors"):
                shutil.copy(path, folder)
        for program in programs:
            command = [python, "-m", "runtime", "execute", program.name, "--engine", "native.neon"]
            found[program.stem] = said = _trained(command, Path(folder), timeout)
            print(f"{program.stem}: {said}{_beside(said, expected.get(program.stem))}", flush=True)
    if update:
        EXPECTED.write_text(json.dumps(found, indent=2) + "\n")
    known = {} if update else expected
    return sum(len(said) != HASH_LETTERS or said != known.get(name, said) for name, said in found.items())


def _beside(said: str, wanted: str | None) -> str:
    """Return what to print behind a hash: how it compares with the one that is expected."""
    if len(said) != HASH_LETTERS:
        return ""
    return " (nothing is expected)" if wanted is None else " (as expected)" if said == wanted else f" is not {wanted}"


def _trained(command: list[Path | str], folder: Path, timeout: float) -> str:
    """Return the hash of the states that a command trains, or what is wrong."""
    environment = {**os.environ, "PROGRAD_CACHE": str(folder / "cache")}
    try:
        made = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return f"takes more than {timeout:.0f} s"
    hashes = HASH.findall(made.stdout)
    return hashes[0] if made.returncode == 0 and hashes else f"code {made.returncode}: {made.stderr[-200:]}"


def native_tests(python: Path, timeout: float, paths: list[str]) -> int:
    """Run each file of tests in a process of its own, and return how many tests and files fail."""
    files = [file for path in paths for file in ([ROOT / path] if path.endswith(".py") else _tests(ROOT / path))]
    wrong, counts = 0, {"passed": 0, "failed": 0, "skipped": 0, "error": 0}
    for file in files:
        lines = _tested(python, file, timeout)
        print(
            f"{file.relative_to(ROOT)}: {lines[-1]}", *(line for line in lines if line.startswith("FAILED")), sep="\n  "
        )
        sys.stdout.flush()
        for word in counts:
            counts[word] += sum(map(int, re.findall(rf"(\d+) {word}", lines[-1])))
        wrong += not re.search(r"\d+ (passed|skipped)", lines[-1])
    print(", ".join(f"{count} {word}" for word, count in counts.items()))
    return wrong + counts["failed"] + counts["error"]


def _tests(folder: Path) -> list[Path]:
    return sorted(folder.rglob("test_*.py"))


def _tested(python: Path, file: Path, timeout: float) -> list[str]:
    """Return the last lines of pytest for a file, or a line that says what became of it."""
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", file]
    try:
        made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return [f"takes more than {timeout:.0f} s"]
    lines = made.stdout.strip().splitlines()[-60:]
    return lines if made.returncode >= 0 and lines else [f"ended with {made.returncode}: {made.stderr[-200:]}"]


if __name__ == "__main__":
    sys.exit(main())
