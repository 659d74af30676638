"""The networks in JAX: one function under jit, with states that it may write over."""

import jax as j
import jax.numpy as jnp
from jax import lax
from subjects import initial, is_trained, rows

IMAGES = ("NHWC", "HWIO", "NHWC")


class Layers:
    """Functions of JAX over these weights. Running statistics are kept in `updates`."""

    def __init__(self, values, shifted=False, mixed=""):
        self.values, self.shifted, self.updates, self.mixed = values, shifted, {}, mixed

    def factor(self, x):
        return x.astype(self.mixed) if self.mixed else x

    def product(self, x, name):
        return (self.factor(x) @ self.factor(self.values[name])).astype("float32")

    def dense(self, x, name, width):
        return self.product(x, f"{name}.w") + self.values[f"{name}.b"]

    def dense_of_image(self, x, name, width):
        return self.dense(x.reshape(len(x), -1), name, width)

    def conv(self, x, name, channels, size=3, stride=1, padding=None, bias=False):
        edge = size // 2 if padding is None else padding
        w = self.values[f"{name}.w"]
        x, w = self.factor(x), self.factor(w)
        y = lax.conv_general_dilated(x, w, (stride, stride), [(edge, edge)] * 2, dimension_numbers=IMAGES)
        y = y.astype("float32")
        return y + self.values[f"{name}.b"] if bias else y

    def depthwise(self, x, name, stride):
        w = self.values[f"{name}.w"]
        if self.shifted:
            return shifted_products(x, w, stride)
        return lax.conv_general_dilated(
            x, w, (stride, stride), [(1, 1)] * 2, dimension_numbers=IMAGES, feature_group_count=x.shape[-1]
        )

    def batch_norm(self, x, name):
        mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
        for what, found in (("mean", mean), ("variance", variance)):
            self.updates[f"{name}.{what}"] = 0.9 * self.values[f"{name}.{what}"] + 0.1 * found
        return (x - mean) * (lax.rsqrt(variance + 1e-5) * self.values[f"{name}.scale"]) + self.values[f"{name}.bias"]

    def layer_norm(self, x, name):
        mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        y = (x - mean) * lax.rsqrt(variance + 1e-5)
        return y * self.values[f"{name}.scale"] + self.values[f"{name}.bias"]

    relu, relu6 = staticmethod(j.nn.relu), staticmethod(j.nn.relu6)

    def gelu(self, x):
        return j.nn.gelu(x, approximate=False)

    def average_pool(self, x):
        return lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4

    def mean_of_places(self, x):
        return x.mean((1, 2))

    def lstm(self, x, name, width):
        def cell(states, x):
            h, c = states
            i, f, g, o = jnp.split(x + self.product(h, f"{name}.state"), 4, axis=1)
            c = j.nn.sigmoid(f) * c + j.nn.sigmoid(i) * jnp.tanh(g)
            return (j.nn.sigmoid(o) * jnp.tanh(c), c), None

        return self.scan(cell, x, name, [jnp.zeros((len(x), width))] * 2, self.values[f"{name}.b2"])[0]

    def gru(self, x, name, width):
        def cell(states, x):
            [h] = states
            r, u, n = jnp.split(x, 3, axis=1)
            hr, hu, hn = jnp.split(self.product(h, f"{name}.state") + self.values[f"{name}.b2"], 3, axis=1)
            r, u = j.nn.sigmoid(r + hr), j.nn.sigmoid(u + hu)
            return ((1 - u) * jnp.tanh(n + r * hn) + u * h,), None

        return self.scan(cell, x, name, [jnp.zeros((len(x), width))])[0]

    def scan(self, cell, x, name, states, more=0.0):
        products = self.product(x, f"{name}.input") + (self.values[f"{name}.b1"] + more)
        return lax.scan(cell, tuple(states), products.swapaxes(0, 1))[0]

    def embedding(self, x, name, count, width):
        return self.values[name][x]

    def add_position(self, x, name):
        return x + self.values[name]

    def attention(self, x, name, heads):
        n, length, width = x.shape
        parts = self.dense(x, f"{name}.qkv", 3 * width).reshape(n, length, 3, heads, width // heads)
        q, k, v = (self.factor(parts[:, :, i]) for i in range(3))
        return self.dense(j.nn.dot_product_attention(q, k, v, is_causal=True).reshape(x.shape), f"{name}.out", width)


def shifted_products(x, w, stride):
    """Compute a depthwise convolution as the sum of nine products."""
    h, width = x.shape[1:3]
    x = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    return sum(x[:, i : i + h : stride, k : k + width : stride] * w[i, k, 0] for i in range(3) for k in range(3))


def loss_of(subject, shifted, mixed=""):
    """Return the loss and the new statistics of trained weights, running statistics and rows."""

    def loss(trained, running, x, y):
        layers = Layers(trained | running, shifted, mixed)
        h = subject.network(layers, x)
        if not subject.classifies:
            return jnp.mean((h - y) ** 2), layers.updates
        chosen = jnp.take_along_axis(h, y[..., None], axis=-1)[..., 0]
        return jnp.mean(j.nn.logsumexp(h, axis=-1) - chosen), layers.updates

    return loss


def updated(subject, p, g, state):
    """The optimizer: new weights and its new state."""
    if subject.optimizer == "sgd":
        return {k: p[k] - subject.rate * g[k] for k in p}, state
    if subject.optimizer == "momentum":
        v = {k: 0.9 * state[0][k] + g[k] for k in p}
        return {k: p[k] - subject.rate * v[k] for k in p}, (v,)
    m = {k: 0.9 * state[0][k] + 0.1 * g[k] for k in p}
    v = {k: 0.999 * state[1][k] + 0.001 * g[k] ** 2 for k in p}
    n = state[2] + 1
    a, b = 1 - 0.9**n, 1 - 0.999**n
    return {k: p[k] - subject.rate * (m[k] / a) / (jnp.sqrt(v[k] / b) + 1e-8) for k in p}, (m, v, n)


def kept(subject, p):
    """Return the initial state of the optimizer."""

    def zeros():
        return {name: jnp.zeros_like(value) for name, value in p.items()}

    return {"sgd": lambda: (), "momentum": lambda: (zeros(),), "adam": lambda: (zeros(), zeros(), jnp.zeros(()))}[
        subject.optimizer
    ]()


def stepper(subject, threads, kind="", mixed=""):
    """Return a function that runs a number of steps and returns the last loss. The kinds are "" and "shifted".

    `mixed` is the dtype of the operands of products, or nothing.
    """
    values = {name: jnp.asarray(value) for name, value in initial(subject).items()}
    p = {name: value for name, value in values.items() if is_trained(name)}
    running = {name: value for name, value in values.items() if not is_trained(name)}
    state, loss = kept(subject, p), loss_of(subject, kind == "shifted", mixed)

    def one(p, running, state, x, y):
        (value, running), g = j.value_and_grad(loss, has_aux=True)(p, running, x, y)
        return *updated(subject, p, g, state), running, value

    compiled = j.jit(one, donate_argnums=(0, 1, 2))
    x, y = (array.astype("i4") if array.dtype == "int64" else array for array in rows(subject))
    at = 0

    def steps(count):
        nonlocal at, p, running, state
        for _ in range(count):
            rows_of_step = slice(at, at + subject.batch)
            p, state, running, value = compiled(p, running, state, x[rows_of_step], y[rows_of_step])
            value = float(value)
            at = (at + subject.batch) % len(x)
        return value

    return steps
