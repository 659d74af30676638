"""One contender in a process of its own: `contender.py NAME SUBJECT THREADS`.

It reads a number of steps from each line of its input, makes them, and answers with the seconds that they took and the
last loss. While it waits it takes no processor time.
"""

import os
import sys
from time import perf_counter

NAME, SUBJECT, THREADS = sys.argv[1], sys.argv[2], int(sys.argv[3])
if hasattr(os, "sched_setaffinity"):  # for contenders that take all cores they see
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:THREADS]))

from subjects import SUBJECTS, initial, rows  # noqa: E402


def prograd(subject):
    """Through the library; events of steps come in bunches, and each has the loss."""
    import runtime
    from prograd import Program, adam, momentum, ops, sgd

    program = Program("peer")
    x = program.input("x", "float32", ("batch", subject.widths[0]))
    y = program.input("y", "int64", ("batch",)) if subject.classifies else program.input("y", "float32", ("batch", 1))
    values, h, layers = initial(subject), x, len(subject.widths) - 1
    for i in range(layers):
        w, b = (program.parameter(n, values[n].shape) for n in (f"w{i}", f"b{i}"))
        h = h @ w + b
        h = ops.relu(h) if i + 1 < layers else h
    loss = ops.softmax_cross_entropy(h, y) if subject.classifies else ops.mean(ops.square(h - y))
    how = {"sgd": sgd(subject.rate), "momentum": momentum(subject.rate, momentum=0.9), "adam": adam(subject.rate)}
    program.minimize(loss, how[subject.optimizer])
    run = runtime.Run(
        program.compile(batch=subject.batch), engine="reference" if NAME == "reference" else "native", threads=THREADS
    )
    for name, value in values.items():
        run.state[name] = value
    data = dict(zip("xy", rows(subject), strict=True))
    events = run.train(data=data, epochs=10**6, ahead=64)

    def steps(count):
        while count:
            event = next(events)
            if hasattr(event, "metrics") and type(event).__name__ == "StepEnd":
                count -= 1
        return event.metrics["loss"]

    return steps


def torch(subject):
    """Eager, with a fused optimizer; or model and loss compiled, and the optimizer's step too."""
    import torch as t

    t.set_num_threads(THREADS)
    layers = []
    for i, (name, value) in enumerate(initial(subject).items()):
        if name[0] == "w":
            layers += [t.nn.ReLU()] * bool(i) + [t.nn.Linear(*value.shape)]
            layers[-1].weight.data = t.from_numpy(value.T.copy())
        else:
            layers[-1].bias.data = t.from_numpy(value.copy())
    model = t.nn.Sequential(*layers)
    criterion = t.nn.CrossEntropyLoss() if subject.classifies else t.nn.MSELoss()
    how = {
        "sgd": lambda p: t.optim.SGD(p, subject.rate, fused=True),
        "momentum": lambda p: t.optim.SGD(p, subject.rate, momentum=0.9, fused=True),
        "adam": lambda p: t.optim.Adam(p, subject.rate, fused=True),
    }
    optimizer = how[subject.optimizer](model.parameters())

    def forward(x, y):
        return criterion(model(x), y)

    update = optimizer.step
    if NAME == "torch.compile":
        forward = t.compile(forward)
        update = t.compile(optimizer.step)
    x, y = (t.from_numpy(array) for array in rows(subject))
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


def jax(subject):
    """One function under jit, with states that it may write over."""
    import jax as j

    parameters, state, one = jax_step(subject)
    compiled = j.jit(one, donate_argnums=(0, 1))
    x, y = rows(subject)
    y = y.astype("i4") if subject.classifies else y
    at = 0

    def steps(count):
        nonlocal at, parameters, state
        for _ in range(count):
            rows_of_step = slice(at, at + subject.batch)
            parameters, state, loss = compiled(parameters, state, x[rows_of_step], y[rows_of_step])
            value = float(loss)
            at = (at + subject.batch) % len(x)
        return value

    return steps


def jax_step(subject):
    """Parameters, the optimizer's state, and the function of a step."""
    import jax as j
    import jax.numpy as jnp

    layers = len(subject.widths) - 1
    parameters = {name: jnp.asarray(value) for name, value in initial(subject).items()}
    zeros = {name: jnp.zeros_like(value) for name, value in parameters.items()}
    kept = {"sgd": (), "momentum": (zeros,), "adam": (zeros, {k: v + 0 for k, v in zeros.items()}, jnp.zeros(()))}

    def loss_of(p, x, y):
        for i in range(layers):
            x = x @ p[f"w{i}"] + p[f"b{i}"]
            x = j.nn.relu(x) if i + 1 < layers else x
        if not subject.classifies:
            return jnp.mean((x - y) ** 2)
        chosen = jnp.take_along_axis(x, y[:, None], axis=1)[:, 0]
        return jnp.mean(j.nn.logsumexp(x, axis=1) - chosen)

    def updated(p, g, state):
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

    def one(p, state, x, y):
        loss, g = j.value_and_grad(loss_of)(p, x, y)
        return *updated(p, g, state), loss

    return parameters, kept[subject.optimizer], one


def main():
    """Answer until there are no more lines."""
    contender = {"prograd": prograd, "reference": prograd, "torch": torch, "torch.compile": torch, "jax": jax}[NAME]
    steps = contender(SUBJECTS[SUBJECT])
    for line in sys.stdin:
        start = perf_counter()
        loss = steps(int(line))
        print(perf_counter() - start, float(loss), peak(), flush=True)


def peak():
    """Bytes of resident memory, at most, so far."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
