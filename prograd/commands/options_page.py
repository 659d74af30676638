"""The page about the options of all verbs, made from their tables: `python -m prograd.commands.options_page`."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.commands.verbs.command import COMMAND as COMPILER
from runtime.command_line.tables import OPTIONS_OF_EVERY_VERB, Either, Verb
from runtime.commands.verbs.command import COMMAND as RUNTIME

HEAD = """\
# Options of all verbs

Made by `python -m prograd.commands.options_page > docs/options.md`; the tables in
`runtime/commands/verbs/` and `compiler/commands/verbs/` are the place to edit. [Commands](commands.md)
explains the verbs with examples. The command `prograd` has all of these verbs.

Every verb has these options:

| option | does |
| --- | --- |"""


def options_page() -> str:
    """Return the page as Markdown."""
    lines = [HEAD, "| `-h, --help` | print the help of the verb, and exit |"]
    lines += [f"| `{option.usage}` | {_cell(option.help)} |" for option in OPTIONS_OF_EVERY_VERB]
    for command in (RUNTIME, COMPILER):
        for verb in command.verbs.values():
            lines += ["", f"## {command.name} {verb.name}", "", f"{verb.summary[0].upper()}{verb.summary[1:]}.", ""]
            lines += ["| option | does | depends on |", "| --- | --- | --- |", *_rows(verb)]
    return "\n".join(lines) + "\n"


def _rows(verb: Verb) -> Iterator[str]:
    flags = {flag for option in verb.options for flag in option.flags}
    pairs = _exclusions(verb)
    for option in verb.options:
        if option.help:
            notes = ["required"] if option.required else []
            for others in option.needs:
                notes.append(f"needs {' or '.join(_code(flag) for flag in others.split() if flag in flags)}")
            excluded = [each.flags[-1] for each in verb.options if (option.usage, each.usage) in pairs]
            notes += [f"not with {', '.join(map(_code, excluded))}"] if excluded else []
            notes += [f"entries for {option.entries}"] if option.entries else []
            yield f"| `{option.usage}` | {_cell(option.help)} | {'; '.join(notes)} |"


def _exclusions(verb: Verb) -> set[tuple[str, str]]:
    """Return the usages of options of which one may be given, as pairs in both orders."""
    pairs = {
        (option.usage, other.usage)
        for option in verb.options
        for flags in option.excludes
        for other in verb.options
        if not set(flags.split()).isdisjoint(other.flags)
    }
    alternatives = [part.options for part in verb.table if isinstance(part, Either)]
    pairs |= {(a.usage, b.usage) for options in alternatives for a in options for b in options if a is not b}
    return pairs | {(b, a) for a, b in pairs}


def _code(flag: str) -> str:
    return f"`{flag}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(options_page(), end="")
