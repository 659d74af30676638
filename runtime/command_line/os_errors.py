"""Errors of the operating system about files, as sentences and as kinds."""

import errno
import os
from typing import Final

_FULL: Final = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC), errno.EFBIG)


def is_full(error: OSError) -> bool:
    """Return True if there is no space: on the disk, within a quota, or within the allowed size of a file."""
    return error.errno in _FULL


def os_sentence(error: OSError) -> str:
    """Return the file, if known, and the error: `x/y.npy: file name too long`."""
    reason = (error.strerror or str(error) or type(error).__name__).lower()
    name: object = error.filename
    return f"{os.fsdecode(name)}: {reason}" if isinstance(name, str | bytes) else reason
