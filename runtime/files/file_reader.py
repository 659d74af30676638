"""Reads a file from its first byte to its last, and can hash on the way: what is used is what was hashed.

Plain reads, no mapping into memory: a mapped file that somebody cuts short ends the process by a signal, and one that
is written to gives other bytes than those that were verified.
"""

from __future__ import annotations

import os
from io import BufferedReader
from typing import Final, Protocol

from runtime.memory_limit import NO_LIMIT, MemoryLimit

_CHUNK: Final = 1 << 20


class Digest(Protocol):
    """What `hashlib` makes."""

    def update(self, data: bytes | memoryview, /) -> None:
        """Put more bytes into it."""
        ...

    def digest(self) -> bytes:
        """The hash of all bytes so far."""
        ...


class FileReader:
    """The bytes of an open file in order; with a digest, all that are read or skipped are put into it.

    `nbytes` is how many there were when it was opened, `status` what the system said of it then; `memory` is asked
    before arrays are made of them.
    """

    def __init__(self, stream: BufferedReader, digest: Digest | None = None, memory: MemoryLimit = NO_LIMIT) -> None:
        self.status = os.fstat(stream.fileno())
        self.nbytes = self.status.st_size
        self._stream = stream
        self._digest = digest
        self.memory = memory

    def fill(self, out: memoryview) -> None:
        """Read as many bytes as `out` has. Raises ValueError if there are fewer."""
        while len(out):
            count = self._stream.readinto(out)
            if not count:
                raise ValueError("it ends too early")
            self._note(out[:count])
            out = out[count:]

    def take(self, count: int) -> bytearray:
        """The next bytes. Raises ValueError if there are fewer."""
        out = bytearray(count)
        self.fill(memoryview(out))
        return out

    def skip(self, count: int) -> None:
        """Go on behind the next bytes."""
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
        """All bytes that are left."""
        chunk = self._stream.read()
        self._note(chunk)
        return chunk

    def sha256(self) -> bytes:
        """The digest of the whole file, whatever of it was read so far."""
        assert self._digest is not None, "only asked of a reader that hashes"
        while chunk := self._stream.read(_CHUNK):
            self._note(chunk)
        return self._digest.digest()

    def _note(self, chunk: bytes | memoryview) -> None:
        if self._digest is not None:
            self._digest.update(chunk)
