"""Functions where they have no derivative: at kinks, ties and ends. PyTorch's choice is taken for the first gradient.

The spellings are those of the other files.
"""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from peers import algebra, arrays, elementwise, indexing, losses, networks, reductions
from peers.spelling import PEERS, Call, Inputs, peer

BEFORE = (algebra, arrays, elementwise, indexing, losses, networks, reductions)
"""The modules whose spellings must be registered before those of this one."""

CORNERS = np.array([0.0, -0.0, 1.0, -1.0, 3.0, -3.0, 6.0, -6.0])
ROWS = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0], [2.0, 1.0, 2.0], [-1.0, -1.0, -1.0]])
PAIRS = [np.array(x) for x in np.meshgrid([0.0, 1.0, -1.0, 2.5], [0.0, -0.0, 1.0, -1.0, 3.0])]
SQUARES = np.array([[[[1.0, 1.0, 2.0, 2.0], [1.0, 1.0, 2.0, 2.0], [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]]])
ENDS = np.array([[[[0.0, 0.0], [1.0, 1.0], [-1.0, -1.0], [1.5, 0.3], [-2.0, 2.2], [0.25, -0.75]]]])
ERRORS = np.array([0.0, 1.0, -1.0, 2.0, -2.0, 0.5])
LOGITS = np.array([[-inf, 0.0, 1.0], [0.0, 0.0, 0.0], [1000.0, 0.0, -1000.0]])

ONE = [
    *(f"nn.functional.{name}" for name in ("relu", "relu6", "elu", "celu", "selu", "leaky_relu", "hardtanh")),
    *(f"nn.functional.{name}" for name in ("hardswish", "softsign", "hardsigmoid")),
    "abs",
    "sqrt",
]
TWO = ["maximum", "minimum", "atan2", "pow", "fmod", "remainder"]
ALONG = ["amax", "amin", "prod", "cumprod", "std", "softmax", "logsumexp"]
DIFFERENCE = ["l1_loss", "huber_loss", "smooth_l1_loss"]
ORDERS = (1.0, 2.0, 3.0, 0.5, inf, -inf, -1.0)


def _calls() -> dict[str, list[Call]]:
    other = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    side = np.array([-1.0, 1.0, -1.0, 1.0])
    return {
        **{name: [([CORNERS], {})] for name in ONE},
        **{name: [(list(PAIRS), {})] for name in TWO},
        **{name: [([ROWS], dict(dim=1))] for name in ALONG},
        "sort": [([ROWS], dict(dim=1, stable=True)), ([ROWS], dict(dim=0, stable=True, descending=True))],
        "linalg.vector_norm": [([ROWS], dict(dim=1, ord=order)) for order in ORDERS],
        "clamp": [([CORNERS, np.array(-1.0), np.array(3.0)], {}), ([CORNERS, np.array(1.0), np.array(0.0)], {})],
        "nn.functional.max_pool2d": [([SQUARES, 2], {}), ([SQUARES, 3, 1, 1], {})],
        "nn.functional.grid_sample": [
            ([np.arange(16.0).reshape(1, 1, 4, 4), ENDS], dict(mode=mode, padding_mode=beyond, align_corners=corners))
            for mode in ("bilinear", "nearest", "bicubic")
            for beyond in ("zeros", "border", "reflection")
            for corners in (False, True)
        ],
        **{f"nn.functional.{name}": [([ERRORS, np.zeros(6)], {})] for name in DIFFERENCE},
        "nn.functional.cross_entropy": [
            ([LOGITS, np.array([1, 0, 0])], {}),
        ],
        "nn.functional.binary_cross_entropy_with_logits": [
            ([np.array([0.0, 100.0, -100.0, 800.0, -800.0]), np.array([0.0, 1.0, 1.0, 0.0, 0.5])], {})
        ],
        "nn.functional.margin_ranking_loss": [([np.array([1.0, 2, 3, 0]), np.ones(4), side], dict(margin=1.0))],
        "nn.functional.hinge_embedding_loss": [([np.array([1.0, 0.0, 2.0, -1.0]), side], {})],
        "nn.functional.cosine_embedding_loss": [([other, other[::-1].copy(), side[:2]], {})],
    }


def _fixed(calls: list[Call]) -> Inputs:
    return lambda rng: calls


def _spelled(function: str) -> Any:
    [found] = [known for known in PEERS if known.function == function and not known.variant and known.inputs is None]
    return found


for function, calls in _calls().items():
    known = _spelled(function)
    note = "at kinks, ties and ends, the first gradient" + (f"; {known.note}" if known.note else "")
    peer(function, known.operators[0], inputs=_fixed(calls), tolerance=known.tolerance, orders=1, note=note)(
        known.spelling
    )
