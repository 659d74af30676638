"""Import of torchvision with a build of PyTorch that its compiled operators do not fit.

torchvision registers shapes for operators such as nms when it is imported; no network here needs them. The registration
of an operator that does not exist is skipped.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any


def torchvision() -> ModuleType:
    """Return the package."""
    import torch

    registered = torch.library.register_fake

    def guarded(name: str, *args: Any, **more: Any) -> Any:
        register = registered(name, *args, **more)

        def attempt(function: Any) -> Any:
            try:
                return register(function)
            except RuntimeError:
                return function

        return attempt

    torch.library.register_fake = guarded  # type: ignore[assignment]
    try:
        import torchvision as package
    finally:
        torch.library.register_fake = registered
    return package
