"""A state dict of PyTorch, loaded into layers, computes what the module computes."""

from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from prograd import Program, Run, layers


class Network(torch.nn.Module):
    """Every layer that has states, one behind the other."""

    def __init__(self) -> None:
        super().__init__()
        block = torch.nn.TransformerEncoderLayer(8, 2, 16, activation="gelu", batch_first=True, norm_first=True)
        self.words = torch.nn.Embedding(20, 8)
        self.encoder = torch.nn.TransformerEncoder(block, 2, enable_nested_tensor=False)
        self.rnn = torch.nn.LSTM(8, 5, num_layers=2, bidirectional=True, batch_first=True)
        self.gru = torch.nn.GRU(10, 6, batch_first=True)
        self.conv = torch.nn.Conv1d(6, 4, 3, padding=1, groups=2)
        self.norm = torch.nn.BatchNorm1d(4)
        self.groups = torch.nn.GroupNorm(2, 4)
        self.fc = torch.nn.Linear(4, 3)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """Scores for each place."""
        x, _ = self.rnn(self.encoder(self.words(text)))
        x, _ = self.gru(x)
        x = self.groups(self.norm(self.conv(x.transpose(1, 2)))).transpose(1, 2)
        return self.fc(x)


def built() -> Program:
    program = Program()
    x = layers.embedding(program.input("text", "int64", ("batch", 7)), "words", 20, 8)
    with program.scope("encoder"):
        for i in range(2):
            x = layers.transformer_block(x, f"block{i}", 2, width=16)
    x, _, _ = layers.lstm(x, "rnn", 5, layers=2, bidirectional=True)
    x, _ = layers.gru(x, "gru", 6)
    x = layers.batch_norm(layers.conv(x, "conv", 4, groups=2), "norm")
    program.outputs(y=layers.dense(layers.group_norm(x, "groups", 2), "fc", 3))
    program.freeze("*")  # there is no loss
    return program


def test_a_network_computes_what_it_computes_there(tmp_path: Path):
    torch.manual_seed(0)
    network = Network()
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    for _ in range(3):  # so that the running statistics are of something
        network(torch.randint(0, 20, (4, 7)))
    network.eval()
    save_file(network.state_dict(), tmp_path / "network.safetensors")
    run = Run(built().compile(batch=4).desc)
    done = run.load(tmp_path / "network.safetensors", layout="torch", rename={"encoder.layers.": "encoder.block"})
    assert (done.left, done.kept) == ([], [])
    text = np.random.default_rng(0).integers(0, 20, (4, 7))
    expected = network(torch.from_numpy(text)).detach().numpy()
    np.testing.assert_allclose(run.predict(text)["y"], expected, rtol=1e-5, atol=1e-5)
