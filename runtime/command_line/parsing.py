"""The parser of a command and its verbs: its errors are one sentence, and every verb has the same first options."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

from prograd_proto.printable import sentence
from prograd_proto.spelling import closest
from runtime.command_line.ending import EXIT_USAGE
from runtime.command_line.say import Say
from runtime.command_line.streams import put, say
from runtime.command_line.values import one_of

SHELLS = ("bash", "zsh", "fish")
"""Shells for which completion scripts exist."""

OTHER_WORDS: Final = {
    **dict.fromkeys(("train", "fit", "run", "start"), "execute"),
    "predict": "execute --entry predict",
    **dict.fromkeys(("evaluate", "test", "validate", "eval"), "execute --entry evaluate"),
    "build": "compile",
    "info": "summary",
    "convert": "import onnx",
    "pack": "data pack",
}
"""Verbs by the words that other tools have for them."""

RATES: Final = ("--rate", "--lr", "--learning-rate", "--learning_rate")
"""Options of other tools for the learning rate, which is a setting of a program here."""


def new_parser(command: str, description: str) -> tuple[argparse.ArgumentParser, Any]:
    """Return the parser of a whole command, and the object to which its verbs are added, by name in `choices`."""
    parser = _Parser(
        prog=command,
        description=description,
        epilog=f"{command} VERB --help shows the options of a verb, with examples.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version, and exit")
    parser.add_argument("--traceback", action="store_true", help=argparse.SUPPRESS)  # once given before the verb
    return parser, parser.add_subparsers(title="verbs", metavar="VERB", required=True)


def add_verb(verbs: Any, name: str, summary: str, more: str, *examples: str) -> argparse.ArgumentParser:
    """Return the parser of a new verb with its help, and with the options that every verb of both commands has.

    The examples begin with `runtime` or `compiler`, and are shown with the name of the command that was called.
    """
    if verbs._prog_prefix == "prograd":
        examples = tuple(re.sub(r"^(runtime|compiler)(?= )", "prograd", example) for example in examples)
    verb = verbs.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}. {more}",
        epilog="examples:\n" + "\n".join(f"  {example}" for example in examples),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    verb.add_argument(
        "--plugin", action="append", default=[], metavar="NAME",
        help="use the operators of this installed package; a program cannot do so by itself",
    )  # fmt: skip
    verb.add_argument(
        "-q", "--quiet", action="store_true", help="print only warnings and errors, no progress and no notes"
    )
    verb.add_argument(
        "--traceback", action="store_true", default=argparse.SUPPRESS, help="print the traceback of an error"
    )
    verb.set_defaults(verb=name)
    return verb


def add_completion(verbs: Any, name: str) -> argparse.ArgumentParser:
    """Add the verb that prints a script for a shell, the same for both commands."""
    command = verbs._prog_prefix
    verb = add_verb(
        verbs,
        name,
        "print a script that lets a shell complete verbs, options and values",
        "Put one of the lines into the file that your shell reads when it starts.",
        f'eval "$({command} {name} bash)"    # in ~/.bashrc',
        f'eval "$({command} {name} zsh)"     # in ~/.zshrc, below compinit',
        f"{command} {name} fish | source     # in ~/.config/fish/config.fish",
    )
    verb.add_argument("shell", type=one_of(*SHELLS), metavar=f"{{{','.join(SHELLS)}}}", help="which shell")
    return verb


def parsed(made: tuple[argparse.ArgumentParser, Any], arguments: Sequence[str]) -> argparse.Namespace:
    """Return the parsed options; an error of usage ends the process with code 2."""
    parser, verbs = made
    if not arguments:
        put(parser.format_help().rstrip("\n"))
        parser.exit()
    if any("\0" in word for word in arguments):
        parser.error("an argument has the letter NUL, which no name of a file has")
    verb = next((word for word in arguments if not word.startswith("-")), None)
    if verb is not None and verb not in verbs.choices:
        longer = [word for word in verbs.choices if word.startswith(f"{verb} ")]
        if longer and any(word in ("-h", "--help") for word in arguments):
            put("\n".join(verbs.choices[word].format_help() for word in longer).rstrip("\n"))
            parser.exit()
        hint = (
            _usual(verb, verbs.choices) or closest(verb, verbs.choices) or f"; the verbs are {', '.join(verbs.choices)}"
        )
        hint = f"; the verbs are {', '.join(longer)}" if longer else hint
        parser.error(f"there is no verb {verb!r}{hint}")
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        chosen = verbs.choices[verb or ""]
        flags = {flag: action for action in chosen._actions for flag in action.option_strings}  # pyright: ignore[reportPrivateUsage]: argparse has no other way to list flags
        chosen.error(_unknown(unknown, arguments, flags))
    options.say = Say(parser.prog)
    return options


def _usual(verb: str, verbs: Any) -> str:
    """Return the hint for a word by which other tools call a verb of this command, or ""."""
    meant = OTHER_WORDS.get(verb, "")
    return f"; write {meant}" if any(f"{meant} ".startswith(f"{known} ") for known in verbs) else ""


class _Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one sentence."""

    def error(self, message: str) -> NoReturn:
        command = self.prog.partition(" ")[0]
        say(f"{command}: {sentence(message)}; see {self.prog} --help")
        self.exit(EXIT_USAGE)


class _Version(argparse.Action):
    """The option --version, whose value is looked up on request: the look-up takes longer than parsing."""

    def __call__(self, parser: argparse.ArgumentParser, *more: object) -> NoReturn:
        from prograd_proto.wording import own_version

        put(f"prograd {own_version()}")
        parser.exit()


def _unknown(words: Sequence[str], given: Sequence[str], flags: Mapping[str, argparse.Action]) -> str:
    """Return the sentence for words that the parser does not know, among all that were given."""
    flag = next((word.partition("=")[0] for word in words if word.startswith("-")), None)
    if flag is None:
        before = given[given.index(words[0]) - 1]
        hint = f"; {before} takes no value" if before in flags and flags[before].nargs == 0 else ""
        return f"{words[0]!r} is one word too many{hint}"
    if flag in RATES and "--set" in flags:
        return f"there is no option {flag!r}; write --set rate=NUMBER for a setting of the program that is called rate"
    return f"there is no option {flag!r}{closest(flag, flags)}"
