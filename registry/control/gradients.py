"""The gradients of ops that run blocks: ops with blocks in turn, so they have gradients themselves.

1. The ops of the body are copied to a new block, and the ops that differentiate them are appended there, as for any
   block. The copy is the forward part, what follows is the backward part.
2. The backward part of a loop becomes the body of a scan in the opposite direction over the trips that were made. Its
   carries are the gradients of the loop's float carries, and the sums of the gradients of shared operands, which begin
   with zeros. Its rows are gradients of rows.
3. The backward part reads tensors of the forward part. With `save="all"` the loop gives them as further rows. With
   `save="carries"` it gives the carries, and the scan's body has the forward part too. Values that follow from shared
   operands alone are equal in all iterations, so they are recomputed in either case.
4. The gradient of a condition is a condition, whose branches have the forward part too. An operand that a branch does
   not use gets zeros from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prograd_proto import TensorType, attributes_of
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks.control import COND, SCAN, WHILE, Layout, layout_of
from prograd_proto.dtypes import REALS
from registry.block import Block
from registry.control.bodies import append_control, copy_ops, part_of, stacked
from registry.control.control_op import CONTROL, declare
from registry.control.paths import float_paths, loop_paths, result_paths
from registry.errors import OpError
from registry.gradients import carries_gradient, differentiate, emits_gradient, missing_rule
from registry.op import find_op
from registry.operator import OPS
from registry.value import Value


@dataclass
class _Joint:
    """A block with the forward part of a body and, behind it, the ops that differentiate it.

    Attributes:
        block: the block.
        forward: the number of ops of the forward part.
        arguments: the tensors that stand for the body's arguments.
        names: the tensors of the copy by those of the body.
        grads: the gradients of the copy's tensors.
    """

    block: Block
    forward: int
    arguments: dict[int, Value]
    names: dict[str, str]
    grads: dict[str, Value] = field(default_factory=dict[str, Value])


def cond_gradient(block: Block, desc: pb.OpDesc, output_grads: Sequence[Value | None]) -> list[Value | None]:
    """Append the gradient ops of a `cond`; return the gradients of its operands, None where none flows."""
    bodies, operands = block.root.bodies, [block.value(name) for name in desc.inputs[1:]]
    paths = float_paths(desc, bodies)
    live = [k for k, grad in enumerate(output_grads) if grad is not None]
    wanted = [i for i in range(len(operands)) if any(paths[k] >> (i + 1) & 1 for k in live)]
    if not wanted:
        return [None] * len(desc.inputs)
    given = [grad for grad in output_grads if grad is not None]
    made: list[pb.BlockDesc] = []
    for number in list(desc.blocks):
        body = bodies[number]
        joint = _copied(block, f"the gradient of {COND}", body, [x.type for x in operands])
        with joint.block.appending():
            seeds = [joint.block.argument(f"d{k}", output_grads[k].type) for k in live]  # pyright: ignore[reportOptionalMemberAccess]: live ones are there
            seeded = [(joint.names[body.results[k]], seed) for k, seed in zip(live, seeds, strict=True)]
            _differentiate(joint, seeded)
            results = [_gradient_of(joint, joint.arguments[i]) for i in wanted]
        arguments = [*(joint.arguments[i].name for i in range(len(operands))), *(seed.name for seed in seeds)]
        position = {name: i for i, name in enumerate(arguments)}
        made.append(part_of(joint.block, joint.block.desc.ops, position, [x.name for x in results]))
    read = sorted({p.argument for part in made for p in part.parameters})
    values = [*operands, *given]
    _renumber(made, {old: new for new, old in enumerate(read)})
    grads = append_control(block, COND, [block.value(desc.inputs[0]), *(values[i] for i in read)], {}, made)
    found = dict(zip(wanted, grads, strict=True))
    return [None, *(found.get(i) for i in range(len(operands)))]


def loop_gradient(block: Block, desc: pb.OpDesc, output_grads: Sequence[Value | None]) -> list[Value | None]:
    """Append the gradient ops of a `scan` or `while_loop`; return the gradients of its operands."""
    loop = _Loop(block, desc, output_grads)
    return loop.gradients() if loop.wanted else [None] * len(desc.inputs)


class _Loop:
    """A loop that is differentiated.

    Attributes:
        live: the results of the body whose gradients matter.
        wanted: the arguments that get gradients.
    """

    def __init__(self, block: Block, desc: pb.OpDesc, output_grads: Sequence[Value | None]) -> None:
        self.block, self.desc = block, desc
        self.attributes: dict[str, Any] = attributes_of(desc)
        self.layout: Layout = layout_of(desc.type, self.attributes)
        self.body = block.root.bodies[desc.blocks[-1]]
        self.operands = [block.value(name) for name in desc.inputs[self.layout.first :]]
        carries = self.layout.carries
        grads = list(output_grads)
        self.output_grads = grads if desc.type == SCAN else [*grads[:carries], *grads[carries + 1 :]]
        self.paths = result_paths(self.body, block.root.bodies)
        self.live = self._live()
        self.wanted = self._wanted()

    @property
    def length(self) -> int | str:
        """The rows of the loop, or their bound."""
        return self.attributes["max_trips"] if self.desc.type == WHILE else self.attributes["length"][0]

    def gradients(self) -> list[Value | None]:
        """Append the ops and return the gradients of the op's operands."""
        if self.desc.type == WHILE and not self.attributes["max_trips"]:
            raise OpError("while_loop needs max_trips for its gradient, as in max_trips=64; running does not")
        first, carries, rows = self.layout
        types = [x.type for x in self.operands]
        types[carries : carries + rows] = [TensorType(t.dtype, t.shape[1:]) for t in types[carries : carries + rows]]
        joint = _copied(self.block, f"the gradient of {self.desc.type}", self.body, types)
        live_carries = [j for j in self.live if j < carries]
        live_rows = [k for k in self.live if k >= carries]
        shared = [i for i in self.wanted if i >= carries + rows]
        with joint.block.appending():
            back = {r: joint.block.argument(f"d{r}", self._seed_type(r)) for r in self.live}
            sums = {i: joint.block.argument(f"sum{i}", types[i].wide) for i in shared}
            _differentiate(joint, [(joint.names[self.body.results[r]], back[r]) for r in self.live])
            new = [_gradient_of(joint, joint.arguments[j]) for j in live_carries]
            new += [self._added(joint, sums[i], i) for i in shared]
            given = [i for i in self.wanted if carries <= i < carries + rows]
            out = [_gradient_of(joint, joint.arguments[i]) for i in given]
        results = [x.name for x in (*new, *out)]
        own = [back[j].name for j in live_carries] + [sums[i].name for i in shared]
        saved, again = self._saved(joint, results, {*own, *(back[k].name for k in live_rows)})
        stacks = dict(zip(saved, self._stacks(joint, saved), strict=True))
        read = {joint.arguments[carries + k].name: self.operands[carries + k] for k in range(rows)}
        of_rows = {**stacks, **read, **{back[k].name: self._grad(k) for k in live_rows}}
        outside = {joint.arguments[i].name: self.operands[i] for i in range(carries + rows, len(types))}
        begins = [self._begin(j) for j in live_carries] + [_zeros(self.operands[i]) for i in shared]
        made = self._append(joint, again, own, begins, of_rows, outside, results)
        found = dict(zip([*live_carries, *shared, *given], made, strict=True))
        return [*[None] * first, *(found.get(i) for i in range(len(self.operands)))]

    def _live(self) -> list[int]:
        """Return the results whose gradients matter: used outputs, and carries that these depend on."""
        floats = {t.name for t in self.body.tensors if _is_real(t)}
        names = self.body.results
        live = {r for r, grad in enumerate(self.output_grads) if grad is not None and names[r] in floats}
        waiting = list(live)
        while waiting:
            bits = self.paths[waiting.pop()]
            for j in range(self.layout.carries):
                if bits >> j & 1 and j not in live and names[j] in floats:
                    live.add(j)
                    waiting.append(j)
        return sorted(live)

    def _wanted(self) -> list[int]:
        """Return the arguments that an output with a gradient has a path to."""
        reached, bits = loop_paths(self.body, self.paths, self.layout.carries), 0
        for r, grad in enumerate(self.output_grads):
            bits |= reached[r] if grad is not None else 0
        return [i for i in range(len(self.operands)) if bits >> i & 1]

    def _seed_type(self, result: int) -> TensorType:
        name = self.body.results[result]
        from prograd_proto import type_of

        return next(type_of(t).wide for t in self.body.tensors if t.name == name)

    def _grad(self, result: int) -> Value:
        grad = self.output_grads[result]
        assert grad is not None, "only rows with a gradient are live"
        return grad

    def _begin(self, carry: int) -> Value:
        """Return the gradient of a carry's last value, zeros if the loss does not depend on it."""
        grad = self.output_grads[carry]
        return _zeros(self.operands[carry]) if grad is None else grad

    def _added(self, joint: _Joint, sum: Value, argument: int) -> Value:
        grad = joint.grads.get(joint.arguments[argument].name)
        return sum if grad is None else OPS["add"](sum, grad)

    def _saved(self, joint: _Joint, results: Sequence[str], given: set[str]) -> tuple[list[str], list[pb.OpDesc]]:
        """Return the tensors of the forward part that the loop gives as rows, and the ops of the gradient's body."""
        ops, (_, carries, rows) = list(joint.block.desc.ops), self.layout
        forward, backward = ops[: joint.forward], ops[joint.forward :]
        invariant = {joint.arguments[i].name for i in range(carries + rows, len(self.operands))}
        again: list[pb.OpDesc] = []
        for op in forward:
            if self.attributes["save"] == "carries" or (invariant.issuperset(op.inputs) and not _draws(self.block, op)):
                again.append(op)
                invariant.update(op.outputs)
        kept = {name for op in again for name in op.outputs}
        needed = {*results}
        for op in reversed([*again, *backward]):
            if not needed.isdisjoint(op.outputs):
                needed.update(op.inputs)
        own = {joint.arguments[j].name for j in range(carries)}
        made = {name for op in forward for name in op.outputs} - kept
        order = [*own, *(name for op in forward for name in op.outputs)]
        return [name for name in sorted(order, key=order.index) if name in needed and name in own | made], [
            *again,
            *backward,
        ]

    def _stacks(self, joint: _Joint, saved: Sequence[str]) -> list[Value]:
        """Let the loop return these tensors of the forward part as further rows, and return the rows."""
        if not saved:
            return []
        carries = self.layout.carries
        results = [joint.names[name] for name in self.body.results]
        arguments = {joint.arguments[i].name: i for i in range(len(self.operands))}
        forward = joint.block.desc.ops[: joint.forward]
        there = {name: k for k, name in enumerate(results) if k >= carries}
        more = [name for name in saved if name not in there]
        body = part_of(joint.block, forward, arguments, [*results, *more])
        self.desc.blocks[-1] = self.block.keep(body)
        start = len(self.body.results) + (self.desc.type == WHILE)
        for number, name in enumerate(more, start):
            type = stacked(joint.block.types[name], self.length)
            stem = f"{self.desc.outputs[0].rsplit('.', 1)[0]}.saved{number}"
            while stem in self.block.types:
                stem += "_"
            self.desc.outputs.append(self.block.define(stem, type).name)
        position = {name: k for k, name in enumerate([*results, *more]) if k >= carries}
        offset = int(self.desc.type == WHILE)
        return [self.block.value(self.desc.outputs[position[name] + offset]) for name in saved]

    def _append(
        self,
        joint: _Joint,
        ops: Sequence[pb.OpDesc],
        carries: Sequence[str],
        begins: Sequence[Value],
        rows: Mapping[str, Value],
        outside: Mapping[str, Value],
        results: Sequence[str],
    ) -> list[Value]:
        """Append the scan in the opposite direction."""
        shared = {**outside, **joint.block.captured}
        made = {name for op in ops for name in op.outputs}
        arguments = [*carries, *(name for name in (*rows, *shared) if name not in made)]
        body = part_of(joint.block, ops, {name: i for i, name in enumerate(arguments)}, results)
        read = {p.tensor for p in body.parameters}
        of_rows = {name: value for name, value in rows.items() if name in read}
        of_all = {name: value for name, value in shared.items() if name in read}
        kept = [*carries, *of_rows, *of_all]
        _renumber([body], {arguments.index(name): i for i, name in enumerate(kept)})
        is_while = self.desc.type == WHILE
        counted = is_while or bool(self.attributes["counted"])
        trips = self.desc.outputs[self.layout.carries] if is_while else self.desc.inputs[0]
        attributes = {
            "carries": len(carries),
            "rows": len(of_rows),
            "length": (self.length,),
            "counted": counted,
            "reverse": is_while or not self.attributes["reverse"],
            "save": self.attributes["save"],
        }
        operands = [*([self.block.value(trips)] if counted else []), *begins, *of_rows.values(), *of_all.values()]
        return append_control(self.block, SCAN, operands, attributes, [body])


def _copied(block: Block, what: str, body: pb.BlockDesc, types: Sequence[TensorType]) -> _Joint:
    with block.inside(what) as inner:
        arguments = {i: inner.argument(f"a{i}", type) for i, type in enumerate(types)}
        names = copy_ops(body, inner, arguments)
    return _Joint(inner, len(inner.desc.ops), arguments, names)


def _differentiate(joint: _Joint, seeds: Iterable[tuple[str, Value]]) -> None:
    """Append the ops that differentiate the forward part, given gradients of some of its tensors."""
    block, grads = joint.block, joint.grads
    varies = _varying(joint)
    for name, seed in seeds:
        _contribute(grads, name, seed)
    for desc in reversed(block.desc.ops[: joint.forward]):
        given = [grads.get(name) for name in desc.outputs]
        if all(grad is None for grad in given) or varies.isdisjoint(_smooth_inputs(block, desc)):
            continue
        _require_gradient(block, desc, given)
        with block.on_behalf_of(stage=pb.STAGE_DERIVATIVE, op=desc):
            found = differentiate(block, desc, given)
            for name, grad in zip(desc.inputs[:], found, strict=True):
                if grad is not None and name in varies:
                    _contribute(grads, name, grad)


def _varying(joint: _Joint) -> set[str]:
    """Return the float tensors that follow from arguments."""
    block = joint.block
    varies = {x.name for x in joint.arguments.values() if x.dtype in REALS}
    for desc in block.desc.ops[: joint.forward]:
        if not varies.isdisjoint(_smooth_inputs(block, desc)):
            varies.update(name for name in desc.outputs if block.types[name].dtype in REALS)
    return varies


def _smooth_inputs(block: Block, desc: pb.OpDesc) -> list[str]:
    inputs = desc.inputs[:]
    if desc.type in CONTROL:
        bits = 0
        for one in float_paths(desc, block.root.bodies):
            bits |= one
        return [name for i, name in enumerate(inputs) if bits >> i & 1]
    op = find_op(desc.type)
    if not op.differentiable:
        return [name for name in inputs if name and block.types[name].dtype in REALS]
    return [name for i, name in enumerate(inputs) if carries_gradient(op, inputs, i, block)]


def _require_gradient(block: Block, desc: pb.OpDesc, given: Sequence[Value | None]) -> None:
    op, line = find_op(desc.type), block.location_text(desc.location)
    where = f"{line}: " if line else ""
    if op.gradient_rule is None:
        cut = f"{'or' if op.differentiable else 'so'} cut the path with ops.stop_gradient"
        raise OpError(f"no gradient through: {where}{desc.type} {missing_rule(op)}, {cut}")
    for position, grad in enumerate(given):
        if grad is not None and not emits_gradient(op, desc, position, block):
            raise OpError(
                f"no gradient through: {where}{desc.type}: its output %{desc.outputs[position]} is declared "
                "non-differentiable; cut the path with ops.stop_gradient"
            )


def _contribute(grads: dict[str, Value], name: str, grad: Value) -> None:
    grads[name] = OPS["add"](grads[name], grad) if name in grads else grad


def _gradient_of(joint: _Joint, x: Value) -> Value:
    found = joint.grads.get(x.name)
    return _zeros(x) if found is None else found


def _zeros(x: Value) -> Value:
    return OPS["full"].on(x.block)(shape=x.shape, value=0.0, dtype=x.type.wide.dtype)


def _draws(block: Block, op: pb.OpDesc) -> bool:
    """Return True if an op or one inside its blocks draws random numbers."""
    bodies = block.root.bodies
    return bool(op.random_stream) or any(_draws(block, inner) for n in op.blocks for inner in bodies[n].ops)


def _is_real(tensor: pb.TensorDesc) -> bool:
    from prograd_proto import type_of

    return type_of(tensor).dtype in REALS


def _renumber(bodies: Sequence[pb.BlockDesc], now: Mapping[int, int]) -> None:
    for body in bodies:
        for parameter in body.parameters:
            parameter.argument = now[parameter.argument]


declare(COND, "Run one of two blocks, by a predicate.", cond_gradient)
declare(SCAN, "Run a block for each row.", loop_gradient)
declare(WHILE, "Run a block while a condition holds.", loop_gradient)
