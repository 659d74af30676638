"""Executes the lines of a recipe, and knows what each tensor of the program holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import compiler
from compiler import Program, Value
from fuzz.recipe import Recipe, Step, line
from fuzz.tape import Tape
from prograd_proto import program_pb2 as pb
from runtime.runs.states import States

WORDS: dict[str, Any] = {name: getattr(compiler, name) for name in dir(compiler) if not name.startswith("_")}
WORDS |= {"inf": np.inf, "nan": np.nan}

CUT = {"stop_gradient": slice(None), "batch_norm": slice(1, 3)}
"""Operators and their outputs that are constants to a derivative, by what their pages say, though they do vary."""


@dataclass(frozen=True)
class Derivative:
    """Result of `gradients` or `minimize`: names of tensors of the block, None for a gradient of zeros.

    Attributes:
        step: its place in the recipe.
        targets: what is differentiated.
        seeds: what their gradients start with, None for ones.
        inputs: by what.
        results: the gradients.
        before: how many ops the block had before.
    """

    step: int
    targets: list[str]
    seeds: list[str | None]
    inputs: list[str]
    results: list[str | None]
    before: int


class Building:
    """A program that grows step by step."""

    def __init__(self, seed: int = 0, sizes: Mapping[str, int] | None = None) -> None:
        self.recipe = Recipe(seed, sizes=dict(sizes or {}))
        self.program = Program("fuzz", seed=seed)
        self.names: dict[str, Any] = dict(WORDS) | {"program": self.program}
        self.tape = Tape(self.recipe.sizes)
        self.derivatives: list[Derivative] = []
        self.stopped: set[str] = set()

    @staticmethod
    def of(recipe: Recipe) -> Building:
        """The recipe, built anew; raises what a line raises."""
        made = Building(recipe.seed, recipe.sizes)
        for step in recipe.steps:
            made.add(step, recipe.feeds.get(step.outputs[0]) if step.call == "input" else None)
        return made

    def add(self, step: Step, feed: np.ndarray | None = None) -> None:
        """Execute a step, compute the ops that it has appended; nothing of a step that raises stays in the recipe."""
        before = len(self.program.block.desc.ops)
        if step.call == "input":
            assert feed is not None
            self.recipe.feeds[step.outputs[0]] = feed
        named = replace(step, outputs=tuple(name or f"_{i}" for i, name in enumerate(step.outputs)))
        exec(compile(line(named if step.listed else step), "fuzz", "exec"), self.names)
        self.recipe.steps.append(step)
        self._give()
        self.tape.extend(list(self.program.block.desc.ops[len(self.tape) :]))
        for op in self.program.block.desc.ops[before:]:
            self.stopped.update(op.outputs[CUT[op.type]] if op.type in CUT else ())
        if step.call in ("gradients", "minimize"):
            self._note(named, before)

    def value(self, name: str) -> Value:
        return self.names[name]

    def array(self, name: str) -> np.ndarray:
        """Return the Value of the tensor with that name in the recipe."""
        return self.tape.arrays[self.names[name].name]

    def _give(self) -> None:
        """Tell the tape what feeds and states hold."""
        for parameter in self.program.block.desc.parameters[:]:
            if parameter.tensor in self.tape.arrays:
                continue
            if parameter.WhichOneof("source") == "feed":
                self.tape.give(parameter.tensor, self.recipe.feeds[parameter.feed])
            else:
                wanted = {parameter.state, "seed"}
                states = States(
                    pb.ProgramDesc(
                        seed=self.program.seed, states=[s for s in self.program.states.values() if s.name in wanted]
                    ),
                    Path(),
                )
                states.initialise()
                self.tape.give(parameter.tensor, states.arrays[parameter.state])

    def _note(self, step: Step, before: int) -> None:
        if step.call == "gradients":
            targets, inputs, seeds = step.operands
        else:
            targets, inputs, seeds = step.operands[:1], step.operands[1:], (None,)
        tensors = [[self._tensor(name) for name in part] for part in (targets, seeds, inputs, step.outputs)]
        goals, starts, leaves, results = tensors
        at = len(self.recipe.steps) - 1
        self.derivatives.append(Derivative(at, goals, starts, leaves, results, before))  # type: ignore[arg-type]

    def _tensor(self, name: str | None) -> str | None:
        """The block's name of a tensor of the recipe; None for one that is not there."""
        value = self.names[name] if name else None
        return None if value is None else value.name
