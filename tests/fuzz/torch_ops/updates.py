"""Updates of optimizers, by their papers' formulas as PyTorch has them."""

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


def decayed(w, dw, decay, decoupled):
    return dw if decoupled else dw + decay * w


def moments(dw, m, v, beta1, beta2):
    return beta1 * m + (1 - beta1) * dw, beta2 * v + (1 - beta2) * dw * dw


def counted(beta, step):
    """Return the divisor of a mean over step + 1 steps; `step` counts the earlier ones."""
    return 1 - beta ** (step.to(torch.float64) + 1)


def near(x, like):
    return x.to(like.dtype)


@spelled("adam")
def adam(w, dw, m, v, rate, step, *, beta1=0.9, beta2=0.999, epsilon=1e-8, decay=0.0):
    m, v = moments(decayed(w, dw, decay, False), m, v, beta1, beta2)
    ratio = near(m / counted(beta1, step), w) / (torch.sqrt(near(v / counted(beta2, step), w)) + epsilon)
    return w - rate * ratio, m, v


@spelled("adamw")
def adamw(w, dw, m, v, rate, step, *, beta1=0.9, beta2=0.999, epsilon=1e-8, decay=0.01):
    m, v = moments(dw, m, v, beta1, beta2)
    ratio = near(m / counted(beta1, step), w) / (torch.sqrt(near(v / counted(beta2, step), w)) + epsilon)
    return w - rate * decay * w - rate * ratio, m, v


@spelled("adagrad")
def adagrad(w, dw, total, rate, step, *, rate_decay=0.0, epsilon=1e-10, decay=0.0):
    dw = decayed(w, dw, decay, False)
    total = total + dw * dw
    return w - rate / (1 + step.to(w.dtype) * rate_decay) * dw / (torch.sqrt(total) + epsilon), total


@spelled("rms_scale")
def rms_scale(w, dw, v, *, alpha=0.99, epsilon=1e-8, decay=0.0):
    dw = decayed(w, dw, decay, False)
    v = alpha * v + (1 - alpha) * dw * dw
    return dw / (torch.sqrt(v) + epsilon), v


@spelled("centred_rms_scale")
def centred_rms_scale(w, dw, v, mean, *, alpha=0.99, epsilon=1e-8, decay=0.0):
    dw = decayed(w, dw, decay, False)
    v = alpha * v + (1 - alpha) * dw * dw
    mean = alpha * mean + (1 - alpha) * dw
    return dw / (torch.sqrt(v - mean * mean) + epsilon), v, mean
