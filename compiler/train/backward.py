"""Reverse-mode differentiation: append the ops that compute gradients.

1. Forward sweep: find the tensors that vary with the inputs, along float tensors that neither an operator nor the
   caller declares constant.
2. Backward sweep: find the varying ops that the targets need. If some of them have no gradient rule, or a
   target depends on an output that is declared non-differentiable, one error lists all of them.
3. Reverse walk over those ops with a map from each tensor to the contributions to its gradient. Seeds are
   contributions like any other, so a target may depend on another or be named twice. An op's output gradients
   are its outputs' contributions, added up in the order in which they came; its rule appends the gradient ops.
   Contributions of slices that together cover one axis, and do not overlap, are concatenated instead.
4. Gradient ops get the line of the op they differentiate, and a stage: GRADIENT if they serve a parameter,
   DERIVATIVE if they serve only activations. Ops of an earlier differentiation that the targets depend on
   become FORWARD.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import NamedTuple

from compiler.errors import CompileError
from prograd_proto import program_pb2 as pb
from prograd_proto.argument_kinds import with_kinds
from prograd_proto.blocks.control import WHILE
from prograd_proto.dtypes import REALS
from prograd_proto.spelling import closest
from registry import Block, Value, ops
from registry.block import Differentiation
from registry.control.control_op import CONTROL
from registry.control.paths import float_paths
from registry.errors import Located
from registry.gradients import carries_gradient, differentiate, missing_rule
from registry.op import find_op
from registry.ops.fill import gradient_like


@with_kinds(CompileError)
def gradients(
    targets: Value | Sequence[Value],
    inputs: Sequence[Value],
    seeds: Sequence[Value | None] | None = None,
    *,
    no_grad: Sequence[Value | str] = (),
) -> list[Value | None]:
    """Append the ops that compute the gradients of the sum of the targets with respect to each input.

    Args:
        targets: float tensors of any shape, of one program; one may depend on another.
        inputs: float tensors, in the order wanted.
        seeds: the initial gradient of each target, of the type of the target's gradient; None and the default are ones.
        no_grad: tensors, or their names, that count as constants in this call, but not in the differentiation of its
            results.

    Returns:
        The gradient of each input, of its type with float32 for 16-bit floats; None if no target depends on it.

    Raises:
        CompileError: an op on the way has no gradient, all such ops listed with the user's lines; or `no_grad` has an
            input, or an item that is no tensor of the program.
    """
    targets = [targets] if isinstance(targets, Value) else list(targets)
    starts: list[Value | None] = [None] * len(targets) if seeds is None else list(seeds)
    with Located(lambda: targets[0].block.line() if targets else ""):
        return _gradients(targets, list(inputs), starts, no_grad)


def constants_of(block: Block, no_grad: Sequence[Value | str]) -> set[str]:
    """Return the names of tensors without gradient; raise CompileError for one that is not of the block."""
    if isinstance(no_grad, Value | str):
        raise CompileError(f"no_grad={no_grad!r} is no list of tensors or names; write no_grad=[{no_grad!r}]")
    if not isinstance(no_grad, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]: users may not check types
        raise CompileError(f"no_grad={no_grad!r} is no list of tensors or names")
    for given in no_grad:
        if not isinstance(given, Value | str):  # pyright: ignore[reportUnnecessaryIsInstance]: users may not check types
            raise CompileError(f"no_grad: {given!r} is neither a tensor nor the name of one")
        if isinstance(given, Value) and given.block.root is not block.root:
            raise CompileError(f"no_grad: {given!r} belongs to another program; build both in one")
        if isinstance(given, str) and given not in block.types:
            raise CompileError(f"no_grad: there is no tensor {given!r}{closest(given, block.types)}")
    return {given if isinstance(given, str) else given.name for given in no_grad}


def blockers(block: Block, targets: Sequence[Value]) -> list[str]:
    """Return the ops at which gradients of the targets stop by declaration, a line each."""
    needed = _ancestors(block, targets)
    stops = [desc for desc in block.desc.ops if needed & set(desc.outputs) and _is_stop(block, desc, needed)]
    return [
        f"{_line(block, desc)}{desc.type} stops the gradient{': the number of trips has none' * (desc.type == WHILE)}"
        for desc in stops
    ]


def _gradients(
    targets: list[Value], inputs: list[Value], seeds: list[Value | None], no_grad: Sequence[Value | str]
) -> list[Value | None]:
    if len(seeds) != len(targets) or not targets:
        raise CompileError(
            f"gradients: {len(targets)} targets and {len(seeds)} seeds; give one seed, or None, for each"
        )
    _common_block([*targets, *inputs, *(seed for seed in seeds if seed is not None)])
    block = targets[0].block.root.active
    targets, inputs = [block.taken(x) for x in targets], [block.taken(x) for x in inputs]
    seeds = [None if seed is None else block.taken(seed) for seed in seeds]
    constants = constants_of(block, no_grad)
    for value in inputs:
        if value.name in constants:
            raise CompileError(f"gradients: {value!r} is an input and in no_grad; leave it out of one of them")
    first_id = block.next_id
    walk = _Walk(block, _varying(block, inputs, constants))
    active = _active_ops(block, walk.varies, {target.name for target in targets} - constants)
    _promote_to_forward(block, targets)
    for target, seed in zip(targets, seeds, strict=True):
        walk.seed(target, seed)
    first = len(block.desc.ops)
    for desc in reversed(active):
        walk.through(desc)
    grads = [walk.total(value.name) for value in inputs]
    pairs = zip(inputs, grads, strict=True)
    walk.mark_gradients(first, {grad.name for x, grad in pairs if grad is not None and walk.trains(x.name)})
    block.differentiations.append(
        Differentiation(first_id, _names(targets), _names(inputs), _names(seeds), frozenset(constants), _names(grads))
    )
    return grads


def reached_by_gradient(target: Value, inputs: Sequence[Value]) -> list[Value]:
    """Return the inputs into which a gradient of the target flows, and append nothing."""
    block = target.block
    varies = _varying(block, inputs, set())
    active = _active_ops(block, varies, {target.name})
    reached = {name for desc in active for name in _gradient_inputs(block, desc)}
    return [value for value in inputs if value.name in reached]


def _names(values: Sequence[Value | None]) -> tuple[str, ...]:
    return tuple("" if value is None else value.name for value in values)


class _SliceGradient(NamedTuple):
    """The gradient of a range of one axis, which `unslice` surrounds with zeros: its name, the axis and the range."""

    name: str
    axis: int
    start: int
    stop: int


def _slice_gradient(desc: pb.OpDesc) -> _SliceGradient | None:
    """Return the range whose gradient an op surrounds with zeros, if it is an `unslice` along one axis."""
    if desc.type != "unslice":
        return None
    lists = {attribute.name: list(attribute.ints_value.values) for attribute in desc.attributes}
    axes, starts, stops = (lists[name] for name in ("axes", "starts", "stops"))
    if len(axes) != 1 or lists["strides"] != [1]:
        return None
    return _SliceGradient(desc.inputs[0], axes[0], starts[0], stops[0])


def _cover(slices: Sequence[_SliceGradient], shape: Sequence[int | str]) -> bool:
    """Return True if ranges of one axis of a tensor cover it, and none overlap."""
    ordered = sorted(slices, key=lambda piece: piece.start)
    ends = [0, *(piece.stop for piece in ordered)]
    is_one_axis = len({piece.axis for piece in slices}) == 1
    return is_one_axis and [piece.start for piece in ordered] == ends[:-1] and shape[slices[0].axis] == ends[-1]


@dataclass
class _Walk:
    """The reverse walk: the contributions so far to the gradient of each tensor."""

    block: Block
    varies: set[str]
    contributions: dict[str, list[Value]] = field(default_factory=dict[str, list[Value]])
    slices: dict[str, _SliceGradient] = field(default_factory=dict[str, "_SliceGradient"])

    def seed(self, target: Value, seed: Value | None) -> None:
        if seed is None:
            with self.block.on_behalf_of(stage=pb.STAGE_GRADIENT):
                seed = gradient_like(target, 1.0)
        if seed.type != target.type.wide:
            raise CompileError(f"the seed {seed!r} is not of the type of its target {target!r}")
        self.contributions.setdefault(target.name, []).append(seed)

    def through(self, desc: pb.OpDesc) -> None:
        output_grads = [self.total(name) for name in desc.outputs[:]]
        if all(grad is None for grad in output_grads):
            return
        first = len(self.block.desc.ops)
        with self.block.on_behalf_of(stage=pb.STAGE_DERIVATIVE, op=desc):
            grads = differentiate(self.block, desc, output_grads)
        pairs = list(zip(desc.inputs[:], grads, strict=True))
        served = {g.name for name, g in pairs if g is not None and self.trains(name)}
        for new in self.block.desc.ops[first:]:
            if (found := _slice_gradient(new)) is not None:
                self.slices[new.outputs[0]] = found
        for new in reversed(self.block.desc.ops[first:]):
            if not served.isdisjoint(new.outputs[:]) and new.type != "constant":
                new.stage = pb.STAGE_GRADIENT
                served.update(new.inputs[:])
        for name, grad in pairs:
            if grad is not None and name in self.varies:
                self.contributions.setdefault(name, []).append(grad)

    def total(self, name: str) -> Value | None:
        """Return the sum of the contributions so far, which replaces them; None if there are none."""
        parts = self.contributions.get(name)
        if not parts:
            return None
        value = parts[0] if len(parts) == 1 else self._sum(name, parts)
        self.contributions[name] = [value]
        tensor = self.block.tensors[value.name]
        if not tensor.gradient_of:
            tensor.gradient_of = name
        return value

    def _sum(self, name: str, parts: list[Value]) -> Value:
        stage = pb.STAGE_GRADIENT if self.trains(name) else pb.STAGE_DERIVATIVE
        with self.block.on_behalf_of(stage=stage):
            slices = [self.slices[part.name] for part in parts if part.name in self.slices]
            if len(slices) == len(parts) and _cover(slices, parts[0].shape):
                pieces = [self.block.value(piece.name) for piece in sorted(slices, key=lambda piece: piece.start)]
                return ops.concat(*pieces, axis=slices[0].axis)
            return reduce(ops.add, parts)

    def mark_gradients(self, first: int, grads: set[str]) -> None:
        """Set the stage of ops from `first` on that these tensors depend on to GRADIENT."""
        for desc in self.block.desc.ops[first:]:
            if not grads.isdisjoint(desc.outputs[:]):
                desc.stage = pb.STAGE_GRADIENT

    def trains(self, name: str) -> bool:
        """Return True if the tensor stands for a state."""
        return name in self.block.state_tensors


def _common_block(values: Sequence[Value]) -> Block:
    for value in values:
        if value.block.root is not values[0].block.root:
            raise CompileError(f"{value!r} and {values[0]!r} belong to different programs")
        if value.dtype not in REALS:
            raise CompileError(f"{value!r} has no gradient: only tensors of floats do")
    return values[0].block


def _varying(block: Block, inputs: Sequence[Value], constants: set[str]) -> set[str]:
    varies = {value.name for value in inputs}
    for desc in block.desc.ops:
        if desc.type in CONTROL:
            varies |= _outputs_behind(block, desc, varies) - constants
        elif any(name in varies for name in _gradient_inputs(block, desc)):
            floats = {name for name in desc.outputs if block.types[name].dtype in REALS}
            varies |= floats - constants
    return varies


def _outputs_behind(block: Block, desc: pb.OpDesc, varies: set[str]) -> set[str]:
    """Return the outputs of an op with blocks that have a path to an operand that varies."""
    bits = sum(1 << i for i, name in enumerate(desc.inputs) if name in varies)
    paths = float_paths(desc, block.root.bodies)
    return {name for name, reached in zip(desc.outputs, paths, strict=True) if reached & bits}


def _active_ops(block: Block, varies: set[str], targets: set[str]) -> list[pb.OpDesc]:
    wanted = set(targets)
    active: list[pb.OpDesc] = []
    faults: list[str] = []
    for desc in reversed(block.desc.ops):
        if not any(name in wanted for name in desc.outputs):
            continue
        inputs = [name for name in _gradient_inputs(block, desc, wanted) if name in varies]
        if inputs:
            active.append(desc)
            wanted.update(inputs)
            faults += _faults(block, desc, wanted)
    if faults:
        raise CompileError("no gradient through: " + "; ".join(reversed(faults)))
    return active[::-1]


def _gradient_inputs(block: Block, desc: pb.OpDesc, wanted: Container[str] | None = None) -> list[str]:
    """Return the inputs with a gradient: outputs depend on them smoothly, as declared by the operator.

    Of an op with blocks those that one of the wanted outputs has a path to, by default any output.
    """
    if desc.type in CONTROL:
        paths = zip(desc.outputs, float_paths(desc, block.root.bodies), strict=True)
        found = [bits for name, bits in paths if wanted is None or name in wanted]
        return [name for i, name in enumerate(desc.inputs) if any(bits >> i & 1 for bits in found)]
    op, inputs = find_op(desc.type), desc.inputs[:]
    if not op.differentiable:
        return [name for name in inputs if name and block.types[name].dtype in REALS]
    return [name for i, name in enumerate(inputs) if carries_gradient(op, inputs, i, block)]


def _faults(block: Block, desc: pb.OpDesc, wanted: set[str]) -> list[str]:
    if desc.type in CONTROL:
        return [f"{_line(block, desc)}{why}" for why in CONTROL[desc.type].faults(desc, block.root.bodies)]
    op = find_op(desc.type)
    if op.gradient_rule is None:
        cut = "cut the path with ops.stop_gradient"
        return [f"{_line(block, desc)}{desc.type} {missing_rule(op)}, {'or' if op.differentiable else 'so'} {cut}"]
    outputs = op.signature.name_outputs(desc.outputs)
    return [
        f"{_line(block, desc)}{desc.type}: its output {name!r} is declared non-differentiable; "
        "cut the path with ops.stop_gradient"
        for name in sorted(op.no_gradient & outputs.keys())
        if outputs[name] in wanted and block.types[outputs[name]].dtype in REALS
    ]


def _promote_to_forward(block: Block, targets: Sequence[Value]) -> None:
    needed = _ancestors(block, targets)
    for desc in block.desc.ops:
        if desc.stage in (pb.STAGE_GRADIENT, pb.STAGE_DERIVATIVE) and not needed.isdisjoint(desc.outputs):
            desc.stage = pb.STAGE_FORWARD


def _ancestors(block: Block, targets: Sequence[Value]) -> set[str]:
    needed = {target.name for target in targets}
    for desc in reversed(block.desc.ops):
        if not needed.isdisjoint(desc.outputs):
            needed.update(desc.inputs)
    return needed


def _is_stop(block: Block, desc: pb.OpDesc, needed: Container[str]) -> bool:
    if desc.type in CONTROL:
        trips = [name for name in desc.outputs if name in needed and block.types[name].dtype not in REALS]
        return desc.type == WHILE and bool(trips)
    floats = [name for name in desc.inputs if name and block.types[name].dtype in REALS]
    if not floats:
        return False
    keeps_floats = any(block.types[name].dtype in REALS for name in desc.outputs)
    return not keeps_floats or not find_op(desc.type).differentiable or not _gradient_inputs(block, desc)


def _line(block: Block, desc: pb.OpDesc) -> str:
    text = block.location_text(desc.location)
    return f"{text}: " if text else ""
