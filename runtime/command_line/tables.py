"""The verbs of a command as data: a table of arguments and options for each.

Parsers, help, shell completion, docs/options.md and the errors of contradictory options follow from these tables.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, cast

from runtime.command_line.values import duration, one_of, positive, size

NO_FLAGS: Final[Mapping[str, str]] = MappingProxyType({})

CONVERTERS: Final[Mapping[str, Callable[[str], object]]] = {
    "N": positive,
    "K": positive,
    "SIZE": size,
    "TIME": duration,
}
"""Converters by the word that help shows for a value; other values are texts unless an option names a converter."""


class Option(NamedTuple):
    """An option of a verb, or an argument, which has its name in place of flags.

    Attributes:
        usage: the flags and the word for the value, as in "-o, --output FILE"; a switch has no such word. The word
            "{one,other}" lists the possible values.
        help: what the option does; "" hides it from help.
        kind: converter of the value; the default follows from the word for the value.
        default: value if the option is not given; a text is converted too.
        many: True if the option may be given several times, so that its value is a list.
        required: True if the option must be given.
        dest: name of the value in the parsed options; the default follows from the last flag.
        nargs: number of values, as in `argparse`; "" stands for one.
        needs: sentences of errors by flags with spaces between them, of which one must be given as well.
        excludes: sentences of errors by flags with spaces between them, of which none may be given as well.
        entries: "training" or "prediction" if only these entries have the option; else "".
        passed: True if processes that the verb starts get the option too: runs of a sweep, parts of a prediction.
        ranks: with --mpi, "equal" if all ranks must give the same value; "first" if the value of rank 0 alone counts;
            "states" if it is so unless --zero cuts the states, of which then each rank has a part.
    """

    usage: str
    help: str
    kind: Callable[[str], object] | None = None
    default: object = None
    many: bool = False
    required: bool = False
    dest: str = ""
    nargs: str = ""
    needs: Mapping[str, str] = NO_FLAGS
    excludes: Mapping[str, str] = NO_FLAGS
    entries: str = ""
    passed: bool = False
    ranks: Literal["", "equal", "first", "states"] = ""

    @property
    def flags(self) -> list[str]:
        """The flags, as in "-o" and "--output"; an argument has none."""
        return [word.rstrip(",") for word in self.usage.split() if word.startswith("-")]

    @property
    def value(self) -> str:
        """The word for the value; "" for a switch, and for an argument that help shows by its name."""
        words = self.usage.split()
        return "" if words[-1].startswith("-") or len(words) == 1 else words[-1]

    @property
    def words(self) -> list[str]:
        """The possible values, if the word for the value lists them."""
        return self.value[1:-1].split(",") if self.value.startswith("{") else []

    @property
    def key(self) -> str:
        """The name of the value in the parsed options."""
        return self.dest or (self.flags or self.usage.split()[:1])[-1].lstrip("-").replace("-", "_")

    @property
    def is_switch(self) -> bool:
        """True if no value follows the flag."""
        return bool(self.flags) and not self.value

    @property
    def converter(self) -> Callable[[str], object]:
        """The function that makes the value from its text; it raises ArgumentTypeError."""
        return self.kind or (one_of(*self.words) if self.words else CONVERTERS.get(self.value, str))

    @property
    def initial(self) -> object:
        """The value if the option is not given."""
        if self.many:
            return []
        return False if self.is_switch and self.default is None else self.default

    def is_given(self, options: argparse.Namespace) -> bool:
        """Return True if the parsed options have another value than the default."""
        return getattr(options, self.key) != self.initial

    def repeated(self, options: argparse.Namespace) -> list[str]:
        """Return the words of a command line that give this option the same value again."""
        value = getattr(options, self.key)
        return [word for each in (value if self.many else [value]) for word in (self.flags[-1], _text_of(each))]


class Either(NamedTuple):
    """Options of which at most one may be given, or exactly one if it is `required`."""

    options: Sequence[Option]
    required: bool = False


class Verb(NamedTuple):
    """A verb of a command.

    Attributes:
        name: one word or two.
        summary: what the verb does, in one line.
        more: further sentences of its help.
        examples: command lines; help shows `runtime` and `compiler` at their start as the command that was called.
        table: arguments and options in the order of help; a text is the title of those that follow.
        function: the function that carries out the verb, as "package.module.function"; the default is that of the
            verb's name, in the module of this name.
        like: a verb whose code this verb calls, so that this verb has the defaults of the options that it lacks.
    """

    name: str
    summary: str
    more: str
    examples: Sequence[str]
    table: Sequence[Option | Either | str]
    function: str = ""
    like: Verb | None = None

    @property
    def options(self) -> Iterator[Option]:
        """The arguments and options without titles."""
        for part in self.table:
            if isinstance(part, Either):
                yield from part.options
            elif isinstance(part, Option):
                yield part

    def passed(self, options: argparse.Namespace, **own: str) -> list[str]:
        """Return the options that a process gets which the verb starts, as words; `own` has its own values by key."""
        words: list[str] = []
        for option in (*self.options, *OPTIONS_OF_EVERY_VERB):
            if option.key in own:
                words += [option.flags[-1], own[option.key]]
            elif option.passed and option.is_given(options):
                words += option.repeated(options)
        return words


class Command(NamedTuple):
    """A command and its verbs by name; `package` has the modules of verbs that name no function."""

    name: str
    package: str
    description: str
    verbs: dict[str, Verb]


def verbs_by_name(*verbs: Verb) -> dict[str, Verb]:
    """Return verbs by name, in their order."""
    return {verb.name: verb for verb in verbs}


def _text_of(value: object) -> str:
    """Return a text that stands for a value; of a pair the one that `=` joins, as in rate=0.5."""
    return "=".join(map(str, cast("tuple[object, ...]", value))) if isinstance(value, tuple) else str(value)


def one_word(words: Iterable[str]) -> str:
    """Return the word for a value that is one of `words`: "{one,other}"."""
    return f"{{{','.join(words)}}}"


OPTIONS_OF_EVERY_VERB: Final = (
    Option(
        "--plugin NAME",
        "use the operators of this installed package; a program cannot do so by itself",
        many=True,
        passed=True,
    ),
    Option("-q, --quiet", "print only warnings and errors, no progress and no notes"),
    Option("--traceback", "print the traceback of an error", default=argparse.SUPPRESS),
)

PROGRAM: Final = Option("program", "a program file")

COMPLETION: Final = Verb(
    "completion",
    "print a script that lets a shell complete verbs, options and values",
    "Put one of the lines into the file that your shell reads when it starts.",
    (
        'eval "$(runtime completion bash)"    # in ~/.bashrc',
        'eval "$(runtime completion zsh)"     # in ~/.zshrc, below compinit',
        "runtime completion fish | source     # in ~/.config/fish/config.fish",
    ),
    (Option("shell {bash,zsh,fish}", "which shell"),),
    function="runtime.command_line.completion.completion",
)
"""The verb that every command has."""
