"""Connections of the server: their bound, and faults of the system in accepting them."""

import asyncio
import errno
import json
import socket
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pytest
from subjects.serving import LONG, RAW, Serving, ask, loaded, rows, status_of

from runtime.serving import server as serving_server
from runtime.serving.connections import MAX_CONNECTIONS, Connections, most_connections

MOST = 6


@pytest.fixture
def few(tmp_path, monkeypatch):
    """A server that has at most six connections."""
    monkeypatch.setattr(serving_server, "most_connections", lambda: MOST)
    with Serving(loaded(tmp_path)) as server:
        yield server


def counted(port: int) -> dict[str, str]:
    """The counts of connections in /metrics."""
    lines = ask(port, path="/metrics")[2].decode().splitlines()
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name: values[f"prograd_{name}"] for name in ("connections", "connections_dropped_total")}


def test_idle_connections_make_room_for_new_ones(few):
    idle = [socket.create_connection(("127.0.0.1", few.port)) for _ in range(5 * MOST)]
    assert json.loads(ask(few.port, path="/health")[2])["connections"] <= MOST
    assert int(counted(few.port)["connections_dropped_total"]) >= 4 * MOST
    idle[0].settimeout(LONG)
    with suppress(ConnectionResetError):
        assert idle[0].recv(1) == b""
    for connection in idle:
        connection.close()


def started(port: int, x: np.ndarray) -> socket.socket:
    """A connection with a request that the server has begun to answer, as it waits for the body."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=LONG)
    head = ("POST /predict?fetch=y HTTP/1.1", "Host: localhost", "Expect: 100-continue", f"Content-Type: {RAW}")
    connection.sendall("\r\n".join([*head, f"Content-Length: {x.nbytes}", "", ""]).encode())
    assert connection.recv(1 << 10) == b"HTTP/1.1 100 Continue\r\n\r\n"
    return connection


def test_a_connection_whose_request_has_begun_is_not_closed(few):
    x = rows(5)
    slow = started(few.port, x)
    idle = [socket.create_connection(("127.0.0.1", few.port)) for _ in range(4 * MOST)]
    assert ask(few.port, path="/health")[0] == 200
    slow.sendall(x.tobytes())
    assert status_of(slow) == 200
    for connection in idle:
        connection.close()


def test_connections_wait_while_every_open_one_has_a_request(few):
    x = rows(5)
    busy = [started(few.port, x) for _ in range(MOST)]
    waiting = socket.create_connection(("127.0.0.1", few.port))
    waiting.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    waiting.settimeout(0.3)
    with pytest.raises(TimeoutError):
        waiting.recv(1)
    for connection in busy:
        connection.sendall(x.tobytes())
        assert status_of(connection) == 200
    waiting.settimeout(LONG)
    assert waiting.recv(12) == b"HTTP/1.1 200"
    waiting.close()


def test_faults_in_accepting_are_counted_and_reported_once():
    said: list[str] = []
    connections = Connections(4, said.append)

    async def accept_nothing() -> None:
        loop = asyncio.get_running_loop()

        async def fail(_: socket.socket) -> None:
            if connections.unaccepted == 3:
                raise asyncio.CancelledError
            raise OSError(errno.EMFILE, "Too many open files")

        loop.sock_accept = fail  # type: ignore[method-assign]
        with socket.socket() as taken:
            await connections.accept(None, taken)

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(accept_nothing())
    assert connections.unaccepted == 3
    assert said == ["warning: a connection cannot be accepted: too many open files; /metrics counts further ones"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
@pytest.mark.parametrize(("files", "most"), [(64, range(8, 32)), (256, range(150, 224)), (4096, [MAX_CONNECTIONS])])
def test_the_bound_follows_from_the_number_of_files(files, most):
    script = (
        "import resource; hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]; "
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({files}, hard)); "
        "from runtime.serving.connections import most_connections; print(most_connections())"
    )
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    assert int(done.stdout) in most
    assert most_connections() <= MAX_CONNECTIONS
