"""The size and the channels of images, which new images must have too."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, cast


@dataclass(frozen=True)
class Images:
    """The properties of the images in an array [rows, height, width, channels].

    Attributes:
        resized: True if they were resized to this size; False if all had it.
    """

    height: int
    width: int
    channels: int
    resized: bool

    def to_json(self) -> dict[str, Any]:
        """Return the fields."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: object) -> Images:
        """Return the images that `to_json` described; raise ValueError for anything else."""
        given = cast(dict[str, object], values) if isinstance(values, dict) else {}
        sizes = [given.get(name) for name in ("height", "width", "channels")]
        sane = len(given) == 4 and type(given.get("resized")) is bool
        if not sane or not all(type(size) is int and 0 < size < 1 << 31 for size in sizes):
            raise ValueError("images are not as they were written")
        return cls(*cast(list[int], sizes), resized=bool(given["resized"]))
