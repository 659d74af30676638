"""Augmentation: its distributions against exact ones, rows that stay as they are outside training, and its errors."""

import math

import numpy as np
import pytest
from subjects.commands import told
from subjects.steps import bound_block

from compiler import Program, adam, gradients, sgd
from prograd import data, layers
from prograd_proto.files import load
from registry import OpError, ops
from runtime import Run

ENGINES = ("reference", "native")
ROWS = 64
STEPS = 40


def training_program(augment, shape, dtype="float32", rows=ROWS, seed=3):
    """Return a program that fetches augmented rows while it trains, and as its prediction."""
    program = Program(seed=seed)
    x = program.input("x", dtype, ("n", *shape))
    y = augment(x)
    weight = program.parameter("weight", ())
    numbers = ops.cast(y, dtype="float32")
    program.minimize(ops.mean(numbers) * weight, sgd(0.0))
    program.fetch("y", y)
    program.outputs(prediction=y)
    return program.compile(n=rows)


def augmented(engine, augment, x, steps=STEPS):
    """Return the rows of several training steps, [steps, n, ...]."""
    run = Run(training_program(augment, x.shape[1:], x.dtype.name, len(x)), engine=engine)
    try:
        np.testing.assert_array_equal(run.predict(x)["prediction"], x)
        return np.stack([run.step({"x": x})["y"] for _ in range(steps)])
    finally:
        run.close()


def counted(dtype="float32"):
    """Return images of 5 x 6 x 2 whose elements are all different within an image, and not 0."""
    image = np.arange(1, 61).reshape(5, 6, 2)
    return np.stack([image + i for i in range(ROWS)]).astype(dtype)


def require_uniform(counts, what):
    """Fail unless counts look like draws from equally likely outcomes: within five standard deviations each."""
    total, kinds = sum(counts), len(counts)
    expected = total / kinds
    bound = 5 * math.sqrt(expected * (1 - 1 / kinds))
    assert all(abs(count - expected) < bound for count in counts), (what, counts)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_a_flip_reverses_each_row_or_none_of_it_with_its_probability(engine, dtype):
    x = counted(dtype)
    y = augmented(engine, lambda x: ops.random_flip(x, probability=0.3), x)
    same = (y == x).all(axis=(2, 3, 4))
    assert (same | (y == x[:, :, ::-1]).all(axis=(2, 3, 4))).all()
    assert 1 - same.mean() == pytest.approx(0.3, abs=5 * math.sqrt(0.21 / same.size))
    assert len({tuple(row) for row in same}) == STEPS, "steps draw other numbers"


def test_a_flip_along_two_axes_turns_rows_by_half():
    x = counted()
    y = augmented("native", lambda x: ops.random_flip(x, axis=(1, 2), probability=1.0), x, steps=1)[0]
    np.testing.assert_array_equal(y, x[:, ::-1, ::-1])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_a_crop_takes_every_window_of_the_padded_image_equally_often(engine, dtype):
    x = counted(dtype)
    y = augmented(engine, lambda x: ops.random_crop(x, padding=(1, 2), value=7.0), x)
    padded = np.pad(x, ((0, 0), (1, 1), (2, 2), (0, 0)), constant_values=7)
    windows = [padded[:, top : top + 5, left : left + 6] for top in range(3) for left in range(5)]
    found = np.array([(y == window).all(axis=(2, 3, 4)) for window in windows])
    assert (found.sum(axis=0) == 1).all()
    require_uniform(found.sum(axis=(1, 2)), "positions")


@pytest.mark.parametrize("engine", ENGINES)
def test_brightness_multiplies_each_image_by_a_uniform_factor(engine):
    x = counted()
    y = augmented(engine, lambda x: ops.random_colour(x, brightness=0.4), x)
    factors = y / x
    np.testing.assert_allclose(factors, factors[..., :1, :1, :1] * np.ones_like(x), rtol=1e-6)
    require_uniform(np.histogram(factors[..., 0, 0, 0], bins=10, range=(0.6, 1.4))[0], "factors")


@pytest.mark.parametrize("engine", ENGINES)
def test_contrast_and_saturation_keep_the_means_and_scale_the_distances(engine):
    x = np.random.default_rng(1).uniform(size=(ROWS, 4, 5, 3)).astype("float32")
    luma = np.array([0.299, 0.587, 0.114], "float32")

    y = augmented(engine, lambda x: ops.random_colour(x, contrast=0.5), x)
    middle = (x @ luma).mean(axis=(1, 2))[:, None, None, None]
    factors = (y - middle)[..., 0, 0, 0] / (x - middle)[..., 0, 0, 0]
    np.testing.assert_allclose(y, middle + (x - middle) * factors[..., None, None, None], atol=1e-4)
    require_uniform(np.histogram(factors, bins=10, range=(0.5, 1.5))[0], "contrast")

    y = augmented(engine, lambda x: ops.random_colour(x, saturation=0.5), x)
    np.testing.assert_allclose(y @ luma, np.broadcast_to(x @ luma, y.shape[:-1]), atol=1e-5)
    grey = (x @ luma)[..., None]
    red = np.abs((x - grey)[..., 0]).reshape(ROWS, -1).argmax(axis=1)  # the pixel whose ratio is rounded least
    each = np.arange(ROWS)
    factors = (y - grey)[..., 0].reshape(STEPS, ROWS, -1)[:, each, red] / (x - grey)[..., 0].reshape(ROWS, -1)[
        each, red
    ]
    require_uniform(np.histogram(factors, bins=10, range=(0.5, 1.5))[0], "saturation")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_noise_is_normal(engine, dtype):
    x = np.zeros((ROWS, 50), dtype)
    y = np.sort(augmented(engine, lambda x: ops.random_noise(x, deviation=0.5), x).ravel()) / 0.5
    exact = np.array([0.5 * math.erfc(-number / math.sqrt(2)) for number in y[::50]])
    empirical = (np.arange(y.size)[::50] + 0.5) / y.size
    assert np.abs(exact - empirical).max() < 1.95 / math.sqrt(y.size), "Kolmogorov and Smirnov, 0.1 %"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_a_cutout_has_its_centre_at_every_pixel_equally_often(engine, dtype):
    x = counted(dtype)
    y = augmented(engine, lambda x: ops.random_cutout(x, size=(3, 2)), x)
    rows, columns = np.arange(5)[:, None], np.arange(6)[None]
    masks = [
        (rows >= top - 1) & (rows < top + 2) & (columns >= left - 1) & (columns < left + 1)
        for top in range(5)
        for left in range(6)
    ]
    found = np.array([(y == np.where(mask[..., None], 0, x)).all(axis=(2, 3, 4)) for mask in masks])
    assert (found.sum(axis=0) == 1).all()
    require_uniform(found.sum(axis=(1, 2)), "centres")


def beta_probabilities(alpha, edges):
    """Return the probabilities of the intervals between edges under Beta(alpha, alpha), by midpoints of the angle.

    With m = sin(t)**2 the density is proportional to (sin t cos t) ** (2 alpha - 1), and v = t ** (2 alpha) takes the
    pole at 0 away.
    """
    t = np.linspace(0, math.pi / 4, 2_000_001)
    v = np.linspace(0, (math.pi / 4) ** (2 * alpha), len(t))
    middle = ((v[1:] + v[:-1]) / 2) ** (1 / (2 * alpha))
    half = np.concatenate([[0], np.cumsum((np.sin(middle) * np.cos(middle) / middle) ** (2 * alpha - 1))])
    lower = np.interp(np.arcsin(np.sqrt(np.minimum(edges, 1 - edges))) ** (2 * alpha), v, half) / (2 * half[-1])
    return np.diff(np.where(edges <= 0.5, lower, 1 - lower))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("alpha", [0.1, 0.2, 1.0, 4.0])
def test_mixup_mixes_rows_and_targets_by_numbers_of_a_beta_distribution(engine, alpha):
    program = Program(seed=5)
    x = program.input("x", "float64", ("n", ROWS))
    target = program.input("target", "float32", ("n", ROWS))
    y, mixed = ops.mixup(x, target, alpha=alpha)
    program.minimize(ops.mean(y) * program.parameter("weight", (), dtype="float64"), sgd(0.0))
    program.fetch("y", y)
    program.fetch("mixed", mixed)
    program.outputs(prediction=y, labels=mixed)
    run = Run(program.compile(n=ROWS), engine=engine)
    feeds = {"x": np.eye(ROWS), "target": np.eye(ROWS, dtype="float32")}
    outside = run.predict(feeds)
    assert (outside["prediction"] == feeds["x"]).all()
    assert (outside["labels"] == feeds["target"]).all()
    shares, partners = [], []
    for _ in range(STEPS):
        found = run.step(feeds)
        np.testing.assert_allclose(found["mixed"], found["y"], atol=1e-6)
        np.testing.assert_allclose(found["y"].sum(axis=(0, 1)), ROWS)
        partner = np.where(found["y"].diagonal() == 1, -1, (found["y"] * (1 - np.eye(ROWS))).argmax(axis=1))
        partners += [(j - i) % ROWS for i, j in enumerate(partner) if j >= 0 and found["y"][i, j] > 0]
        shares += [found["y"][i, i] for i, j in enumerate(partner) if j >= 0 and j != i]
    run.close()
    require_uniform(np.histogram(partners, bins=7, range=(0.5, 63.5))[0], "partners")
    edges = np.array([0, 0.02, 0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9, 0.98])
    exact = beta_probabilities(alpha, edges)  # without the last interval, where a share may be rounded to 1
    counts, total = np.histogram(shares, bins=edges)[0], STEPS * ROWS * (ROWS - 1) / ROWS
    bound = 5 * np.sqrt(total * exact * (1 - exact)) + 5
    assert (np.abs(counts - total * exact) < bound).all(), (counts, total * exact)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_values_of_training_and_prediction_have_their_own_gradients(engine):
    program = Program(seed=1)
    x = program.input("x", "float32", ("n", 3))
    weight = program.parameter("weight", (3,))
    y = ops.when_training(x * weight * 2.0, x * weight * 5.0)
    loss = ops.sum(y)
    program.minimize(loss, sgd(0.1))
    [gradient] = gradients(loss, [x])
    program.outputs(y=y, gradient=gradient)
    run = Run(program.compile(n=2), engine=engine)
    before = run.state["weight"].copy()
    rows = np.arange(6, dtype="float32").reshape(2, 3)
    outside = run.predict(rows)
    np.testing.assert_allclose(outside["y"], rows * before * 5, rtol=1e-6)
    np.testing.assert_allclose(outside["gradient"], np.broadcast_to(before * 5, (2, 3)), rtol=1e-6)
    run.step({"x": rows})
    np.testing.assert_allclose(run.state["weight"], before - 0.1 * 2 * rows.sum(axis=0), rtol=1e-5)
    run.close()


def test_a_step_of_training_computes_nothing_of_the_prediction_and_the_reverse():
    program = Program(seed=1)
    x = program.input("x", "float32", ("n", 3))
    y = ops.when_training(ops.sin(x), ops.cos(x)) * program.parameter("weight", (3,))
    program.minimize(ops.mean(y), sgd(0.1))
    program.outputs(y=y)
    compiled = program.compile(n=2)

    def kinds(entry):
        return {op.type for op in bound_block(compiled.desc, entry).ops}

    assert kinds("train") >= {"sin"}
    assert not kinds("train") & {"cos", "when_training"}
    assert kinds("predict") >= {"cos"}
    assert not kinds("predict") & {"sin", "when_training"}


X = ("n", 8, 8, 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: ops.random_flip(x, axis=0), "axis 0 is the rows, which are not reversed"),
        (lambda x: ops.random_flip(x, probability=1.5), "probability=1.5 is not in [0, 1]"),
        (lambda x: ops.random_crop(x, padding=-1), "padding=-1 is not one or two numbers from 0 on"),
        (lambda x: ops.random_crop(x, padding=(1, 2, 3)), "padding=(1, 2, 3) is not one or two numbers from 0 on"),
        (lambda x: ops.random_colour(x, contrast=2.0), "contrast=2.0 is not in [0, 1]"),
        (lambda x: ops.random_colour(x[..., :1], saturation=0.5), "saturation is of 3 channels, and x has 1"),
        (lambda x: ops.random_noise(x, deviation=-1.0), "deviation=-1.0 is negative"),
        (lambda x: ops.random_cutout(x, size=0), "size=0 is not one or two numbers from 1 on"),
        (lambda x: ops.mixup(x, x, alpha=0.0), "alpha=0.0 is not positive"),
        (
            lambda x: ops.when_training(x, x[..., :1]),
            "prediction is float32[n, 8, 8, 1], not float32[n, 8, 8, 3] as training is",
        ),
    ],
)
def test_a_call_that_cannot_be_meant_says_why(call, message):
    assert told(OpError, lambda: call(Program().input("x", "float32", X))).endswith(f": {message}")


def test_floats_are_needed_where_numbers_are_computed():
    x = Program().input("x", "uint8", X)
    with pytest.raises(OpError, match=r"random_noise\(x: uint8\[n, 8, 8, 3\]\): .*float32 or float64"):
        ops.random_noise(x)


def augmented_digits():
    """Return a training run of 61 rows in steps of 8, with every augmentation."""
    program = Program("augmented", seed=4)
    image = program.input("image", "uint8", ("batch", 8, 8, 3))
    label = program.input("label", "int64", ("batch",))
    x = ops.random_crop(ops.random_flip(image), padding=1)
    x = ops.random_colour(ops.cast(x, dtype="float32") / 255.0, brightness=0.2, contrast=0.2, saturation=0.2)
    x = ops.random_cutout(ops.random_noise(x), size=2)
    x, target = ops.mixup(x, ops.one_hot(label, depth=4))
    logits = layers.dense(ops.relu(layers.dense(ops.reshape(x, shape=("batch", -1)), "hidden", 64)), "output", 4)
    program.minimize(ops.cross_entropy(logits, target), adam(1e-2))
    program.data("rows.safetensors", splits={"train": "train"}, shuffle=True, remainder="drop")
    program.training(epochs=3)
    return program


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ENGINES)
def test_an_augmented_run_repeats_and_resumes_bit_for_bit(engine, tmp_path):
    rng = np.random.default_rng(8)
    rows = {"image": rng.integers(0, 256, (64, 8, 8, 3)).astype("uint8"), "label": rng.integers(0, 4, 64)}
    data.write(tmp_path / "rows.safetensors", rows, splits={"train": np.arange(61)})
    augmented_digits().compile(batch=8).save(tmp_path / "program.pb")

    def loaded(seed=None):
        return Run(load(tmp_path / "program.pb"), tmp_path, engine=engine, seed=seed, threads=2)

    whole, again, other = loaded(), loaded(), loaded(seed=5)
    for run in (whole, again, other):
        run.train()
    assert whole.state_sha256 == again.state_sha256 != other.state_sha256

    first = loaded()
    events = first.events(checkpoint=tmp_path / "saved", every=5)
    for _ in range(14):
        next(events)
    events.close()
    second = loaded()
    second.resume(tmp_path / "saved")
    assert 0 < second.position.steps < 24
    second.train()
    assert second.state_sha256 == whole.state_sha256
