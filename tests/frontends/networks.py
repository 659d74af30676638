"""Modules of three packages in small sizes, with seeded weights and without dropout, and example inputs for each."""

from __future__ import annotations

from collections.abc import Callable

import torch

from frontends.configurations import TRANSFORMERS
from frontends.torchvision_without_operators import torchvision

Network = tuple[torch.nn.Module, dict[str, torch.Tensor]]


def network(name: str, *, size: int = 64) -> Network:
    """Return a module by package and name, as in "torchvision:resnet18", and example inputs of 3 rows."""
    torchvision()  # timm and transformers import it
    package, _, which = name.partition(":")
    torch.manual_seed(0)
    module, inputs = _PACKAGES[package](which, size)
    _without_dropout(module)
    for parameter in module.parameters():
        if parameter.ndim < 2 or not parameter.any():  # else biases are 0, scales 1, and some heads 0
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
    if name == "CLIPModel":
        return module, {"input_ids": torch.randint(0, 90, (3, 16)), "pixel_values": torch.randn(3, 3, 64, 64)}
    if "hidden_sizes" in TRANSFORMERS[name] or "patch_size" in TRANSFORMERS[name]:
        return module, {"pixel_values": torch.randn(3, 3, 64, 64)}
    inputs = {"input_ids": torch.randint(0, 90, (3, 16))}
    if name.startswith(("T5", "Bart")):
        inputs["decoder_input_ids"] = torch.randint(0, 90, (3, 8))
    return module, inputs


_PACKAGES: dict[str, Callable[[str, int], Network]] = {
    "torchvision": _torchvision,
    "timm": _timm,
    "transformers": _transformers,
}


def _without_dropout(module: torch.nn.Module) -> None:
    for child in module.modules():
        rates = [name for name, x in vars(child).items() if isinstance(x, float) and (name == "p" or "drop" in name)]
        for name in rates:
            setattr(child, name, 0.0)
