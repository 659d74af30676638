"""Reads a file from its first byte to its last, and can hash on the way, so the bytes used are the bytes hashed.

The reader does not map files into memory. A mapped file that is truncated ends the process by a signal, and one that is
written to yields other bytes than those that were verified.
"""

from __future__ import annotations

import os
from io import BufferedReader
from typing import Final, Protocol

from runtime.memory.limit import NO_LIMIT, MemoryLimit

_CHUNK: Final = 1 << 20


class Digest(Protocol):
    """A hash object of `hashlib`."""

    def update(self, data: bytes | memoryview, /) -> None:
        """Add bytes to the hash."""
        ...

    def digest(self) -> bytes:
        """Return the hash of all bytes so far."""
        ...


class FileReader:
    """The bytes of an open file in order; a digest, if there is one, hashes all bytes that are read or skipped.

    `nbytes` is the size when the file was opened, `status` its status then. `memory` is asked before arrays are
    allocated.
    """

    def __init__(self, stream: BufferedReader, digest: Digest | None = None, memory: MemoryLimit = NO_LIMIT) -> None:
        self.status = os.fstat(stream.fileno())
        self.nbytes = self.status.st_size
        self._stream = stream
        self._digest = digest
        self.memory = memory

    def fill(self, out: memoryview) -> None:
        """Read as many bytes as `out` has; raise ValueError if there are fewer."""
        while len(out):
            count = self._stream.readinto(out)
            if not count:
                raise ValueError("it ends too early")
            self._note(out[:count])
            out = out[count:]

    def take(self, count: int) -> bytearray:
        """Return the next `count` bytes; raise ValueError if there are fewer."""
        out = bytearray(count)
        self.fill(memoryview(out))
        return out

    def skip(self, count: int) -> None:
        """Skip the next `count` bytes."""
        if self._digest is None:
            self._stream.seek(count, 1)
            return
        while count > 0:
            chunk = self._stream.read(min(count, _CHUNK))
            if not chunk:
                raise ValueError("it ends too early")
            self._note(chunk)
            count -= len(chunk)

    def rest(self) -> bytes:
        """Return all remaining bytes."""
        chunk = self._stream.read()
        self._note(chunk)
        return chunk

    def sha256(self) -> bytes:
        """Return the digest of the whole file, however much of it was read so far."""
        assert self._digest is not None, "only asked of a reader that hashes"
        while chunk := self._stream.read(_CHUNK):
            self._note(chunk)
        return self._digest.digest()

    def _note(self, chunk: bytes | memoryview) -> None:
        if self._digest is not None:
            self._digest.update(chunk)
