"""The parsers of a command, made from the tables of its verbs: their errors are one sentence.

Only the parser of the called verb is made, because the others would double the time that parsing takes.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final, NoReturn

from prograd_proto.printable import sentence
from prograd_proto.spelling import closest
from runtime.command_line.ending import EXIT_DONE, EXIT_USAGE
from runtime.command_line.say import Say
from runtime.command_line.streams import put, say
from runtime.command_line.tables import OPTIONS_OF_EVERY_VERB, Command, Either, Option, Verb

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


def parsed(command: Command, arguments: Sequence[str]) -> argparse.Namespace:
    """Return the parsed options; an error of usage ends the process with code 2."""
    if not arguments:
        put(_whole_parser(command).format_help().rstrip("\n"))
        sys.exit(EXIT_DONE)
    if any("\0" in word for word in arguments):
        _whole_parser(command).error("an argument has the letter NUL, which no name of a file has")
    at = next((i for i, word in enumerate(arguments) if not word.startswith("-")), len(arguments))
    before, rest = arguments[:at], arguments[at + 1 :]
    options, unknown = argparse.Namespace(traceback=False), []
    if before:
        options, unknown = _whole_parser(command, has_verb=at < len(arguments)).parse_known_args(before)
    verb = command.verbs.get(arguments[at])
    if verb is None:
        _end_without_verb(command, arguments[at], rest)
    parser = verb_parser(command, verb)
    options, more = parser.parse_known_args(rest, options)
    if unknown + more:
        parser.error(_unknown(unknown + more, arguments, verb))
    for option in () if verb.like is None else verb.like.options:
        if not hasattr(options, option.key):
            value = option.initial
            setattr(options, option.key, option.converter(value) if isinstance(value, str) else value)
    options.command, options.verb, options.say = command, verb, Say(command.name)
    return options


def verb_parser(command: Command, verb: Verb) -> argparse.ArgumentParser:
    """Return the parser of the words after a verb."""
    examples = (re.sub(r"^(eval \"\$\()?(runtime|compiler)(?= )", rf"\g<1>{command.name}", e) for e in verb.examples)
    parser = _Parser(
        prog=f"{command.name} {verb.name}",
        description=f"{verb.summary[0].upper()}{verb.summary[1:]}. {verb.more}",
        epilog="examples:\n" + "\n".join(f"  {example}" for example in examples),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    group: Any = parser  # or a group of it, of a class that argparse keeps private
    for part in (*OPTIONS_OF_EVERY_VERB, *verb.table):
        if isinstance(part, str):
            group = parser if part == "options" else parser.add_argument_group(part)
        elif isinstance(part, Either):
            either = group.add_mutually_exclusive_group(required=part.required)
            for option in part.options:
                _add(either, option)
        else:
            _add(group, part)
    return parser


def _add(group: Any, option: Option) -> None:
    help = option.help.replace("%", "%%") or argparse.SUPPRESS
    if option.is_switch:
        group.add_argument(*option.flags, action="store_true", default=option.initial, help=help)
        return
    more: dict[str, Any] = {"dest": option.key, "required": option.required} if option.flags else {}
    if option.nargs:
        more["nargs"] = option.nargs
    if option.many:
        more["action"] = "extend" if option.nargs else "append"
    group.add_argument(
        *option.flags or (option.key,),
        type=option.converter,
        default=option.initial,
        metavar=option.value or None,
        help=help,
        **more,
    )


def _whole_parser(command: Command, *, has_verb: bool = False) -> _Parser:
    """Return the parser of a whole command, for its help and for words before a verb."""
    parser = _Parser(
        prog=command.name,
        description=command.description,
        epilog=f"{command.name} VERB --help shows the options of a verb, with examples.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version, and exit")
    parser.add_argument("--traceback", action="store_true", help=argparse.SUPPRESS)  # once given before the verb
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=not has_verb)
    for verb in command.verbs.values():
        verbs.add_parser(verb.name, help=verb.summary, add_help=False)
    return parser


def _end_without_verb(command: Command, word: str, rest: Sequence[str]) -> NoReturn:
    """End with the help of the verbs that begin with a word, or with a sentence about a verb that does not exist."""
    longer = [verb for name, verb in command.verbs.items() if name.startswith(f"{word} ")]
    if longer and ("-h" in rest or "--help" in rest):
        put("\n".join(verb_parser(command, verb).format_help() for verb in longer).rstrip("\n"))
        sys.exit(EXIT_DONE)
    hint = _usual(word, command.verbs) or closest(word, command.verbs)
    if longer or not hint:
        hint = f"; the verbs are {', '.join([verb.name for verb in longer] or command.verbs)}"
    _whole_parser(command).error(f"there is no verb {word!r}{hint}")


def _usual(verb: str, verbs: Iterable[str]) -> str:
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


def _unknown(words: Sequence[str], given: Sequence[str], verb: Verb) -> str:
    """Return the sentence for words that the parser does not know, among all that were given."""
    flags = {flag: option for option in (*OPTIONS_OF_EVERY_VERB, *verb.options) for flag in option.flags}
    flag = next((word.partition("=")[0] for word in words if word.startswith("-")), None)
    if flag is None:
        before = given[given.index(words[0]) - 1]
        hint = f"; {before} takes no value" if before in flags and flags[before].is_switch else ""
        return f"{words[0]!r} is one word too many{hint}"
    if flag in flags and "--" not in given:
        return f"{flag} comes after the verb"
    if flag in RATES and "--set" in flags:
        return f"there is no option {flag!r}; write --set rate=NUMBER for a setting of the program that is called rate"
    return f"there is no option {flag!r}{closest(flag, ('-h', '--help', *flags))}"
