"""Signed weights whose products with unsigned codes ONNX Runtime adds exactly on this machine."""

from pathlib import Path

INFO = Path("/proc/cpuinfo")
HAS_VNNI = not INFO.exists() or "vnni" in INFO.read_text(encoding="utf-8")

LARGEST = 127 if HAS_VNNI else 64
"""The largest weight: without VNNI it adds pairs of products in 16 bits, which saturate, as its page on quantisation
says; 2 * 255 * 64 fits."""
