"""Groups that end with a reduction: pointwise nodes, and what they make joined along some axes.

Where the last axis is joined, a vector holds as many partial results as it has lanes, and a tree joins them. Where it
is kept, every lane has a result of its own. Both orders follow from shapes and the width of a vector.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Final

from runtime.engines.native.emission.body import Body
from runtime.engines.native.emission.nest import Nest, Steps, nest, row_major, unravelled
from runtime.engines.native.emission.task import Task
from runtime.engines.native.forms import Reduction, Stage, Stages, Work
from runtime.engines.native.ir import DTYPES, FLOAT64, INT64, Index, Type, Value
from runtime.engines.native.ir.words import across, convert, first, where
from runtime.engines.native.lowering.nodes import Node
from runtime.engines.native.target import Target

NANOSECONDS: Final = 0.15
"""For an element of a node: a guess."""


def reduction_stages(target: Target, task: Task) -> Stages:
    """One stage: a unit is a result, or a vector of results that lie beside each other."""
    node = task.group.nodes[-1]
    loops, result = _loops(task, node), node.outputs[0]
    kept = [axis for axis in range(len(loops.extents)) if loops.steps[result][axis]]
    in_vectors = bool(kept) and kept[-1] == len(loops.extents) - 1
    around = [loops.extents[axis] for axis in (kept[:-1] if in_vectors else kept)]
    lanes = lanes_of(target, task)
    vectors = -(-loops.extents[-1] // lanes) if in_vectors else 1

    def write(work: Work, start: Value, stop: Value) -> None:
        reductions = _Reductions(work, task)
        for unit in work.f.range(start, stop):
            reductions.unit(unravelled(work.f, unit, [*around, vectors] if in_vectors else around), in_vectors)

    cost = prod(task.group.domain) * (2 + len(task.group.nodes)) * NANOSECONDS
    return Stages((Stage(write, prod(around) * vectors, cost),))


def lanes_of(target: Target, task: Task) -> int:
    """Of the vectors that are joined: as many as of the widest elements fill a register."""
    names = {name for node in task.group.nodes for name in (*node.inputs, *node.outputs) if name} | set(task.stored)
    return target.lanes(max(DTYPES[task.types[name].dtype].bits for name in names))


class _Reductions:
    def __init__(self, work: Work, task: Task) -> None:
        f = self.f = work.f
        self.node = task.group.nodes[-1]
        form = self.node.form
        assert isinstance(form, Reduction), "only written for groups that end with one"
        self.form = form
        self.operand, self.result = self.node.inputs[0], self.node.outputs[0]
        stored = [name for name in task.stored if name != self.result]
        self.body = Body(f, task.group.nodes[:-1], task.types, stored, work.places, task.constants)
        self.loops = _loops(task, self.node)
        axes = range(len(self.loops.extents))
        self.joined = [axis for axis in axes if not self.loops.steps[self.result][axis]]
        self.kept = [axis for axis in axes if axis not in self.joined]
        dtype = task.types[self.operand].dtype
        self.type = _accumulator(DTYPES[dtype], self.form)
        self.element = DTYPES[task.types[self.result].dtype]
        self.lanes = lanes_of(f.target, task)
        self.count = prod(task.group.domain) // prod(task.types[self.result].static_shape)

    def unit(self, at: list[Index], in_vectors: bool) -> None:
        """One result, or one vector of them."""
        if not in_vectors:
            self._row(at)
            return
        *outer, vector = at
        extent = self.loops.extents[-1]
        whole = extent // self.lanes
        if whole * self.lanes == extent:
            self._column(outer, vector * self.lanes, self.lanes, self.lanes)
        elif not whole:
            self._column(outer, 0, 0 if extent == 1 else self.lanes, extent)
        else:
            is_whole = self.f.index(vector) < whole
            with self.f.when(is_whole):
                self._column(outer, vector * self.lanes, self.lanes, self.lanes)
            with self.f.when(~is_whole):
                self._column(outer, whole * self.lanes, self.lanes, extent - whole * self.lanes)

    def _row(self, kept: list[Index]) -> None:
        """One result, joined along the last axis too."""
        at: dict[int, Index] = dict(zip(self.kept, kept, strict=True))
        *outer, last = self.joined
        lanes = self.lanes if self.loops.extents[last] > 1 else 0
        start = self.f.constant(self.type.of(lanes), self.form.neutral)

        def line(at: Mapping[int, Index], total: Value) -> Value:
            return self._along(at, last, lanes, total)

        total = self._turns(outer, at, start, line)
        self._finish(across(total, self.form.join) if lanes else total, at, 1)

    def _along(self, at: Mapping[int, Index], axis: int, lanes: int, total: Value) -> Value:
        extent = self.loops.extents[axis]
        if not lanes:
            return self.form.join(total, self._element({**at, axis: 0}, 0, 1))
        whole = extent // lanes * lanes
        loop = self.f.loop(0, whole, lanes, [total])
        for i, [so_far] in loop:
            loop.carry([self.form.join(so_far, self._element({**at, axis: i}, lanes, lanes))])
        [total] = loop.results
        if whole < extent:
            total = self.form.join(total, self._element({**at, axis: whole}, lanes, extent - whole))
        return total

    def _column(self, kept: list[Index], i: Index, lanes: int, count: int) -> None:
        """As many results as there are lanes, next to each other."""
        at: dict[int, Index] = dict(zip(self.kept, [*kept, i], strict=True))
        start = self.f.constant(self.type.of(lanes), self.form.neutral)

        def element(at: Mapping[int, Index], total: Value) -> Value:
            return self.form.join(total, self._element(at, lanes, count))

        self._finish(self._turns(self.joined, at, start, element), at, count)

    def _turns(
        self,
        axes: Sequence[int],
        at: Mapping[int, Index],
        total: Value,
        inside: Callable[[Mapping[int, Index], Value], Value],
    ) -> Value:
        """What `inside` makes of the total, for every place along these axes."""
        if not axes:
            return inside(at, total)
        loop = self.f.loop(0, self.loops.extents[axes[0]], 1, [total])
        for i, [so_far] in loop:
            loop.carry([self._turns(axes[1:], {**at, axes[0]: i}, so_far, inside)])
        return loop.results[0]

    def _element(self, at: Mapping[int, Index], lanes: int, count: int) -> Value:
        """The operand at a place, as it is joined; lanes that do not count are neutral."""
        index = [at[axis] for axis in range(len(self.loops.extents))]
        values = self.body.at(self.loops.steps, index, lanes, count)
        if self.operand in values:
            x = values[self.operand]
        else:
            x = self.body.load(self.operand, self.loops.steps[self.operand], index, lanes, count)
            x = self.f.splat(x, lanes) if lanes and not x.type.lanes else x
        x = convert(x, self.type)
        return where(first(x, count), x, self.form.neutral) if lanes and count < lanes else x

    def _finish(self, total: Value, at: Mapping[int, Index], count: int) -> None:
        index = [at.get(axis, 0) for axis in range(len(self.loops.extents))]
        result = convert(self.form.finish(total, self.count), self.element)
        self.body.store(result, self.result, self.loops.steps[self.result], index, count)


def _loops(task: Task, node: Node) -> Nest:
    domain, result = task.group.domain, node.outputs[0]
    steps = {name: row_major(task.types[name].static_shape, domain) for name in task.table if name != result}
    axes = node.attributes["axes"] or tuple(range(len(domain)))
    steps[result] = _kept_steps(domain, axes)  # pyright: ignore[reportArgumentType]: the contract says that they are axes
    loops = nest(domain, steps)
    return loops if loops.extents else Nest((1,), dict.fromkeys(steps, (0,)))


def _kept_steps(domain: Sequence[int], axes: Sequence[int]) -> Steps:
    steps, size = [0] * len(domain), 1
    for axis in reversed(range(len(domain))):
        if axis not in axes and axis - len(domain) not in axes:
            steps[axis], size = size, size * domain[axis]
    return tuple(steps)


def _accumulator(element: Type, form: Reduction) -> Type:
    if not element.is_float:
        return INT64
    return FLOAT64 if form.is_wide else element
