"""Optimizer updates of a parameter w by its gradient dw, once per step."""

from __future__ import annotations

from math import inf

from prograd_proto.errors import require
from prograd_proto.result_types.rule import RULES, Rule
from prograd_proto.result_types.shapes import require_float
from prograd_proto.tensor_types import TensorType

SHARES = ("beta1", "beta2", "alpha", "rho")
"""Settings that are shares of a running mean."""


def update(name: str, operands: str, results: str, settings: str, flags: str = "") -> None:
    """Enter the rule of an optimizer's update.

    All tensors are of one float type, except for the scalars `rate`, `step` and `product`. Each result has the type of
    the operand that is named in its place. Settings are numbers, flags are bool.
    """
    inputs, replaced = tuple(operands.split()), results.split()

    def types(*given: TensorType, **attributes: float) -> tuple[TensorType, ...]:
        w = given[0]
        require_float(w)
        scalars = {"rate": w.dtype, "step": "int64", "product": "float64"}
        named = dict(zip(inputs, given, strict=True))
        for operand, type in named.items():
            if operand in scalars:
                scalar = TensorType(scalars[operand], ())
                require(type == scalar, f"the {operand} is {type}, not {scalar}")
            else:
                require(type == w, f"{operand} is {type}, not {w} as w is")
        for setting, value in attributes.items():
            require(setting not in SHARES or 0 <= value < 1, f"{setting} is {value}, which is not in [0, 1)")
            require(0 <= value < inf, f"{setting} is {value}, which is not a number from 0 on")
        return tuple(named[operand] for operand in replaced)

    RULES[name] = Rule(types, inputs, dict.fromkeys(settings.split(), "float") | dict.fromkeys(flags.split(), "bool"))


update("sgd", "w dw rate", "w", "decay")
update("momentum", "w dw velocity rate", "w velocity", "momentum decay", "nesterov")
update("adagrad", "w dw total rate step", "w total", "rate_decay epsilon decay")
update("adadelta", "w dw v change rate", "w v change", "rho epsilon decay")
update("lion", "w dw m rate", "w m", "beta1 beta2 decay")
update("rms_scale", "w dw v", "w v", "alpha epsilon decay")
update("centred_rms_scale", "w dw v mean", "w v mean", "alpha epsilon decay")
update("adam", "w dw m v rate step", "w m v", "beta1 beta2 epsilon decay")
update("adamw", "w dw m v rate step", "w m v", "beta1 beta2 epsilon decay")
update("amsgrad", "w dw m v largest rate step", "w m v largest", "beta1 beta2 epsilon decay", "decoupled")
update("adamax", "w dw m largest rate step", "w m largest", "beta1 beta2 epsilon decay")
update("nadam", "w dw m v product rate step", "w m v product", "beta1 beta2 epsilon momentum_decay decay", "decoupled")
update("radam", "w dw m v rate step", "w m v", "beta1 beta2 epsilon decay", "decoupled")
update("adam_scale", "w dw m v step", "w m v", "beta1 beta2 epsilon decay")
