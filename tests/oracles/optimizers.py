"""Optimizers in NumPy, a parameter at a time, as PyTorch's documentation and the papers have them.

A rule takes t from 1, the parameter, its gradient, the parameter's memory, which it changes, and the rate.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any

import numpy as np

Memory = dict[str, Any]
Rule = Callable[[int, np.ndarray, np.ndarray, Memory, float], np.ndarray]


def moments(t: int, g: np.ndarray, own: Memory, b1: float, b2: float) -> tuple[np.ndarray, np.ndarray]:
    own["m"] = b1 * own.get("m", 0) + (1 - b1) * g
    own["v"] = b2 * own.get("v", 0) + (1 - b2) * g * g
    return own["m"] / (1 - b1**t), own["v"] / (1 - b2**t)


def nesterov(t, w, g, own, rate):
    g = g + 0.1 * w
    own["b"] = 0.9 * own.get("b", 0) + g
    return w - rate * (g + 0.9 * own["b"])


def adam(t, w, g, own, rate):
    m, v = moments(t, g + 0.1 * w, own, 0.9, 0.999)
    return w - rate * m / (np.sqrt(v) + 1e-8)


def adamw(t, w, g, own, rate):
    m, v = moments(t, g, own, 0.8, 0.99)
    return w - rate * 0.1 * w - rate * m / (np.sqrt(v) + 1e-8)


def amsgrad(coupled: float, decoupled: float) -> Rule:
    def rule(t, w, g, own, rate):
        m, _ = moments(t, g + coupled * w, own, 0.9, 0.9)
        own["top"] = np.maximum(own.get("top", 0), own["v"])
        return w - rate * decoupled * w - rate * m / (np.sqrt(own["top"] / (1 - 0.9**t)) + 1e-8)

    return rule


def adamax(t, w, g, own, rate):
    g = g + 0.1 * w
    own["m"] = 0.9 * own.get("m", 0) + 0.1 * g
    own["u"] = np.maximum(0.999 * own.get("u", 0), np.abs(g) + 1e-8)
    return w - rate / (1 - 0.9**t) * own["m"] / own["u"]


def nadam(coupled: float, decoupled: float) -> Rule:
    def mu(t):
        return 0.9 * (1 - 0.5 * 0.96 ** (t * 0.004))

    def rule(t, w, g, own, rate):
        g = g + coupled * w
        _, v = moments(t, g, own, 0.9, 0.999)
        own["p"] = own.get("p", 1.0) * mu(t)
        mean = mu(t + 1) * own["m"] / (1 - own["p"] * mu(t + 1)) + (1 - mu(t)) * g / (1 - own["p"])
        return w * (1 - rate * decoupled) - rate * mean / (np.sqrt(v) + 1e-8)

    return rule


def radam(coupled: float, decoupled: float) -> Rule:
    def rule(t, w, g, own, rate):
        m, _ = moments(t, g + coupled * w, own, 0.9, 0.999)
        w = w * (1 - rate * decoupled)
        end = 2 / (1 - 0.999) - 1
        now = end - 2 * t * 0.999**t / (1 - 0.999**t)
        if now <= 5:
            return w - rate * m
        r = sqrt((now - 4) * (now - 2) * end / ((end - 4) * (end - 2) * now))
        return w - rate * m * r * sqrt(1 - 0.999**t) / (np.sqrt(own["v"]) + 1e-8)

    return rule


def adagrad(t, w, g, own, rate):
    g = g + 0.1 * w
    own["s"] = own.get("s", 0.2) + g * g
    return w - rate / (1 + (t - 1) * 0.05) * g / (np.sqrt(own["s"]) + 1e-10)


def adadelta(t, w, g, own, rate):
    g = g + 0.1 * w
    own["v"] = 0.9 * own.get("v", 0) + 0.1 * g * g
    step = np.sqrt(own.get("u", 0) + 1e-6) / np.sqrt(own["v"] + 1e-6) * g
    own["u"] = 0.9 * own.get("u", 0) + 0.1 * step * step
    return w - rate * step


def rmsprop(momentum: float, centred: bool) -> Rule:
    def rule(t, w, g, own, rate):
        g = g + 0.1 * w
        own["v"] = 0.99 * own.get("v", 0) + 0.01 * g * g
        own["a"] = 0.99 * own.get("a", 0) + 0.01 * g
        step = g / (np.sqrt(own["v"] - (own["a"] ** 2 if centred else 0)) + 1e-8)
        own["b"] = momentum * own.get("b", 0) + step
        return w - rate * own["b"]

    return rule


def lion(t, w, g, own, rate):
    m = own.get("m", np.zeros_like(w))
    own["m"] = 0.99 * m + 0.01 * g
    return w - rate * (np.sign(0.9 * m + 0.1 * g) + 0.1 * w)


def lamb(t, w, g, own, rate):
    m, v = moments(t, g, own, 0.9, 0.999)
    step = m / (np.sqrt(v) + 1e-6) + 0.1 * w
    return w - rate * np.linalg.norm(w) / np.linalg.norm(step) * step


def lars(t, w, g, own, rate):
    own_rate = rate * 0.02 * np.linalg.norm(w) / (np.linalg.norm(g) + 0.1 * np.linalg.norm(w))
    own["b"] = 0.9 * own.get("b", 0) + own_rate * (g + 0.1 * w)
    return w - own["b"]


def adafactor(t, w, g, own, rate):
    share = t**-0.8
    size = max(1e-3, np.sqrt(np.mean(w * w))) * min(rate, 1 / sqrt(t))
    w = w * (1 - rate * 0.1)
    if w.ndim > 1:
        own["r"] = (1 - share) * own.get("r", 0) + share * np.mean(g * g, -1)
        own["c"] = (1 - share) * own.get("c", 0) + share * np.mean(g * g, -2)
        v = np.outer(own["r"], own["c"]) / np.mean(own["r"])
    else:
        v = own["v"] = (1 - share) * own.get("v", 0) + share * g * g
    step = g / np.sqrt(v)
    return w - size / max(1.0, np.sqrt(np.mean(step * step))) * step
