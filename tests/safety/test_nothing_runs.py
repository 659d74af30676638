"""No program makes the runtime run code, start a process or open another file: asked of Python itself.

Python reports what it does to audit hooks. A process loads what it needs, turns on a hook, and then runs programs that
were changed at random; the hook notes every import, evaluation, process and socket, and every file outside the folder.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import os, sys
from runtime.blas import ask_for_one_thread
ask_for_one_thread()
sys.path.insert(0, {tests!r})
from pathlib import Path
from mutations import good_programs, mutated, outcome
import runtime.runs.run, runtime.commands.execute, runtime.engines.reference.engine
import runtime.engines.reference.threads.in_phases, runtime.engines.reference.threads.lanes

noted, watching = set(), False
ACTS = ("os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen", "pickle.find_class",
        "socket.connect", "ctypes.dlopen", "os.remove", "os.rename", "os.rmdir", "shutil.rmtree")
OWN = ("runtime", "prograd_proto", "numpy", "google.protobuf", "safetensors")
HOMES = (sys.prefix, sys.base_prefix, {root!r})
STANDARD = sys.stdlib_module_names

def hook(event, arguments):
    if not watching:
        return
    if event == "import":
        top = arguments[0].partition(".")[0]
        if top not in STANDARD and not arguments[0].startswith(OWN):
            noted.add((event, arguments[0]))
    elif event == "exec":
        if not arguments[0].co_filename.startswith((*HOMES, "<frozen")):
            noted.add((event, arguments[0].co_filename))
    elif event in ACTS:
        noted.add((event, str(arguments)[:80]))
    elif event == "open" and isinstance(arguments[0], str):
        path = os.path.realpath(arguments[0])
        if not (path + os.sep).startswith((os.getcwd() + os.sep, *HOMES, "/proc", "/sys")):
            noted.add((event, path))

sys.addaudithook(hook)
words = []
for raw in [*good_programs()[:20], *map(mutated, range(5_000_000, 5_000_000 + {count}))]:
    watching = True
    words.append(outcome(raw, Path()))
    watching = False
{deed}
print(sorted(noted))
print(words.count('ran'), words.count('ProgramError'), sorted(os.listdir()))
"""


def run(folder: Path, count: int, deed: str = "") -> list[str]:
    tests = Path(__file__).parents[1]
    script = SCRIPT.format(tests=str(tests), root=str(tests.parent), count=count, deed=deed)
    command = [sys.executable, "-W", "error", "-c", script]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_no_program_runs_code_or_touches_another_file(tmp_path: Path):
    noted, counts = run(tmp_path, 200)
    ran, refused, left = counts.split(" ", 2)
    assert (noted, left) == ("[]", "['mutated.pb']")
    assert min(int(ran), int(refused)) > 20


DEEDS = {
    "exec": "exec('1')",
    "open": "open('/dev/null').close()",
    "import": "try: import hypothesis_\nexcept ImportError: pass",
}


@pytest.mark.thorough
def test_the_hook_would_see_it(tmp_path: Path):
    deeds = "\n".join(DEEDS.values())
    noted, _ = run(tmp_path, 0, f"watching = True\n{deeds}\nwatching = False")
    assert all(f"({event!r}, " in noted for event in DEEDS)
