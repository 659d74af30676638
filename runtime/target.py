"""The engine whose kernels determine the bytes that a program's plans state, whichever engine runs it."""

from __future__ import annotations

from runtime.engines.reference.target import REFERENCE

TARGET = REFERENCE
