"""`runtime serve` as clients see it: what is taken is answered, alone or with others, whatever other clients do."""

import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPConnection
from io import BytesIO

import numpy as np
import pytest
from safetensors.numpy import load as from_safetensors
from safetensors.numpy import save as to_safetensors
from subjects.serving import (
    JSON,
    LONG,
    NPY,
    RAW,
    SAFETENSORS,
    Serving,
    ask,
    begun,
    loaded,
    refusal,
    refusal_on,
    rows,
    status_of,
)

import runtime
from compiler import Program, ops
from runtime.serving.gate import MAX_LARGE_BODIES

X = rows(5)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return loaded(tmp_path_factory.mktemp("serving"))


@pytest.fixture(scope="module")
def expected(run):
    return run.predict(X)


@pytest.fixture(scope="module")
def port(run):
    with Serving(run) as server:
        yield server.port


def until(holds):
    """Wait for what another thread does."""
    end = time.monotonic() + LONG
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.005)


def npy(array) -> bytes:
    out = BytesIO()
    np.save(out, array)
    return out.getvalue()


def test_lists_are_answered_with_lists(port, expected):
    for body in (X.tolist(), {"x": X.tolist()}):
        status, headers, found = ask(port, json.dumps(body).encode())
        assert (status, headers["Content-Type"]) == (200, JSON)
        assert json.loads(found) == {name: array.tolist() for name, array in expected.items()}


def test_arrays_are_answered_with_arrays(port, expected):
    status, headers, found = ask(port, X.tobytes(), RAW, path="/predict?fetch=y")
    assert (status, headers["X-Dtype"], headers["X-Shape"]) == (200, "float32", "5,2")
    assert np.array_equal(np.frombuffer(found, np.float32).reshape(5, 2), expected["y"])
    assert np.array_equal(np.load(BytesIO(ask(port, npy(X), NPY, path="/predict?fetch=best")[2])), expected["best"])
    found = from_safetensors(ask(port, to_safetensors({"x": X}), SAFETENSORS)[2])
    assert found.keys() == expected.keys()
    assert all(np.array_equal(found[name], array) for name, array in expected.items())


def test_the_answer_has_the_form_that_is_accepted(port, expected):
    status, headers, found = ask(port, X.tobytes(), RAW, Accept=f"text/html, {SAFETENSORS};q=0.9")
    assert (status, headers["Content-Type"]) == (200, SAFETENSORS)
    assert np.array_equal(from_safetensors(found)["y"], expected["y"])
    assert refusal(port, b"[]", Accept="text/html") == (
        406,
        f"nothing is answered as text/html; there are {JSON}, {RAW}, {NPY}, {SAFETENSORS}",
    )


def test_a_client_that_waits_with_its_body_is_told_to_send_it(port, expected):
    head = f"POST /predict?fetch=y HTTP/1.1\r\nHost: localhost\r\nContent-Type: {RAW}\r\nContent-Length: {X.nbytes}\r\n"
    with socket.create_connection(("127.0.0.1", port), LONG) as connection:
        connection.sendall(f"{head}Expect: 100-continue\r\n\r\n".encode())
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(X.tobytes())
        found = b""
        while not found.endswith(expected["y"].tobytes()):
            found += connection.recv(1 << 16)
        assert found.startswith(b"HTTP/1.1 200 OK\r\n")
    assert refusal(port, b"[]", Expect="tea") == (417, "nothing is known of Expect: tea")


def test_the_head_of_a_page_has_its_length_alone(port):
    connection = HTTPConnection("127.0.0.1", port, timeout=LONG)
    connection.request("HEAD", "/")
    head = connection.getresponse()
    assert (head.status, head.read()) == (200, b"")
    connection.request("GET", "/")
    assert len(connection.getresponse().read()) == int(head.headers["Content-Length"])
    connection.request("PUT", "/health")
    answer = connection.getresponse()
    assert (answer.status, answer.headers["Allow"]) == (405, "GET,HEAD")
    connection.close()


def test_an_address_may_be_spelled_otherwise(port, expected):
    body = json.dumps(X.tolist()).encode()
    for path in ("/%70redict", f"http://localhost:{port}/predict"):
        assert json.loads(ask(port, body, path=path)[2])["y"] == expected["y"].tolist()


def test_what_json_lacks_is_null(port):
    found = json.loads(ask(port, b"[[NaN, 0, 0], [1, 0, 0]]", path="/predict?fetch=y")[2])
    assert found == {"y": [[None, None], [1.0, 0.5]]}


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "bool", "uint8", "float16", "bfloat16"])
def test_feeds_of_every_dtype_are_read_in_every_form(dtype):
    program = Program("dtypes")
    program.outputs(same=ops.cast(program.input("x", dtype, ("batch", 2)), dtype="float64"))
    x = np.array([[0, 1], [1, 0], [1, 1]])
    exact = x.astype(np.float32 if dtype == "bfloat16" else dtype)
    raw = (x * 0x3F80).astype("<u2").tobytes() if dtype == "bfloat16" else exact.tobytes()
    listed = x.astype(bool) if dtype == "bool" else x
    with Serving(runtime.Run(program.compile(batch=4))) as server:
        bodies = {JSON: json.dumps(listed.tolist()).encode(), RAW: raw, NPY: npy(exact)}
        bodies[SAFETENSORS] = to_safetensors({"x": exact})
        for form, body in bodies.items():
            status, _, found = ask(server.port, body, form, Accept=JSON)
            assert (status, json.loads(found)) == (200, {"same": x.astype(float).tolist()}), form


DESCRIPTION = {
    "program": "scores",
    "feeds": {"x": {"dtype": "float32", "shape": ["rows", 3]}},
    "fetches": {"y": {"dtype": "float32", "shape": ["rows", 2]}, "best": {"dtype": "int64", "shape": ["rows"]}},
    "forms": [JSON, RAW, NPY, SAFETENSORS],
    "limits": {"body": 1 << 20, "seconds": LONG, "together": 8},
}


def test_what_is_served_is_described(port):
    assert json.loads(ask(port, path="/")[2]) == DESCRIPTION


def test_health_counts(run):
    with Serving(run) as server:
        assert json.loads(ask(server.port, path="/health")[2]) == {
            "status": "ok", "waiting": 0, "connections": 1, "answered": 0, "refused": 0, "failed": 0, "rows": 0,
            "unanswered": 0,
        }  # fmt: skip
        ask(server.port, json.dumps(X.tolist()).encode())
        ask(server.port, b"[[1]]")
        found = json.loads(ask(server.port, path="/health")[2])
    assert (found["answered"], found["refused"], found["failed"], found["rows"]) == (1, 1, 0, 5)


FITS = f"{JSON}, {RAW}, {NPY}, {SAFETENSORS}"
NAME_IT = f"name the format by the header Content-Type, one of {FITS}, as in curl -H 'Content-Type: application/json'"
REFUSED = [
    ((b"[[1, 2]]",), 400, "entry 'predict': the feed 'x' is float32[rows, 3], the array given is float32[1, 2]"),
    ((b'{"z": 1}',), 400, "entry 'predict' has no feed 'z'; its feeds are: x"),
    (
        (b"{}",),
        400,
        "entry 'predict' reads the feed 'x': float32[rows, 3], which is not given; "
        "give an array for each feed, or declare rows by program.data",
    ),
    ((b"[[1, 2",), 400, f"the body is not {JSON}: Expecting ',' delimiter: line 1 column 7 (char 6)"),
    (
        (b"\xff",),
        400,
        f"the body is not {JSON}: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
    ),
    ((b"x" * 11, RAW), 400, f"the body is not {RAW}: it has 11 bytes, and a row of the feed 'x' takes 12"),
    ((b"x" * 11, SAFETENSORS), 400, f"the body is not {SAFETENSORS}: its header claims"),
    ((b"x" * 11, NPY), 400, f"the body is not {NPY}: the magic string is not correct"),
    ((b"[]", ""), 415, f"the body has no Content-Type; {NAME_IT}"),
    (
        (b"[]", "application/x-www-form-urlencoded"),  # of curl without a header
        415,
        f"the body has the Content-Type application/x-www-form-urlencoded; {NAME_IT}",
    ),
]


@pytest.mark.parametrize(("asked", "status", "text"), REFUSED)
def test_a_request_that_does_not_fit_is_refused_in_a_sentence(port, asked, status, text):
    path = "/predict?fetch=y"
    found = refusal(port, *asked, path=path)
    assert found[0] == status
    assert found[1].startswith(text)


def test_addresses_methods_fetches_and_hosts_that_there_are_not(port):
    assert refusal(port, b"[]", path="/perdict") == (404, "there is /, /health, /metrics and /predict")
    assert refusal(port, path="/predict") == (405, "ask for /, /health and /metrics by GET, for /predict by POST")
    assert refusal(port, b"[]", path="/predict?fetch=z") == (400, "there is no fetch 'z'; there are y, best")
    assert refusal(port, X.tobytes(), RAW) == (400, f"{RAW} is one array; name one of y, best, as in ?fetch=y")
    for host in ("example.org", "localhost:80:example.org", "127.0.0.1:", "localhost:example.org", "[::1]example.org"):
        assert refusal(port, b"[]", Host=host) == (403, f"the host {host!r} is not this one; ask for http://127.0.0.1")
    for host in ("localhost", "LOCALHOST:8000", "127.0.0.1:1", "[::1]:65535"):
        assert ask(port, path="/health", Host=host)[0] == 200
    assert refusal(port, b"[]", Content_Encoding="gzip") == (415, "the body is compressed; send it as it is")


def test_many_requests_of_sixteen_clients_get_their_own_rows(run):
    """`python benchmarks/serving.py --check` does the same at length, in processes of their own."""
    inputs = [rows(1 + i % 11, seed=i) for i in range(240)]
    expected = [run.predict(x)["y"] for x in inputs]
    for together in (None, 1):
        with Serving(run, together=together) as server, ThreadPoolExecutor(16) as pool:
            broken = begun(server.port, 1200, b"x" * 500)
            slow = begun(server.port, X.nbytes, X.tobytes()[:-7])
            large = begun(server.port, 1 << 21, b"x" * 500)
            answers = pool.map(lambda x: ask(server.port, x.tobytes(), RAW, path="/predict?fetch=y"), inputs)
            broken.close()
            for (status, _, body), wanted in zip(answers, expected, strict=True):
                assert status == 200
                found = np.frombuffer(body, np.float32).reshape(-1, 2)
                assert np.array_equal(found, wanted) if together else np.allclose(found, wanted, rtol=1e-5, atol=1e-6)
            slow.sendall(X.tobytes()[-7:])
            assert status_of(slow) == 200
            assert status_of(large) == 413
        counts = server.done.counts
        assert (counts.answered, counts.failed) == (len(inputs) + 1, 0)
        assert counts.rows == sum(len(x) for x in inputs) + len(X)
        assert server.done.is_whole


def test_requests_that_wait_are_computed_together(run):
    with Serving(run) as server, ThreadPoolExecutor(8) as pool:
        server.predictor._is_quick = False
        with run.states.locks.exclusive():
            first = pool.submit(ask, server.port, b"[[1, 2, 3]]")
            until(lambda: not server.predictor.waiting and server.predictor.computed == 1)
            others = [pool.submit(ask, server.port, json.dumps([[i, 0, 0]]).encode()) for i in range(6)]
            until(lambda: server.predictor.waiting == 6)
        assert first.result(LONG)[0] == 200
        found = [json.loads(other.result(LONG)[2])["y"] for other in others]
        assert found == [[[float(i), 0.5 * i]] for i in range(6)]
        assert server.predictor.computed == 2


def test_a_row_at_fault_is_that_of_its_own_request_alone():
    program = Program("table")
    index = program.input("index", "int64", ("batch",))
    program.outputs(row=ops.gather(program.parameter("table", (3,)), index, axis=0))
    run = runtime.Run(program.compile(batch=8))
    run.state["table"] = [10.0, 20.0, 30.0]
    with Serving(run) as server, ThreadPoolExecutor(8) as pool:
        server.predictor._is_quick = False
        with run.states.locks.exclusive():
            pool.submit(ask, server.port, b"[0]")
            until(lambda: server.predictor.computed == 1)
            asked = [pool.submit(ask, server.port, json.dumps([i]).encode()) for i in (0, 7, 2)]
            until(lambda: server.predictor.waiting == 3)
        found = sorted((a.result(LONG)[0], a.result(LONG)[2]) for a in asked)
    assert found[:2] == [(200, b'{"row": [10.0]}'), (200, b'{"row": [30.0]}')]
    assert found[2][0] == 400
    assert b"7" in found[2][1]


def test_a_full_queue_is_said_at_once_and_loses_nothing(run):
    with Serving(run, queue=2, together=1) as server, ThreadPoolExecutor(8) as pool:
        with run.states.locks.exclusive():
            asked = [pool.submit(ask, server.port, b"[[1, 0, 0]]")]
            until(lambda: server.predictor.computed == 1)
            asked += [pool.submit(ask, server.port, b"[[1, 0, 0]]") for _ in range(2)]
            until(lambda: server.predictor.waiting == 2)
            status, headers, body = ask(server.port, b"[[1, 0, 0]]")
            assert (status, headers["Retry-After"]) == (503, "1")
            assert json.loads(body)["error"] == "2 requests wait already, which is as many as may; ask again later"
            assert ask(server.port, path="/health")[0] == 200
        assert [one.result(LONG)[0] for one in asked] == [200] * 3
    assert server.done.counts.refused == 1


def test_an_answer_and_a_body_have_their_time(run):
    with Serving(run, together=1, seconds=0.2) as server:
        with run.states.locks.exclusive():
            waiting = begun(server.port, X.nbytes, X.tobytes())  # head and body at once, so the body is in time
            assert refusal_on(waiting) == (504, "there was no answer after 0.2 seconds")
        slow = begun(server.port, X.nbytes, X.tobytes()[:-1])
        assert status_of(slow) == 408
        until(lambda: ask(server.port, b"[[1, 0, 0]]")[0] == 200)  # on a busy machine 0.2 seconds may be too few


def test_who_leaves_while_waiting_makes_room(run):
    with Serving(run, queue=1, together=1) as server, ThreadPoolExecutor(2) as pool:
        with run.states.locks.exclusive():
            first = pool.submit(ask, server.port, b"[[1, 0, 0]]")
            until(lambda: server.predictor.computed == 1)
            left = begun(server.port, X.nbytes, X.tobytes())
            until(lambda: server.predictor.waiting == 1)
            left.close()
            until(lambda: server.predictor.waiting == 0)
            second = pool.submit(ask, server.port, b"[[2, 0, 0]]")
            until(lambda: server.predictor.waiting == 1)
        assert first.result(LONG)[0] == second.result(LONG)[0] == 200
        assert server.predictor.computed == 2


def test_bodies_are_bounded_one_by_one_and_in_all(run):
    large = X.tobytes() * 20
    with Serving(run, body=1000) as server:
        assert refusal(server.port, large, RAW, path="/predict?fetch=y") == (413, "the body is larger than 1000 bytes")
        pieces = b"258\r\n" + large[:600] + b"\r\n258\r\n" + large[600:] + b"\r\n0\r\n\r\n"
        assert refusal(server.port, pieces, RAW, path="/predict?fetch=y", Transfer_Encoding="chunked")[0] == 413
        waiting = [begun(server.port, 1000, b"x" * 995) for _ in range(MAX_LARGE_BODIES)]
        assert refusal(server.port, b"x" * 990, RAW, path="/predict?fetch=y") == (
            503,
            "the bodies of other requests take all the memory there is for them",
        )
        for connection in waiting:
            connection.close()
        until(lambda: ask(server.port, b"[[1, 0, 0]]")[0] == 200)


def test_what_was_taken_is_answered_before_the_end(run):
    with ThreadPoolExecutor(4) as pool:
        with Serving(run, together=1) as server, run.states.locks.exclusive():
            asked = [pool.submit(ask, server.port, b"[[1, 0, 0]]") for _ in range(3)]
            until(lambda: server.predictor.computed + server.predictor.waiting == 3)
            server.stop()
            until(lambda: server.taken.fileno() == -1)  # nobody else is let in
        assert [one.result(LONG)[0] for one in asked] == [200] * 3
    assert server.done.is_whole
    assert server.done.counts.answered == 3


def test_an_entry_whose_rows_cannot_be_told_apart_is_computed_request_by_request():
    program = Program("sums")
    x = program.input("x", "float32", ("batch", 3))
    program.outputs(total=ops.sum(x))
    run = runtime.Run(program.compile(batch=4))
    with Serving(run) as server:
        assert server.predictor.together == 1
        assert json.loads(ask(server.port, b"[[1, 2, 3]]")[2]) == {"total": 6.0}


def test_an_answer_that_fails_here_says_so_and_no_more(run, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a secret")

    with Serving(run, together=1) as server:
        with monkeypatch.context() as patched:
            patched.setattr("runtime.serving.predictor.run_over", fail)
            assert refusal(server.port, b"[[1, 0, 0]]") == (500, "a fault of prograd itself, ZeroDivisionError")
        assert ask(server.port, b"[[1, 0, 0]]")[0] == 200
        assert server.faults == ["a fault of prograd itself, ZeroDivisionError: a secret"]
        server.faults.clear()
    assert server.done.counts.failed == 1


def test_bytes_that_are_no_http_hurt_nobody(port):
    for text in (
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET / HTTP/9\r\n\r\n",
        b"POST /predict HTTP/1.1\r\nA: " + b"x" * 99999,
    ):
        with socket.create_connection(("127.0.0.1", port)) as connection, suppress(ConnectionError):
            connection.sendall(text)
            connection.recv(1 << 16)
    assert ask(port, b"[[1, 0, 0]]")[0] == 200
