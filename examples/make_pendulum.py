"""Writes pendulum.safetensors: measurements of a damped pendulum, integrated in steps of a millisecond.

python examples/make_pendulum.py

The acceleration is -9.81 * sin(angle) - 0.3 * speed, in radians and seconds. A row has 21 measurements of angle and
speed, 0.1 seconds apart, with noise of deviation 0.02. The rows `test` have no noise.
"""

from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

ROWS, HELD_OUT, TIMES, STEPS = 256, 32, 21, 100

random = np.random.default_rng(1)
y = np.stack([random.uniform(-2.0, 2.0, ROWS), random.uniform(-3.0, 3.0, ROWS)])
rows = np.empty((ROWS, TIMES, 2))
for i in range(TIMES):
    rows[:, i] = y.T
    for _ in range(STEPS):
        middle = y + 0.0005 * np.stack([y[1], -9.81 * np.sin(y[0]) - 0.3 * y[1]])
        y = y + 0.001 * np.stack([middle[1], -9.81 * np.sin(middle[0]) - 0.3 * middle[1]])
rows[HELD_OUT:] += random.normal(0.0, 0.02, rows[HELD_OUT:].shape)
save_file(
    {
        "path": rows.astype(np.float32),
        "test": np.arange(HELD_OUT),
        "train": np.arange(HELD_OUT, ROWS),
    },
    Path(__file__).with_name("pendulum.safetensors"),
)
