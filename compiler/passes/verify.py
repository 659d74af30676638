"""The rules of a well-formed program, one function a rule; `run_passes` says when they are looked at.

A broken rule is a fault of the pass before it, or of a program that was edited by hand: the message quotes the rule.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from math import prod
from typing import Final, TypeVar

from compiler.errors import CompileError
from compiler.passes.training_rules import (
    backward_ops_help_a_forward_op,
    ops_that_run_are_read,
    tensors_keep_their_lifespans,
)
from prograd_proto import ProgramError, TensorType, attributes_of, type_of
from prograd_proto import program_pb2 as pb
from prograd_proto.attributes import attribute_kind
from prograd_proto.blocks import Reading
from prograd_proto.dtypes import ITEM_BYTES
from prograd_proto.lifespans import trains
from registry.op import find_op
from runtime.step import ends_of, faults, runs_once
from runtime.target import TARGET

T = TypeVar("T", int, str)

MAX_TENSOR_BYTES: Final = 1 << 40
"""A tebibyte: no runtime takes a larger tensor, and sums of many such sizes still are numbers of 64 bits."""


def verify(program: pb.ProgramDesc, known: set[bytes] | None = None) -> None:
    """Raise CompileError with the first broken rule and where it is broken.

    Args:
        program: any program.
        known: digests of blocks that were found well formed; they are not looked at again, new ones are added.
    """
    for rule in PROGRAM_RULES:
        _report(rule, rule(program))
    known = set() if known is None else known
    for number, (desc, digest) in enumerate(zip(program.blocks, digests(program), strict=True)):
        if digest not in known:
            block = Reading(desc)
            for rule in BLOCK_RULES:
                _report(rule, rule(program, block), f"block {number}: ")
            known.add(digest)


def digests(program: pb.ProgramDesc) -> list[bytes]:
    """Of each block a digest of all that its rules look at."""
    around = b"".join(state.SerializeToString() for state in program.states)
    return [hashlib.sha256(around + block.SerializeToString()).digest() for block in program.blocks]


def states_have_different_names(program: pb.ProgramDesc) -> Iterator[str]:
    """Every state has a name of its own and a static shape."""
    seen: set[str] = set()
    for state in program.states:
        if state.name in seen or any(isinstance(extent, str) for extent in type_of(state).shape):
            yield f"the state {state.name!r} is there twice or has a symbol in its shape"
        seen.add(state.name)


def entries_have_blocks(program: pb.ProgramDesc) -> Iterator[str]:
    """Every entry has a name of its own and blocks that exist."""
    seen: set[str] = set()
    for entry in program.entries:
        numbers = [entry.source_block, *(binding.block for binding in entry.bindings)]
        if entry.name in seen or max(numbers) >= len(program.blocks):
            yield f"the entry {entry.name!r} is there twice or has a block that does not exist"
        seen.add(entry.name)


def states_have_sizes(program: pb.ProgramDesc) -> Iterator[str]:
    """No extent of a state is negative, and no state is larger than a tebibyte."""
    for state in program.states:
        if _has_no_size(type_of(state)):
            yield f"the state {state.name!r} is {type_of(state)}"


def only_buffers_last_an_epoch(program: pb.ProgramDesc) -> Iterator[str]:
    """What is trained, and what training counts by, lives on: only a buffer lasts an epoch."""
    for state in program.states:
        if state.lifespan == pb.LIFESPAN_EPOCH and state.kind != pb.STATE_KIND_BUFFER:
            kind = pb.StateKind.Name(state.kind).removeprefix("STATE_KIND_").lower()
            yield f"the {kind} {state.name!r} lasts an epoch"


def evaluating_does_not_train(program: pb.ProgramDesc) -> Iterator[str]:
    """The entry that a run evaluates updates no state but those that last an epoch."""
    for entry in program.entries:
        evaluated = program.run.HasField("evaluate") and entry.name == program.run.evaluate.entry
        if evaluated and trains(program, program.blocks[entry.source_block]):
            yield f"the run evaluates the entry {entry.name!r}, which trains"


def tensors_are_defined_once(program: pb.ProgramDesc, block: Reading) -> Iterator[str]:
    """Every tensor has a name, is described once and defined once."""
    names = [parameter.tensor for parameter in block.desc.parameters]
    names += chain.from_iterable(block.outputs)
    names += [name for op in block.ops for name in op.scratch]
    described = [tensor.name for tensor in block.tensors]
    if len(names) == len(described) and set(names) == set(described) and not _repeated(names) and "" not in names:
        return
    if "" in described:
        yield "a tensor has no name"
    for name in _repeated(described):
        yield f"%{name} is described twice"
    defined: set[str] = set()
    for name in names:
        if name in defined or name not in described:
            yield f"%{name} is {'defined twice' if name in defined else 'not described'}"
        defined.add(name)
    for name in sorted(set(described) - defined):
        yield f"%{name} is described, and nothing defines it"


def tensors_are_defined_before_use(program: pb.ProgramDesc, block: Reading) -> Iterator[str]:
    """An op reads only what a parameter or an earlier op defines, so the order has no cycle."""
    defined = {"", *(parameter.tensor for parameter in block.desc.parameters)}
    for op, inputs, outputs in zip(block.ops, block.inputs, block.outputs, strict=True):
        for name in inputs:
            if name not in defined:
                yield f"op {op.id} ({op.type}) reads %{name}"
        defined.update(outputs)
    for name in ends_of(block.desc):
        if not name or name not in defined:
            yield f"the end of the step reads %{name}"


def tensors_have_sizes(program: pb.ProgramDesc, block: Reading) -> Iterator[str]:
    """No extent of a tensor is negative, and no tensor is larger than a tebibyte."""
    bad = {type for type in set(block.types.values()) if _has_no_size(type)}
    for name, type in block.types.items() if bad else ():
        if type in bad:
            yield f"%{name} is {type}"


def op_ids_are_unique(program: pb.ProgramDesc, block: Reading) -> Iterator[str]:
    """Every op has an id of its own, from 1."""
    seen: set[int] = {0}
    for op in block.ops:
        if op.id in seen:
            yield f"op {op.id} ({op.type}) has the id 0 or that of another op"
        seen.add(op.id)


def random_streams_are_separate(program: pb.ProgramDesc, block: Reading) -> Iterator[str]:
    """Within a block ops of one random stream draw the same numbers: they have the same type."""
    types: dict[int, str] = {}
    for op in block.ops:
        if op.random_stream and types.setdefault(op.random_stream, op.type) != op.type:
            yield f"op {op.id} ({op.type}) draws from the stream of an op of another type"


def types_are_as_inferred(program: pb.ProgramDesc, block: Reading) -> Iterator[str]:
    """Every op is known, has all its operands and attributes, and outputs of the types that inference gives."""
    alike: set[object] = set()  # a deep program repeats few different ops, and its types are few objects
    types = block.types
    columns = zip(block.ops, block.op_types, block.inputs, block.outputs, block.attributes, strict=True)
    for op, op_type, operands, results, written in columns:
        inputs = [types[name] if name else None for name in operands]
        outputs = tuple([types[name] for name in results])
        key = op_type, *map(id, inputs), None, *map(id, outputs), *written
        if key in alike:
            continue
        definition = find_op(op_type)
        attributes = attributes_of(op)
        kinds = [(attribute.name, attribute_kind(attribute)) for attribute in op.attributes]
        if kinds != [(name, spec.kind) for name, spec in definition.signature.attributes.items()]:
            yield f"op {op.id} ({op_type}) has the attributes {', '.join(f'{name}: {kind}' for name, kind in kinds)}"
            continue
        if not definition.signature.takes(operands):
            yield f"op {op.id} ({op_type}) has the operands {operands}"
            continue
        inferred = definition.infer_types(inputs, attributes)
        if inferred != outputs:
            yield f"op {op.id} ({op_type}) gives {', '.join(map(str, inferred))}, not {', '.join(map(str, outputs))}"
            continue
        alike.add(key)


def parameters_have_the_states_types(program: pb.ProgramDesc, block: Reading) -> Iterator[str]:
    """One tensor stands for a state; it has the state's type, and so has the one that becomes its value."""
    states = {state.name: type_of(state) for state in program.states}
    pairs = [(p.state, p.tensor) for p in block.desc.parameters if p.WhichOneof("source") == "state"]
    for state, tensor in [*pairs, *((update.state, update.tensor) for update in block.desc.updates)]:
        if states.get(state) != block.types[tensor]:
            yield f"%{tensor} is not of the type of the state {state!r}"
    for state in _repeated([state for state, _ in pairs]):
        yield f"two tensors stand for the state {state!r}"


def states_are_updated_once(program: pb.ProgramDesc, block: Reading) -> Iterator[str]:
    """A block updates a state at most once; a block that trains updates every trainable parameter it reads."""
    updated = [update.state for update in block.desc.updates]
    for name in _repeated(updated):
        yield f"the state {name!r} is updated twice"
    if not trains(program, block.desc):
        return
    trainable = {state.name for state in program.states if state.trainable}
    read = {parameter.state for parameter in block.desc.parameters if parameter.WhichOneof("source") == "state"}
    for name in sorted((trainable & read) - set(updated)):
        yield f"the trainable parameter {name!r} is read and not updated"


def in_place_keeps_every_value(program: pb.ProgramDesc, block: Reading) -> Iterator[str]:
    """An op writes in place what its kernel allows, over what nothing reads afterwards and what may change."""
    for i, why in faults(block, TARGET):
        yield f"op {block.ops[i].id} ({block.op_types[i]}): {why}"


def repetitions_repeat(program: pb.ProgramDesc, block: Reading) -> Iterator[str]:
    """An op that computes another one again follows it, has its type, attributes and random stream, and no effects."""
    if not any(op.recompute_of for op in block.ops):
        return
    first: dict[int, tuple[object, ...]] = {}
    for op, attributes in zip(block.ops, block.attributes, strict=True):
        what = op.type, op.random_stream, *attributes
        if not op.recompute_of:
            first[op.id] = what
        elif first.get(op.recompute_of) != what or runs_once(op.type):
            yield f"op {op.id} ({op.type}) is no repetition of op {op.recompute_of}"


ProgramRule = Callable[[pb.ProgramDesc], Iterator[str]]
BlockRule = Callable[[pb.ProgramDesc, Reading], Iterator[str]]

PROGRAM_RULES: tuple[ProgramRule, ...] = (
    states_have_different_names,
    states_have_sizes,
    entries_have_blocks,
    only_buffers_last_an_epoch,
    evaluating_does_not_train,
    ops_that_run_are_read,
)
BLOCK_RULES: tuple[BlockRule, ...] = (
    tensors_are_defined_once,
    tensors_are_defined_before_use,
    tensors_have_sizes,
    op_ids_are_unique,
    random_streams_are_separate,
    types_are_as_inferred,
    parameters_have_the_states_types,
    states_are_updated_once,
    in_place_keeps_every_value,
    repetitions_repeat,
    backward_ops_help_a_forward_op,
    tensors_keep_their_lifespans,
)


def _has_no_size(type: TensorType) -> bool:
    extents = [extent for extent in type.shape if isinstance(extent, int)]
    return min(extents, default=0) < 0 or ITEM_BYTES[type.dtype] * prod(extents) > MAX_TENSOR_BYTES


def _report(rule: ProgramRule | BlockRule, faults: Iterator[str], where: str = "") -> None:
    try:
        fault = next(faults, None)
    except (ProgramError, KeyError) as error:
        raise CompileError(f"{where}{error}") from None
    if fault is not None:
        law = (rule.__doc__ or "").rstrip(".")
        raise CompileError(f"{where}{fault}; this breaks the rule: {law[0].lower()}{law[1:]}")


def _repeated(items: Sequence[T]) -> list[T]:
    return [item for item, times in sorted(Counter(items).items()) if times > 1] if len(set(items)) < len(items) else []
