"""A random program as plain data: a list of steps, each of which is one line of builder code.

The code is what runs: `line` prints a step, and building executes what is printed. `code` adds what makes it a script.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

OF_PROGRAM = (
    "input",
    "parameter",
    "buffer",
    "constant",
    "update",
    "minimize",
    "outputs",
    "fetch",
    "metrics",
    "average",
)
LITERAL = {"einsum", "fetch"}
"""Functions whose first operand is text."""


@dataclass(frozen=True)
class Step:
    """One line.

    Attributes:
        call: an operator or spelled function, a method of Program, or "gradients".
        operands: names of tensors, None, or numbers; of gradients the targets, the inputs and the seeds.
        attributes: by name; the keyword operands of recurrent networks are in `named`.
        outputs: the names of the results, "" for one that is None or not wanted.
        listed: whether the call gives a list.
        named: tensors that are given by name.
    """

    call: str
    operands: tuple[Any, ...] = ()
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    listed: bool = False
    named: dict[str, str] = field(default_factory=dict)

    def reads(self) -> Iterator[str]:
        """The names of the tensors that it needs."""
        for operand in (*self.operands[self.call in LITERAL :], *self.named.values()):
            for name in operand if isinstance(operand, tuple) else (operand,):
                if isinstance(name, str):
                    yield name

    def renamed(self, old: str, new: str) -> Step:
        """The step with another tensor in place of one that it reads."""

        def other(x: Any) -> Any:
            if isinstance(x, tuple):
                return tuple(other(part) for part in x)
            return new if x == old and isinstance(x, str) else x

        start = self.call in LITERAL
        operands = (*self.operands[:start], *(other(x) for x in self.operands[start:]))
        return replace(self, operands=operands, named={k: other(v) for k, v in self.named.items()})


@dataclass
class Recipe:
    """A program: its steps, and the arrays to feed."""

    seed: int = 0
    steps: list[Step] = field(default_factory=list)
    feeds: dict[str, np.ndarray] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    """The extent of each symbol."""

    def to_json(self) -> str:
        steps = [{k: _plain(v) for k, v in vars(step).items() if v or k == "call"} for step in self.steps]
        feeds = {
            name: [array.dtype.name, list(array.shape), array.reshape(-1).tolist()]
            for name, array in self.feeds.items()
        }
        return json.dumps({"seed": self.seed, "sizes": self.sizes, "feeds": feeds, "steps": steps}, indent=1)

    @staticmethod
    def from_json(text: str) -> Recipe:
        data = json.loads(text)
        steps = [Step(**{key: _tuples(value) for key, value in step.items()}) for step in data["steps"]]
        feeds = {name: np.array(flat, dtype).reshape(shape) for name, (dtype, shape, flat) in data["feeds"].items()}
        return Recipe(data["seed"], steps, feeds, data["sizes"])


def line(step: Step) -> str:
    """The step as code."""
    keywords = [f"{name}={_literal(value)}" for name, value in step.attributes.items()]
    keywords += [f"{name}={tensor}" for name, tensor in step.named.items()]
    operands = [_literal(x) if step.call in LITERAL and i == 0 else _operand(x) for i, x in enumerate(step.operands)]
    match step.call:
        case "input" | "parameter" | "buffer":
            call = f"program.{step.call}({', '.join([repr(step.outputs[0]), *keywords])})"
        case "gradients":
            targets, inputs, seeds = (", ".join(map(str, part)) for part in step.operands)
            call = f"gradients([{targets}], [{inputs}], [{seeds}])"
        case "minimize":
            loss, *parameters = step.operands
            trained = ", ".join(parameters)
            call = f"program.minimize({', '.join([loss, *keywords])}, parameters=[{trained}])"
        case _ if step.call in OF_PROGRAM:
            call = f"program.{step.call}({', '.join([*operands, *keywords])})"
        case _:
            tensors = any(isinstance(x, str) for x in step.operands)
            call = f"ops.{step.call}{'' if tensors else '.on(program)'}({', '.join([*operands, *keywords])})"
    names = [name or "_" for name in step.outputs]
    if step.call == "minimize":
        names = [f"(_, {name})" for name in names]
    if not any(step.outputs):
        return call
    return f"[{', '.join(names)}] = {call}" if step.listed else f"{', '.join(names)} = {call}"


def code(recipe: Recipe) -> str:
    """The program as a script that builds and compiles it, and has what to feed."""
    feeds = [
        f'    "{name}": np.array({array.tolist()!r}, "{array.dtype}").reshape({array.shape}),'
        for name, array in recipe.feeds.items()
    ]
    sizes = ", ".join(f"{symbol}={size}" for symbol, size in recipe.sizes.items())
    return "\n".join(
        [
            "import numpy as np",
            "from numpy import inf, nan",
            "",
            "from compiler import *",
            "",
            f'program = Program("fuzz", seed={recipe.seed})',
            *map(line, recipe.steps),
            "feeds = {",
            *feeds,
            "}",
            f"compiled = program.compile({sizes})",
        ]
    )


def _operand(x: Any) -> str:
    return x if isinstance(x, str) else _literal(x)


def _literal(x: Any) -> str:
    return str(x) if isinstance(x, Code) else repr(x)


class Code(str):
    """An attribute that is an expression: an optimizer, an initialiser, a metric."""


def _plain(x: Any) -> Any:
    if isinstance(x, Code):
        return {"code": str(x)}
    if isinstance(x, tuple):
        return [_plain(part) for part in x]
    return {key: _plain(value) for key, value in x.items()} if isinstance(x, dict) else x


def _tuples(x: Any) -> Any:
    """Restore a step's parts from JSON."""
    if isinstance(x, list):
        return tuple(map(_tuples, x))
    if isinstance(x, dict):
        if x.keys() == {"code"}:
            return Code(x["code"])
        return {key: _tuples(value) for key, value in x.items()}
    return x
