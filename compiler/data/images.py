"""Folders of images: each folder in it is a class, and has the images of it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from compiler.data.extras import extra
from compiler.data.options import PackOptions
from compiler.errors import DataError
from runtime.dtypes import Array

_SUFFIXES: Final = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")


def read_images(folder: Path, options: PackOptions) -> tuple[Array, Array]:
    """uint8 [rows, height, width, channels] and the names of the folders as texts, in the order of the paths.

    Raises DataError for a folder without images, an image that cannot be read, or one of another size;
    UsageError without pillow.
    """
    paths = [path for path in sorted(folder.rglob("*")) if path.suffix.lower() in _SUFFIXES and path.is_file()]
    if not paths:
        raise DataError(f"{folder}: there are no images in this folder; their names end in {', '.join(_SUFFIXES)}")
    pil = extra("PIL.Image", "reading images")
    first = _image(pil, paths[0], options, None)
    images = np.empty((len(paths), *first.shape), np.uint8)
    for number, path in enumerate(paths):
        images[number] = _image(pil, path, options, first.shape)
    labels = np.empty(len(paths), object)
    labels[:] = [path.relative_to(folder).parts[0] if path.parent != folder else "" for path in paths]
    return images, labels


def _image(pil: object, path: Path, options: PackOptions, shape: tuple[int, ...] | None) -> Array:
    try:
        with pil.open(path) as opened:  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]: pillow need not be there
            image = opened.convert("L" if options.grey else "RGB")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]: nor its types
            if options.size is not None:
                image = image.resize(options.size[::-1])  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]: nor these
            array = np.asarray(image, np.uint8)  # pyright: ignore[reportUnknownArgumentType]: nor this
    except Exception as error:
        raise DataError(f"{path}: the image cannot be read: {str(error).splitlines()[0]}") from None
    array = array.reshape(*array.shape[:2], -1)
    if shape is not None and array.shape != shape:
        raise DataError(
            f"{path}: the image is {array.shape[0]} x {array.shape[1]}, those before are {shape[0]} x {shape[1]}; "
            "make them alike by --size HEIGHTxWIDTH"
        )
    return array
