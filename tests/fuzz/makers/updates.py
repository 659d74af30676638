"""Calls of the operators that optimizers append; optimizers themselves are in the programs that train."""

from __future__ import annotations

from fuzz.drawing import Draw, Ref
from fuzz.makers.table import each

Slots = dict[str, tuple[tuple[str, ...], bool, bool, tuple[str, ...]]]

UPDATES: Slots = {
    # the kinds of the slots, whether there is a rate, whether there is a step, the flags
    "sgd": ((), True, False, ()),
    "momentum": (("normal",), True, False, ("nesterov",)),
    "adam": (("normal", "positive"), True, True, ()),
    "adamw": (("normal", "positive"), True, True, ()),
    "amsgrad": (("normal", "positive", "positive"), True, True, ("decoupled",)),
    "adamax": (("normal", "positive"), True, True, ()),
    "nadam": (("normal", "positive", "scalar"), True, True, ("decoupled",)),
    "radam": (("normal", "positive"), True, True, ("decoupled",)),
    "adam_scale": (("normal", "positive"), False, True, ()),
    "adagrad": (("positive",), True, True, ()),
    "adadelta": (("positive", "positive"), True, False, ()),
    "lion": (("normal",), True, False, ()),
    "rms_scale": (("positive",), False, False, ()),
    "centred_rms_scale": (("above", "inside"), False, False, ()),
}


def update(d: Draw, name: str) -> None:
    kinds, has_rate, has_step, flags = UPDATES[name]
    w = d.any()
    dw = w if d.chance(0.15) else d.tensor(w.shape, w.dtype)
    slots: list[Ref] = []
    for kind in kinds:
        slots.append(d.tensor((), w.dtype, "positive") if kind == "scalar" else d.tensor(w.shape, w.dtype, kind))
    rate = [d.tensor((), w.dtype, "positive")] if has_rate else []
    step = [d.below((), 9, ("int64",))] if has_step else []
    how = {flag: d.chance(0.5) for flag in flags}
    d.call(name, w, dw, *slots, *rate, *step, decay=d.choice([0.0, 0.1]), **how)


each(" ".join(UPDATES), lambda name: lambda d: update(d, name))
