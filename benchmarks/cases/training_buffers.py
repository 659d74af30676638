"""Buffers of synthetic training steps: lifetimes of tensors when a network of several layers is trained.

A network is a list of layers (kind, inputs, output, bytes of its parameter, bytes of its scratch). `buffers_of` runs it
forward, keeping what backward reads, then backward, and has the parameters updated at once or after everything.
Two ticks an op: reads at 2i, writes at 2i + 1.
"""

ALIGNMENT = 64


def convolutional(layers, updates, batch=8):
    """Residual blocks with convolutions and normalisations, in four stages that halve the image."""
    network, sizes = [], {"x": 4 * batch * 64 * 56 * 56}
    x, side, channels = "x", 56, 64
    for i in range(layers):
        if i and channels < 512 and i % max(1, layers // 4) == 0:
            side, channels = side // 2, channels * 2
        pixels, y = 4 * batch * channels * side * side, x
        for j in "ab":
            c, n, r = (f"{kind}{i}{j}" for kind in ("conv", "norm", "relu"))
            sizes |= {c: pixels, n: pixels, r: pixels}
            columns = 4 * 9 * channels * side * side
            network.append(("product", [y], c, 4 * 9 * channels * channels, columns))
            network.append(("norm", [c], n, 8 * channels, 0))
            if j == "b":
                sizes[f"sum{i}"] = pixels
                network.append(("sum", [n, x], f"sum{i}", 0, 0))
                n = f"sum{i}"
            network.append(("relu", [n], r, 0, 0))
            y = r
        x = y
    return buffers_of(network, sizes, updates)


def transformer(layers, updates, batch=4, length=128, width=256, heads=4):
    """Attention and a perceptron in each layer, both with a normalisation before and a sum after."""
    rows = 4 * batch * length * width
    network, sizes, x = [], {"x": rows}, "x"

    def layer(kind, inputs, name, size, parameter=0):
        sizes[name] = size
        network.append((kind, inputs, name, parameter, 0))
        return name

    for i in range(layers):
        square = 4 * width * width
        h = layer("norm", [x], f"norm{i}", rows, 8 * width)
        q, k, v = (layer("product", [h], f"{part}{i}", rows, square) for part in ("query", "key", "value"))
        scores = layer("matmul", [q, k], f"scores{i}", 4 * batch * heads * length * length)
        shares = layer("softmax", [scores], f"shares{i}", sizes[scores])
        mixed = layer("matmul", [shares, v], f"mixed{i}", rows)
        y = layer("sum", [layer("product", [mixed], f"out{i}", rows, square), x], f"middle{i}", rows)
        h = layer("norm", [y], f"second{i}", rows, 8 * width)
        wide = layer("gelu", [layer("product", [h], f"wide{i}", 4 * rows, 4 * square)], f"gelu{i}", 4 * rows)
        x = layer("sum", [layer("product", [wide], f"narrow{i}", rows, 4 * square), y], f"layer{i}", rows)
    return buffers_of(network, sizes, updates)


def buffers_of(network, sizes, updates):
    """(size, start, stop) of all buffers, scratch included, for updates that are "immediate" or "deferred"."""
    ops = []  # (reads, writes, scratch bytes)
    for _, inputs, output, _, scratch in network:
        ops.append((inputs, [output], scratch))
    gradient, gradients_of_parameters = {network[-1][2]: "seed"}, []
    sizes["seed"] = sizes[network[-1][2]]
    ops.append(([network[-1][2]], ["seed"], 0))
    for number, (kind, inputs, output, parameter, scratch) in reversed(list(enumerate(network))):
        if parameter:
            name = f"d_parameter{number}"
            sizes[name] = parameter
            ops.append(([gradient[output], *inputs], [name], scratch))
            gradients_of_parameters.append(name)
            if updates == "immediate":
                ops.append(([name], [], 0))
        for position, x in enumerate(inputs):
            name = f"d{number}.{position}"
            sizes[name] = sizes[x]
            ops.append(([gradient[output], *saved(kind, inputs, output, position)], [name], scratch))
            if x in gradient:
                total = f"total{number}.{position}"
                sizes[total] = sizes[x]
                ops.append(([gradient[x], name], [total], 0))
                name = total
            gradient[x] = name
    if updates == "deferred":
        ops += [([name], [], 0) for name in gradients_of_parameters]
    return lifetimes(ops, sizes)


def saved(kind, inputs, output, position):
    """Return the forward tensors that the gradient of a layer's input reads."""
    if kind in ("relu", "softmax"):
        return [output]
    if kind in ("norm", "gelu"):
        return inputs
    return [inputs[1 - position]] if kind == "matmul" else []


def lifetimes(ops, sizes):
    start, stop, result = {"x": 0}, {"x": 1}, []
    for i, (reads, writes, scratch) in enumerate(ops):
        stop.update((name, 2 * i + 2) for name in (*reads, *writes))
        start.update((name, 2 * i + 1) for name in writes)
        if scratch:
            result.append((scratch, 2 * i, 2 * i + 2))
    result += [(sizes[name], start[name], stop[name]) for name in start]
    return [(-(-size // ALIGNMENT) * ALIGNMENT, a, b) for size, a, b in result]


FAMILIES = {"cnn": convolutional, "transformer": transformer}
