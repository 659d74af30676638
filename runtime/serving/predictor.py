"""Rows of several requests, computed together.

1. A request joins the queue. If the queue is full, the client is told at once. A client that leaves gives up its
   position.
2. The first request is taken, and further ones in order while their rows together are at most `together`. While they
   are computed, others arrive: the higher the load, the more rows a step has.
3. Each request gets its own rows of the results. If the rows of one request cause an error, all are computed one by
   one.

Rows are computed together only where the results equal those of separate steps but for rounding. That needs rows in
every feed and every fetch, and a step of one row, so that any number of rows can be computed. A request of more rows
than `together` is computed as by `predict`.

Steps run on a thread of their own, so that the server listens meanwhile. If the largest step takes less than
`MAX_WAITED_SECONDS` seconds, steps of few rows run in the server's loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from threading import Condition, RLock, Thread
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import numpy as np

from prograd_proto import program_pb2 as pb
from runtime.dtypes import Array, numpy_dtype
from runtime.entries import BoundEntry
from runtime.errors import DataError, OutOfTime
from runtime.rows.rows import checked_feeds, common_length
from runtime.runs.evaluation import run_over
from runtime.runs.raw.decoding import Decoding
from runtime.runs.session import Session
from runtime.serving.busy import Busy
from runtime.serving.steps import Steps

if TYPE_CHECKING:
    from runtime.serving.image_requests import ImageRequests
    from runtime.serving.raw_requests import RawRequests

Arrays = dict[str, Array]

MAX_WAITED_SECONDS: Final = 1e-3
"""Upper bound in seconds on a step that the server's loop waits for."""


class Request(NamedTuple):
    """The arrays for all feeds of an entry, their number of rows, and the `monotonic` time when the answer expires."""

    feeds: Arrays
    rows: int
    until: float
    answer: asyncio.Future[Arrays]


class Predictor:
    """Answers requests for the fetches of an entry, all made in one event loop.

    Attributes:
        entry: its bindings, the largest first.
        together: upper bound on the rows that are computed together; 1 if each request is computed alone.
        computed: number of computations of rows.
        raw: the conversion of rows as a table has them, or of images; None if the program knows neither.
        decoding: the conversion of fetches that are asked for by encoded arrays.
        memory: account of the process, in which bodies and their arrays count as well.
    """

    def __init__(
        self,
        session: Session,
        entry: str,
        *,
        queue: int,
        together: int | None = None,
        decode: Mapping[str, str] | None = None,
    ) -> None:
        """Begin for an entry that does not train; `together` defaults to the rows of its largest step.

        `decode` names the columns of some fetches; see `Decoding` for its errors.
        """
        self.entry = session.bindings(entry)
        self.together = (together or self.entry[0].rows) if _is_by_row(self.entry) else 1
        self.computed = 0
        self.memory = session.memory
        self.decoding = Decoding(session, decode or {})
        self.decoding.require_fetches(entry, [fetch.name for fetch in self.entry[0].block.fetches])
        self.raw: RawRequests | ImageRequests | None = None
        if session.data.is_encoded:
            self.raw = _raw(session, entry, self.decoding.columns)
        self._session = session
        self._most = queue
        feeds = self.entry[0].feeds.values()
        self._types = {f.name: (numpy_dtype(f.type.dtype), f.type.static_shape[1:]) for f in feeds if f.by_row}
        with session.apart(self.entry, ()):
            pass  # the executors are ready before the first request
        self._steps = Steps(session, self.entry) if self.together > 1 else None
        self._is_quick = self._steps is not None and self._steps.longest < MAX_WAITED_SECONDS
        self._small: deque[Request] = deque()
        self._others: deque[Request] = deque()
        self._changed = Condition(RLock())
        self._ends = False
        self._thread = Thread(target=self._work, name="predictions", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """The number of requests that are not computed yet."""
        return len(self._small) + len(self._others)

    def require_room(self) -> None:
        """Raise Busy if no other request may wait."""
        if self.waiting < self._most:
            return
        raise Busy(f"{self._most} requests wait already, which is as many as may; ask again later")

    def request(self, given: Mapping[str, object], until: float) -> Request:
        """Return a request with arrays, or lists, for all feeds; raise DataError if they do not fit."""
        bound = self.entry[0]
        fits = given.keys() == self._types.keys() and all(_has(x, *self._types[name]) for name, x in given.items())
        feeds = cast(Arrays, given) if fits else checked_feeds(bound, given)
        by_row = feeds if len(self._types) == len(feeds) else {name: feeds[name] for name in self._types}
        rows = common_length(by_row, "feed", bound.rows)
        return Request(feeds, rows, until, asyncio.get_running_loop().create_future())

    def is_quick(self, request: Request) -> bool:
        """Return True if the request is computed before the server does anything else, so that no timeout is needed."""
        return self._is_quick and request.rows <= self.together

    def submit(self, request: Request) -> asyncio.Future[Arrays]:
        """Let a request wait for its answer; a cancelled answer drops it. Raises Busy if the queue is full."""
        self.require_room()
        if self.is_quick(request):
            if not self._small:
                request.answer.get_loop().call_soon(self._compute_small)  # with what else has arrived by now
            self._small.append(request)
            return request.answer
        request.answer.add_done_callback(self._leave)
        with self._changed:
            self._others.append(request)
            self._changed.notify()
        return request.answer

    def close(self) -> None:
        """Compute the waiting requests, and end the thread."""
        with self._changed:
            self._ends = True
            self._changed.notify()
        self._thread.join()

    def _leave(self, answer: asyncio.Future[Arrays]) -> None:
        """Remove a request from the queue whose client has left."""
        if answer.cancelled():
            with self._changed:
                self._others = deque(request for request in self._others if request.answer is not answer)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._others or self._ends)
                if not self._others:
                    return
                requests = self._next(self._others)
            if requests:
                results = self._results(requests)
                with suppress(RuntimeError):  # a second signal has closed the loop, and no client waits
                    requests[0].answer.get_loop().call_soon_threadsafe(_settle, requests, results)

    def _compute_small(self) -> None:
        while self._small:
            requests = self._next(self._small)
            if requests:
                _settle(requests, self._results(requests))

    def _next(self, waiting: deque[Request]) -> list[Request]:
        """Return the requests to compute together next, without those whose clients have left."""
        taken: list[Request] = []
        rows = 0
        while waiting and (not taken or rows + waiting[0].rows <= self.together):
            taken.append(waiting.popleft())
            rows += taken[-1].rows
        return [request for request in taken if not request.answer.done()]

    def _results(self, requests: Sequence[Request]) -> list[Arrays | Exception]:
        """Return the result of each request."""
        try:
            arrays = self._fetched(requests)
        except Exception as error:
            if len(requests) == 1:
                return [error]
            return [self._results([request])[0] for request in requests]
        results: list[Arrays | Exception] = []
        start = 0
        for request in requests:
            end = start + request.rows
            results.append({n: a[start:end] for n, a in arrays.items()} if len(requests) > 1 else arrays)
            start = end
        return results

    def _fetched(self, requests: Sequence[Request]) -> Arrays:
        self.computed += 1
        if self._steps is not None and 0 < sum(request.rows for request in requests) <= self.together:
            return self._steps.compute([request.feeds for request in requests])
        name, until = self.entry[0].name, requests[0].until
        rows = self._session.rows(name, requests[0].feeds)
        return run_over(self._session, name, rows, between=lambda: _require_time(until)).arrays


def _raw(session: Session, entry: str, decode: Mapping[str, str]) -> RawRequests | ImageRequests | None:
    """Return the conversion of rows of tables, or of images; None for an entry with other feeds than these."""
    from runtime.serving.image_requests import ImageRequests  # only for programs that know a table or images
    from runtime.serving.raw_requests import RawRequests

    for kind in (ImageRequests, RawRequests):
        try:
            return kind(session, entry, decode)
        except DataError:
            continue
    return None


def _has(x: object, dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> bool:
    """Return True if `x` is an array of rows of this dtype and shape, which needs no conversion; most are."""
    return type(x) is np.ndarray and x.dtype == dtype and x.shape[1:] == shape and x.ndim > len(shape)


def _is_by_row(bindings: Sequence[BoundEntry]) -> bool:
    """Return True if rows of several requests may be computed together."""
    bound = bindings[0]
    fetched = all(fetch.name in bound.row_names and fetch.over == pb.OVER_LAST for fetch in bound.block.fetches)
    return bindings[-1].rows == 1 and bool(bound.feeds) and all(f.by_row for f in bound.feeds.values()) and fetched


def _settle(requests: Sequence[Request], results: Sequence[Arrays | Exception]) -> None:
    """Set the results in the loop of the futures, except for clients that have left."""
    for request, result in zip(requests, results, strict=True):
        if request.answer.done():
            continue
        if isinstance(result, Exception):
            request.answer.set_exception(result)
        else:
            request.answer.set_result(result)


def _require_time(until: float) -> None:
    """Raise OutOfTime if the answer has expired."""
    if monotonic() > until:
        raise OutOfTime("the time for an answer is over")
