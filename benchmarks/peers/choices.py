"""Times every variant of each convolution of the networks that are compared, beside the one that prices choose.

    python benchmarks/peers/choices.py           all of them, in float32
    python benchmarks/peers/choices.py bfloat16  with operands of bfloat16

One thread, on the best instruction set of this machine. A line is a convolution, or a gradient of one: the chosen
variant, the fastest one, and how many times longer the chosen one takes. The last line has the sum of all.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import costs
import in_prograd
from costs import HERE, Step, floats, forced
from subjects import SUBJECTS

from prograd_proto import TensorType, attributes_of, type_of
from registry import OPS, Value
from runtime.codegen.ir import FLOAT32
from runtime.codegen.kernels.conv import bfloat16, variants
from runtime.codegen.kernels.conv.filter_plan import FilterGradient
from runtime.codegen.machine import NOMINAL_TARGET
from runtime.codegen.rules import conv as rules

NETWORKS = ("lenet, adam, 32", "mobilenet, sgd, 32", "resnet18, sgd, 32")

OPERATORS = ("conv2d", "conv2d_input_gradient", "conv2d_filter_gradient")

LOSS = 1.05
"""How many times longer than the fastest variant a choice may take."""

CHOICES = {
    (False, "float32"): rules.convolution_variant,
    (True, "float32"): rules.filter_gradient_variant,
    (False, "bfloat16"): rules.bfloat16_variant,
    (True, "bfloat16"): rules.bfloat16_filter_variant,
}
"""The functions that choose, by whether the gradient of a filter is asked for, and by the dtype of operands."""

Case = tuple[str, tuple[TensorType, ...], dict[str, Any]]


def main(dtype: str = "float32") -> None:
    print(f"{HERE.name}, {dtype}, one thread")
    print(f"{'operator':24}{'operands':40}{'chosen':>26}{'fastest':>26}{'us':>9}{'times':>7}")
    sums = [0.0, 0.0]
    for name, types, attributes in cases():
        ways = ways_of(name, types, attributes, dtype)
        times = {each: microseconds(name, types, attributes, dtype, way) for each, way in ways.items()}
        chosen = next(iter(times))
        fastest = min(times, key=lambda way: times[way])
        lost = times[chosen] / times[fastest]
        sums[0] += times[chosen]
        sums[1] += times[fastest]
        shapes = " ".join("x".join(map(str, type.shape)) for type in types)
        mark = " slower" if lost > LOSS else ""
        print(f"{name:24}{shapes:40}{chosen:>26}{fastest:>26}{times[chosen]:9.1f}{lost:7.2f}{mark}", flush=True)
    print(f"all: {sums[0] / sums[1]:.3f} of the time of the fastest variants")


def cases() -> Iterator[Case]:
    """Yield each convolution of the networks once, with the types of its operands."""
    seen: set[str] = set()
    for network in NETWORKS:
        subject = SUBJECTS[network]
        desc = in_prograd.program(subject).compile(batch=subject.batch).desc
        [entry] = [each for each in desc.entries if each.name == "train"]
        block = desc.blocks[entry.bindings[0].block]
        types = {tensor.name: type_of(tensor) for tensor in block.tensors}
        for op in block.ops:
            if op.type in OPERATORS:
                found = op.type, tuple(types[each] for each in op.inputs[:2]), attributes_of(op)
                if str(found) not in seen:
                    seen.add(str(found))
                    yield found


def ways_of(name: str, types: tuple[TensorType, ...], attributes: dict[str, Any], dtype: str) -> dict[str, Any]:
    """Return the variants by name, the chosen one first."""
    choose, asked = CHOICES[name == OPERATORS[2], dtype], list[Any]()
    with forced(rules, choose.__name__, lambda *shape: asked.append(shape) or choose(*shape)):
        step_of(name, types, attributes, dtype)
    shape = asked[0][-1]
    if dtype == "bfloat16":
        made = variants_of_bfloat16(shape)
    elif name == OPERATORS[2]:
        nominal = HERE.nominal, shape.on(HERE.nominal)
        made = [kind(HERE, shape) for kind in variants.FILTER_GRADIENTS if kind.applies(*nominal)]
    else:
        kinds = (kind for kind in variants.CONVOLUTIONS if kind.applies(HERE.nominal, FLOAT32, shape))
        made = [kind(HERE, FLOAT32, shape) for kind in kinds]
    chosen = choose(*asked[0])
    return {name_of(each): each for each in (chosen, *made)}


def variants_of_bfloat16(shape: Any) -> list[Any]:
    """Return the variants for operands of bfloat16."""
    if not isinstance(shape, FilterGradient):
        return [way(HERE) for way in bfloat16.ways(shape)]
    shape = replace(shape, of_bfloat16=True)
    return [way(HERE, shape) for way in bfloat16.filter_ways(shape.on(NOMINAL_TARGET))]


def name_of(variant: Any) -> str:
    of_pairs = getattr(getattr(variant, "shape", None), "of_pairs", False)
    name = type(variant).__name__
    return f"{name}OfPairs" if of_pairs and not name.endswith("OfPairs") else name


def step_of(name: str, types: tuple[TensorType, ...], attributes: dict[str, Any], dtype: str) -> Step:
    def write(*operands: Value) -> Value:
        rounded = [OPS["cast"](each, dtype=dtype) for each in operands] if dtype == "bfloat16" else operands
        return OPS[name](*rounded, **OPS[name].signature.spelled(attributes))

    return Step(write, *(floats(*type.static_shape) for type in types))


def microseconds(name: str, types: tuple[TensorType, ...], attributes: dict[str, Any], dtype: str, way: Any) -> float:
    """Return the time of a variant; with bfloat16 that of its casts is left out."""
    with forced(rules, CHOICES[name == OPERATORS[2], dtype].__name__, lambda *_: way):
        cycles = step_of(name, types, attributes, dtype).cycles()
    if dtype == "bfloat16":
        cycles -= cycles_of_casts(tuple(type.static_shape for type in types))
    return cycles * costs.cycle_nanoseconds() / 1e3


@cache
def cycles_of_casts(shapes: tuple[tuple[int, ...], ...]) -> float:
    def write(*operands: Value) -> list[Value]:
        return [OPS["cast"](each, dtype="bfloat16") for each in operands]

    return Step(write, *(floats(*shape) for shape in shapes)).cycles()


if __name__ == "__main__":
    main(*sys.argv[1:])
