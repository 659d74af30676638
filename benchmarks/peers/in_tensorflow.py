"""Networks in TensorFlow: a `tf.function`, compiled by XLA. Those that it is fast at: the GRU, the transformer."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # it greets

import tensorflow as tf
from subjects import initial, rows


class Layers:
    """Functions of TensorFlow over these variables."""

    def __init__(self, values, mixed=""):
        self.values, self.mixed = values, mixed

    def product(self, x, w, **how):
        if not self.mixed:
            return tf.matmul(x, w, **how)
        return tf.cast(tf.matmul(tf.cast(x, self.mixed), tf.cast(w, self.mixed), **how), "float32")

    def dense(self, x, name, width):
        w, b = self.values[f"{name}.w"], self.values[f"{name}.b"]
        y = self.product(tf.reshape(x, (-1, x.shape[-1])), w) + b
        return tf.reshape(y, (*x.shape[:-1], w.shape[-1]))

    def gru(self, x, name, width):
        u, b = self.values[f"{name}.state"], self.values[f"{name}.b2"]
        products = self.dense_named(x, f"{name}.input", f"{name}.b1")
        h = tf.zeros((x.shape[0], width))
        for step in tf.unstack(products, axis=1):
            r, z, n = tf.split(step, 3, axis=1)
            hr, hz, hn = tf.split(self.product(h, u) + b, 3, axis=1)
            r, z = tf.sigmoid(r + hr), tf.sigmoid(z + hz)
            h = (1 - z) * tf.tanh(n + r * hn) + z * h
        return h

    def dense_named(self, x, w, b):
        y = self.product(tf.reshape(x, (-1, x.shape[-1])), self.values[w]) + self.values[b]
        return tf.reshape(y, (*x.shape[:-1], y.shape[-1]))

    def embedding(self, x, name, count, width):
        return tf.gather(self.values[name], x)

    def add_position(self, x, name):
        return x + self.values[name]

    def layer_norm(self, x, name):
        mean, variance = tf.nn.moments(x, -1, keepdims=True)
        y = (x - mean) * tf.math.rsqrt(variance + 1e-5)
        return y * self.values[f"{name}.scale"] + self.values[f"{name}.bias"]

    def gelu(self, x):
        return tf.nn.gelu(x)

    def attention(self, x, name, heads):
        n, length, width = x.shape
        parts = tf.reshape(self.dense(x, f"{name}.qkv", 3 * width), (n, length, 3, heads, width // heads))
        q, k, v = (tf.transpose(parts[:, :, i], (0, 2, 1, 3)) for i in range(3))
        scores = self.product(q, k, transpose_b=True) * (width // heads) ** -0.5
        seen = tf.linalg.band_part(tf.ones((length, length)), -1, 0) > 0
        y = self.product(tf.nn.softmax(tf.where(seen, scores, -1e9)), v)
        return self.dense(tf.reshape(tf.transpose(y, (0, 2, 1, 3)), (n, length, width)), f"{name}.out", width)


def stepper(subject, threads, kind="", mixed=""):
    """Return a function that runs a number of steps with Adam and returns the last loss; `mixed` is as in `in_jax`."""
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    values = {name: tf.Variable(value) for name, value in initial(subject).items()}
    first = {name: tf.Variable(tf.zeros_like(value)) for name, value in values.items()}
    second = {name: tf.Variable(tf.zeros_like(value)) for name, value in values.items()}
    made = tf.Variable(0.0)

    @tf.function(jit_compile=True)
    def one(x, y):
        with tf.GradientTape() as tape:
            h = subject.network(Layers(values, mixed), x)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, h))
        gradients = dict(zip(values, tape.gradient(loss, list(values.values())), strict=True))
        made.assign_add(1.0)
        a, b = 1 - 0.9**made, 1 - 0.999**made
        for name, value in values.items():
            g = tf.convert_to_tensor(gradients[name])
            m = first[name].assign(0.9 * first[name] + 0.1 * g)
            v = second[name].assign(0.999 * second[name] + 0.001 * g * g)
            value.assign_sub(subject.rate * (m / a) / (tf.sqrt(v / b) + 1e-8))
        return loss

    x, y = (array.astype("i4") if array.dtype == "int64" else array for array in rows(subject))
    at = 0

    def steps(count):
        nonlocal at
        for _ in range(count):
            loss = float(one(x[at : at + subject.batch], y[at : at + subject.batch]))
            at = (at + subject.batch) % len(x)
        return loss

    return steps
