"""The engine that programs are compiled for: its kernels say what may be written in place, and what is scratch.

Whoever checks a file, or plans one, goes by it, whichever engine is to run it.
"""

from __future__ import annotations

from runtime.engines.reference.target import REFERENCE

TARGET = REFERENCE
