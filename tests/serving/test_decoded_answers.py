"""Answers in the units of the data: images in requests, and `--decode` for encoded arrays, on both engines."""

from __future__ import annotations

import io
import json
import logging
from base64 import b64encode
from pathlib import Path

import numpy as np
import pytest
from subjects.serving import JSON, NPY, Serving, ask, refusal

import prograd
from prograd import Program, adam, layers, ops
from runtime.__main__ import main
from runtime.memory.limit import MemoryLimit
from runtime.serving.image_requests import ImageRequests
from runtime.serving.rare_warnings import rare_warnings

pytestmark = pytest.mark.usefixtures("here")


def prices(engine: str) -> prograd.Run:
    """Prices of areas, whose label is scaled; a second output has numbers of the label by another name."""
    area = np.linspace(40, 200, 64)
    rows = {"area": area, "price": 2000 * area + 1e4, "kind": [("flat", "house")[int(a > 100)] for a in area]}
    prograd.data.pack(rows, "prices.safetensors", standardise=["area", "price"])
    program = Program("prices", seed=1)
    x, price = program.input("area", "float32", ("batch",)), program.input("price", "float32", ("batch",))
    kind = program.input("kind", "int64", ("batch",))
    hidden = ops.relu(layers.dense(x[:, None], "hidden", 32))
    found, scores = layers.dense(hidden, "price", 1)[:, 0], layers.dense(hidden, "kind", 2)
    program.minimize(ops.squared_error(found, price) + ops.softmax_cross_entropy(scores, kind), adam(0.02))
    program.outputs(price=found, kinds=ops.argmax(scores))
    program.data("prices.safetensors", remainder="drop")
    program.training(epochs=60)
    program.compile(batch=(32, 1)).save("prices.pb")
    run = prograd.load("prices.pb", engine=engine)
    run.train(progress=False)
    return run


def found(port: int, body: object, **more: str) -> object:
    status, _, content = ask(port, json.dumps(body).encode(), **more)
    assert status == 200, content
    return json.loads(content)


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_encoded_arrays_are_answered_in_units_of_the_columns(engine: str):
    run = prices(engine)
    rows = prograd.data.encode({"area": [50.0, 150.0]}, "prices.safetensors")
    wanted = prograd.data.decode(run.predict(rows)["price"], "price", "prices.safetensors")
    with Serving(run, decode={"price": "price", "kinds": "kind"}) as serving:
        arrays = found(serving.port, {"area": rows["area"].tolist()}, path="/predict?raw=false")
        table = found(serving.port, [{"area": 50.0}, {"area": 150.0}])
        described = json.loads(ask(serving.port, path="/")[2])
        one = ask(serving.port, json.dumps({"area": [0.0]}).encode(), path="/predict?fetch=price&raw=false", Accept=NPY)
        assert refusal(serving.port, b'{"area": [0.0]}', path="/predict?fetch=kinds&raw=false", Accept=NPY) == (
            406, "'kinds' is decoded to texts, which application/x-npy does not have; accept application/json",
        )  # fmt: skip
    assert isinstance(arrays, dict)
    assert arrays["kinds"] == ["flat", "house"] == [row["kind"] for row in table]
    np.testing.assert_allclose(arrays["price"], wanted, rtol=1e-5)
    np.testing.assert_allclose([row["price"] for row in table], wanted, rtol=1e-5)
    assert described["decoded"] == {"price": "price", "kinds": "kind"}
    assert np.load(io.BytesIO(one[2])).dtype == np.float64


def test_scaled_numbers_are_warned_of_once(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING, "prograd"), Serving(prices("reference")) as serving:
        for _ in range(2):
            found(serving.port, {"area": [0.0]}, path="/predict?raw=false")
    assert caplog.messages == [
        "a request with encoded arrays got 'price' as the program computes it, not in units of 'price'; send rows of "
        "the table, or ask for --decode price=price"
    ]


@pytest.mark.parametrize(
    ("decode", "said"),
    [
        ("prices=price", "--decode prices: the entry 'predict' has no fetch 'prices'; did you mean 'price'?"),
        ("price=prise", "the packed rows have no column 'prise'; did you mean 'price'?"),
        ("price=", "--decode price=: write NAME or NAME=COLUMN"),
    ],
)
def test_what_cannot_be_decoded_is_refused_at_the_start(decode: str, said: str, capsys: pytest.CaptureFixture[str]):
    prices("reference").save("t.safetensors")
    words = ["serve", "prices.pb", "--load", "t.safetensors", "--port", "0", "-q", "--max-time", "10ms"]
    capsys.readouterr()
    assert main([*words, "--decode", decode]) in (2, 4)
    assert capsys.readouterr().err == f"runtime: {said}\n"


def photos(engine: str) -> prograd.Run:
    pytest.importorskip("PIL.Image", reason="images are an extra")
    for number in range(8):
        for kind, value in (("dark", 10 + number), ("light", 200 + number)):
            Path("photos", kind).mkdir(parents=True, exist_ok=True)
            Path("photos", kind, f"{number}.png").write_bytes(png(value))
    prograd.data.pack("photos", "photos.safetensors", size=(8, 8))
    program = Program("photos", seed=1)
    image, label = program.input("image", "uint8", ("batch", 8, 8, 3)), program.input("label", "int64", ("batch",))
    x = ops.reshape(ops.cast(image, dtype="float32") / 255.0, shape=("batch", 192)) - 0.5
    scores = layers.dense(x, "scores", 2)
    program.minimize(ops.softmax_cross_entropy(scores, label), adam(0.01))
    program.outputs(probabilities=ops.softmax(scores))
    program.data("photos.safetensors")
    program.training(epochs=10)
    program.compile(batch=(4, 1)).save("photos.pb")
    run = prograd.load("photos.pb", engine=engine)
    run.train(progress=False)
    return run


def test_images_that_are_read_in_part_are_counted(caplog: pytest.LogCaptureFixture):
    from PIL import Image

    run = photos("reference")
    first, second = (Image.fromarray(np.full((8, 8, 3), value, np.uint8)) for value in (20, 230))
    stream = io.BytesIO()
    first.save(stream, "GIF", save_all=True, append_images=[second])
    clear = io.BytesIO()
    Image.fromarray(np.full((8, 8, 4), 20, np.uint8)).save(clear, "PNG")
    caplog.clear()
    with caplog.at_level(logging.WARNING, "prograd"), rare_warnings(), Serving(run) as serving:
        for _ in range(10):
            status, _, body = ask(serving.port, stream.getvalue(), "image/gif")
        assert (status, json.loads(body)["label"]) == (200, "dark")
        found(serving.port, [{"image": b64encode(image).decode()} for image in (png(20), clear.getvalue())])
    frames = "1 of 1 images have several frames or pages, row 0 the first; the first one of each is read"
    assert [message for message in caplog.messages if "images" in message] == [
        frames,
        f"{frames}; so far in 10 rows",
        "1 of 2 images have transparent pixels, row 1 the first; their colours are kept as if they were opaque",
    ]


def png(value: int, size: int = 12) -> bytes:
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(np.full((size, size, 3), value, np.uint8)).save(stream, "PNG")
    return stream.getvalue()


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_images_are_answered_with_classes(engine: str):
    run = photos(engine)
    Path("new.png").write_bytes(png(230))
    wanted = run.predict("new.png")["probabilities"][0].tolist()
    text = b64encode(png(230)).decode()
    with Serving(run) as serving:
        status, headers, body = ask(serving.port, png(230), "image/png")
        one = found(serving.port, {"image": text, "name": "x"})
        two = found(serving.port, [{"image": f"data:image/png;base64,{text}"}, {"image": b64encode(png(20)).decode()}])
        arrays = found(serving.port, {"image": np.full((1, 8, 8, 3), 230).tolist()})
        described = json.loads(ask(serving.port, path="/")[2])
    assert (status, headers["Content-Type"]) == (200, JSON)
    assert json.loads(body) == one
    assert one["label"] == "light"
    np.testing.assert_allclose([*one["probabilities"].values()], wanted, rtol=1e-5)
    assert [row["label"] for row in two] == ["light", "dark"]
    np.testing.assert_allclose(arrays["probabilities"], [wanted], rtol=1e-5)
    assert described["columns"] == {"image": "image"}
    assert "image/jpeg" in described["forms"]


def test_bad_images_are_one_sentence():
    with Serving(photos("reference")) as serving:
        for body, said in (
            ({"image": "x!"}, "row 0: 'image' is not base64; encode the bytes of an image file"),
            (
                [{"image": b64encode(png(1)).decode()}, 3],
                "row 1 has no 'image'; give an image file in base64, as a text",
            ),
            ({"picture": "eHh4"}, "row 0 has no 'image'; give an image file in base64, as a text"),
            ({"image": "eHh4"}, "row 0: the image cannot be read: it is none that pillow knows, or is damaged"),
        ):
            assert refusal(serving.port, json.dumps(body).encode()) == (400, said)
        status, _, content = ask(serving.port, png(1), "image/png", Accept=NPY)
        assert (status, json.loads(content)["error"]) == (
            406, "images are answered as application/json, and Accept asks for application/x-npy",
        )  # fmt: skip


def test_an_image_of_few_bytes_and_many_pixels_takes_memory_that_is_asked_for():
    requests = ImageRequests(photos("reference").session, "predict", {})
    bomb = png(0, size=2000)
    assert len(bomb) < 40_000
    with pytest.raises(prograd.ResourceLimit, match="the image"):
        requests.read(bomb, MemoryLimit(1 << 20), form="image/png")
    assert requests.read(bomb, MemoryLimit(1 << 26), form="image/png") is not None
