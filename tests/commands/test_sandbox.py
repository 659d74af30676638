"""The system's own limits: in processes of their own, because they cannot be raised again."""

import subprocess
import sys
from pathlib import Path

import pytest
from subjects.small_programs import rich, save

from compiler import Program, ops, sgd, zeros
from runtime.__main__ import main
from runtime.commands.sandbox import DEFAULT_THREAD_SECONDS, FILE_BYTES, MAX_OPEN_FILES, MORE_SECONDS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have other limits, or none")

RUN = """
import resource, sys
from runtime.__main__ import main
code = main(sys.argv[1:])
for name in ("CPU", "NOFILE", "FSIZE", "CORE"):
    print(name, *resource.getrlimit(getattr(resource, "RLIMIT_" + name)), file=sys.stderr)
print("AS", resource.getrlimit(resource.RLIMIT_AS)[1] > 0, file=sys.stderr)
sys.exit(code)
"""


def python(script: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-c", script, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("arguments", "seconds"),
    [
        ([], DEFAULT_THREAD_SECONDS),
        (["--max-time=100"], 110),
        (["--max-time=100", "--threads=2"], 220),
        (["--max-time=1e9"], DEFAULT_THREAD_SECONDS),
    ],
)
def test_the_system_limits_a_process(arguments: list[str], seconds: int, tmp_path: Path):
    save(rich(), tmp_path)
    done = python(
        RUN, "execute", "p.pb", "-q", "--sandbox", "--max-memory=300MiB", "--threads=1", *arguments, folder=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == [
        f"CPU {seconds} {seconds + MORE_SECONDS}",
        f"NOFILE {MAX_OPEN_FILES} {MAX_OPEN_FILES}",
        f"FSIZE {FILE_BYTES} {FILE_BYTES}",
        "CORE 0 0",
        "AS True",
    ]


def test_a_limit_that_is_lower_already_stays(tmp_path: Path):
    save(rich(), tmp_path)
    lower = "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))\n"
    done = python(lower + RUN, "execute", "p.pb", "-q", "--sandbox", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "NOFILE 32 32" in done.stderr.splitlines()


def test_memory_beyond_the_sandbox_ends_with_6(tmp_path: Path):
    program = Program("large")
    w = program.parameter("w", (3 << 29,), zeros())
    program.minimize(ops.sum(w), sgd(rate=0.1))
    program.compile().save(tmp_path / "p.pb")
    done = python(RUN, "execute", "p.pb", "-q", "--sandbox", "--steps=1", folder=tmp_path)
    assert done.returncode == 6
    assert done.stderr.splitlines()[0] == "runtime: the program's states need more memory than there is"


def test_processor_time_beyond_the_sandbox_ends_with_6(tmp_path: Path):
    save(rich(), tmp_path)
    spent = RUN.replace(
        "code = main",
        "import signal, runtime.runs.states\n"
        "runtime.runs.states.States.initialise = lambda *_: signal.raise_signal(signal.SIGXCPU)\n"
        "code = main",
    )
    done = python(spent, "execute", "p.pb", "-q", "--sandbox", folder=tmp_path)
    assert done.returncode == 6
    said = "runtime: the process took all the processor time that --sandbox leaves it"
    assert done.stderr.splitlines()[0] == said


def test_where_the_system_has_no_limits_the_option_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    monkeypatch.setitem(sys.modules, "resource", None)
    assert main(["execute", "p.pb", "--sandbox"]) == 2
    assert capsys.readouterr().err == "runtime: --sandbox: this system has no limits for a process; use a container\n"
