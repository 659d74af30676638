"""Folders of images: each subfolder is a class with its images."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np

from compiler.data.options import PackOptions
from prograd_proto.regular_files import open_regular
from prograd_proto.wording import as_asked
from runtime.dtypes import Array, array_type
from runtime.errors import DataError
from runtime.rows.encoding.encoding import Encoding
from runtime.rows.encoding.images import Images
from runtime.rows.tables.extras import extra

_log = logging.getLogger("prograd")

_SUFFIXES: Final = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")

_SPLITS: Final = frozenset({"train", "training", "val", "valid", "validation", "test", "testing", "dev"})

MAX_PIXELS: Final = 1 << 26
"""Upper bound on the pixels of an image; decoding takes up to 12 bytes for each."""

_WIDE: Final = ("I", "F")
"""Pillow's modes with more than 8 bits in a channel."""


def read_images(folder: Path, options: PackOptions, like: Images | None = None) -> tuple[Array, Array, Images]:
    """Return images as uint8 [rows, height, width, channels], their folders' names, and their sizes.

    The rows are in the order of the paths. With `like`, new images get the size and channels of those that were packed.

    Raises DataError for a folder without images, an image that cannot be read, or one of another size; UsageError
    without pillow.
    """
    paths = _paths(folder)
    if not paths:
        raise DataError(f"{folder}: there are no images in this folder; their names end in {', '.join(_SUFFIXES)}")
    _require_classes(folder, paths)
    size = options.size or ((like.height, like.width) if like is not None and like.resized else None)
    grey = options.grey or (like is not None and like.channels == 1)
    shape = _image(paths[0], size, grey)[0].shape if like is None else (like.height, like.width, like.channels)
    images = np.empty((len(paths), *shape), np.uint8)
    clear: list[Path] = []
    for number, path in enumerate(paths):
        image, is_clear = _image(path, size, grey)
        clear += [path] if is_clear else []
        if image.shape != shape:
            raise DataError(
                _other_size(path, image.shape, shape, "those packed" if like is not None else "those before")
            )
        images[number] = image
    if clear:
        _log.warning(
            "%d of %d images have transparent pixels, %s the first; their colours are kept as if they were opaque",
            *(len(clear), len(paths), clear[0]),
        )
    labels = np.empty(len(paths), object)
    labels[:] = [path.relative_to(folder).parts[0] if path.parent != folder else "" for path in paths]
    return images, labels, Images(*shape, resized=size is not None)


def _paths(folder: Path) -> list[Path]:
    """Return the images of a folder in the order of their paths, without hidden files and folders.

    Raises DataError for a link that leads out of the folder, a link to a folder, or an image that is no regular file.
    """
    root = folder.resolve()
    found: list[Path] = []
    for path in sorted(folder.rglob("*")):
        if any(part.startswith(".") for part in path.relative_to(folder).parts):
            continue
        is_image = path.suffix.lower() in _SUFFIXES and not path.is_dir()
        if path.is_symlink() and (is_image or path.is_dir() or not path.exists()):
            _require_inside(folder, root, path)
        if not is_image:
            continue
        if not path.is_file():
            raise DataError(f"{path}: the image cannot be read: this is not a regular file")
        found.append(path)
    return found


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


def _require_classes(folder: Path, paths: list[Path]) -> None:
    """Raise DataError for images some of which lie in no class, or whose folders are splits."""
    alone = sum(path.parent == folder for path in paths)
    if alone not in (0, len(paths)):
        raise DataError(
            f"{folder}: {alone} of {len(paths)} images lie in no folder of a class; move them, or those in folders"
        )
    names = sorted({path.relative_to(folder).parts[0] for path in paths})
    deep = all(len(path.relative_to(folder).parts) > 2 for path in paths)
    if deep and {name.lower() for name in names} <= _SPLITS:
        raise DataError(
            f"{folder}: the folders {', '.join(names)} are splits, and no classes; pack each: "
            + as_asked(
                f"compiler data pack {folder / names[-1]} -o {names[-1]}.safetensors, "
                "and the others likewise, with --like that file",
                f"pack({str(folder / names[-1])!r}, '{names[-1]}.safetensors'), "
                "and the others likewise, with like= that file",
            )
        )


def like_images(folder: Path, like: Encoding) -> Images:
    """Return the sizes of the images of a packed file. Raise DataError if it has none."""
    if "image" not in like.images:
        raise DataError(f"{folder}: this is a folder of images, and the packed rows were made of none")
    return like.images["image"]


def require_alike(name: str, array: Array, images: Images) -> None:
    """Raise DataError unless an array has images of these sizes."""
    shape = (images.height, images.width, images.channels)
    if array.shape[1:] != shape:
        raise DataError(
            f"{name!r} is {array_type(array)}, and the packed images are uint8{['rows', *shape]}".replace(
                "'rows'", "rows"
            )
        )


def _image(path: Path, size: tuple[int, int] | None, grey: bool) -> tuple[Array, bool]:
    """Return an image as uint8 [height, width, channels], rotated by its tag, and if it has clear pixels."""
    image, ops = extra("PIL.Image", "reading images"), extra("PIL.ImageOps", "reading images")
    try:
        with open_regular(path) as file, _opened(image, file) as opened:
            wide, clear = _is_wide(opened), _has_clear_pixels(opened)
            ops.exif_transpose(opened, in_place=True)
            wanted = "L" if grey else "RGB"
            picture = opened if opened.mode == wanted else opened.convert(wanted)
            if size is not None:
                picture = picture.resize(size[::-1])
            array = np.asarray(picture, np.uint8)
    except OSError as error:
        said = _said(error) if error.strerror is None else error.strerror
        raise DataError(f"{path}: the image cannot be read: {said}") from None
    except Exception as error:
        raise DataError(f"{path}: the image cannot be read: {_said(error)}") from None
    if wide:
        raise DataError(f"{path}: the image has more than 8 bits for each channel; save it with 8, as values are uint8")
    return array.reshape(*array.shape[:2], -1), clear


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


def _other_size(path: Path, found: tuple[int, ...], shape: tuple[int, ...], others: str) -> str:
    return (
        f"{path}: the image is {found[0]} x {found[1]}, {others} are {shape[0]} x {shape[1]}; "
        f"make them alike by {as_asked(f'--size {shape[0]}x{shape[1]}', f'size=({shape[0]}, {shape[1]})')}"
    )
