"""Predictions for an image, and for a folder of images, by the names of the files."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import prograd
from compiler.__main__ import main as compiler_main
from prograd import Program, adam, layers, ops
from runtime.__main__ import main
from runtime.commands.tables import predict

PREDICT = ["execute", "p.pb", "-q", "--entry", "predict", "--load", "t.safetensors"]


def paint(path: str, value: int, size: int = 8) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((size, size, 3), value, np.uint8)).save(path)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A trained classifier of dark and light images, and a folder of new ones."""
    monkeypatch.chdir(tmp_path)
    for number in range(8):
        paint(f"photos/dark/{number}.png", 10 + number)
        paint(f"photos/light/{number}.png", 200 + number)
    assert compiler_main(["data", "pack", "photos", "-o", "rows.safetensors"]) == 0
    program = Program("photos", seed=1)
    image, label = program.input("image", "uint8", ("batch", 8, 8, 3)), program.input("label", "int64", ("batch",))
    x = ops.reshape(ops.cast(image, dtype="float32") / 255.0, shape=("batch", 192)) - 0.5
    scores = layers.dense(x, "scores", 2)
    program.minimize(ops.softmax_cross_entropy(scores, label), adam(0.01))
    program.outputs(probabilities=ops.softmax(scores))
    program.data("rows.safetensors")
    program.training(epochs=10)
    program.compile(batch=4).save("p.pb")
    assert main(["execute", "p.pb", "-q", "--save", "t.safetensors"]) == 0
    for name, value in (("b.png", 12), ("a.png", 220), ("more/c.png", 15), ("more/d.png", 250), ("e.png", 9)):
        paint(f"new/{name}", value)
    Path("new/notes.txt").write_text("not an image")
    return tmp_path


@pytest.mark.parametrize("bytes_of_a_piece", [1 << 26, 400])
def test_each_image_has_a_row_by_its_name(monkeypatch: pytest.MonkeyPatch, bytes_of_a_piece: int):
    monkeypatch.setattr(predict, "_IMAGE_BYTES", bytes_of_a_piece)
    assert main([*PREDICT, "--data", "new", "--out", "o.csv"]) == 0
    lines = [line.split(",") for line in Path("o.csv").read_text().splitlines()]
    assert lines[0] == ["id", "label", "probabilities.dark", "probabilities.light"]
    assert {line[0]: line[1] for line in lines[1:]} == {
        "a.png": "light", "b.png": "dark", "e.png": "dark", "more/c.png": "dark", "more/d.png": "light",
    }  # fmt: skip
    run = prograd.load("p.pb")
    run.load("t.safetensors")
    shutil.rmtree("new/more")
    found = run.predict(prograd.data.encode("new", "rows.safetensors"))["probabilities"]
    assert [float(line[2]) for line in lines[1:4]] == pytest.approx(found[:, 0].tolist(), rel=1e-6)


def test_arrays_train_and_predict_with_a_program_of_images():
    run = prograd.load("p.pb")
    rows = prograd.data.encode("photos", "rows.safetensors")
    run.train(data=rows, epochs=5)
    assert run.evaluate(rows)["loss"] < 0.1
    assert run.predict({"image": rows["image"]})["probabilities"].argmax(axis=1).tolist() == rows["label"].tolist()


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main([*PREDICT, *words]) in (2, 4)
    said = capsys.readouterr().err
    assert not Path("o.csv").exists()
    return said.removeprefix("runtime: ").rstrip("\n")


def test_what_does_not_fit_is_one_sentence(capsys: pytest.CaptureFixture[str]):
    out = ("--out", "o.csv")
    capsys.readouterr()
    assert refused(capsys, "--data", "new", "--entry", "evaluate") == (
        "new: it has images in no folder of a class, and 'label' is read too; only predictions take images alone: "
        "--entry predict"
    )
    assert refused(capsys, "--data", "none.png") == "none.png: the image cannot be read: No such file or directory"
    assert refused(capsys, "--data", "new", *out, "--id", "name") == (
        "--id name names a column of a table, and images have the names of their files as id"
    )
    paint("new/large.png", 3, size=9)
    assert refused(capsys, "--data", "new", *out) == (
        "new/large.png: the image is 9 x 9, and those packed are 8 x 8; resize it to 8 x 8"
    )
    Path("new/large.png").write_bytes(b"PNG")
    assert refused(capsys, "--data", "new", *out) == (
        "new/large.png: the image cannot be read: it is none that pillow knows, or is damaged"
    )
    Path("empty").mkdir()
    assert refused(capsys, "--data", "empty", *out) == (
        "empty: there are no images in this folder; their names end in .png, .jpg, .jpeg, .bmp, .gif, .webp, .tif, "
        ".tiff, .ppm, .pgm"
    )


def test_a_program_without_images_reads_no_folder(capsys: pytest.CaptureFixture[str]):
    program = Program("sizes", seed=1)
    size = program.input("size", "float32", ("batch",))
    program.outputs(double=size * 2.0)
    prograd.data.pack({"size": [1.0, 2.0]}, "sizes.safetensors")
    program.data("sizes.safetensors")
    program.compile(batch=2).save("sizes.pb")
    capsys.readouterr()
    assert main(["execute", "sizes.pb", "-q", "--entry", "predict", "--data", "new", "--out", "o.csv"]) == 4
    assert capsys.readouterr().err == ("runtime: the entry 'predict' reads 'size', which was packed of no images\n")
    assert main(["execute", "sizes.pb", "-q", "--entry", "predict", "--data", "new/a.png"]) == 4
    assert capsys.readouterr().err == (
        "runtime: new/a.png: this is an image, and the rows of the program were not packed of images\n"
    )


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_images_are_rows_of_any_entry(engine: str, capsys: pytest.CaptureFixture[str]):
    words = [*PREDICT, "--engine", engine]
    assert main([*words, "--data", "new", "--decode", "probabilities=label"]) == 0
    assert capsys.readouterr().out.splitlines()[-2] == (
        "probabilities: text[5] = ['light', 'dark', 'dark', 'dark', 'light']"
    )
    assert main([*words, "--data", "new/a.png", "--decode", "probabilities=label"]) == 0
    assert capsys.readouterr().out.splitlines()[-2] == "probabilities: text[1] = ['light']"
    assert main([*words, "--data", "new/a.png", "--out", "one.csv"]) == 0
    assert Path("one.csv").read_text().splitlines()[1].startswith("a.png,light,")
    capsys.readouterr()
    assert main([*words[:-2], "--entry", "evaluate", "--data", "photos"]) == 0  # folders are labels
    of_folder = capsys.readouterr().out.split(" wall=")[0]
    assert main([*words[:-2], "--entry", "evaluate"]) == 0
    assert of_folder == capsys.readouterr().out.split(" wall=")[0]


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_run_predicts_for_what_a_path_names(engine: str):
    run = prograd.load("p.pb", engine=engine)
    run.load("t.safetensors")
    found = run.predict("new")
    assert found["id"].tolist() == ["a.png", "b.png", "e.png", "more/c.png", "more/d.png"]
    assert found["label"].tolist() == ["light", "dark", "dark", "dark", "light"]
    one = run.predict(Path("new/more/d.png"))
    assert (one["id"].tolist(), one["label"].tolist()) == (["d.png"], ["light"])
    np.testing.assert_allclose(one["probabilities"], found["probabilities"][4:], rtol=1e-6)


def test_paths_that_name_no_rows_are_one_sentence():
    run = prograd.load("p.pb")
    for name, sentence in (
        ("neu", "'neu' is neither a table nor an image, nor a split of the data; name a table, an image or a folder of "
         "images, or give arrays"),
        ("none.png", "none.png: the image cannot be read: No such file or directory"),
    ):  # fmt: skip
        with pytest.raises((prograd.UsageError, prograd.DataError)) as caught:
            run.predict(name)
        assert str(caught.value) == sentence


@pytest.mark.parametrize("suffix", ["gif", "tif", "webp", "png"])
def test_frames_behind_the_first_are_counted(caplog: pytest.LogCaptureFixture, suffix: str):
    first, *others = [Image.fromarray(np.full((8, 8, 3), value, np.uint8)) for value in (20, 210, 90)]
    Path("moving/dark").mkdir(parents=True)
    first.save(
        f"moving/dark/0.{suffix}",
        save_all=True,
        append_images=others,
        **({"lossless": True} if suffix == "webp" else {}),
    )
    first.save("moving/dark/1.png")
    told = (
        f"1 of 2 images have several frames or pages, moving/dark/0.{suffix} the first; the first one of each is read"
    )
    prograd.data.pack("moving", "moving.safetensors")
    assert [record.getMessage() for record in caplog.records if "frames" in record.getMessage()] == [told]
    caplog.clear()
    found = prograd.load("p.pb").predict("moving")
    assert [record.getMessage() for record in caplog.records if "frames" in record.getMessage()] == [told]
    np.testing.assert_array_equal(found["probabilities"][0], found["probabilities"][1])


def test_transparent_pixels_are_counted_in_packed_and_in_new_images(caplog: pytest.LogCaptureFixture):
    Path("clear/dark").mkdir(parents=True)
    pixels = np.full((8, 8, 4), 20, np.uint8)
    Image.fromarray(pixels).save("clear/dark/0.png")
    pixels[:, :, 3] = 255
    Image.fromarray(pixels).save("clear/dark/1.png")
    told = [
        "1 of 2 images have transparent pixels, clear/dark/0.png the first; "
        "their colours are kept as if they were opaque"
    ]
    prograd.data.pack("clear", "clear.safetensors")
    assert [record.getMessage() for record in caplog.records if "transparent" in record.getMessage()] == told
    caplog.clear()
    prograd.load("p.pb").predict("clear")
    assert [record.getMessage() for record in caplog.records if "transparent" in record.getMessage()] == told
