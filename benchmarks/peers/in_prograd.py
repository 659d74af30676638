"""The networks in prograd, through the library; events of steps come in bunches, and each has the loss."""

from subjects import initial, is_trained, rows

import runtime
from prograd import Program, adam, adamw, momentum, ops, sgd
from prograd import mixed as order_of_pairs

OPTIMIZERS = {"sgd": sgd, "momentum": lambda rate: momentum(rate, momentum=0.9), "adam": adam, "adamw": adamw}


class Layers:
    """Operators of prograd, with parameters of these shapes."""

    def __init__(self, program, values):
        self.program, self.values, self.made = program, values, {}

    def weight(self, name):
        if name not in self.made:
            declare = self.program.parameter if is_trained(name) else self.program.buffer
            self.made[name] = declare(name, self.values[name].shape)
        return self.made[name]

    def dense(self, x, name, width):
        return x @ self.weight(f"{name}.w") + self.weight(f"{name}.b")

    def dense_of_image(self, x, name, width):
        return self.dense(ops.reshape(x, shape=(x.shape[0], -1)), name, width)

    def conv(self, x, name, channels, size=3, stride=1, padding=None, bias=False):
        edge = size // 2 if padding is None else padding
        y = ops.conv2d(x, self.weight(f"{name}.w"), stride=(stride, stride), padding=(edge,) * 4)
        return y + self.weight(f"{name}.b") if bias else y

    def depthwise(self, x, name, stride):
        return ops.conv2d(
            x, self.weight(f"{name}.w"), stride=(stride, stride), padding=(1,) * 4, groups=int(x.shape[-1])
        )

    def batch_norm(self, x, name):
        names = [f"{name}.{what}" for what in ("scale", "bias", "mean", "variance")]
        states = [self.weight(each) for each in names]
        y, mean, variance, *_ = ops.batch_norm(x, *states)
        self.program.update(states[2], mean)
        self.program.update(states[3], variance)
        return y

    def layer_norm(self, x, name):
        return ops.layer_norm(x, self.weight(f"{name}.scale"), self.weight(f"{name}.bias"))[0]

    relu, relu6, gelu = staticmethod(ops.relu), staticmethod(ops.relu6), staticmethod(ops.gelu)

    def average_pool(self, x):
        return ops.avg_pool2d(x, window=(2, 2), stride=(2, 2))

    def mean_of_places(self, x):
        return ops.mean(x, axis=(1, 2))

    def lstm(self, x, name, width):
        return ops.lstm(x, *self.recurrent(name))[1][0]

    def gru(self, x, name, width):
        return ops.gru(x, *self.recurrent(name))[1][0]

    def recurrent(self, name):
        return [self.weight(f"{name}.{what}") for what in ("input", "state", "b1", "b2")]

    def embedding(self, x, name, count, width):
        return ops.embedding(self.weight(name), x)

    def scores(self, x, name):
        return x @ ops.transpose(self.weight(name), axis=(1, 0))

    def add_position(self, x, name):
        return x + self.weight(name)

    def attention(self, x, name, heads):
        n, length, width = x.shape
        parts = ops.reshape(self.dense(x, f"{name}.qkv", 3 * width), shape=(n, length, 3, heads, width // heads))
        q, k, v = (
            ops.transpose(ops.reshape(part, shape=(n, length, heads, width // heads)), axis=(0, 2, 1, 3))
            for part in ops.split(parts, axis=2, sizes=(1, 1, 1))
        )
        y = ops.scaled_dot_product_attention(q, k, v, causal=True)
        return self.dense(ops.reshape(ops.transpose(y, axis=(0, 2, 1, 3)), shape=x.shape), f"{name}.out", width)


def program(subject):
    """Return the program that trains the subject and predicts with it."""
    made = Program("peer")
    x = made.input("x", "int64" if subject.words else "float32", ("batch", *subject.shape))
    if subject.words:
        y = made.input("y", "int64", ("batch", *subject.shape))
    else:
        y = made.input("y", "int64", ("batch",)) if subject.classifies else made.input("y", "float32", ("batch", 1))
    h = subject.network(Layers(made, initial(subject)), x)
    loss = ops.softmax_cross_entropy(h, y) if subject.classifies else ops.mean(ops.square(h - y))
    made.minimize(loss, OPTIMIZERS[subject.optimizer](subject.rate))
    made.outputs(y=h)
    return made


def session(subject, threads, engine="native", batch=None, mixed=""):
    """A run with the values that all begin with; `mixed` is nothing, "bfloat16", or "pairs" for its other order."""
    asked = order_of_pairs("bfloat16", order="pairs") if mixed == "pairs" else mixed or None
    compiled = program(subject).compile(batch=batch or subject.batch, mixed=asked)
    run = runtime.Run(compiled, engine=engine, threads=threads)
    for name, value in initial(subject).items():
        run.state[name] = value
    return run


def stepper(subject, threads, engine="native", mixed=""):
    """Return a function that runs a number of steps and returns the last loss."""
    run = session(subject, threads, engine, mixed=mixed)
    data = dict(zip("xy", rows(subject), strict=True))
    events = run.events(data=data, epochs=10**6, ahead=64, shuffle=False)

    def steps(count):
        while count:
            event = next(events)
            if isinstance(event, runtime.StepEnd):
                count -= 1
        return event.metrics["loss"]

    return steps


def predictor(subject, threads, example):
    """Return a function from rows to logits, with the batch size of the example."""
    run = session(subject, threads, batch=len(example))
    return lambda x: run.predict(x)["y"]
