"""What the process takes of memory."""

from __future__ import annotations

import sys


def peak_rss() -> int:
    """The most memory, in bytes, that the process has occupied; 0 where the system does not say."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
