"""Connections of the server: a bounded number, of which idle ones make room for new ones.

1. A connection is idle while it has no request whose headers have arrived, and all of its answers are sent.
2. A new connection is accepted if fewer than `most` are open. Otherwise the connection that has been idle for the
   longest time is closed; if none is idle, the new one waits to be accepted.
3. If the system cannot accept a connection, for want of file descriptors or memory, the server counts the fault,
   reports the first one, and tries again after a pause.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

MAX_CONNECTIONS: Final = 1000
"""Upper bound on the connections that are open at a time."""

MIN_CONNECTIONS: Final = 8
"""Least number of connections that are open at a time, however few files the process may open."""

RESERVED_FILES: Final = 32
"""File descriptors that are left for anything but connections."""

PAUSE_SECONDS: Final = 0.02
"""Seconds after which a connection is accepted that could not be."""

FRESH_SECONDS: Final = 0.05
"""Seconds in which a new connection is not closed, as its first request is on its way."""


ANSWER_SECONDS: Final = 1.0
"""Seconds after a request in which its connection is not closed, as the answer is on its way."""


class Connections:
    """The connections of a server.

    Attributes:
        most: upper bound on the connections that are open at a time.
        dropped: number of idle connections that were closed to make room.
        unaccepted: number of faults of the system in accepting connections.
    """

    def __init__(self, most: int, report: Callable[[str], None]) -> None:
        self.most = most
        self.dropped = 0
        self.unaccepted = 0
        self._report = report
        self._idle: dict[Any, float] = {}  # the time from which each may be closed, in the order of their last use
        self._server: Any = None

    @property
    def open(self) -> int:
        """The number of open connections."""
        return 0 if self._server is None else len(self._server.connections)

    def begin(self, connection: Any) -> None:
        """Note that the headers of a request have arrived on a connection."""
        self._idle.pop(connection, None)

    def end(self, connection: Any) -> None:
        """Note that the request of a connection is answered."""
        if connection.transport is not None and not connection.transport.is_closing():
            self._idle[connection] = asyncio.get_running_loop().time() + ANSWER_SECONDS

    async def accept(self, server: Any, taken: socket.socket) -> None:
        """Accept connections at a socket, each served by a protocol that `server()` returns, until it is cancelled."""
        self._server = server
        loop = asyncio.get_running_loop()
        while True:
            await self._make_room()
            try:
                client = await _accepted(taken)
            except OSError as error:
                self._failed(error)
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            connection = server()
            self._idle[connection] = loop.time() + FRESH_SECONDS  # before its first request may begin
            opening = loop.create_task(loop.connect_accepted_socket(lambda made=connection: made, client))
            try:
                await asyncio.shield(opening)
                self._forget_closed()
            except OSError:  # the client has left already
                self._idle.pop(connection, None)
                client.close()
            except asyncio.CancelledError:
                await asyncio.wait({opening})  # the server closes it like all others
                raise

    async def _make_room(self) -> None:
        now = asyncio.get_running_loop().time
        while self.open >= self.most:
            idle = next((one for one, since in self._idle.items() if since <= now() and not _is_sending(one)), None)
            if idle is None:
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            del self._idle[idle]
            if idle.transport is not None and not idle.transport.is_closing():
                self.dropped += 1
                idle.transport.abort()
            await asyncio.sleep(0)  # the loop closes the connection

    def _forget_closed(self) -> None:
        """Forget connections that their clients have closed, once these are more than the others."""
        if len(self._idle) > 2 * self.open + MIN_CONNECTIONS:
            self._idle = {one: since for one, since in self._idle.items() if one.transport is not None}

    def _failed(self, error: OSError) -> None:
        self.unaccepted += 1
        if self.unaccepted == 1:
            self._report(
                f"warning: a connection cannot be accepted: {(error.strerror or str(error)).lower()}; "
                "/metrics counts further ones"
            )


async def _accepted(taken: socket.socket) -> socket.socket:
    """Return the next connection; unlike `sock_accept`, a cancellation cannot lose one that is accepted already."""
    loop = asyncio.get_running_loop()
    while True:
        ready = loop.create_future()
        loop.add_reader(taken, lambda ready=ready: ready.done() or ready.set_result(None))
        try:
            await ready
        finally:
            loop.remove_reader(taken)
        with suppress(BlockingIOError):  # another process has it, or the client has left
            client, _ = taken.accept()
            client.setblocking(False)
            return client


def _is_sending(connection: Any) -> bool:
    return connection.transport is not None and connection.transport.get_write_buffer_size() > 0


def most_connections() -> int:
    """Return the number of connections for which this process may have file descriptors, at most `MAX_CONNECTIONS`."""
    try:
        from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit
    except ImportError:  # Windows has no such limit
        return MAX_CONNECTIONS
    soft = getrlimit(RLIMIT_NOFILE)[0]
    if soft == RLIM_INFINITY:
        return MAX_CONNECTIONS
    return max(MIN_CONNECTIONS, min(MAX_CONNECTIONS, soft - _open_files() - RESERVED_FILES))


def _open_files() -> int:
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return 0
