"""Attention of ONNX Runtime with earlier keys and values, packed operands and masks, beside ONNX Runtime."""

from typing import Any

import numpy as np
import onnx
import onnxruntime as runtime
import pytest

import prograd

helper = onnx.helper
RNG = np.random.default_rng(11)
KINDS = {"float32": 1, "int32": 6, "int64": 7, "uint8": 2}
ANGLES = np.outer(np.arange(16), 1 / 10 ** np.arange(8)).astype(np.float32)


def drawn(*shape: int) -> Any:
    return RNG.normal(0, 0.3, shape).astype(np.float32)


def integers(*numbers: Any) -> Any:
    return np.array(numbers, np.int32)


Case = tuple[list[str], list[str], dict[str, Any], dict[str, Any], dict[str, Any]]

PAST = {"pk": drawn(2, 4, 3, 16), "pv": drawn(2, 4, 3, 16)}
THREE = {"q": drawn(2, 5, 64), "k": drawn(2, 5, 64), "v": drawn(2, 5, 64)}
GROUPS = {"q": drawn(2, 5, 64), "k": drawn(2, 5, 32), "v": drawn(2, 5, 32)}
ONE = {"q": drawn(1, 5, 64), "k": drawn(1, 5, 32), "v": drawn(1, 5, 32)}
PAST_ONE = {"pk": drawn(1, 2, 6, 16), "pv": drawn(1, 2, 6, 16)}
PAIRS = np.tri(5, dtype=np.int32)[None].repeat(2, 0)
PLACES = np.array([[0, 1, 2, 3, 4], [7, 8, 9, 3, 1]])
PAST_GROUPS = {"pk": drawn(2, 2, 6, 16), "pv": drawn(2, 2, 6, 16)}
TURNS = {"cos": np.cos(ANGLES), "sin": np.sin(ANGLES)}
FOUR = {"num_heads": 4}
GROUPED = {"num_heads": 4, "kv_num_heads": 2}
ALL = ["y", "present_k", "present_v"]

CASES: dict[str, Case] = {
    "Attention, past, causal": (
        ["x", "w", "b", "", "past"], ["y", "present"], {**FOUR, "unidirectional": 1},
        {"x": drawn(2, 5, 64), "past": drawn(2, 2, 4, 3, 16)}, {"w": drawn(64, 192), "b": drawn(192)},
    ),
    "Attention, mask of pairs": (
        ["x", "w", "b", "mask"], ["y"], FOUR, {"x": drawn(2, 5, 64), "mask": PAIRS},
        {"w": drawn(64, 192), "b": drawn(192)},
    ),
    "Attention, lengths": (
        ["x", "w", "b", "mask"], ["y"], FOUR, {"x": drawn(2, 5, 64), "mask": integers(3, 5)},
        {"w": drawn(64, 192), "b": drawn(192)},
    ),
    "MultiHeadAttention, past": (["q", "k", "v", "", "", "", "pk", "pv"], ALL, FOUR, {**THREE, **PAST}, {}),
    "MultiHeadAttention, heads": (
        ["q", "k", "v"], ["y"], FOUR, {"q": THREE["q"], "k": drawn(2, 4, 7, 16), "v": drawn(2, 4, 7, 16)}, {},
    ),
    "RotaryEmbedding, positions": (
        ["x", "at", "cos", "sin"], ["y"], {}, {"x": drawn(2, 5, 64), "at": PLACES},
        TURNS,
    ),
    "RotaryEmbedding, first, interleaved": (
        ["x", "at", "cos", "sin"], ["y"], {"interleaved": 1}, {"x": drawn(2, 4, 5, 16), "at": np.array([3])}, TURNS,
    ),
    "GroupQueryAttention, prompt": (
        ["q", "k", "v", "", "", "n", "t"], ALL, GROUPED, {**GROUPS, "n": integers(4, 4)}, {"t": integers(5)[0]},
    ),
    "GroupQueryAttention, past": (
        ["q", "k", "v", "pk", "pv", "n", "t"], ALL, GROUPED, {**ONE, **PAST_ONE, "n": integers(10)},
        {"t": integers(11)[0]},
    ),
    "GroupQueryAttention, rotary, window, cap": (
        ["q", "k", "v", "pk", "pv", "n", "t", "cos", "sin"], ALL,
        {**GROUPED, "do_rotary": 1, "local_window_size": 4, "softcap": 2.0},
        {**ONE, **PAST_ONE, "n": integers(10)}, {"t": integers(11)[0], **TURNS},
    ),
    "GroupQueryAttention, one step, packed, lengths": (
        ["q", "", "", "pk", "pv", "n", "t"], ALL, GROUPED,
        {"q": drawn(2, 1, 128), **PAST_GROUPS, "n": integers(3, 6)}, {"t": integers(7)[0]},
    ),
    "MatMulNBits, 4": (
        ["x", "w", "s"], ["y"], {"K": 64, "N": 24, "bits": 4, "block_size": 32}, {"x": drawn(32, 64)},
        {"w": RNG.integers(0, 256, (24, 2, 16)).astype(np.uint8), "s": drawn(48)},
    ),
    "MatMulNBits, zeros": (
        ["x", "w", "s", "z"], ["y"], {"K": 64, "N": 24, "bits": 4, "block_size": 32}, {"x": drawn(32, 64)},
        {"w": RNG.integers(0, 256, (24, 2, 16)).astype(np.uint8), "s": drawn(48),
         "z": RNG.integers(0, 256, (24,)).astype(np.uint8)},
    ),
}  # fmt: skip


def model(name: str, case: Case) -> Any:
    """Return a model of one operator."""
    names, outputs, attributes, feeds, weights = case
    graph = helper.make_graph(
        [helper.make_node(name.partition(",")[0], names, outputs, domain="com.microsoft", **attributes)],
        "net",
        [helper.make_tensor_value_info(n, KINDS[a.dtype.name], a.shape) for n, a in feeds.items()],
        [helper.make_tensor_value_info(n, 1, None) for n in outputs],
        [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in weights.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("name", CASES)
def test_attention_with_more_operands_computes_what_onnx_runtime_computes(name: str, engine: Any):
    _, outputs, _, feeds, _ = CASES[name]
    source = model(name, CASES[name])
    wanted = runtime.InferenceSession(source.SerializeToString()).run(None, feeds)
    program = prograd.from_onnx(source)
    found = prograd.Run(program.compile(), engine=engine).step(feeds, entry="predict")
    for output, expected in zip(outputs, wanted, strict=True):
        np.testing.assert_allclose(found[output], expected, rtol=2e-4, atol=2e-5, err_msg=output)


@pytest.mark.parametrize("packs_queries", [True, False])
def test_packed_operands_are_those_that_were_packed(packs_queries: bool):
    q, k, v = (drawn(2, 5, 4, 16) for _ in range(3))
    apart = {"q": q.reshape(2, 5, 64), "k": k.reshape(2, 5, 64), "v": v.reshape(2, 5, 64)}
    plain = model("MultiHeadAttention", (["q", "k", "v"], ["y"], FOUR, apart, {}))
    [wanted] = runtime.InferenceSession(plain.SerializeToString()).run(None, apart)
    feeds = {"q": np.stack([q, k, v], 3)} if packs_queries else {"q": apart["q"], "k": np.stack([k, v], 3)}
    program = prograd.from_onnx(model("MultiHeadAttention", (list(feeds), ["y"], FOUR, feeds, {})))
    found = prograd.Run(program.compile(), engine="native").step(feeds, entry="predict")["y"]
    np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-5)
