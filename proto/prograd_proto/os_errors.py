"""What the system says when a file cannot be had, as a sentence and as a kind."""

import errno
import os
from typing import Final

_FULL: Final = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC), errno.EFBIG)


def is_full(error: OSError) -> bool:
    """Return True if there is no room: on the disk, within a quota, or in a file of the size that is allowed."""
    return error.errno in _FULL


def os_sentence(error: OSError) -> str:
    """Return `x/y.npy: file name too long`: which file, as far as the system says, and what is wrong with it."""
    reason = (error.strerror or str(error) or type(error).__name__).lower()
    name: object = error.filename
    return f"{os.fsdecode(name)}: {reason}" if isinstance(name, str | bytes) else reason
