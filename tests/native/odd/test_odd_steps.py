"""Updates whose step is negative or very large: both engines compute the same, and neither fails."""

import numpy as np
import pytest
from native.made import Made

from registry import OPS
from runtime.engines.native.cpu import this_machine

SETTINGS = {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "decay": 0.1}
UPDATES = {
    "adam": ("rate", SETTINGS),
    "adamw": ("rate", SETTINGS),
    "adamax": ("rate", SETTINGS),
    "amsgrad": ("slot rate", {**SETTINGS, "decoupled": True}),
    "nadam": ("product rate", {**SETTINGS, "momentum_decay": 0.004, "decoupled": False}),
    "radam": ("rate", {**SETTINGS, "decoupled": False}),
    "adam_scale": ("", SETTINGS),
    "adagrad": ("no mean, rate", {"rate_decay": 0.1, "epsilon": 1e-10, "decay": 0.1}),
}
STEPS = [-1, -2, -10, -11, -100_000, -(2**63), 0, 1000, 2**62, 2**63 - 1]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("beta", [0.9, 0.0])
@pytest.mark.parametrize("name", UPDATES)
def test_a_step_that_no_run_has_is_computed_alike(name: str, beta: float):
    more, settings = UPDATES[name]
    settings = {**settings, "beta1": beta} if "beta1" in settings else settings
    rng = np.random.default_rng(0)
    w, dw, m = rng.normal(0, 1, (3, 32, 64)).astype("f4")
    tensors = [w, dw, *([] if "no mean" in more else [m]), m * m, *([m * m] if "slot" in more else [])]
    alone = [*([np.array(0.7)] if "product" in more else []), *([np.float32(0.1)] if "rate" in more else [])]
    for step in STEPS:
        made = Made(lambda *x: OPS[name](*x, **settings), [*tensors, *alone, np.array(step)])
        for got, wanted in zip(made.native(this_machine()), made.wanted, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=3e-5, atol=1e-6, err_msg=f"{name} at step {step}")
