"""stdout and stderr that are full, closed or not there: words may be lost, runs and results may not."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from subjects.small_programs import rich, save

LOUD = ["--progress", "plain", "--checkpoint", "c", "--save", "s"]
BAR = ["--progress", "bar", "--checkpoint", "c", "--save", "s"]
JSON = ["--log-format", "json", "--checkpoint", "c", "--save", "s"]


def shell(folder: Path, redirection: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = f"exec {shlex.quote(sys.executable)} -P -m runtime execute p.pb {' '.join(arguments)} {redirection}"
    return subprocess.run(["/bin/sh", "-c", command], cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("arguments", [LOUD, BAR, JSON], ids=["plain", "bar", "json"])
@pytest.mark.parametrize("redirection", ["2>/dev/full", "2>&-"])
def test_what_happens_to_stderr_ends_no_run(tmp_path, arguments, redirection):
    save(rich(), tmp_path)
    done = shell(tmp_path, redirection, *arguments)
    assert done.returncode == 0
    assert done.stdout.startswith("OK entry=train steps=21 ")
    assert done.stdout.count("\n") == 1
    assert (tmp_path / "s").exists()


def test_an_error_that_cannot_be_told_keeps_its_code_and_stays_out_of_the_results(tmp_path):
    done = shell(tmp_path, "2>&-")
    assert (done.returncode, done.stdout) == (3, "")
    done = shell(tmp_path, "2>/dev/full", "--steps", "0")
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("redirection", "code", "sentence"),
    [
        (">/dev/full", 6, "stdout: the file cannot be written: No space left on device"),
        (">&-", 4, "stdout: the results cannot be written: it is closed"),
        (">/dev/full 2>&-", 6, None),
        (">&- 2>&-", 4, None),
    ],
)
def test_results_that_cannot_be_written_are_an_error_after_everything_else(tmp_path, redirection, code, sentence):
    save(rich(), tmp_path)
    done = shell(tmp_path, redirection, "-q", "--checkpoint", "c", "--save", "s")
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr == (f"runtime: {sentence}\n" if sentence else "")
    assert (tmp_path / "s").exists()


def test_files_do_not_take_the_numbers_of_streams_that_are_closed(tmp_path):
    save(rich(), tmp_path)
    done = shell(tmp_path, "<&- >&- 2>&-", "--progress", "plain", "--metrics", "m.csv", "--check-nan")
    assert done.returncode == 4
    assert (tmp_path / "m.csv").read_text().splitlines()[-1].startswith("evaluation,3,21,")
