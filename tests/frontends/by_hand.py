"""Training steps of an imported module beside PyTorch's loop."""

from typing import Any

import numpy as np

STEPS = 5


def require_same_steps(
    run: Any, module: Any, loss: Any, theirs: Any, x: Any, target: Any, *, rtol_of_loss: float, rtol: float, atol: float
) -> None:
    """Train a run and its module on the same rows; losses of all steps and states after the last have to agree.

    Args:
        run: of the program that the module with this loss and optimizer was imported to.
        module: its parameters are changed.
        loss: from results and target.
        theirs: PyTorch's optimizer of the parameters.
        x: the input named `input`.
        target: the input named `target`.
        rtol_of_loss: relative tolerance of losses.
        rtol: relative tolerance of states.
        atol: absolute tolerance of states.
    """
    for _ in range(STEPS):
        found = run.step({"input": x.numpy(), "target": target.numpy()})["loss"]
        theirs.zero_grad()
        wanted = loss(module(x), target)
        wanted.backward()
        theirs.step()
        np.testing.assert_allclose(found, wanted.item(), rtol=rtol_of_loss)
    for name, parameter in module.named_parameters():
        there = parameter.detach().numpy()
        np.testing.assert_allclose(run.state[name], there.T if there.ndim > 1 else there, rtol=rtol, atol=atol)
