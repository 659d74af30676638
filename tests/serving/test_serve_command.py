"""The verb `serve`: how it begins, and how it ends."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from subjects.commands import fields, run_runtime
from subjects.serving import LONG, ask, loaded, rows, scores
from subjects.small_programs import linear, save

import runtime
from prograd_proto.wording import install_hint


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    loaded(tmp_path).save(tmp_path / "scores.safetensors")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def started(*arguments: str) -> tuple[subprocess.Popen[str], dict[str, str]]:
    """A process that serves, and the fields of the line by which it says so."""
    command = [sys.executable, "-W", "error", "-m", "runtime", "serve", *arguments, "--port", "0"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )
    assert process.stdout is not None
    word, *pairs = process.stdout.readline().split()
    assert word == "READY", process.communicate()
    return process, dict(pair.split("=", 1) for pair in pairs)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_as_a_success(folder: Path, number: signal.Signals):
    process, said = started("scores.pb", "--load", "scores.safetensors")
    port = int(said["url"].rsplit(":", 1)[1])
    status, _, body = ask(port, json.dumps(rows(3).tolist()).encode())
    described = json.loads(ask(port, path="/")[2])
    process.send_signal(number)
    out, err = process.communicate(timeout=LONG)
    run = runtime.load("scores.pb")
    run.load("scores.safetensors")
    assert status == 200
    assert np.allclose(json.loads(body)["y"], run.predict(rows(3))["y"])
    assert (said["program_sha256"], said["state_sha256"]) == (run.sha256, run.states.sha256())
    assert described["state_sha256"] == said["state_sha256"]
    assert process.returncode == 0
    found = fields(out.splitlines()[-1])
    assert (found["entry"], found["answered"], found["rows"], found["failed"]) == ("predict", "1", "3", "0")
    assert err == f"runtime: entry 'predict' of 'scores' is at {said['url']}; Ctrl-C ends it\n"


# Another thread gets the signal, as if it came just before the loop began to wait: no wait is interrupted.
WHILE_IT_WAITS = """
import signal, sys, threading, time
from runtime.commands import serve

def tell():
    while sys._current_frames()[threading.main_thread().ident].f_code.co_name != "select":
        time.sleep(0.01)
    time.sleep(0.1)
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

def put_result(options, verdict, fields):
    if verdict == "READY":
        threading.Thread(target=tell).start()

serve.put_result = put_result
sys.argv = ["runtime", "serve", "scores.pb", "--port", "0", "-q"]
from runtime.__main__ import main
sys.exit(main())
"""


def test_a_signal_that_interrupts_no_wait_ends_it_as_well(folder: Path):
    command = [sys.executable, "-c", WHILE_IT_WAITS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONG, check=False)
    assert done.returncode == 0, done.stderr


def test_it_stops_after_a_time(folder: Path, capsys: pytest.CaptureFixture[str]):
    code, out, err = run_runtime(capsys, "serve", "scores.pb", "--port", "0", "--max-time", "10ms", "-q")
    assert code == 0
    assert out[0].startswith("READY url=http://127.0.0.1:")
    assert fields(out[1])["answered"] == "0"
    assert err == (
        "runtime: warning: nothing was loaded: the entry 'predict' computes with initial values; "
        "--load takes those of a run\n"
    )


def test_what_cannot_be_served_is_said_in_a_sentence(folder: Path, capsys: pytest.CaptureFixture[str]):
    save(linear(), folder)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        wrong = [
            (
                ["p.pb", "--entry", "train"],
                "the entry 'train' trains, and no request may change the states; name another by --entry",
            ),
            (["p.pb", "--entry", "pedict"], "there is no entry 'pedict'; did you mean 'predict'?"),
            (["p.pb", "--only", "w"], "--only, --rename and --layout say what --load takes; give --load"),
            (
                ["scores.pb", "--load", "scores.safetensors", "--port", port],
                f"port {port} of 127.0.0.1 cannot be used: Address already in use; name another by --port",
            ),
            (["p.pb", "--port", "65536"], "argument --port: '65536' is no port, a number from 0 to 65535; see"),
        ]
        for words, sentence in wrong:
            code, _, err = run_runtime(capsys, "serve", *words)
            assert code == 2
            assert err.startswith(f"runtime: {sentence}")


def test_a_library_that_is_missing_is_named_with_the_way_to_install_it(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    monkeypatch.delitem(sys.modules, "aiohttp.web", raising=False)
    code, _, err = run_runtime(capsys, "serve", "scores.pb")
    assert code == 2
    assert err == f"runtime: runtime serve needs the package aiohttp: {install_hint('serve')}\n"


def test_the_library_is_imported_for_no_other_verb(folder: Path):
    scores()
    code = "import sys, runtime.__main__ as m; m.main(['check', 'scores.pb'])"
    code += "; print('aiohttp' in sys.modules, 'asyncio' in sys.modules)"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.stdout.splitlines()[-1] == "False False"
