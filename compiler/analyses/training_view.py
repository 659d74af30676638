"""The training view of a block: chains by (tensor, is_forward), of runs by (op, is_forward).

1. `(x, True)` is the value of x, `(x, False)` its gradient, the tensor that says so of itself.
2. `(op, True)` is the forward run of the op with that id; `(op, False)` its backward run: all ops that help to
   differentiate it. Any other op of the backward pass, for instance an update, is a backward run of its own.
3. What a backward run makes and only itself reads is no matter of the view. A sum of contributions to a gradient is
   none either: the runs that gave the contributions define the gradient.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from compiler.analyses.lifespans import pass_of
from prograd_proto import program_pb2 as pb

Run = tuple[int, bool]
Key = tuple[str, bool]


@dataclass(frozen=True)
class TrainingChain:
    """The runs that define and that use a value or a gradient."""

    definitions: set[Run] = field(default_factory=set[Run])
    uses: set[Run] = field(default_factory=set[Run])


def training_view(block: pb.BlockDesc) -> dict[Key, TrainingChain]:
    """The chains of a well-formed block: of every value of the forward pass, and of every gradient that there is."""
    gradient_of = {tensor.name: tensor.gradient_of for tensor in block.tensors if tensor.gradient_of}
    view = {(parameter.tensor, True): TrainingChain() for parameter in block.parameters}
    makers: dict[str, set[Run]] = {}
    for op in block.ops:
        run = _run(op)
        is_sum = not run[1] and not op.gradient_of and op.type == "add"
        parts = [makers.get(name, set[Run]()) for name in op.inputs] if is_sum else [{run}]
        runs = set[Run]().union(*parts)
        for name in op.inputs:
            key = (name, True) if (name, True) in view else (gradient_of.get(name, ""), False)
            if key in view and not is_sum and (key[1] or run not in makers[name]):
                view[key].uses.add(run)
        for name in op.outputs:
            makers[name] = runs
            if run[1]:
                view[name, True] = TrainingChain({run})
            elif name in gradient_of:
                view.setdefault((gradient_of[name], False), TrainingChain()).definitions.update(runs)
    return view


def _run(op: pb.OpDesc) -> Run:
    is_forward = pass_of(op) == pb.LIFESPAN_FORWARD
    return (op.id, True) if is_forward else (op.gradient_of or op.id, False)
