"""Lines of random modules, by the rank of the tensor x that they take; words in braces are drawn.

{x} is a tensor, {y} another one of the same shape, {c} the last extent of x, {d} its extent behind the batch, {t} its
rank. {n} numbers the attributes of a piece. {k} is a small positive number and {s} a signed one.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Piece(NamedTuple):
    """A statement of forward, which sets {r}, and what __init__ needs for it.

    Attributes:
        forward: the lines of forward.
        init: the lines of __init__.
        is_refused: every import of it is refused, so few modules have it.
    """

    forward: str
    init: str = ""
    is_refused: bool = False


def _all(*forwards: str) -> list[Piece]:
    return [Piece(forward) for forward in forwards]


POINTWISE: Final = _all(
    *(
        f"{{r}} = {f}"
        for f in (
            "F.relu({x})",
            "torch.tanh({x})",
            "torch.sigmoid({x})",
            "F.gelu({x})",
            "F.gelu({x}, approximate='tanh')",
            "F.silu({x})",
            "F.softplus({x})",
            "F.elu({x}, {k})",
            "F.leaky_relu({x}, 0.1)",
            "F.mish({x})",
            "F.selu({x})",
            "F.hardswish({x})",
            "F.hardtanh({x}, -{k}, {k})",
            "F.relu6({x})",
            "F.logsigmoid({x})",
            "F.celu({x}, 0.5)",
            "F.softshrink({x}, 0.3)",
            "F.hardshrink({x}, 0.3)",
            "F.threshold({x}, 0.1, {s})",
            "F.tanhshrink({x})",
            "torch.sin({x})",
            "torch.cos({s} * {x})",
            "{x}.abs()",
            "{x}.square()",
            "torch.exp(-{x}.abs())",
            "-{x}",
            "{x}.clamp(-{k}, {k})",
            "{x}.clamp(min={s})",
            "torch.erf({x})",
            "torch.atan({x})",
            "torch.log1p({x}.abs())",
            "torch.rsqrt({x} * {x} + {k})",
            "torch.sqrt({x}.abs() + {k})",
            "1 / ({x}.abs() + {k})",
            "{x} ** 3",
            "(2 - {x}) / {k}",
            "torch.where({x} > {s}, {x}, {s} * {x})",
            "{x}.masked_fill({x} > {s}, {s})",
            "torch.pow({x}.abs() + 0.1, {k})",
            "{k} ** {x}.clamp(-3, 3)",
            "{x}.remainder({k}) + {x}",
            "torch.fmod({x}, {k}) * {x}",
            "{x}.round() * {x}",
            "torch.nan_to_num({x} / ({x} != 0))",
            "{x}.sign() * {x}",
            "({x} > {s}).to({x}.dtype) * {x}",
            "torch.asinh({x})",
            "torch.sinh({x}.clamp(-2, 2))",
            "torch.xlogy({x}.abs(), {x}.abs() + {k})",
            "F.softsign({x})",
            "{x}.double().to({x}.dtype)",
            "{s} * {x}",
            "torch.rsub({x}, {s})",
            "{x}.expm1() * {k}",
            "{x}.detach() * {x}",
        )
    ),
)
"""Functions of one tensor."""

PAIRS: Final = _all(
    *(
        f"{{r}} = {f}"
        for f in (
            "{x} + {y}",
            "{x} - {y}",
            "{x} * {y}",
            "{x} / ({y}.abs() + {k})",
            "torch.maximum({x}, {y})",
            "{x} + {s} * {y}",
            "torch.minimum({x}, {s} * {y})",
            "torch.atan2({x}, {y} + 3)",
            "torch.lerp({x}, {y}, {k})",
            "torch.where({x} > {y}, {x}, {s} * {y})",
            "torch.hypot({x}, {y} + 1)",
            "torch.addcmul({x}, {x}, {y}, value={s})",
            "torch.logaddexp({x}, {y})",
            "torch.addcdiv({x}, {y}, {x}.abs() + {k})",
            "torch.add({x}, {y}, alpha={s})",
            "torch.fmod({x}, {y}.abs() + {k})",
            "{x} * torch.sigmoid({y})",
            "torch.cat([{x}, {y}], -1)",
            "torch.cat([{x}, {y}], 1)",
            "torch.stack([{x}, {y}], 1)",
            "torch.stack([{x}, {y}], -1).amax(-1)",
            "{x}.where({y} < {s}, {y})",
            "torch.clamp({x}, max={y})",
            "torch.heaviside({x}, {y}).detach() * {x}",
            "F.cosine_similarity({x}, {y}, dim=-1)",
            "F.pairwise_distance({x}, {y})",
            "{x}.scatter(-1, {y}.argsort(-1), {y})",
            "{x}.gather(-1, {y}.argsort(-1))",
            "torch.einsum('n...,n...->n...', {x}, {y})",
            "({x} * {y}).sum(-1, keepdim=True) + {x}",
        )
    ),
    "{r} = {x}.clone()\n{r}[:, 0] = {y}[:, -1]",
    "{r} = {x}.clone()\n{r} += {y}\n{r} *= {k}",
    "{r} = {x} * 1\n{r}.add_({y}, alpha={s}).mul_({k})",
    "{r} = {x}.clone()\n{r}[..., ::2] = {y}[..., ::2]",
    "{r} = {x}.clone()\nv = {r}[:, 1:]\nv.mul_({y}[:, 1:])",
    "with torch.no_grad():\n    m = {x} * {y}\n{r} = {x} + m",
    "if self.training:\n    {r} = {x} + {y}\nelse:\n    {r} = {x} + {y}",
)
"""Functions of two tensors of one shape."""

ANY: Final = [
    *_all(
        *(
            f"{{r}} = {f}"
            for f in (
                "{x}.softmax(-1)",
                "{x}.log_softmax(1)",
                "{x} - {x}.mean(-1, keepdim=True)",
                "{x} * {x}.amax(1, keepdim=True)",
                "{x} / ({x}.std(-1, keepdim=True) + {k})",
                "{x}.cumsum(-1) * {k}",
                "{x}.cumsum(1)",
                "F.normalize({x}, dim=1)",
                "F.normalize({x}, p=1.0, dim=-1)",
                "{x}.logsumexp(1)",
                "{x}.mean(-1)",
                "{x}.amax(-1)",
                "{x}.max(1)[0]",
                "{x}.sort(-1)[0]",
                "{x}.sort(1, descending=True).values",
                "{x}.topk(2, -1)[0]",
                "{x}.flip(-1)",
                "{x}.flip(1)",
                "{x}.roll(1, -1)",
                "{x}.roll((1, -1), (1, -1))",
                "{x}.flatten(1)",
                "{x}.repeat_interleave(2, 1)",
                "{x}[..., ::2]",
                "{x}[:, 1:]",
                "{x}[..., :-1]",
                "{x}[:, -1:]",
                "{x}[:, None]",
                "{x}.unsqueeze(-1)",
                "{x}[..., [0, -1, 0]]",
                "{x}[:, torch.tensor([1, 0])]",
                "{x}.index_select(-1, torch.tensor([1, 1, 0]))",
                "{x}.narrow(-1, 0, 2)",
                "sum({x}.split(1, 1))",
                "torch.cat({x}.chunk(2, -1)[::-1], -1)",
                "{x}.var(1, unbiased=False)",
                "{x}.norm(dim=-1)",
                "{x}.prod(-1)",
                "{x} - {x}.mean(0)",
                "{x}.sum(0) + {x}",
                "({x} > {s}).any(-1, keepdim=True).to({x}.dtype) + {x}",
                "({x} > {s}).sum(1) * {x}.mean(1)",
                "{x}.argmax(-1, keepdim=True).to({x}.dtype) + {x}",
                "{x}.gather(-1, {x}.argmin(-1, keepdim=True))",
                "F.glu({x}, -1)",
                "F.glu({x}, 1)",
                "F.layer_norm({x}, {x}.shape[1:])",
                "F.layer_norm({x}, {x}.shape[-1:])",
                "F.pad({x}, (1, 2), value={s})",
                "F.pad({x}, (-1, 0))",
                "{x}.tril()",
                "{x}.triu(1)",
                "{x}.median(-1)[0]",
                "{x}.transpose(1, -1)",
                "{x}.contiguous().view({x}.shape[0], -1)",
                "{x}.unfold(-1, 2, 1).sum(-1)",
                "{x}.cumprod(-1)",
                "{x}.cummax(-1)[0]",
                "torch.diff({x})",
                "{x}.expand(2, *{x}.shape).mean(0)",
                "{x}.repeat(1, *[2] * ({x}.ndim - 1))",
                "{x}.reshape({x}.shape[0], 2, -1)",
                "{x}.unbind(1)[-1]",
                "F.one_hot({x}.argmax(1), {x}.shape[1]).to({x}.dtype).sum(1) + {x}.sum()",
                "torch.zeros_like({x}).scatter_add(1, {x}.argsort(1), {x})",
                "{x}.masked_fill({x} < 0, 0).sum(1, keepdim=True)",
                "torch.cat([{x}, torch.zeros_like({x}[:, :1])], 1)",
                "{x} + torch.arange({c}).to({x}.dtype) * {k}",
                "torch.linalg.vector_norm({x}, ord=1, dim=-1)",
                "{x}.squeeze().reshape({x}.shape)",
                "{x}.movedim(1, -1)",
                "F.dropout({x}, 0.0, self.training)",
                "{x}.amin(1)",
                "{x}.view({x}.shape[0], -1, {c})",
                "torch.linspace(0, 1, {c}).to({x}.dtype) * {x}",
                "torch.outer({x}.flatten(1).mean(0), {x}.flatten(1)[0])[0]",
                "{x} + {x}.new_full((1,), {s})",
                "torch.tensor({s}) * {x}",
                "torch.var_mean({x}, -1)[0]",
                "{x}.std(1)",
            )
        ),
        "{r} = {x}.clone()\n{r}[:, 0] = {s}",
        "{r} = {x}.clone()\n{r}[{r} > {s}] = {s}",
        "{r} = {x} + 0\n{r}.mul_({s}).relu_()",
        "{r} = {x}.clone()\nv = {r}.transpose(1, -1)\nv.add_({s})\nv.mul_({s})",
        "{r} = {x}.clone()\n{r}.flatten(1).mul_({k})",
        "with torch.no_grad():\n    m = {x}.mean()\n{r} = {x} * m",
        "m = {x}.detach().mean(-1, keepdim=True)\n{r} = {x} - m",
        "a, b = {x}.chunk(2, -1)\n{r} = a * b.sum()",
        "for i in range(2):\n    {x} = {x} + {k} * torch.sin({x})\n{r} = {x}",
        "{r} = torch.zeros({x}.shape[0], 3, dtype={x}.dtype)\n{r}[:, 1] = {x}.flatten(1).sum(1)",
        "{r} = {x}.clone()\n{r}[:, torch.tensor([0, 1])] += {k}",
        "{r} = F.relu({x}.clone(), inplace=True)",
    ),
    Piece("{r} = {x} * self.p{n}", "self.p{n} = nn.Parameter(torch.randn({c}))"),
    Piece("{r} = {x} @ self.p{n} + {x} @ self.p{n}.sin()", "self.p{n} = nn.Parameter(torch.randn({c}, 3) * 0.5)"),
    Piece("{r} = self.l{n}({x})", "self.l{n} = nn.Linear({c}, 4)"),
    Piece("{r} = F.relu(self.l{n}({x}))", "self.l{n} = nn.Linear({c}, 5, bias=False)"),
    Piece("{r} = self.l{n}(torch.tanh(self.l{n}({x})))", "self.l{n} = nn.Linear({c}, {c})"),
    Piece("{r} = F.linear(self.l{n}({x}), self.l{n}.weight.t())", "self.l{n} = nn.Linear({c}, 3, bias=False)"),
    Piece("{r} = self.l{n}({x})", "self.l{n} = nn.LayerNorm({c})"),
    Piece("{r} = self.l{n}({x})", "self.l{n} = nn.RMSNorm({c})"),
    Piece(
        "{r} = self.l{n}({x})",
        "self.l{n} = nn.Sequential(nn.Linear({c}, 6), nn.GELU(), nn.Dropout(0.0), nn.Linear(6, {c}))",
    ),
    Piece("{r} = {x} + self.l{n}({x})", "self.l{n} = nn.Sequential(nn.LayerNorm({c}), nn.Linear({c}, {c}), nn.SiLU())"),
    Piece("{r} = self.l{n}({x})", "self.l{n} = weight_norm(nn.Linear({c}, 3))"),
    Piece("{r} = self.l{n}({x})", "self.l{n} = nn.PReLU()"),
    Piece("{r} = self.t{n}({x}.argmax(-1)) * {x}.mean()", "self.t{n} = nn.Embedding({c}, 3, padding_idx=0)"),
    Piece("{r} = self.t{n}.weight.mean(0) + self.t{n}({x}.argmax(-1))", "self.t{n} = nn.Embedding({c}, 4)"),
    Piece("{r} = {x} * self.b{n}", "self.register_buffer('b{n}', torch.randn({c}))"),
    Piece("{r} = {x} + self.b{n}", "self.register_buffer('b{n}', torch.randn({c}), persistent=False)"),
    Piece(
        "if self.training:\n    with torch.no_grad():\n        self.b{n}.mul_(0.9).add_(0.1 * {x}.mean())\n"
        "{r} = {x} - self.b{n}",
        "self.register_buffer('b{n}', torch.zeros(1))",
    ),
    Piece("{r} = {x} * self.f{n}", "self.f{n} = nn.Parameter(torch.randn({c}), requires_grad=False)"),
    Piece("{r} = torch.addmm(self.l{n}.bias, {x}.flatten(1), self.l{n}.weight.t())", "self.l{n} = nn.Linear({f}, 3)"),
]
"""Functions of a tensor of any rank."""

ROWS: Final = [
    Piece("{r} = self.l{n}({x})", "self.l{n} = nn.BatchNorm1d({c})"),
    Piece("{r} = self.l{n}({x})", "self.l{n} = nn.BatchNorm1d({c}, momentum=0.3, affine=False)"),
    Piece("{r} = self.l{n}({x}, {x})", "self.l{n} = nn.Bilinear({c}, {c}, 3)"),
    Piece("{r} = self.l{n}({x})[0]", "self.l{n} = nn.LSTMCell({c}, 3)"),
    Piece("{r} = self.l{n}({x})", "self.l{n} = nn.GRUCell({c}, 3)"),
    *_all(
        "{r} = {x} @ {x}.t() @ {x}",
        "{r} = torch.cdist({x}, {x}.flip(0)).mean(1)",
        "{r} = {x}.t()[0] * {x}.sum(1)",
        "{r} = torch.baddbmm({x}[:, None], {x}[:, :, None].mT, {x}[:, :, None] * {x}[:, None])",
        "{r} = F.cross_entropy({x}, {x}.argmin(1), reduction='none')",
        "{r} = {x} + F.cross_entropy({x}, {x}.argmin(1), label_smoothing=0.1)",
        "{r} = F.nll_loss({x}.log_softmax(1), {x}.argmin(1)) + {x}",
        "{r} = F.mse_loss({x}, {x}.flip(1)) * {x}",
        "{r} = F.smooth_l1_loss({x}, torch.zeros_like({x}), reduction='none')",
        "{r} = F.binary_cross_entropy_with_logits({x}, ({x} > 0).to({x}.dtype)) + {x}",
        "{r} = F.kl_div({x}.log_softmax(1), {x}.flip(1).softmax(1), reduction='batchmean') * {x}",
    ),
]
"""Functions of x[n, c]."""

SERIES: Final = [
    Piece("{r} = self.l{n}({x})", "self.l{n} = nn.Conv1d({d}, 4, 2, padding=1)"),
    Piece("{r} = self.l{n}({x}.mT).mT", "self.l{n} = nn.Conv1d({c}, {c}, 3, padding='same', groups={c})"),
    Piece("{r} = self.l{n}({x})", "self.l{n} = nn.BatchNorm1d({d})"),
    Piece("{r} = self.l{n}({x})", "self.l{n} = nn.InstanceNorm1d({d}, affine=True)"),
    Piece("{r} = self.l{n}({x})", "self.l{n} = nn.ConvTranspose1d({d}, 3, 3, stride=2, padding=1)"),
    Piece("{r} = self.l{n}({x})[0]", "self.l{n} = nn.LSTM({c}, 4, batch_first=True, bidirectional=True)"),
    Piece(
        "{r}, (h, _) = self.l{n}({x})\n{r} = {r} + h[-1][:, None]", "self.l{n} = nn.LSTM({c}, 3, 2, batch_first=True)"
    ),
    Piece("{r} = self.l{n}({x})[1][0]", "self.l{n} = nn.GRU({c}, 4, batch_first=True)"),
    Piece("{r} = self.l{n}({x}.transpose(0, 1))[0].transpose(0, 1)", "self.l{n} = nn.GRU({c}, 3, bias=False)"),
    Piece("{r} = self.l{n}({x})[0]", "self.l{n} = nn.RNN({c}, 4, batch_first=True, nonlinearity='relu')"),
    Piece("{r} = self.l{n}({x}, {x}, {x})[0]", "self.l{n} = nn.MultiheadAttention({c}, 1, batch_first=True)"),
    Piece(
        "{r} = self.l{n}({x}, {x}, {x}, need_weights=True)[1]",
        "self.l{n} = nn.MultiheadAttention({c}, {c}, batch_first=True)",
    ),
    Piece(
        "{r} = self.l{n}({x})",
        "self.l{n} = nn.TransformerEncoderLayer({c}, 1, 6, 0.0, batch_first=True, norm_first=True)",
    ),
    Piece(
        "{r} = self.l{n}({x}, {x}.flip(1))", "self.l{n} = nn.TransformerDecoderLayer({c}, 1, 6, 0.0, batch_first=True)"
    ),
    Piece(
        "q, k, v = self.l{n}({x}).view(*{x}.shape[:2], 3, 2, 2).permute(2, 0, 3, 1, 4)\n"
        "{r} = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)",
        "self.l{n} = nn.Linear({c}, 12)",
    ),
    Piece(
        "q, k, v = self.l{n}({x}).chunk(3, -1)\n"
        "a = (q @ k.mT / {k}).masked_fill(self.m{n}, float('-inf')).softmax(-1)\n"
        "{r} = a @ v",
        "self.l{n} = nn.Linear({c}, 9)\nself.register_buffer('m{n}', torch.ones({d}, {d}).triu(1).bool())",
    ),
    *_all(
        "{r} = F.scaled_dot_product_attention({x}, {x}, {x})",
        "{r} = torch.bmm({x}, {x}.mT)",
        "{r} = {x}.mT @ {x}",
        "{r} = F.scaled_dot_product_attention({x}, {x}.flip(1), {x}, attn_mask={x} @ {x}.mT)",
        "{r} = F.max_pool1d({x}, 2, 1)",
        "{r} = F.avg_pool1d({x}, 2, 1, 1)",
        "{r} = F.adaptive_avg_pool1d({x}, 2)",
        "{r} = F.interpolate({x}, scale_factor=1.5, mode='linear')",
        "{r} = F.interpolate({x}, scale_factor=2)",
        "{r} = torch.einsum('nij,nkj->nik', {x}, {x})",
        "{r} = {x}[:, -1]",
        "{r} = F.lp_pool1d({x}.abs() + 0.1, 2.0, 2, 1)",
        "{r} = {x}[torch.arange({x}.shape[0]), {x}.mean(-1).argmax(1)]",
        "{r} = {x}.diagonal(0, 1, 2)",
        "{r} = F.pad({x}, (1, 1), mode='reflect')",
        "{r} = F.pad({x}, (1, 0), mode='replicate')",
        "{r} = torch.tensordot({x}, {x}[0], dims=([1], [0]))",
        "{r} = {x}.mean((0, 1)) + {x}",
    ),
]
"""Functions of x[n, d, c]."""

IMAGES: Final = [
    Piece("{r} = self.l{n}({x})", "self.l{n} = nn.Conv2d({d}, 4, 3, padding=1)"),
    Piece("{r} = self.l{n}({x})", "self.l{n} = nn.Conv2d({d}, {d}, 3, 2, 1, groups={d}, bias=False)"),
    Piece("{r} = self.l{n}({x})", "self.l{n} = nn.Conv2d({d}, 3, (2, 3), padding=1, padding_mode='circular')"),
    Piece("{r} = self.l{n}({x})", "self.l{n} = nn.Conv2d({d}, 4, 1)"),
    Piece("{r} = self.l{n}({x})", "self.l{n} = nn.Conv2d({d}, 4, 2, dilation=2, padding='same')"),
    Piece("{r} = self.l{n}({x})", "self.l{n} = nn.ConvTranspose2d({d}, 3, 3, stride=2, padding=1, output_padding=1)"),
    Piece(
        "{r} = self.l{n}({x})",
        "self.l{n} = nn.Sequential(nn.Conv2d({d}, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(True))",
    ),
    Piece("{r} = self.l{n}({x})", "self.l{n} = nn.BatchNorm2d({d})"),
    Piece("{r} = self.l{n}({x})", "self.l{n} = nn.BatchNorm2d({d}, track_running_stats=False)"),
    Piece("{r} = self.l{n}({x})", "self.l{n} = nn.InstanceNorm2d({d}, track_running_stats=True)"),
    Piece("{r} = self.l{n}({x})", "self.l{n} = nn.GroupNorm(1, {d})"),
    Piece("{r} = self.l{n}({x})", "self.l{n} = nn.GroupNorm({d}, {d})"),
    Piece("{r} = self.l{n}({x})", "self.l{n} = nn.InstanceNorm2d({d}, affine=True)"),
    Piece("{r} = self.l{n}({x})", "self.l{n} = nn.PReLU({d})"),
    Piece(
        "{r} = {x} * self.l{n}({x})",
        "self.l{n} = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d({d}, 2, 1), nn.ReLU(), nn.Conv2d(2, {d}, 1), "
        "nn.Sigmoid())",
    ),
    Piece("{r} = self.l{n}({x}.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)", "self.l{n} = nn.LayerNorm({d})"),
    Piece("{r} = self.l{n}({x}.flatten(2).transpose(1, 2))", "self.l{n} = nn.Linear({d}, 5)"),
    *_all(
        "{r} = F.max_pool2d({x}, 2)",
        "{r} = F.max_pool2d({x}, 3, 2, 1)",
        "{r} = F.avg_pool2d({x}, 2, ceil_mode=True)",
        "{r} = F.avg_pool2d({x}, 3, 1, 1, count_include_pad=False)",
        "{r} = F.adaptive_avg_pool2d({x}, (2, 1))",
        "{r} = F.adaptive_max_pool2d({x}, 2)",
        "{r} = F.interpolate({x}, scale_factor=2)",
        "{r} = {x}.mean((2, 3))",
        "{r} = F.interpolate({x}, size=(3, 5), mode='bilinear')",
        "{r} = F.interpolate({x}, scale_factor=0.7, mode='bicubic')",
        "{r} = F.interpolate({x}, size=(2, 3), mode='bilinear', antialias=True)",
        "{r} = F.unfold({x}, 2, stride=2)",
        "{r} = F.pixel_shuffle({x}, 2)",
        "{r} = F.pixel_unshuffle({x}, 2)",
        "{r} = {x}.amax((2, 3), keepdim=True) + {x}",
        "{r} = F.pad({x}, (1, 1, 0, 1), mode='reflect')",
        "{r} = F.pad({x}, (0, 1, 1, 0), mode='replicate')",
        "{r} = {x}.flatten(2)",
        "{r} = {x}.permute(0, 2, 3, 1)",
        "{r} = F.channel_shuffle({x}, 2)",
        "{r} = {x}.mT",
        "{r} = F.local_response_norm({x}, 3)",
        "{r} = F.lp_pool2d({x}, 2.0, 2)",
        "{r} = {x}.var((0, 2, 3)).mean() * {x}",
        "{r} = F.grid_sample({x}, torch.tanh({x}[:, :2].permute(0, 2, 3, 1)), align_corners=False)",
        "{r} = torch.cat([{x}, {x}.mean(1, keepdim=True).expand(-1, 2, -1, -1)], 1)",
        "{r} = F.cross_entropy({x}, {x}.argmax(1)) + {x}",
    ),
]
"""Functions of x[n, d, rows, c]."""

BY_RANK: Final = {2: ROWS, 3: SERIES, 4: IMAGES}
"""The pieces of tensors of one rank."""
