"""What the process takes of memory."""

from __future__ import annotations

import sys
from contextlib import suppress


def peak_rss() -> int:
    """The most memory, in bytes, that the process has occupied; 0 where the system does not say.

    Linux counts what the parent occupied when it started the process in `ru_maxrss`, so that is not asked there.
    """
    with suppress(OSError), open("/proc/self/status", "rb") as status:
        for line in status:
            if line.startswith(b"VmHWM:"):
                return 1024 * int(line.split()[1])
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
