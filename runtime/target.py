"""The engine that programs are compiled for: its kernels determine scratch and in-place pairs.

The check and the planner of a program use it, whichever engine runs the program.
"""

from __future__ import annotations

from runtime.engines.reference.target import REFERENCE

TARGET = REFERENCE
