"""GGUF files beside the package `gguf`: what blocks stand for, what it reads of ours, and what we read of its."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from subjects.language_model import GPT2, LLAMA, made_folder, weights_of

import prograd
from compiler.__main__ import main as compiler
from compiler.frontends.language_models.gguf_blocks import widened_blocks
from compiler.quantization.block_codes import narrow
from runtime.language.gguf import KINDS, GgufTensor, read_gguf

gguf: Any = pytest.importorskip("gguf")
BLOCKED = [kind for kind in KINDS.values() if kind.elements > 1]


@pytest.mark.parametrize("kind", BLOCKED, ids=lambda kind: kind.name)
def test_blocks_stand_for_the_numbers_of_the_package(kind: Any):
    rng = np.random.default_rng(0)
    raw = rng.integers(0, 256, (16, 4 * kind.nbytes), dtype=np.uint8)
    with np.errstate(all="ignore"):  # some scales are not finite
        wanted = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType[kind.name])
    tensor = GgufTensor(kind, (16, 4 * kind.elements), 0, raw.nbytes)
    np.testing.assert_array_equal(widened_blocks(tensor, raw.tobytes()), wanted)


@pytest.mark.parametrize("form", ["q8_0", "q4_0"])
def test_weights_become_the_codes_of_the_package(form: str):
    x = np.random.default_rng(1).normal(size=(64, 256)).astype("f4")
    x[3, :32] = 0
    wanted = gguf.quants.quantize(x, gguf.GGMLQuantizationType[form.upper()]).reshape(64, 8, -1)
    codes, scales = narrow(x, form)
    np.testing.assert_array_equal(codes.reshape(64, 8, -1), wanted[..., 2:])
    np.testing.assert_array_equal(scales[..., None].view("u1"), wanted[..., :2])


@pytest.mark.parametrize("config", [LLAMA, GPT2], ids=["llama", "gpt2"])
def test_the_package_reads_what_is_written(tmp_path: Path, config: dict[str, Any]):
    made_folder(tmp_path / "m", config)
    program, file = tmp_path / "net.pb", tmp_path / "m.gguf"
    assert compiler(["import", "lm", str(tmp_path / "m"), "-o", str(program)]) == 0
    assert compiler(["merge", str(program), "--layout", "gguf", "-o", str(file)]) == 0
    read = gguf.GGUFReader(file)
    ours = read_gguf(file)
    assert {name: field.contents() for name, field in read.fields.items() if name[:5] != "GGUF."} == ours.values
    found = {tensor.name: np.array(tensor.data) for tensor in read.tensors}
    weights = weights_of(config)
    if config is GPT2:
        np.testing.assert_array_equal(found["blk.1.attn_qkv.weight"], weights["h.1.attn.c_attn.weight"].T)
        return
    wanted = weights["model.layers.1.self_attn.q_proj.weight"]
    rows = wanted.reshape(4, 2, 8, 64).swapaxes(1, 2).reshape(64, 64)  # as convert_hf_to_gguf.py has them
    np.testing.assert_array_equal(found["blk.1.attn_q.weight"], rows)
    np.testing.assert_array_equal(found["token_embd.weight"], weights["model.embed_tokens.weight"])


def test_llama_cpp_writes_the_same_text(tmp_path: Path):
    llama_cpp: Any = pytest.importorskip("llama_cpp")
    made_folder(tmp_path / "m")
    program, file = tmp_path / "net.pb", tmp_path / "m.gguf"
    assert compiler(["import", "lm", str(tmp_path / "m"), "-o", str(program)]) == 0
    assert compiler(["merge", str(program), "--layout", "gguf", "-o", str(file)]) == 0
    prompt = "the capital of belgium is"
    model = llama_cpp.Llama(str(file), n_ctx=128, n_threads=1, verbose=False, seed=0, logits_all=True)
    wanted = model(prompt, max_tokens=20, temperature=0.0, repeat_penalty=1.0)["choices"][0]["text"]
    run = prograd.load(program)
    found = "".join(run.chat(prompt, plain=True, most=20)).replace("\ufffd", "")  # it drops bytes that are no text
    assert found.strip() == wanted.strip()
