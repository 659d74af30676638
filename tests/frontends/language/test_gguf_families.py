"""GGUF files of Qwen2, Qwen3 and Gemma 3, written by the package `gguf`, beside transformers with the same weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from frontends.language.package import transformers
from subjects.language_model import CODES, SIZES

import prograd
from compiler import from_lm
from compiler.__main__ import main as compiler
from runtime.language.choices import Choices
from runtime.language.writer import Writer

gguf: Any = pytest.importorskip("gguf")
LENGTH = 48
MORE = {"rms_norm_eps": 1e-5, "rope_theta": 20000.0, "eos_token_id": 2, "bos_token_id": 1, "pad_token_id": 0}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "qwen2": ("Qwen2", {**SIZES, **MORE, "tie_word_embeddings": True}),
    "qwen3": ("Qwen3", {**SIZES, **MORE, "head_dim": 32, "tie_word_embeddings": False}),
    "gemma3": ("Gemma3Text", {**SIZES, **MORE, "num_hidden_layers": 7, "head_dim": 32, "query_pre_attn_scalar": 32,
                              "sliding_window": 16, "hidden_activation": "gelu_pytorch_tanh"}),
}  # fmt: skip
FORMS = {
    "F32": lambda name: "F32",
    "Q8_0": lambda name: "Q8_0",
    "mixed": lambda name: "F16" if "attn_" in name else "BF16" if "token_embd" in name else "Q4_0",
}


def twin(family: str) -> Any:
    """Return a model of transformers with random weights, in float64."""
    name, sizes = FAMILIES[family]
    torch.manual_seed(0)
    made = getattr(transformers, f"{name.removesuffix('Text')}ForCausalLM")(
        getattr(transformers, f"{name}Config")(**sizes)
    ).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return made.double()


def written(family: str, made: Any, path: Path, form: str) -> None:
    """Write the weights as a file, by the package's names and as convert_hf_to_gguf.py has them.

    The model gets the numbers that the blocks of the file stand for.
    """
    sizes, word = FAMILIES[family][1], family
    writer = gguf.GGUFWriter(str(path), word)
    size = sizes.get("head_dim", sizes["hidden_size"] // sizes["num_attention_heads"])
    writer.add_context_length(sizes["max_position_embeddings"])
    writer.add_embedding_length(sizes["hidden_size"])
    writer.add_block_count(sizes["num_hidden_layers"])
    writer.add_feed_forward_length(sizes["intermediate_size"])
    writer.add_head_count(sizes["num_attention_heads"])
    writer.add_head_count_kv(sizes["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(sizes["rms_norm_eps"])
    writer.add_rope_freq_base(sizes["rope_theta"])
    if "head_dim" in sizes:
        writer.add_key_length(size)
        writer.add_value_length(size)
    if "sliding_window" in sizes:
        writer.add_sliding_window(sizes["sliding_window"])
    writer.add_file_type(0)
    writer.add_eos_token_id(2)
    names = gguf.get_tensor_name_map(getattr(gguf.MODEL_ARCH, family.upper()), sizes["num_hidden_layers"])
    state = made.state_dict()
    for name, tensor in state.items():
        if name == "lm_head.weight" and made.config.tie_word_embeddings:
            continue
        there = names.get_name(name, try_suffixes=(".weight", ".bias"))
        array = tensor.float().numpy()
        kind = FORMS[form](there) if array.ndim == 2 else "F32"
        own = array + 1 if family == "gemma3" and name.endswith("norm.weight") else array
        stored = gguf.quants.quantize(own, gguf.GGMLQuantizationType[kind])
        back = gguf.quants.dequantize(stored, gguf.GGMLQuantizationType[kind])
        writer.add_tensor(there, stored, raw_dtype=gguf.GGMLQuantizationType[kind])
        tensor.copy_(torch.from_numpy(back - 1 if own is not array else back))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("family", FAMILIES)
def test_logits_and_texts_are_those_of_transformers(tmp_path: Path, family: str, form: str):
    made = twin(family)
    with torch.no_grad():
        written(family, made, tmp_path / "m.gguf", form)
    codes = np.random.default_rng(0).integers(3, CODES, (4, LENGTH)).astype(np.int32)
    program = from_lm(tmp_path / "m.gguf", length=LENGTH, positions=64, output=tmp_path / "m.pb")
    program.outputs(logits=program["logits"])
    with torch.no_grad():
        wanted = made(torch.from_numpy(codes).long()).logits.numpy()
        how = {"do_sample": False, "pad_token_id": 0, "eos_token_id": None, "max_new_tokens": 30}
        prompt = torch.from_numpy(codes[:1, :9]).long()
        text = made.generate(prompt, attention_mask=torch.ones_like(prompt), **how)[0, 9:].tolist()
    engines = ("reference", "native") if form != "mixed" else ("native",)
    for engine in engines:
        run = prograd.Run(program.compile(batch=4), tmp_path, engine=engine)  # type: ignore[arg-type]
        np.testing.assert_allclose(run.predict({"codes": codes})["logits"], wanted, rtol=2e-4, atol=2e-4)
        writer = Writer(prograd.Run(program.compile(batch=1), tmp_path, engine=engine).session)  # type: ignore[arg-type]
        writer.begin(0, Choices())
        found = [writer.read(0, codes[0, :9].tolist())]
        while len(found) < 30:
            found.append(writer.next([found[-1]])[0] or 0)
        assert found == text


@pytest.mark.parametrize("family", FAMILIES)
def test_the_package_reads_a_written_file_with_the_weights_of_the_model(tmp_path: Path, family: str):
    made = twin(family)
    with torch.no_grad():
        written(family, made, tmp_path / "m.gguf", "F32")
    assert compiler(["import", "lm", str(tmp_path / "m.gguf"), "-o", str(tmp_path / "net.pb")]) == 0
    again = tmp_path / "again.gguf"
    assert compiler(["merge", str(tmp_path / "net.pb"), "--layout", "gguf", "-o", str(again)]) == 0
    before, after = (
        {tensor.name: np.array(tensor.data) for tensor in gguf.GGUFReader(path).tensors}
        for path in (tmp_path / "m.gguf", again)
    )
    assert before.keys() == after.keys()
    for name, array in before.items():
        np.testing.assert_allclose(array, after[name], rtol=0, atol=1e-6, err_msg=name)
