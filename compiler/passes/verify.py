"""The rules of a well-formed program, one function a rule; `run_passes` decides when to check them.

A broken rule is a fault of the pass before it, or of a program that was edited by hand: the message quotes the rule.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import TypeVar

from compiler.errors import CompileError
from compiler.passes.verify_training import (
    backward_ops_help_a_forward_op,
    ops_that_run_are_read,
    tensors_keep_their_lifespans,
)
from prograd_proto import ProgramError
from prograd_proto import program_pb2 as pb
from prograd_proto.attributes import attribute_kind
from prograd_proto.blocks import BlockAnalyses, BlockAnalysis, Kind
from prograd_proto.blocks.control import ATTRIBUTES, BLOCKS, block_types, result_types
from prograd_proto.limits import MAX_NAME
from prograd_proto.spelling import nearest
from prograd_proto.states import trains
from prograd_proto.tensor_types import size_fault
from registry.op import find_op
from runtime.step import effects_of, runs_once

T = TypeVar("T", int, str)


def verify(program: BlockAnalyses, known: set[bytes] | None = None) -> None:
    """Raise CompileError with the first broken rule and where it is broken.

    Args:
        program: any program, freshly read, because the error may be a missed notification of an edit.
        known: digests of blocks that were found well formed; they are skipped, and new ones are added.
    """
    for rule in PROGRAM_RULES:
        _report(rule, rule(program))
    known = set() if known is None else known
    for number, digest in enumerate(digests(program.desc)):
        if digest not in known:
            for rule in BLOCK_RULES:
                _report(rule, rule(program, program[number]), f"block {number}: ")
            known.add(digest)


def digests(program: pb.ProgramDesc) -> list[bytes]:
    """Return a digest of each block with everything that its rules check, the blocks inside its ops among it."""
    around = b"".join(state.SerializeToString() for state in program.states)
    own = [block.SerializeToString() for block in program.blocks]
    inner = [[number for op in block.ops for number in op.blocks if number < len(own)] for block in program.blocks]
    parts = [around + text + b"".join(own[n] for n in numbers) for text, numbers in zip(own, inner, strict=True)]
    return [hashlib.sha256(part).digest() for part in parts]


def states_have_different_names(program: BlockAnalyses) -> Iterator[str]:
    """Every state has a name of its own and a static shape."""
    symbolic = {type for type in set(program.state_types.values()) if any(isinstance(d, str) for d in type.shape)}
    seen: set[str] = set()
    for state in program.desc.states:
        name = state.name
        if name in seen or program.state_types[name] in symbolic:
            yield f"the state {name!r} is there twice or has a symbol in its shape"
        seen.add(name)


def names_are_short(program: BlockAnalyses, block: BlockAnalysis) -> Iterator[str]:
    """Every name of a tensor has at most 1,000 characters."""
    if max(map(len, block.names), default=0) > MAX_NAME:
        name = max(block.names, key=len)
        yield f"%{name[:40]}… has {len(name)} characters"


def entries_have_blocks(program: BlockAnalyses) -> Iterator[str]:
    """Every entry has a name of its own and blocks that exist."""
    seen: set[str] = set()
    for entry in program.desc.entries:
        numbers = [entry.source_block, *(binding.block for binding in entry.bindings)]
        if entry.name in seen or max(numbers) >= len(program):
            yield f"the entry {entry.name!r} is there twice or has a block that does not exist"
        seen.add(entry.name)


def states_have_sizes(program: BlockAnalyses) -> Iterator[str]:
    """No state has a size that every run refuses."""
    bad = {type for type in set(program.state_types.values()) if size_fault(type)}
    for name, type in program.state_types.items() if bad else ():
        if type in bad:
            yield f"the state {name!r}: {type} {size_fault(type)}"


def orders_of_additions_are_known(program: BlockAnalyses) -> Iterator[str]:
    """Products of bfloat16 add in an order that this version has."""
    order = program.desc.bfloat16_order
    if order not in pb.Bfloat16Order.values():
        yield f"the order {order} of products of bfloat16"


def only_buffers_last_an_epoch(program: BlockAnalyses) -> Iterator[str]:
    """Every parameter, slot and counter outlives an epoch: only a buffer lasts an epoch."""
    for state in program.desc.states:
        if state.lifespan == pb.LIFESPAN_EPOCH and state.kind != pb.STATE_KIND_BUFFER:
            kind = pb.StateKind.Name(state.kind).removeprefix("STATE_KIND_").lower()
            yield f"the {kind} {state.name!r} lasts an epoch"


def evaluating_does_not_train(program: BlockAnalyses) -> Iterator[str]:
    """No entry that a run evaluates updates a state that outlives an epoch."""
    for entry in program.desc.entries:
        run = program.desc.run
        evaluated = run.HasField("evaluate") and entry.name == run.evaluate.entry
        if evaluated and trains(program.desc, program[entry.source_block].desc):
            yield f"the run evaluates the entry {entry.name!r}, which trains"


def tensors_are_defined_once(program: BlockAnalyses, block: BlockAnalysis) -> Iterator[str]:
    """Every tensor has a name, is described once and defined once."""
    described = block.names
    names = [*block.parameter_names, *chain.from_iterable(block.outputs)]
    different = set(names)
    if len(names) == len(described) == len(different) and different == set(described) and "" not in different:
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


def tensors_are_defined_before_use(program: BlockAnalyses, block: BlockAnalysis) -> Iterator[str]:
    """Every op reads only tensors that a parameter or an earlier op defines, so the order has no cycle."""
    defined = {"", *block.parameter_names}
    for i, (inputs, outputs) in enumerate(zip(block.inputs, block.outputs, strict=True)):
        if not defined.issuperset(inputs):
            for name in inputs:
                if name not in defined:
                    yield f"{_op(block, i)} reads %{name}"
        defined.update(outputs)
    for name in block.ends:
        if not name or name not in defined:
            yield f"the end of the step reads %{name}"


def tensors_have_sizes(program: BlockAnalyses, block: BlockAnalysis) -> Iterator[str]:
    """No tensor has a size that every run refuses."""
    bad = {type for type in set(block.types.values()) if size_fault(type)}
    for name, type in block.types.items() if bad else ():
        if type in bad:
            yield f"%{name}: {type} {size_fault(type)}"


def op_ids_are_unique(program: BlockAnalyses, block: BlockAnalysis) -> Iterator[str]:
    """Every op has an id of its own, from 1."""
    seen: set[int] = {0}
    if len(seen.union(block.ids)) > len(block.ids):
        return
    for i, id in enumerate(block.ids):
        if id in seen:
            yield f"{_op(block, i)} has the id 0 or that of another op"
        seen.add(id)


def lines_are_in_the_table(program: BlockAnalyses, block: BlockAnalysis) -> Iterator[str]:
    """Every op has a line of the program's table, or none."""
    count = len(program.desc.locations)
    for i, op in enumerate(block.ops):
        if op.location > count:
            yield f"{_op(block, i)} has line {op.location} of {count}"


def random_streams_are_separate(program: BlockAnalyses, block: BlockAnalysis) -> Iterator[str]:
    """Within a block ops of one random stream draw the same numbers: they have the same type."""
    types: dict[int, str] = {}
    for i, op in enumerate(block.ops):
        stream = op.random_stream
        if stream and types.setdefault(stream, block.op_types[i]) != block.op_types[i]:
            yield f"{_op(block, i)} draws from the stream of an op of another type"


def types_are_as_inferred(program: BlockAnalyses, block: BlockAnalysis) -> Iterator[str]:
    """Every op is known, has all its operands and attributes, and outputs of the types that inference gives."""
    well_formed: set[Kind] = set()
    for i, kind in enumerate(block.kinds):
        if block.blocks[i]:
            why = _why_not_control(block, i)
            if why is not None:
                yield f"{_op(block, i)}: {why}"
            continue
        if kind in well_formed:
            continue
        why = _why_not(kind, block.inputs[i])
        if why is not None:
            yield f"{_op(block, i)} {why}"
        else:
            well_formed.add(kind)


def _why_not(kind: Kind, operands: Sequence[str]) -> str | None:
    """Return the reason why an op of a kind with these operands is not valid for its operator; None if it is."""
    definition = find_op(kind.op_type)
    attributes = kind.attributes
    kinds = [(attribute.name, attribute_kind(attribute)) for attribute in kind.messages]
    declared = [(name, spec.kind) for name, spec in definition.signature.attributes.items()]
    if kinds != declared:
        return f"has the attributes {_shown(kinds)}{_meant(kinds, declared)}its operator takes {_shown(declared)}"
    if not definition.signature.takes(operands):
        return f"has the operands {list(operands)}"
    inferred = definition.infer_types(list(kind.inputs), attributes)
    if inferred != kind.outputs:
        return f"gives {', '.join(map(str, inferred))}, not {', '.join(map(str, kind.outputs))}"
    return None


def _why_not_control(block: BlockAnalysis, i: int) -> str | None:
    """Return the reason why an op and the blocks inside it do not fit together; None if they do."""
    kind = block.kinds[i]
    kinds = {attribute.name: attribute_kind(attribute) for attribute in kind.messages}
    if kinds != ATTRIBUTES[kind.op_type] or len(kinds) != len(kind.messages):
        return f"it has the attributes {_shown([*kinds.items()])}"
    try:
        inner = [block_types(body.desc) for body in block.sub_blocks(i)]
        inferred = result_types(kind.op_type, kind.inputs, kind.attributes, inner)
    except ProgramError as error:
        return str(error)
    if inferred != kind.outputs:
        return f"it gives {', '.join(map(str, inferred))}, not {', '.join(map(str, kind.outputs))}"
    return None


def _shown(kinds: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{name}: {kind}" for name, kind in kinds) or "none"


def _meant(kinds: Sequence[tuple[str, str]], declared: Sequence[tuple[str, str]]) -> str:
    known = dict(declared)
    unknown = [name for name, _ in kinds if name not in known]
    near = nearest(unknown[0], known) if unknown else ""
    return f" ({near!r} was probably meant); " if near else "; "


def sub_blocks_lie_inside_one_op(program: BlockAnalyses) -> Iterator[str]:
    """Every block inside an op exists, belongs to no entry, and is not inside itself or another op."""
    numbers = {number for e in program.desc.entries for number in (e.source_block, *(b.block for b in e.bindings))}
    program.with_sub_blocks(range(len(program)))  # refuses blocks that do not exist or lie inside themselves
    for outer in range(len(program)):
        for i, inner in ((i, n) for i, named in enumerate(program[outer].blocks) for n in named):
            if inner in numbers:
                yield f"block {outer}: {_op(program[outer], i)} has the sub-block {inner}, which has another place"
            numbers.add(inner)


def operators_take_their_sub_blocks(program: BlockAnalyses, block: BlockAnalysis) -> Iterator[str]:
    """No op has sub-blocks unless its operator runs them, and such an op has them."""
    for i, named in enumerate(block.blocks):
        if bool(named) != (block.op_types[i] in BLOCKS):
            how = "a sub-block" if len(named) == 1 else f"{len(named) or 'no'} sub-blocks"
            yield f"{_op(block, i)} has {how}"


def ops_inside_ops_have_no_effects(program: BlockAnalyses, block: BlockAnalysis) -> Iterator[str]:
    """No op in a block of another op has an effect besides its results."""
    for i, named in enumerate(block.blocks):
        for inner in block.sub_blocks(i) if named else ():
            for j, op_type in enumerate(inner.op_types):
                if effects_of(op_type):
                    yield f"{_op(block, i)}: in a block of it {_op(inner, j)} has an effect"


def parameters_have_the_states_types(program: BlockAnalyses, block: BlockAnalysis) -> Iterator[str]:
    """One tensor stands for a state; it has the state's type, and so has the one that becomes its value."""
    states, types = program.state_types, block.types
    for tensor, state in (*block.state_of.items(), *((tensor, state) for state, tensor in block.updates.items())):
        if states.get(state) != types[tensor]:
            yield f"%{tensor} is not of the type of the state {state!r}"
    for state in _repeated(list(block.state_of.values())):
        yield f"two tensors stand for the state {state!r}"


def states_are_updated_once(program: BlockAnalyses, block: BlockAnalysis) -> Iterator[str]:
    """Every block updates a state at most once; one that trains updates every trainable parameter it reads."""
    for name in _repeated([update.state for update in block.desc.updates]):
        yield f"the state {name!r} is updated twice"
    if not trains(program.desc, block.desc):
        return
    trainable = {state.name for state in program.desc.states if state.trainable}
    for name in sorted((trainable & set(block.state_of.values())) - block.updates.keys()):
        yield f"the trainable parameter {name!r} is read and not updated"


def repetitions_repeat(program: BlockAnalyses, block: BlockAnalysis) -> Iterator[str]:
    """Every op that recomputes another one follows it, has its type, attributes and random stream, and no effects."""
    repeats = [op.recompute_of for op in block.ops]
    if not any(repeats):
        return
    first: dict[int, tuple[object, ...]] = {}
    for i, (op, repeated) in enumerate(zip(block.ops, repeats, strict=True)):
        what = op.type, op.random_stream, *block.attributes[i]
        if not repeated:
            first[op.id] = what
        elif first.get(repeated) != what or runs_once(op.type):
            yield f"{_op(block, i)} is no repetition of op {repeated}"


ProgramRule = Callable[[BlockAnalyses], Iterator[str]]
BlockRule = Callable[[BlockAnalyses, BlockAnalysis], Iterator[str]]

PROGRAM_RULES: tuple[ProgramRule, ...] = (
    states_have_different_names,
    states_have_sizes,
    entries_have_blocks,
    sub_blocks_lie_inside_one_op,
    orders_of_additions_are_known,
    only_buffers_last_an_epoch,
    evaluating_does_not_train,
    ops_that_run_are_read,
)
BLOCK_RULES: tuple[BlockRule, ...] = (
    names_are_short,
    tensors_are_defined_once,
    tensors_are_defined_before_use,
    tensors_have_sizes,
    op_ids_are_unique,
    lines_are_in_the_table,
    random_streams_are_separate,
    operators_take_their_sub_blocks,
    ops_inside_ops_have_no_effects,
    types_are_as_inferred,
    parameters_have_the_states_types,
    states_are_updated_once,
    repetitions_repeat,
    backward_ops_help_a_forward_op,
    tensors_keep_their_lifespans,
)


def _op(block: BlockAnalysis, i: int) -> str:
    return f"op {block.ids[i]} ({block.op_types[i]})"


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
