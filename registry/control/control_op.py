"""Attributes of the ops that run blocks, as passes read them; they are those of any other operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prograd_proto import Attribute, ProgramError, TensorType, attributes_of
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks.control import ATTRIBUTES, WHILE, BlockTypes, result_types
from registry.errors import OpError
from registry.signature import AttributeSpec, Signature
from registry.traits import Traits
from registry.value import Value


class ControlOp:
    """An operator that runs blocks; `registry.operator.Op` has the meaning of its attributes.

    Attributes:
        differentiate: appends the gradient ops of an op, given the gradients of its outputs.
    """

    version = 1
    differentiable = True
    no_gradient: frozenset[str] = frozenset()
    random = False
    halves = True
    inference_rule = None
    written_rule = None

    def __init__(self, name: str, doc: str, differentiate: Callable[..., list[Value | None]]) -> None:
        self.name, self.__doc__ = name, doc
        self.differentiate = self.gradient_rule = differentiate
        self.traits = Traits()
        attributes = {key: AttributeSpec(kind, None, key) for key, kind in ATTRIBUTES[name].items()}
        self.signature = Signature(name, ("operands",), {}, frozenset(), True, attributes, ("outputs",), True)

    def infer_types(
        self, inputs: Sequence[TensorType | None], attributes: dict[str, Attribute], blocks: Sequence[BlockTypes] = ()
    ) -> tuple[TensorType, ...]:
        """Return the output types; raise OpError if the op and its blocks do not fit together."""
        try:
            return result_types(self.name, inputs, attributes, blocks)
        except ProgramError as error:
            raise OpError(str(error)) from None

    def faults(self, desc: pb.OpDesc, bodies: Sequence[pb.BlockDesc]) -> list[str]:
        """Return the reasons why an op has no gradient, one for each inner op without; none if it has one."""
        found: list[str] = []
        if desc.type == WHILE and not attributes_of(desc)["max_trips"]:
            found.append("while_loop needs max_trips for its gradient, as in max_trips=64; running does not")
        for number in desc.blocks[1:] if desc.type == WHILE else desc.blocks:
            for op in bodies[number].ops:
                if op.type in CONTROL:
                    found += [f"{desc.type}: {why}" for why in CONTROL[op.type].faults(op, bodies)]
        return found


CONTROL: dict[str, ControlOp] = {}
"""The operators that run blocks, by name."""


def declare(name: str, doc: str, differentiate: Callable[..., list[Value | None]]) -> None:
    """Declare an operator that runs blocks."""
    CONTROL[name] = ControlOp(name, doc, differentiate)
