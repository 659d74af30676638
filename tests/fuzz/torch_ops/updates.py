"""What optimizers do to a tensor, by their papers' formulas as PyTorch has them."""

from __future__ import annotations

import torch

from fuzz.torch_ops.table import spelled


@spelled("sgd")
def sgd(w, dw, rate, *, decay=0.0):
    return w - rate * (dw + decay * w)


@spelled("momentum")
def momentum(w, dw, velocity, rate, *, momentum=0.9, nesterov=False, decay=0.0):
    dw = dw + decay * w
    velocity = momentum * velocity + dw
    return w - rate * (dw + momentum * velocity if nesterov else velocity), velocity


@spelled("lion")
def lion(w, dw, m, rate, *, beta1=0.9, beta2=0.99, decay=0.0):
    step = torch.sign(beta1 * m + (1 - beta1) * dw)
    return w - rate * (step + decay * w), beta2 * m + (1 - beta2) * dw


@spelled("adadelta")
def adadelta(w, dw, v, change, rate, *, rho=0.9, epsilon=1e-6, decay=0.0):
    dw = dw + decay * w
    v = rho * v + (1 - rho) * dw * dw
    step = torch.sqrt(change + epsilon) / torch.sqrt(v + epsilon) * dw
    return w - rate * step, v, rho * change + (1 - rho) * step * step
