"""The addresses of a server of texts, as clients of the OpenAI kind ask for them.

    GET  /                     what is served: program, model, limits
    GET  /health               readiness and counts
    GET  /v1/models            the one model
    POST /v1/chat/completions  the answer to a conversation, whole or as server-sent events
    POST /v1/completions       how a text goes on

A text is written by a thread of its own in a row of the program; texts of several requests take their steps together.
A client that leaves ends its text, and so does the time that an answer may take. Fields of a request that would change
the answer, and that are not known, are refused by name.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass, field
from json import dumps, loads
from threading import Event
from time import monotonic, time
from typing import Any, Final, cast

from prograd_proto.printable import sentence
from prograd_proto.spelling import closest
from runtime.errors import ExecutionError
from runtime.language.choices import NAMES, Choices, choices_of
from runtime.language.template import require_conversation
from runtime.language.texts import MOST_NEW, Answer, Texts
from runtime.memory.limit import MemoryLimit
from runtime.serving.access import Access
from runtime.serving.bodies import Body
from runtime.serving.busy import Busy
from runtime.serving.gate import ANYBODY, Addresses, Gate, Limits, Refusal

EVENTS: Final = "text/event-stream"

MOST_STOPS: Final = 16
"""Upper bound on the stop texts of a request."""

_OWN: Final = frozenset(
    ("model", "messages", "prompt", "stream", "stream_options", "stop", "user", "metadata", "store")
)
_LENGTHS: Final = ("max_completion_tokens", "max_tokens")
_NEUTRAL: Final[Mapping[str, tuple[object, ...]]] = {
    "n": (1,),
    "best_of": (1,),
    "echo": (False,),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "logprobs": (False,),
    "logit_bias": ({},),
    "tools": ([],),
    "response_format": ({"type": "text"},),
}
"""Fields that have one meaning here, and the values that ask for it."""


@dataclass(frozen=True)
class _Asked:
    """A request that is understood."""

    codes: list[int]
    choices: Choices
    most: int
    stop: list[str]
    streams: bool
    counts_usage: bool


@dataclass
class _Writing:
    """A text that a thread writes: its pieces arrive in a queue, and None or an error behind them."""

    pieces: asyncio.Queue[str | Exception | None]
    answer: Answer
    left: Event = field(default_factory=Event)


class TextEndpoints(Gate):
    """The functions behind the addresses."""

    def __init__(
        self,
        texts: Texts,
        limits: Limits,
        said: Mapping[str, object],
        report: Callable[[str], None],
        memory: MemoryLimit,
        access: Access = ANYBODY,
        *,
        queue: int,
    ) -> None:
        """Serve the texts of a session; `queue` bounds the requests that wait, and the others are those of `Gate`."""
        super().__init__(limits, report, memory, access)
        self._texts, self._said, self._queue = texts, said, queue
        self._threads = ThreadPoolExecutor(texts.model.texts, thread_name_prefix="text")
        self._present = 0
        self._number = 0
        self.codes = 0

    @property
    def addresses(self) -> Addresses:
        """The functions by address, each with its method."""
        return {
            "/": ("GET", self.describe),
            "/health": ("GET", self.health),
            "/v1/models": ("GET", self.models),
            "/v1/chat/completions": ("POST", self.chat),
            "/v1/completions": ("POST", self.complete),
        }

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _told(self, refusal: Refusal) -> object:
        """Return an error as clients of the OpenAI kind read it."""
        kind = "server_error" if refusal.status >= 500 else "invalid_request_error"
        return {"message": sentence(str(refusal)), "type": kind, "param": None, "code": None}

    async def describe(self, request: Any) -> Any:
        """Return the description of what is served."""
        del request
        model = self._texts.model
        limits = {"body": self.limits.body, "seconds": self.limits.seconds, "positions": model.positions}
        return self._json({**self._said, "texts": model.texts, "limits": limits})

    async def health(self, request: Any) -> Any:
        """Return the readiness of the server and its counts."""
        del request
        waiting = max(self._present - self._texts.model.texts, 0)
        counts = {"waiting": waiting, "connections": self.connections.open, "codes": self.codes}
        return self._json({"status": "ok", **counts, **vars(self.counts)})

    async def models(self, request: Any) -> Any:
        """Return the list of the one model."""
        del request
        model = {"id": self._said["program"], "object": "model", "created": 0, "owned_by": "prograd"}
        return self._json({"object": "list", "data": [model]})

    async def chat(self, request: Any) -> Any:
        """Return the answer to a conversation."""
        return await self._served(request, chat=True)

    async def complete(self, request: Any) -> Any:
        """Return how a text goes on."""
        return await self._served(request, chat=False)

    async def _served(self, request: Any, *, chat: bool) -> Any:
        until = monotonic() + self.limits.seconds
        if self._present >= self._texts.model.texts + self._queue:
            raise Busy(f"{self._queue} requests wait already, which is as many as may; ask again later")
        self._present += 1
        try:
            asked = await asyncio.to_thread(self._understood, await self._body(request), chat=chat)
            answer = self._streamed if asked.streams else self._whole
            return await answer(request, asked, until, chat)
        finally:
            self._present -= 1

    async def _body(self, request: Any) -> object:
        """Return the JSON of a request."""
        if request.content_type != "application/json":
            raise Refusal(415, "the body has another Content-Type than application/json")
        memory = MemoryLimit(self._memory.room, within=self._memory, who="the request")
        body = Body(request.content_length or self.limits.body)
        try:
            await self._read(request, body, memory)
            return loads(bytes(body.bytes))
        except (ValueError, RecursionError) as error:
            raise Refusal(400, f"the body is no JSON: {str(error)[:100]}") from None
        except TimeoutError:
            raise self._late(request) from None
        finally:
            self._bytes -= len(body)
            memory.give_back(len(body))

    def _understood(self, given: object, *, chat: bool) -> _Asked:
        """Return what a request asks for; raise Refusal for what is not understood, DataError for its texts."""
        if not isinstance(given, dict):
            raise Refusal(400, "the body is no JSON object")
        fields: Any = cast(dict[str, Any], given)
        for name, value in fields.items():
            if name in _NEUTRAL and value is not None and value not in _NEUTRAL[name]:
                raise Refusal(400, f"{name}: this server knows {_NEUTRAL[name][0]!r} only")
            if name not in (*_OWN, *NAMES, *_LENGTHS, *_NEUTRAL):
                hint = closest(name, [*_OWN, *NAMES, *_LENGTHS])
                raise Refusal(400, f"there is no field {name!r}{hint}")
        if chat:
            codes = self._texts.codes_of(require_conversation(fields.get("messages"), "the request"))
        elif isinstance(fields.get("prompt"), str):
            codes = self._texts.codes_of(fields["prompt"])
        else:
            raise Refusal(400, "the request has no prompt of text")
        self._texts.require_room(codes)
        options: Any = fields.get("stream_options")
        options = cast(dict[str, Any], options) if isinstance(options, dict) else {}
        return _Asked(
            codes,
            choices_of(_numbers(fields), self._texts.model.defaults),
            _most_of(fields),
            _stops_of(fields.get("stop")),
            streams=_flag("stream", fields.get("stream")),
            counts_usage=_flag("include_usage", options.get("include_usage")),
        )

    async def _whole(self, request: Any, asked: _Asked, until: float, chat: bool) -> Any:
        """Return an answer as one body."""
        del request
        writing = self._begun(asked)
        async with aclosing(self._pieces(writing, until)) as pieces:
            text = "".join([piece async for piece in pieces])
        self._count(writing.answer)
        key, value = ("message", {"role": "assistant", "content": text}) if chat else ("text", text)
        choice = {"index": 0, key: value, "finish_reason": writing.answer.ending or "length", "logprobs": None}
        return self._json({**self._head(chat, ""), "choices": [choice], "usage": _usage(writing.answer)})

    async def _streamed(self, request: Any, asked: _Asked, until: float, chat: bool) -> Any:
        """Answer by server-sent events, one for each piece."""
        head = self._head(chat, ".chunk" if chat else "")
        writing = self._begun(asked)
        response = self._web.StreamResponse(headers={"Content-Type": EVENTS, "Cache-Control": "no-cache"})

        async def send(choices: list[dict[str, Any]], **more: Any) -> None:
            await response.write(f"data: {dumps({**head, 'choices': choices, **more})}\n\n".encode())

        async with aclosing(self._pieces(writing, until)) as pieces:
            first = await anext(pieces, "")  # an error of the first step is an answer of its own
            await response.prepare(request)
            if chat:
                await send([{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}])
            try:
                await send([_part(chat, first)])
                async for piece in pieces:
                    await send([_part(chat, piece)])
            except ExecutionError as error:  # the answer has begun, so its status stands
                await send([], error={"message": sentence(str(error))})
                return response
        ending = writing.answer.ending or "length"
        await send([{"index": 0, **({"delta": {}} if chat else {"text": ""}), "finish_reason": ending}])
        if asked.counts_usage:
            await send([], usage=_usage(writing.answer))
        await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
        self._count(writing.answer)
        return response

    def _begun(self, asked: _Asked) -> _Writing:
        """Let a thread write a text."""
        loop = asyncio.get_running_loop()
        writing = _Writing(asyncio.Queue(), Answer(len(asked.codes)))

        def put(piece: str | Exception | None) -> None:
            loop.call_soon_threadsafe(writing.pieces.put_nowait, piece)

        def write() -> None:
            try:
                with self._texts.row() as row:
                    if not writing.left.is_set():
                        writing.answer, pieces = self._texts.written(
                            asked.codes, asked.choices, most=asked.most, stop=asked.stop, row=row
                        )
                        for piece in pieces:
                            put(piece)
                            if writing.left.is_set():
                                break
                put(None)
            except Exception as error:  # told to the client, as those of the loop are
                put(error)

        self._threads.submit(write)
        return writing

    async def _pieces(self, writing: _Writing, until: float) -> AsyncGenerator[str]:
        """Yield the pieces of a text until its end, or until its time is over; raise the errors of its thread."""
        is_begun = False
        try:
            while True:
                async with asyncio.timeout(max(until - monotonic(), 0.0)):
                    piece = await writing.pieces.get()
                if isinstance(piece, Exception):
                    raise piece
                if piece is None:
                    return
                is_begun = True
                yield piece
        except TimeoutError:
            if not is_begun:
                raise Refusal(504, f"there was no answer after {self.limits.seconds:g} seconds") from None
        finally:
            writing.left.set()

    def _count(self, answer: Answer) -> None:
        self.counts.answered += 1
        self.counts.rows += 1
        self.codes += len(answer.codes)

    def _head(self, chat: bool, kind: str) -> dict[str, Any]:
        """Return the fields with which all objects of an answer begin."""
        self._number += 1
        name, word = ("chat.completion", "chatcmpl") if chat else ("text_completion", "cmpl")
        return {
            "id": f"{word}-{self._number}",
            "object": name + kind,
            "created": int(time()),
            "model": self._said["program"],
        }


def _part(chat: bool, piece: str) -> dict[str, Any]:
    """Return the choice of an event with a piece of the text."""
    return {"index": 0, **({"delta": {"content": piece}} if chat else {"text": piece}), "finish_reason": None}


def _usage(answer: Answer) -> dict[str, int]:
    new = len(answer.codes)
    return {"prompt_tokens": answer.prompt, "completion_tokens": new, "total_tokens": answer.prompt + new}


def _numbers(fields: Mapping[str, Any]) -> dict[str, float]:
    """Return the choices of a request."""
    found: dict[str, float] = {}
    for name in NAMES:
        value = fields.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Refusal(400, f"{name} is no number")
        found[name] = value
    return found


def _most_of(fields: Mapping[str, Any]) -> int:
    """Return the number of codes that a text may have."""
    value = next((fields[name] for name in _LENGTHS if fields.get(name) is not None), MOST_NEW)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise Refusal(400, f"{' or '.join(_LENGTHS)} is no whole number from 1 on")
    return value


def _stops_of(given: object) -> list[str]:
    found = [given] if isinstance(given, str) else [] if given is None else given
    if not isinstance(found, list) or len(found) > MOST_STOPS or not all(isinstance(x, str) and x for x in found):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]: JSON
        raise Refusal(400, f"stop is neither a text nor a list of at most {MOST_STOPS} texts")
    return cast(list[str], found)


def _flag(name: str, given: object) -> bool:
    if given not in (None, True, False):
        raise Refusal(400, f"{name} is neither true nor false")
    return bool(given)
