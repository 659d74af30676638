"""The size and the channels of images, which new ones are to have."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, cast


@dataclass(frozen=True)
class Images:
    """What images of an array [rows, height, width, channels] are.

    Attributes:
        resized: whether they were made so large; else all were.
    """

    height: int
    width: int
    channels: int
    resized: bool

    def to_json(self) -> dict[str, Any]:
        """The fields."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: object) -> Images:
        """What `to_json` gave. Raises ValueError for anything else."""
        given = cast(dict[str, object], values) if isinstance(values, dict) else {}
        sizes = [given.get(name) for name in ("height", "width", "channels")]
        sane = len(given) == 4 and type(given.get("resized")) is bool
        if not sane or not all(type(size) is int and 0 < size < 1 << 31 for size in sizes):
            raise ValueError("images are not as they were written")
        return cls(*cast(list[int], sizes), resized=bool(given["resized"]))
