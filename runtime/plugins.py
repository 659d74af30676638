"""Kernels of other packages, imported where their plugin's name is given and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable

from prograd_proto.plugins import KERNEL_GROUP, load_plugin
from runtime.engines.reference.kernels import KERNELS
from runtime.kernel import Kernel


def use_plugin(name: str) -> dict[str, Kernel]:
    """Import the kernels that an installed package declares under that name, and give them by op type.

    Programs that use its operators can be loaded from then on. A second call does nothing more.

    Raises:
        PluginError: there is no such plugin, or its module cannot be imported or declares wrongly.
    """
    return load_plugin(KERNEL_GROUP, name, KERNELS, _accept)


def use_plugins(names: Iterable[str]) -> None:
    """Use each of these plugins."""
    for name in names:
        use_plugin(name)


def _accept(declared: Kernel) -> None:
    """What can be said of a kernel without its operator was said when it was declared."""
