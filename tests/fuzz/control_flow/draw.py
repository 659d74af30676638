"""Random programs with conditions and loops, from a seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from fuzz.control_flow.tree import Body, Node, Tree, Type

T = TypeVar("T")
UNARY = ("sin", "tanh", "cos", "sigmoid", "neg")
BINARY = ("add", "sub", "mul")
SHAPES = ((), (3,), (2, 3), (3, 3))
INT = Type("int64", ())


def drawn(seed: int) -> Tree:
    """The program of that seed."""
    return _Draw(np.random.default_rng(seed)).tree()


class _Draw:
    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def tree(self) -> Tree:
        rows = int(self.rng.choice([0, 1, 2, 3, 4], p=[0.08, 0.12, 0.3, 0.3, 0.2]))
        types = [Type("float64", (3, 3)), Type("float64", (rows, *self.pick(SHAPES[1:])))]
        types += [Type("float64", self.pick(SHAPES)) for _ in range(self.int(1, 3))]
        types += [Type("float64", (rows, *self.pick(SHAPES[:2]))), INT]
        feeds = [self.rng.normal(size=t.shape) * 0.8 for t in types[:-1]]
        scope = _Scope(self, list(types), depth=0)
        for _ in range(self.int(2, 5)):
            scope.grow(control=0.55)
        if not any(node.bodies for node in scope.nodes):
            scope.control()
        for _ in range(self.int(0, 2)):
            scope.grow(control=0.2)
        body = scope.finished(len(types))
        return Tree((*feeds, np.array(self.int(0, 3), np.int64)), body)

    def int(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def pick(self, options: Sequence[T]) -> T:
        return options[int(self.rng.integers(len(options)))]


class _Scope:
    """A function that grows: the types of its values, and its nodes."""

    def __init__(self, draw: _Draw, types: list[Type], depth: int) -> None:
        self.draw, self.types, self.depth = draw, types, depth
        self.nodes: list[Node] = []
        self.own = len(types)  # values from here on are its own results

    def add(self, node: Node, *types: Type) -> int:
        self.nodes.append(node)
        self.types += types
        return len(self.types) - len(types)

    def floats(self, shape: tuple[int, ...] | None = None) -> list[int]:
        found = [i for i, t in enumerate(self.types) if t.dtype == "float64" and shape in (None, t.shape)]
        return found + 2 * [i for i in found if i >= len(self.types) - 5]  # late ones more often

    def ints(self) -> list[int]:
        return [i for i, t in enumerate(self.types) if t == INT]

    def grow(self, control: float) -> None:
        if self.depth < 2 and self.draw.chance(control):
            self.control()
        else:
            self.simple()

    def simple(self) -> int:
        draw = self.draw
        kind = draw.pick(["unary", "binary", "binary", "total", "product", "number", "row", "as_float", "choose"])
        x = draw.pick(self.floats())
        type = self.types[x]
        if kind == "binary":
            others = self.floats(type.shape) + self.floats(())
            y = draw.pick(others)
            return self.add(Node("binary", (x, y), (), {"name": draw.pick(BINARY)}), type)
        if kind == "total":
            return self.add(
                Node("unary", (self.add(Node("total", (x,)), Type("float64", ())),), (), {"name": "sin"}),
                Type("float64", ()),
            )
        if kind == "product" and len(type.shape) == 2 and type.shape[1] == 3:
            return self.add(Node("product", (x, draw.pick(self.floats((3, 3))))), type)
        if kind == "number":
            names = {"name": draw.pick(BINARY), "value": float(np.round(draw.rng.normal(), 2))}
            return self.add(Node("number", (x,), (), names), type)
        if kind == "row" and type.shape and type.shape[0]:
            return self.add(
                Node("row", (x,), (), {"i": draw.int(0, type.shape[0] - 1)}), Type("float64", type.shape[1:])
            )
        if kind == "as_float":
            made = self.add(Node("as_float", (draw.pick(self.ints()),)), Type("float64", ()))
            return self.add(Node("binary", (x, made), (), {"name": "mul"}), type)
        if kind == "choose":
            y, z = (draw.pick(self.floats(type.shape)) for _ in range(2))
            return self.add(Node("choose", (x, y, z)), type)
        return self.add(Node("unary", (x,), (), {"name": draw.pick(UNARY)}), type)

    def control(self) -> None:
        draw = self.draw
        kind = draw.pick(["cond", "scan", "scan", "loop", "map"])
        if kind == "cond":
            self.cond()
        elif kind == "loop":
            self.loop()
        else:
            self.scan(is_map=kind == "map")

    def cond(self) -> None:
        draw = self.draw
        operands = [draw.pick(self.floats()) for _ in range(draw.int(0, 2))]
        wanted = [self.types[draw.pick(self.floats())] for _ in range(draw.int(1, 2))]
        wanted += [INT] if draw.chance(0.2) else []
        predicate = draw.pick(self.floats(()) or [self.scalar()]) if draw.chance(0.7) else draw.pick(self.ints())
        limit = float(np.round(draw.rng.normal() * 0.5, 3)) if self.types[predicate] != INT else draw.int(0, 2)
        bodies = tuple(self.inner([self.types[i] for i in operands], wanted) for _ in range(2))
        self.add(Node("cond", (predicate, *operands), bodies, {"limit": limit}), *wanted)

    def scan(self, is_map: bool) -> None:
        draw = self.draw
        able = [i for i in self.floats() if self.types[i].shape]
        first = draw.pick(able)
        length = self.types[first].shape[0]
        rows = [first, *(i for i in dict.fromkeys(able) if self.types[i].shape[0] == length and draw.chance(0.25))][:3]
        carried = [] if is_map else [draw.pick(self.floats()) for _ in range(draw.int(1, 2))]
        carried += [draw.pick(self.ints())] if not is_map and draw.chance(0.4) else []
        if not is_map and draw.chance(0.15):
            rows, length = [], draw.int(0, 3)
        carries = [self.types[i] for i in carried]
        given = [Type("float64", self.types[i].shape[1:]) for i in rows]
        stacks = [self.types[draw.pick(self.floats())] for _ in range(draw.int(1 if is_map else 0, 2))]
        stacks = [t if len(t.shape) < 2 else Type("float64", t.shape[1:]) for t in stacks]
        body = self.inner([*carries, *given], [*carries, *stacks])
        attributes = {
            "carries": len(carries),
            "length": length,
            "reverse": draw.chance(0.4),
            "save": draw.pick(["all", "carries"]),
        }
        results = [*carries, *(Type("float64", (length, *t.shape)) for t in stacks)]
        self.add(Node("scan", (*carried, *rows), (body,), attributes), *results)

    def loop(self) -> None:
        draw = self.draw
        carried = [draw.pick(self.floats()) for _ in range(draw.int(1, 2))] + [draw.pick(self.ints())]
        types = [self.types[i] for i in carried]
        condition = self.condition(types)
        body = self.inner(types, types, count_up=True)
        attributes = {"most": draw.int(1, 4), "save": draw.pick(["all", "carries"])}
        self.add(Node("loop", tuple(carried), (condition, body), attributes), *types, INT)

    def condition(self, types: list[Type]) -> Body:
        """A body whose result is the difference of a limit and a number: the loop goes on while it is positive."""
        draw, inner = self.draw, _Scope(self.draw, [*self.types, *types], self.depth + 1)
        start = len(self.types)
        if draw.chance(0.5):
            count = inner.add(Node("as_float", (start + len(types) - 1,)), Type("float64", ()))
            left = inner.add(
                Node("number", (count,), (), {"name": "sub", "value": draw.int(0, 5) + 0.5}), Type("float64", ())
            )
        else:
            size = inner.add(Node("total", (start,)), Type("float64", ()))
            wave = inner.add(Node("unary", (size,), (), {"name": "sin"}), Type("float64", ()))
            left = inner.add(
                Node("number", (wave,), (), {"name": "sub", "value": float(np.round(draw.rng.normal() * 0.6, 3))}),
                Type("float64", ()),
            )
        result = inner.add(Node("unary", (left,), (), {"name": "neg"}), Type("float64", ()))
        return Body(tuple(inner.nodes), (result,))

    def inner(self, given: list[Type], wanted: list[Type], count_up: bool = False) -> Body:
        """A function of values of these types that gives values of those types."""
        inner = _Scope(self.draw, [*self.types, *given], self.depth + 1)
        for _ in range(self.draw.int(1, 3)):
            inner.grow(control=0.35)
        results: list[int] = []
        for k, type in enumerate(wanted):
            if type == INT:
                source = len(self.types) + len(given) - 1 if count_up and k == len(wanted) - 1 else None
                i = self.draw.pick(inner.ints()) if source is None else source
                results.append(inner.add(Node("number", (i,), (), {"name": "add", "value": 1}), INT))
            else:
                results.append(inner.of_shape(type.shape))
        return Body(tuple(inner.nodes), tuple(results))

    def of_shape(self, shape: tuple[int, ...]) -> int:
        """A value of that shape, which depends on a late value if it can."""
        draw = self.draw
        found = self.floats(shape)
        if not found:
            x = draw.pick(self.floats(()) or [self.scalar()])
            return self.add(Node("expand", (x,), (), {"shape": shape}), Type("float64", shape))
        x = draw.pick(found)
        if draw.chance(0.15):
            return x  # an argument, or a value from outside, as it is
        late = draw.pick(self.floats(()) or [self.scalar()]) if draw.chance(0.6) else self.scalar()
        made = self.add(Node("binary", (x, late), (), {"name": draw.pick(BINARY)}), self.types[x])
        return self.add(Node("unary", (made,), (), {"name": draw.pick(UNARY)}), self.types[x])

    def scalar(self) -> int:
        return self.add(Node("total", (self.draw.pick(self.floats()),)), Type("float64", ()))

    def finished(self, feeds: int) -> Body:
        """The sum of what nothing reads, and of some others."""
        read = {i for node in self.nodes for i in node.operands}
        made = [i for i in range(feeds, len(self.types)) if self.types[i].dtype == "float64"]
        ends = [i for i in made if i not in read or self.draw.chance(0.2)]
        loss = self.add(Node("total", (0,)), Type("float64", ()))
        for i in ends:
            part = self.add(Node("total", (i,)), Type("float64", ()))
            wave = self.add(Node("unary", (part,), (), {"name": "sin"}), Type("float64", ()))
            loss = self.add(Node("binary", (loss, wave), (), {"name": "add"}), Type("float64", ()))
        return Body(tuple(self.nodes), (loss, *ends[:4]))
