"""Requests for predictions per second: `runtime serve` beside ONNX Runtime in a plain handler of the same library.

    pip install onnx onnxruntime && python benchmarks/serving.py
    python benchmarks/serving.py --check    1,000 requests of 16 clients, a slow one, a broken one, one too large

Both servers have a multi-layer perceptron with the same weights, and answer the same bytes: raw float32 rows, or JSON.
16 connections of one process ask again as soon as they are answered. The servers take turns, and each is a fresh
process; the table has medians. ONNX Runtime computes in the handler, on one thread, each request alone.
"""

import argparse
import json
import multiprocessing
import os
import selectors
import socket
import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from threading import Thread
from time import perf_counter

import numpy as np

import prograd
from prograd import Program, layers, ops

CLIENTS = 16
REQUESTS = 4000
ROUNDS = 5
MODELS = {"64-64-32-10": (64, 64, 32, 10), "784-512-512-10": (784, 512, 512, 10)}
ROWS = (1, 8)
RAW, JSON = "application/octet-stream", "application/json"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true", help="compare every answer instead of counting them")
    check = parser.parse_args().check
    with TemporaryDirectory() as name:
        folder = Path(name)
        for model, sizes in MODELS.items():
            write_program(folder / f"{model}.pb", sizes)
        if check:
            check_answers(folder / "64-64-32-10.pb")
        else:
            compare(folder)


def compare(folder):
    """The table."""
    print(f"requests per second, {CLIENTS} clients, medians of {ROUNDS}")
    print(f"{'':29} µs of processor time of the server for a request".rjust(90))
    names = f"{'prograd':>9} {'ONNX Runtime':>13}"
    print(f"{'model':16} {'form':5} {'rows':>4} {names} {'ratio':>6} {names}")
    for model, sizes in MODELS.items():
        write_onnx(folder / f"{model}.pb", folder / f"{model}.onnx", sizes)
        for form in (RAW, JSON):
            for rows in ROWS:
                x = np.random.default_rng(0).normal(size=(rows, sizes[0])).astype(np.float32)
                found = {start_prograd: [], start_onnx: []}
                for _ in range(ROUNDS):
                    for start, figures in found.items():
                        with start(folder / model) as server:
                            asked = request(server.port, x, form)
                            load(server.port, asked, 500)
                            before = server.cpu()
                            figures.append((load(server.port, asked, REQUESTS), (server.cpu() - before) / REQUESTS))
                ours, theirs = (list(map(median, zip(*figures, strict=True))) for figures in found.values())
                word = "JSON" if form == JSON else "raw"
                rates = f"{ours[0]:9.0f} {theirs[0]:13.0f} {ours[0] / theirs[0]:6.2f}"
                print(f"{model:16} {word:5} {rows:4} {rates} {ours[1] * 1e6:9.0f} {theirs[1] * 1e6:13.0f}", flush=True)


def check_answers(path):
    """1,000 answers, each compared with what `predict` gives; and three clients that are not as they should be."""
    run = prograd.load(path)
    rng = np.random.default_rng(1)
    inputs = [rng.normal(size=(1 + i % 5, 64)).astype(np.float32) for i in range(1000)]
    expected = [run.predict(x)["y"] for x in inputs]
    wrong = []

    def client(port, mine):
        with socket.create_connection(("127.0.0.1", port)) as connection:
            for i in mine:
                connection.sendall(request(port, inputs[i], RAW))
                status, body = answer(connection)
                y = np.frombuffer(body, np.float32).reshape(-1, 10) if status == 200 else np.empty(0)
                if not (y.shape == expected[i].shape and np.allclose(y, expected[i], rtol=1e-4, atol=1e-6)):
                    wrong.append((i, status))

    with start_prograd(path.with_suffix("")) as server:
        slow = socket.create_connection(("127.0.0.1", server.port))
        whole = request(server.port, inputs[0], RAW)
        slow.sendall(whole[:-100])
        broken = socket.create_connection(("127.0.0.1", server.port))
        broken.sendall(whole[:-7])
        large = socket.create_connection(("127.0.0.1", server.port))
        large.sendall(request(server.port, np.zeros((1 << 17, 64), np.float32), RAW)[: 1 << 16])
        threads = [Thread(target=client, args=(server.port, range(k, 1000, CLIENTS))) for k in range(CLIENTS)]
        for thread in threads:
            thread.start()
        broken.close()
        for thread in threads:
            thread.join()
        slow.sendall(whole[-100:])
        status, body = answer(slow)
        assert status == 200
        assert np.allclose(np.frombuffer(body, np.float32).reshape(-1, 10), expected[0], rtol=1e-4, atol=1e-6)
        assert answer(large)[0] == 413
    print(f"1,000 requests of {CLIENTS} clients: {len(wrong)} wrong; the slow client was answered, the large refused")
    assert not wrong


class Server:
    """A process that answers at `port` until the context ends."""

    def __init__(self, command):
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.port = int(self._process.stdout.readline().split("127.0.0.1:")[1].split()[0])

    def cpu(self):
        """Seconds of processor time so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._process.terminate()
        self._process.communicate(timeout=60)


def start_prograd(path):
    return Server([sys.executable, "-P", "-m", "runtime", "serve", f"{path}.pb", "--port", "0", "-q"])


def start_onnx(path):
    return Server([sys.executable, __file__, "onnx", f"{path}.onnx"])


def serve_onnx(path):
    """ONNX Runtime in a plain handler."""
    import onnxruntime
    from aiohttp import web

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    width = session.get_inputs()[0].shape[1]

    async def predict(request):
        body = await request.read()
        if request.content_type == JSON:
            (y,) = session.run(None, {"x": np.array(json.loads(body)["x"], np.float32)})
            return web.Response(body=json.dumps({"y": y.tolist()}).encode(), content_type=JSON)
        (y,) = session.run(None, {"x": np.frombuffer(body, np.float32).reshape(-1, width)})
        return web.Response(body=y.tobytes(), content_type=RAW)

    app = web.Application()
    app.router.add_post("/predict", predict)
    taken = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{taken.getsockname()[1]}", flush=True)
    web.run_app(app, sock=taken, access_log=None, print=None)


def write_program(path, sizes):
    program = Program("perceptron", seed=1)
    x = program.input("x", "float32", ("batch", sizes[0]))
    for i, size in enumerate(sizes[1:]):
        x = layers.dense(x, f"layer{i}", size)
        x = ops.tanh(x) if i < len(sizes) - 2 else ops.softmax(x)
    program.outputs(y=x)
    program.compile(batch=32).save(path, force=True)


def write_onnx(program, path, sizes):
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    state = prograd.load(program).state
    nodes, weights, x = [], [], "x"
    for i in range(len(sizes) - 1):
        weights += [numpy_helper.from_array(state[f"layer{i}.{name}"], f"{name}{i}") for name in "wb"]
        nodes.append(helper.make_node("Gemm", [x, f"w{i}", f"b{i}"], [f"g{i}"]))
        x = f"x{i}" if i < len(sizes) - 2 else "y"
        nodes.append(helper.make_node("Tanh" if x != "y" else "Softmax", [f"g{i}"], [x]))
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["rows", k]) for n, k in (("x", sizes[0]), ("y", 10))]
    graph = helper.make_graph(nodes, "perceptron", [ends[0]], [ends[1]], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def request(port, x, form):
    """The bytes of one request."""
    body = json.dumps({"x": x.tolist()}).encode() if form == JSON else x.tobytes()
    head = (
        "POST /predict HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        f"Content-Type: {form}",
        f"Content-Length: {len(body)}",
    )
    return "\r\n".join([*head, "", ""]).encode() + body


def answer(connection):
    """Status and body of the next answer."""
    text = b""
    while (found := whole(text)) is None:
        piece = connection.recv(1 << 16)
        assert piece, "the connection was closed"
        text += piece
    return found


def whole(text):
    """Status and body of an answer, None as long as it is not all there."""
    end = text.find(b"\r\n\r\n")
    if end < 0:
        return None
    head = text[:end].lower()
    length = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
    return (int(head[9:12]), text[end + 4 :]) if len(text) >= end + 4 + length else None


def load(port, asked, count):
    """Requests per second, of one process that does nothing else."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(_load, (port, asked, count))


def _load(port, asked, count):
    selector = selectors.DefaultSelector()
    for _ in range(CLIENTS):
        connection = socket.create_connection(("127.0.0.1", port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(asked)
        selector.register(connection, selectors.EVENT_READ, bytearray())
    done = 0
    start = perf_counter()
    while done < count:
        for key, _ in selector.select():
            key.data.extend(key.fileobj.recv(1 << 16))
            found = whole(bytes(key.data))
            if found is not None:
                assert found[0] == 200, found
                done += 1
                key.data.clear()
                key.fileobj.sendall(asked)
    return count / (perf_counter() - start)


if __name__ == "__main__":
    serve_onnx(sys.argv[2]) if sys.argv[1:2] == ["onnx"] else main()
