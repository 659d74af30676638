"""Images in requests: the file itself, or files in base64 in JSON, as in `{"image": "iVBORw0KGgo…"}`.

Images are decoded one at a time, because each may take as much memory as the largest one that is read.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Mapping
from io import BytesIO
from threading import Lock
from typing import Final, cast

import numpy as np

from runtime.dtypes import Array
from runtime.errors import DataError
from runtime.memory.limit import MemoryLimit
from runtime.rows.tables.image_files import Unread, image_like
from runtime.runs.raw.image_rows import ImageRows
from runtime.runs.session import Session
from runtime.serving.bodies import Bytes
from runtime.serving.json_arrays import parsed
from runtime.serving.raw_requests import PARSED_BYTES
from runtime.serving.row_answers import RawRequest, RowAnswers

FORMS: Final = ("image/jpeg", "image/png", "image/webp", "image/bmp", "image/gif", "image/tiff")
"""Words of Content-Type for a body that is an image."""

_TEXT_FIRST: Final = re.compile(rb'\s*(?:\[\s*)?\{\s*"[^"\\]*"\s*:\s*"')
"""The beginning of JSON with an object whose first member is a text, and no array."""

_DATA_URL: Final = re.compile(r"data:image/[a-z+.-]+;base64,")


class ImageRequests:
    """The conversion of requests with images, for one entry.

    Attributes:
        forms: words of Content-Type for a body that is an image.
        columns: the members of a row, with their kinds.
        answers: the answers to images.
    """

    forms: tuple[str, ...] = FORMS

    def __init__(self, session: Session, entry: str, decode: Mapping[str, str]) -> None:
        """Prepare an entry; raise DataError if one of its feeds was not packed of images."""
        rows = ImageRows(session, entry, decode)
        self._images = rows.images
        self.columns = dict.fromkeys(self._images, "image")
        self.answers = RowAnswers(rows.answers)
        self._lock = Lock()

    def read(self, body: Bytes, memory: MemoryLimit, *, form: str, raw: bool | None = None) -> RawRequest | None:
        """Return the feeds for a body; None if it has arrays for feeds.

        Raises DataError for an image that cannot be read, ValueError for a body that is no JSON, ResourceLimit for too
        little memory.
        """
        if form in FORMS:
            return RawRequest(self._feeds([dict.fromkeys(self._images, bytes(body))], memory), is_one=True)
        if raw is False or not _TEXT_FIRST.match(bytes(body[:256])):
            return None
        memory.require(PARSED_BYTES * len(body), "the images of the body")
        given = parsed(body)
        rows = cast(list[object], given) if isinstance(given, list) else [given]
        files = [self._files(number, row) for number, row in enumerate(rows)]
        return RawRequest(self._feeds(files, memory), is_one=not isinstance(given, list))

    def _files(self, number: int, row: object) -> dict[str, bytes]:
        """Return the image files of a row by feed."""
        given = cast(dict[str, object], row) if isinstance(row, dict) else dict[str, object]()
        files: dict[str, bytes] = {}
        for feed in self._images:
            text = given.get(feed)
            if not isinstance(text, str):
                raise DataError(f"row {number} has no {feed!r}; give an image file in base64, as a text")
            url = _DATA_URL.match(text)
            try:
                files[feed] = b64decode(text if url is None else text[url.end() :], validate=True)
            except ValueError:
                raise DataError(f"row {number}: {feed!r} is not base64; encode the bytes of an image file") from None
        return files

    def _feeds(self, rows: list[dict[str, bytes]], memory: MemoryLimit) -> dict[str, Array]:
        found: dict[str, Array] = {}
        unread = Unread()
        for feed, like in self._images.items():
            memory.take(len(rows) * like.height * like.width * like.channels, "the images of the body")
            found[feed] = np.empty((len(rows), like.height, like.width, like.channels), np.uint8)
            memory.note(found[feed])
            for number, row in enumerate(rows):
                name = f"row {number}"
                with self._lock:
                    found[feed][number] = unread.pixels(name, image_like(name, BytesIO(row[feed]), like, memory))
        unread.warn()
        return found
