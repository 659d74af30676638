"""Kernels of other packages, imported only when their plugin's name is given.

A module of a plugin declares contracts and kernels of the reference engine, as prograd's own families do.
"""

from __future__ import annotations

from collections.abc import Iterable

from prograd_proto.plugins import KERNEL_GROUP, load_plugin
from runtime.kernel import KERNELS
from runtime.operators import CONTRACTS, Contract


def use_plugin(name: str) -> dict[str, Contract]:
    """Import the kernels that an installed package declares under that name, and return their contracts by op type.

    Programs that use its operators can be loaded from then on. A second call does nothing more.

    Raises:
        PluginError: there is no such plugin, or its module cannot be imported or declares wrongly.
    """
    try:
        return load_plugin(KERNEL_GROUP, name, CONTRACTS, _accept)
    finally:
        for refused in KERNELS.keys() - CONTRACTS.keys():
            del KERNELS[refused]


def use_plugins(names: Iterable[str]) -> None:
    """Use each of these plugins."""
    for name in names:
        use_plugin(name)


def _accept(declared: Contract) -> None:
    """Accept a contract: its declaration has checked everything that needs no operator."""
