"""The tokenizer and the template of a GGUF file, as the files that a folder of Hugging Face's form has.

`gpt2` tokenizers merge pairs of bytes in the order of `merges`, and `pre` names how a text is split before. `llama`
tokenizers merge pieces by their scores, and write spaces as U+2581.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from runtime.errors import DataError
from runtime.language.gguf import GgufFile

SPACE: Final = "\u2581"
NORMAL, UNKNOWN, CONTROL, OWN, UNUSED, BYTE = range(1, 7)
"""The kinds of codes."""

_BYTES: Final = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
_LLAMA3: Final = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2: Final = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def _split(pattern: str) -> dict[str, Any]:
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    plain = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    return {"type": "Sequence", "pretokenizers": [split, plain]}


_DIGITS: Final = {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, _BYTES]}

SPLITS: Final[Mapping[str, Any]] = {
    "gpt-2": _BYTES,
    "smollm": _DIGITS,
    "llama-bpe": _split(_LLAMA3),
    "qwen2": _split(_QWEN2),
}
"""How texts are split before pairs are merged, by the word of the file."""

PREFIX: Final = "tokenizer.ggml."


def texts_of(file: GgufFile) -> dict[str, str]:
    """Return the texts of tokenizer.json and tokenizer_config.json.

    Raises DataError for a file without a tokenizer, or one of a kind that is not read.
    """
    return _Texts(file).texts()


class _Texts:
    def __init__(self, file: GgufFile) -> None:
        self.file = file
        self.tokens = self._texts("tokens")
        if len(set(self.tokens)) != len(self.tokens):
            raise DataError(f"{file.path}: {PREFIX}tokens has a text twice")
        self.kinds = self._value("token_type", [NORMAL] * len(self.tokens))
        if not isinstance(self.kinds, list) or len(self.kinds) != len(self.tokens):
            raise DataError(f"{file.path}: {PREFIX}token_type does not have a kind for each code")

    def texts(self) -> dict[str, str]:
        kinds = {"gpt2": self._pairs, "llama": self._pieces}
        kind = self._value("model", None)
        if kind not in kinds:
            raise DataError(f"{self.file.path}: the tokenizer is {kind!r}; gpt2 and llama are read")
        special = (CONTROL, UNKNOWN)
        added = [
            {"id": i, "content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
             "special": self.kinds[i] in special}
            for i, token in enumerate(self.tokens) if self.kinds[i] in (*special, OWN)
        ]  # fmt: skip
        made = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, **kinds[kind]()}
        config = {f"{name}_token": self._token(f"{name}_token_id") for name in ("bos", "eos", "unk", "pad")}
        config["unk_token"] = config["unk_token"] or self._token("unknown_token_id")
        config["pad_token"] = config["pad_token"] or self._token("padding_token_id")
        found: dict[str, Any] = {name: token for name, token in config.items() if token is not None}
        template = self.file.values.get("tokenizer.chat_template")
        if isinstance(template, str):
            found["chat_template"] = template
        both = {"tokenizer.json": made, "tokenizer_config.json": found}
        return {name: json.dumps(each, sort_keys=True) for name, each in both.items()}

    def _pairs(self) -> dict[str, Any]:
        """Return a tokenizer that merges bytes."""
        pre = self._value("pre", "gpt-2")
        if pre not in SPLITS:
            raise DataError(f"{self.file.path}: texts are split in the way {pre!r}; {', '.join(SPLITS)} are known")
        merges = [merge.split(" ") for merge in self._texts("merges")]
        known = {token: i for i, token in enumerate(self.tokens)}
        if not all(len(pair) == 2 and {*pair, "".join(pair)} <= known.keys() for pair in merges):
            raise DataError(f"{self.file.path}: {PREFIX}merges has what no pair of codes is")
        return {
            "normalizer": {"type": "NFC"} if pre == "qwen2" else None,
            "pre_tokenizer": SPLITS[pre],
            "post_processor": self._around(False),
            "decoder": {**_BYTES, "add_prefix_space": True},
            "model": _bpe(known, merges, ignore_merges=pre == "llama-bpe"),
        }

    def _pieces(self) -> dict[str, Any]:
        """Return a tokenizer that merges pieces with the best score first."""
        scores = self._value("scores", None)
        if not isinstance(scores, list) or len(scores) != len(self.tokens):
            raise DataError(f"{self.file.path}: {PREFIX}scores does not have a number for each code")
        known = {token: i for i, token in enumerate(self.tokens)}
        pairs: list[tuple[float, int, int, list[str]]] = []
        for i, token in enumerate(self.tokens):
            if self.kinds[i] == NORMAL and len(token) <= 64:
                parts = [[token[:at], token[at:]] for at in range(1, len(token))]
                pairs += [(-scores[i], known[a], known[b], [a, b]) for a, b in parts if a in known and b in known]
        pairs.sort(key=lambda pair: pair[:3])
        prefix = self._value("add_space_prefix", True) is True
        start = [{"type": "Prepend", "prepend": SPACE}] if prefix else []
        replace = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
        back = [
            {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
            {"type": "ByteFallback"},
            {"type": "Fuse"},
        ]
        end = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if prefix else []
        unknown = next((token for token, kind in zip(self.tokens, self.kinds, strict=True) if kind == UNKNOWN), None)
        return {
            "normalizer": {"type": "Sequence", "normalizers": [*start, replace]},
            "pre_tokenizer": None,
            "post_processor": self._around(True),
            "decoder": {"type": "Sequence", "decoders": [*back, *end]},
            "model": _bpe(known, [pair[3] for pair in pairs], unknown=unknown, byte_fallback=True, fuse_unk=True),
        }

    def _around(self, default: bool) -> Any:
        """Return the step that puts the codes of a beginning and of an end around a text."""
        begin = self._added("bos") if self._value("add_bos_token", default) is True else []
        end = self._added("eos") if self._value("add_eos_token", False) is True else []
        special = {
            token: {"id": token, "ids": [self.tokens.index(token)], "tokens": [token]} for token in (*begin, *end)
        }
        first, last = ([{"SpecialToken": {"id": token, "type_id": 0}} for token in each] for each in (begin, end))
        text = [{"Sequence": {"id": each, "type_id": i}} for i, each in enumerate("AB")]
        return {
            "type": "TemplateProcessing",
            "single": [*first, text[0], *last],
            "pair": [*first, text[0], *last, *first, text[1], *last],
            "special_tokens": special,
        }

    def _added(self, word: str) -> list[str]:
        token = self._token(f"{word}_token_id")
        return [] if token is None else [token]

    def _token(self, key: str) -> str | None:
        code = self._value(key, None)
        return self.tokens[code] if type(code) is int and 0 <= code < len(self.tokens) else None

    def _texts(self, key: str) -> list[str]:
        found = self._value(key, None)
        if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
            raise DataError(f"{self.file.path}: the file has no tokenizer: {PREFIX}{key} is no list of texts")
        return found

    def _value(self, key: str, default: Any) -> Any:
        return self.file.values.get(PREFIX + key, default)


def _bpe(known: Any, merges: Any, *, unknown: str | None = None, **more: bool) -> dict[str, Any]:
    plain = {"fuse_unk": False, "byte_fallback": False, "ignore_merges": False}
    return {"type": "BPE", "dropout": None, "unk_token": unknown, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, **plain, **more, "vocab": known, "merges": merges}  # fmt: skip
