"""The engine that programs are compiled for: whose scratch is planned, and whose kernels write in place."""

from __future__ import annotations

from runtime.engines.reference.target import REFERENCE

TARGET = REFERENCE
