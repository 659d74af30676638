"""Starts a server on the loopback address, and stops it when every request that was taken is answered."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple

from runtime.command_line.wakeup import Wakeup
from runtime.errors import UsageError
from runtime.extras import extra
from runtime.serving.endpoints import Counts, Endpoints, Limits
from runtime.serving.predictor import Predictor

ADDRESS: Final = "127.0.0.1"
"""Nobody on another machine can ask; who wants to let them puts a server in front that knows who may."""

_IDLE: Final = 30.0
"""Seconds in which a connection must have begun a request, all its headers included."""

_TURNS: Final = 8
"""Upper bound on the turns of the loop that a connection takes to be made, or to be closed."""

_CONNECTIONS: Final = 512
"""That may wait to be accepted."""


class Stop:
    """What tells a server to stop, from any thread or signal handler, at any time."""

    def __init__(self) -> None:
        self._asked = False
        self._act: Callable[[], object] = lambda: None

    def __call__(self) -> None:
        """Stop it."""
        self._asked = True
        self._act()

    def at_signal(self, error: Callable[[], BaseException]) -> None:
        """Stop it; for `Interrupts.hold`."""
        del error
        self()

    def tell(self, act: Callable[[], object]) -> None:
        """From now on `act` stops it; at once if that was asked for already."""
        self._act = act
        if self._asked:
            act()


class Served(NamedTuple):
    """What a server did, and whether it answered all that it took."""

    counts: Counts
    is_whole: bool


def require_library() -> Any:
    """The module of the server library. Raises UsageError if it is not installed."""
    return extra("aiohttp.web", "serve", "runtime serve")


def listen(port: int) -> socket.socket:
    """A socket at a port of the loopback address, any one that is free for 0. Raises UsageError if it is taken."""
    taken = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind((ADDRESS, port))
    except OSError as error:
        taken.close()
        raise UsageError(f"port {port} of {ADDRESS} cannot be used: {error.strerror}; name another by --port") from None
    return taken


def answer(
    predictor: Predictor,
    taken: socket.socket,
    limits: Limits,
    said: dict[str, object],
    *,
    stop: Stop,
    ready: Callable[[], None],
    report: Callable[[str], None],
    seconds: float | None = None,
) -> Served:
    """Answer requests for predictions until `stop` is called, or for so many seconds; then answer what was taken.

    Args:
        predictor: computes; it is closed at the end.
        taken: of `listen`.
        limits: of one request; its seconds are also how long the last ones are waited for.
        said: of what is served, for its description.
        stop: ends it.
        ready: is called once requests are taken.
        report: is told of faults.
        seconds: after which it stops by itself.
    """
    web = require_library()
    endpoints = Endpoints(web, predictor, limits, said, report)
    try:
        is_whole = asyncio.run(_serve(web, endpoints, taken, limits, stop, ready, report, seconds))
    finally:
        predictor.close()
    return Served(endpoints.counts, is_whole)


async def _serve(
    web: Any,
    endpoints: Endpoints,
    taken: socket.socket,
    limits: Limits,
    stop: Stop,
    ready: Callable[[], None],
    report: Callable[[str], None],
    seconds: float | None,
) -> bool:
    server = web.Server(
        endpoints.answer,
        access_log=None,
        logger=_logger(report),
        auto_decompress=False,
        keepalive_timeout=_IDLE,
        handler_cancellation=True,  # who has left waits for nothing
    )
    runner = web.ServerRunner(server, shutdown_timeout=limits.seconds)
    await runner.setup()
    site = web.SockSite(runner, taken, backlog=_CONNECTIONS)
    await site.start()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: report(f"{context['message']}: {context.get('exception')}"))
    ended = asyncio.Event()
    stop.tell(lambda: loop.call_soon_threadsafe(ended.set))
    if seconds is not None:
        loop.call_later(seconds, ended.set)
    with _woken_by_signals(loop):
        ready()
        await ended.wait()
    stop.tell(lambda: None)  # the loop will be closed
    until = loop.time() + limits.seconds
    with suppress(NotImplementedError):  # Windows
        loop.remove_reader(taken)
    await _settle()  # connections that were accepted are known to the server, which must be open for that
    await site.stop()
    server.pre_shutdown()
    await endpoints.end(until)
    is_whole = loop.time() < until
    await runner.cleanup()
    await _settle()  # connections that were closed are
    await asyncio.to_thread(endpoints.close)  # the thread hands its results to this loop
    return is_whole


async def _settle() -> None:
    """Let the loop make or close the connections that it has begun to make or close."""
    for _ in range(_TURNS):
        await asyncio.sleep(0)


@contextmanager
def _woken_by_signals(loop: asyncio.AbstractEventLoop) -> Generator[None]:
    """Let the loop see a signal that comes when it is about to wait for requests."""
    if sys.platform == "win32":  # the loop does so by itself
        yield
        return
    with Wakeup() as wakeup:
        loop.add_reader(wakeup, wakeup.wait)
        try:
            yield
        finally:
            loop.remove_reader(wakeup)


def _logger(report: Callable[[str], None]) -> logging.Logger:
    """Faults of the library in a sentence; of what clients do wrong, which is answered, it says nothing here."""

    def emit(record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if not type(error).__module__.startswith("aiohttp."):  # its own errors are of what it was sent
            report(f"{record.getMessage()}: {error}")

    handler = logging.Handler(logging.ERROR)
    handler.emit = emit
    logger = logging.Logger("serving", logging.ERROR)
    logger.addHandler(handler)
    return logger
