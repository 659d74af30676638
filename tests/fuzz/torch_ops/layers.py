"""Products, decompositions, norms, attention and positions."""

from __future__ import annotations

import torch

from fuzz.torch_ops.elements import DTYPES
from fuzz.torch_ops.table import TORCH, spelled


@spelled("matmul")
def matmul(a, b, *, transpose_a=False, transpose_b=False):
    return torch.matmul(a.mT if transpose_a else a, b.mT if transpose_b else b)


@spelled("outer_sum")
def outer_sum(a, b):
    a, b = (x.flatten(0, -2) if x.dim() > 2 else x for x in (a, b))
    return a.mT @ b


TORCH["outer"] = torch.outer
TORCH["einsum"] = lambda equation, *xs: torch.einsum(equation, *xs).to(xs[0].dtype)
TORCH["softmax"] = lambda x, *, axis=-1: torch.softmax(x, axis)
TORCH["log_softmax"] = lambda x, *, axis=-1: torch.log_softmax(x, axis)
TORCH["cholesky"] = lambda x: torch.linalg.cholesky((x + x.mT) / 2)
TORCH["inverse"] = torch.linalg.inv
TORCH["determinant"] = torch.linalg.det
TORCH["pseudo_inverse"] = torch.linalg.pinv
TORCH["qr"] = lambda x, *, complete=False: tuple(torch.linalg.qr(x, mode="complete" if complete else "reduced"))


@spelled("log_determinant")
def log_determinant(x):
    sign, logarithm = torch.linalg.slogdet(x)
    return sign, logarithm


@spelled("svd")
def svd(x):
    u, s, vh = torch.linalg.svd(x, full_matrices=False)
    v = vh.mT
    sign = sign_of_largest(v if x.shape[-2] >= x.shape[-1] else u)
    return u * sign, s, v * sign


@spelled("eigh")
def eigh(x):
    values, vectors = torch.linalg.eigh((x + x.mT) / 2)
    return values, vectors * sign_of_largest(vectors)


def sign_of_largest(x):
    """The sign of the element of each column with the largest absolute value."""
    return x.gather(-2, x.abs().argmax(-2, keepdim=True)).sign().detach()


@spelled("solve")
def solve(a, b):
    return torch.linalg.inv(a) @ b


@spelled("triangular_solve")
def triangular_solve(a, b, *, lower=True, transpose=False, unit_diagonal=False):
    a = a.tril() if lower else a.triu()
    if unit_diagonal:
        eye = torch.eye(a.shape[-1], dtype=a.dtype)
        a = a * (1 - eye) + eye
    return torch.linalg.inv(a.mT if transpose else a) @ b


def normed(x, axes, epsilon):
    mean = x.mean(axes, keepdim=True)
    inverse = torch.rsqrt(((x - mean) ** 2).mean(axes, keepdim=True) + epsilon)
    return (x - mean) * inverse, mean, inverse


def scaled(y, scale, bias):
    y = y if scale is None else y * scale
    return y if bias is None else y + bias


@spelled("layer_norm")
def layer_norm(x, scale=None, bias=None, *, axis=-1, epsilon=1e-5):
    y, mean, inverse = normed(x, tuple(range(axis % x.dim(), x.dim())), epsilon)
    return scaled(y, scale, bias), mean, inverse


@spelled("rms_norm")
def rms_norm(x, scale=None, *, axis=-1, epsilon=1e-5):
    inverse = torch.rsqrt((x * x).mean(tuple(range(axis % x.dim(), x.dim())), keepdim=True) + epsilon)
    return scaled(x * inverse, scale, None), inverse


@spelled("group_norm")
def group_norm(x, scale=None, bias=None, *, groups, epsilon=1e-5):
    wide = x.reshape(x.shape[0], x.shape[1:-1].numel(), groups, x.shape[-1] // groups)
    y, mean, inverse = normed(wide, (1, 3), epsilon)
    statistic = (x.shape[0], *(1,) * (x.dim() - 2), groups, 1)
    return scaled(y.reshape(x.shape), scale, bias), mean.reshape(statistic), inverse.reshape(statistic)


@spelled("instance_norm")
def instance_norm(x, scale=None, bias=None, *, epsilon=1e-5):
    return scaled(normed(x, tuple(range(1, x.dim() - 1)), epsilon)[0], scale, bias)


@spelled("local_response_norm")
def local_response_norm(x, *, size, alpha=1e-4, beta=0.75, bias=1.0):
    """For even sizes the window is ONNX's, as documented; PyTorch's own leans to the other side."""
    squares = torch.nn.functional.pad(x * x, ((size - 1) // 2, size // 2))
    near = squares.unfold(-1, size, 1).sum(-1) / size
    return x / (bias + alpha * near) ** beta


@spelled("batch_norm")
def batch_norm(x, scale, bias, running_mean, running_variance, *, momentum=0.9, epsilon=1e-5):
    axes = tuple(range(x.dim() - 1))
    mean = x.mean(axes)
    variance = ((x - mean) ** 2).mean(axes)
    inverse = torch.rsqrt(variance + epsilon)
    y = (x - mean) * inverse * scale + bias
    new_mean = momentum * running_mean + (1 - momentum) * mean
    new_variance = momentum * running_variance + (1 - momentum) * variance
    return y, new_mean.detach(), new_variance.detach(), mean, inverse


@spelled("scaled_dot_product_attention")
def attention(q, k, v, mask=None, *, causal=False, scale=0.0):
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.mT * (scale or q.shape[-1] ** -0.5)
    seen = torch.ones(scores.shape, dtype=torch.bool)
    if mask is not None and mask.dtype == torch.bool:
        seen = seen & mask
    elif mask is not None:
        scores = scores + mask
    if causal:
        seen = seen.tril()
    weights = torch.softmax(torch.where(seen, scores, -1e30), -1)
    return torch.where(seen, weights, 0.0) @ v


@spelled("attention_gradient")
def attention_gradient(q, k, v, dy, mask=None, *, causal=False, scale=1.0):
    return gradient(lambda q, k, v: attention(q, k, v, mask, causal=causal, scale=scale), (q, k, v), (dy,))


def gradient(function, inputs, seeds):
    """The gradient of a function for inputs that count as different, differentiable itself."""
    own = [x.clone() if x.requires_grad else x.detach().clone().requires_grad_() for x in inputs]
    results = function(*own)
    results = results if isinstance(results, tuple) else (results,)
    made = torch.autograd.grad(results, own, seeds, create_graph=True, allow_unused=True)
    return tuple(torch.zeros_like(x) if g is None else g for x, g in zip(own, made, strict=True))


@spelled("sinusoidal_positions")
def sinusoidal_positions(positions, *, size, base=10000.0, dtype="float32"):
    rates = base ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    angles = positions.to(torch.float64).unsqueeze(-1) * rates
    return torch.stack([torch.sin(angles), torch.cos(angles)], -1).flatten(-2).to(DTYPES[dtype])


@spelled("rotary_embedding")
def rotary_embedding(x, positions, factors=None, *, base=10000.0, interleaved=False):
    size = x.shape[-1]
    rates = base ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    rates = rates if factors is None else rates / factors.to(torch.float64)
    angles = positions.to(torch.float64).unsqueeze(-1) * rates
    sin, cos = torch.sin(angles).to(x.dtype), torch.cos(angles).to(x.dtype)
    a, b = (x[..., 0::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
    a, b = a * cos - b * sin, b * cos + a * sin
    return torch.stack([a, b], -1).flatten(-2) if interleaved else torch.cat([a, b], -1)
