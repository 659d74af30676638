"""docs/from-paddle.md: networks of PaddlePaddle come in by paddle2onnx; each conversion has a process of its own.

PADDLE names the Python of an environment with paddlepaddle and paddle2onnx, where that is not this one.
"""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import prograd
from compiler.__main__ import main
from prograd import adam, ops

PAGE = Path(__file__).parents[2] / "docs" / "from-paddle.md"
PYTHON = os.environ.get("PADDLE", sys.executable)
HAS_PADDLE = not subprocess.run([PYTHON, "-c", "import paddle2onnx, paddle"], capture_output=True).returncode

pytestmark = pytest.mark.skipif(not HAS_PADDLE, reason="needs pip install paddlepaddle paddle2onnx packaging")

NETWORK = """
import numpy as np, paddle
paddle.seed(0)
class Net(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = paddle.nn.Conv2D(3, 64, 3, padding=1), paddle.nn.BatchNorm2D(64)
        self.head = paddle.nn.Linear(64, 5)
    def forward(self, image):
        return self.head(paddle.nn.functional.relu(self.norm(self.conv(image))).mean([2, 3]))
net = Net()
net.eval()
image = np.random.default_rng(0).normal(size=(32, 3, 16, 16)).astype("float32")
np.savez("there.npz", image=image, scores=net(paddle.to_tensor(image)).numpy())
paddle.jit.save(net, "net", input_spec=[paddle.static.InputSpec([None, 3, 16, 16], "float32", "image")])
"""


@pytest.fixture(scope="module", params=["net.json", "net.pdmodel"])
def converted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a network and the ONNX file that the page's command makes of it."""
    folder = tmp_path_factory.mktemp("paddle")
    new_form = {"FLAGS_enable_pir_api": "1" if request.param == "net.json" else "0"}
    (folder / "make.py").write_text(NETWORK, encoding="utf-8")  # PaddlePaddle reads the source of forward
    subprocess.run([PYTHON, "make.py"], cwd=folder, env=os.environ | new_form, check=True, capture_output=True)
    _, *words = shlex.split(_commands()[0].replace("net.json", request.param))
    convert = "import sys; from paddle2onnx.command import main; sys.argv[0] = 'paddle2onnx'; main()"
    paths = {"PATH": os.pathsep.join([str(Path(PYTHON).parent), os.environ["PATH"]])}
    subprocess.run([PYTHON, "-c", convert, *words], cwd=folder, env=os.environ | paths, check=True, capture_output=True)
    return folder


def _commands() -> list[str]:
    lines = PAGE.read_text(encoding="utf-8").replace("\\\n", "").splitlines()
    return [line.removeprefix("    $ ") for line in lines if line.startswith("    $ ")]


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_network_predicts_what_paddlepaddle_does_and_trains(
    converted: Path, engine: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(converted)
    there = np.load("there.npz")
    program = prograd.from_onnx("net.onnx")
    scores = program[program.outputs_of_module[0]]
    kind = program.input("kind", "int64", (scores.shape[0],))
    program.minimize(ops.softmax_cross_entropy(scores, kind), adam(0.01))
    run = prograd.Run(program.compile(**{program.symbols[0]: 32}), engine=engine)
    found = run.predict({"image": there["image"]})[program.outputs_of_module[0]]
    np.testing.assert_allclose(found, there["scores"], rtol=1e-5, atol=1e-5)
    trained = {row.name for row in program.tensors_of_file if row.trained}
    assert {"conv2d_0.w_0", "batch_norm2d_0.w_0", "linear_0.w_0", "linear_0.b_0"} <= trained
    rows = {"image": there["image"], "kind": np.arange(32) % 5}
    losses = [float(run.step(rows)["loss"]) for _ in range(30)]
    assert losses[-1] < losses[0] - 0.3


def test_the_command_of_the_page_imports_the_file(converted: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(converted)
    _, command = _commands()
    assert main([*shlex.split(command)[1:], "--force"]) == 0
    there = np.load("there.npz")
    [found] = prograd.load("net.pb").predict({"image": there["image"]}).values()
    np.testing.assert_allclose(found, there["scores"], rtol=1e-5, atol=1e-5)
