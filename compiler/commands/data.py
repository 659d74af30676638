"""The verbs `compiler data pack` and `compiler data show`: pack a source of rows, and show packed rows."""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path
from typing import Any

from compiler.commands.notes import note
from compiler.commands.verbs.data import DATA_PACK
from compiler.data.options import PackOptions, options_of
from compiler.data.pack import packed, packed_like
from compiler.data.show import lines_of
from compiler.data.write import write
from runtime.command_line.results import put_result
from runtime.command_line.streams import put
from runtime.command_line.tables import Option
from runtime.errors import UsageError
from runtime.rows.encoding.encoding import Encoding


def pack(options: argparse.Namespace) -> None:
    """Write a source as a file of rows, with its encoding in the header."""
    if not options.output.endswith(".safetensors"):
        raise UsageError(f"-o {options.output}: the name of a file of rows ends in .safetensors")
    asked = _asked(options)
    if options.chat is not None:
        _pack_chats(options, asked)
        return
    if options.like is None:
        found = packed(options.source, asked)
    else:
        _require_alone(asked)
        found = packed_like(options.source, Encoding.of_file(Path(options.like)), asked)
    write(
        options.output,
        found.arrays,
        splits=found.splits,
        metadata=found.encoding.metadata,
        force=options.force,
    )
    splits = [(name, len(numbers)) for name, numbers in found.splits.items()]
    put_result(options, "OK", [("rows", found.rows), ("arrays", ",".join(found.arrays)), *splits])


def _pack_chats(options: argparse.Namespace, asked: PackOptions) -> None:
    """Write the texts of a source as rows of codes."""
    from compiler.data.chats import chat_options, packed_chats  # few rows are texts of a model
    from compiler.data.labelled_texts import are_labelled, packed_labelled
    from runtime.language.model import IGNORED

    chosen = chat_options(options.chat, options.length, asked, together=options.together)
    source, like = Path(options.source), None if options.like is None else Path(options.like)
    rows = packed_labelled(source, chosen, like) if are_labelled(source, like) else packed_chats(source, chosen)
    write(options.output, rows.arrays, splits=rows.splits, metadata=rows.metadata, force=options.force)
    if rows.cut:
        note(options, f"note: {rows.cut} of {rows.texts} texts have more than {chosen.length} codes, and were cut")
    fields = [("texts", rows.texts), ("rows", len(rows.arrays["codes"]))]
    if "labels" in rows.arrays:
        fields.append(("counted", int((rows.arrays["labels"] != IGNORED).sum())))
    put_result(options, "OK", [*fields, *((name, len(numbers)) for name, numbers in rows.splits.items())])


def show(options: argparse.Namespace) -> None:
    """Print the arrays of a file of rows."""
    for line in lines_of(Path(options.file), options.rows):
        put(line)


def _asked(options: argparse.Namespace) -> PackOptions:
    """Return the options of packing, whose fields have the names of the command's options."""
    known = {field.name for field in fields(PackOptions)}
    values = {each.key: _value(each, getattr(options, each.key)) for each in DATA_PACK.options if each.key in known}
    values["by"], values["of"] = options.by
    values["date"] = options_of({"date": values["date"]}).date
    return PackOptions(**values)


def _value(option: Option, given: Any) -> Any:
    if option.value == "NAMES":
        return [name for names in given for name in names.split(",")]
    return dict(given) if option.many else given


def _require_alone(asked: PackOptions) -> None:
    if any(asked.named.values()) or asked.split or asked.of:
        raise UsageError("--like says how columns are encoded, and rows are not split; give it without such options")
