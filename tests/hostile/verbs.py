"""Every verb of both commands, and with which options it is called; a new verb joins with none."""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from compiler.__main__ import main as compiler
from compiler.commands.arguments import command_parser as compiler_parser
from runtime.__main__ import main as runtime
from runtime.commands.arguments import command_parser as runtime_parser

PROGRAM = "mutated.pb"
OTHER = "good.pb"
TEXT = "mutated.txt"
TABLE = "mutated.csv"

OPTIONS: dict[str, list[list[str]]] = {
    "runtime execute": [
        ["--steps", "2", "-q"],
        ["--steps", "1", "--progress", "plain", "--save", "out.safetensors", "--metrics", "m.csv"],
        ["--steps", "1", "--log-format", "json", "--trace", "t.json", "--metrics", "m.jsonl"],
        ["--epochs", "1", "-q", "--checkpoint", "points", "--check-nan"],
        ["--entry", "predict", "-q", "--spill-dir", "."],
        ["--entry", "evaluate", "-q", "--threads", "2"],
    ],
    "runtime replay": [["--expect-sha256", "0" * 64, "--steps", "1", "-q"], ["--expect-sha256", "x", "-q"]],
    "runtime sweep": [["--steps", "1", "-q", "--set", "x=1"], ["--steps", "x"]],
    "runtime profile": [["--steps", "1"], ["--steps", "1", "--by", "op"], ["--steps", "1", "--spill-dir", "."]],
    "runtime serve": [["--port", "0", "-q", "--max-time", "1ms"]],
    "compiler show": [
        [],
        ["--entry", "train", "--bound"],
        ["--entry", "predict"],
        ["--memory"],
        ["--order", "--memory", "--sort", "time"],
        ["--html", "m.html", "--svg", "m.svg"],
    ],
    "compiler compile": [[], ["-o", "out.pb"], ["--bind", "n=2"], ["--dump-after", "fold_constants"]],
    "compiler plan": [[], ["--budget", "100B"], ["--threads", "2", "-o", "out.pb"], ["--budget", "1KiB", "--spill"]],
    "compiler ops": [["matmul"]],
    "compiler export": [
        ["-o", "out.onnx"],
        ["-o", "out.onnx", "--view", "--entry", "train"],
        ["-o", "x.onnx", "--raw"],
    ],
    "compiler gradcheck": [["--elements", "1"], ["--elements", "1", "--bind", "n=2"]],
    "compiler merge": [["-o", "out.safetensors"]],
}
"""Ways to call a verb; the file comes before them."""

LIMITS = {"--max-memory": "64MiB", "--max-time": "5"}
"""Given to every verb that takes them."""


class Verb(NamedTuple):
    """A verb: the command's function, its words, and the words that stand for files."""

    command: Callable[[list[str]], int]
    name: str
    files: tuple[str, ...]
    limits: tuple[str, ...]

    @property
    def ways(self) -> list[list[str]]:
        """The options that it may be called with."""
        return OPTIONS.get(self.name, [[]])

    def words(self, rng: random.Random) -> list[str]:
        """A way to call it."""
        return [self.name.partition(" ")[2], *self.files, *rng.choice(self.ways), *self.limits]


@cache
def verbs() -> list[Verb]:
    """Every verb that the parsers know."""
    commands = {"runtime": runtime, "compiler": compiler}
    return [
        Verb(commands[name.partition(" ")[0]], name, _files(parser), _limits(parser))
        for name, parser in _parsers().items()
    ]


def parser_of(verb: Verb) -> argparse.ArgumentParser:
    """Return the parser of a verb's options."""
    return _parsers()[verb.name]


@cache
def _parsers() -> dict[str, argparse.ArgumentParser]:
    found = {f"runtime {word}": parser for word, parser in runtime_parser()[1].choices.items()}
    return found | {f"compiler {word}": parser for word, parser in compiler_parser()[1].choices.items()}


def _files(parser: argparse.ArgumentParser) -> tuple[str, ...]:
    words = {"new": OTHER, "buffers": TABLE}
    return tuple(words.get(a.dest, PROGRAM) for a in parser._actions if not a.option_strings and a.nargs is None)


def _limits(parser: argparse.ArgumentParser) -> tuple[str, ...]:
    known: dict[str, Any] = {flag: action for action in parser._actions for flag in action.option_strings}
    return tuple(word for flag, value in LIMITS.items() if flag in known for word in (flag, value))
