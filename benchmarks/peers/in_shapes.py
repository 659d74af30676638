"""Layers that compute nothing: they follow shapes, and make the weights that all others begin with."""

import numpy as np


class Shape(tuple):
    """Shape of a row; a sum has the shape of its operands."""

    __slots__ = ()

    def __add__(self, other):
        return self


class Layers:
    """Weights by name, of what is called on them."""

    def __init__(self):
        self.values, self.rng = {}, np.random.default_rng(0)

    def normal(self, name, shape, deviation):
        self.values[name] = (self.rng.standard_normal(shape) * deviation).astype("f4")

    def constant(self, name, width, value=0.0):
        self.values[name] = np.full(width, value, "f4")

    def dense(self, x, name, width):
        self.normal(f"{name}.w", (x[-1], width), (2 / x[-1]) ** 0.5)
        self.constant(f"{name}.b", width)
        return Shape((*x[:-1], width))

    def dense_of_image(self, x, name, width):
        return self.dense((int(np.prod(x)),), name, width)

    def conv(self, x, name, channels, size=3, stride=1, padding=None, bias=False):
        self.normal(f"{name}.w", (size, size, x[2], channels), (2 / (size * size * x[2])) ** 0.5)
        if bias:
            self.constant(f"{name}.b", channels)
        edge = size // 2 if padding is None else padding
        return Shape((*((side + 2 * edge - size) // stride + 1 for side in x[:2]), channels))

    def depthwise(self, x, name, stride):
        self.normal(f"{name}.w", (3, 3, 1, x[2]), (2 / 9) ** 0.5)
        return Shape(((x[0] - 1) // stride + 1, (x[1] - 1) // stride + 1, x[2]))

    def batch_norm(self, x, name):
        for what, value in (("scale", 1.0), ("bias", 0.0), ("mean", 0.0), ("variance", 1.0)):
            self.constant(f"{name}.{what}", x[-1], value)
        return x

    def layer_norm(self, x, name):
        self.constant(f"{name}.scale", x[-1], 1.0)
        self.constant(f"{name}.bias", x[-1])
        return x

    def relu(self, x):
        return x

    relu6 = gelu = relu

    def average_pool(self, x):
        return Shape((x[0] // 2, x[1] // 2, x[2]))

    def mean_of_places(self, x):
        return Shape(x[2:])

    def lstm(self, x, name, width, gates=4):
        self.normal(f"{name}.input", (x[-1], gates * width), x[-1] ** -0.5)
        self.normal(f"{name}.state", (width, gates * width), width**-0.5)
        self.constant(f"{name}.b1", gates * width)
        self.constant(f"{name}.b2", gates * width)
        return Shape((width,))

    def gru(self, x, name, width):
        return self.lstm(x, name, width, gates=3)

    def embedding(self, x, name, count, width):
        self.normal(name, (count, width), 1.0)
        return Shape((*x, width))

    def scores(self, x, name):
        self.normal(name, self.values[name].shape, 0.02)
        return Shape((*x[:-1], self.values[name].shape[0]))

    def add_position(self, x, name):
        self.normal(name, x, 0.1)
        return x

    def attention(self, x, name, heads):
        for part, width in (("qkv", 3 * x[-1]), ("out", x[-1])):
            self.normal(f"{name}.{part}.w", (x[-1], width), x[-1] ** -0.5)
            self.constant(f"{name}.{part}.b", width)
        return x
