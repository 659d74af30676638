"""The package transformers, also with a build of PyTorch that the operators of torchvision do not fit."""

from frontends.torchvision_without_operators import torchvision

torchvision()

import transformers  # noqa: E402

__all__ = ["transformers"]
