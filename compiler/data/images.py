"""Folders of images: each subfolder is a class with its images."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

import numpy as np

from compiler.data.options import PackOptions
from prograd_proto import TensorType
from prograd_proto.wording import as_asked
from runtime.dtypes import Array, array_type
from runtime.errors import DataError
from runtime.rows.encoding.encoding import Encoding
from runtime.rows.encoding.images import Images
from runtime.rows.tables.image_files import Unread, image_of, image_paths

_log = logging.getLogger("prograd")

_SPLITS: Final = frozenset({"train", "training", "val", "valid", "validation", "test", "testing", "dev"})


def read_images(folder: Path, options: PackOptions, like: Images | None) -> tuple[Array, Array, Images]:
    """Return images as uint8 [rows, height, width, channels], their folders' names, and their sizes.

    The rows are in the order of the paths. With `like`, new images get the size and channels of those that were packed.

    Raises DataError for a folder without images, an image that cannot be read, or one of another size; UsageError
    without pillow.
    """
    paths = image_paths(folder)
    _require_classes(folder, paths)
    size = options.size or ((like.height, like.width) if like is not None and like.resized else None)
    grey = options.grey or (like is not None and like.channels == 1)
    shape = image_of(paths[0], size, grey).pixels.shape if like is None else (like.height, like.width, like.channels)
    images = np.empty((len(paths), *shape), np.uint8)
    unread = Unread()
    for number, path in enumerate(paths):
        image = unread.pixels(str(path), image_of(path, size, grey))
        if image.shape != shape:
            raise DataError(
                _other_size(path, image.shape, shape, "those packed" if like is not None else "those before")
            )
        images[number] = image
    unread.warn()
    labels = np.empty(len(paths), object)
    labels[:] = [path.relative_to(folder).parts[0] if path.parent != folder else "" for path in paths]
    return images, labels, Images(*shape, resized=size is not None)


def _require_classes(folder: Path, paths: list[Path]) -> None:
    """Raise DataError if some images lie in no class, or if the folders are splits instead of classes."""
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
        packed = TensorType("uint8", ("rows", *shape))
        raise DataError(f"{name!r} is {array_type(array)}, and the packed images are {packed}")


def _other_size(path: Path, found: tuple[int, ...], shape: tuple[int, ...], others: str) -> str:
    return (
        f"{path}: the image is {found[0]} x {found[1]}, {others} are {shape[0]} x {shape[1]}; "
        f"make them alike by {as_asked(f'--size {shape[0]}x{shape[1]}', f'size=({shape[0]}, {shape[1]})')}"
    )
