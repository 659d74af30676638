"""Recurrent layers and their gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from prograd_proto import TensorType
from runtime.engines.native.forms.form import FORMS, Loops, Plan
from runtime.engines.native.forms.stages import Stages
from runtime.engines.native.ir import DTYPES
from runtime.engines.native.recurrent.backwards import Backwards
from runtime.engines.native.recurrent.forwards import Forwards
from runtime.engines.native.recurrent.layer import Layer
from runtime.engines.native.target import Target

GATES = {"rnn_layer": 1, "gru_layer": 3, "lstm_layer": 4}
"""Vectors of preactivations for one of states."""

DTYPES_TAKEN = frozenset({"float32", "float64", "bool"})
"""A mask is bool."""


def _plan(gates: int, loops: type[Forwards | Backwards]) -> Plan:
    def plan(
        target: Target,
        inputs: Sequence[TensorType | None],
        outputs: Sequence[TensorType],
        attributes: Mapping[str, Any],
    ) -> Stages:
        x = inputs[0]
        assert x is not None, "only a mask is optional"
        rows, times, wide = x.static_shape
        element = DTYPES[x.dtype]
        lanes = target.lanes(element.bits)
        rate = lanes * 2 * 2.5 * 0.8 * (1 if target.fma else 0.5)
        return loops(Layer(element, rows, times, wide // gates, gates, attributes["reverse"], lanes, rate)).stages()

    return plan


for _name, _gates in GATES.items():
    FORMS[_name] = Loops(_plan(_gates, Forwards), DTYPES_TAKEN)
    FORMS[f"{_name}_gradient"] = Loops(_plan(_gates, Backwards), DTYPES_TAKEN)
