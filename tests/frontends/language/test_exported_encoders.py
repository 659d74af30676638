"""Models of transformers by the older exporter of PyTorch, with symbols for batch and length, beside ONNX Runtime.

Each is run for sizes other than those of the export; its masks are gathered from tensors of merged axes, its positions
and expansions are computed of sizes.
"""

# pyright: basic
# torch has no types here.

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from frontends.language.package import transformers

from prograd import Run, from_onnx

LAYERS: dict[str, Any] = {
    "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 100,
}  # fmt: skip
ENDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}
RELATIVE = {
    "relative_attention": True, "position_buckets": 8, "norm_rel_ebd": "layer_norm", "share_att_key": True,
    "pos_att_type": ["p2c", "c2p"],
}  # fmt: skip
MODELS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("Bert", "Roberta", "XLMRoberta", "MPNet", "Falcon", "GPTNeoX"), LAYERS),
    "DebertaV2": LAYERS | RELATIVE,
    **dict.fromkeys(("Mistral", "Gemma2"), LAYERS | {"num_key_value_heads": 2, "head_dim": 16, "sliding_window": 8}),
    **dict.fromkeys(("Albert", "Electra"), LAYERS | {"embedding_size": 64}),
    **dict.fromkeys(("Llama", "Qwen2"), LAYERS | {"num_key_value_heads": 2}),
    "ModernBert": LAYERS | ENDS | {"num_hidden_layers": 3},
    "GPT2": {"n_layer": 2, "n_head": 4, "n_embd": 64, "vocab_size": 100},
    "Bloom": {"n_layer": 2, "n_head": 4, "hidden_size": 64, "vocab_size": 100},
    "DistilBert": {"n_layers": 2, "n_heads": 4, "dim": 64, "hidden_dim": 128, "vocab_size": 100},
    "OPT": {k: v for k, v in LAYERS.items() if k != "intermediate_size"} | {"ffn_dim": 128, "word_embed_proj_dim": 64},
    "T5": {"num_layers": 2, "d_model": 64, "num_heads": 4, "d_kv": 16, "d_ff": 128, "vocab_size": 100},
}


def exported(name: str, path: Path) -> None:
    """Write a model with random weights, exported from two rows of 16 codes."""
    torch.manual_seed(0)
    kind = getattr(transformers, "T5EncoderModel" if name == "T5" else f"{name}Model")
    model = kind(getattr(transformers, f"{name}Config")(**MODELS[name])).eval()

    class Wrapped(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, codes: Any, mask: Any) -> Any:
            kept = {"use_cache": False} if hasattr(model.config, "use_cache") else {}
            return self.model(input_ids=codes, attention_mask=mask, **kept).last_hidden_state

    codes = torch.randint(3, 100, (2, 16))
    sizes = {0: "batch", 1: "length"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Wrapped().eval(), (codes, torch.ones_like(codes)), path, input_names=["codes", "mask"], output_names=["y"],
            dynamic_axes={"codes": sizes, "mask": sizes}, dynamo=False, opset_version=17,
        )  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_a_model_with_symbols_for_batch_and_length_agrees_with_onnx_runtime(name: str, tmp_path: Path):
    path = tmp_path / "model.onnx"
    exported(name, path)
    program, session = from_onnx(path), onnxruntime.InferenceSession(path)
    for batch, length in ((3, 17), (1, 5), (2, 40)):
        given = {
            "codes": np.random.default_rng(length).integers(3, 100, (batch, length)),
            "mask": np.ones((batch, length), np.int64),
        }
        given["mask"][0, length - 2 :] = 0
        given = {each.name: given[each.name] for each in session.get_inputs()}
        [wanted] = session.run(None, given)
        for engine in ("reference", "native"):
            run = Run(program.compile(batch=batch, length=length), engine=engine)  # type: ignore[arg-type]
            found = run.step(given, entry="predict")["y"]
            np.testing.assert_allclose(found, wanted, atol=2e-5)
