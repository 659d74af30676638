"""Models of Keras 3 that tf2onnx writes: predictions and gradients beside TensorFlow, on both engines."""

# pyright: basic
# Keras and TensorFlow have no types here.

from pathlib import Path
from typing import Any

import numpy as np
import pytest

keras: Any = pytest.importorskip("keras", reason="needs Keras: pip install keras")
tensorflow: Any = pytest.importorskip("tensorflow", reason="needs TensorFlow: pip install tensorflow-cpu")

from prograd import Run, from_onnx, ops, sgd  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:In the future `np.object`:FutureWarning")  # tf2onnx reads it

L = keras.layers
ROWS = 8


def chain(shape: tuple[int, ...], *layers: Any, dtype: str = "float32") -> Any:
    return keras.Sequential([keras.Input(shape, dtype=dtype), *layers])


def attention() -> Any:
    x = keras.Input((10, 16))
    y = L.LayerNormalization()(x + L.MultiHeadAttention(2, 8)(x, x))
    return keras.Model(x, L.Dense(3)(L.GlobalAveragePooling1D()(y)))


def residual() -> Any:
    x = keras.Input((16, 16, 8))
    y = L.ReLU()(L.BatchNormalization()(L.Conv2D(8, 3, padding="same")(x)))
    return keras.Model(x, L.Dense(4)(L.GlobalAveragePooling2D()(L.Add()([x, y]))))


def two_inputs() -> Any:
    a, b = keras.Input((8,)), keras.Input((6,))
    return keras.Model([a, b], L.Dense(2)(L.Concatenate()([L.Dense(5, "gelu")(a), L.Dense(5, "silu")(b)])))


MODELS = {
    "dense": lambda: chain((8,), L.Dense(16, "relu"), L.Dense(3)),
    "softmax": lambda: chain((8,), L.Dense(16, "tanh"), L.Dense(3, "softmax")),
    "convolution": lambda: chain(
        (16, 16, 3), L.Conv2D(8, 3, activation="relu"), L.MaxPooling2D(), L.Flatten(), L.Dense(4)
    ),
    "same padding": lambda: chain(
        (15, 15, 3), L.Conv2D(8, 3, strides=2, padding="same"), L.AveragePooling2D(2), L.Flatten(), L.Dense(4)
    ),
    "normalised": lambda: chain(
        (16, 16, 3), L.Conv2D(8, 3), L.BatchNormalization(), L.ReLU(), L.GlobalAveragePooling2D(), L.Dense(4)
    ),
    "depthwise": lambda: chain(
        (16, 16, 4), L.DepthwiseConv2D(3), L.SeparableConv2D(6, 3), L.GlobalMaxPooling2D(), L.Dense(4)
    ),
    "transposed": lambda: chain((8, 8, 4), L.Conv2DTranspose(6, 3, strides=2, padding="same"), L.Conv2D(2, 1)),
    "upsampled": lambda: chain((8, 8, 4), L.UpSampling2D(2), L.Conv2D(3, 3)),
    "volumes": lambda: chain((6, 6, 6, 2), L.Conv3D(4, 3), L.GlobalAveragePooling3D(), L.Dense(2)),
    "signals": lambda: chain(
        (20, 4), L.Conv1D(8, 3, padding="causal", activation="elu"), L.Conv1D(8, 3, dilation_rate=2),
        L.GlobalMaxPooling1D(), L.Dense(2),
    ),
    "GRU": lambda: chain((6, 5), L.GRU(4, return_sequences=True), L.GRU(3), L.Dense(2)),
    "LSTM": lambda: chain((6, 5), L.LSTM(4, return_sequences=True), L.LSTM(3), L.Dense(2)),
    "plain recurrent": lambda: chain((6, 5), L.SimpleRNN(4), L.Dense(2)),
    "bidirectional": lambda: chain((6, 5), L.Bidirectional(L.LSTM(4)), L.Dense(2)),
    "each step": lambda: chain((5, 8), L.TimeDistributed(L.Dense(6)), L.GRU(4)),
    "embedding": lambda: chain((7,), L.Embedding(20, 8), L.LSTM(6), L.Dense(2), dtype="int32"),
    "mean of an embedding": lambda: chain(
        (7,), L.Embedding(20, 8), L.GlobalAveragePooling1D(), L.Dense(2, "sigmoid"), dtype="int32"
    ),
    "layer normalisation": lambda: chain(
        (12,), L.Dense(16), L.LayerNormalization(), L.LeakyReLU(), L.Dropout(0.2), L.Dense(3)
    ),
    "group normalisation": lambda: chain((8, 8, 8), L.GroupNormalization(4), L.Conv2D(4, 3), L.Flatten(), L.Dense(3)),
    "slopes": lambda: chain((8, 8, 3), L.ZeroPadding2D(1), L.Conv2D(4, 3), L.PReLU(), L.Flatten(), L.Dense(3)),
    "attention": attention,
    "residual": residual,
    "two inputs": two_inputs,
}  # fmt: skip
FOLDED = {"normalised", "residual"}
"""Models whose batch normalisations are scales and shifts in the file, which have other gradients."""


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_keras_agrees_with_tensorflow(name: str, tmp_path: Path):
    keras.utils.set_random_seed(0)
    drawn = np.random.default_rng(0)
    model = MODELS[name]()
    model.set_weights(
        [w + 0.05 * np.abs(drawn.standard_normal(w.shape)) if w.dtype.kind == "f" else w for w in model.get_weights()]
    )
    feeds = [
        drawn.integers(0, 20, (ROWS, *x.shape[1:])).astype(np.int32)
        if x.dtype == "int32"
        else drawn.standard_normal((ROWS, *x.shape[1:])).astype(np.float32)
        for x in model.inputs
    ]
    with tensorflow.GradientTape() as tape:
        y = model(feeds if len(feeds) > 1 else feeds[0], training=False)
        loss = tensorflow.reduce_mean(tensorflow.square(y))
    gradients = [np.asarray(tensorflow.convert_to_tensor(g)) for g in tape.gradient(loss, model.trainable_weights)]
    model.export(str(tmp_path / "model.onnx"), format="onnx", verbose=False)
    program = from_onnx(str(tmp_path / "model.onnx"))
    [result], names = program.outputs_of_module, [row.name for row in program.tensors_of_file if row.trained]
    assert sum(np.prod(row.shape) for row in program.tensors_of_file if row.trained) == sum(g.size for g in gradients)
    program.minimize(ops.mean(ops.square(program[result])), sgd(1.0))
    states = {own: state for own, state in program.states.items() if set(state.imported.names) & set(names)}
    sizes: dict[str, Any] = dict.fromkeys(program.symbols, ROWS)
    compiled = program.compile(**sizes)
    for engine in ("reference", "native"):
        run = Run(compiled, engine=engine)  # type: ignore[arg-type]
        given = dict(zip(run.entries["predict"].feeds, feeds, strict=True))
        np.testing.assert_allclose(run.step(given, entry="predict")[result], y, rtol=1e-4, atol=1e-5)
        before = {own: np.array(run.state[own]) for own in states}
        run.step(given, entry="train")
        moved = sum(np.square(before[own] - np.array(run.state[own]), dtype=np.float64).sum() for own in states)
        if name not in FOLDED:
            wanted = sum(np.square(g, dtype=np.float64).sum() for g in gradients)
            np.testing.assert_allclose(moved, wanted, rtol=1e-3)
    assert any("without statistics" in note for note in program.notes_of_import) == (name in FOLDED)
