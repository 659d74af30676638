"""Training runs of 200 steps end where PyTorch's end, and lose the same on the way."""

import pytest

from peers.trajectories import TRAININGS, Training, run


@pytest.mark.parametrize("training", TRAININGS.values(), ids=list(TRAININGS))
def test_a_training_run_is_that_of_pytorch(training: Training):
    found = run(training)
    assert found.last < found.first
    assert found.loss <= training.limit
    assert found.parameters <= training.limit
