"""The networks in PyTorch: eager with a fused optimizer, channels last, or model and optimizer compiled."""

import torch as t
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from subjects import initial, is_trained, rows

OPTIMIZERS = {
    "sgd": lambda parameters, rate: t.optim.SGD(parameters, rate, fused=True),
    "momentum": lambda parameters, rate: t.optim.SGD(parameters, rate, momentum=0.9, fused=True),
    "adam": lambda parameters, rate: t.optim.Adam(parameters, rate, fused=True),
    "adamw": lambda parameters, rate: t.optim.AdamW(parameters, rate, fused=True),
}


class Layers:
    """Functions of PyTorch. Weights are put into its layout when they are first asked for."""

    def __init__(self, values, channels_last=False):
        self.values, self.channels_last, self.made, self.training = values, channels_last, {}, False

    def weight(self, name, turned=lambda value: value):
        if name not in self.made:
            tensor = t.from_numpy(turned(self.values[name]).copy(order="C"))
            if self.channels_last and tensor.ndim == 4:
                tensor = tensor.to(memory_format=t.channels_last)
            self.made[name] = tensor.requires_grad_(is_trained(name))
        return self.made[name]

    def parameters(self):
        return [p for found in self.made.values() for p in (found.parameters() if is_module(found) else [found])]

    def dense(self, x, name, width):
        return F.linear(x, self.weight(f"{name}.w", lambda w: w.T), self.weight(f"{name}.b"))

    def dense_of_image(self, x, name, width):
        _, channels, h, w = x.shape
        turned = self.weight(
            f"{name}.w", lambda v: v.reshape(h, w, channels, width).transpose(3, 2, 0, 1).reshape(width, -1)
        )
        return F.linear(x.flatten(1), turned, self.weight(f"{name}.b"))

    def conv(self, x, name, channels, size=3, stride=1, padding=None, bias=False):
        filters = self.weight(f"{name}.w", lambda w: w.transpose(3, 2, 0, 1))
        edge = size // 2 if padding is None else padding
        return F.conv2d(x, filters, self.weight(f"{name}.b") if bias else None, stride, edge)

    def depthwise(self, x, name, stride):
        filters = self.weight(f"{name}.w", lambda w: w.transpose(3, 2, 0, 1))
        return F.conv2d(x, filters, None, stride, 1, groups=x.shape[1])

    def batch_norm(self, x, name):
        scale, bias, mean, variance = (self.weight(f"{name}.{w}") for w in ("scale", "bias", "mean", "variance"))
        return F.batch_norm(x, mean, variance, scale, bias, self.training)

    def layer_norm(self, x, name):
        return F.layer_norm(x, x.shape[-1:], self.weight(f"{name}.scale"), self.weight(f"{name}.bias"))

    relu, relu6, gelu = staticmethod(F.relu), staticmethod(F.relu6), staticmethod(F.gelu)

    def average_pool(self, x):
        return F.avg_pool2d(x, 2)

    def mean_of_places(self, x):
        return x.mean((2, 3))

    def lstm(self, x, name, width):
        return self.recurrent(t.nn.LSTM, name, width)(x)[0][:, -1]

    def gru(self, x, name, width):
        return self.recurrent(t.nn.GRU, name, width)(x)[0][:, -1]

    def recurrent(self, kind, name, width):
        if name not in self.made:
            values = [self.values[f"{name}.{what}"] for what in ("input", "state", "b1", "b2")]
            layer = kind(len(values[0]), width, batch_first=True)
            for parameter, value in zip(layer.parameters(), values, strict=True):
                parameter.data.copy_(t.from_numpy(value.T.copy()))
            self.made[name] = layer
        return self.made[name]

    def embedding(self, x, name, count, width):
        return F.embedding(x, self.weight(name))

    def scores(self, x, name):
        return F.linear(x, self.weight(name))

    def add_position(self, x, name):
        return x + self.weight(name)

    def attention(self, x, name, heads):
        n, length, width = x.shape
        parts = self.dense(x, f"{name}.qkv", 3 * width).view(n, length, 3, heads, width // heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.dense(y.transpose(1, 2).reshape(n, length, width), f"{name}.out", width)


def is_module(found):
    return isinstance(found, t.nn.Module)


def model(subject, channels_last=False):
    """The layers with all their weights made, and a function from rows to inputs in its layout."""
    layers = Layers(initial(subject), channels_last)

    def inputs(x):
        x = t.from_numpy(x)
        if len(subject.shape) < 3:
            return x
        x = x.permute(0, 3, 1, 2)
        return x if channels_last else x.contiguous()

    with t.no_grad():
        subject.network(layers, inputs(rows(subject)[0][:1]))
    return layers, inputs


def stepper(subject, threads, kind="", mixed=""):
    """Return a function that runs steps and returns the last loss. The kinds are "", "channels-last" and "compile".

    `mixed` is the dtype of autocast, or nothing.
    """
    t.set_num_threads(threads)
    layers, inputs = model(subject, kind == "channels-last")
    layers.training = True
    optimizer = OPTIMIZERS[subject.optimizer]([p for p in layers.parameters() if p.requires_grad], subject.rate)

    def forward(x, y):
        with t.autocast("cpu", t.bfloat16, enabled=bool(mixed)):
            h = subject.network(layers, x)
        h = h.float()
        return F.cross_entropy(h.flatten(0, -2), y.flatten()) if subject.classifies else F.mse_loss(h, y)

    update = optimizer.step
    if kind == "compile":
        forward, update = t.compile(forward), t.compile(optimizer.step)
    x, y = rows(subject)
    x, y = inputs(x), t.from_numpy(y)
    at = 0

    def steps(count):
        nonlocal at
        for _ in range(count):
            loss = forward(x[at : at + subject.batch], y[at : at + subject.batch])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            update()
            value = loss.item()
            at = (at + subject.batch) % len(x)
        return value

    return steps
