"""The checks of every request: its token, its host and the limits of its body; and the sentences that refuse it.

An error is a sentence, as {"error": "..."}. The server library reads requests and writes answers. This module selects
the function that answers, because the library's own table of addresses takes as long as a small prediction.
"""

from __future__ import annotations

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from json import dumps
from time import monotonic
from typing import Any, Final, NamedTuple

from prograd_proto.printable import sentence
from runtime.errors import ExecutionError, ResourceLimit
from runtime.extras import extra
from runtime.memory.limit import MemoryLimit
from runtime.memory.shortage import shortage
from runtime.serving.access import Access, log_line
from runtime.serving.bodies import Body
from runtime.serving.busy import Busy
from runtime.serving.connections import Connections, most_connections

Act = Callable[[Any], Awaitable[Any]]
"""A function that answers a request."""

Addresses = Mapping[str, tuple[str, Act]]
"""The method of HTTP and the function that answers, by address."""

ANYBODY: Final = Access()
"""Access without a token and without a log."""

MAX_LARGE_BODIES: Final = 16
"""Number of bodies of the largest size that may be in memory at a time; smaller bodies may be more."""

GRACE_SECONDS: Final = 1.0
"""Seconds that a body has to arrive after the server stops."""

RETRY_HEADER: Final = {"Retry-After": "1"}
"""Header with the seconds after which a refused client may ask again."""

_THIS_HOST: Final = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE | re.ASCII)


class Limits(NamedTuple):
    """The limits of one request: bytes of its body, and seconds from its first line to its answer."""

    body: int
    seconds: float


@dataclass
class Counts:
    """The counts of requests for predictions: answered, refused for their content or time, failed here; and of rows."""

    answered: int = 0
    refused: int = 0
    failed: int = 0
    rows: int = 0


class Refusal(Exception):
    """A request that is refused: the status, a sentence, and headers."""

    def __init__(self, status: int, text: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.headers = headers or {}


def require_library() -> Any:
    """Return the module of the server library; raise UsageError if it is not installed."""
    return extra("aiohttp.web", "serve", "runtime serve")


class Gate(ABC):
    """The way of every request to the function behind its address.

    Attributes:
        limits: the limits of one request; its seconds also bound the wait for the last requests of a server.
        report: gets the sentence of a fault.
        counts: the statistics.
        connections: the connections of the server.
    """

    def __init__(
        self, limits: Limits, report: Callable[[str], None], memory: MemoryLimit, access: Access = ANYBODY
    ) -> None:
        """Answer within the memory of the process, for clients with access."""
        self.limits, self.report = limits, report
        self.counts = Counts()
        self.connections = Connections(most_connections(), report)
        self._access = access
        self._web = require_library()
        self._memory = memory
        self._bytes = 0  # total of all bodies in memory
        self._reading: set[asyncio.Timeout] = set()  # timeouts of requests whose bodies have not arrived
        self._ends = False
        self._answering = 0
        self._idle = asyncio.Event()

    @property
    @abstractmethod
    def addresses(self) -> Addresses:
        """The functions by address, each with its method."""

    @abstractmethod
    def close(self) -> None:
        """End the threads that compute answers, when all requests are answered."""

    @cached_property
    def _there(self) -> Addresses:
        return self.addresses

    async def answer(self, request: Any) -> Any:
        """Return the answer to a request, if its host header means this host, or else a sentence."""
        if self._access.log is None:
            return await self._answered(request)
        start = monotonic()
        response = await self._answered(request)
        body = getattr(response, "body", None)  # an answer in pieces has none
        nbytes = 0 if body is None else len(body)
        self._access.log(log_line(request, response.status, nbytes, monotonic() - start))
        return response

    async def _answered(self, request: Any) -> Any:
        self._answering += 1
        self._idle.clear()
        self.connections.begin(request.protocol)
        try:
            if not self._access.permits(request.headers.get("Authorization", "")):
                told = "this server asks for a token; send the header Authorization: Bearer TOKEN"
                raise Refusal(401, told, {"WWW-Authenticate": "Bearer", "Connection": "close"})
            if self._access.token is None and not _THIS_HOST.fullmatch(request.host):
                raise Refusal(403, f"the host {request.host!r} is not this one; ask for http://127.0.0.1")
            act = self._function(request)
            if "Expect" in request.headers:
                await _let_come(request)
            return await act(request)
        except Exception as error:
            return self._refused(request, self._refusal(error))  # a name for it here would keep the body in a cycle
        finally:
            self.connections.end(request.protocol)
            self._answering -= 1
            if not self._answering:
                self._idle.set()

    def _refused(self, request: Any, refusal: Refusal) -> Any:
        """Count a request that is not answered with arrays, and return the answer with the reason."""
        if self._there.get(request.path, ("",))[0] == "POST":
            self.counts.failed += refusal.status == 500
            self.counts.refused += refusal.status != 500
        return self._json({"error": self._told(refusal)}, status=refusal.status, headers=refusal.headers)

    def _told(self, refusal: Refusal) -> object:
        """Return the value of `error` in an answer that refuses a request."""
        return sentence(str(refusal))

    async def end(self, until: float) -> None:
        """Wait until all requests are answered, at most until a time of the loop.

        Bodies that are still arriving have `GRACE_SECONDS` seconds left.
        """
        self._ends = True
        grace = min(until, asyncio.get_running_loop().time() + GRACE_SECONDS)
        for timeout in self._reading:
            timeout.reschedule(grace)
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                while self._answering:
                    await self._idle.wait()

    def _function(self, request: Any) -> Callable[[Any], Awaitable[Any]]:
        """Return the function for an address; raise Refusal if there is none, or not for this method."""
        path = request.raw_path.partition("?")[0]
        method, act = self._there.get(path) or self._there.get(request.path) or ("", None)
        if act is None:
            raise Refusal(404, f"there is {_listed(list(self._there))}")
        allowed = ("GET", "HEAD") if method == "GET" else (method,)
        if request.method not in allowed:
            by = {word: [name for name, (own, _) in self._there.items() if own == word] for word in ("GET", "POST")}
            told = f"ask for {_listed(by['GET'])} by GET, for {_listed(by['POST'])} by POST"
            raise Refusal(405, told, {"Allow": ",".join(allowed)})
        return act

    async def _read(self, request: Any, body: Body, memory: MemoryLimit) -> None:
        """Read the body, which may arrive in any number of pieces; raise TimeoutError if it takes too long."""
        seconds = min(self.limits.seconds, GRACE_SECONDS) if self._ends else self.limits.seconds
        async with asyncio.timeout(seconds) as timeout:
            self._reading.add(timeout)
            try:
                async for piece in request.content.iter_any():
                    self._take(piece, body, memory)
            finally:
                self._reading.discard(timeout)

    def _take(self, piece: bytes, body: Body, memory: MemoryLimit) -> None:
        """Append a piece to a body, and count its bytes among those of all bodies."""
        if len(body) + len(piece) > self.limits.body:
            raise self._large()
        if self._bytes + len(piece) > MAX_LARGE_BODIES * self.limits.body:
            raise Refusal(503, "the bodies of other requests take all the memory there is for them", RETRY_HEADER)
        memory.take(len(piece), "the body")
        body.append(piece)
        self._bytes += len(piece)

    def _large(self) -> Refusal:
        return Refusal(413, f"the body is larger than {self.limits.body} bytes")

    def _late(self, request: Any) -> Refusal:
        seconds = f"{self.limits.seconds:g} seconds"
        if not request.content.is_eof() and self._ends:
            return Refusal(503, "the server stops, and the body was not there yet", {"Connection": "close"})
        if not request.content.is_eof():
            return Refusal(408, f"the body was not there after {seconds}", {"Connection": "close"})
        return Refusal(504, f"there was no answer after {seconds}", RETRY_HEADER)

    def _refusal(self, error: Exception) -> Refusal:
        match error:
            case Refusal():
                return error
            case Busy() | ResourceLimit():
                return Refusal(503, str(error), RETRY_HEADER)
            case MemoryError():
                return Refusal(503, shortage(error), RETRY_HEADER)
            case ExecutionError():  # rows that do not fit, labels out of range
                return Refusal(400, str(error))
            case _ if isinstance(error, self._web.HTTPException):
                library: Any = error
                return Refusal(library.status, str(library.reason))
            case ConnectionError():  # the client has left, or its body is no HTTP
                return Refusal(400, f"the request broke off: {error}")
            case _:
                self.report(f"a fault of prograd itself, {type(error).__name__}: {error}")
                return Refusal(500, f"a fault of prograd itself, {type(error).__name__}")

    def _json(self, values: Mapping[str, object], **options: Any) -> Any:
        return self._web.Response(body=dumps(values).encode(), content_type="application/json", **options)


async def _let_come(request: Any) -> None:
    """Tell a client that waits with its body to send it."""
    if request.headers["Expect"].lower() != "100-continue":
        raise Refusal(417, f"nothing is known of Expect: {request.headers['Expect']}")
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    request.writer.output_size = 0  # nothing of the answer itself was written yet


def _listed(names: list[str]) -> str:
    """Return names with commas, and "and" before the last one."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
