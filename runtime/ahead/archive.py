"""Static libraries: object files in the archive format of System V and GNU, with the index that linkers read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

MAGIC: Final = b"!<arch>\n"


def archive_of(members: Sequence[tuple[str, bytes, Sequence[str]]]) -> bytes:
    """Return an archive of object files: each with its name of at most 15 bytes, and the symbols that it defines.

    Times and owners are 0, so equal objects give equal archives.
    """
    names = [symbol.encode() + b"\0" for _, _, symbols in members for symbol in symbols]
    index_bytes = 4 + 4 * len(names) + sum(map(len, names))
    at = len(MAGIC) + 60 + _even(index_bytes)
    starts: list[int] = []
    for _, content, symbols in members:
        starts += [at] * len(symbols)
        at += 60 + _even(len(content))
    index = len(names).to_bytes(4, "big") + b"".join(start.to_bytes(4, "big") for start in starts) + b"".join(names)
    parts = [MAGIC, _member("/", index)]
    parts += [_member(f"{name}/", content) for name, content, _ in members]
    return b"".join(parts)


def _member(name: str, content: bytes) -> bytes:
    head = f"{name:<16}{0:<12}{0:<6}{0:<6}{'644':<8}{len(content):<10}`\n"
    return head.encode() + content + b"\n" * (len(content) % 2)


def _even(size: int) -> int:
    return size + size % 2
