"""Memory for code: written first, then executable, never both.

macOS on arm64 lets a process that is not hardened change the protection of pages, as Linux and Windows do. A hardened
process is refused, and so is one that SELinux or a filter of system calls restricts: then the native engine is not
available.
"""

from __future__ import annotations

import ctypes
import sys

from runtime.engines.native.objects.image import PAGE, Image

if sys.platform == "win32":
    from runtime.engines.native.objects.windows import allow, map_pages
else:
    from runtime.engines.native.objects.posix import allow, map_pages


class Pages:
    """An image in memory, for as long as this object lives.

    Attributes:
        start: address of its first byte.
        nbytes: length of the image.
    """

    def __init__(self, image: Image) -> None:
        """Map the image; raise Unavailable if the system forbids executable memory."""
        self.nbytes = len(image.content)
        self._memory, self.start = map_pages(self.nbytes)
        ctypes.memmove(self.start, image.content, len(image.content))
        allow(self.start, len(image.content), executed=False)
        allow(self.start, image.code_bytes, executed=True)


def check_executable() -> None:
    """Raise Unavailable if the system forbids executable memory."""
    Pages(Image(bytes(PAGE), PAGE, {}))
