"""The result of a verb: one line of names and values for scripts, a table for a person at a terminal."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from prograd_proto.byte_sizes import in_units
from prograd_proto.printable import field_name, result_line, sentence, value_word
from runtime.command_line.colours import Colour, painted
from runtime.command_line.streams import columns, is_terminal, put

Fields = Iterable[tuple[str, object]]
"""Names and values of a result, in order."""

_COLOURS: Final[dict[str, Colour]] = {"OK": "green", "READY": "green", "FAILED": "red"}  # others are bold
_WORDS: Final = {"OK": "done", "READY": "ready", "FAILED": "failed", "KEPT": "kept", "REMOVED": "removed"}


def put_result(options: argparse.Namespace, verdict: str, fields: Fields) -> None:
    """Print the result of a verb: a table if stdout is a terminal, and else, or with --quiet, the line for scripts."""
    is_for_scripts = options.quiet or getattr(options, "log_format", "text") == "json"
    if is_for_scripts or not is_terminal(sys.stdout):
        put(result_line(verdict, fields))
    else:
        put(result_table(verdict, fields, columns(sys.stdout)))


def result_table(verdict: str, fields: Fields, width: int) -> str:
    """Return a verdict and rows of names and values, for a terminal of `width` columns.

    A value that does not fit beside its name stands below it, and is not cut.
    """
    rows = [(field_name(name), value) for name, value in _rows(dict(fields))]
    indent = max((len(name) for name, _ in rows), default=0) + 4
    lines = [painted(_WORDS.get(verdict, verdict), _COLOURS.get(verdict, "bold"), sys.stdout)]
    for name, value in rows:
        label = painted(f"  {name}", "dim", sys.stdout)
        if indent + len(value) <= width:
            lines.append(f"{label}{' ' * (indent - 2 - len(name))}{value}")
        else:
            lines += [label, *(f"    {line}" for line in _wrapped(value, width - 4))]
    return "\n".join(lines)


def seconds_in_words(seconds: float) -> str:
    """Return a duration for a person: `0.12 s`, `41 s`, `3 min 5 s`, `2 h 10 min`."""
    if seconds < 10:
        return f"{seconds:.2g} s" if seconds >= 0.0995 else f"{seconds * 1e3:.2g} ms"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _rows(fields: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    """Yield the rows of a table; fields that belong together are one row, in the place of the first."""
    done: set[str] = set()
    for name, value in fields.items():
        group = _GROUPS.get(name)
        if group is None:
            yield name, _plain(value)
        elif group not in done:
            done.add(group)
            if text := _GROUP_TEXTS[group](fields):
                yield group, text


def _wrapped(text: str, width: int) -> list[str]:
    from textwrap import wrap  # few results are that long

    return wrap(text, max(width, 1), break_long_words=False, break_on_hyphens=False)


def _plain(value: object) -> str:
    return f"{value:,}" if type(value) is int else sentence(value_word(value))


def _time(fields: Mapping[str, object]) -> str:
    return seconds_in_words(float(str(fields["wall"])))


def _memory(fields: Mapping[str, object]) -> str:
    words = {"rss": "process", "arena": "arena", "state": "states", "spill": "spill file", "peak": "peak of the arena"}
    return ", ".join(f"{what} {in_units(int(str(fields[name])))}" for name, what in words.items() if name in fields)


def _engine(fields: Mapping[str, object]) -> str:
    words = [str(fields.get("engine", "")), str(fields.get("instructions", ""))]
    if "threads" in fields:
        words.append(f"{fields['threads']} thread{'' if fields['threads'] == 1 else 's'}")
    if "native" in fields:
        words.append(f"not native: {str(fields['native']).replace('_', ' ')}")
    return sentence(", ".join(filter(None, words)))


_GROUPS: Final = {
    "wall": "time",
    **dict.fromkeys(("arena", "spill", "state", "rss", "peak"), "memory"),
    **dict.fromkeys(("engine", "instructions", "native", "threads"), "engine"),
}
"""The row of a table that a field belongs to, unless it is a row of its own."""

_GROUP_TEXTS: Final[dict[str, Callable[[Mapping[str, object]], str]]] = {
    "time": _time,
    "memory": _memory,
    "engine": _engine,
}
