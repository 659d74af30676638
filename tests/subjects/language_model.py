"""Small language models as folders of Hugging Face's form: config, random weights, a tokenizer and a template."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

TEMPLATE = (
    "{% for message in messages %}<|begin|>{{ message['role'] }}\n{{ message['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|begin|>assistant\n{% endif %}"
)
TEXTS = [
    "what is the capital of belgium ? the capital of belgium is brussels .",
    "system user assistant\nwho are you ? i am a small model .",
]
CODES = 320
"""The size of the tables of codes, larger than the tokenizer."""

SIZES = {
    "vocab_size": CODES,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
}
LLAMA = {
    "model_type": "llama",
    **SIZES,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": True,
    "eos_token_id": 1,
}
GPT2 = {
    "model_type": "gpt2",
    "vocab_size": CODES,
    "n_embd": 64,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 128,
    "activation_function": "gelu_new",
    "layer_norm_epsilon": 1e-5,
    "eos_token_id": 1,
}


def shapes_of(config: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return the weights of a folder."""
    if config["model_type"] == "gpt2":
        n = config["n_embd"]
        block = {"ln_1": (n,), "attn.c_attn": (n, 3 * n), "attn.c_proj": (n, n), "ln_2": (n,)}
        block |= {"mlp.c_fc": (n, 4 * n), "mlp.c_proj": (4 * n, n)}
        found = {"wte.weight": (CODES, n), "wpe.weight": (config["n_positions"], n)}
        for name, shape in [*((f"h.{i}.{k}", v) for i in range(2) for k, v in block.items()), ("ln_f", (n,))]:
            found |= {f"{name}.weight": shape, f"{name}.bias": shape[-1:]}
        return found
    n, hidden = config["hidden_size"], config["intermediate_size"]
    size = config.get("head_dim", n // config["num_attention_heads"])
    q, k = size * config["num_attention_heads"], size * config["num_key_value_heads"]
    block = {"input_layernorm": (n,), "post_attention_layernorm": (n,)}
    block |= {f"self_attn.{x}_proj": (rows, n) for x, rows in (("q", q), ("k", k), ("v", k))}
    block |= {"self_attn.o_proj": (n, q), "mlp.gate_proj": (hidden, n), "mlp.up_proj": (hidden, n)}
    block |= {"mlp.down_proj": (n, hidden)}
    biases = {"q": q, "k": k, "v": k} if config["model_type"] == "qwen2" else {}
    found = {"model.embed_tokens.weight": (CODES, n), "model.norm.weight": (n,)}
    layers = range(config["num_hidden_layers"])
    found |= {f"model.layers.{i}.self_attn.{x}_proj.bias": (rows,) for i in layers for x, rows in biases.items()}
    return found | {f"model.layers.{i}.{name}.weight": shape for i in layers for name, shape in block.items()}


def weights_of(config: Mapping[str, Any], seed: int = 0) -> dict[str, np.ndarray]:
    """Return random weights."""
    rng = np.random.default_rng(seed)
    return {
        name: (("norm" in name or "ln_" in name) * (name.endswith("weight")) + rng.normal(0, 0.2, shape)).astype("f4")
        for name, shape in shapes_of(config).items()
    }


def made_folder(
    folder: Path, config: Mapping[str, Any] = LLAMA, *, dtype: str = "float32", parts: int = 1, **more: Any
) -> Path:
    """Write a model, with `more` in its config, and return its folder."""
    tokenizers = pytest.importorskip("tokenizers", reason='needs tokenizers: pip install ".[lm]"')
    safetensors = pytest.importorskip("safetensors.numpy")
    ml_dtypes = pytest.importorskip("ml_dtypes")
    folder.mkdir(parents=True, exist_ok=True)
    given = {**config, **more}
    (folder / "config.json").write_text(json.dumps(given))
    found = weights_of(given)
    if dtype == "bfloat16":
        found = {name: array.astype(ml_dtypes.bfloat16) for name, array in found.items()}
    names = list(found)
    if parts == 1:
        safetensors.save_file(found, folder / "model.safetensors")
    else:
        files = {name: f"model-{i % parts}.safetensors" for i, name in enumerate(names)}
        for file in set(files.values()):
            safetensors.save_file({n: found[n] for n in names if files[n] == file}, folder / file)
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    write_tokenizer(tokenizers, folder)
    return folder


def write_tokenizer(tokenizers: Any, folder: Path) -> None:
    """Write a small tokenizer that merges bytes, and its template."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<|pad|>", "<|end|>", "<|begin|>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(TEXTS, trainer)
    made.save(str(folder / "tokenizer.json"))
    config = {"eos_token": "<|end|>", "pad_token": {"content": "<|pad|>"}, "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
