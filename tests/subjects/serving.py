"""A server of predictions in a thread of the test, and clients of it."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from threading import Event, Thread

import numpy as np

import runtime
from compiler import Program, ops, zeros
from runtime.serving.access import Access
from runtime.serving.endpoints import Endpoints
from runtime.serving.gate import ANYBODY, Counts, Limits
from runtime.serving.predictor import Predictor
from runtime.serving.server import Served, Stop, answer, listen

LONG = 60  # seconds after which a test that hangs fails
RAW, JSON, NPY, SAFETENSORS = (
    "application/octet-stream",
    "application/json",
    "application/x-npy",
    "application/x-safetensors",
)


def scores() -> Program:
    """Two fetches, of rows of three numbers."""
    program = Program("scores", seed=4)
    x = program.input("x", "float32", ("batch", 3))
    w = program.parameter("w", (3, 2), zeros())
    y = ops.matmul(x, w)
    program.outputs(y=y, best=ops.argmax(y))
    return program


class Serving:
    """A server that answers within the context; afterwards `done` says what it did."""

    def __init__(
        self,
        run: runtime.Run,
        entry: str = "predict",
        *,
        queue: int = 64,
        together: int | None = None,
        body: int = 1 << 20,
        seconds: float = LONG,
        access: Access = ANYBODY,
        decode: Mapping[str, str] | None = None,
    ) -> None:
        self.run = run
        self.faults: list[str] = []
        self.done: Served = Served(Counts(), is_whole=False)
        self.stop = Stop()
        self.predictor = Predictor(run.session, entry, queue=queue, together=together, decode=decode)
        self.taken = listen(0)
        self.port: int = self.taken.getsockname()[1]
        self._access = access
        self._limits = Limits(body, seconds)
        self._ready = Event()
        self._thread = Thread(target=self._serve)

    def _serve(self) -> None:
        told, report = {"program": "scores"}, self.faults.append
        endpoints = Endpoints(self.predictor, self._limits, told, report, self._access)
        self.done = answer(endpoints, self.taken, stop=self.stop, ready=self._ready.set, seconds=LONG)

    def __enter__(self) -> Serving:
        self._thread.start()
        assert self._ready.wait(LONG)
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
        self._thread.join(LONG)
        assert not self._thread.is_alive()
        assert self.faults == [], self.faults


def ask(
    port: int,
    body: bytes | None = None,
    form: str = JSON,
    *,
    path: str = "/predict",
    method: str = "",
    **headers: str,
) -> tuple[int, Mapping[str, str], bytes]:
    """Status, headers and body of an answer, on a connection of its own."""
    connection = HTTPConnection("127.0.0.1", port, timeout=LONG)
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    told = ({"Content-Type": form} if form and body is not None else {}) | names
    connection.request(method or ("GET" if body is None else "POST"), path, body, told)
    with connection.getresponse() as response:
        found = response.status, dict(response.getheaders()), response.read()
    connection.close()
    return found


def refusal(port: int, *arguments: object, **options: object) -> tuple[int, str]:
    """The status and the sentence of an answer that is an error."""
    status, headers, body = ask(port, *arguments, **options)
    assert headers["Content-Type"] == JSON
    return status, json.loads(body)["error"]


def begun(port: int, length: int, sent: bytes) -> socket.socket:
    """Return a connection with a started request of `length` raw bytes."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=LONG)
    head = ("POST /predict?fetch=y HTTP/1.1", f"Host: 127.0.0.1:{port}", f"Content-Type: {RAW}")
    connection.sendall("\r\n".join([*head, f"Content-Length: {length}", "", ""]).encode() + sent)
    return connection


def status_of(connection: socket.socket) -> int:
    """Return the answer on a connection, which is closed afterwards."""
    with connection:
        return int(connection.recv(1 << 16)[9:12])


def refusal_on(connection: socket.socket) -> tuple[int, str]:
    """The status and the sentence of the answer on a connection, which is closed afterwards."""
    with connection, HTTPResponse(connection) as response:
        response.begin()
        return response.status, json.loads(response.read())["error"]


def rows(count: int, seed: int = 0) -> np.ndarray:
    """Rows for `scores`."""
    return np.random.default_rng(seed).normal(size=(count, 3)).astype(np.float32)


def loaded(folder: Path) -> runtime.Run:
    """A run of `scores`, saved and loaded."""
    scores().compile(batch=8).save(folder / "scores.pb", force=True)
    run = runtime.load(folder / "scores.pb")
    run.state["w"] = np.float32([[1, 0.5], [-2, 0.25], [0.125, 3]])
    return run
