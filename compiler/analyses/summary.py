"""A program on one screen: its layers with their states, its entries with their ops and memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from math import prod

from compiler.aligned_text import columns
from compiler.analyses.layer_outputs import layer_outputs
from compiler.analyses.op_scopes import state_scope
from compiler.build.setting_numbers import known_settings
from prograd_proto import program_pb2 as pb
from prograd_proto import type_of
from prograd_proto.blocks.walk import inside
from prograd_proto.printable import sentence
from prograd_proto.states import trains

SCREEN = 40
"""Upper bound on the lines of a table; further layers are counted."""


def summary(program: pb.ProgramDesc, arenas: Mapping[str, Mapping[str, int]] | None = None) -> str:
    """Return tables of layers and of entries.

    A layer is the states whose names are equal up to the last dot, with states that belong to one of them, such as
    averages. Optimizer slots, and totals of epochs such as those of metrics, are counted in the last line. Memory is in
    bytes: `arenas` has the arena of each entry by the name of the engine; without it, the summary shows the arena of
        the plan for an entry's first sizes.
    """
    lines = [sentence(f"{program.name}: {_inputs(program)}"), *_settings(program), ""]
    lines += [*_layers(program), "", *_entries(program, arenas)]
    return "\n".join(lines)


def _inputs(program: pb.ProgramDesc) -> str:
    fed: dict[str, str] = {}
    for entry in program.entries:
        block = program.blocks[entry.source_block]
        types = {tensor.name: type_of(tensor) for tensor in block.tensors}
        fed |= {p.feed: str(types[p.tensor]) for p in block.parameters if p.WhichOneof("source") == "feed"}
    return ", ".join(f"{name} {type}" for name, type in fed.items()) or "no inputs"


def _settings(program: pb.ProgramDesc) -> Iterator[str]:
    """Return the line of settings, `settings: rate 0.001 (from 0 on)`, if there are any."""
    found = [
        f"{name} {setting.number:g} ({setting.interval})" for name, setting in known_settings(program.states).items()
    ]
    if found:
        yield sentence(f"settings: {', '.join(found)}")


def _layers(program: pb.ProgramDesc) -> Iterator[str]:
    names = {state.name for state in program.states}
    scopes: dict[str, list[pb.StateDesc]] = {}
    for state in program.states:
        if state.kind in (pb.STATE_KIND_PARAMETER, pb.STATE_KIND_BUFFER) and state.lifespan != pb.LIFESPAN_EPOCH:
            scopes.setdefault(state_scope(state.name, names), []).append(state)
    shapes = layer_outputs(program)
    rows = [_layer(scope, states, shapes.get(scope, "-")) for scope, states in scopes.items()]
    head = ("layer", "output", "states", "trained", "frozen", "buffers")
    yield from columns(head, rows[:SCREEN], right=head[3:])
    if len(rows) > SCREEN:
        yield f"and {len(rows) - SCREEN} more layers"
    held = [state for states in scopes.values() for state in states]
    slots = [state for state in program.states if state.kind == pb.STATE_KIND_SLOT]
    totals = [state for state in program.states if state.lifespan == pb.LIFESPAN_EPOCH]
    yield (
        f"in all {_counts(held)[0]} trained, {_counts(held)[1]} frozen, {_counts(held)[2]} in buffers; "
        f"{sum(map(_elements, slots)):,} in {len(slots)} slots of optimizers"
        f"{f', {sum(map(_elements, totals)):,} in {len(totals)} totals of epochs' if totals else ''}"
    )


def _layer(scope: str, states: list[pb.StateDesc], output: str) -> tuple[str, ...]:
    words = {state.name: state.name[len(scope) :].removeprefix(".") for state in states}
    own = [f"{words[s.name]} {list(type_of(s).shape)}" for s in states if "." not in words[s.name]]
    kinds = Counter(word.rpartition(".")[2] for word in words.values() if "." in word)
    more = [f"{kind} of {'one' if n == 1 else n}" for kind, n in kinds.items()]
    return (scope or "-", output, ", ".join([*own, *more]), *_counts(states))


def _counts(states: list[pb.StateDesc]) -> tuple[str, str, str]:
    """Return the numbers of elements of trained parameters, of frozen ones, and of buffers."""
    parameters = [state for state in states if state.kind == pb.STATE_KIND_PARAMETER]
    trained = sum(_elements(state) for state in parameters if state.trainable)
    frozen = sum(_elements(state) for state in parameters if not state.trainable)
    return f"{trained:,}", f"{frozen:,}", f"{sum(_elements(s) for s in states if s not in parameters):,}"


def _elements(state: pb.StateDesc) -> int:
    return prod(type_of(state).static_shape)


def _entries(program: pb.ProgramDesc, arenas: Mapping[str, Mapping[str, int]] | None) -> Iterator[str]:
    rows: list[tuple[str, ...]] = []
    for entry in program.entries:
        binding = entry.bindings[0] if entry.bindings else None
        number = entry.source_block if binding is None else binding.block
        block, ops = program.blocks[number], sum(len(program.blocks[i].ops) for i in inside(program, [number]))
        sizes = "" if binding is None else " ".join(f"{dim.symbol}={dim.size}" for dim in binding.dims)
        if arenas is None:
            planned = binding is not None and binding.HasField("plan")
            memory = [f"{binding.plan.arena_bytes:,}" if binding is not None and planned else "not planned"]
        else:
            memory = [f"{of[entry.name]:,}" if entry.name in of else "not compiled" for of in arenas.values()]
        does = "trains" if trains(program, program.blocks[entry.source_block]) else "computes"
        fetched = ", ".join(fetch.name for fetch in block.fetches)
        rows.append((entry.name, does, sizes or "-", f"{ops:,}", *memory, fetched))
    heads = ["planned arena"] if arenas is None else [f"{engine} arena" for engine in arenas]
    yield from columns(("entry", "does", "sizes", "ops", *heads, "fetches"), rows, right=("ops", *heads))
