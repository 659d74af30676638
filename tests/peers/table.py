"""The whole table: what is compared with PyTorch, and what has a derivative and is not compared, with the reason."""

from __future__ import annotations

from peers import algebra, arrays, elementwise, indexing, kinks, losses, networks, reductions
from peers.spelling import PEERS as PEERS

FILES = (algebra, arrays, indexing, elementwise, losses, networks, reductions, kinks)

ANOTHER_GENERATOR = "it draws random numbers, PyTorch draws others"

NOT_COMPARED = {
    "dropout": ANOTHER_GENERATOR,
    "alpha_dropout": ANOTHER_GENERATOR,
    "feature_dropout": ANOTHER_GENERATOR,
    "mixup": ANOTHER_GENERATOR,
    "random_colour": ANOTHER_GENERATOR,
    "random_crop": ANOTHER_GENERATOR,
    "random_cutout": ANOTHER_GENERATOR,
    "random_flip": ANOTHER_GENERATOR,
    "random_noise": ANOTHER_GENERATOR,
    "deform_conv2d": "torchvision has it, which these tests do not need",
    "non_max_suppression": "torchvision has it, which these tests do not need",
    "nonzero": "the number of its rows is data in PyTorch",
    "unique": "the number of its rows is data in PyTorch",
    "linear_scan": "PyTorch has no such function",
    "reload": "PyTorch has no such function",
    "rotary_embedding": "PyTorch has no such function",
    "sinusoidal_positions": "PyTorch has no such function",
    "spill": "PyTorch has no such function",
    "when_training": "PyTorch has no such function; models there ask self.training",
}
"""Operators with a gradient, and spelled functions, that no line of the table compares."""

UPDATES = (
    *("sgd", "momentum", "adam", "adamw", "amsgrad", "adamax", "nadam", "radam"),
    *("adagrad", "adadelta", "rms_scale", "centred_rms_scale"),
)
"""Operators without a gradient that training runs compare: see trajectories.py."""
