"""The command line: the verbs, and the options of each."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from compiler.commands.data_arguments import add_pack, add_show, with_verbs_of_two_words
from runtime.command_line.parsing import add_completion, add_old_word, add_verb, new_parser, parsed
from runtime.command_line.values import duration, one_of, positive, positive_size, size, threads
from runtime.engines.choice import ENGINES


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options; an error of usage ends the process with code 2."""
    return parsed(command_parser(), with_verbs_of_two_words(arguments))


def command_parser() -> tuple[argparse.ArgumentParser, Any]:
    """Return the parser of the whole command, and its verbs by name in `choices`."""
    parser, verbs = new_parser("compiler", "Looks at, checks and compiles program files.")
    programs = _show, _summary, _draw, _check, _compile, _upgrade, _diff, _freeze, _thaw, _plan, _place, _passes, _ops
    for add in (*programs, _import_torch, add_pack, add_show):
        add(verbs)
    add_completion(verbs, "completion").set_defaults(module="completion")
    return parser, verbs


def _show(verbs: Any) -> None:
    verb = _verb(
        verbs,
        "show",
        "print a program as text, or a view of how an entry runs",
        "The training-time form of one entry with --entry. A view is of one entry, the one that the program\n"
        "runs unless --entry names another, with its first sizes unless --bind asks for others.",
        "compiler show digits.pb --entry train --bound",
        "compiler show digits.pb --memory --html memory.html",
    )
    verb.add_argument("program", help="a program file")
    verb.add_argument("--entry", metavar="NAME", help="only the block of this entry")
    verb.add_argument("--bound", action="store_true", help="with --entry: with sizes instead of symbols")
    _add_bind(verb, "the sizes that run, as in batch=1")
    verb.add_argument("--memory", action="store_true", help="every buffer, how long it lives, and who makes the peak")
    verb.add_argument(
        "--sort", type=one_of("offset", "bytes", "time"), metavar="{offset,bytes,time}",
        help="with --memory: the buffers; by offset unless given",
    )  # fmt: skip
    verb.add_argument("--order", action="store_true", help="of every forward op, when it and what belongs to it runs")
    verb.add_argument(
        "--engine", metavar=f"{{{','.join(ENGINES)}}}",
        help="how this engine computes a step: groups, phases, memory",
    )  # fmt: skip
    verb.add_argument("--ir", action="store_true", help="with --engine: the code that it compiles, as LLVM reads it")
    verb.add_argument("--after", metavar="PASS", help="with --engine: what there is after this pass of the engine")
    verb.add_argument(
        "--threads", type=positive, default=1, metavar="N", help="with --engine: threads that share the work"
    )
    verb.add_argument("--html", metavar="FILE", help="write a picture of the arena over time as a page")
    verb.add_argument("--svg", metavar="FILE", help="write that picture alone")
    verb.add_argument("--force", action="store_true", help="replace the file of --html or --svg")


def _summary(verbs: Any) -> None:
    verb = _verb(
        verbs,
        "summary",
        "what a program is, on one screen: layers with their states, entries with their ops and memory",
        "A layer is the states whose names are alike up to the last dot. The arena of an entry is in\n"
        "bytes, by the engine that takes it in a run on --threads threads.",
        "compiler summary digits.pb",
    )
    verb.add_argument("program", help="a program file")
    verb.add_argument(
        "--threads", type=threads, default="auto", metavar="N",
        help="of a run; one for each core that a process may use unless given",
    )  # fmt: skip


def _draw(verbs: Any) -> None:
    verb = _verb(
        verbs,
        "draw",
        "draw the ops of an entry by scopes; forward, gradient and update are told apart by colour",
        "A page has scopes that open and close, and of each op what it reads; an SVG has layers, in which what reads\n"
        "something stands below it. Either needs nothing but itself.",
        "compiler draw digits.pb -o digits.html",
    )
    verb.add_argument("program", help="a program file")
    verb.add_argument("--entry", metavar="NAME", help="this entry; else the one that the program runs")
    _add_output(verb, "the .html or .svg file to write", required=True)


def _check(verbs: Any) -> None:
    verb = _verb(
        verbs,
        "check",
        "verify every rule of a well-formed program and every plan, and say what it is",
        "Nothing is run.",
        "compiler check digits.pb",
    )
    verb.add_argument("program", help="a program file")


def _compile(verbs: Any) -> None:
    verb = _verb(
        verbs,
        "compile",
        "compile a program or its text form anew",
        "With other sizes, or with a look at what a pass did.",
        "compiler compile digits.pb --bind batch=64 -o digits64.pb",
    )
    verb.add_argument("program", help="a program file, or its text form ending in .txt")
    _add_bind(verb, "the size of a symbol; as batch=32,5 with a last training step of 5 rows")
    _add_output(verb, "the program file to write")
    _add_dump_after(verb)
    verb.add_argument("--without", action="append", default=[], metavar="PASS", help="leave this pass out")
    verb.add_argument(
        "--option", action="append", default=[], metavar="PASS.NAME=VALUE", help="of a pass; see compiler passes"
    )


def _upgrade(verbs: Any) -> None:
    verb = _verb(
        verbs,
        "upgrade",
        "say what a program of an older prograd becomes: its format, its operators, its memory plans",
        "It is written only with -o or --in-place. Every verb reads older programs as well, by the same upgrades.\n"
        "Where there is nothing to do, the file stays the same to the byte.",
        "compiler upgrade old.pb -o new.pb",
    )
    verb.add_argument("program", help="a program file")
    _add_output_or_in_place(verb)


def _diff(verbs: Any) -> None:
    verb = _verb(
        verbs,
        "diff",
        "say what changed from one program to another: one line for each change, grouped by what it belongs to",
        "Ends with 0 if they are equal and with 1 if they differ. The user's lines are not compared.",
        "compiler diff old.pb new.pb",
    )
    verb.add_argument("old", help="a program file")
    verb.add_argument("new", help="another")


def _import_torch(verbs: Any) -> None:
    verb = _verb(
        verbs,
        "import torch",
        "write a module of PyTorch as a program, with its weights beside it",
        "The source is a function that makes the module, or a file that torch.export.save wrote. Both run code: the\n"
        'function is called, and a file is read by PyTorch\'s loader. It needs pip install "prograd[torch]".',
        "compiler import torch mypackage.nets:make --input image=float32[batch,3,224,224] -o net.pb",
        "compiler import torch net.pt2 -o net.pb --bind batch=32",
    )
    verb.set_defaults(module="import_torch", verb="import_torch")
    verb.add_argument("source", metavar="SOURCE", help="module:function, or a .pt2 file")
    verb.add_argument(
        "--input", action="append", default=[], metavar="NAME=DTYPE[SHAPE]",
        help="an input of a module in the order of its arguments, as in image=float32[batch,3,224,224]",
    )  # fmt: skip
    verb.add_argument(
        "--layout", type=one_of("torch", "prograd"), default="torch", metavar="{torch,prograd}",
        help="prograd has the channels of images last",
    )  # fmt: skip
    _add_bind(verb, "the size of a symbol in the written program; 1 unless given")
    verb.add_argument("--explain", action="store_true", help="print what cannot be imported, and write nothing")
    _add_output(verb, "the program file to write")


def _freeze(verbs: Any) -> None:
    verb = _verb(
        verbs,
        "freeze",
        "write a program in which the parameters that match no longer train",
        "It is without their gradients, updates and slots. The file keeps what thawing needs, so thawing gives back\n"
        "the program that was, with the same hash.",
        "compiler freeze digits.pb --states 'hidden.*' -o other.pb",
    )
    _add_states(verb)


def _thaw(verbs: Any) -> None:
    verb = _verb(
        verbs,
        "thaw",
        "write a program in which frozen parameters that match train again",
        "See compiler freeze.",
        "compiler thaw digits.pb --states 'hidden.*' -o other.pb",
    )
    verb.set_defaults(module="freeze")
    _add_states(verb)


def _plan(verbs: Any) -> None:
    verb = _verb(
        verbs,
        "plan",
        "plan the memory of every entry with care, within a budget, or for threads",
        "It says how much memory it is, who makes the peak and when updates happen. With a budget, values are\n"
        "computed again instead of being kept until every arena is small enough, and with --spill they may wait\n"
        "in a file instead. For several threads, arenas may take half as much again, or what a budget has left,\n"
        "where more ops run at once then. None of it changes a bit of a result. The program is written only with\n"
        "-o or --in-place.",
        "compiler plan digits.pb --budget 800KiB -o small.pb",
        "compiler plan digits.pb --threads 2 -o roomy.pb",
        "compiler plan digits.pb --budget 600KiB --spill -o s.pb    # then runtime execute s.pb --spill-dir /var/tmp",
    )
    verb.add_argument("program", help="a program file")
    verb.add_argument("--budget", type=size, metavar="SIZE", help="of each arena, as in 800KiB or 1000000")
    verb.add_argument("--spill", action="store_true", help="let values wait in a file to keep the budget")
    _add_max_time(verb, "look for a way so long, as in 90, 1.5min or 2h; default 60")
    verb.add_argument("--threads", type=positive, default=1, metavar="N", help="give these room; default 1")
    _add_dump_after(verb)
    _add_output_or_in_place(verb)


def _place(verbs: Any) -> None:
    verb = _verb(
        verbs,
        "place",
        "give each buffer of a table an offset, so that those alive together are apart and the arena is small",
        "The table is CSV with the columns id, lower, upper and size: a buffer of `size` bytes is needed from `lower`\n"
        "until before `upper`. The table that comes out has the column offset as well; a line about the arena goes to\n"
        "stderr.",
        "compiler place buffers.csv -o placed.csv",
    )
    verb.add_argument("buffers", help="a CSV file with the columns id, lower, upper, size")
    verb.add_argument("--capacity", type=size, metavar="SIZE", help="size of the arena that suffices, as in 1.5MiB")
    verb.add_argument("--alignment", type=positive_size, default=1, metavar="SIZE", help="of every offset; default 1")
    _add_max_time(verb, "end the search after that, as in 90, 1.5min or 2h; default 60")
    verb.add_argument(
        "--moves", type=positive, default=10**18, metavar="N", help="of single buffers, at most; default no limit"
    )
    _add_output(verb, "the CSV file to write, instead of stdout")


def _passes(verbs: Any) -> None:
    verb = _verb(
        verbs,
        "passes",
        "print the passes of `compile`, of `plan` and of the native engine in their order",
        "With what each does, requires of the program and establishes, and why.",
        "compiler passes plan",
    )
    verb.add_argument("tables", nargs="*", metavar="TABLE", help="compile, plan or native; else all")
    verb.add_argument("--json", action="store_true", help="print one JSON object instead of words")
    verb.add_argument("--markdown", action="store_true", help="the page docs/passes.md")


def _ops(verbs: Any) -> None:
    verb = _verb(
        verbs,
        "ops",
        "list every operator, or show the ones that are named",
        "A line has its operands, its attributes and what it does.",
        "compiler ops conv2d matmul",
    )
    verb.add_argument("names", nargs="*", help="only these")
    verb.add_argument("--markdown", action="store_true", help="the whole reference, as in docs/ops.md")


def _verb(verbs: Any, name: str, summary: str, more: str, *examples: str) -> argparse.ArgumentParser:
    verb = add_verb(verbs, name, summary, more, *examples)
    verb.set_defaults(module=name)
    return verb


def _add_bind(verb: argparse.ArgumentParser, help: str) -> None:
    verb.add_argument("--bind", action="append", default=[], metavar="SYMBOL=SIZE", help=help)


def _add_dump_after(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--dump-after", metavar="PASS", help="print the program as this pass leaves it")


def _add_output(verb: argparse.ArgumentParser, help: str, *, required: bool = False) -> None:
    verb.add_argument("-o", "--output", metavar="FILE", required=required, help=help)
    verb.add_argument("--force", action="store_true", help="replace the file of -o if it exists")


def _add_output_or_in_place(verb: argparse.ArgumentParser) -> None:
    where = verb.add_mutually_exclusive_group()
    where.add_argument("-o", "--output", metavar="FILE", help="the program file to write")
    where.add_argument("--in-place", action="store_true", help="write to the program's own file")
    verb.add_argument("--force", action="store_true", help="replace the file of -o if it exists")


def _add_states(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("program", help="a program file")
    verb.add_argument("--states", action="append", required=True, metavar="PATTERN", help="names, as in 'hidden.*'")
    _add_output(verb, "the program file to write", required=True)


def _add_max_time(verb: argparse.ArgumentParser, help: str) -> None:
    verb.add_argument("--max-time", dest="seconds", type=duration, default=60.0, metavar="TIME", help=help)
    add_old_word(verb, "--seconds", dest="seconds", type=duration)
