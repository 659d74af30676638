"""Random configs of language models, as config.json has them."""

# pyright: basic
# JSON has no types here.

from __future__ import annotations

from random import Random
from typing import Any

CLASSES = {
    "gpt2": "GPT2LMHeadModel",
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "gemma3_text": "Gemma3ForCausalLM",
}
"""The class of transformers for each `model_type`."""

EPSILONS = [1e-6, 1e-3, 1e-2, 0.1]
BASES = [100.0, 10000.0, 20000.0, 1e6]
LEFT_OUT = 0.2
"""The share of options that a config does not state, so that its reader takes a default."""

UNKNOWN = 0.08
"""The share of configs with an option that changes results and that the import may refuse."""


def config_of(rng: Random) -> dict[str, Any]:
    """Return a config."""
    family = rng.choice(list(CLASSES))
    needed, options = _gpt2(rng) if family == "gpt2" else _relative_of_llama(rng, family)
    stated = {key: value for key, value in options.items() if rng.random() >= LEFT_OUT}
    if rng.random() < UNKNOWN:
        stated |= rng.choice(_unknown(family))
    return {"model_type": family, **needed, **stated}


def _gpt2(rng: Random) -> tuple[dict[str, Any], dict[str, Any]]:
    heads = rng.choice([2, 4])
    needed = {"vocab_size": rng.choice([300, 320, 333]), "n_embd": rng.choice([48, 64]), "n_layer": 2, "n_head": heads}
    return needed | {"n_positions": rng.choice([32, 64])}, {
        "activation_function": rng.choice(["gelu", "gelu_new", "gelu_new", "gelu_pytorch_tanh", "silu"]),
        "layer_norm_epsilon": rng.choice(EPSILONS),
        "n_inner": rng.choice([None, 96]),
        "tie_word_embeddings": rng.random() < 0.5,
    }


def _relative_of_llama(rng: Random, family: str) -> tuple[dict[str, Any], dict[str, Any]]:
    heads, layers = rng.choice([2, 4]), rng.choice([2, 3, 7] if family == "gemma3_text" else [2, 3])
    needed = {
        "vocab_size": rng.choice([300, 320, 333]),
        "hidden_size": rng.choice([48, 64]),
        "intermediate_size": rng.choice([80, 96]),
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": rng.choice([1, 2, heads]),
        "max_position_embeddings": rng.choice([32, 64]),
        "head_dim": rng.choice([8, 16, 24]),
    }
    usual = "gelu_pytorch_tanh" if family == "gemma3_text" else "silu"
    options: dict[str, Any] = {
        "hidden_activation" if family == "gemma3_text" else "hidden_act": rng.choice(
            [usual] * 4 + ["silu", "gelu", "gelu_pytorch_tanh", "gelu_new"]
        ),
        "rms_norm_eps": rng.choice(EPSILONS),
        "tie_word_embeddings": rng.random() < 0.5,
    }
    base = rng.choice(BASES)
    options |= {"rope_theta": base} if rng.random() < 0.7 else {"rope_parameters": _rotary(rng, family, base)}
    if "rope_theta" in options and rng.random() < 0.4:
        options["rope_scaling"] = _scaled(rng, family)
    if family in ("llama", "qwen3", "gemma3_text"):
        options["attention_bias"] = rng.random() < 0.4
    if family == "llama":
        options["mlp_bias"] = rng.random() < 0.4
    if family == "gemma3_text":
        options |= {
            "query_pre_attn_scalar": rng.choice([*[needed["head_dim"]] * 3, 4, 64]),  # GGUF has the usual one only
            "rope_local_base_freq": rng.choice([100.0, 10000.0, 10000.0]),
            "sliding_window_pattern": rng.choice([2, 3, 6, 6]),
        }
    if family in ("qwen2", "qwen3"):
        options |= {"use_sliding_window": rng.random() < 0.4, "max_window_layers": rng.choice([0, 1, 2])}
    if family in ("mistral", "qwen2", "qwen3", "gemma3_text"):
        options["sliding_window"] = rng.choice([4, 8, 16, 64, *([None] * 3 if family == "mistral" else [])])
        if family != "mistral" and rng.random() < 0.3:
            needed |= {} if family == "gemma3_text" else {"use_sliding_window": True}
            options["layer_types"] = rng.choices(["full_attention", "sliding_attention"], k=layers)
            options.pop("use_sliding_window", None)
    return needed, options


def _rotary(rng: Random, family: str, base: float) -> dict[str, Any]:
    """Return the rotary positions in the form of new versions of transformers."""
    plain = {"rope_type": "default"}
    whole = {**(_scaled(rng, family) if rng.random() < 0.4 else plain), "rope_theta": base}
    if family != "gemma3_text":
        return whole
    return {"full_attention": whole, "sliding_attention": {**plain, "rope_theta": rng.choice([100.0, 10000.0])}}


def _scaled(rng: Random, family: str) -> dict[str, Any]:
    """Return a scaling of rotary positions; GGUF has words for that of Llama 3 in files of Llama only."""
    factor = rng.choice([2.0, 8.0, 32.0])
    if (family != "llama" and rng.random() < 0.8) or rng.random() < 0.4:
        return {"rope_type": "linear", "factor": factor}
    low = rng.choice([1.0, 2.0])
    turns = {"low_freq_factor": low, "high_freq_factor": low * rng.choice([2, 4])}
    return {"rope_type": "llama3", "factor": factor, "original_max_position_embeddings": rng.choice([8, 32]), **turns}


def _unknown(family: str) -> list[dict[str, Any]]:
    if family == "gpt2":
        return [{"scale_attn_by_inverse_layer_idx": True}, {"scale_attn_weights": False}]
    scaled = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0}
    if family == "gemma3_text":
        both = {"full_attention": scaled, "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}
        caps = [{"attn_logit_softcapping": 1.0}, {"final_logit_softcapping": 1.0}]
        return [*caps, {"use_bidirectional_attention": True}, {"rope_parameters": both}]
    return [{"rope_parameters": scaled}, {"rope_scaling": {"rope_type": "dynamic", "factor": 4.0}}]
