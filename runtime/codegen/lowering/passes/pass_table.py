"""The passes of lowering, and the table of them; a table with a wrong order cannot be made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from prograd_proto.pass_order import OrderedPass, OrderedPasses, order_fault
from runtime.codegen.lowering.lowered_block import LoweredBlock

AppliesTo = Literal["all steps", "ordinary steps", "instrumented steps"]


@dataclass(frozen=True)
class Pass(OrderedPass):
    """A function from a state of lowering to the next one.

    Attributes:
        function: called with a block whose bodies have had the pass already.
        applies_to: the steps that are lowered with it. An instrumented step computes each op on its own.
    """

    function: Callable[[LoweredBlock], LoweredBlock]
    applies_to: AppliesTo = "all steps"

    def __call__(self, block: LoweredBlock) -> LoweredBlock:
        """Return the block after the pass, which the blocks inside its ops have had first."""
        if block.bodies:
            bodies = {op: tuple(self(body) for body in inside) for op, inside in block.bodies.items()}
            block = block._replace(bodies=bodies)
        return self.function(block)


@dataclass(frozen=True)
class PassTable(OrderedPasses[Pass]):
    """The passes of an engine. Raises ValueError if the order is wrong, for ordinary or for instrumented steps."""

    def __post_init__(self) -> None:
        for is_instrumented in (False, True):
            if fault := order_fault(self.name, self.of_step(is_instrumented), self.given, self.promises):
                raise ValueError(fault)

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
