"""Patterns of several nodes that one op computes better, found by looking at the node before."""

# pyright: basic
# PyTorch is imported by name and has no types here, nor have the lambdas of a table.

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compiler.frontends.arranged import Arranged
from compiler.frontends.torch.operators.call import Call
from compiler.frontends.torch.operators.random import drawn


def folded(node: Any, values: Mapping[str, Any], call: Call) -> Arranged | None:
    """Return the result of a pattern that ends with this node; None if there is none.

    floor(p + rand()) is a draw of ones with probability p: stochastic depth outside training is its mean.
    """
    if str(node.target) == "aten.floor.default":
        before = node.args[0]
        if getattr(before, "target", None) is not None and str(before.target) == "aten.add.Tensor":
            draw, chance = before.args[:2]
            if isinstance(draw, int | float):
                draw, chance = chance, draw
            if isinstance(chance, int | float) and str(getattr(draw, "target", "")) == "aten.rand.default":
                return drawn(call, chance)
    return None
