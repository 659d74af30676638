"""The names and the order that GGUF files have for the weights of a model, beside those of Hugging Face.

Files of the architecture `llama` have the rows of queries and keys in another order, with the halves of a head's
rotated pairs side by side; GPT-2's products have outputs first, and Gemma's norms have 1 added.
"""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np

_LLAMA: Final = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm", "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}  # fmt: skip
_GEMMA: Final = {
    **_LLAMA, "post_attention_norm": "post_attention_layernorm", "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}  # fmt: skip
_GPT2: Final = {
    "attn_norm": "ln_1", "attn_qkv": "attn.c_attn", "attn_output": "attn.c_proj", "ffn_norm": "ln_2",
    "ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj",
}  # fmt: skip
_OUTER: Final = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_OUTER_GPT2: Final = {"token_embd": "wte", "position_embd": "wpe", "output_norm": "ln_f", "output": "lm_head"}

ARCHITECTURES: Final = {"llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "gemma3": "gemma3_text", "gpt2": "gpt2"}
"""The word of the config for each word of GGUF."""

WORDS: Final = {**{family: word for word, family in ARCHITECTURES.items()}, "mistral": "llama"}
"""The word of GGUF for each word of the config."""


def _tables(family: str) -> tuple[dict[str, str], dict[str, str], str]:
    if family == "gpt2":
        return _OUTER_GPT2, _GPT2, "h"
    return _OUTER, _GEMMA if family == "gemma3_text" else _LLAMA, "model.layers"


def name_in_folders(family: str, name: str) -> str | None:
    """Return the name that a folder has for a tensor of a GGUF file; None for a tensor of another kind."""
    outer, inner, layers = _tables(family)
    stem, _, word = name.rpartition(".")
    if word not in ("weight", "bias"):
        return None
    if stem in outer:
        return f"{outer[stem]}.{word}"
    found = re.fullmatch(r"blk\.(\d{1,4})\.(\w+)", stem)
    return f"{layers}.{found[1]}.{inner[found[2]]}.{word}" if found and found[2] in inner else None


def name_in_gguf(family: str, name: str) -> str | None:
    """Return the name that a GGUF file has for a weight of a folder; None for one of another kind."""
    outer, inner, layers = _tables(family)
    stem, _, word = name.removeprefix("transformer.").rpartition(".")
    for there, here in outer.items():
        if stem == here:
            return f"{there}.{word}"
    found = re.fullmatch(rf"{re.escape(layers)}\.(\d{{1,4}})\.(.+)", stem)
    here = next((there for there, each in inner.items() if found and each == found[2]), None)
    return f"blk.{found[1]}.{here}.{word}" if found and here else None


def rotated_rows(family: str, name: str, heads: int, groups: int, rows: int, *, outwards: bool) -> Any:
    """Return the order of a weight's rows in the other layout; None if both have the same."""
    count = {"self_attn.q_proj": heads, "self_attn.k_proj": groups}.get(".".join(name.split(".")[-3:-1]))
    if family not in ("llama", "mistral") or count is None or rows % (2 * count):
        return None
    numbers, half = np.arange(rows), rows // count // 2
    shape = (count, 2, half) if outwards else (count, half, 2)
    return numbers.reshape(shape).swapaxes(1, 2).reshape(-1)


def is_transposed(family: str, name: str) -> bool:
    """Return True for a product of GPT-2, whose folder has inputs first."""
    return family == "gpt2" and name.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight"))


def is_above_one(family: str, name: str) -> bool:
    """Return True for a norm whose weight has 1 added in GGUF."""
    return family == "gemma3_text" and name.endswith(("norm.weight", "layernorm.weight"))
