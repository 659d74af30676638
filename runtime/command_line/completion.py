"""Shell completion of verbs, options and their words: a script made from the tables of a command.

The script holds all words, so pressing Tab starts no Python. Where it has no words to offer, it offers files.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from shlex import quote
from typing import Final

from runtime.command_line.streams import put
from runtime.command_line.tables import OPTIONS_OF_EVERY_VERB, Command, Option, Verb

HELP: Final = Option("-h, --help", "show this help message and exit")


def completion(options: argparse.Namespace) -> None:
    """Print the script that `eval "$(command completion shell)"` reads in the start-up file of a shell."""
    scripts = {"bash": _bash, "zsh": _zsh, "fish": _fish}
    command: Command = options.command
    put("\n".join(scripts[options.shell](command.name, [*command.verbs.values()])))


def _options(verb: Verb) -> list[Option]:
    """Return the options that help shows, and -h."""
    shown = (HELP, *OPTIONS_OF_EVERY_VERB, *verb.options)
    return [option for option in shown if option.flags and option.help]


def _words(verb: Verb) -> list[str]:
    """Return the words that may replace a file."""
    return [word for option in verb.options if not option.flags for word in option.words]


def _bash(command: str, verbs: Sequence[Verb]) -> Iterator[str]:
    yield from (
        f"_prograd_{command}() {{",
        "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}",
        "    local verb=${COMP_WORDS[1]} words=",
        '    if [[ "$verb" == data ]]; then verb="data ${COMP_WORDS[2]}"; fi',
        f"    if (( COMP_CWORD == 1 )); then words={quote(_first_words(verbs))}",
        *(
            f'    elif [[ "{a}" == "$previous" ]] && (( COMP_CWORD == 2 )); then words={quote(b)}'
            for a, b in _pairs(verbs)
        ),
        '    else case "$verb $previous" in',
    )
    for verb in verbs:
        for option in _options(verb):
            if not option.is_switch:
                flags = "|".join(quote(f"{verb.name} {flag}") for flag in option.flags)
                yield f"        {flags}) words={quote(' '.join(option.words))} ;;"
    yield from ('        *) case "$verb" in',)
    for verb in verbs:
        flags = " ".join(flag for option in _options(verb) for flag in option.flags)
        yield f"            {quote(verb.name)}) words={quote(' '.join(_words(verb)))}"
        yield f"                if [[ $current == -* ]]; then words={quote(flags)}; fi ;;"
    yield from (
        "        esac ;;",
        "    esac; fi",
        '    COMPREPLY=($(compgen -W "$words" -- "$current"))',
        "}",
        f"complete -o default -F _prograd_{command} {command}",
    )


def _zsh(command: str, verbs: Sequence[Verb]) -> Iterator[str]:
    yield from (
        f"#compdef {command}",
        f"_prograd_{command}() {{",
        "    if (( CURRENT == 2 )); then",
        "        local -a verbs=(",
    )
    seconds = dict(_pairs(verbs))
    yield from (f"            {quote(f'{v.name}:{v.summary}')}" for v in verbs if " " not in v.name)
    yield from (f"            {quote(f'{first}:{words}')}" for first, words in seconds.items())
    yield from ("        )", "        _describe verb verbs", "        return", "    fi")
    for first, words in seconds.items():
        yield f"    if [[ $words[2] == {first} ]]; then"
        yield f"        if (( CURRENT == 3 )); then compadd {words}; return; fi"
        yield f'        words=("${{words[1]}}" "{first} ${{words[3]}}" "${{(@)words[4,-1]}}"); (( CURRENT-- ))'
        yield "    fi"
    yield from ("    local verb=$words[2]", "    shift words; (( CURRENT-- ))", '    case "$verb" in')
    for verb in verbs:
        rest = f"*:word:({' '.join(_words(verb))})" if _words(verb) else "*:file:_files"
        specs = [_zsh_spec(option, flag) for option in _options(verb) for flag in option.flags]
        yield f"        {quote(verb.name)}) _arguments {' '.join(map(quote, [*specs, rest]))} ;;"
    yield from ("    esac", "}", f"compdef _prograd_{command} {command}")


def _zsh_spec(option: Option, flag: str) -> str:
    said = re.sub(r"([\[\]:\\])", r"\\\1", option.help)
    value = "" if option.is_switch else f":value:({' '.join(option.words)})" if option.words else ":value:_files"
    return f"*{flag}[{said}]{value}"


def _fish(command: str, verbs: Sequence[Verb]) -> Iterator[str]:
    """Yield the lines for fish, which offers files where nothing forbids it."""
    first = f"complete -c {command} -n '__fish_is_nth_token 1' -f"
    for verb in verbs:
        if " " not in verb.name:
            yield f"{first} -a {_in_fish(verb.name)} -d {_in_fish(verb.summary)}"
    for word, words in _pairs(verbs):
        yield f"{first} -a {word} -d {_in_fish(words)}"
        second = f"__fish_is_nth_token 2; and __fish_seen_subcommand_from {word}"
        yield f"complete -c {command} -n '{second}' -f -a {_in_fish(words)}"
    for verb in verbs:
        seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in verb.name.split())
        start = f"complete -c {command} -n '{seen}'"
        if _words(verb):
            yield f"{start} -f -a {_in_fish(' '.join(_words(verb)))}"
        for option in _options(verb):
            flags = " ".join(f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags)
            value = f" -x -a {_in_fish(' '.join(option.words))}" if option.words else "" if option.is_switch else " -r"
            yield f"{start} {flags}{value} -d {_in_fish(option.help)}"


def _in_fish(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _first_words(verbs: Sequence[Verb]) -> str:
    return " ".join(dict.fromkeys(verb.name.partition(" ")[0] for verb in verbs))


def _pairs(verbs: Sequence[Verb]) -> list[tuple[str, str]]:
    """Return the first word of each two-word verb, with the words that may follow it."""
    firsts = dict.fromkeys(verb.name.partition(" ")[0] for verb in verbs if " " in verb.name)
    return [(first, " ".join(v.name.split()[1] for v in verbs if v.name.startswith(f"{first} "))) for first in firsts]
