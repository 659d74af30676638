"""Language models of GGUF files, and tuned models as such files."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from subjects.language_model import GPT2, LLAMA, made_folder

import prograd
from compiler.__main__ import main as compiler
from runtime.language.gguf import read_gguf

pytestmark = pytest.mark.usefixtures("here")

FED = {
    "codes": np.random.default_rng(0).integers(0, 300, (4, 24)).astype(np.int32),
    "labels": np.random.default_rng(1).integers(0, 300, (4, 24)).astype(np.int32),
}


def imported(source: str, output: str, *options: str) -> prograd.Run:
    assert compiler(["import", "lm", source, "--length", "24", "--batch", "4", *options, "-o", output]) == 0
    return prograd.load(output)


def merged(program: str, output: str, *options: str) -> None:
    assert compiler(["merge", program, *options, "--layout", "gguf", "-o", output]) == 0


def loss(run: prograd.Run) -> float:
    return float(run.step(FED, entry="evaluate")["loss"])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("config", [LLAMA, GPT2], ids=["llama", "gpt2"])
def test_a_model_goes_out_and_comes_in_again(config: dict[str, Any], dtype: str):
    made_folder(Path("m"), config, dtype=dtype)
    run = imported("m", "net.pb")
    merged("net.pb", "m.gguf")
    again = imported("m.gguf", "again.pb")
    assert loss(again) == loss(run)
    said = "who is 5 ?"
    assert list(again.chat(said, most=8)) == list(run.chat(said, most=8))
    kinds = {tensor.kind.name for tensor in read_gguf(Path("m.gguf")).tensors.values()}
    assert kinds == ({"F32"} if dtype == "float32" else {"F32", "BF16"})


LLAMA_3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LINEAR = {"rope_type": "linear", "factor": 3.0}


def test_equal_factors_of_a_tensor_are_kept_and_factors_of_one_are_none():
    made_folder(Path("m"), LLAMA | {"rope_scaling": LLAMA_3})
    imported("m", "net.pb")
    merged("net.pb", "m.gguf")
    tensor = read_gguf(Path("m.gguf")).tensors["rope_freqs.weight"]
    raw = bytearray(Path("m.gguf").read_bytes())
    raw[tensor.offset : tensor.offset + tensor.nbytes] = np.full(tensor.shape, 2, "<f4").tobytes()
    Path("m.gguf").write_bytes(raw)
    imported("m.gguf", "again.pb")
    merged("again.pb", "n.gguf")
    assert Path("n.gguf").read_bytes() == raw
    made_folder(Path("one"), LLAMA | {"rope_scaling": LINEAR | {"factor": 1.0}})
    imported("one", "one.pb")
    merged("one.pb", "one.gguf")
    assert "rope_freqs.weight" not in read_gguf(Path("one.gguf")).tensors
    assert not [key for key in read_gguf(Path("one.gguf")).values if "scaling" in key]


@pytest.mark.parametrize("scaling", [LLAMA_3, LINEAR], ids=["llama3", "linear"])
def test_scaled_positions_go_out_and_come_in_again(scaling: dict[str, Any]):
    plain = LLAMA | {"max_position_embeddings": 32, "rope_theta": 100.0}
    made_folder(Path("plain"), plain)
    made_folder(Path("m"), plain | {"rope_scaling": scaling})
    run = imported("m", "net.pb")
    assert abs(loss(run) - loss(imported("plain", "plain.pb"))) > 1e-4
    merged("net.pb", "m.gguf")
    assert loss(imported("m.gguf", "again.pb")) == pytest.approx(loss(run), rel=1e-6)
    merged("again.pb", "n.gguf")
    assert Path("n.gguf").read_bytes() == Path("m.gguf").read_bytes()
    name = "rope_freqs.weight"
    assert (name in read_gguf(Path("n.gguf")).tensors) == (scaling is LLAMA_3)


def test_factors_that_are_not_positive_are_refused(capsys: pytest.CaptureFixture[str]):
    made_folder(Path("m"), LLAMA | {"rope_scaling": LLAMA_3})
    imported("m", "net.pb")
    merged("net.pb", "m.gguf")
    tensor = read_gguf(Path("m.gguf")).tensors["rope_freqs.weight"]
    raw = bytearray(Path("m.gguf").read_bytes())
    raw[tensor.offset : tensor.offset + 4] = bytes(4)
    Path("m.gguf").write_bytes(raw)
    assert compiler(["import", "lm", "m.gguf", "-o", "again.pb"]) == 3
    assert capsys.readouterr().err.splitlines()[-1] == (
        "compiler: m.gguf: rope_freqs.weight has a number that is not positive"
    )


def test_other_words_of_gguf_have_no_scaling_of_llama_3(capsys: pytest.CaptureFixture[str]):
    made_folder(Path("m"), LLAMA | {"model_type": "qwen2", "rope_scaling": LLAMA_3})
    imported("m", "net.pb")
    assert compiler(["merge", "net.pb", "--layout", "gguf", "-o", "m.gguf"]) == 3
    assert capsys.readouterr().err.splitlines()[-1] == (
        "compiler: merge: m has a rope_scaling of Llama 3's kind, which GGUF's qwen2 has not"
    )


@pytest.mark.thorough
@pytest.mark.parametrize("form", ["q8_0", "q4_0"])
def test_codes_of_few_bits_go_out_and_come_in_as_they_are(form: str):
    made_folder(Path("m"))
    run = imported("m", "net.pb", "--weights", form)
    merged("net.pb", "m.gguf")
    tensors = read_gguf(Path("m.gguf")).tensors
    assert tensors["blk.0.attn_q.weight"].kind.name == form.upper()
    again = imported("m.gguf", "again.pb")
    name = "model.layers.1.self_attn.k_proj.weight.codes"
    np.testing.assert_array_equal(again.state[name], run.state[name])
    assert loss(again) == loss(run)
    tuned = imported("m.gguf", "tune.pb", "--lora", "q_proj,v_proj:r=4,alpha=8", "--optimizer", "adamw:1e-2")
    for _ in range(5):
        tuned.step(FED)
    assert loss(tuned) < 0.98 * loss(run)
    tuned.save("tuned.safetensors")
    merged("tune.pb", "tuned.gguf", "--load", "tuned.safetensors")
    assert loss(imported("tuned.gguf", "last.pb")) == pytest.approx(loss(tuned), rel=1e-3)


def test_rows_are_packed_by_the_tokenizer_of_a_file():
    made_folder(Path("m"))
    imported("m", "net.pb")
    merged("net.pb", "m.gguf")
    Path("t.jsonl").write_text(
        '{"messages": [{"role": "user", "content": "who ?"}, {"role": "assistant", "content": "i"}]}\n'
    )
    found = []
    for source in ("m", "m.gguf"):
        words = [
            "data",
            "pack",
            "t.jsonl",
            "--chat",
            source,
            "--length",
            "32",
            "-o",
            f"{Path(source).stem}{len(source)}.safetensors",
        ]
        assert compiler(words) == 0
        from safetensors.numpy import load_file

        found.append(load_file(words[-1]))
    for name in found[0]:
        np.testing.assert_array_equal(found[0][name], found[1][name])


def small(values: bytes = b"", keys: int = 0, tensors: bytes = b"", count: int = 0, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, count, keys) + values + tensors


def text(word: str) -> bytes:
    return struct.pack("<Q", len(word)) + word.encode()


ARCHITECTURE = text("general.architecture") + struct.pack("<I", 8)


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        (b"GGML", "the file is no GGUF, as it does not begin with that word"),
        (small(version=9), "the version of GGUF is 9; 2 and 3 are read"),
        (small(count=1 << 40), "the file says that there are 1099511627776 tensors, and at most 65536 are read"),
        (small()[:12], "the file has 12 bytes, and ends within what it says of its model: it is cut"),
        (small(ARCHITECTURE + text("rwkv"), 1),
         "general.architecture is 'rwkv'; there is a builder for llama, qwen2, qwen3, gemma3, gpt2"),
        (small(text("a") + struct.pack("<I", 99), 1), "a value is of the kind 99, which GGUF has not"),
        (small(text("a") + struct.pack("<IQ", 8, 1 << 30), 1),
         "the file says that there are 1073741824 bytes in a text, and at most 67108864 are read"),
        (small(tensors=text("w") + struct.pack("<IQIQ", 1, 64, 10, 0), count=1),
         "w is of the type Q2_K; F32, F16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K, BF16 are read"),
        (small(tensors=text("w") + struct.pack("<IQIQ", 1, 64, 0, 0), count=1),
         "w ends at byte 320, and the file has 57: it is cut"),
    ],
)  # fmt: skip
def test_a_damaged_file_ends_in_a_sentence(raw: bytes, fault: str, capsys: pytest.CaptureFixture[str]):
    Path("bad.gguf").write_bytes(raw)
    assert compiler(["import", "lm", "bad.gguf", "-o", "bad.pb"]) == 3
    assert capsys.readouterr().err == f"compiler: bad.gguf: {fault}\n"
