"""Conversations as text, by the template of a model: a program of Jinja, run in its sandbox and within limits."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

from runtime.errors import DataError
from runtime.language.sandbox import compiled, rendered

Message = Mapping[str, str]
"""A turn of a conversation: its `role` and its `content`."""

ROLES: Final = ("system", "user", "assistant")
"""The roles of a conversation."""


class Template:
    """The template of a model's conversations."""

    def __init__(self, files: Mapping[str, str], where: str) -> None:
        """Compile the template of a folder's files.

        Raises DataError for a folder without one, or one that Jinja cannot read, with its line.
        """
        self._where = where
        self._tokens, text = _tokens_and_template(files, where)
        if text is None:
            raise DataError(
                f"{where}: the model has no chat template, in chat_template.jinja or tokenizer_config.json; "
                "it takes plain texts"
            )
        self._template = compiled(text, self._fail)

    def text(self, messages: Sequence[Message], *, answer: bool = False) -> str:
        """Return a conversation as text, with the beginning of an answer behind it if `answer`.

        Raises DataError if the template refuses it, fails or takes too long.
        """
        return rendered(
            self._template,
            {"messages": [dict(message) for message in messages], "add_generation_prompt": answer, **self._tokens},
            self._fail,
        )

    def _fail(self, why: str, line: int | None) -> NoReturn:
        at = "" if line is None else f", line {line}"
        raise DataError(f"{self._where}: the chat template{at}: {why}")


def _tokens_and_template(files: Mapping[str, str], where: str) -> tuple[dict[str, str], str | None]:
    """Return the special tokens that a template may name, and its text."""
    try:
        config: Any = json.loads(files.get("tokenizer_config.json", "{}"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: tokenizer_config.json is no JSON: {str(error)[:80]}") from None
    if not isinstance(config, dict):
        raise DataError(f"{where}: tokenizer_config.json has no JSON object")
    tokens: dict[str, str] = {}
    for name in ("bos_token", "eos_token", "unk_token", "pad_token"):
        given: Any = config.get(name)
        given = given.get("content") if isinstance(given, dict) else given
        tokens[name] = given if isinstance(given, str) else ""
    text: Any = files.get("chat_template.jinja", config.get("chat_template"))
    if isinstance(text, list):  # several templates, each with a name
        named = [each for each in text if isinstance(each, dict) and each.get("name") == "default"]
        text = named[0].get("template") if named else None
    return tokens, text if isinstance(text, str) else None


def require_conversation(given: object, where: str) -> list[dict[str, str]]:
    """Return the turns of a conversation; raise DataError for anything else."""
    if not isinstance(given, list) or not given:
        raise DataError(f"{where}: messages is no list of turns, as in [{{'role': 'user', 'content': 'Hello'}}]")
    made: list[dict[str, str]] = []
    for number, turn in enumerate(given, 1):
        if not isinstance(turn, dict) or not isinstance(turn.get("content"), str):
            raise DataError(f"{where}: turn {number} has no content of text")
        role: Any = turn.get("role")
        if role not in ROLES:
            raise DataError(f"{where}: turn {number} has the role {role!r}; a role is one of {', '.join(ROLES)}")
        made.append({"role": role, "content": turn["content"]})
    return made
