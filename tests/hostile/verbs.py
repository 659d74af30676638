"""Every verb of both commands, and with which options it is called; a new verb joins with none."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from compiler.__main__ import main as compiler
from compiler.commands.verbs.command import COMMAND as COMPILER
from runtime.__main__ import main as runtime
from runtime.command_line.tables import OPTIONS_OF_EVERY_VERB, Option
from runtime.commands.verbs.command import COMMAND as RUNTIME

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
    """A verb: the command's function, its table, and the words that stand for files."""

    command: Callable[[list[str]], int]
    name: str
    options: list[Option]

    @property
    def files(self) -> list[str]:
        """The words that stand for its files."""
        words = {"new": OTHER, "buffers": TABLE}
        return [words.get(each.key, PROGRAM) for each in self.options if not each.flags and not each.nargs]

    @property
    def ways(self) -> list[list[str]]:
        """The options that it may be called with."""
        return OPTIONS.get(self.name, [[]])

    def words(self, rng: random.Random) -> list[str]:
        """A way to call it."""
        flags = {flag for option in self.options for flag in option.flags}
        limits = [word for flag, value in LIMITS.items() if flag in flags for word in (flag, value)]
        return [self.name.partition(" ")[2], *self.files, *rng.choice(self.ways), *limits]


@cache
def verbs() -> list[Verb]:
    """Every verb of the tables."""
    return [
        Verb(command, f"{table.name} {verb.name}", [*OPTIONS_OF_EVERY_VERB, *verb.options])
        for command, table in ((runtime, RUNTIME), (compiler, COMPILER))
        for verb in table.verbs.values()
    ]
