"""What can be asked over HTTP, under which limits, and what is answered.

    GET  /          what is served: feeds, fetches, forms, limits
    GET  /health    whether it answers, and how much it has
    POST /predict   arrays in, what the entry fetches for them out

An error is a sentence, as {"error": "..."}. A page of a stranger's, open in a browser here, cannot ask: it could send
none of the forms without being allowed to, which nobody is, and its host is not this one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from json import dumps
from time import monotonic
from typing import Any, Final, NamedTuple

from prograd_proto import TensorType, type_of
from prograd_proto.printable import sentence
from runtime.dtypes import Array, array_type
from runtime.errors import ExecutionError, ResourceLimit
from runtime.serving.forms import FORMS, given_arrays
from runtime.serving.predictor import Busy, Predictor

BODIES: Final = 16
"""Bodies of the largest size that may be there at the same time; smaller ones are more."""

RETRY: Final = {"Retry-After": "1"}
"""Seconds after which somebody who was refused may ask again."""

_HOSTS: Final = ("127.0.0.1", "localhost", "[::1]")
_LARGE: Final = 1 << 18  # bytes of a body that is parsed beside the loop


class Limits(NamedTuple):
    """Of one request: bytes of its body, and seconds from its first line to its answer."""

    body: int
    seconds: float


@dataclass
class Counts:
    """Of requests for predictions: answered, refused because of what was asked or when, failed here; and rows."""

    answered: int = 0
    refused: int = 0
    failed: int = 0
    rows: int = 0


class Refusal(Exception):
    """A request that is not answered with arrays: the status, a sentence, and headers."""

    def __init__(self, status: int, text: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.headers = headers or {}


class Endpoints:
    """The functions behind the addresses; `counts` says what they did.

    `web` is the module of the server library. `said` are the fields of the description that name what is served, and
    `report` is told the sentence of a fault of our own.
    """

    def __init__(
        self, web: Any, predictor: Predictor, limits: Limits, said: Mapping[str, object], report: Callable[[str], None]
    ) -> None:
        self.counts = Counts()
        self._web = web
        self._predictor = predictor
        self._limits = limits
        self._said = said
        self._report = report
        self._bytes = 0  # of all bodies that are there

    def application(self) -> Any:
        """What the server library serves."""

        @self._web.middleware
        async def guarded(request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
            return await self._guarded(request, handler)

        app = self._web.Application(middlewares=[guarded])
        app.router.add_get("/", self.describe)
        app.router.add_get("/health", self.health)
        app.router.add_post("/predict", self.predict)
        return app

    async def describe(self, request: Any) -> Any:
        """What is served."""
        del request
        bound = self._predictor.entry[0]
        feeds = {feed.name: _shown(feed.type, feed.by_row) for feed in bound.feeds.values()}
        types = {tensor.name: type_of(tensor) for tensor in bound.block.tensors}
        fetches = {f.name: _shown(types[f.tensor], f.name in bound.row_names) for f in bound.block.fetches}
        limits = {"body": self._limits.body, "seconds": self._limits.seconds, "together": self._predictor.together}
        return self._json({**self._said, "feeds": feeds, "fetches": fetches, "forms": [*FORMS], "limits": limits})

    async def health(self, request: Any) -> Any:
        """That the server is there, and what it has done."""
        del request
        return self._json({"status": "ok", "waiting": self._predictor.waiting, **vars(self.counts)})

    async def predict(self, request: Any) -> Any:
        """What the entry fetches for the rows of a request."""
        until = monotonic() + self._limits.seconds
        form, answer, names = self._asked(request)
        self._predictor.require_room()
        body = bytearray()
        try:
            async with asyncio.timeout(self._limits.seconds):
                await self._read(request, body)
            given = await _aside(len(body), lambda: given_arrays(form, bytes(body), self._predictor.entry[0]))
            asked = self._predictor.request(given, until)
            async with asyncio.timeout(max(0.0, until - monotonic())):
                arrays = await self._predictor.submit(asked)
        except TimeoutError:
            raise self._late(request) from None
        finally:
            self._bytes -= len(body)
        chosen = {name: arrays[name] for name in names}
        written = await _aside(sum(a.nbytes for a in chosen.values()), lambda: FORMS[answer].write(chosen))
        self.counts.answered += 1
        self.counts.rows += asked.rows
        return self._web.Response(body=written, content_type=answer, headers=_headers(answer, chosen))

    def _asked(self, request: Any) -> tuple[str, str, list[str]]:
        """The form of the body, that of the answer, and what is fetched."""
        form = str(request.content_type) if "Content-Type" in request.headers else ""
        if form not in FORMS:
            raise Refusal(415, f"the body is {form or 'of no Content-Type'}; there are {', '.join(FORMS)}")
        if request.headers.get("Content-Encoding", "identity") != "identity":
            raise Refusal(415, "the body is compressed; send it as it is")
        if (request.content_length or 0) > self._limits.body:
            raise self._large()
        answer = _accepted(request.headers.get("Accept", "*/*"), form)
        fetches = [fetch.name for fetch in self._predictor.entry[0].block.fetches]
        names = [name for given in request.query.getall("fetch", []) for name in given.split(",")] or fetches
        for name in names:
            if name not in fetches:
                raise Refusal(400, f"there is no fetch {name!r}; there are {', '.join(fetches)}")
        if FORMS[answer].is_one and len(names) != 1:
            raise Refusal(400, f"{answer} is one array; name one of {', '.join(names)}, as in ?fetch={names[0]}")
        return form, answer, names

    async def _read(self, request: Any, body: bytearray) -> None:
        """Read the body, which may come in any number of pieces, and count its bytes among those of all bodies."""
        async for piece in request.content.iter_any():
            if len(body) + len(piece) > self._limits.body:
                raise self._large()
            if self._bytes + len(piece) > BODIES * self._limits.body:
                raise Refusal(503, "the bodies of other requests take all the memory there is for them", RETRY)
            body += piece
            self._bytes += len(piece)

    def _large(self) -> Refusal:
        return Refusal(413, f"the body is larger than {self._limits.body} bytes")

    def _late(self, request: Any) -> Refusal:
        seconds = f"{self._limits.seconds:g} seconds"
        if not request.content.is_eof():
            return Refusal(408, f"the body was not there after {seconds}", {"Connection": "close"})
        return Refusal(504, f"there was no answer after {seconds}", RETRY)

    async def _guarded(self, request: Any, act: Callable[[Any], Awaitable[Any]]) -> Any:
        """Act, if whoever asks means this host, and turn what happens into an answer."""
        try:
            if request.host.rsplit(":", 1)[0] not in _HOSTS and request.host not in _HOSTS:
                raise Refusal(403, f"the host {request.host!r} is not this one; ask for http://127.0.0.1")
            return await act(request)
        except Exception as error:
            refusal = self._refusal(error)
            if request.path == "/predict":
                self.counts.failed += refusal.status == 500
                self.counts.refused += refusal.status != 500
            return self._json({"error": sentence(str(refusal))}, status=refusal.status, headers=refusal.headers)

    def _refusal(self, error: Exception) -> Refusal:
        match error:
            case Refusal():
                return error
            case Busy() | ResourceLimit():
                return Refusal(503, str(error), RETRY)
            case ExecutionError():  # rows that do not fit, labels out of range
                return Refusal(400, str(error))
            case _ if isinstance(error, self._web.HTTPException):
                return _of_library(error)
            case ConnectionError():  # the client has left, or its body is no HTTP
                return Refusal(400, f"the request broke off: {error}")
            case _:
                self._report(f"a fault of prograd itself, {type(error).__name__}: {error}")
                return Refusal(500, f"a fault of prograd itself, {type(error).__name__}")

    def _json(self, values: Mapping[str, object], **options: Any) -> Any:
        return self._web.Response(body=dumps(values).encode(), content_type="application/json", **options)


def _of_library(error: Any) -> Refusal:
    """What the server library refuses by itself: an unknown address or method."""
    told = {404: "there is /, /health and /predict", 405: "ask for / and /health by GET, for /predict by POST"}
    headers = {name: value for name, value in error.headers.items() if name == "Allow"}
    return Refusal(error.status, told.get(error.status, str(error.reason)), headers)


def _accepted(accept: str, form: str) -> str:
    """The form of the answer: that of the body, if it will do, else the first one that will."""
    words = [word.partition(";")[0].strip().lower() for word in accept.split(",")]
    if form in words or "*/*" in words or "application/*" in words or not accept.strip():
        return form
    for word in words:
        if word in FORMS:
            return word
    raise Refusal(406, f"nothing is answered as {accept}; there are {', '.join(FORMS)}")


def _headers(form: str, arrays: Mapping[str, Array]) -> dict[str, str]:
    """What raw elements do not say of themselves."""
    if form != "application/octet-stream":
        return {}
    type = array_type(next(iter(arrays.values())))
    return {"X-Dtype": type.dtype, "X-Shape": ",".join(map(str, type.shape))}


def _shown(type: TensorType, by_row: bool) -> dict[str, object]:
    return {"dtype": type.dtype, "shape": ["rows", *type.shape[1:]] if by_row else [*type.shape]}


async def _aside(nbytes: int, act: Callable[[], Any]) -> Any:
    """What a function gives, on another thread if there is so much to do that others would wait."""
    return await asyncio.to_thread(act) if nbytes > _LARGE else act()
