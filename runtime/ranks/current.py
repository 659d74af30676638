"""The group of this process; a process joins at most one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runtime.ranks.group import Group

_groups: list[Group] = []


def enter(group: Group) -> None:
    """Let the ops of this process exchange values within a group."""
    _groups[:] = [group]


def current_group() -> Group | None:
    """Return the group of this process, or None."""
    return _groups[0] if _groups else None
