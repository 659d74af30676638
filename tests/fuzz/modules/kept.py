"""Lines of random modules that keep, share, nest, index, view and write; and lines that change a module once made."""

from __future__ import annotations

from typing import Final

from fuzz.modules.pieces import Piece

REFUSED: Final = (
    "Clamped(",
    "Flagged(",
    ".append(1)",
    ".detach().mul_(",
    ".data.add_(",
    "with torch.no_grad():\n    {r}",
    "{r} = {x} + self.b{n}.sum()\nself.b{n}[1:]",
    "{r} = {x} * self.b{n}\nself.b{n} =",
    "self.seen",
    "torch.take(",
    "{x}[1:]",
)
"""Parts of the lines that every import refuses, mostly for what they do, and some for symbols."""

KEPT: Final = [
    Piece("{r} = self.l{n}({x})", f"self.l{{n}} = {part}", part.startswith(REFUSED))
    for part in (
        "Average({c}, assigns=True)",
        "Average({c}, assigns=False)",
        "Codes({c})",
        "Counter()",
        "Ring({c})",
        "Clamped({c}, by_data=True)",
        "Clamped({c}, by_data=False)",
        "Flagged()",
        "Modes({c})",
        "Nested({c}, shares=True)",
        "Nested({c}, shares=False)",
        "Transposed({c})",
        "nn.Sequential(nn.Linear({c}, 4), "
        "nn.Sequential(nn.BatchNorm1d(4) if {t} == 2 else nn.ReLU(), nn.Dropout(0.0)))",
    )
] + [
    Piece("self.b{n} = {x}.detach().mean()\n{r} = {x} * self.b{n}", "self.register_buffer('b{n}', torch.zeros(()))"),
    Piece("{r} = {x} * self.b{n}\nself.b{n} = {x}.detach().mean()", "self.register_buffer('b{n}', torch.ones(()))"),
    Piece("{r} = {x} + self.b{n}.sum()\nself.b{n}[1:] += 0.1", "self.register_buffer('b{n}', torch.ones(3))"),
    Piece("v = self.b{n}.view(2, 2)\nif self.training:\n    v[0].add_(0.5)\n{r} = {x} * self.b{n}.mean()",
          "self.register_buffer('b{n}', torch.ones(4))"),
    Piece("if self.training:\n    self.b{n}.fill_(float('inf')).clamp_(max={k})\n{r} = {x} * self.b{n}",
          "self.register_buffer('b{n}', torch.ones(1), persistent=False)"),
    Piece("if self.training:\n    self.b{n}.logical_not_()\n{r} = torch.where(self.b{n}, {x}, -{x})",
          "self.register_buffer('b{n}', torch.tensor([True]))"),
    Piece("if self.training:\n    self.b{n}.zero_().add_({x}.detach().amax())\n{r} = {x} / (1 + self.b{n}.abs())",
          "self.register_buffer('b{n}', torch.zeros(1))"),
    Piece("self.seen{n} = {x}.mean()\n{r} = {x} + self.seen{n}"),
    Piece("self.all{n}.append(1)\n{r} = {x} * len(self.all{n})", "self.all{n} = []"),
    Piece("{r} = torch.func.functional_call(self.l{n}, {{'weight': self.l{n}.weight * {s}}}, ({x},))",
          "self.l{n} = nn.Linear({c}, 3)"),
    Piece("{r} = torch.func.functional_call(self.l{n}, {{'mean': {x}.mean().expand({c})}}, ({x},))",
          "self.l{n} = Average({c}, assigns=False)"),
    Piece("{r} = torch.utils.checkpoint.checkpoint(self.l{n}, {x}, use_reentrant=False)",
          "self.l{n} = nn.Sequential(nn.Linear({c}, 4), nn.Tanh())"),
    Piece("{r} = torch.func.vmap(lambda row: row * row.sum())({x})"),
    Piece("{r} = {x} * torch.stack([p.sum() for p in self.l{n}.parameters()]).sum()", "self.l{n} = nn.Linear(2, 2)"),
    Piece("y = {x}.detach().requires_grad_()\n{r} = {x} * torch.autograd.grad(y.square().sum(), y)[0]"),
    Piece("with torch.no_grad():\n    y = self.l{n}({x})\n{r} = {x} + y.mean()", "self.l{n} = nn.Linear({c}, 2)"),
    Piece("with torch.no_grad():\n    with torch.enable_grad():\n        {r} = self.l{n}({x})",
          "self.l{n} = nn.Linear({c}, 2)"),
    Piece("{r} = self.l{n}({x}) + self.l{n}.bias.detach() * self.l{n}.weight.data.mean()",
          "self.l{n} = nn.Linear({c}, 2)"),
    Piece("w = self.p{n} - self.p{n}.mean()\n{r} = {x} * (w + (w.sign() - w).detach())",
          "self.p{n} = nn.Parameter(torch.randn({c}))"),
    Piece("{r} = {x} * self.p{n}[0] + self.p{n}[1:].sum()", "self.p{n} = nn.Parameter(torch.randn(4))"),
    Piece("{r} = {x} @ self.p{n}.view({c}, -1)[:, :2]", "self.p{n} = nn.Parameter(torch.randn({c} * 3))"),
    Piece("{r} = F.embedding({x}.argmax(-1), self.l{n}.weight[1:]) if {c} < 6 else {x}",
          "self.l{n} = nn.Embedding(7, 3)"),
    Piece("{r} = torch.cat([self.p{n}.expand({x}.shape[0], *{x}.shape[1:]), {x}], 1)",
          "self.p{n} = nn.Parameter(torch.randn(1, *[1] * ({t} - 2), {c}))"),
    Piece("{r} = self.l{n}({x}, self.k{n})", "self.l{n} = nn.Bilinear({c}, 2, 3)\nself.k{n} = None"),
    Piece("{r} = {x} + F.dropout({x}, {k} / 2, training=False)"),
    Piece("{r} = self.l{n}({x})", "self.l{n} = nn.utils.parametrizations.spectral_norm(nn.Linear({c}, 3))"),
    Piece("{r} = self.l{n}({x})", "self.l{n} = nn.utils.parametrizations.orthogonal(nn.Linear({c}, {c}))"),
]  # fmt: skip
"""Modules that keep, share and nest."""

KEPT[:] = [piece._replace(is_refused=piece.is_refused or any(x in piece.forward for x in REFUSED)) for piece in KEPT]

WRITES: Final = [
    Piece(forward, is_refused=any(part in forward for part in REFUSED))
    for forward in (
        "{r} = {x}.clone()\n{r}.detach().mul_({k})",
        "{r} = {x}.clone()\n{r}.data.add_({s})",
        "{r} = {x}.clone()\nwith torch.no_grad():\n    {r}[:, 0] = {s}",
        "{r} = {x}.clone()\nwith torch.no_grad():\n    {r}.mul_({k})",
        "y = {x} * 1\n{r} = y.mT if {t} > 2 else y.t().t()\ny += {k}",
        "{r} = {x}.clone()\nfor row in {r}.unbind(-1)[:1]:\n    pass\n{r}.select(-1, 0).mul_({s})",
        "{r} = {x}.clone()\n{r}.unsqueeze(1)[:, 0, 1:] *= {k}",
        "{r} = torch.empty_like({x})\n{r}.copy_({x}).mul_({y})",
        "{r} = torch.empty_like({x})\ntorch.add({x}, {y}, out={r}.detach()) if False else {r}.copy_({x} + {y})",
        "{r} = {x}.clone()\n{r}.diagonal(0, -2, -1).add_({s})",
        "{r} = {x}.clone()\n{r}.masked_fill_({y} > {s}, {s})",
        "{r} = {x}.clone()\n{r}[{y} > {s}] = 0\n{r}[..., -1] -= {y}[..., 0]",
        "{r} = {x}.clone()\n{r}[{x} > {s}] *= {k}",
        "{r} = {x}.index_fill(-1, torch.tensor([0]), {s})",
        "{r} = {x}.index_add(-1, torch.tensor([0, 0, 1]), {y}[..., [0, 1, 1]], alpha={s})",
        "{r} = {x}.index_copy(1, torch.tensor([1]), {y}[:, :1])",
        "{r} = {x}.scatter_reduce(-1, {y}.argsort(-1) // 2, {y}, 'amax')",
        "{r} = {x}.scatter_reduce(1, {y}.argsort(1), {y}, 'mean', include_self=False)",
        "{r} = {x}.scatter(1, {y}.argmax(1, keepdim=True), {k})",
        "{r} = {x}.select_scatter({y}.select(1, 0), 1, -1)",
        "{r} = {x}.slice_scatter({y}[..., 1:], -1, 1)",
        "{r} = {x}.masked_scatter({y} > {s}, {y})",
        "{r} = {x}.clone()\n{r}[:, [0, -1]] = {y}[:, [1, 0]]",
        "{r} = {x}.clone()\n{r}[torch.arange({x}.shape[0]), {x}.flatten(1).argmax(1) % {d}] = {s}",
        "{r} = {x}.clone()\n{r}.index_put_((torch.arange({x}.shape[0])[:, None], "
        "torch.tensor([0, 1, 1])), {y}[:, :1].sum(), accumulate=True)",
        "{r} = {x}.clone()\n{r}[0] = {y}[-1]",
        "{r} = {x}.clone()\n{r}[-1].zero_()",
        "{r} = {x}.clone()\n{r}[..., {r}.shape[-1] // 2:] = 1.5",
        "{r} = {x}.clone()\n{r}[:, 1:] = {r}[:, :-1].clone()",
        "{r} = {x}.clone()\n{r}[:, 1:].copy_({y}[:, :1].expand_as({r}[:, 1:]))",
        "a, b = ({x} + 0).chunk(2, -1)\n{r} = torch.cat([b, a * {k}], -1)",
        "{r} = {x}[:, None, ..., None].squeeze(-1)[:, 0]",
        "{r} = {x}[:, [0, 1], ..., [1, 0]]",
        "{r} = {x}[..., torch.tensor([[0, 1], [1, 0]])].sum(-1)",
        "{r} = {x}[:, torch.tensor([True] + [False] * ({d} - 1))] + {x}[:, :1]",
        "{r} = {x}[{x}.argsort(0)[:, *[0] * ({t} - 1)]]",
        "{r} = {x}[{x}.flatten(1).sum(1).argsort()]",
        "{r} = {x}.take_along_dim({y}.argmax(1, keepdim=True), 1) + {x}",
        "{r} = torch.take({x}, {y}.argsort(-1))",
        "{r} = {x}.unflatten(-1, (1, -1)).swapaxes(-1, -2).flatten(-2)",
        "{r} = {x}.as_strided(({x}.shape[0], 2), ({x}.stride(0), 1)) + 1",
        "{r} = {x}.view_as({y}).T.T if {t} == 2 else {x}.transpose(-1, -2).contiguous().mT",
        "{r} = {x}.reshape(-1, {c})[: {x}.shape[0]]",
        "{r} = torch.tensor_split({x}, 2, -1)[0]",
        "{r} = {x}.float().to({x}.dtype)",
        "{r} = {x} * {x}.int().clamp(-2, 2) + {x}.bool()",
        "{r} = {x} / {x}.shape[0]",
        "{r} = {x} * ({x}.shape[0] > 3) + {x}.shape[1]",
        "{r} = {x}[:2].sum(0) + {x}",
        "{r} = {x}[1:].sum(0) + {x}",
        "{r} = {x} + torch.arange({x}.shape[0]).clamp(max=4).view(-1, *[1] * ({t} - 1))",
        "{r} = {x} * 2 if {x}.shape[0] > 4 else {x}",
        "{r} = {x} * 2 if {x}.shape[0] == 1 else {x}",
        "{r} = {x} + (torch.arange({x}.shape[0]) < 5).sum()",
        "{r} = {x}.squeeze(0).sum() + {x}",
        "{r} = {x} - {x}.mean(0, keepdim=True).expand({x}.shape)",
        "{r} = {x}.quantile({k} / 2, dim=-1) if {t} > 2 else {x}",
        "{r} = {x}.kthvalue(2, -1)[0] if {t} > 2 else {x}",
        "{r} = torch.nanmean({x} / ({x} > 0), 1, keepdim=True).nan_to_num(posinf=1) + {x}",
        "{r} = {x}.aminmax(dim=-1, keepdim=True)[1] * {x}",
        "{r} = torch.rot90({x}, 1, (-2, -1)) if {t} > 2 else {x}.fliplr()",
        "{r} = torch.cov({x}.flatten(1))",
        "{r} = torch.kron({x}, {x}[:1]) if {t} == 2 else {x}",
        "{r} = {x}.renorm(2, 1, {k})",
        "{r} = torch.trapezoid({x}, dim=-1) if {t} > 2 else {x}",
        "{r} = torch.bucketize({x}, torch.tensor([-1.0, 0.0, 1.0], dtype={x}.dtype)).to({x}.dtype) * {x}",
        "{r} = torch.special.expit({x}) + torch.special.erfinv({x}.tanh() * 0.9)",
        "{r} = torch.special.logit({x}.sigmoid(), eps=0.1)",
        "{r} = torch.sinc({x}) + torch.frac({x}) + torch.positive({x})",
        "{r} = torch.dist({x}, {y} + 2) * {x}",
        "{r} = torch.cumulative_trapezoid({x}, dim=-1)",
        "{r} = torch.nn.functional.embedding_bag({x}.flatten(1)[:, :2].argsort(1), {y}.flatten(1)[:2], mode='sum')",
    )
]
"""Writes into tensors and views of them, indices, and numbers made of sizes."""

CHANGES: Final = (
    "net.{m}.eval()",
    "net.{m}.requires_grad_(False)",
    "net.{m}.register_forward_hook(lambda module, args, y: y * 0.5 if isinstance(y, torch.Tensor) else None)",
    "net.{m}.register_forward_pre_hook(lambda module, args: (args[0] + 0.1, *args[1:]))",
    "net.{m}.register_full_backward_hook(lambda module, given, made: "
    "(given[0] * 0.5,) if given[0] is not None else None)",
    "next(net.{m}.parameters()).register_hook(lambda g: g.clamp(-1e-3, 1e-3))",
    "next(net.{m}.parameters()).register_post_accumulate_grad_hook(lambda p: p.grad.mul_(0.5))",
    "net.first.requires_grad_(False)",
    "net.eval()",
)
"""Lines that change a module once it is made; {m} is a submodule."""

CHANGE_RATES: Final = (0.3, 0.2, 0.13, 0.13, 0.02, 0.02, 0.02, 0.1, 0.08)
"""How often each is drawn: hooks of gradients are refused."""
