"""The verb `cache`."""

from __future__ import annotations

import argparse
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prograd_proto.printable import sentence
from runtime.command_line.ending import EXIT_DONE
from runtime.command_line.results import put_result
from runtime.command_line.streams import put
from runtime.engines.native.cache.entries import MAX_CACHE_BYTES, CacheFile, clear, kept
from runtime.engines.native.cache.folder import cache_folder, why_unsafe
from runtime.errors import UsageError


def cache(options: argparse.Namespace) -> int:
    """Show the code that the native engine keeps: its program, instruction set, path and size.

    With --clear it is removed; other files in the folder stay.
    """
    folder = _folder()
    files = clear() if options.clear else kept()
    if options.json:
        put(json.dumps(_as_json(folder, files, removed=options.clear), indent=1))
        return EXIT_DONE
    if folder is None:
        options.say("nothing is kept, as the environment variable PROGRAD_CACHE turns the cache off")
    for line in () if options.clear or options.quiet else _table(files):
        put(line)
    fields = [("files", len(files)), ("bytes", sum(file.nbytes for file in files))]
    verdict = "REMOVED" if options.clear else "KEPT"
    put_result(options, verdict, [*fields, ("most", MAX_CACHE_BYTES), ("folder", folder or "")])
    return EXIT_DONE


def _folder() -> Path | None:
    folder = cache_folder()
    if folder is None or not os.path.lexists(folder):
        return folder
    why = why_unsafe(folder)
    if why:
        raise UsageError(f"{folder} {why}, so it is not used; PROGRAD_CACHE names another one")
    return folder


def _table(files: list[CacheFile]) -> list[str]:
    rows = [("    KiB", "last used       ", "for    ", "program")] if files else []
    for file in files:
        label, used = file.label, datetime.fromtimestamp(file.used, UTC)
        instructions, program = "", "not used: not whole, or not safe"
        if label is not None:
            instructions = sentence(label.instruction_set)
            program = sentence(label.program or "every program") + " (tables)" * bool(label.kernels)
        kibibytes = f"{file.nbytes / 1024:7,.0f}"
        rows.append((kibibytes, f"{used:%Y-%m-%d %H:%M}", f"{instructions:<7}", program))
    return ["  ".join(row) for row in rows]


def _as_json(folder: Path | None, files: list[CacheFile], *, removed: bool) -> dict[str, Any]:
    return {
        "folder": None if folder is None else str(folder),
        "most_bytes": MAX_CACHE_BYTES,
        "bytes": sum(file.nbytes for file in files),
        "removed" if removed else "kept": [_file_as_json(file) for file in files],
    }


def _file_as_json(file: CacheFile) -> dict[str, Any]:
    label = file.label
    return {
        "file": file.path.name,
        "bytes": file.nbytes,
        "used": datetime.fromtimestamp(file.used, UTC).isoformat(timespec="seconds"),
        "whole": label is not None,
        "holds": None if label is None else "tables" if label.kernels else "functions",
        "program": None if label is None else label.program,
        "instruction_set": None if label is None else label.instruction_set,
    }
