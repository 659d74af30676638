"""Modules of three packages in small sizes, with seeded weights and without dropout, and example inputs for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from frontends.torchvision_without_operators import torchvision

Network = tuple[torch.nn.Module, dict[str, torch.Tensor]]

TEXT = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, vocab_size=100)
ENCODER = TEXT | dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, max_position_embeddings=64)
DECODER = TEXT | dict(
    num_attention_heads=4,
    num_key_value_heads=2,
    use_cache=False,
    max_position_embeddings=64,
    bos_token_id=0,
    eos_token_id=1,
    pad_token_id=0,
)
IMAGES = dict(image_size=64, patch_size=8, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)

TRANSFORMERS: dict[str, dict[str, Any]] = {
    "BertModel": ENCODER,
    "BertForSequenceClassification": ENCODER,
    "RobertaModel": ENCODER,
    "ElectraModel": ENCODER,
    "AlbertModel": ENCODER | dict(embedding_size=16),
    "DistilBertModel": dict(
        dim=32,
        n_layers=2,
        n_heads=2,
        hidden_dim=64,
        vocab_size=100,
        dropout=0.0,
        attention_dropout=0.0,
        max_position_embeddings=64,
    ),
    "GPT2LMHeadModel": dict(
        n_embd=32,
        n_layer=2,
        n_head=2,
        vocab_size=100,
        n_positions=64,
        use_cache=False,
        bos_token_id=0,
        eos_token_id=0,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    ),
    "OPTForCausalLM": dict(
        hidden_size=32,
        word_embed_proj_dim=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        ffn_dim=64,
        vocab_size=100,
        max_position_embeddings=64,
        use_cache=False,
        dropout=0.0,
        attention_dropout=0.0,
    ),
    "LlamaForCausalLM": DECODER,
    "MistralForCausalLM": DECODER,
    "Qwen2ForCausalLM": DECODER,
    "GemmaForCausalLM": DECODER | dict(head_dim=8),
    "T5Model": dict(
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
        vocab_size=100,
        dropout_rate=0.0,
        use_cache=False,
    ),
    "ViTModel": IMAGES | dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64),
    "ConvNextModel": dict(hidden_sizes=[8, 16, 32, 64], depths=[1, 1, 1, 1]),
    "SwinModel": IMAGES
    | dict(
        patch_size=4,
        embed_dim=16,
        depths=[1, 1],
        num_heads=[2, 2],
        window_size=4,
        drop_path_rate=0.0,
    ),
}
"""By class of transformers, the numbers of its configuration."""


def network(name: str, *, size: int = 64) -> Network:
    """Return a module by package and name, as in "torchvision:resnet18", and example inputs of 3 rows."""
    torchvision()  # timm and transformers import it
    package, _, which = name.partition(":")
    torch.manual_seed(0)
    module, inputs = _PACKAGES[package](which, size)
    _without_dropout(module)
    for parameter in module.parameters():
        if parameter.ndim < 2:  # else biases are 0 and scales 1
            parameter.data += 0.1 * torch.randn_like(parameter)
    return module, inputs


def _torchvision(name: str, size: int) -> Network:
    more = {"image_size": size} if name.startswith("vit") else {}
    module = torchvision().models.get_model(name, weights=None, num_classes=10, **more)
    return module, {"image": torch.randn(3, 3, size, size)}


def _timm(name: str, size: int) -> Network:
    import timm

    try:
        module = timm.create_model(name, num_classes=10, img_size=size)
    except TypeError:  # networks of convolutions take images of any size
        module = timm.create_model(name, num_classes=10)
    return module, {"image": torch.randn(3, 3, size, size)}


def _transformers(name: str, size: int) -> Network:
    import transformers

    words = name
    for ending in ("LMHeadModel", "Model", "ForSequenceClassification", "ForCausalLM"):
        words = words.removesuffix(ending)
    configuration = getattr(transformers, f"{words}Config")(**TRANSFORMERS[name])
    module = getattr(transformers, name)(configuration)
    if "hidden_sizes" in TRANSFORMERS[name] or "patch_size" in TRANSFORMERS[name]:
        return module, {"pixel_values": torch.randn(3, 3, 64, 64)}
    inputs = {"input_ids": torch.randint(0, 90, (3, 16))}
    if name.startswith("T5"):
        inputs["decoder_input_ids"] = torch.randint(0, 90, (3, 8))
    return module, inputs


_PACKAGES: dict[str, Callable[[str, int], Network]] = {
    "torchvision": _torchvision,
    "timm": _timm,
    "transformers": _transformers,
}


def _without_dropout(module: torch.nn.Module) -> None:
    for child in module.modules():
        for name in ("p", "drop_prob", "dropout", "attention_dropout", "attn_drop"):
            if isinstance(getattr(child, name, None), float):
                setattr(child, name, 0.0)
