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

from runtime.serving import gate
from runtime.serving.connections import MAX_CONNECTIONS, MIN_CONNECTIONS, Connections, most_connections

MOST = 6


@pytest.fixture
def few(tmp_path, monkeypatch):
    """A server that has at most six connections."""
    monkeypatch.setattr(gate, "most_connections", lambda: MOST)
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


def test_connections_that_clients_have_closed_are_forgotten(tmp_path, monkeypatch):
    made: list[Connections] = []
    monkeypatch.setattr(gate, "Connections", lambda *words: made.append(Connections(*words)) or made[-1])
    with Serving(loaded(tmp_path)) as server:
        for _ in range(100):
            assert ask(server.port, path="/health")[0] == 200
        [connections] = made
        kept: dict[object, float] = vars(connections)["_idle"]
        assert len(kept) <= 2 * connections.open + MIN_CONNECTIONS + 1


def test_a_connection_whose_request_comes_with_it_is_not_idle():
    class Asked(Served):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            connections.begin(self)  # as when the request has arrived before the server takes the connection

    class Askers(Server):
        def __call__(self) -> Served:
            self.connections.append(Asked())
            return self.connections[-1]

    async def fill() -> int:
        server = Askers()
        with Listening() as taken, socket.create_connection(taken.getsockname()):
            accepting = asyncio.create_task(connections.accept(server, taken))
            with socket.create_connection(taken.getsockname()):
                await asyncio.sleep(0.3)  # six times as long as a new connection is spared
            accepting.cancel()
            await asyncio.gather(accepting, return_exceptions=True)
            for served in server.connections:
                assert served.transport is not None
                served.transport.close()
            await asyncio.sleep(0)
        return len(server.connections)

    connections = Connections(1, print)
    assert asyncio.run(fill()) == 1
    assert connections.dropped == 0


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


class Served(asyncio.Protocol):
    """A protocol that knows its transport."""

    transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport


class Server:
    """Makes protocols, and counts them as the server does."""

    def __init__(self) -> None:
        self.connections: list[Served] = []

    def __call__(self) -> Served:
        self.connections.append(Served())
        return self.connections[-1]


class Listening(socket.socket):
    """A socket that keeps what it has accepted, or fails."""

    def __init__(self, fault: OSError | None = None) -> None:
        super().__init__()
        self.accepted: list[socket.socket] = []
        self.fault = fault
        self.bind(("127.0.0.1", 0))
        self.setblocking(False)
        self.listen()

    def accept(self) -> tuple[socket.socket, object]:
        if self.fault is not None:
            raise self.fault
        self.accepted.append(super().accept()[0])
        return self.accepted[-1], None


def test_faults_in_accepting_are_counted_and_reported_once():
    said: list[str] = []
    connections = Connections(4, said.append)

    async def accept_nothing() -> None:
        full = OSError(errno.EMFILE, "Too many open files")
        with Listening(full) as taken, socket.create_connection(taken.getsockname()):
            accepting = asyncio.create_task(connections.accept(Server(), taken))
            while connections.unaccepted < 3:
                await asyncio.sleep(0.001)
            accepting.cancel()
            await asyncio.gather(accepting, return_exceptions=True)

    asyncio.run(accept_nothing())
    assert connections.unaccepted >= 3
    assert said == ["warning: a connection cannot be accepted: too many open files; /metrics counts further ones"]


@pytest.mark.parametrize("turns", range(12))
def test_a_stop_loses_no_connection_that_is_being_accepted(turns: int):
    async def stop_soon() -> None:
        server = Server()
        with Listening() as taken:
            accepting = asyncio.create_task(Connections(4, print).accept(server, taken))
            await asyncio.sleep(0)
            with socket.create_connection(taken.getsockname()):
                for _ in range(turns):
                    await asyncio.sleep(0)
                accepting.cancel()
                await asyncio.gather(accepting, return_exceptions=True)
                for _ in range(10):
                    await asyncio.sleep(0)
                assert len(server.connections) == len(taken.accepted)
                for served in server.connections:
                    assert served.transport is not None
                    served.transport.close()
                await asyncio.sleep(0)
        assert [client.fileno() for client in taken.accepted] == [-1] * len(taken.accepted)

    asyncio.run(stop_soon())


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
