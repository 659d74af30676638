"""The classes of a pass of lowering and of the table of passes; the order is checked when the table is made.

A fact is a property of a lowered block between two passes, such as "groups": every node is in one group. A pass
requires facts, establishes some and invalidates others, each with the reason, as the compiler's passes do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from prograd_proto.pass_order import Reasons, order_fault, reasons_of
from runtime.codegen.lowering.lowered_block import LoweredBlock

AppliesTo = Literal["all steps", "ordinary steps", "instrumented steps"]


@dataclass(frozen=True)
class Pass:
    """A function from a state of lowering to the next one, and its position among others.

    Attributes:
        function: called with a block whose bodies have had the pass already; the pass has its name.
        requires: facts that must hold before it, with the reasons.
        establishes: facts that hold from it on, with their meaning.
        invalidates: facts that may no longer hold, with the reasons.
        applies_to: the steps that are lowered with it. An instrumented step computes each op on its own.
    """

    function: Callable[[LoweredBlock], LoweredBlock]
    requires: Reasons = field(default_factory=dict[str, str])
    establishes: Reasons = field(default_factory=dict[str, str])
    invalidates: Reasons = field(default_factory=dict[str, str])
    applies_to: AppliesTo = "all steps"

    @property
    def name(self) -> str:
        """The name of the function, which is that of the file."""
        return self.function.__name__

    @property
    def does(self) -> str:
        """The first line of the function's docstring."""
        return (self.function.__doc__ or "").strip().partition("\n")[0]

    @property
    def reasons(self) -> list[tuple[str, str, str]]:
        """The facts of the pass: "requires", "establishes" or "invalidates", the fact, and the reason."""
        return reasons_of(self)

    def __call__(self, block: LoweredBlock) -> LoweredBlock:
        """Return the block after the pass, which the blocks inside its ops have had first."""
        if block.bodies:
            bodies = {op: tuple(self(body) for body in inside) for op, inside in block.bodies.items()}
            block = block._replace(bodies=bodies)
        return self.function(block)


@dataclass(frozen=True)
class PassTable:
    """Passes in their order. Raises ValueError if the order is wrong, for ordinary or for instrumented steps.

    Attributes:
        name: the engine that runs them.
        passes: from the first to the last.
        promises: the facts that must hold after the last, and their purpose.
    """

    name: str
    passes: Sequence[Pass]
    promises: Reasons = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        for is_instrumented in (False, True):
            if fault := order_fault(self.name, self.of_step(is_instrumented), {}, self.promises):
                raise ValueError(fault)

    def __iter__(self) -> Iterator[Pass]:
        return iter(self.passes)

    @property
    def given(self) -> Mapping[str, str]:
        """No fact holds before the first pass."""
        return {}

    def of_step(self, is_instrumented: bool) -> list[Pass]:
        """Return the passes of ordinary or of instrumented steps."""
        other: AppliesTo = "ordinary steps" if is_instrumented else "instrumented steps"
        return [each for each in self.passes if each.applies_to != other]

    def applied(self, block: LoweredBlock) -> LoweredBlock:
        """Return a block after all passes that apply to it."""
        for each in self.of_step(block.is_instrumented):
            block = each(block)
        return block

    def snapshots(self, block: LoweredBlock) -> Iterator[tuple[str, LoweredBlock]]:
        """Yield the name of each pass that applies to a block, and the block after it."""
        for each in self.of_step(block.is_instrumented):
            block = each(block)
            yield each.name, block
