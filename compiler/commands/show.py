"""The views of `compiler show`: what is asked for, on stdout or in files of their own."""

from __future__ import annotations

import argparse
import sys

from compiler.analyses.step_memory import step_memory
from compiler.commands.chosen_entry import chosen_binding
from compiler.commands.memory_picture import memory_page, memory_svg
from compiler.commands.show_memory import memory_text
from compiler.commands.show_order import order_text
from compiler.commands.well_formed import well_formed
from compiler.errors import UsageError
from prograd_proto import ProgramError
from prograd_proto.atomic import write_atomically
from prograd_proto.printable import sentence


def show_views(options: argparse.Namespace) -> bool:
    """Show the views that the options name; whether there are any."""
    pictures = [(p, draw) for p, draw in ((options.html, memory_page), (options.svg, memory_svg)) if p is not None]
    _require_sense(options, [path for path, _ in pictures])
    if not (options.memory or options.order or pictures):
        return False
    program = well_formed(options.program)
    title, binding = chosen_binding(options.program, program, options.entry, options.bind)
    try:
        memory = step_memory(program, binding)
    except ProgramError as error:
        raise ProgramError(f"{options.program}: {error}") from None
    texts = [order_text(title, program, memory.block)] if options.order else []
    texts += [memory_text(title, program, memory, options.sort or "offset")] if options.memory else []
    print("\n".join(texts), end="")
    for path, draw in pictures:
        _write(path, draw(title, program, memory), options.force)
    return True


def _require_sense(options: argparse.Namespace, pictures: list[str]) -> None:
    if options.sort and not options.memory:
        raise UsageError("--sort is for --memory")
    runs = options.memory or options.order or pictures or (options.entry is not None and options.bound)
    if options.bind and not runs:
        raise UsageError("--bind is for --memory, --order, --html and --svg, and for --entry with --bound")
    if options.force and not pictures:
        raise UsageError("--force is for --html and --svg")
    if len(set(pictures)) < len(pictures):
        raise UsageError(f"--html and --svg both name {pictures[0]}; give two files")


def _write(path: str, picture: str, force: bool) -> None:
    try:
        write_atomically(path, picture.encode(), force=force)
    except FileExistsError as error:
        raise ProgramError(f"{path}: {error}") from error
    except OSError as error:
        raise ProgramError(f"{path}: the file cannot be written: {error.strerror or error}") from error
    print(sentence(f"wrote {path}"), file=sys.stderr)
