"""A group with operand numbers instead of the block's names, so that equal groups are equal code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from prograd_proto import TensorType
from prograd_proto import program_pb2 as pb
from runtime.codegen.groups.group import Group
from runtime.codegen.groups.nodes import Additions, Node, Nodes
from runtime.codegen.groups.view import View
from runtime.codegen.ir import DTYPES, INT64, UINT8, Function, Type, Value
from runtime.codegen.kernels.moves import Layout, row_major
from runtime.codegen.rules import CustomKernel, KernelContext, KernelSteps, Pointwise, Product, is_random
from runtime.placement.alignment import aligned

CHECK_WORDS: Final = 2
"""Number of addresses after the scratch of a group with a runtime check: the word of all groups, and a word of its own.
"""


@dataclass(frozen=True)
class GroupKernel:
    """The computation of a group's functions.

    Attributes:
        group: the nodes.
        types: types of all tensors of the block.
        stored: the tensors that are written.
        table: the tensors whose addresses the function gets, in order; the numbers of its random streams and its
            scratch follow.
        constants: constants of the block; those of one element are part of the code.
        views: layouts of operands that are part of another tensor.
        invariant: operands that are the same in every step, where the kernel makes use of that.
        is_prepacked: True if all operands are, so that the kernel runs only when states have changed.
        additions: the order in which its product adds, if it has one.
    """

    group: Group
    types: Mapping[str, TensorType]
    stored: Sequence[str]
    table: tuple[str, ...]
    constants: Mapping[str, pb.OpDesc]
    views: Mapping[str, View]
    invariant: frozenset[str]
    is_prepacked: bool
    additions: Additions

    def layout(self, name: str) -> Layout:
        """Return the layout of a tensor, from its own address on."""
        shape = self.types[name].static_shape
        return self.views[name].layout if name in self.views else Layout(shape, row_major(shape))

    def strides(self, name: str, domain: tuple[int, ...]) -> tuple[int, ...]:
        """Return the strides of a tensor that broadcasts to a domain."""
        return self.layout(name).along(domain)

    def context(self, f: Function, steps: KernelSteps) -> KernelContext:
        """Return the arguments of its kernel steps, in a function that gets the table and the number of its thread."""
        table, thread = f.arguments[0], f.arguments[3]
        indices = {name: f.address_at(table, i, DTYPES[self.types[name].dtype]) for i, name in enumerate(self.table)}
        streams = enumerate(self.streams, len(self.table))
        indices |= {stream_of(node.outputs[0]): table + i for i, node in streams}
        first = len(self.table) + len(self.streams)

        def shared(number: int, element: Type) -> Value:
            assert steps.shared_scratch[number] > 0, "scratch of no bytes is not addressed"
            return f.address_at(table, first + number, element)

        def own(number: int, element: Type) -> Value:
            assert steps.thread_scratch[number] > 0, "scratch of no bytes is not addressed"
            start = f.address_at(table, first + len(steps.shared_scratch) + number, UINT8)
            return f.cast(start + thread * aligned(steps.thread_scratch[number]), element)

        def refuse() -> None:
            at = first + len(steps.shared_scratch) + len(steps.thread_scratch)
            assert steps.has_runtime_check, "the stages do not say that they do"
            for word in range(CHECK_WORDS):
                f.store(f.index(1), f.address_at(table, at + word, INT64))

        node = self.group.nodes[0]
        inputs = [indices.get(name) if name else None for name in node.inputs]
        outputs = [indices[name] for name in node.outputs if name in indices]
        stream = f.load(indices[stream_of(node.outputs[0])]) if is_random(node.rule) else None
        return KernelContext(f, inputs, outputs, shared, own, indices, refuse, stream=stream)

    @cached_property
    def streams(self) -> list[Node]:
        """The nodes that draw from a random stream.

        The number of the stream is not part of the code, so that others may share the code.
        """
        return [node for node in self.group.nodes if is_random(node.rule)]

    @cached_property
    def key(self) -> str:
        """A key that is equal for groups that differ only in addresses."""
        number = {name: str(i) for i, name in enumerate(self.table)}
        before = [name for node in self.group.prologue for name in node.outputs]
        internal = {name: f"m{i}" for i, name in enumerate([*self.group.outputs, *before])}
        known = {name: op.attributes[0].SerializeToString().hex() for name, op in self.constants.items()}

        def named(name: str) -> str:
            if name in internal:
                return internal[name] + ("!" + number[name] if name in self.stored else "")
            return number.get(name) or known.get(name, "")

        parts = [f"{self.group.domain} {self.additions.name}"]
        for node in (*self.group.prologue, *self.group.nodes):
            operands = [f"{named(name)}:{self.types[name]}{self._gaps(name)}" if name else "" for name in node.inputs]
            results = [f"{named(name)}:{self.types[name]}" for name in node.outputs]
            attributes = [attribute.SerializeToString().hex() for attribute in node.op.attributes]
            variant = node.rule.variant if isinstance(node.rule, CustomKernel) else ""
            part = f"{node.part} {node.part_name} {node.attributes}" if node.part else ""
            parts.append(f"{node.op.type} {part} {operands} {results} {attributes} {variant}")
        if self.invariant or self.is_prepacked:
            parts.append(f"prepacked {self.is_prepacked} {sorted(number[name] for name in self.invariant)}")
        return "\n".join(parts)

    def _gaps(self, name: str) -> str:
        return f"@{self.views[name].layout.strides}" if name in self.views else ""


def stream_of(name: str) -> str:
    """Return the name of the entry of the table with the number of the stream from which a tensor is drawn."""
    return f"stream of {name}"  # no tensor has a space in its name


def kernel_of(
    block: Nodes,
    group: Group,
    stored: Sequence[str],
    invariant: frozenset[str] = frozenset(),
    *,
    is_prepacked: bool = False,
) -> GroupKernel:
    """Return the kernel of a group, which reads the tensors of the roots `invariant` as invariant ones."""
    nodes = [*group.prologue, *group.nodes]
    internal = {name for node in nodes for name in node.outputs}
    reads = dict.fromkeys(name for node in nodes for name in node.inputs if name and name not in internal)
    known = {name for name in reads if name in block.constants and block.types[name].has_one_element}
    ones = known - {name for node in nodes if not isinstance(node.rule, Pointwise) for name in node.inputs}
    table = [name for name in reads if name not in ones] + [name for name in stored if name not in reads]
    constants = {name: block.constants[name] for name in reads if name in ones}
    views = {name: block.views[name] for name in reads if name in block.views}
    known_steady = frozenset(name for name in reads if name in table and block.root.get(name, name) in invariant)
    first = group.nodes[0]
    additions = block.additions[first.outputs[0]] if isinstance(first.rule, Product) else Additions.CHAIN
    return GroupKernel(
        group, block.types, stored, tuple(table), constants, views, known_steady, is_prepacked, additions
    )
