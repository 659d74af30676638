"""Recurrent layers and their gradients."""

from __future__ import annotations

from typing import Final

from prograd_proto import TensorType
from runtime.codegen.costs import multiply_add_cycles
from runtime.codegen.ir import DTYPES
from runtime.codegen.kernels.op_types import OpTypes
from runtime.codegen.kernels.recurrent.backward import Backward, BackwardOptions
from runtime.codegen.kernels.recurrent.forward import Forward, ForwardOptions
from runtime.codegen.kernels.recurrent.layer import Layer
from runtime.codegen.kernels.steps import KernelSteps
from runtime.codegen.machine import NOMINAL_L2_BYTES, NOMINAL_LANES, Target
from runtime.codegen.rules.rule import RULES, CustomKernel

GATES = {"rnn_layer": 1, "gru_layer": 3, "lstm_layer": 4}
"""Number of vectors of preactivations for each vector of states."""

MIN_ROW_BYTES_READ: Final = 512
"""Least number of bytes of a row of weights that are read at once, if weights are read in place.

Rows of weights lie far apart, so reading fewer bytes of each is slower than copying them first. A batch with more rows
leaves fewer registers for weights, and so fewer bytes.
"""

MAX_CACHE_SHARE_OF_WEIGHTS: Final = 0.8
"""Share of the nominal second-level cache; larger weights are not read in place in each time step, but copied."""

MAX_COMPILED_TIMES: Final = 1 << 16
"""Time steps of a layer up to which it is compiled; NumPy computes longer layers.

Each time step is a kernel step of its own: lowering takes about 80 µs and 3 KB for each.
"""

DTYPES_TAKEN = frozenset({"float32", "float64", "bfloat16", "bool"})
"""The dtypes of operands; a mask is bool, and weights are bfloat16 if the product is one of bfloat16."""


def layer_of(
    target: Target, gates: int, states: TensorType, reverse: bool, features: int = 0, of_pairs: bool = False
) -> Layer:
    """Return the sizes of a layer whose results are states of this type."""
    rows, times, size = states.static_shape
    element = DTYPES[states.dtype]
    lanes = target.lanes(element.bits)
    cycles = multiply_add_cycles(target, lanes, 1)
    nominal_lanes = NOMINAL_LANES if of_pairs else target.nominal.lanes(element.bits)
    layer = Layer(
        element, rows, times, size, gates, reverse, lanes, nominal_lanes, cycles, 0, features, of_pairs, target.threads
    )
    layer = layer._replace(is_widened=of_pairs and target.widens_pairs, is_chained=of_pairs and target.chains_pairs)
    chains = target.registers // 2
    is_near = size * layer.wide * layer.item <= NOMINAL_L2_BYTES * MAX_CACHE_SHARE_OF_WEIGHTS
    reads_much = chains // rows * lanes * layer.item >= MIN_ROW_BYTES_READ
    in_place = reads_much and is_near and size % lanes == 0 and not features and not of_pairs
    return layer._replace(chains=chains) if in_place else layer


def forwards(gates: int, how: ForwardOptions | None = None, features: int = 0) -> CustomKernel:
    """Return the lowering rule of this variant of a layer."""

    def plan(target: Target, op: OpTypes) -> KernelSteps:
        states = TensorType(_dtype(op), op.outputs[0].static_shape)
        layer = layer_of(target, gates, states, op.attributes["reverse"], features, _is_of_pairs(op))
        return Forward(layer, how).steps()

    variant, rounds = f"{how} {features}" if how else "", how is None or not how.last
    joined = _joined(how, features)
    return CustomKernel(plan, DTYPES_TAKEN, _has_code, variant=variant, rounds_results=rounds, joined=joined)


def backwards(gates: int, how: BackwardOptions | None = None) -> CustomKernel:
    """Return the lowering rule of this variant of a layer's gradient."""

    def plan(target: Target, op: OpTypes) -> KernelSteps:
        rows, times, wide = op.outputs[0].static_shape
        states = TensorType(_dtype(op), (rows, times, wide // gates))
        layer = layer_of(target, gates, states, op.attributes["reverse"], of_pairs=_is_of_pairs(op))
        return Backward(layer, how).steps()

    rounds = gates == 1 or (how is not None and how.kept)  # otherwise gates wait where their gradients will be
    variant = f"{how}" if how else ""
    joined = _joined(how)
    return CustomKernel(plan, DTYPES_TAKEN, _has_code, variant=variant, rounds_results=rounds, joined=joined)


def _has_code(op: OpTypes) -> bool:
    """Return True if the layer is compiled; its first result has an element of each time step along its axis 1."""
    return op.outputs[0].static_shape[1] <= MAX_COMPILED_TIMES


def _dtype(op: OpTypes) -> str:
    """Return the dtype in which a layer computes; its results may be rounded."""
    return "float32" if _is_of_pairs(op) else op.outputs[0].dtype


def _is_of_pairs(op: OpTypes) -> bool:
    """Return True if the weights of a layer are bfloat16."""
    return op.operand(1).dtype == "bfloat16"


def _joined(how: ForwardOptions | BackwardOptions | None, features: int = 0) -> tuple[str, ...]:
    """Return descriptions of ops that the kernel of a layer, or of its gradient, computes in addition or leaves out."""
    if how is None:
        return ()
    if isinstance(how, ForwardOptions):
        joined = {
            "the input projection": features > 0,
            "gates kept for the gradient": how.keeps,
            "the last time step only": how.last,
        }
    else:
        joined = {
            "kept gates": how.kept,
            "sums of the bias gradient": bool(how.sums),
            "the gradient of the last time step only": how.last,
        }
    return tuple(what for what, is_so in joined.items() if is_so)


for _name, _gates in GATES.items():
    RULES[_name] = forwards(_gates)
    RULES[f"{_name}_gradient"] = backwards(_gates)
