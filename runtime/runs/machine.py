"""The versions and the CPU that a result may depend on, besides the program."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, cast

import numpy as np

from runtime.blas import blas_core


def this_machine(instructions: str = "") -> dict[str, str]:
    """Return words by name that differ where bits may differ; docs/reproducibility.md says what each one can change.

    `instructions` are those of the engine, if its bits depend on them.
    """
    config = cast(dict[str, Any], np.show_config(mode="dicts"))
    simd = config.get("SIMD Extensions", {})
    blas = config.get("Build Dependencies", {}).get("blas", {})
    return {
        "prograd": _version("prograd"),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "simd": " ".join([*simd.get("baseline", ()), *simd.get("found", ())]),
        "blas": f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip(),
        "blas_core": blas_core(),
        "libc": " ".join(platform.libc_ver()).strip() or "unknown",
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": _cpu(),
        "protobuf": _version("protobuf"),
        **({"instructions": instructions} if instructions else {}),
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # not Linux
        return platform.processor() or "unknown"
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or "unknown")
