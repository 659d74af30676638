"""Gradients of recurrent layers with hidden steps, of ordinary sizes and with NaN: hidden steps hand nothing on."""

import numpy as np
import pytest
from native.building import every_target
from native.made import check

from registry import OPS

GATES = {"rnn": 1, "lstm": 4, "gru": 3}


@pytest.mark.sampled(2)
@every_target
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("kind", GATES)
def test_a_nan_among_weights_does_not_reach_what_hidden_steps_hand_on(target, kind: str, reverse: bool):
    rows, times, states, gates = 32, 6, 64, GATES[kind]
    rng = np.random.default_rng(0)
    x, r = (
        rng.normal(0, 0.1, shape).astype("f4") for shape in ((rows, times, gates * states), (states, gates * states))
    )
    bias, first = np.zeros(gates * states, "f4"), np.zeros((rows, states), "f4")
    seen, dh = (rng.normal(0, 0.1, (rows, times, states)).astype("f4") for _ in range(2))
    mask = rng.random((rows, times)) < 0.5
    mask[:4] = False
    operands = {
        "rnn": [x, r, first, seen, dh, mask],
        "lstm": [x, r, first, first, seen, seen, dh, dh, mask],
        "gru": [x, r, bias, first, seen, dh, mask],
    }[kind]
    for place in (0, 1, len(operands) - 2):
        odd = operands[place].copy()
        odd.reshape(-1)[:: odd.size // 5] = np.nan
        given = [*operands[:place], odd, *operands[place + 1 :]]
        made = check(lambda *x: OPS[f"{kind}_layer_gradient"](*x, reverse=reverse), given, target, near=1e-5)
        if place == 1:
            assert np.isnan(made[0]).any()
            assert not np.isnan(made[0][:4]).any()
