"""The addresses of the server, their limits and their answers.

    GET  /          the description: feeds, fetches, formats, limits
    GET  /health    readiness and counts
    GET  /metrics   counts and times in the text format of Prometheus
    POST /predict   arrays in, the entry's fetches out

An error is a sentence, as {"error": "..."}. A foreign web page that is open in a local browser cannot send requests.
Each format needs a permission that the server gives to nobody, and the page's host is not this one.

The server library reads requests and writes answers. This module selects the function that answers, because the
library's own table of addresses takes as long as a small prediction.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from json import dumps
from math import prod
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from prograd_proto import TensorType, type_of
from prograd_proto.dtypes import ITEM_BYTES
from prograd_proto.printable import sentence
from runtime.dtypes import Array, array_type
from runtime.entries import BoundEntry
from runtime.errors import ExecutionError, ResourceLimit
from runtime.memory.limit import MemoryLimit
from runtime.memory.shortage import shortage
from runtime.serving.access import Access, Times, log_line, metrics_text
from runtime.serving.bodies import Body, Bytes
from runtime.serving.connections import MAX_CONNECTIONS, Connections
from runtime.serving.forms import FORMS, input_arrays, written_bytes
from runtime.serving.predictor import Arrays, Busy, Predictor, Request

if TYPE_CHECKING:
    from runtime.serving.raw_requests import RawRequest

JSON: Final = "application/json"

PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"
"""Content-Type of the text format of Prometheus."""

ANYBODY: Final = Access()
"""Access without a token and without a log."""

MAX_LARGE_BODIES: Final = 16
"""Number of bodies of the largest size that may be in memory at a time; smaller bodies may be more."""

GRACE_SECONDS: Final = 1.0
"""Seconds that a body has to arrive after the server stops."""

RETRY_HEADER: Final = {"Retry-After": "1"}
"""Header with the seconds after which a refused client may ask again."""

_THIS_HOST: Final = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE | re.ASCII)
_LARGE: Final = 1 << 16  # bytes from which a body is parsed outside the loop
_KNOWN: Final = 64  # number of remembered combinations of headers


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


class _Asked(NamedTuple):
    """The format of the body, that of the answer, the names of the fetches, and `raw` of `run.predict`."""

    form: str
    answer: str
    names: list[str]
    raw: bool | None


class Refusal(Exception):
    """A request that is not answered with arrays: the status, a sentence, and headers."""

    def __init__(self, status: int, text: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.headers = headers or {}


class Endpoints:
    """The functions behind the addresses; `counts` is their statistics.

    `web` is the module of the server library. `said` are the fields of the description that name the served entry, and
    `report` gets the sentence of an internal error.
    """

    def __init__(
        self,
        web: Any,
        predictor: Predictor,
        limits: Limits,
        said: Mapping[str, object],
        report: Callable[[str], None],
        access: Access = ANYBODY,
        connections: Connections | None = None,
    ) -> None:
        self.counts = Counts()
        self.connections = connections or Connections(MAX_CONNECTIONS, report)
        self._access = access
        self._times = Times()
        self._raw = predictor.raw
        self._web = web
        self._predictor = predictor
        self._limits = limits
        self._said = said
        self._report = report
        self._memory = predictor.memory
        self._room = predictor.memory.room  # for a request while there is no other
        self._row_bytes = _row_bytes(predictor.entry[0])  # bytes of the fetches
        self._bytes = 0  # total of all bodies in memory
        self._reading: set[asyncio.Timeout] = set()  # timeouts of requests whose bodies have not arrived
        self._ends = False
        self._answering = 0
        self._idle = asyncio.Event()
        self._known: dict[tuple[str | None, ...], _Asked] = {}
        self._addresses: Mapping[str, tuple[str, Callable[[Any], Awaitable[Any]]]] = {
            "/": ("GET", self.describe),
            "/health": ("GET", self.health),
            "/metrics": ("GET", self.metrics),
            "/predict": ("POST", self.predict),
        }

    async def answer(self, request: Any) -> Any:
        """Return the answer to a request, if its host header means this host, or else a sentence."""
        if self._access.log is None:
            return await self._answered(request)
        start = monotonic()
        response = await self._answered(request)
        nbytes = len(response.body) if response.body is not None else 0
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
        if request.path == "/predict":
            self.counts.failed += refusal.status == 500
            self.counts.refused += refusal.status != 500
        return self._json({"error": sentence(str(refusal))}, status=refusal.status, headers=refusal.headers)

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

    def close(self) -> None:
        """Compute the waiting requests, and end the computing thread."""
        self._predictor.close()

    def _function(self, request: Any) -> Callable[[Any], Awaitable[Any]]:
        """Return the function for an address; raise Refusal if there is none, or not for this method."""
        path = request.raw_path.partition("?")[0]
        method, act = self._addresses.get(path) or self._addresses.get(request.path) or ("", None)
        if act is None:
            raise Refusal(404, "there is /, /health, /metrics and /predict")
        allowed = ("GET", "HEAD") if method == "GET" else (method,)
        if request.method not in allowed:
            told = "ask for /, /health and /metrics by GET, for /predict by POST"
            raise Refusal(405, told, {"Allow": ",".join(allowed)})
        return act

    async def describe(self, request: Any) -> Any:
        """Return the description of the served entry."""
        del request
        bound = self._predictor.entry[0]
        feeds = {feed.name: _shown(feed.type, feed.by_row) for feed in bound.feeds.values()}
        types = {tensor.name: type_of(tensor) for tensor in bound.block.tensors}
        fetches = {f.name: _shown(types[f.tensor], f.name in bound.row_names) for f in bound.block.fetches}
        limits = {"body": self._limits.body, "seconds": self._limits.seconds, "together": self._predictor.together}
        columns = {} if self._raw is None else {"columns": self._raw.columns}
        return self._json(
            {**self._said, **columns, "feeds": feeds, "fetches": fetches, "forms": [*FORMS], "limits": limits}
        )

    async def health(self, request: Any) -> Any:
        """Return the readiness of the server and its counts."""
        del request
        counts = {"waiting": self._predictor.waiting, "connections": self.connections.open, **self._counted()}
        return self._json({"status": "ok", **counts})

    async def metrics(self, request: Any) -> Any:
        """Return the counts and times in the text format of Prometheus."""
        del request
        predictor = self._predictor
        text = metrics_text(self._counted(), predictor.waiting, predictor.computed, self._times, self.connections)
        return self._web.Response(body=text.encode(), headers={"Content-Type": PROMETHEUS})

    def _counted(self) -> dict[str, int]:
        return vars(self.counts) | {"unanswered": 0 if self._raw is None else self._raw.unanswered}

    async def predict(self, request: Any) -> Any:
        """Return the entry's fetches for the rows of a request."""
        start = monotonic()
        until = start + self._limits.seconds
        form, answer, names, is_raw = self._asked(request)
        self._predictor.require_room()
        memory = MemoryLimit(self._room, within=self._memory, who="the request")
        body = Body(request.content_length or self._limits.body)
        try:
            if request.content.is_eof():
                self._take(request.content.read_nowait(), body, memory)
            else:
                await self._read(request, body, memory)
            raw = await self._raw_rows(form, answer, is_raw, body.bytes, memory)
            given = await _given(form, body.bytes, self._predictor.entry[0], memory) if raw is None else raw.feeds
            asked = self._predictor.request(given, until)
            memory.require(asked.rows * self._row_bytes, "the answer")
            arrays = await self._computed(asked)
            chosen = {name: arrays[name] for name in names}
            if raw is not None and self._raw is not None:
                written = self._raw.written(chosen, is_one=raw.is_one)
            else:
                written = await _written(answer, chosen, memory)
        except TimeoutError:
            raise self._late(request) from None
        except ResourceLimit as error:
            if memory.was_exceeded:  # the request alone exceeds it
                raise Refusal(413, f"{error}, which --max-memory leaves for one") from None
            raise
        finally:
            self._bytes -= len(body)
            memory.give_back(len(body))
        self.counts.answered += 1
        self.counts.rows += asked.rows
        self._times.add(monotonic() - start)
        return self._web.Response(body=written, headers=_headers(answer, chosen))

    async def _raw_rows(
        self, form: str, answer: str, is_raw: bool | None, body: Bytes, memory: MemoryLimit
    ) -> RawRequest | None:
        """Return the feeds for rows as a table has them; None for arrays for feeds, and for other formats."""
        if form != JSON:
            return None
        if self._raw is None:
            if bytes(body[:64]).lstrip()[1:].lstrip().startswith(b"{"):
                what = "the rows are objects, and the program has no encoding of a table"
                raise Refusal(400, f"{what}; send an array for each feed, or train on rows of compiler data pack")
            return None
        try:
            if len(body) > _LARGE:
                raw = await asyncio.to_thread(self._raw.read, body, memory, raw=is_raw)
            else:
                raw = self._raw.read(body, memory, raw=is_raw)
        except (ValueError, RecursionError) as error:
            raise Refusal(400, f"the body is not {form}: {error or 'it ends too early'}") from None
        if raw is not None and answer != JSON:
            raise Refusal(406, f"rows of a table are answered as {JSON}, and Accept asks for {answer}")
        return raw

    async def _computed(self, asked: Request) -> Arrays:
        arrays = self._predictor.submit(asked)
        if self._predictor.is_quick(asked):
            return await arrays
        async with asyncio.timeout(max(0.0, asked.until - monotonic())):
            return await arrays

    def _asked(self, request: Any) -> _Asked:
        """Return the formats and fetches that address and headers ask for; repeated combinations are cached."""
        headers = request.headers
        if headers.get("Content-Encoding", "identity") != "identity":
            raise Refusal(415, "the body is compressed; send it as it is")
        if (request.content_length or 0) > self._limits.body:
            raise self._large()
        key = request.raw_path, headers.get("Content-Type"), headers.get("Accept")
        found = self._known.get(key)
        if found is None:
            found = self._understood(request)
            if len(self._known) >= _KNOWN:
                self._known.clear()
            self._known[key] = found
        return found

    def _understood(self, request: Any) -> _Asked:
        form = str(request.content_type) if "Content-Type" in request.headers else ""
        if form not in FORMS:
            has = f"the Content-Type {form}" if form else "no Content-Type"
            names = f"name the format by the header Content-Type, one of {', '.join(FORMS)}"
            raise Refusal(415, f"the body has {has}; {names}, as in curl -H 'Content-Type: {JSON}'")
        answer = _accepted(request.headers.get("Accept", "*/*"), form)
        fetches = [fetch.name for fetch in self._predictor.entry[0].block.fetches]
        names = [name for given in request.query.getall("fetch", []) for name in given.split(",")] or fetches
        names = list(map(self._predictor.entry[0].names.own, names))
        for name in names:
            if name not in fetches:
                raise Refusal(400, f"there is no fetch {name!r}; there are {', '.join(fetches)}")
        if FORMS[answer].is_one and len(names) != 1:
            raise Refusal(400, f"{answer} is one array; name one of {', '.join(names)}, as in ?fetch={names[0]}")
        return _Asked(form, answer, names, _raw_of(request.query.get("raw")))

    async def _read(self, request: Any, body: Body, memory: MemoryLimit) -> None:
        """Read the body, which may arrive in any number of pieces; raise TimeoutError if it takes too long."""
        seconds = min(self._limits.seconds, GRACE_SECONDS) if self._ends else self._limits.seconds
        async with asyncio.timeout(seconds) as timeout:
            self._reading.add(timeout)
            try:
                async for piece in request.content.iter_any():
                    self._take(piece, body, memory)
            finally:
                self._reading.discard(timeout)

    def _take(self, piece: bytes, body: Body, memory: MemoryLimit) -> None:
        """Append a piece to a body, and count its bytes among those of all bodies."""
        if len(body) + len(piece) > self._limits.body:
            raise self._large()
        if self._bytes + len(piece) > MAX_LARGE_BODIES * self._limits.body:
            raise Refusal(503, "the bodies of other requests take all the memory there is for them", RETRY_HEADER)
        memory.take(len(piece), "the body")
        body.append(piece)
        self._bytes += len(piece)

    def _large(self) -> Refusal:
        return Refusal(413, f"the body is larger than {self._limits.body} bytes")

    def _late(self, request: Any) -> Refusal:
        seconds = f"{self._limits.seconds:g} seconds"
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
                self._report(f"a fault of prograd itself, {type(error).__name__}: {error}")
                return Refusal(500, f"a fault of prograd itself, {type(error).__name__}")

    def _json(self, values: Mapping[str, object], **options: Any) -> Any:
        return self._web.Response(body=dumps(values).encode(), content_type="application/json", **options)


async def _let_come(request: Any) -> None:
    """Tell a client that waits with its body to send it."""
    if request.headers["Expect"].lower() != "100-continue":
        raise Refusal(417, f"nothing is known of Expect: {request.headers['Expect']}")
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    request.writer.output_size = 0  # nothing of the answer itself was written yet


def _accepted(accept: str, form: str) -> str:
    """Return the format of the answer: that of the body if the client accepts it, else the first accepted one."""
    words = [word.partition(";")[0].strip().lower() for word in accept.split(",")]
    if form in words or "*/*" in words or "application/*" in words or not accept.strip():
        return form
    for word in words:
        if word in FORMS:
            return word
    raise Refusal(406, f"nothing is answered as {accept}; there are {', '.join(FORMS)}")


def _raw_of(given: str | None) -> bool | None:
    """Return the value of the query `raw`; raise Refusal for anything but true and false."""
    if given not in (None, "true", "false"):
        raise Refusal(400, f"?raw={given}: there are true, for rows of the table, and false, for encoded arrays")
    return None if given is None else given == "true"


def _headers(form: str, arrays: Mapping[str, Array]) -> dict[str, str]:
    """Return the headers of an answer: its format, and for raw elements their dtype and shape."""
    if form != "application/octet-stream":
        return {"Content-Type": form}
    type = array_type(next(iter(arrays.values())))
    return {"Content-Type": form, "X-Dtype": type.dtype, "X-Shape": ",".join(map(str, type.shape))}


def _row_bytes(bound: BoundEntry) -> int:
    """Return the bytes that an entry fetches for one row."""
    types = {tensor.name: type_of(tensor) for tensor in bound.block.tensors}
    fetched = [types[fetch.tensor] for fetch in bound.block.fetches if fetch.name in bound.row_names]
    return sum(prod(type.static_shape[1:]) * ITEM_BYTES[type.dtype] for type in fetched)


def _shown(type: TensorType, by_row: bool) -> dict[str, object]:
    return {"dtype": type.dtype, "shape": ["rows", *type.shape[1:]] if by_row else [*type.shape]}


async def _given(form: str, body: Bytes, bound: BoundEntry, memory: MemoryLimit) -> Mapping[str, object]:
    """Return the arrays of a body; large bodies are read on another thread, so that other requests need not wait."""
    if len(body) > _LARGE:
        return await asyncio.to_thread(input_arrays, form, body, bound, memory)
    return input_arrays(form, body, bound, memory)


async def _written(form: str, arrays: Mapping[str, Array], memory: MemoryLimit) -> bytes:
    """Return the body of an answer; large ones are written on another thread, and count in memory meanwhile."""
    if sum(array.nbytes for array in arrays.values()) <= _LARGE:
        return FORMS[form].write(arrays)
    with memory.lent(written_bytes(form, arrays), "the answer"):
        return await asyncio.to_thread(FORMS[form].write, arrays)
