"""The comparison of many networks with PyTorch, and its page: `python -m frontends.census [--jobs 2] [NAMES]`.

Run it with PYTHONPATH=tests. Each network is measured in a process of its own, and its row is appended to
tests/frontends/census.jsonl; networks that have a row there are left out unless they are named. A name may end with
the size of its images, as in "timm:maxvit_nano_rw_256@256". `--page` prints docs/from-pytorch-networks.md from the rows
and needs no PyTorch.

1. In float64: results, loss, gradients and running statistics after a step, for all networks.
   The module computes in float64 throughout, also where it casts to float32.
2. The same in float32, for the networks of `STEPPED`.
3. States after five steps of SGD and AdamW, in float32 and float64, for the networks of `STEPPED`.

The reference engine computes, as it needs no compiler. `pytest tests/frontends` compares networks by the native engine.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, Final

ROWS: Final = Path(__file__).with_name("census.jsonl")
SECONDS: Final = 900
"""Time after which a network counts as not compared."""

LIMITS: Final = {
    "float32": {"outputs": 1e-4, "loss": 1e-3, "gradients": 1e-3, "statistics": 1e-3, "SGD": 1e-3, "AdamW": 1e-3},
    "float64": {"outputs": 1e-9, "loss": 1e-9, "gradients": 1e-6, "statistics": 1e-9, "SGD": 1e-9, "AdamW": 1e-9},
}
"""Largest relative differences of a network that agrees."""

NETWORKS: Final = {
    "torchvision": "alexnet convnext_tiny densenet121 efficientnet_b0 efficientnet_v2_s googlenet inception_v3@299 "
    "maxvit_t@224 mnasnet1_0 mobilenet_v2 mobilenet_v3_large mobilenet_v3_small regnet_x_400mf regnet_y_400mf "
    "resnet18 resnet50 resnext50_32x4d shufflenet_v2_x1_0 squeezenet1_1 swin_t swin_v2_t vgg11_bn vit_b_16 "
    "wide_resnet50_2",
    "timm": "beit_base_patch16_224 cait_xxs24_224 coat_lite_tiny convit_tiny convmixer_768_32 convnext_atto "
    "convnextv2_atto cs3darknet_focus_s davit_tiny deit_tiny_patch16_224 dla46_c edgenext_xx_small "
    "efficientformer_l1@224 efficientvit_b0 efficientvit_m0 eva02_tiny_patch14_224 fastvit_t8 focalnet_tiny_srf "
    "ghostnet_100 gmlp_ti16_224 hardcorenas_a hgnetv2_b0 hrnet_w18_small inception_next_atto lcnet_050 levit_128s "
    "mambaout_femto mixer_s32_224 mobilenetv4_conv_small mobileone_s0 mobilevit_xxs mobilevitv2_050 nf_regnet_b0 "
    "pit_ti_224 poolformer_s12 pvt_v2_b0 regnetx_002 repvgg_a0 repvit_m0_9 resmlp_12_224 resnet10t rexnet_100 "
    "skresnet18 vit_tiny_patch16_224 visformer_tiny xcit_nano_12_p16_224",
    "transformers": "AlbertModel BartModel BertModel BertForSequenceClassification BloomForCausalLM CLIPModel "
    "ConvNextModel DebertaV2Model DeiTModel Dinov2Model DistilBertModel ElectraModel GPT2LMHeadModel GPTJForCausalLM "
    "GPTNeoForCausalLM GPTNeoXForCausalLM GemmaForCausalLM LlamaForCausalLM MPNetModel MistralForCausalLM "
    "ModernBertModel OPTForCausalLM PhiForCausalLM Qwen2ForCausalLM Qwen3ForCausalLM RobertaModel SegformerModel "
    "SwinModel T5Model ViTModel",
}
"""Architectures by package: 24 of torchvision, 46 of timm, 30 of transformers."""

STEPPED: Final = {
    *(f"transformers:{name}" for name in NETWORKS["transformers"].split()),
    *(f"torchvision:{name}" for name in ["squeezenet1_1", "mobilenet_v3_small", "mnasnet0_5", "shufflenet_v2_x0_5"]),
    *(f"timm:test_{name}" for name in ["vit@160", "resnet", "convnext", "efficientnet"]),
    "timm:convnext_atto",
}
"""Small networks, which are compared in float32 too, and whose states are compared after five steps."""

Row = dict[str, Any]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", action="store_true", help="print the page of the rows, and measure nothing")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args(arguments)
    if options.page:
        from frontends.census_page import page

        sys.stdout.write(page(rows()))
        return
    known = rows()
    names = options.names or [name for name in all_names() if name not in known]
    if not _measured(names, options.jobs):
        raise SystemExit(1)


def all_names() -> list[str]:
    """Return the networks, those whose steps are compared first."""
    names = [f"{package}:{name}" for package, listed in NETWORKS.items() for name in listed.split()]
    return [*sorted(STEPPED, reverse=True), *(name for name in names if name not in STEPPED)]


def rows() -> dict[str, Row]:
    """Return the latest row of each network."""
    lines = ROWS.read_text().splitlines() if ROWS.exists() else []
    return {row["name"]: row for row in map(json.loads, lines)}


def _measured(names: list[str], jobs: int) -> bool:
    """Measure the networks in processes that share the imports; return True if all agree."""
    from frontends.measured import measured  # imports PyTorch and the packages, once

    running: dict[int, str] = {}
    queue = list(names)
    while queue or running:
        while queue and len(running) < jobs:
            name = queue.pop(0)
            child = os.fork()
            if not child:
                signal.alarm(SECONDS)
                _append(measured(name, has_steps=name in STEPPED))
                os._exit(0)
            running[child] = name
        child, status = os.wait()
        if name := running.pop(child, ""):
            if status:
                _append({"name": name, "error": f"not compared within {SECONDS} seconds"})
            print(name, verdict(rows()[name]), flush=True)
    return all(agrees(rows()[name]) for name in names)


def _append(row: Row) -> None:
    with ROWS.open("a") as file:
        file.write(json.dumps(row) + "\n")


def verdict(row: Row) -> str:
    """Return "agrees", or what differs."""
    if "error" in row:
        return row["error"]
    worst = differing(row, "float64")
    return f"differs: {', '.join(worst)}" if worst else "agrees"


def agrees(row: Row) -> bool:
    """Return True if all was compared in float64, and nothing differs."""
    return "error" not in row and not differing(row, "float64")


def differing(row: Row, dtype: str) -> list[str]:
    """Return what exceeds its limit."""
    found = row.get(dtype, {})
    return [name for name, limit in LIMITS[dtype].items() if name in found and not found[name] <= limit]


if __name__ == "__main__":
    main()
