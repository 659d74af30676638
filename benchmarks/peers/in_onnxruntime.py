"""The networks in ONNX Runtime, as PyTorch exports them."""

import tempfile
from pathlib import Path

import onnxruntime
import torch as t
from in_torch import model


class Network(t.nn.Module):
    """Model that the exporter accepts: unchanged rows in, logits out."""

    def __init__(self, subject):
        super().__init__()
        self.subject = subject
        self.layers, _ = model(subject)
        for parameter in self.layers.parameters():
            parameter.requires_grad_(False)  # they are constants to the exporter

    def forward(self, x):
        return self.subject.network(self.layers, x.permute(0, 3, 1, 2) if x.ndim == 4 else x)


def predictor(subject, threads, example):
    """Return a function from rows to logits, in a session with `threads` threads."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "network.onnx")
        with t.no_grad():
            network = Network(subject).eval()
            t.onnx.export(network, (t.from_numpy(example),), path, input_names=["x"], dynamo=False)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda x: session.run(None, {"x": x})[0]
