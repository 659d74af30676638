"""The addresses of the server, their limits and their answers.

    GET  /          the description: feeds, fetches, formats, limits
    GET  /health    readiness and counts
    GET  /metrics   counts and times in the text format of Prometheus
    POST /predict   arrays in, the entry's fetches out

`gate` has the checks of every request. A foreign web page that is open in a local browser cannot send requests: each
format needs a permission that the server gives to nobody, and the page's host is not this one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from math import prod
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from prograd_proto import TensorType
from prograd_proto.dtypes import ITEM_BYTES
from runtime.dtypes import Array, array_type
from runtime.entries import BoundEntry
from runtime.errors import ResourceLimit
from runtime.memory.limit import MemoryLimit
from runtime.serving.access import Access, Times, metrics_text
from runtime.serving.bodies import Body, Bytes
from runtime.serving.forms import FORMS, input_arrays, written_bytes
from runtime.serving.gate import ANYBODY, Addresses, Gate, Limits, Refusal
from runtime.serving.predictor import Arrays, Predictor, Request

if TYPE_CHECKING:
    from runtime.serving.raw_requests import RawRequest

JSON: Final = "application/json"

PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"
"""Content-Type of the text format of Prometheus."""

_LARGE: Final = 1 << 16  # bytes from which a body is parsed outside the loop
_KNOWN: Final = 64  # number of remembered combinations of headers


class _Asked(NamedTuple):
    """The format of the body, that of the answer, the names of the fetches, and `raw` of `run.predict`."""

    form: str
    answer: str
    names: list[str]
    raw: bool | None


class Endpoints(Gate):
    """The functions behind the addresses.

    `said` are the fields of the description that name the served entry; the others are those of `Gate`.
    """

    def __init__(
        self,
        predictor: Predictor,
        limits: Limits,
        said: Mapping[str, object],
        report: Callable[[str], None],
        access: Access = ANYBODY,
    ) -> None:
        super().__init__(limits, report, predictor.memory, access)
        self._times = Times()
        self._raw = predictor.raw
        self._decoding = predictor.decoding
        self._predictor = predictor
        self._said = said
        self._room = predictor.memory.room  # for a request while there is no other
        self._row_bytes = _row_bytes(predictor.entry[0])  # bytes of the fetches
        self._known: dict[tuple[str | None, ...], _Asked] = {}

    @property
    def addresses(self) -> Addresses:
        """The functions by address, each with its method."""
        return {
            "/": ("GET", self.describe),
            "/health": ("GET", self.health),
            "/metrics": ("GET", self.metrics),
            "/predict": ("POST", self.predict),
        }

    def close(self) -> None:
        """Compute the waiting requests, and end the computing thread."""
        self._predictor.close()

    async def describe(self, request: Any) -> Any:
        """Return the description of the served entry."""
        del request
        bound = self._predictor.entry[0]
        feeds = {feed.name: _shown(feed.type, feed.by_row) for feed in bound.feeds.values()}
        fetches = {f.name: _shown(bound.types[f.tensor], f.name in bound.row_names) for f in bound.block.fetches}
        limits = {"body": self.limits.body, "seconds": self.limits.seconds, "together": self._predictor.together}
        columns = {} if self._raw is None else {"columns": self._raw.columns}
        decoded = {"decoded": self._decoding.columns} if self._decoding.columns else {}
        forms = [*FORMS, *(() if self._raw is None else self._raw.forms)]
        return self._json(
            {**self._said, **columns, "feeds": feeds, "fetches": fetches, **decoded, "forms": forms, "limits": limits}
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
        return vars(self.counts) | {"unanswered": 0 if self._raw is None else self._raw.answers.unanswered}

    async def predict(self, request: Any) -> Any:
        """Return the entry's fetches for the rows of a request."""
        start = monotonic()
        until = start + self.limits.seconds
        form, answer, names, is_raw = self._asked(request)
        self._predictor.require_room()
        memory = MemoryLimit(self._room, within=self._memory, who="the request")
        body = Body(request.content_length or self.limits.body)
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
                written = self._raw.answers.written(self._decoding.with_texts(chosen), is_one=raw.is_one)
            else:
                chosen = self._decoded(chosen, answer)
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
        """Return the feeds for rows as a table has them or for images; None for arrays, and for other formats."""
        if form in FORMS and form != JSON:
            return None
        if self._raw is None:
            if bytes(body[:64]).lstrip()[1:].lstrip().startswith(b"{"):
                what = "the rows are objects, and the program has no encoding of a table"
                raise Refusal(400, f"{what}; send an array for each feed, or train on rows of compiler data pack")
            return None
        try:
            if len(body) > _LARGE or self._raw.forms:  # an image of few bytes may have many pixels
                raw = await asyncio.to_thread(self._raw.read, body, memory, form=form, raw=is_raw)
            else:
                raw = self._raw.read(body, memory, form=form, raw=is_raw)
        except (ValueError, RecursionError) as error:
            raise Refusal(400, f"the body is not {form}: {error or 'it ends too early'}") from None
        if raw is not None and answer != JSON:
            what = "images" if self._raw.forms else "rows of a table"
            raise Refusal(406, f"{what} are answered as {JSON}, and Accept asks for {answer}")
        return raw

    def _decoded(self, arrays: Mapping[str, Array], answer: str) -> dict[str, Array]:
        """Return the fetches for encoded arrays as they are answered; raise Refusal for texts in another format."""
        found = self._decoding(arrays)
        if self._raw is not None:
            self._raw.answers.say_scaled([*found], self._decoding.columns)
        text = next((name for name, array in found.items() if array.dtype.kind in "OU"), None)
        if text is not None and answer != JSON:
            raise Refusal(406, f"{text!r} is decoded to texts, which {answer} does not have; accept {JSON}")
        return found

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
        if (request.content_length or 0) > self.limits.body:
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
        known = [*FORMS, *(() if self._raw is None else self._raw.forms)]
        if form not in known:
            has = f"the Content-Type {form}" if form else "no Content-Type"
            names = f"name the format by the header Content-Type, one of {', '.join(known)}"
            raise Refusal(415, f"the body has {has}; {names}, as in curl -H 'Content-Type: {JSON}'")
        answer = _accepted(request.headers.get("Accept", "*/*"), form if form in FORMS else JSON)
        fetches = [fetch.name for fetch in self._predictor.entry[0].block.fetches]
        names = [name for given in request.query.getall("fetch", []) for name in given.split(",")] or fetches
        names = list(map(self._predictor.entry[0].names.own, names))
        for name in names:
            if name not in fetches:
                raise Refusal(400, f"there is no fetch {name!r}; there are {', '.join(fetches)}")
        if FORMS[answer].is_one and len(names) != 1:
            raise Refusal(400, f"{answer} is one array; name one of {', '.join(names)}, as in ?fetch={names[0]}")
        return _Asked(form, answer, names, _raw_of(request.query.get("raw")))


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
    fetched = [bound.types[fetch.tensor] for fetch in bound.block.fetches if fetch.name in bound.row_names]
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
