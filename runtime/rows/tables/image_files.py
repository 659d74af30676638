"""Images as arrays of bytes: the paths of those in a folder, and the pixels of each."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np

from prograd_proto.regular_files import open_regular
from runtime.dtypes import Array
from runtime.errors import DataError, ResourceLimit
from runtime.memory.limit import NO_LIMIT, MemoryLimit
from runtime.rows.encoding.images import Images
from runtime.rows.table_names import IMAGES
from runtime.rows.tables.extras import extra

_log = logging.getLogger("prograd")

MAX_PIXELS: Final = 1 << 26
"""Upper bound on the pixels of an image."""

PIXEL_BYTES: Final = 12
"""Upper bound on the bytes that decoding takes for a pixel."""

_WIDE: Final = ("I", "F")
"""Pillow's modes with more than 8 bits in a channel."""


class Decoded(NamedTuple):
    """An image: uint8 [height, width, channels], if some pixels are clear, and if frames follow that are not read."""

    pixels: Array
    is_clear: bool
    has_more: bool


class Unread:
    """The images of which clear pixels are taken as opaque, or frames are left out."""

    def __init__(self) -> None:
        self._count = 0
        self._clear: list[str] = []
        self._longer: list[str] = []

    def pixels(self, name: str, image: Decoded) -> Array:
        """Return the pixels of an image, and count it."""
        self._count += 1
        self._clear += [name] if image.is_clear else []
        self._longer += [name] if image.has_more else []
        return image.pixels

    def warn(self) -> None:
        """Warn of each kind, if there are such images."""
        self._say(self._longer, "have several frames or pages", "the first one of each is read")
        self._say(self._clear, "have transparent pixels", "their colours are kept as if they were opaque")

    def _say(self, names: Sequence[str], what: str, done: str) -> None:
        if names:
            _log.warning(
                "%d of %d images %s, %s the first; %s",
                *(len(names), self._count, what, names[0], done),
                extra={"replaced": (what, len(names))},
            )


def image_paths(folder: Path) -> list[Path]:
    """Return the images of a folder in the order of their paths, without hidden files and folders; or one image.

    Raises DataError for a folder without images, a link that leads out of the folder, a link to a folder, or an image
    that is no regular file.
    """
    if not folder.is_dir():
        return [folder]
    root = folder.resolve()
    found: list[Path] = []
    for path in sorted(folder.rglob("*")):
        if any(part.startswith(".") for part in path.relative_to(folder).parts):
            continue
        is_image = path.suffix.lower() in IMAGES and not path.is_dir()
        if path.is_symlink() and (is_image or path.is_dir() or not path.exists()):
            _require_inside(folder, root, path)
        if not is_image:
            continue
        if not path.is_file():
            raise DataError(f"{path}: the image cannot be read: this is not a regular file")
        found.append(path)
    if not found:
        raise DataError(f"{folder}: there are no images in this folder; their names end in {', '.join(IMAGES)}")
    return found


def image_names(paths: Sequence[Path], folder: Path) -> Array:
    """Return the names of images: their paths within the folder, or that of the file alone; texts as objects."""
    names = np.empty(len(paths), object)
    names[:] = [path.relative_to(folder).as_posix() if path != folder else path.name for path in paths]
    return names


def _require_inside(folder: Path, root: Path, link: Path) -> None:
    """Raise DataError unless a link leads to a file in `folder`, whose resolved path is `root`.

    Every folder inside is searched anyway, so a link to it would only pack its images twice, or never end.
    """
    try:
        target = link.resolve(strict=True)
    except (OSError, RuntimeError):  # a broken link, or a loop
        raise DataError(f"{link}: this link leads nowhere; remove it") from None
    if not target.is_relative_to(root):
        raise DataError(f"{link}: this link leads out of {folder}, to {target}; copy what it leads to into the folder")
    if target.is_dir():
        inside = folder / target.relative_to(root)
        raise DataError(f"{link}: this link leads to {inside}, whose images are packed already; remove it")


def images_like(paths: Sequence[Path], like: Images, memory: MemoryLimit) -> Array:
    """Return images as uint8 [rows, height, width, channels], of the size and channels of those that were packed.

    Raises DataError for an image that cannot be read, or has another size where images were not resized; UsageError
    without pillow; ResourceLimit if they do not fit into the memory.
    """
    nbytes = len(paths) * like.height * like.width * like.channels
    memory.take(nbytes, "the images")
    images = np.empty((len(paths), like.height, like.width, like.channels), np.uint8)
    memory.note(images)
    unread = Unread()
    for number, path in enumerate(paths):
        with _read(path) as file:
            images[number] = unread.pixels(str(path), image_like(str(path), file, like))
    unread.warn()
    return images


def image_like(name: str, file: BinaryIO, like: Images, memory: MemoryLimit = NO_LIMIT) -> Decoded:
    """Return the image in a file, of the size and channels of those that were packed; errors name it `name`.

    Raises ResourceLimit if decoding takes more memory than there is.
    """
    size = (like.height, like.width) if like.resized else None
    decoded = _decoded(name, file, size, like.channels == 1, memory)
    image = decoded.pixels
    if image.shape != (like.height, like.width, like.channels):
        found, wanted = (f"{height} x {width}" for height, width in (image.shape[:2], (like.height, like.width)))
        raise DataError(f"{name}: the image is {found}, and those packed are {wanted}; resize it to {wanted}")
    return decoded


def image_of(path: Path, size: tuple[int, int] | None, grey: bool) -> Decoded:
    """Return an image, rotated by its tag."""
    with _read(path) as file:
        return _decoded(str(path), file, size, grey)


@contextmanager
def _read(path: Path) -> Generator[BinaryIO]:
    try:
        with open_regular(path) as file:
            yield file
    except OSError as error:
        raise _unreadable(str(path), error) from None


def _unreadable(name: str, error: Exception) -> DataError:
    said = getattr(error, "strerror", None) or _said(error)
    return DataError(f"{name}: the image cannot be read: {said}")


def _decoded(
    name: str, file: BinaryIO, size: tuple[int, int] | None, grey: bool, memory: MemoryLimit = NO_LIMIT
) -> Decoded:
    image, ops = extra("PIL.Image", "reading images"), extra("PIL.ImageOps", "reading images")
    try:
        with _opened(image, file) as opened, memory.lent(PIXEL_BYTES * opened.height * opened.width, "the image"):
            wide, clear, more = _is_wide(opened), _has_clear_pixels(opened), _has_more(opened)
            ops.exif_transpose(opened, in_place=True)
            wanted = "L" if grey else "RGB"
            picture = opened if opened.mode == wanted else opened.convert(wanted)
            if size is not None:
                picture = picture.resize(size[::-1])
            array = np.asarray(picture, np.uint8)
    except ResourceLimit:
        raise
    except Exception as error:
        raise _unreadable(name, error) from None
    if wide:
        raise DataError(f"{name}: the image has more than 8 bits for each channel; save it with 8, as values are uint8")
    return Decoded(array.reshape(*array.shape[:2], -1), clear, more)


def _is_wide(opened: Any) -> bool:
    """Return True for more than 8 bits in a channel, of which Pillow keeps 8 in images with colours."""
    if opened.mode.startswith(_WIDE):
        return True
    stored: list[tuple[str, object]] = [(tile[0], tile[-1]) for tile in opened.tile]  # a codec and its arguments
    return any(";16" in str(how) or (codec.startswith("ppm") and _levels(how) > 255) for codec, how in stored)


def _levels(how: Any) -> int:
    """Return the largest value of a channel in a portable pixmap."""
    return how[-1] if isinstance(how[-1], int) else 255


def _has_clear_pixels(opened: Any) -> bool:
    """Return True if some pixels are not opaque."""
    return opened.has_transparency_data and opened.convert("RGBA").getchannel("A").getextrema()[0] < 255


def _has_more(opened: Any) -> bool:
    """Return True for frames or pages behind the first; photographs with a second view of the same scene have none."""
    return opened.format != "MPO" and bool(getattr(opened, "is_animated", False))


def _opened(image: Any, file: BinaryIO) -> Any:
    """Open an image. Raise ValueError, before pixels are decoded, if there are more than `MAX_PIXELS`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow's own limit
        opened = image.open(file)
    height, width = opened.height, opened.width
    if height * width > MAX_PIXELS:
        raise ValueError(f"it has {height} x {width} pixels, and at most {MAX_PIXELS} are read; make it smaller before")
    return opened


def _said(error: Exception) -> str:
    text = str(error).partition("\n")[0]
    return "it is none that pillow knows, or is damaged" if "cannot identify" in text else text
