"""A block that runs, as numbers: dependencies, reads, writes and scratch of each op, and the memory of an order.

A value is a tensor with all its views. States, constants and spilled values take no bytes of the arena; an output that
may be written over an operand takes none either, if that operand dies with the op (`runtime.step.in_place`). A value
written over a state lies in the state's memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from math import inf

from prograd_proto.blocks import BlockAnalysis, question
from runtime.placement import aligned
from runtime.step import (
    chosen,
    effects_of,
    leaves_no_copy,
    made_outside,
    ordered_by_effects,
    possible_pairs,
    runs_once,
    scratch_of,
    views_of,
)
from runtime.target import TARGET


@dataclass(frozen=True)
class StepGraph:
    """Ops and values of a block by number, ops in the order of the block."""

    nbytes: list[int]  # bytes of each value in the arena
    readers: list[list[int]]  # readers of each value, in order
    lasts: list[bool]  # whether the end of the step reads the value
    reads: list[list[int]]  # values that each op reads, each once
    writes: list[list[int]]  # values that each op writes, none for a view
    over: list[list[tuple[int, int]]]  # (written, read) in place
    scratch: list[int]  # bytes of scratch of each op
    before: list[list[int]]  # predecessors of each op, each once
    fed: list[int]  # values that exist at the start
    value_of: dict[str, int]  # by tensor
    becomes: dict[int, int] = field(default_factory=dict[int, int])  # new value of each updated state
    once: set[int] = field(default_factory=set[int])  # ops with effects or blocks, which are not repeated

    @cached_property
    def after(self) -> list[list[int]]:
        """The ops that wait for each op, in order."""
        after: list[list[int]] = [[] for _ in self.before]
        for i, before in enumerate(self.before):
            for j in before:
                after[j].append(i)
        return after

    def floor(self) -> int:
        """Return the most bytes that one op alone reads, writes and takes as scratch: a bound for every order."""
        in_a_state = set(self.becomes)
        for over in self.over:
            in_a_state.update(written for written, read in over if read in in_a_state)
        nbytes = [0 if value in in_a_state else size for value, size in enumerate(self.nbytes)]
        return max(
            (
                sum([nbytes[value] for value in reads])
                + sum([nbytes[value] for value in writes])
                + scratch
                - sum([nbytes[written] for written, _ in over])
                for reads, writes, scratch, over in zip(self.reads, self.writes, self.scratch, self.over, strict=True)
            ),
            default=0,
        )

    def live(self, order: Sequence[int], nbytes: list[int] | None = None) -> Iterator[int]:
        """Yield the bytes that are needed while each op of the order runs, its scratch included.

        Args:
            order: op numbers.
            nbytes: a copy of the bytes of the values, which is updated: 0 for values that were written over.
        """
        nbytes = list(self.nbytes) if nbytes is None else nbytes
        missing = [len(ops) + last for ops, last in zip(self.readers, self.lasts, strict=True)]
        state_of = {state: state for state in self.becomes}  # the state whose memory a value lies in
        now = sum(nbytes[value] for value in self.fed)
        for i in order:
            fresh = dead = 0
            for value in self.writes[i]:
                fresh += nbytes[value]
            for value in self.reads[i]:
                missing[value] -= 1
                if not missing[value]:
                    dead += nbytes[value]
            for written, read in self._taken(i, missing, state_of) if self.over[i] else ():
                fresh -= nbytes[written]
                dead -= nbytes[read]
                nbytes[written], nbytes[read] = nbytes[read], 0
            now += fresh
            yield now + self.scratch[i]
            now -= dead
            for value in self.writes[i]:
                if not missing[value]:
                    now -= nbytes[value]

    def _taken(self, i: int, missing: Sequence[int], state_of: dict[int, int]) -> list[tuple[int, int]]:
        """Return the pairs of an op that are in place, given the number of missing reads of each value.

        Values written over a state's memory are added to `state_of`.
        """
        free = [pair for pair in self.over[i] if not missing[pair[1]]]
        if not free or (len(free) == 1 and free[0][1] not in state_of):  # the usual case: no choice, and no state
            return free

        def may(written: int, read: int) -> bool:
            return read not in state_of or leaves_no_copy(self.becomes[state_of[read]] == written, self.lasts[written])

        taken = chosen(free, state_of.__contains__, may)
        for written, read in taken:
            if read in state_of:
                state_of[written] = state_of[read]
        return taken

    def working_set(self, order: Sequence[int], at: int) -> int:
        """Return the bytes that the op at a position of the order itself reads, writes and takes as scratch."""
        nbytes = list(self.nbytes)
        for _ in islice(self.live(order, nbytes), at + 1):
            pass
        i = order[at]
        return sum(nbytes[value] for value in (*self.reads[i], *self.writes[i])) + self.scratch[i]

    def peak(self, order: Sequence[int], limit: float = inf) -> int:
        """Return the most bytes that are needed at once, a lower bound for every placement of this order.

        If the live bytes reach `limit`, stop there and return them.
        """
        most = 0
        for need in self.live(order):
            if need > most:
                most = need
                if most >= limit:
                    break
        return most


@question(of_blocks=True)
def step_graph(block: BlockAnalysis) -> StepGraph:
    """Return the graph of a block with static types.

    An op that runs blocks is one op; their memory is its scratch.
    """
    outside = {*block.state_of, *block.arguments, *made_outside(block)}
    graph = _values(block, outside)
    value_of = graph.value_of
    becomes = {state: value_of[tensor] for state, tensor in block.updates.items()}
    new_values = {value_of[name]: becomes[state] for name, state in block.state_of.items() if state in becomes}
    graph.becomes.update(new_values)
    for i, pairs in enumerate(possible_pairs(block, TARGET)):
        if pairs:
            outputs, inputs = block.outputs[i], block.inputs[i]
            graph.over[i] = [(value_of[outputs[output]], value_of[inputs[position]]) for output, position in pairs]
    for name in block.ends:
        graph.lasts[value_of[name]] = True
    _order_views(block, graph)
    _order_updates(graph)
    _order_effects(block, graph)
    graph.before[:] = [sorted(set(before)) if len(before) > 1 else before for before in graph.before]
    return graph


def _values(block: BlockAnalysis, outside: Collection[str]) -> StepGraph:
    """Return the graph with its values, without in-place pairs."""
    views = set(views_of(block))
    roots = [*block.parameter_names]
    value_of = {name: value for value, name in enumerate(roots)}
    fed = list(range(len(roots)))
    writer = [-1] * len(roots)
    reads: list[list[int]] = []
    writes: list[list[int]] = []
    for i, (inputs, outputs) in enumerate(zip(block.inputs, block.outputs, strict=True)):
        reads.append(list(dict.fromkeys([value_of[name] for name in inputs if name])))
        if i in views:
            value_of[outputs[0]] = reads[i][0]
            writes.append([])
            continue
        writes.append(list(range(len(roots), len(roots) + len(outputs))))
        value_of.update(zip(outputs, writes[i], strict=True))
        roots += outputs
        writer += [i] * len(outputs)
    readers: list[list[int]] = [[] for _ in roots]
    for i, values in enumerate(reads):
        for value in values:
            readers[value].append(i)
    graph = StepGraph(
        nbytes=[0 if name in outside else aligned(block.types[name].nbytes) for name in roots],
        readers=readers,
        lasts=[False] * len(roots),
        reads=reads,
        writes=writes,
        over=[[] for _ in reads],
        scratch=[sum([aligned(type.nbytes) for _, type in row]) for row in scratch_of(block, TARGET)],
        before=[[writer[value] for value in values if writer[value] >= 0] for values in reads],
        fed=fed,
        value_of=value_of,
    )
    return graph


def _order_views(block: BlockAnalysis, graph: StepGraph) -> None:
    """Let the readers of a view wait for it: the value itself is written by another op."""
    maker = {block.outputs[i][0]: i for i, writes in enumerate(graph.writes) if not writes}
    for before, inputs in zip(graph.before, block.inputs, strict=True) if maker else ():
        before.extend(maker[name] for name in inputs if name in maker)


def _order_updates(graph: StepGraph) -> None:
    """Let ops that may write a new value over a state wait for its earlier readers."""
    maker = {value: i for i, writes in enumerate(graph.writes) for value in writes}
    for state, new in graph.becomes.items():
        for i, old in _written_over(graph, maker, state, new):
            graph.before[i].extend(j for j in graph.readers[old] if j < i)


def _order_effects(block: BlockAnalysis, graph: StepGraph) -> None:
    """Let ops with effects on the same resource wait for each other."""
    graph.once.update(i for i, inside in enumerate(block.blocks) if inside)
    effects = {type: effects_of(type) for type in set(block.op_types)}
    if not any(effects.values()):
        return
    graph.once.update(i for i, type in enumerate(block.op_types) if runs_once(type))
    for i, earlier in ordered_by_effects([effects[type] for type in block.op_types]).items():
        graph.before[i].extend(earlier)


def _written_over(graph: StepGraph, maker: Mapping[int, int], state: int, new: int) -> Iterator[tuple[int, int]]:
    """Return ops and the values that each may write over, on a path from a state to its new value."""
    next_on_the_way: dict[int, tuple[int, int]] = {}
    waiting = [new]
    while waiting and state not in next_on_the_way:
        value = waiting.pop()
        for written, read in graph.over[maker[value]] if value in maker else ():
            if written == value and read not in next_on_the_way and not graph.lasts[read]:
                next_on_the_way[read] = maker[value], value
                waiting.append(read)
    value = state
    while value in next_on_the_way:
        i, written = next_on_the_way[value]
        yield i, value
        value = written
