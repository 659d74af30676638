"""Small encoders as folders of Hugging Face's form: config, random weights and a tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

BERT = {
    "model_type": "bert",
    "vocab_size": 320,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "type_vocab_size": 2,
    "hidden_act": "gelu",
    "id2label": {"0": "LABEL_0", "1": "LABEL_1"},
}
WORDS = "who are you a small model what is the capital of belgium brussels good bad fine poor film this was".split()  # noqa: SIM905 - a table to be read


def shapes_of(config: dict[str, Any], *, has_head: bool) -> dict[str, tuple[int, ...]]:
    """Return the weights of a folder."""
    n, hidden = config["hidden_size"], config["intermediate_size"]
    found: dict[str, tuple[int, ...]] = {}

    def linear(name: str, outputs: int, inputs: int) -> None:
        found.update({f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)})

    def norm(name: str) -> None:
        found.update({f"{name}.weight": (n,), f"{name}.bias": (n,)})

    sizes = {"word": "vocab_size", "position": "max_position_embeddings", "token_type": "type_vocab_size"}
    found |= {f"bert.embeddings.{part}_embeddings.weight": (config[key], n) for part, key in sizes.items()}
    norm("bert.embeddings.LayerNorm")
    for i in range(config["num_hidden_layers"]):
        at = f"bert.encoder.layer.{i}"
        for part in ("query", "key", "value"):
            linear(f"{at}.attention.self.{part}", n, n)
        linear(f"{at}.attention.output.dense", n, n)
        norm(f"{at}.attention.output.LayerNorm")
        linear(f"{at}.intermediate.dense", hidden, n)
        linear(f"{at}.output.dense", n, hidden)
        norm(f"{at}.output.LayerNorm")
    linear("bert.pooler.dense", n, n)
    if has_head:
        linear("classifier", len(config["id2label"]), n)
    return found


def weights_of(config: dict[str, Any], *, has_head: bool = True) -> dict[str, np.ndarray]:
    """Return random weights."""
    rng = np.random.default_rng(0)
    return {
        name: (("LayerNorm.weight" in name) + rng.normal(0, 0.15, shape)).astype("f4")
        for name, shape in shapes_of(config, has_head=has_head).items()
    }


def made_encoder(folder: Path, *, has_head: bool = True, old_names: bool = False, **more: Any) -> Path:
    """Write an encoder, with `more` in its config, and return its folder; old names lack the prefix."""
    tokenizers = pytest.importorskip("tokenizers", reason='needs tokenizers: pip install ".[lm]"')
    safetensors = pytest.importorskip("safetensors.numpy")
    folder.mkdir(parents=True, exist_ok=True)
    config = {**BERT, **more}
    (folder / "config.json").write_text(json.dumps(config))
    found = weights_of(config, has_head=has_head)
    if old_names:
        found = {n.removeprefix("bert.").replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta"): array
                 for n, array in found.items()}  # fmt: skip
    safetensors.save_file(found, folder / "model.safetensors")
    codes = {word: i for i, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *sorted({*WORDS, "?"})])}
    made = tokenizers.Tokenizer(tokenizers.models.WordPiece(codes, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    made.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    made.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    made.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"pad_token": "[PAD]"}))
    return folder
