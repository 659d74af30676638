"""Refusals of models that a file of GGUF would describe as other models: its metadata are read back first.

GGUF has no words for some properties, such as another activation than the usual one of an architecture, or a step that
lowers the letters of a text. A reader would take its own value for them, and every text would be another one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NoReturn

from compiler.errors import CompileError, compile_errors
from compiler.frontends.language_models.config import Architecture
from compiler.frontends.language_models.gguf_model import FACTORS, architecture_of_file
from runtime.language.gguf import GgufFile
from runtime.language.gguf_tokenizer import SPACE, texts_of

Step = Mapping[str, Any]

_COMPARED: Final = [each.name for each in fields(Architecture) if each.name not in ("family", "stops", "windows")]
_SPACES: Final = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
_PREFIX: Final = {"type": "Prepend", "prepend": SPACE}


def require_architecture(made: Architecture, file: GgufFile) -> None:
    """Raise CompileError for an architecture that a reader of the file takes for another one."""
    read = architecture_of_file(file)
    ours, theirs = ({name: getattr(each, name) for name in _COMPARED} for each in (made, read))
    ours["windows"], theirs["windows"] = (_seen(each, made) for each in (made, read))
    ours["stops"] = [*made.stops]
    theirs["stops"] = [code for code in made.stops if code in read.stops]
    if not any(made.windows):
        del ours["local_rotary"]  # no layer reads it
    if FACTORS in file.tensors:
        del ours["rotary_factors"]  # the file has them outside its header
    word = file.values["general.architecture"]
    for name, value in ours.items():
        if not _is_equal(value, theirs[name]):
            raise CompileError(
                f"merge: {file.path} has {name} {value!r}, and a reader of GGUF's {word} takes {theirs[name]!r}; "
                "--layout hf writes it as it is"
            )


def require_tokenizer(given: Mapping[str, Any], file: GgufFile) -> None:
    """Raise CompileError for a tokenizer that a reader of the file takes for another one."""
    with compile_errors("merge: "):
        read: Any = json.loads(texts_of(file)["tokenizer.json"])
    _require_words(given, read["model"]["ignore_merges"], file)
    if normal_steps(given) != normal_steps(read):
        refuse(file.path, "changes or splits texts before it merges them")
    if given["model"].get("byte_fallback"):
        _require_scores(given, read["model"]["merges"], file)


def normal_steps(given: Mapping[str, Any]) -> list[Step]:
    """Return the steps that change a text before codes are merged.

    A tokenizer with pieces has spaces among them, in one form for all that mean the same, and what else splits texts.
    """
    steps = _flat(given.get("normalizer"), "normalizers")
    if not given["model"].get("byte_fallback"):
        return steps
    splits = _flat(given.get("pre_tokenizer"), "pretokenizers")
    if _SPACES in steps:  # no space is left to split at
        splits = [split for split in splits if split.get("pattern") != {"String": " "}]
    if not steps and len(splits) == 1 and splits[0].get("type") == "Metaspace":
        split, has_inner = splits[0], any(SPACE in token[1:] for token in given["model"]["vocab"])
        is_split = split.get("split", True) and has_inner
        if split.get("prepend_scheme") == "never" and split.get("replacement") == SPACE and not is_split:
            return [_SPACES]
    return [*steps, *splits]


def has_prefix(given: Mapping[str, Any]) -> bool:
    """Return True for a tokenizer with pieces that puts a space before each text."""
    return normal_steps(given)[:1] == [_PREFIX]


def first_and_last(given: Mapping[str, Any], source: Path) -> tuple[str | None, str | None]:
    """Return the tokens that are put before and behind a text; raise CompileError for codes of another form."""
    steps = [step for step in _flat(given.get("post_processor"), "processors") if step.get("type") != "ByteLevel"]
    if not steps:
        return None, None
    named = [each.get("SpecialToken", {}).get("id") for each in steps[0].get("single", ())]
    first = named.pop(0) if named[:1] != [None] and named else None
    last = named.pop() if named[-1:] != [None] and named else None
    if len(steps) > 1 or named != [None]:
        refuse(source, "adds other codes to a text than its first and its last")
    return first, last


def refuse(source: Path, what: str) -> NoReturn:
    """Raise CompileError for the tokenizer of a folder, by a property that GGUF has no word for."""
    raise CompileError(
        f"merge: {source / 'tokenizer.json'} {what}, and GGUF has no word for it; --layout hf writes it as it is"
    )


def _require_words(given: Mapping[str, Any], ignores: bool, file: GgufFile) -> None:
    """Raise CompileError for properties of tokens and of merges that GGUF has no words for."""
    model = given["model"]
    for token in given.get("added_tokens", ()):
        for key in ("single_word", "lstrip", "rstrip"):
            if token.get(key):
                refuse(file.path, f"has the token {token['content']!r} with {key}")
    for key in ("dropout", "continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(key):
            refuse(file.path, f"has {key} {model[key]!r}")
    if bool(model.get("ignore_merges")) != ignores:
        refuse(file.path, f"has ignore_merges {json.dumps(not ignores)}")


def _require_scores(given: Mapping[str, Any], read: Sequence[Sequence[str]], file: GgufFile) -> None:
    """Raise CompileError if pieces are merged in another order than by the scores of what they give."""
    added = {token["content"] for token in given.get("added_tokens", ())}
    ours = [tuple(pair if isinstance(pair, list) else pair.split(" ")) for pair in given["model"]["merges"]]
    ours = [pair for pair in ours if "".join(pair) not in added]
    order = list(dict.fromkeys("".join(pair) for pair in ours))
    changes = sum("".join(a) != "".join(b) for a, b in pairwise(ours))
    if {*ours} != {tuple(pair) for pair in read} or changes + bool(ours) != len(order):
        refuse(file.path, "merges pieces in an order that no scores of them give")


def _seen(read: Architecture, made: Architecture) -> list[int]:
    """Return the windows of layers; 0 for one of all positions, unless it tells that a layer rotates otherwise."""
    turned = made.local_rotary and (made.rotary_factors or made.local_rotary != made.rotary)
    longest = made.positions if turned else 0
    return [window if window < made.positions else longest for window in read.windows]


def _is_equal(a: Any, b: Any) -> bool:
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(_is_equal, a, b))
    return math.isclose(a, b, rel_tol=1e-6) if isinstance(a, float) else a == b


def _flat(given: Any, key: str) -> list[Step]:
    """Return the steps of a sequence, without sequences in it and without fields that change no code."""
    if not isinstance(given, dict):
        return []
    if given.get("type") == "Sequence":
        return [step for each in given.get(key, ()) for step in _flat(each, key)]
    return [given]
