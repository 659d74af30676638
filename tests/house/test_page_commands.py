"""The commands of pages whose code runs elsewhere do what a page says, beside the files that it takes for granted."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from subjects.encoders import made_encoder
from subjects.language_model import made_folder

from compiler.__main__ import main as compiler
from prograd import Program, data, layers, ops, sgd
from runtime.__main__ import main as runtime

ROOT = Path(__file__).parents[2]
PAGES = [path for pattern in ("*.md", "docs/**/*.md", "examples/*.md", "*/README.md") for path in ROOT.glob(pattern)]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^ {4}\$ ((?:[^\n]*\\\n)*[^\n]*)$", re.MULTILINE)
MAINS = {"runtime": runtime, "compiler": compiler}
RUN_BY = {
    "README.md": "test_docs",
    "docs/ahead.md": "test_hosts",  # of tests/ahead
    "docs/commands.md": "test_doc_blocks",
    "docs/control-flow.md": "test_page",
    "docs/evidence.md": "test_audit",  # of tests/evidence
    "docs/int8.md": "test_int8",  # of tests/building, and test_onnx_integers of tests/importing
    "docs/index.md": "test_doc_blocks",
    "docs/metrics.md": "test_doc_blocks",
    "docs/plugins.md": "test_doc_blocks",
    "docs/reproducibility.md": "test_doc_blocks",
    "docs/serving.md": "test_doc_blocks",
    "docs/from-paddle.md": "test_from_paddle",  # of tests/frontends, which needs PaddlePaddle
    "docs/from-pytorch.md": "test_import_command",  # of tests/frontends, which needs PyTorch
    "docs/data.md": "test_page_commands",
    "docs/language-models.md": "test_page_commands",
    "docs/layers.md": "test_page_commands",
    "docs/retraining.md": "test_page_commands",
    "docs/training.md": "test_page_commands",
    "examples/README.md": "test_page_commands",
    **{
        f"docs/guide/{name}.md": "test_guide"
        for name in (
            "first-program",
            "data",
            "training",
            "looking",
            "serving",
            "loops",
            "images",
            "tables-texts-series",
        )
    },
}


def test_every_page_with_commands_has_a_test_that_runs_them():
    with_commands = {str(page.relative_to(ROOT)) for page in PAGES if COMMAND.search(page.read_text(encoding="utf-8"))}
    assert with_commands == set(RUN_BY)


def do(command: str) -> None:
    name, *arguments = shlex.split(command, comments=True)
    assert MAINS[name](arguments) == 0, command


def test_the_commands_of_the_page_about_rows(here: Path, capsys: pytest.CaptureFixture[str]):
    pillow = pytest.importorskip("PIL.Image")
    pack, show, write, predict, like, photos = commands(ROOT / "docs/data.md")
    rng = np.random.default_rng(0)
    lines = ["name,age,height,city,species"]
    for i in range(150):
        age = "" if i == 5 else f"{10 * (i % 3) + rng.integers(5)}"
        lines.append(f"n{i},{age},{rng.normal(1, 0.1):.2f},{('Rome', 'Oslo')[i % 2]},{('bird', 'cat', 'dog')[i % 3]}")
    Path("people.csv").write_text("\n".join(lines))
    do(pack)
    [said] = re.findall(r"^    (OK rows=.*)$", (ROOT / "docs/data.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert capsys.readouterr().out.strip() == said
    do(show)
    program = Program("people", seed=1)
    x, species = program.input("x", "float32", ("batch", 2)), program.input("species", "int64", ("batch",))
    logits = layers.dense(x, "out", 3)
    program.minimize(ops.softmax_cross_entropy(logits, species), sgd(0.3))
    program.outputs(probabilities=ops.softmax(logits))
    program.data("rows.safetensors", splits={"train": "train"}, shuffle=True, remainder="drop")
    program.training(epochs=60)
    program.compile(batch=4).save("p.pb")
    do("runtime execute p.pb -q --save trained.safetensors")
    Path("new.csv").write_text("age,height,city,species\n10,1.0,Rome,cat\n22,1,Oslo,dog\n11,1,Oslo,cat\n")
    capsys.readouterr()
    do(write)
    with open("predictions.csv", newline="") as file:
        assert [row["species"] for row in csv.DictReader(file)] == ["cat", "dog", "cat"]
    capsys.readouterr()
    do(predict)
    assert capsys.readouterr().out.splitlines()[0] == "probabilities: text[3] = ['cat', 'dog', 'cat']"
    do(like)
    assert load_file("new.safetensors")["species"].tolist() == [1, 2, 1]
    Path("new.safetensors").unlink()
    for folder in ("before/a", "photos/b"):
        Path(folder).mkdir(parents=True)
        pillow.fromarray(np.zeros((4, 4, 3), np.uint8)).save(f"{folder}/one.png")
    do("compiler data pack before -o images.safetensors")
    Path("photos/a").mkdir()
    pillow.fromarray(np.ones((4, 4, 3), np.uint8)).save("photos/a/one.png")
    shutil.rmtree("photos/b")
    do(photos)
    assert load_file("new.safetensors")["image"].max() == 1


def test_the_commands_of_the_page_about_applications(here: Path):
    shutil.copy(ROOT / "examples/documents.pb", "clerk.pb")
    for name in ("all", "more", "new"):
        shutil.copy(ROOT / "examples/documents.safetensors", f"{name}.safetensors")
    for command in commands(ROOT / "docs/retraining.md"):  # in processes of their own, which have limits of memory
        asked = [sys.executable, "-m", *shlex.split(command, comments=True), "-q"]
        subprocess.run(asked, env=environment(), check=True, capture_output=True)
    kinds = np.load("kinds.npy")
    rows = load_file("new.safetensors")
    assert np.mean(kinds == rows["kind"][rows["test"]]) > 0.9


def test_the_commands_of_the_page_about_training(here: Path, capsys: pytest.CaptureFixture[str]):
    page = ROOT / "docs/training.md"
    for name in ("settings.pb", "plateau.pb"):
        [code] = [block for block in BLOCK.findall(page.read_text(encoding="utf-8")) if f'save("{name}' in block]
        subprocess.run([sys.executable, "-W", "error", "-c", code], env=environment(), check=True)
    stopping, command = commands(page)
    do(f"{stopping} -q")
    best = capsys.readouterr().out
    assert " set.patience=5 " in best
    assert len([*Path("run1").glob("step-*")]) in (4, 5, 6)  # the newest three, and the best three, which may be newer
    do(f"{command} -q")
    [wanted] = re.findall(r"set\.rate=\S+ set\.decay=.* set\.limit=\S+", page.read_text(encoding="utf-8"))
    assert wanted in capsys.readouterr().out


def test_the_commands_of_the_page_about_language_models(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    install, pack, tune, train, evaluate, chat, *others, serve = commands(ROOT / "docs/language-models.md")
    encoders, merges = others[:6], others[6:]
    assert install == 'pip install "prograd[native,lm]"'
    made_folder(Path("smollm2"), max_position_embeddings=512)
    turns = [[{"role": "user", "content": f"who is {n} ?"}, {"role": "assistant", "content": "me"}] for n in range(64)]
    Path("chats.jsonl").write_text("".join(json.dumps({"messages": turn}) + "\n" for turn in turns))
    for command in (pack, tune, f"{train} -q", f"{evaluate} -q"):
        do(command)
    monkeypatch.setattr(sys, "stdin", io.StringIO("who is 7 ?\n"))
    capsys.readouterr()
    do(f"{chat} --most 4 -q")
    assert " codes=4 " in capsys.readouterr().out
    for command in merges:
        do(command)
    do(f"{serve} --port 0 --max-time 1ms -q")
    made_encoder(Path("bert"), max_position_embeddings=128)
    Path("reviews.csv").write_text("text,label\n" + "this was a good film,fine\na poor film,bad\n" * 16)
    Path("new.jsonl").write_text('{"text": "a good film"}\n')
    capsys.readouterr()
    for command in encoders:
        do(command)
    assert "probabilities: text[1] = ['" in capsys.readouterr().out
    assert json.loads(Path("judge/config.json").read_text())["id2label"] == {"0": "bad", "1": "fine"}


def test_the_commands_of_the_page_about_layers(here: Path):
    """Weights of an encoder, and of the stem of a residual network, by the names of PyTorch's modules."""
    rng = np.random.default_rng(0)
    tune, stem = commands(ROOT / "docs/layers.md")
    data.write("rows.safetensors", {"x": np.ones((4, 5, 4), "f"), "image": np.ones((4, 5, 5, 3), "f")})
    at = "encoder.layers.0."
    shapes = {"self_attn.in_proj_": (12, 4), "self_attn.out_proj.": (4, 4), "linear1.": (6, 4), "linear2.": (4, 6)}
    weights = {f"{at}{name}weight": rng.random(shape, "f") for name, shape in shapes.items()}
    weights |= {f"{at}{name}bias": rng.random(shape[0], "f") for name, shape in shapes.items()}
    weights |= {f"{at}norm{i}.{name}": rng.random(4, "f") for i in (1, 2) for name in ("weight", "bias")}
    save_file(weights | {"decoder.weight": np.ones(3, "f")}, "model.safetensors")

    program = Program("tune")
    x = program.input("x", "float32", ("batch", 5, 4))
    with program.scope("encoder"):
        program.outputs(y=layers.transformer_block(x, "block0", 2, width=6))
    program.data("rows.safetensors", shuffle=False, remainder="drop")
    program.compile(batch=4).save("tune.pb")
    do(f"{tune} -q --save tuned.safetensors")
    found = load_file("tuned.safetensors")
    np.testing.assert_array_equal(found["encoder.block0.forward1.w"], weights[f"{at}linear1.weight"].T)

    weights = {"conv1.weight": rng.random((4, 3, 3, 3), "f")}
    weights |= {f"bn1.{name}": rng.random(4, "f") for name in ("weight", "bias", "running_mean", "running_var")}
    save_file(weights, "model.safetensors")
    program = Program("resnet")
    image = program.input("image", "float32", ("batch", 5, 5, 3))
    program.outputs(y=layers.conv_norm(image, "stem", 4))
    program.freeze("*")
    program.data("rows.safetensors", shuffle=False, remainder="drop")
    program.compile(batch=4).save("resnet.pb")
    do(f"{stem} -q --entry predict --save loaded.safetensors")
    found = load_file("loaded.safetensors")
    np.testing.assert_array_equal(found["stem.variance"], weights["bn1.running_var"])
    np.testing.assert_array_equal(found["stem.w"][1, 2], weights["conv1.weight"][:, :, 1, 2].T)


@pytest.mark.thorough
def test_the_commands_of_the_page_about_examples(here: Path):
    """Run with one epoch instead of many; a script builds exactly the committed file."""
    shutil.copytree(ROOT / "examples", "examples")
    for command in commands(ROOT / "examples/README.md"):
        name, *arguments = shlex.split(command.replace("--epochs 20", "--epochs 1"), comments=True)
        if name == "runtime":
            epochs = [] if "--epochs" in arguments or "--entry" in arguments else ["--epochs", "1"]
            arguments = ["-P", "-m", "runtime", *arguments, *epochs, "-q"]
        done = subprocess.run(
            [sys.executable, "-W", "error", *arguments], env=environment(), capture_output=True, text=True
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert "--decode" not in command or done.stdout.startswith("text: text[1] = \n")
    assert Path("examples/resnet.pb").read_bytes() == (ROOT / "examples/resnet.pb").read_bytes()


def commands(page: Path) -> list[str]:
    """Return the commands that a page shows after `$`, with continued lines joined."""
    return [command.replace("\\\n", "") for command in COMMAND.findall(page.read_text(encoding="utf-8"))]


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
