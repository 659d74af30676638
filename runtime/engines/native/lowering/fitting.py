"""What may be computed in one nest of loops: element by element, or row by row.

Reductions of a group join the same axes. Where these are rows that lie in memory one after the other, and short enough
to stay in a near cache, the group goes over a row as often as it must: what is joined may be used in it, for elements
of the row and for what there is one of for each row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Final, cast

from prograd_proto import TensorType
from runtime.engines.native.forms import Pointwise, Reduction
from runtime.engines.native.lowering.nodes import Node

if TYPE_CHECKING:
    from runtime.engines.native.lowering.groups import Group

LONGEST: Final = 1 << 14
"""Elements of a row, of which a few values stay in a near cache; so many altogether are also for one thread."""

FEWEST: Final = 8
"""Rows, so that threads have something to share."""


def axes_of(node: Node, rank: int) -> frozenset[int]:
    """The axes that a reduction joins, counted from the first."""
    axes = cast("tuple[int, ...]", node.attributes["axes"]) or range(rank)
    return frozenset(axis % rank for axis in axes)


def goes_over_rows(domain: Sequence[int], joined: frozenset[int]) -> bool:
    """Whether what is joined along these axes are rows that one thread goes over as often as it likes."""
    wide = [axis for axis, extent in enumerate(domain) if extent > 1]
    if not wide or wide[-1] not in joined:
        return False
    row = prod(domain[axis] for axis in joined)
    return row <= LONGEST and (prod(domain) <= LONGEST or prod(domain) // row >= FEWEST)


def fits(group: Group, node: Node, domain: tuple[int, ...], types: Mapping[str, TensorType]) -> bool:
    """Whether a node may be computed with a group of which it reads something."""
    if isinstance(node.form, Reduction):
        return _may_be_joined(group, node, domain)
    if not group.is_reduced:
        return group.domain == domain
    of_rows = [name for name in node.inputs if name in group.of_rows]
    if not of_rows:
        return group.domain == domain
    if not group.is_rows or not isinstance(node.form, Pointwise) or node.form.before is not None:
        return False
    row = tuple(1 if axis in group.joined else extent for axis, extent in enumerate(group.domain))
    if any(types[name].static_shape != row for name in of_rows):
        return False
    if group.domain == domain:
        return True
    made = set(group.makes)
    return (
        domain == row
        and not node.form.places
        and not any(name in made and name not in group.of_rows for name in node.inputs)
    )


def _may_be_joined(group: Group, node: Node, domain: tuple[int, ...]) -> bool:
    if group.domain != domain or group.product or node.inputs[0] in group.of_rows:
        return False
    return not group.is_reduced or group.joined == axes_of(node, len(domain))


def may_be_one(a: Group, b: Group) -> bool:
    """Whether two groups, of which neither reads the other and some node reads both, may become one."""
    products, reduced = (a.product is not None) + (b.product is not None), a.is_reduced or b.is_reduced
    if products > 1 or (products and reduced):
        return False
    return a.domain == b.domain and (not a.is_reduced or not b.is_reduced or a.joined == b.joined)
