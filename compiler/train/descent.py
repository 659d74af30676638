"""Gradients of the parameters for a loss, and their updates by optimizers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from compiler.build.state_table import StateTable
from compiler.build.whole_numbers import require_whole
from compiler.errors import CompileError
from compiler.train.backward import blockers, constants_of, gradients
from compiler.train.clipping import Clip, require_clip
from compiler.train.initialisers import constant
from compiler.train.optimizers import Optimizer, Slot, rate_for
from compiler.train.parameter_groups import Cadence, Group, grouped, require_pairs
from compiler.train.wrong_optimizers import wrong_optimizer
from prograd_proto import TensorType
from prograd_proto import program_pb2 as pb
from registry import Block, Value, ops
from registry.ops.copy import widened

Pairs = list[tuple[Value, Value]]
"""Parameters with their gradients."""


@dataclass(frozen=True)
class Descent:
    """The block in which gradients and updates are appended.

    Attributes:
        block: the training block.
        states: states of the program; slots are added to them.
        updates: updates so far, by state.
        update: sets an update.
        free_state: returns an unused state name, given a suggestion.
    """

    block: Block
    states: StateTable
    updates: Mapping[str, Value]
    update: Callable[[Value, Value], None]
    free_state: Callable[[str], str]

    def append(
        self,
        loss: Value,
        optimizer: Optimizer,
        parameters: Sequence[Value] | None,
        groups: Sequence[Group],
        clip: Clip | None,
        accumulate: int,
        no_grad: Sequence[Value | str],
        weight: Value | None = None,
    ) -> tuple[Pairs, list[Value]]:
        """Append all of `Program.minimize`; return its result, and the learning rates in the order of the groups.

        With a `weight`, the mean gradient of the steps of one update is weighted by it.
        """
        require_pairs(groups)
        _require_sane(loss, [optimizer, *(own for _, own in groups)], clip, accumulate)
        pairs = self._gradients(loss, parameters, no_grad)
        members = grouped([w for w, _ in pairs], optimizer, groups)
        rates: list[Value] = []
        with self.block.on_behalf_of(stage=pb.STAGE_UPDATE):
            cadence = Cadence.of(self.block, accumulate)
            sums = self._sums(pairs, cadence)
            kept, means = self._means(sums, cadence, weight)
            means = means or [dw for _, dw in pairs]
            given = dict(zip((w.name for w, _ in pairs), clip(means) if clip else means, strict=True))
            for own, trained in members:
                rates.append(own.rate(self.block))
                grads = [given[w.name] for w in trained]
                for w, dw in zip(trained, own.clip(grads) if own.clip and grads else grads, strict=True):
                    self._append_update(own, w, dw, rates[-1], cadence)
            if cadence.waits is not None:  # after all readers of the means, so they can be overwritten
                for so_far, total in kept:
                    self.update(so_far, ops.where(cadence.waits, total, 0.0))
        return pairs, rates

    def _means(self, sums: Pairs, cadence: Cadence, weight: Value | None) -> tuple[Pairs, list[Value]]:
        """Return the slots with their values after this step, and the mean gradients of the steps so far."""
        if weight is None or not sums:
            means = [so_far + dw / cadence.every for so_far, dw in sums]
            return [(so_far, mean) for (so_far, _), mean in zip(sums, means, strict=True)], means
        count = self.block.state(self._new_count())
        total = count + ops.cast(weight, dtype="float64")
        divisor = ops.where(ops.equal(total, 0.0), 1.0, total)
        totals = [so_far + dw * ops.cast(weight, dtype=dw.dtype) for so_far, dw in sums]
        kept = [(so_far, total) for (so_far, _), total in zip(sums, totals, strict=True)]
        return [*kept, (count, total)], [each / ops.cast(divisor, dtype=each.dtype) for each in totals]

    def _new_count(self) -> str:
        """Return the state of the weight of the steps since the last update."""
        name = self.free_state("accumulated_weight")
        self.states.add(name, TensorType("float64", ()), pb.STATE_KIND_BUFFER, constant(0.0))
        return name

    def _gradients(self, loss: Value, parameters: Sequence[Value] | None, no_grad: Sequence[Value | str]) -> Pairs:
        names = dict.fromkeys(self.states.trainable())
        constants = constants_of(self.block, no_grad)
        others = [name for name in names if name not in constants]
        given = list(parameters) if parameters is not None else [self.block.state(name) for name in others]
        if not given:
            raise CompileError("minimize: there is no parameter to train")
        for value in given:
            if value.name not in names:
                raise CompileError(f"minimize: {value!r} is not a trainable parameter of this program")
        found = [
            (w, dw) for w, dw in zip(given, gradients(loss, given, no_grad=no_grad), strict=True) if dw is not None
        ]
        reached = {w.name for w, _ in found}
        missed = [w.name for w in given if w.name not in reached]
        if not found or (parameters is not None and missed):
            named = ", ".join(map(repr, missed)) if parameters is not None else "any trainable parameter"
            stops = "".join(f"; {line}" for line in blockers(self.block, [loss]))
            stops += f"; no_grad has {', '.join(f'%{name}' for name in sorted(constants))}" if constants else ""
            raise CompileError(f"minimize(loss: {loss.type}): the loss does not depend on {named}{stops}")
        return found

    def _sums(self, pairs: Pairs, cadence: Cadence) -> list[tuple[Value, Value]]:
        """Return each parameter with the slot that sums its gradients over the steps of one update."""
        if cadence.waits is None:
            return []
        return [(self._slot(w, Slot("gradient")), dw) for w, dw in pairs]

    def _append_update(self, optimizer: Optimizer, w: Value, dw: Value, rate: Value, cadence: Cadence) -> None:
        state = self.states.descs[w.name]
        slots = [self._slot(w, slot) for slot in optimizer.slots(w.type.wide)]
        current = self.updates.get(w.name, w)
        wide = widened(current)
        scaled = rate_for(self.block, rate, wide, state.rate_scale)
        new_w, *new = optimizer.apply(wide, dw, slots, scaled, cadence.done, decay_scale=state.decay_scale)
        rounded = new_w if new_w.dtype == w.dtype else ops.cast(new_w, dtype=w.dtype)
        for old, before, value in zip([w, *slots], [current, *slots], [rounded, *new], strict=True):
            self.update(old, value if cadence.waits is None else ops.where(cadence.waits, before, value))

    def _slot(self, w: Value, slot: Slot) -> Value:
        initial = constant(0.0 if slot.initial is None else slot.initial)
        name = self.free_state(f"{w.name}.{slot.name}")
        desc = self.states.add(name, slot.type(w.type.wide), pb.STATE_KIND_SLOT, initial)
        desc.slot_of, desc.slot = w.name, slot.name
        if slot.initial is None:
            self.states.begin_like(desc, w.name)
        return self.block.state(name)


def _require_sane(loss: Value, optimizers: Sequence[Optimizer], clip: Clip | None, accumulate: int) -> None:
    if loss.rank != 0:
        raise CompileError(
            f"minimize(loss: {loss.type}): the loss must be a scalar; take ops.mean(loss) or ops.sum(loss)"
        )
    for own in optimizers:
        if not isinstance(own, Optimizer):  # pyright: ignore[reportUnnecessaryIsInstance]: users may not check types
            raise CompileError(f"minimize: {wrong_optimizer(own, _names())}")
    require_clip(clip)
    require_whole("minimize", least=None, accumulate=accumulate)
    if accumulate < 1:
        raise CompileError(f"minimize: accumulate={accumulate}; it starts at 1")


def _names() -> list[str]:
    from compiler.train import optimizers, trust_ratios  # for few

    return [*optimizers.__all__, *trust_ratios.__all__]
