"""The release: its notes, its version in one place, and the constraints of the workflows."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def noted(version: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ".ci/notes.py", version]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_notes_of_a_release_are_its_section_of_the_changelog():
    done = noted(PROJECT["version"])
    assert (done.returncode, done.stderr) == (0, "")
    title, _, text = done.stdout.partition("\n\n")
    assert title == f"# prograd {PROJECT['version']}"
    assert text.strip() in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert "\n## " not in text


def test_a_version_without_a_section_has_no_notes():
    done = noted("9.9.9")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "release: CHANGELOG.md has no sections of 9.9.9; write one\n"


def test_the_version_stands_in_one_place():
    literal = re.compile(rf"(?<![\d.]){re.escape(PROJECT['version'])}(?![\d.])")
    product = [
        path for room in ("compiler", "prograd", "registry", "runtime", "proto") for path in (ROOT / room).rglob("*.py")
    ]
    assert len(product) > 700
    assert [path for path in product if literal.search(path.read_text(encoding="utf-8"))] == []


def test_the_workflows_run_what_every_commit_has_to_pass_and_constrain_what_tests_need():
    test = (ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8")
    assert "- run: .ci/run\n" in test
    assert ".ci/constraints.txt" in test
    pinned = {
        re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower()
        for line in (ROOT / ".ci/constraints.txt").read_text(encoding="utf-8").split()
    }
    extras = PROJECT["optional-dependencies"]
    needed = {
        re.split(r"[\[<>=]", line)[0].lower().replace("_", "-") for line in (*PROJECT["dependencies"], *extras["test"])
    }
    assert {name for name in needed if not name.startswith("prograd")} - pinned == set()
    assert {"release", "build", "publish"} <= set(
        re.findall(r"\w+", (ROOT / ".github/workflows/release.yml").read_text())
    )
