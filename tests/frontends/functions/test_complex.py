"""from_torch: complex numbers as pairs, and Fourier transforms, with gradients, beside PyTorch on both engines."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import fft, nn

import prograd
from compiler import CompileError
from frontends.agreement import agreement

STEPS, WIDTH, HALF = 12, 64, 33
WIDE = torch.complex128
FILE = "test_complex.py"

as_complex, as_real, as_pair = torch.view_as_complex, torch.view_as_real, torch.complex


def rotated(net: Any, x: Any) -> Any:
    """Turn pairs of elements by angles of their positions, as the reference code of Llama does."""
    pairs = as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    turns = net.turns[: x.shape[1]].view(1, x.shape[1], -1)
    return as_real(pairs * turns).flatten(2).type_as(x)


def written(net: Any, x: Any) -> Any:
    """Multiply the low frequencies by weights, and write them among zeros, as Fourier neural operators do."""
    spectrum = fft.rfft(x)
    made = torch.zeros(x.shape[0], x.shape[1], HALF, dtype=WIDE)
    made[:, :, :8] = torch.einsum("bti,io->bto", spectrum[:, :, :8], as_complex(net.weights)[:8, None].expand(8, 8))
    return fft.irfft(made, n=WIDTH)


def spectrogram(net: Any, x: Any) -> Any:
    """Return logarithms of the powers of overlapping windows, summed in bands."""
    window = torch.hann_window(48, dtype=x.dtype)
    power = torch.stft(x.flatten(1), 48, 16, window=window, return_complex=True).abs() ** 2
    bands = torch.arange(75, dtype=x.dtype).reshape(25, 3).cos() ** 2
    return (power.transpose(1, 2) @ bands + 1e-3).log()


def through_windows(net: Any, x: Any) -> Any:
    window = torch.hann_window(16, dtype=x.dtype)
    spectrum = torch.stft(x.flatten(1), 16, 4, window=window, return_complex=True)
    return torch.istft(spectrum * as_complex(net.weights)[:9, None], 16, 4, window=window)


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "rotary positions": rotated,
    "FNet": lambda net, x: fft.fft(fft.fft(x, dim=-1), dim=-2).real + fft.fft2(x).real + fft.fftn(x, dim=(1, 2)).imag,
    "filters": lambda net, x: fft.irfft(fft.rfft(x, norm="ortho") * as_complex(net.weights), n=WIDTH, norm="ortho"),
    "filters in two axes": lambda net, x: fft.irfft2(fft.rfft2(x) * as_complex(net.weights), s=x.shape[-2:]),
    "odd lengths": lambda net, x: fft.irfft(fft.rfft(x[..., :63]), n=63) + fft.irfft(fft.rfft(x), n=63),
    "other lengths": lambda net, x: fft.rfft(x, n=80).abs()[..., :30] + fft.fft(x, n=30).abs(),
    "inverses": lambda net, x: fft.ifft(fft.fft(x, dim=1), dim=1).real + fft.ifft(x).imag,
    "halves of spectra": lambda net, x: (
        fft.hfft(x[..., :HALF].to(WIDE))
        + fft.ihfft(x, norm="forward").abs().sum()
        + fft.fftshift(fft.fft(x), (1, 2)).imag
    ),
    "correlations": lambda net, x: fft.irfft(fft.rfft(x) * torch.conj(fft.rfft(x.flip(1))), n=WIDTH).mean(-2),
    "operators by frequencies": written,
    "spectrograms": spectrogram,
    "two-sided windows": lambda net, x: as_real(
        torch.stft(x.flatten(1), 16, 4, onesided=False, center=False, normalized=True, return_complex=True)
    ),
    "through windows and back": through_windows,
    "polar": lambda net, x: (
        (torch.polar(x.abs(), x) * as_pair(x, x.flip(1)).conj()).abs() + torch.exp(1j * x).angle() + x.angle()
    ),
    "arithmetic": lambda net, x: (
        ((as_pair(x, x + 3) / (as_pair(x, x * x) + 2j) - 1.5) ** 2).imag
        + (1 - as_pair(x, x) / 3 * x).abs()
        + (-as_pair(x, x.sin()) * (2 + 1j)).real
    ),
    "choices": lambda net, x: as_real(
        torch.where(x > 0, as_pair(x, 2 * x), 0.5)
        + torch.where(x > 1, 2j, as_pair(x, x))
        + nn.functional.pad(as_pair(x, x)[..., 1:], (1, 0))
    ),
    "rearrangements": lambda net, x: as_real(
        torch.cat([(y := as_pair(x, x.cos()))[:, :3], torch.zeros_like(y[:, 3:])], 1).roll(1, 2).transpose(1, 2)
        + torch.stack(y.unbind(1), 2) * y.sum(1, keepdim=True).mT
        + y[:, torch.arange(STEPS).flip(0)].mT
    ),
    "products": lambda net, x: (as_pair(x, x.sin()) @ as_pair(x, x.cos()).mT).abs(),
    "absolute values of zeros": lambda net, x: as_pair(x * 0, x * 0).abs() + x,
}


class Of(nn.Module):
    """A function of a weighted input, with complex weights as pairs, and a table of turns."""

    def __init__(self, function: Callable[[Any, Any], Any], dtype: Any = torch.float64) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.function = function
        self.scale = nn.Parameter(torch.linspace(0.5, 1.5, WIDTH, dtype=dtype))
        self.weights = nn.Parameter(torch.randn(HALF, 2, dtype=dtype))
        angles = torch.outer(torch.arange(32.0), 1 / 10000 ** torch.linspace(0, 1, WIDTH // 2))
        self.turns = torch.polar(torch.ones_like(angles), angles)

    def forward(self, x: Any) -> Any:
        return self.function(self, x * self.scale)


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_complex_numbers_are_those_of_pytorch(name: str, engine: str):
    x = torch.randn(3, STEPS, WIDTH, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    batch = None if name == "through windows and back" else "batch"
    found = agreement(Of(FUNCTIONS[name]), {"x": x}, batch=batch, engine=engine)
    limit = 1e-5 if name == "rotary positions" else 1e-9  # it turns in float32
    assert max(found.outputs, found.loss, found.gradients) < limit, found


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_turns_are_cut_to_the_length_of_the_input(engine: str):
    module = Of(rotated, torch.float32)
    x = torch.randn(4, STEPS, WIDTH)
    program = prograd.from_torch(module, {"x": x}, batch="batch", symbols={"x": {1: "length"}})
    for rows, steps in ((32, 32), (1, 5)):
        x = torch.randn(rows, steps, WIDTH)
        run = prograd.Run(program.compile(batch=rows, length=steps), engine=engine)
        np.testing.assert_allclose(run.predict({"x": x.numpy()})["output"], module(x).detach(), rtol=1e-5, atol=1e-5)


class Holding(nn.Module):
    """Holds a complex weight."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WIDTH, dtype=torch.complex64))

    def forward(self, x: Any) -> Any:
        return (x * self.weight).real


PAIRED = "keep torch.view_as_real of it, and call torch.view_as_complex in forward"


def refusal(module: Any, x: Any) -> str:
    """Return the sentence of a refusal, without what is equal in all of one operator."""
    with pytest.raises(CompileError) as caught:
        prograd.from_torch(module, {"x": x}, batch="batch")
    return str(caught.value).removeprefix("from_torch: 1 operator cannot be imported: ")


def test_states_inputs_and_results_are_real():
    x = torch.randn(32, STEPS, WIDTH)
    assert refusal(Holding(), x) == f"weight is complex64, and states are real; {PAIRED}"
    assert refusal(Of(lambda net, x: x.real), torch.randn(32, WIDTH, dtype=torch.complex64)) == (
        "the input x is complex64, which prograd has not; give torch.view_as_real of it, and call "
        "torch.view_as_complex in forward"
    )
    assert refusal(Of(lambda net, x: as_pair(x, x)), x) == (
        f"aten.complex.default, {ONCE}: makes a complex result, which no "
        "program returns; return torch.view_as_real of it"
    )


ONCE = f"used 1 time, first in the module at {FILE}:{Of.forward.__code__.co_firstlineno + 1}"


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (
            lambda net, x: as_pair(x, x).tanh().real,
            f"aten.tanh.default, {ONCE}: takes no complex numbers here; write "
            "it with torch.view_as_real, or the parts x.real, x.imag",
        ),
        (
            lambda net, x: (fft.fft(x) ** 5).real,
            f"aten.pow.Tensor_Scalar, {ONCE}: complex numbers are raised to 2 and 3 only",
        ),
        (
            lambda net, x: fft.fft(nn.functional.pad(x, (0, 5000))).real,
            f"aten.fft_fft.default, {ONCE}: a Fourier transform of 5064 "
            "elements is a product with a matrix of 5064 * 5064; the longest one that is imported has 4096",
        ),
        (
            lambda net, x: fft.fftshift(x) + x,
            f"aten.roll.default, {ONCE}: rolls by a number of positions that depends on a symbol; roll axes whose "
            "sizes are numbers",
        ),
        (
            lambda net, x: nn.functional.pad(as_pair(x, x), (1, 0), value=2.0).real,
            f"aten.pad.default, {ONCE}: pads complex numbers with others than 0; pad the parts x.real and x.imag",
        ),
    ],
)
def test_functions_without_complex_numbers_are_refused_at_their_line(function: Any, reason: str):
    assert refusal(Of(function, torch.float32), torch.randn(32, STEPS, WIDTH)) == reason
