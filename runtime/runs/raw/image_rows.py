"""Images for an entry, decoded as those that were packed, and its fetches as values again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from runtime.dtypes import Array
from runtime.errors import DataError
from runtime.memory.limit import NO_LIMIT, MemoryLimit
from runtime.rows.tables.image_files import images_like
from runtime.runs.raw.answers import answers_of
from runtime.runs.session import Session


class ImageRows:
    """The conversion of images for one entry.

    Attributes:
        images: sizes of the packed images, by feed.
        answers: the meaning of its fetches.
    """

    def __init__(self, session: Session, entry: str, decode: Mapping[str, str] | None = None) -> None:
        """Prepare an entry; raise DataError if one of its feeds was not packed of images."""
        bound, encoding = session.bindings(entry)[0], session.data.encoding()
        keys = {column.feed: column.key for column in session.program.data.columns}
        odd = next((feed for feed in bound.feeds if keys.get(feed) not in encoding.images), None)
        if odd is not None:
            raise DataError(f"the entry {entry!r} reads {odd!r}, which was packed of no images")
        self.images = {feed: encoding.images[keys[feed]] for feed in bound.feeds}
        self.answers = answers_of(session.program, bound, encoding, decode)

    @property
    def row_bytes(self) -> int:
        """The bytes of a row of the largest feed."""
        return max(like.height * like.width * like.channels for like in self.images.values())

    def feeds(self, paths: Sequence[Path], memory: MemoryLimit = NO_LIMIT) -> dict[str, Array]:
        """Return the arrays by feed for image files; for errors see `images_like`."""
        return {feed: images_like(paths, like, memory) for feed, like in self.images.items()}
