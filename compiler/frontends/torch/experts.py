"""Mixtures of experts of transformers, which pick rows by data, as products with all experts.

Sorting rows by their experts makes groups whose sizes depend on data. While a module is exported, its experts compute
all rows instead, and shares of zero remove those that the router did not choose. Results and gradients are the same.

1. The shares of the router become a matrix [rows, experts].
2. The weights of all experts are one matrix for the first product, [inputs, experts * hidden].
3. The hidden elements are multiplied by the shares. The second product, [experts * hidden, outputs], sums the experts.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

NAME: Final = "all_experts_of_prograd"
"""Name of this implementation in the interface of transformers."""


@contextmanager
def all_experts(torch: Any, module: Any) -> Generator[None]:
    """Let the experts of a module of transformers compute all rows; other modules stay as they are."""
    loaded = sys.modules.get("transformers.integrations.moe")
    configurations = _configurations(module) if loaded is not None else []
    if not configurations:
        yield
        return
    interface: Any = getattr(loaded, "ALL_EXPERTS_FUNCTIONS")  # noqa: B009 - a module without types
    before = [configuration._experts_implementation for configuration in configurations]
    interface.register(NAME, lambda *operands: _all_rows(torch, *operands))
    for configuration in configurations:
        configuration._experts_implementation = NAME
    try:
        yield
    finally:
        for configuration, name in zip(configurations, before, strict=True):
            configuration._experts_implementation = name


def _configurations(module: Any) -> list[Any]:
    """Return the configurations that choose how experts compute, each once."""
    found = [getattr(child, "config", None) for child in module.modules() if hasattr(child, "_apply_gate")]
    return list({id(x): x for x in found if hasattr(x, "_experts_implementation")}.values())


def _all_rows(torch: Any, experts: Any, rows: Any, chosen: Any, shares: Any) -> Any:
    """Return the shares of all experts in rows [n, c], summed; `chosen` and `shares` are [n, k]."""
    count = experts.num_experts
    of_expert = torch.nn.functional.one_hot(chosen, count).to(shares.dtype)
    share = (of_expert * shares.unsqueeze(-1)).sum(1)  # [n, experts]
    first = "gate_up_proj" if experts.has_gate else "up_proj"
    hidden = _first_product(experts, rows, getattr(experts, first), getattr(experts, f"{first}_bias", None))
    hidden = experts._apply_gate(hidden) if experts.has_gate else experts.act_fn(hidden)
    down = experts.down_proj if experts.is_transposed else experts.down_proj.transpose(1, 2)  # [experts, hidden, o]
    bias = experts.down_proj_bias if experts.has_bias else None
    if experts.has_post_expert_norm:
        each = [hidden[:, i] @ down[i] + (0 if bias is None else bias[i]) for i in range(count)]
        return (experts.post_expert_norm(torch.stack(each, 1)) * share.unsqueeze(-1)).sum(1).to(rows.dtype)
    weighted = (hidden * share.unsqueeze(-1)).flatten(1)
    made = weighted @ down.reshape(-1, down.shape[-1])
    return (made if bias is None else made + share @ bias).to(rows.dtype)


def _first_product(experts: Any, rows: Any, w: Any, bias: Any) -> Any:
    """Return the hidden elements of all experts in rows [n, c], as [n, experts, hidden]."""
    w = w.transpose(1, 2) if experts.is_transposed else w  # [experts, hidden, c]
    made = (rows @ w.reshape(-1, w.shape[-1]).t()).unflatten(-1, (w.shape[0], w.shape[1]))
    return made + bias if experts.has_bias else made
