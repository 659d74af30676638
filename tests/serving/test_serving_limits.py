"""`runtime serve` under a memory limit, with large JSON bodies, and stopped while it is busy."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.allocation import traced
from safetensors.numpy import save
from subjects.commands import told
from subjects.serving import LONG, NPY, RAW, SAFETENSORS, Serving, ask, begun, loaded, refusal, refusal_on, rows

import runtime
from compiler import Program, ops
from prograd_proto.byte_sizes import exact_size
from runtime.errors import DataError, ResourceLimit
from runtime.memory.limit import MemoryLimit
from runtime.serving import json_arrays
from runtime.serving.forms import FORMS, input_arrays, written_bytes
from runtime.serving.predictor import Predictor

MIB = 1 << 20
JSON = "application/json"


def feeds(x: tuple[int, ...], scale: tuple[int, ...] = ()) -> Program:
    program = Program("feeds")
    first, second = program.input("x", "float32", ("n", *x)), program.input("s", "int64", scale)
    program.outputs(y=first * 1.0, s=second + 0)
    return program


@pytest.fixture(scope="module")
def bound():
    return runtime.Run(feeds((2, 3), (2,)).compile(n=8)).session.bindings("predict")[0]


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let bodies of a few bytes be read in pieces."""
    monkeypatch.setattr(json_arrays, "MAX_PARSED_BYTES", 7)


def by_pieces(body: bytes, bound: object) -> dict[str, object]:
    return json_arrays.large_json(body, bound, MemoryLimit(None))  # type: ignore[arg-type]


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 40), st.integers(0, 2**32 - 1), st.sampled_from([None, 1]), st.integers(64, 200))
def test_a_large_body_is_read_as_a_small_one(bound, count: int, seed: int, indent: int | None, piece: int):
    random = np.random.default_rng(seed)
    x = random.normal(size=(count, 2, 3)).astype(np.float32)
    body = json.dumps({"s": [-5, 2**62], "x": x.tolist()}, indent=indent).encode()
    before, json_arrays.MAX_PARSED_BYTES = json_arrays.MAX_PARSED_BYTES, piece
    try:
        found = by_pieces(body, bound)
    finally:
        json_arrays.MAX_PARSED_BYTES = before
    assert found["x"].dtype == np.float32
    np.testing.assert_array_equal(found["x"], x)
    np.testing.assert_array_equal(found["s"], [-5, 2**62])


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_body_that_is_not_what_it_should_be_is_refused_whatever_it_is(bound, data: st.DataObject):
    """Each body with a few bytes changed is refused, or gives what Python's parser gives."""
    x = [[[1, 2, 3.5], [4, 5, -6e1]]] * 3
    body = bytearray(json.dumps({"x": x, "s": [7, 8]}).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(body) - 1))
        letter = data.draw(st.sampled_from([*b'[]{},":0-.e tn', 0xFF]))
        body[at : at + data.draw(st.integers(0, 2))] = bytes([letter])
    before, json_arrays.MAX_PARSED_BYTES = json_arrays.MAX_PARSED_BYTES, 40
    try:
        found = by_pieces(bytes(body), bound)
    except (ValueError, DataError):
        return
    finally:
        json_arrays.MAX_PARSED_BYTES = before
    wanted = json.loads(body)
    assert found.keys() == wanted.keys()
    for name, array in found.items():
        found_as = np.asarray(array)
        np.testing.assert_array_equal(found_as, np.asarray(wanted[name], found_as.dtype))


REFUSED = [
    (b"[]" * 40_000, "entry 'predict' has the feeds x, s; give them by name"),
    (
        b'{"x": [' + b"[]," * 40_000 + b"[]]}",
        "entry 'predict': the feed 'x' is float32[rows, 2, 3], and the list given is none of this shape at byte 8",
    ),
    (
        b'{"x": ' + b"[" * 70_000 + b"]" * 70_000 + b"}",
        "entry 'predict': the feed 'x' is float32[rows, 2, 3], and the list given is none of this shape at byte 9",
    ),
    (b'{"x": ' + b"[" * 70_000, "the body is not application/json: there is no whole list at byte 6"),
    (b'{"x": []' + b" " * 70_000, "the body is not application/json: there is neither a comma nor the end of the "),
    (b'{"y": [' + b"1," * 40_000 + b"1]}", "entry 'predict' has no feed 'y'; its feeds are: x, s"),
    (b'{"s": [' + b"1.5,".ljust(70_000) + b"2]}", "entry 'predict': the feed 's' is int64[2], and the list given "),
    (
        b'{"s": [' + b"null,".ljust(70_000) + b"2]}",
        "entry 'predict': the feed 's' is int64[2], and the list given has ",
    ),
    (b'{"x": [' + b"9" * 70_000 + b"]}", "the body is not application/json: there are 65536 bytes without a comma"),
    (
        b'{"s": [1, 2], "s": [1, 2]' + b" " * 70_000 + b"}",
        "the body is not application/json: the name 's' is there twice",
    ),
    (b'{"x": [[[1, 2, 3], [4, 5 5, 6]]]' + b" " * 70_000 + b"}", "the body is not application/json: Expecting ',' "),
]


@pytest.mark.parametrize(("body", "sentence"), REFUSED)
def test_a_large_body_that_does_not_fit_is_one_sentence(bound, body: bytes, sentence: str):
    assert told(DataError, lambda: input_arrays(JSON, body, bound)).startswith(sentence)


def test_arrays_of_a_body_are_asked_for_before_they_are_made(bound):
    body = b'{"x": [' + b"[[0,0,0],[0,0,0]]," * 100_000 + b"[[0,0,0],[0,0,0]]]}"
    limit = MemoryLimit(5 * MIB)
    with pytest.raises(ResourceLimit, match=r"^with the array for the feed 'x' the run needs .*, and the limit is "):
        input_arrays(JSON, body, bound, limit)
    assert limit.taken == 0


def test_lists_of_one_axis_and_of_none_are_read(small_pieces):
    bound = runtime.Run(feeds(()).compile(n=8)).session.bindings("predict")[0]
    for given_x, s in (([], 3), ([5], -1), ([5, 6.5, 7, 8, 9, 10], 0)):
        found = by_pieces(json.dumps({"x": given_x, "s": s}).encode(), bound)
        np.testing.assert_array_equal(found["x"], np.float32(given_x))
        assert found["s"] == s


def started(folder: Path, *arguments: str, engine: str = "reference") -> tuple[subprocess.Popen[str], int]:
    """A process that serves, and its port."""
    command = [sys.executable, "-W", "error", "-m", "runtime", "serve", "scores.pb", "--load", "scores.safetensors"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [*command, "--port", "0", "-q", "--engine", engine, *arguments],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("READY"), process.communicate()
    return process, int(line.split("url=http://127.0.0.1:")[1].split()[0])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("served")
    loaded(path).save(path / "scores.safetensors")
    return path


def peak_of(process: subprocess.Popen[str]) -> int:
    """The most MiB that a process has occupied."""
    return int(Path(f"/proc/{process.pid}/status").read_text().partition("VmHWM:")[2].split()[0]) // 1024


@pytest.mark.sampled(2)
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what a process occupies now")
@pytest.mark.parametrize(
    "body", [b"[" + b"[]," * (16 * MIB // 3 - 1) + b"[]]", b'{"x":[' + b"[0,0,0]," * (2 * MIB - 2) + b"[0,0,0]]}"],
    ids=["empty lists", "rows"],
)  # fmt: skip
def test_six_large_bodies_at_once_stay_within_the_memory(folder: Path, body: bytes):
    process, port = started(folder, "--max-memory", "100MiB")

    def asked(_: int) -> int:
        with suppress(ConnectionError):  # refused before all of it was sent
            return ask(port, body)[0]
        return 503

    with ThreadPoolExecutor(6) as clients:
        statuses = set(clients.map(asked, range(6)))
    assert statuses <= {200, 400, 413, 503}
    assert ask(port, json.dumps(rows(3).tolist()).encode())[0] == 200
    peak = peak_of(process)
    process.terminate()
    _, err = process.communicate(timeout=LONG)
    assert (process.returncode, err) == (0, "")
    assert peak < 130


def limited(folder: Path, room: int) -> runtime.Run:
    """Return a run that has `room` bytes left for requests."""
    run = runtime.load(folder / "scores.pb")
    run.load(folder / "scores.safetensors")
    Predictor(run.session, "predict", queue=1).close()
    found = runtime.load(folder / "scores.pb", max_memory=run.session.memory.taken + room)
    found.load(folder / "scores.safetensors")
    return found


def as_npy(x: np.ndarray) -> bytes:
    out = BytesIO()
    np.save(out, x)
    return out.getvalue()


X = rows(20_000)
LISTS = json.dumps({"x": X.tolist()}).encode()
PARSING = json_arrays.PARSED_BYTES_RATIO * json_arrays.MAX_PARSED_BYTES
BODIES_OF_ROWS = {
    RAW: (X.tobytes(), 200_000, "the body"),
    JSON: (LISTS, len(LISTS) + PARSING + X.nbytes // 2, "the array for the feed 'x'"),
    NPY: (as_npy(X), 600_000, "the array"),
    SAFETENSORS: (save({"x": X}), 400_000, "the array 'x'"),
}
"""By form: a body of 20,000 rows, room that is too little for it, and what there is no room for."""


@pytest.mark.parametrize("form", BODIES_OF_ROWS)
def test_a_body_that_never_fits_is_told_the_limit(folder: Path, form: str):
    body, room, what = BODIES_OF_ROWS[form]
    with Serving(limited(folder, room), body=16 * MIB) as server:
        for _ in range(2):
            status, headers, said = ask(server.port, body, form, path="/predict?fetch=y")
            sentence = json.loads(said)["error"]
            assert (status, "Retry-After" in headers) == (413, False)
            start, _, end = sentence.partition(" the request needs ")
            needed, _, limit = end.partition(", and the limit is ")
            assert start == f"with {what}"
            assert limit == f"{exact_size(room)}, which --max-memory leaves for one"
            assert int(needed.partition(" bytes (")[0]) > room
        assert ask(server.port, rows(3).tobytes(), RAW, path="/predict?fetch=y")[0] == 200


def test_an_answer_that_never_fits_is_told_the_limit(folder: Path):
    with Serving(limited(folder, X.nbytes + 200_000), body=16 * MIB) as server:
        status, sentence = refusal(server.port, X.tobytes(), RAW, path="/predict?fetch=y")
    assert (status, sentence.partition(" needs ")[0]) == (413, "with the answer the request")


@pytest.mark.sampled(12)
@pytest.mark.parametrize("form", [JSON, NPY, RAW, SAFETENSORS])
@pytest.mark.parametrize("shape", [(20_000, 2, 1, 1), (200_000,), (50_000, 1)])
def test_writing_an_answer_takes_no_more_than_is_counted(form: str, shape: tuple[int, ...]):
    arrays = {"y": np.random.default_rng(1).normal(size=shape) * 1e-100}
    FORMS[form].write(arrays)
    peaks: list[int] = []
    for _ in range(3):  # threads of earlier tests may allocate meanwhile
        with traced() as allocation:
            FORMS[form].write(arrays)
        peaks.append(allocation.peak_bytes)
    assert min(peaks) < written_bytes(form, arrays) + 10_000


@pytest.mark.parametrize("form", [JSON, NPY, SAFETENSORS])
def test_a_body_that_would_fit_alone_may_come_again(folder: Path, form: str):
    body, room = BODIES_OF_ROWS[form][0], 16 * MIB
    run = limited(folder, room)
    with Serving(run, body=16 * MIB) as server:
        with run.session.memory.lent(room - len(body) - 1000, "other requests"):
            status, headers, _ = ask(server.port, body, form, path="/predict?fetch=y")
            assert (status, headers["Retry-After"]) == (503, "1")
        assert ask(server.port, body, form, path="/predict?fetch=y")[0] == 200


def test_arrays_of_a_body_count_while_they_are_there(folder: Path):
    bound = loaded(folder).session.bindings("predict")[0]
    for form, (body, _, _) in BODIES_OF_ROWS.items():
        memory = MemoryLimit(1 << 40)
        given = input_arrays(form, body, bound, memory)
        assert memory.taken == (0 if form == RAW else X.nbytes)  # those of raw bytes are the body itself
        np.testing.assert_array_equal(given["x"], X)
        del given
        assert memory.taken == 0


def test_half_a_body_does_not_hold_the_end(folder: Path):
    run = runtime.load(folder / "scores.pb")
    run.load(folder / "scores.safetensors")
    with Serving(run, seconds=LONG) as server:
        halves = [begun(server.port, 1200, b"\0" * 600) for _ in range(5)]
        time.sleep(0.2)
        start = time.monotonic()
        server.stop()
        answers = [refusal_on(connection) for connection in halves]
    assert time.monotonic() - start < 20
    assert answers == [(503, "the server stops, and the body was not there yet")] * 5
    assert server.done.is_whole


def test_the_rest_of_a_body_that_comes_soon_is_answered(folder: Path):
    run = runtime.load(folder / "scores.pb")
    run.load(folder / "scores.safetensors")
    x = rows(100)
    answers: list[bytes] = []
    for _ in range(8):  # on a busy machine the rest may come late
        with Serving(run) as server:
            connection = begun(server.port, x.nbytes, x.tobytes()[:600])
            time.sleep(0.2)
            server.stop()
            connection.sendall(x.tobytes()[600:])
            answers.append(connection.recv(1 << 16).partition(b"\r\n")[0])
            connection.close()
        if answers[-1].startswith(b"HTTP/1.1 200"):
            break
    assert answers[-1].startswith(b"HTTP/1.1 200"), answers


def keep_asking(port: int, kind: int) -> None:
    """Ask until the server is gone: small and large requests, half a body, clients that leave without reading."""
    raw, lists = rows(40).tobytes(), json.dumps(rows(5000).tolist()).encode()
    form, length, sent = [
        (RAW, len(raw), raw),
        (JSON, len(lists), lists),
        (RAW, 1200, b"\0" * 600),
        (RAW, 12_000_000, b"\0" * 12_000_000),
    ][kind % 4]
    lines = ("POST /predict?fetch=y HTTP/1.1", "Host: 127.0.0.1", f"Content-Type: {form}", f"Content-Length: {length}")
    head = "\r\n".join([*lines, "", ""])
    with suppress(OSError):
        while True:
            with socket.create_connection(("127.0.0.1", port), timeout=LONG) as connection:
                connection.sendall(head.encode() + sent)
                if kind % 4 < 2:
                    connection.recv(1 << 16)


def stopped_while_busy(folder: Path, seconds: float, number: signal.Signals, engine: str) -> tuple[int, str]:
    """The code and stderr of a server that a signal stops while eight clients ask."""
    process, port = started(folder, "--answer-time", "20s", engine=engine)
    clients = [Thread(target=keep_asking, args=(port, kind), daemon=True) for kind in range(8)]
    for client in clients:
        client.start()
    time.sleep(seconds)
    process.send_signal(number)
    _, err = process.communicate(timeout=LONG)
    for client in clients:
        client.join(LONG)
    return process.returncode, err


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_server_that_is_stopped_while_it_is_busy_says_nothing(folder: Path, engine: str):
    """Stop four servers, or as many as `PROGRAD_SHUTDOWNS` says; each engine has half of them."""
    for number in range(int(os.environ.get("PROGRAD_SHUTDOWNS", "4")) // 2):
        kind = (signal.SIGTERM, signal.SIGINT)[number % 2]
        assert stopped_while_busy(folder, 0.05 + 0.02 * (number % 20), kind, engine) == (0, "")


def test_a_thread_that_computes_after_the_loop_is_closed_says_nothing(capfd: pytest.CaptureFixture[str]):
    """A second signal closes the loop while a prediction is computed."""
    import asyncio

    program = Program("p")
    program.outputs(y=ops.sum(program.input("x", "float32", ("n", 64)), axis=(0,)))
    predictor = Predictor(runtime.Run(program.compile(n=32)).session, "predict", queue=4)

    async def leave() -> None:
        given_x = {"x": np.zeros((32 * 2000, 64), np.float32)}
        for _ in range(2):
            predictor.submit(predictor.request(given_x, time.monotonic() + LONG))

    asyncio.run(leave())
    predictor.close()
    assert capfd.readouterr().err == ""
