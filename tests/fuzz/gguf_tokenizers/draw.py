"""Random tokenizers in the form of tokenizer.json, and random texts."""

# pyright: basic
# JSON has no types here, nor has the package.

from __future__ import annotations

import json
from random import Random
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from runtime.language.gguf_tokenizer import SPACE, SPLITS

SPECIAL = ["<s>", "</s>", "<|end|>"]
TRAINED = [
    "what is the capital of belgium ? the capital of belgium is brussels .",
    "I'll say it's 12345 things, WON'T I?\n\n  indeed   so",
    "\u00e9t\u00e9 na\u00efve \uff21bc \ufb01ne \u4e2d\u6587\u5b57\u7b26 \u65e5\u672c",
    "aaaa aaaaa aa  aaa\n\n\nb",
]
PARTS = [
    *"abcdefgh XYZ0123456789.,?!'\n\t\r\0",
    *("e\u0301", "\u00e9", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\u4e2d\u6587", "\u200b", "  ", "    "),
    *("\r\n", "\n\n", "'s", "'LL", *SPECIAL, " <|end|>", "\ufb01", "\uff21", "the ", "capital", SPACE, "\ufdfa"),
    *("\u1100\u1161", "\ufeff", "\u0928\u0940", "1234567"),
]


def text_of(rng: Random) -> str:
    """Return a text with marks, control characters, spaces and special tokens."""
    return "".join(rng.choices(PARTS, k=rng.randint(0, 25)))


def tokenizer_of(rng: Random) -> dict[str, Any]:
    """Return a tokenizer."""
    given = _bytes(rng) if rng.random() < 0.6 else _pieces(rng)
    given["post_processor"] = rng.choice(_AROUND)
    if rng.random() < 0.1:
        given["added_tokens"][-1][rng.choice(["lstrip", "rstrip", "single_word"])] = True
    return given


def _bytes(rng: Random) -> dict[str, Any]:
    made = Tokenizer(models.BPE(ignore_merges=rng.random() < 0.3))
    made.normalizer = rng.choice([
        *[None] * 3, normalizers.NFC(), normalizers.Lowercase(), normalizers.NFKC(), normalizers.Sequence([]),
        normalizers.Sequence([normalizers.NFC()]),
    ])  # fmt: skip
    trainer = trainers.BpeTrainer(
        vocab_size=rng.choice([300, 340, 400]),
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.train_from_iterator(TRAINED, trainer)
    split = rng.choice([*SPLITS.values(), {**SPLITS["gpt-2"], "add_prefix_space": True}])
    return json.loads(made.to_str()) | {"pre_tokenizer": split}


def _pieces(rng: Random) -> dict[str, Any]:
    space = normalizers.Replace(" ", SPACE)
    made = Tokenizer(models.BPE())
    made.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), space])
    trainer = trainers.BpeTrainer(vocab_size=rng.choice([100, 140]), special_tokens=SPECIAL, show_progress=False)
    made.train_from_iterator(TRAINED, trainer)
    trained = [token for token in sorted(made.get_vocab(), key=made.get_vocab().__getitem__) if token not in SPECIAL]
    words = [*SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256)), *trained]
    known = {word: code for code, word in enumerate(words)}
    merges = [tuple(pair) for pair in json.loads(made.to_str())["model"]["merges"]]
    if rng.random() < 0.7:  # all pairs by the scores of what they give
        splits = [(word[:at], word[at:]) for word in trained for at in range(1, len(word))]
        merges = [pair for pair in splits if {*pair} <= known.keys()]
    if rng.random() < 0.1:
        rng.shuffle(merges)
    made = Tokenizer(models.BPE(vocab=known, merges=merges, unk_token=SPECIAL[0], fuse_unk=True, byte_fallback=True))
    scheme = rng.choice(["always", "first", "never"])
    metaspace = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=rng.random() < 0.3)
    prefix = normalizers.Sequence([normalizers.Prepend(SPACE), space])
    steps = [
        *[(prefix, None), (space, None), (None, metaspace), (normalizers.Sequence([normalizers.NFKC(), space]), None)],
        *[
            (space, pre_tokenizers.Split(" ", "merged_with_previous")),
            (space, pre_tokenizers.Split(Regex("a"), "isolated")),
        ],
    ]
    made.normalizer, split = rng.choice(steps)
    if split is not None:
        made.pre_tokenizer = split
    made.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in SPECIAL])
    return json.loads(made.to_str())


def _around(*tokens: str | None) -> dict[str, Any]:
    """Return the step that puts tokens around a text; None stands for the text itself."""
    single = [
        {"Sequence": {"id": "A", "type_id": 0}} if token is None else {"SpecialToken": {"id": token, "type_id": 0}}
        for token in tokens
    ]
    special = {token: {"id": token, "ids": [code], "tokens": [token]} for code, token in enumerate(SPECIAL)}
    pair = [*single, {"Sequence": {"id": "B", "type_id": 1}}]
    return {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": special}


_LEVEL = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
_AROUND = [
    *[None, _LEVEL, _around("<s>", None), {"type": "Sequence", "processors": [_LEVEL, _around("<s>", None)]}],
    *[_around(None, "</s>"), _around("<s>", None, "</s>"), _around("<|end|>", None), _around("<s>", "<s>", None)],
]
