"""Programs in WebAssembly, in node and in a browser: the hash of `native.sse2`, which has no multiply-add either."""

# pyright: basic

import contextlib
import functools
import http.server
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
import urllib.request

import numpy as np
import pytest
from ahead.hosts import built
from ahead.test_files_and_errors import refused
from ahead.test_hosts import DIGITS, hash_of_example
from ahead.test_same_bits import EXAMPLES, random_feeds
from safetensors.numpy import save_file

import prograd
from compiler.commands import run_command
from prograd import Program, layers, ops, sgd, zeros

needs_node = pytest.mark.skipif(
    not shutil.which("wasm-ld") or not shutil.which("node"), reason="wasm-ld or node is not installed"
)

READ = """
import fs from "node:fs";
import { open } from "./prograd.mjs";
const read = (path) => Uint8Array.from(fs.readFileSync(path)).buffer;
const name = fs.readdirSync(".").find((path) => path.endsWith(".d.ts")).slice(0, -5);
const net = await open(name, fs.readFileSync(`${name}.wasm`), read(`${name}.states.safetensors`));
"""

EXAMPLE = """
net.set("total_steps", BigInt64Array.of(20n));
let seed = 1;
const bit = () => ((seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0) >>> 8) & 1;
for (let step = 0; step < 20; step++) {
  const image = Uint8Array.from({ length: 2048 }, bit), label = BigInt64Array.from({ length: 32 }, () => BigInt(bit()));
  net.train({ image, label });
}
"""


def in_node(folder, source):
    """Run a script with an instance `net` in node, and return what it prints."""
    (folder / "host.mjs").write_text(READ + source)
    done = subprocess.run(["node", "host.mjs"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@needs_node
def test_node_ends_with_the_hash_of_python(tmp_path):
    folder = built(DIGITS, tmp_path / "site", "--target", "wasm32")
    assert in_node(folder, f"{EXAMPLE}console.log(await net.stateSha256());") == hash_of_example("native.sse2")
    assert (folder / "digits_mlp.wasm").stat().st_size < 200_000


@needs_node
@pytest.mark.thorough
@pytest.mark.parametrize("name", ["digits_cnn", "lstm_series", "gan", "pendulum", "resnet", "sharpness"])
def test_examples_have_the_bits_of_the_native_engine_in_node(tmp_path, name):
    folder = built(EXAMPLES / f"{name}.pb", tmp_path / "site", "--target", "wasm32")
    run = prograd.load(EXAMPLES / f"{name}.pb", engine="native.sse2", threads=1)
    run.state["total_steps"] = 100
    feeds = random_feeds(run, "train", np.random.default_rng(3))
    kinds = {np.dtype("float32"): "Float32Array", np.dtype("int64"): "BigInt64Array", np.dtype("uint8"): "Uint8Array"}
    given = []
    for feed, array in feeds.items():
        (folder / f"{feed}.bin").write_bytes(array.tobytes())
        given.append(f"{json.dumps(feed)}: new {kinds[array.dtype]}(read({json.dumps(feed + '.bin')}))")
    steps = f"for (let i = 0; i < 3; i++) net.train({{ {', '.join(given)} }});"
    said = in_node(
        folder, f'net.set("total_steps", BigInt64Array.of(100n)); {steps} console.log(await net.stateSha256());'
    )
    for _ in range(3):
        run.stepper("train")(**feeds)
    assert said == run.states.sha256()


FIT = """
import { columnsOf } from "./columns.mjs";
const columns = columnsOf(read("rows.safetensors"));
const train = Array.from(columns.train.array, Number), rows = 32, steps = Math.floor(train.length / rows);
net.set("total_steps", BigInt64Array.of(BigInt(8 * steps)));
for (let epoch = 0; epoch < 8; epoch++) {
  net.beginEpoch();
  const order = net.order(train.length, epoch);
  for (let step = 0; step < steps; step++) {
    const rating = new Uint8Array(rows * 12), days = new Float32Array(rows * 12);
    for (let i = 0; i < rows; i++) {
      const row = train[order[step * rows + i]];
      rating.set(columns.rating.array.subarray(12 * row, 12 * row + 12), 12 * i);
      days.set(columns.days.array.subarray(12 * row, 12 * row + 12), 12 * i);
    }
    net.train({ rating, days });
  }
}
console.log(await net.stateSha256());
"""


@needs_node
def test_a_scheduler_of_reviews_is_fitted_in_node_to_the_bits_of_python(tmp_path):
    folder = built(EXAMPLES / "fsrs.pb", tmp_path / "site", "--target", "wasm32")
    shutil.copy(EXAMPLES / "reviews.safetensors", folder / "rows.safetensors")
    run = prograd.load(EXAMPLES / "fsrs.pb", engine="native.sse2", threads=1)
    run.train()
    assert in_node(folder, FIT) == run.states.sha256()
    assert (folder / "fsrs.wasm").stat().st_size < 200_000


RUN = """
import { columnsOf } from "./columns.mjs";
const file = columnsOf(read("rows.safetensors"));
const columns = Object.fromEntries(Object.entries(file).map(([name, { array }]) => [name, array]));
const reports = [];
const said = (report) => reports.push(report);
const done = net.run(columns, { train: columns.train, evaluated: columns.test, said });
console.log(await net.stateSha256(), reports.length, done.best ?? done.evaluation.loss);
try { net.run(columns, { train: [1, 2, 3] }); } catch (error) { console.log(error.message); }
try { net.run({}); } catch (error) { console.log(error.message); }
"""


@needs_node
@pytest.mark.sampled(2)
@pytest.mark.parametrize(("name", "rows"), [("digits_mlp", "digits"), ("digits_cnn", "digits")])
def test_a_whole_run_in_node_ends_with_the_hash_of_python(tmp_path, name, rows):
    folder = built(EXAMPLES / f"{name}.pb", tmp_path / "site", "--target", "wasm32")
    shutil.copy(EXAMPLES / f"{rows}.safetensors", folder / "rows.safetensors")
    run = prograd.load(EXAMPLES / f"{name}.pb", engine="native.sse2", threads=1)
    trained = run.train()
    first, few, none = in_node(folder, RUN).splitlines()
    sha256, epochs, loss = first.split()
    assert sha256 == run.states.sha256()
    assert int(epochs) == len(trained.history["loss"])
    assert float(loss) == trained.metrics["evaluate.loss"]
    assert few == "the rows to train on do not fill the steps of an epoch"
    assert none == "image is not among the columns"


def spoiled(folder, *, loss):
    """A program whose third step makes NaN in a state; if asked, the fourth, of the same epoch, has it in its loss."""
    net = Program("spoiled", seed=1)
    x, w = net.input("x", "float32", ("batch", 3)), net.parameter("w", (3,), zeros())
    count = net.buffer("count", ())
    net.update(count, ops.where(ops.greater(count, 1.5), ops.log(count - 5.0), count + 1.0))
    net.minimize(ops.mean(ops.square(x * w - 1.0)) + (count * 0.0 if loss else 0.0), sgd(0.1))
    net.data("rows.safetensors")
    net.training(epochs=5)
    save_file({"x": np.ones((8 if loss else 4, 3), np.float32)}, folder / "rows.safetensors")
    net.compile(batch=4).save(folder / "spoiled.pb")
    return folder / "spoiled.pb"


@needs_node
@pytest.mark.sampled(2)
@pytest.mark.parametrize("loss", [False, True])
def test_a_run_in_node_ends_with_the_sentence_of_python_about_nan(tmp_path, loss):
    path = spoiled(tmp_path, loss=loss)
    folder = built(path, tmp_path / "site", "--target", "wasm32")
    source = f"""
const columns = {{ x: new Float32Array({24 if loss else 12}).fill(1) }};
try {{ net.run(columns); }} catch (error) {{ console.log(error.message); }}"""
    with pytest.raises(prograd.NonFinite) as caught:
        prograd.load(path, engine="native.sse2", threads=1).train()
    assert in_node(folder, source) == str(caught.value).removesuffix(
        ", and check_nan=True names the op that makes the first one"
    )


@needs_node
def test_an_entry_that_would_hide_what_the_loader_has_is_refused(tmp_path, capsys):
    net = Program("named", seed=1)
    x = net.input("x", "float32", ("batch", 3))
    net.entry("value", y=layers.dense(x, "only", 2))
    net.compile(batch=8).save(tmp_path / "named.pb")
    sentence = "two functions would both be called {}; name the entries to build by --entry"
    assert refused(capsys, tmp_path / "named.pb", "-o", tmp_path / "out", "--target", "wasm32") == (
        f"compiler: {sentence.format('value')}"
    )
    net.entry("run", y=layers.dense(x, "other", 2))
    net.compile(batch=8).save(tmp_path / "named.pb", force=True)
    assert refused(capsys, tmp_path / "named.pb", "-o", tmp_path / "out") == (
        f"compiler: {sentence.format('named_run')}"
    )


@needs_node
def test_initial_values_of_a_seed_in_node_are_those_of_python(tmp_path):
    folder = built(DIGITS, tmp_path / "site", "--target", "wasm32")
    source = f"""{EXAMPLE}
await net.initialise(7, fs.readFileSync("digits_mlp.initialise.wasm"));
console.log(await net.stateSha256());"""
    assert in_node(folder, source) == prograd.load(DIGITS, engine="native.sse2", threads=1, seed=7).states.sha256()


@needs_node
def test_states_go_to_python_and_come_back(tmp_path):
    folder = built(DIGITS, tmp_path / "site", "--target", "wasm32")
    said = in_node(
        folder,
        f"""{EXAMPLE}
const file = net.save();
fs.writeFileSync("trained.safetensors", file);
const before = await net.stateSha256();
net.set("layer1.b", new Float32Array(64));
net.load(file.buffer);
console.log(before === await net.stateSha256());
const cut = (bytes) => {{ try {{ net.load(file.buffer.slice(0, bytes)); }} catch (error) {{ return error.message; }} }};
console.log(cut(5), "|", cut(100), "|", cut(file.length - 1), "|", before === await net.stateSha256());
try {{ net.predict({{ image: new Float32Array(4) }}); }} catch (error) {{ console.log(error.message); }}
try {{ net.set("layer9", new Float32Array(4)); }} catch (error) {{ console.log(error.message); }}
const label = new BigInt64Array(32).fill(10n);
try {{ net.train({{ image: new Uint8Array(2048), label }}); }} catch (error) {{ console.log(error.message); }}
""",
    )
    lines = said.splitlines()
    cut = "the file is cut short, or no file of tensors"
    assert lines[:4] == [
        "true",
        f"{cut} | {cut} | {cut} | true",
        "image is a Uint8Array of 2048 elements",
        "layer9 is no state of the program",
    ]
    assert lines[4].endswith(
        "): label 10 is out of range: there are 10 classes, from 0; row 0 of the feed 'label' has it"
    )
    run = prograd.load(DIGITS, engine="native.sse2", threads=1)
    run.load(folder / "trained.safetensors")


def test_a_missing_linker_is_told(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("runtime.ahead.browser.shutil.which", lambda name: None)
    assert run_command(["build", str(DIGITS), "--target", "wasm32", "-o", str(tmp_path / "site")]) != 0
    assert capsys.readouterr().err.strip() == (
        "compiler: --target wasm32 needs the linker wasm-ld, which is not installed; Debian and Ubuntu have it as lld"
    )


class Browser:
    """A page in headless Chromium, driven by the protocol of WebDriver."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)  # the browser leaves files in it
        environment = {**os.environ, "TMPDIR": self._folder.name}
        command = ["chromedriver", "--port=0"]
        self._driver = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        assert self._driver.stdout is not None
        line = next(line for line in self._driver.stdout if "started successfully on port" in line)
        self._root = f"http://127.0.0.1:{line.rstrip('. ' + chr(10)).rpartition(' ')[2]}/session"
        switches = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
        options = {"args": switches, "binary": shutil.which("chromium")}
        asked = {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}}
        self._root += "/" + self._post("", asked)["sessionId"]

    def _post(self, path, body, method="POST"):
        request = urllib.request.Request(
            self._root + path, json.dumps(body).encode(), {"Content-Type": "application/json"}, method=method
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def open(self, url):
        """Open a page."""
        self._post("/url", {"url": url})

    def script(self, text):
        """Return the value of an expression in the page."""
        return self._post("/execute/sync", {"script": f"return {text}", "args": []})

    def until(self, text):
        """Wait until an expression is true, and return its value."""
        for _ in range(600):
            if value := self.script(text):
                return value
            time.sleep(0.05)
        raise AssertionError(f"{text} stays {self.script(text)}: {self.script('document.body.innerText')}")

    def close(self):
        """End the session, without which the browser would run on, and the driver."""
        with self._folder, self._driver:
            try:
                self._post("", {}, "DELETE")
            finally:
                self._driver.terminate()


@contextlib.contextmanager
def page(folder, example, rows):
    """Build the page of an example with its rows, serve it, and open it in a browser."""
    folder = built(EXAMPLES / f"{example}.pb", folder, "--target", "wasm32")
    shutil.copy(EXAMPLES / f"{rows}.safetensors", folder / "rows.safetensors")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    handler.extensions_map = http.server.SimpleHTTPRequestHandler.extensions_map
    handler.extensions_map[".mjs"] = "text/javascript"
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    browser = Browser()
    try:
        browser.open(f"http://127.0.0.1:{server.server_port}/index.html")
        browser.until("!document.getElementById('start').disabled")
        yield browser
    finally:
        browser.close()


def trained(browser, steps):
    """Train at least this number of steps, and return the loss."""
    browser.script("document.getElementById('start').click()")
    browser.until(f"parseInt(document.getElementById('said').textContent) > {steps}")
    browser.script("document.getElementById('stop').click()")
    return float(browser.script("document.getElementById('said').textContent").rpartition(" ")[2])


needs_browser = pytest.mark.skipif(not shutil.which("chromedriver"), reason="chromedriver is not installed")


@needs_node
@pytest.mark.thorough
@needs_browser
def test_the_page_trains_in_a_browser_and_says_the_hash(tmp_path):
    with page(tmp_path / "site", "digits_mlp", "digits") as browser:
        before = json.loads((tmp_path / "site" / "digits_mlp.json").read_text())["state_sha256"]
        browser.script("document.getElementById('hash').click()")
        said = browser.until("document.getElementById('found').textContent")
        assert said.startswith("state_sha256=")
        assert len(said) == len(f"state_sha256={before}")
        assert trained(browser, 200) < 1.0  # 2.3 at the start
        browser.script("document.getElementById('predict').click()")
        browser.until("document.getElementById('found').textContent.includes('probabilities: 0')")


@needs_node
@pytest.mark.thorough
@needs_browser
@pytest.mark.parametrize(
    ("example", "rows", "most"), [("digits_cnn", "digits", 2.2), ("fsrs", "reviews", 0.56)]
)  # 3.3 and 0.6 at the start
def test_pages_of_other_examples_train(tmp_path, example, rows, most):
    with page(tmp_path / "site", example, rows) as browser:
        assert trained(browser, 100) < most
