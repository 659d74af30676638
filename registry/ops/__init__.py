"""Every operator, by family. The list is the table of contents."""

# ruff: noqa: F403 - a new op in a family is public without a further edit
from registry.ops.copy import *
from registry.ops.fill import *
from registry.ops.pointwise import *
from registry.ops.reduce import *
from registry.ops.shape import *
from registry.spelling import closest


def __getattr__(name: str) -> object:
    from registry.op import OPS

    raise AttributeError(f"there is no operator {name!r}{closest(name, OPS)}")
