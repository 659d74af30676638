"""Access to the server: the token that requests must bring, the log of requests, and the counts for Prometheus."""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, NamedTuple

from prograd_proto.printable import MAX_WORD_CHARACTERS, sentence
from prograd_proto.regular_files import read_regular_text
from runtime.errors import UsageError
from runtime.memory.limit import peak_rss
from runtime.serving.connections import Connections

TOKEN_VARIABLE: Final = "PROGRAD_TOKEN"
"""Environment variable that has the token if no file is named; an option would show it to other users."""

MIN_TOKEN_CHARACTERS: Final = 16
"""Least number of characters of a token."""

MAX_TOKEN_BYTES: Final = 1 << 16
"""Largest number of bytes of a file with a token."""

BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds in seconds of the buckets of the histogram of times."""


class Access(NamedTuple):
    """Hold the token that clients must send, and the function that logs requests.

    Attributes:
        token: the token that every request must bring; None for none.
        log: gets a line for each request; None for no log.
    """

    token: bytes | None = None
    log: Callable[[str], None] | None = None

    def permits(self, header: str) -> bool:
        """Return True if the header `Authorization` has the token, or none is required."""
        if self.token is None:
            return True
        kind, _, given = header.partition(" ")
        sent = given.strip().encode("utf-8", "surrogateescape")
        return kind.lower() == "bearer" and hmac.compare_digest(sent, self.token)


def read_token(file: Path | None) -> bytes | None:
    """Return the token in a file, or that of the environment, or None; raise UsageError for a bad one."""
    if file is None:
        text, where = os.environ.get(TOKEN_VARIABLE), TOKEN_VARIABLE
        if text is None:
            return None
    else:
        where = str(file)
        try:
            text = read_regular_text(file, MAX_TOKEN_BYTES)
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is no text in UTF-8"
            raise UsageError(f"--token-file {file}: the token cannot be read: {why}") from None
    token = text.strip()
    if len(token) < MIN_TOKEN_CHARACTERS or not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(
            f"{where}: a token has at least {MIN_TOKEN_CHARACTERS} letters, digits and signs, without spaces; "
            "openssl rand -hex 32 prints one"
        )
    return token.encode()


def is_local(host: str) -> bool:
    """Return True for an address that only this machine reaches."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def require_token(host: str, token: bytes | None) -> None:
    """Raise UsageError for an address that other machines reach while no token protects it."""
    if token is None and not is_local(host):
        raise UsageError(
            f"--host {host}: other machines reach this address, so requests must bring a token; "
            f"name a file with it by --token-file, or set {TOKEN_VARIABLE}"
        )


def log_line(request: Any, status: int, nbytes: int, seconds: float) -> str:
    """Return the line of a request, in the common log format with its seconds at the end."""
    when = datetime.now(UTC).strftime("%d/%b/%Y:%H:%M:%S +0000")
    what = sentence(f"{request.method} {request.raw_path}", MAX_WORD_CHARACTERS).replace('"', "%22")
    return f'{request.remote or "-"} - - [{when}] "{what} HTTP/1.1" {status} {nbytes} {seconds:.6f}'


class Times:
    """A histogram of the seconds that answers took."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS) + 1)
        self._sum = 0.0

    def add(self, seconds: float) -> None:
        """Count an answer."""
        at = next((place for place, bound in enumerate(BOUNDS) if seconds <= bound), len(BOUNDS))
        self._counts[at] += 1
        self._sum += seconds

    def lines(self, name: str) -> list[str]:
        """Return the lines of the histogram in the text format of Prometheus."""
        found, total = [f"# HELP {name} Seconds from a request to its answer.", f"# TYPE {name} histogram"], 0
        for bound, count in zip((*BOUNDS, "+Inf"), self._counts, strict=True):
            total += count
            found.append(f'{name}_bucket{{le="{bound}"}} {total}')
        return [*found, f"{name}_sum {self._sum:.9g}", f"{name}_count {total}"]


def metrics_text(counts: Mapping[str, int], waiting: int, computed: int, times: Times, connections: Connections) -> str:
    """Return all counts in the text format of Prometheus, version 0.0.4."""
    lines = [
        "# HELP prograd_requests_total Requests for predictions by their outcome.",
        "# TYPE prograd_requests_total counter",
        *(f'prograd_requests_total{{outcome="{name}"}} {counts[name]}' for name in ("answered", "refused", "failed")),
    ]
    for name, kind, help, value in (
        ("prograd_rows_total", "counter", "Rows of answered requests.", counts["rows"]),
        ("prograd_unanswered_rows_total", "counter", "Rows whose values were NaN or null.", counts["unanswered"]),
        (
            "prograd_computations_total",
            "counter",
            "Computations, each of the rows of one or several requests.",
            computed,
        ),
        ("prograd_waiting_requests", "gauge", "Requests that are not computed yet.", waiting),
        ("prograd_connections", "gauge", "Open connections.", connections.open),
        (
            "prograd_connections_dropped_total",
            "counter",
            "Idle connections that were closed to make room for new ones.",
            connections.dropped,
        ),
        (
            "prograd_accept_errors_total",
            "counter",
            "Faults of the system in accepting connections.",
            connections.unaccepted,
        ),
        ("prograd_peak_memory_bytes", "gauge", "Largest resident memory of the process so far.", peak_rss()),
    ):
        lines += [f"# HELP {name} {help}", f"# TYPE {name} {kind}", f"{name} {value}"]
    return "\n".join([*lines, *times.lines("prograd_request_seconds")]) + "\n"
