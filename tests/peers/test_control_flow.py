"""Conditions and loops of random programs beside PyTorch and `jax.lax`: values, gradients and second gradients."""

from __future__ import annotations

import pytest
from fuzz.control_flow.judge import judged


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("judge", ["torch", "jax"])
def test_random_programs_have_their_values_and_gradients(judge: str, seed: int):
    pytest.importorskip(judge)
    if judge == "jax" and seed % 4:
        pytest.skip("JAX compiles each program for seconds")
    assert list(judged(seed, [judge])) == []
