"""Starts a server on the loopback address, and stops it when every accepted request is answered."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final, NamedTuple

from runtime.command_line.wakeup import Wakeup
from runtime.errors import UsageError
from runtime.serving.gate import Counts, Gate, require_library

ADDRESS: Final = "127.0.0.1"
"""Address that other machines cannot reach; a proxy with authentication can make the server available to them."""

_IDLE: Final = 30.0
"""Seconds in which a connection must have sent the headers of a request."""

_TURNS: Final = 8
"""Upper bound on the turns of the loop until a connection is open, or closed."""

_WAITING_CONNECTIONS: Final = 512
"""Number of connections that may wait to be accepted."""


class Stop:
    """A switch that stops a server, from any thread or signal handler, at any time."""

    def __init__(self) -> None:
        self._asked = False
        self._act: Callable[[], object] = lambda: None

    def __call__(self) -> None:
        """Stop the server."""
        self._asked = True
        self._act()

    def at_signal(self, error: Callable[[], BaseException]) -> None:
        """Stop the server; this is the callback for `Interrupts.hold`."""
        del error
        self()

    def tell(self, act: Callable[[], object]) -> None:
        """Stop the server by `act` from now on, and call it at once if a stop was requested already."""
        self._act = act
        if self._asked:
            act()


class Served(NamedTuple):
    """The counts of a server, and True if it answered every accepted request."""

    counts: Counts
    is_whole: bool


def listen(port: int, host: str = ADDRESS) -> socket.socket:
    """Return a socket at a port of an address, any free one for 0; raise UsageError if it cannot be used."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise UsageError(f"--host {host}: this is no address of a machine: {error.strerror}") from None
    taken = socket.socket(family, kind)
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind(address)
    except OSError as error:
        taken.close()
        raise UsageError(f"port {port} of {host} cannot be used: {error.strerror}; name another by --port") from None
    return taken


def answer(
    endpoints: Gate,
    taken: socket.socket,
    *,
    stop: Stop,
    ready: Callable[[], None],
    seconds: float | None = None,
) -> Served:
    """Answer requests until `stop` is called or `seconds` are over; then answer the accepted ones.

    Args:
        endpoints: answer the requests; they are closed at the end.
        taken: socket of `listen`.
        stop: switch that ends the server.
        ready: callback once requests are accepted.
        seconds: time after which the server stops by itself.
    """
    try:
        return Served(endpoints.counts, asyncio.run(_serve(endpoints, taken, stop, ready, seconds)))
    finally:
        endpoints.close()


async def _serve(
    endpoints: Gate, taken: socket.socket, stop: Stop, ready: Callable[[], None], seconds: float | None
) -> bool:
    web, limits, report = require_library(), endpoints.limits, endpoints.report
    server = web.Server(
        endpoints.answer,
        access_log=None,
        logger=_logger(report),
        auto_decompress=False,
        keepalive_timeout=_IDLE,
        handler_cancellation=True,  # requests of clients that have left are cancelled
    )
    runner = web.ServerRunner(server, shutdown_timeout=limits.seconds)
    await runner.setup()
    taken.setblocking(False)
    taken.listen(_WAITING_CONNECTIONS)
    loop = asyncio.get_running_loop()
    accepting = loop.create_task(endpoints.connections.accept(server, taken))
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
    accepting.cancel()
    await asyncio.wait({accepting})
    await _settle()  # the server must be open until it knows the accepted connections
    taken.close()
    server.pre_shutdown()
    await endpoints.end(until)
    is_whole = loop.time() < until
    await runner.cleanup()
    await _settle()  # until the connections are closed
    await asyncio.to_thread(endpoints.close)  # the thread hands its results to this loop
    return is_whole


async def _settle() -> None:
    """Let the loop open or close the connections that it has begun to open or close."""
    for _ in range(_TURNS):
        await asyncio.sleep(0)


@contextmanager
def _woken_by_signals(loop: asyncio.AbstractEventLoop) -> Generator[None]:
    """Let the loop notice a signal that comes just before it waits for requests."""
    if sys.platform == "win32":  # the loop of Windows does so by itself
        yield
        return
    with Wakeup() as wakeup:
        loop.add_reader(wakeup, wakeup.wait)
        try:
            yield
        finally:
            loop.remove_reader(wakeup)


def _logger(report: Callable[[str], None]) -> logging.Logger:
    """Return a logger that reports faults of the library in a sentence.

    It drops the faults of clients, who get an answer instead.
    """

    def emit(record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if not type(error).__module__.startswith("aiohttp."):  # its own errors concern the content of requests
            report(f"{record.getMessage()}: {error}")

    handler = logging.Handler(logging.ERROR)
    handler.emit = emit
    logger = logging.Logger("serving", logging.ERROR)
    logger.addHandler(handler)
    return logger
