"""The networks that are compared, each written once: `f` has the layers, in the words of one framework.

A layer has a name, by which every framework finds the same weights. Images have their channels last here; what a
framework does with them is its own affair. Every function gives logits, or a prediction.
"""


def perceptron(*widths):
    """Layers with relu between them."""

    def network(f, x):
        for i, width in enumerate(widths):
            x = f.dense(f.relu(x) if i else x, f"layer{i}", width)
        return x

    return network


def lenet(f, x):
    """LeNet-5 with relu; LeCun et al., 1998."""
    x = f.average_pool(f.relu(f.conv(x, "conv1", 6, size=5, bias=True)))
    x = f.average_pool(f.relu(f.conv(x, "conv2", 16, size=5, padding=0, bias=True)))
    x = f.relu(f.dense_of_image(x, "dense1", 120))
    return f.dense(f.relu(f.dense(x, "dense2", 84)), "dense3", 10)


def lstm(f, x):
    """One layer, whose last state is classified."""
    return f.dense(f.lstm(x, "lstm", 256), "out", 10)


def gru(f, x):
    """One layer that resets after the product, whose last state is classified."""
    return f.dense(f.gru(x, "gru", 256), "out", 10)


def transformer(f, x, layers=4, width=256, heads=8, words=1000):
    """A decoder that normalises before its layers; Xiong et al., 2020."""
    x = f.add_position(f.embedding(x, "words", words, width), "position")
    for i in range(layers):
        x = x + f.attention(f.layer_norm(x, f"{i}.norm1"), f"{i}.attention", heads)
        y = f.gelu(f.dense(f.layer_norm(x, f"{i}.norm2"), f"{i}.up", 4 * width))
        x = x + f.dense(y, f"{i}.down", width)
    return f.dense(f.layer_norm(x, "norm"), "out", words)


def gpt2(f, x, layers=12, width=768, heads=12, words=50257):
    """GPT-2 with 124 million parameters, without dropout: scores are products with the embedding of words."""
    x = f.add_position(f.embedding(x, "words", words, width), "position")
    for i in range(layers):
        x = x + f.attention(f.layer_norm(x, f"{i}.norm1"), f"{i}.attention", heads)
        y = f.gelu(f.dense(f.layer_norm(x, f"{i}.norm2"), f"{i}.up", 4 * width))
        x = x + f.dense(y, f"{i}.down", width)
    return f.scores(f.layer_norm(x, "norm"), "words")


def mobilenet(f, x):
    """Blocks of MobileNetV2, four times as wide inside; Sandler et al., 2018."""
    x, inside = f.relu6(f.batch_norm(f.conv(x, "stem", 32), "stem")), 32
    for i, (width, stride) in enumerate(((32, 1), (64, 2), (64, 1), (96, 2), (96, 1), (160, 2))):
        y = f.relu6(f.batch_norm(f.conv(x, f"{i}.expand", 4 * inside, size=1), f"{i}.expand"))
        y = f.relu6(f.batch_norm(f.depthwise(y, f"{i}.depthwise", stride), f"{i}.depthwise"))
        y = f.batch_norm(f.conv(y, f"{i}.project", width, size=1), f"{i}.project")
        x, inside = (x + y if (inside, 1) == (width, stride) else y), width
    return f.dense(f.mean_of_places(x), "out", 10)


def resnet18(f, x):
    """Compute a ResNet-18 with a stem for small images: He et al., 2016."""
    x, inside = f.relu(f.batch_norm(f.conv(x, "stem", 64), "stem")), 64
    for i, (width, stride) in enumerate(((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1))):
        y = f.relu(f.batch_norm(f.conv(x, f"{i}.1", width, stride=stride), f"{i}.1"))
        y = f.batch_norm(f.conv(y, f"{i}.2", width), f"{i}.2")
        if inside != width:
            x = f.batch_norm(f.conv(x, f"{i}.beside", width, size=1, stride=stride), f"{i}.beside")
        x, inside = f.relu(y + x), width
    return f.dense(f.mean_of_places(x), "out", 10)
