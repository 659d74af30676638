"""Pass: recompute the forward ops of scopes that the caller names in the backward pass, whatever memory there is.

1. A pattern such as "layers.*" is compared with as many first words of tensors' names: the op that computes
   "layers.0.attention.y" is in the scope "layers.0".
2. Each scope is a unit as budgets have them (`units`): the values that the backward pass reads are computed again,
   right before the first reader, from the inputs of the scope, which are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from typing import Final

from compiler.analyses.step_graph import step_graph
from compiler.errors import CompileError
from compiler.passes.plan_memory import plan_of
from compiler.planning.timeline import Timeline, timeline_of
from compiler.planning.units import forward_ops, forward_phase, with_unit
from compiler.planning.write_timeline import write_timeline
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalyses, BlockAnalysis
from prograd_proto.spelling import closest_or_first
from runtime.placement import THOROUGH

SHOWN_SCOPES: Final = 100
"""Upper bound on the scopes among which an error finds similar names."""


def recompute_scopes(program: BlockAnalyses, *, scopes: str = "") -> dict[int, int]:
    """Recompute the scopes that match patterns; return the bytes of the arenas before, by block.

    Args:
        program: its bindings are planned.
        scopes: patterns with commas between them, as in "layers.*"; none for no effect.

    Raises CompileError for a pattern that matches no scope of a step with a backward pass.
    """
    patterns = scopes.split(",") if scopes else []
    before: dict[int, int] = {}
    met: set[str] = set()
    for entry in program.desc.entries:
        for binding in entry.bindings:
            block = program[binding.block]
            units = _units(block, patterns)
            met.update(pattern for pattern, _ in units)
            found = _recomputed(block, [unit for _, unit in units])
            if found is None:
                continue
            before[binding.block] = binding.plan.arena_bytes
            write_timeline(block, found)
            binding.plan.CopyFrom(plan_of(block, THOROUGH))
    for pattern in patterns:
        if pattern not in met:
            names = list(islice(_names(program), SHOWN_SCOPES))
            raise CompileError(
                f"{pattern!r} matches no scope of a step with a backward pass"
                f"{closest_or_first(pattern, names) if names else '; no name of a tensor has a scope'}"
            )
    return before


def _units(block: BlockAnalysis, scopes: Iterable[str]) -> list[tuple[str, list[int]]]:
    """Return the forward ops of each scope of a block that trains, with the pattern that it matches, in order."""
    forward = forward_ops(block) if _has_backward_pass(block) else set[int]()
    units: dict[str, tuple[str, list[int]]] = {}
    for number in sorted(forward):
        words = next((name for name in block.ops[number].outputs if name), "").split(".")
        for pattern in scopes:
            count = pattern.count(".") + 1
            scope = ".".join(words[:count])
            if len(words) > count and fnmatchcase(scope, pattern):
                units.setdefault(scope, (pattern, []))[1].append(number)
                break
    return list(units.values())


def _has_backward_pass(block: BlockAnalysis) -> bool:
    return any(op.stage in (pb.STAGE_GRADIENT, pb.STAGE_DERIVATIVE) for op in block.ops)


def _recomputed(block: BlockAnalysis, units: Sequence[Sequence[int]]) -> Timeline | None:
    """Return the timeline of a block in which units are recomputed; None if none is read by the backward pass."""
    if not units:
        return None
    timeline = timeline_of(step_graph(block))
    forward = {*forward_phase(timeline, forward_ops(block))}
    for unit in units:
        timeline = with_unit(timeline, unit, forward) or timeline
    return timeline if timeline.has_repetitions else None


def _names(program: BlockAnalyses) -> Iterable[str]:
    """Yield the scopes of the forward ops of steps with a backward pass, once each."""
    told: set[str] = set()
    for entry in program.desc.entries:
        for binding in entry.bindings:
            block = program[binding.block]
            for number in sorted(forward_ops(block)) if _has_backward_pass(block) else ():
                words = next((name for name in block.ops[number].outputs if name), "").split(".")
                scopes = {".".join(words[:count]) for count in range(1, len(words))}
                yield from sorted(scopes - told)
                told |= scopes
