"""Models that a file of GGUF would describe as others are refused, and what it has words for comes back."""

import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from subjects.language_model import GPT2, LLAMA, SIZES, made_folder

import prograd
from compiler.__main__ import main as compiler
from compiler.errors import CompileError
from compiler.exporters.gguf_read_back import require_architecture
from compiler.frontends.language_models.config import architecture_in
from runtime.language.gguf import GgufFile, read_gguf
from runtime.language.gguf_tokenizer import texts_of
from runtime.language.tokenizer import Tokenizer

pytestmark = pytest.mark.usefixtures("here")

GEMMA = {**SIZES, "model_type": "gemma3_text", "head_dim": 16, "query_pre_attn_scalar": 16, "sliding_window": 8}
TEXTS = ("who are you ?", " Two  spaces\n\n12345 don't", "<|end|>caf\u00e9 <|begin|> e\u0301 \u2581x", "")
BEGIN = {"SpecialToken": {"id": "<|begin|>", "type_id": 0}}
END = {"SpecialToken": {"id": "<|end|>", "type_id": 0}}
TEXT = {"Sequence": {"id": "A", "type_id": 0}}
BYTES = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}


def around(*single: dict[str, Any]) -> dict[str, Any]:
    special = {name: {"id": name, "ids": [code], "tokens": [name]} for name, code in (("<|end|>", 1), ("<|begin|>", 2))}
    pair = [*single, {"Sequence": {"id": "B", "type_id": 1}}]
    return {"type": "TemplateProcessing", "single": [*single], "pair": pair, "special_tokens": special}


def merged(*, code: int = 0) -> None:
    assert compiler(["import", "lm", "m", "-o", "net.pb"]) == 0
    assert compiler(["merge", "net.pb", "--layout", "gguf", "-o", "m.gguf"]) == code


def refused(told: str, capsys: Any) -> None:
    """Merge the folder, and compare the one sentence that refuses it."""
    merged(code=3)
    assert capsys.readouterr().err.splitlines()[-1] == f"compiler: merge: {told}; --layout hf writes it as it is"
    assert not Path("m.gguf").exists()


def changed(**changes: Any) -> None:
    """Change the tokenizer of the folder; `model` and `token` change its model and its last added token."""
    path = Path("m/tokenizer.json")
    given = json.loads(path.read_text())
    given["model"] |= changes.pop("model", {})
    given["added_tokens"][-1] |= changes.pop("token", {})
    path.write_text(json.dumps(given | changes))


def pieces(**changes: Any) -> None:
    """Give the folder a tokenizer that merges pieces by their scores."""
    words = [
        "<|pad|>",
        "<|end|>",
        "<|begin|>",
        *(f"<0x{byte:02X}>" for byte in range(256)),
        *"\u2581whoareyu",
        "wh",
        "who",
    ]
    words += ["\u2581who", "ar", "\u2581\u2581"]
    known = {word: code for code, word in enumerate(words)}
    parts = [[word[:at], word[at:]] for word in words[259:] for at in range(1, len(word))]
    model = {"type": "BPE", "byte_fallback": True, "fuse_unk": True, "unk_token": "<|pad|>", "vocab": known,
             "merges": [pair for pair in parts if {*pair} <= known.keys()]}  # fmt: skip
    given = {"pre_tokenizer": None, "post_processor": None, "decoder": None, **changes}
    changed(**{"normalizer": None, **given, "model": {**model, **changes.get("model", {})}})


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (LLAMA | {"hidden_act": "gelu"}, "activation 'gelu', and a reader of GGUF's llama takes 'silu'"),
        (GPT2 | {"activation_function": "silu"}, "activation 'silu', and a reader of GGUF's gpt2 takes 'gelu_tanh'"),
        (LLAMA | {"eos_token_id": [1, 2, 3, 4]}, "stops [1, 2, 3, 4], and a reader of GGUF's llama takes [1, 2, 3]"),
    ],
    ids=["llama", "gpt2", "stops"],
)
def test_an_architecture_without_words_is_refused(config: dict[str, Any], words: str, capsys: Any):
    made_folder(Path("m"), config)
    refused(f"m has {words}", capsys)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"normalizer": {"type": "Lowercase"}}, "changes or splits texts before it merges them"),
        ({"model": {"ignore_merges": True}}, "has ignore_merges true"),
        ({"model": {"end_of_word_suffix": "</w>"}}, "has end_of_word_suffix '</w>'"),
        ({"token": {"lstrip": True}}, "has the token '<|begin|>' with lstrip"),
    ],
)
def test_a_tokenizer_without_words_is_refused(changes: dict[str, Any], told: str, capsys: Any):
    made_folder(Path("m"))
    changed(**changes)
    refused(f"m/tokenizer.json {told}, and GGUF has no word for it", capsys)


@pytest.mark.parametrize(
    ("single", "told"),
    [
        ([BEGIN, TEXT], "adds '<|begin|>' to a text, which is not the bos_token of tokenizer_config.json"),
        ([BEGIN, BEGIN, TEXT], "adds other codes to a text than its first and its last"),
    ],
    ids=["other", "two"],
)
def test_codes_around_a_text_that_have_no_words_are_refused(single: list[dict[str, Any]], told: str, capsys: Any):
    made_folder(Path("m"))
    changed(post_processor=around(*single))
    refused(f"m/tokenizer.json {told}, and GGUF has no word for it", capsys)


@pytest.mark.parametrize(
    "step",
    [
        None,
        BYTES,
        around(BEGIN, TEXT),
        {"type": "Sequence", "processors": [BYTES, around(BEGIN, TEXT)]},  # as Llama 3 has it
        around(TEXT, END),
        around(BEGIN, TEXT, END),
    ],
    ids=["none", "bytes", "begin", "sequence", "end", "both"],
)
def test_codes_around_a_text_come_back(step: dict[str, Any] | None):
    made_folder(Path("m"))
    changed(post_processor=step)
    path = Path("m/tokenizer_config.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"bos_token": "<|begin|>"}))
    merged()
    compare()


SPACES = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
PREFIX = {"type": "Prepend", "prepend": "\u2581"}
SPLIT = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}
METASPACE = {"type": "Metaspace", "replacement": "\u2581", "split": False}


@pytest.mark.parametrize(
    "steps",
    [
        {"normalizer": {"type": "Sequence", "normalizers": [PREFIX, SPACES]}},
        {"normalizer": SPACES},
        {"normalizer": SPACES, "pre_tokenizer": SPLIT},
        {"pre_tokenizer": METASPACE | {"prepend_scheme": "never"}},
    ],
    ids=["prefix", "plain", "split", "never"],
)
def test_pieces_come_back(steps: dict[str, Any]):
    made_folder(Path("m"))
    pieces(**steps)
    merged()
    compare()


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ({"pre_tokenizer": METASPACE | {"prepend_scheme": "first"}}, "changes or splits texts before it merges them"),
        ({"pre_tokenizer": METASPACE | {"prepend_scheme": "always"}}, "changes or splits texts before it merges them"),
        ({"pre_tokenizer": METASPACE | {"prepend_scheme": "never", "split": True}},
         "changes or splits texts before it merges them"),
        ({"normalizer": SPACES, "model": {"merges": [["w", "h"], ["wh", "o"], ["\u2581", "who"]]}},
         "merges pieces in an order that no scores of them give"),
    ],
    ids=["first", "always", "split", "order"],
)  # fmt: skip
def test_pieces_without_words_are_refused(steps: dict[str, Any], told: str, capsys: Any):
    made_folder(Path("m"))
    pieces(**steps)
    refused(f"m/tokenizer.json {told}, and GGUF has no word for it", capsys)


def compare() -> None:
    ours = Tokenizer(Path("m/tokenizer.json").read_text())
    again = Tokenizer(texts_of(read_gguf(Path("m.gguf")))["tokenizer.json"])
    for text in TEXTS:
        for special in (False, True):
            assert again.codes(text, special=special) == ours.codes(text, special=special)


def test_all_codes_that_end_a_text_come_back():
    made_folder(Path("m"), LLAMA | {"eos_token_id": [2, 1]})
    merged()
    assert compiler(["import", "lm", "m.gguf", "-o", "again.pb"]) == 0
    values = read_gguf(Path("m.gguf")).values
    assert {values["tokenizer.ggml.eos_token_id"], values["tokenizer.ggml.eot_token_id"]} == {1, 2}


def test_biases_of_the_feed_forward_part_come_back():
    made_folder(Path("m"))
    assert compiler(["import", "lm", "m", "-o", "net.pb"]) == 0
    import numpy as np
    from safetensors.numpy import load_file, save_file

    weights, rng = load_file("m/model.safetensors"), np.random.default_rng(0)
    config = json.loads(Path("m/config.json").read_text()) | {"mlp_bias": True}
    Path("m/config.json").write_text(json.dumps(config))
    for layer in range(2):
        for name, size in (("gate", 96), ("up", 96), ("down", 64)):
            weights[f"model.layers.{layer}.mlp.{name}_proj.bias"] = rng.normal(size=size).astype("f4")
    save_file(weights, "m/model.safetensors")
    losses = []
    for source, output in (("m", "a.pb"), ("m.gguf", "b.pb")):
        if source == "m.gguf":
            assert compiler(["merge", "a.pb", "--layout", "gguf", "-o", source]) == 0
        assert compiler(["import", "lm", source, "--length", "8", "--batch", "2", "-o", output]) == 0
        fed = {name: np.full((2, 8), 5, np.int32) for name in ("codes", "labels")}
        losses.append(float(prograd.load(output).step(fed, entry="evaluate")["loss"]))
    assert losses[0] == losses[1]


def test_a_missing_window_is_that_of_transformers():
    without = {key: value for key, value in GEMMA.items() if key != "sliding_window"} | {"num_hidden_layers": 7}
    assert architecture_in(Path("c"), without).windows == (4096,) * 5 + (0, 4096)
    assert architecture_in(Path("c"), without | {"sliding_window": None}).windows == (0,) * 7
    assert architecture_in(Path("c"), LLAMA | {"model_type": "mistral"}).windows == (4096,) * 2
    used = LLAMA | {"model_type": "qwen2", "use_sliding_window": True, "num_hidden_layers": 30, "sliding_window": 8}
    assert architecture_in(Path("c"), used).windows == (0,) * 28 + (8, 8)


@pytest.mark.parametrize(
    "more", [{"rope_theta": 1e6}, {"rope_theta": 1e4, "rope_scaling": {"type": "linear", "factor": 2}}]
)
def test_layers_with_a_window_as_long_as_the_model_keep_rotations_of_their_own(more: dict[str, Any]):
    given = GEMMA | {"rope_local_base_freq": 1e4, "sliding_window": 4096} | more
    every_second, every_sixth, none = (
        architecture_in(Path("c"), given | change)
        for change in ({"sliding_window_pattern": 2}, {}, {"sliding_window": None})
    )
    file = GgufFile(Path("m"), {"general.architecture": "gemma3"}, {}, {})
    for read in (every_sixth, none):
        with patch("compiler.exporters.gguf_read_back.architecture_of_file", lambda _, read=read: read):
            with pytest.raises(
                CompileError, match=r"^merge: m has windows \[128, 0\], and a reader of GGUF's gemma3 takes"
            ):
                require_architecture(every_second, file)
            require_architecture(read, file)
