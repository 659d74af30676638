"""The numbers of imported language models, beside NumPy by hand."""

from pathlib import Path

import numpy as np
import pytest
from subjects.language_model import GPT2, LLAMA, made_folder, weights_of

import prograd
from compiler import from_lm
from compiler.frontends.language_models import network
from prograd import adamw

ENGINES = ("reference", "native")
BATCH, LENGTH = 32, 24


def rows(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 300, (BATCH, LENGTH)).astype(np.int32)
    labels = np.where(rng.random((BATCH, LENGTH)) < 0.5, rng.integers(0, 300, (BATCH, LENGTH)), -100).astype(np.int32)
    return {"codes": codes, "labels": labels}


def softmax(x: np.ndarray) -> np.ndarray:
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def llama(w: dict[str, np.ndarray], codes: np.ndarray, seen: np.ndarray | None = None) -> np.ndarray:
    """Return the logits of each position, one head at a time; `seen` says which positions a position sees."""
    x = w["model.embed_tokens.weight"][codes]

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w[f"{name}.weight"]

    def turned(x: np.ndarray, places: np.ndarray) -> np.ndarray:
        angles = places[:, None] / 10000.0 ** (np.arange(8) / 8)
        a, b = x[..., :8], x[..., 8:]
        return np.concatenate([a * np.cos(angles) - b * np.sin(angles), a * np.sin(angles) + b * np.cos(angles)], -1)

    length = codes.shape[1]
    places, causal = np.arange(length), np.tril(np.ones((length, length), bool))
    mask = causal if seen is None else causal & seen
    for layer in range(2):
        at = f"model.layers.{layer}"
        y = norm(x, f"{at}.input_layernorm")
        q, k, v = (y @ w[f"{at}.self_attn.{name}_proj.weight"].T for name in "qkv")
        heads = []
        for head in range(4):
            own, shared = slice(16 * head, 16 * head + 16), slice(16 * (head // 2), 16 * (head // 2) + 16)
            scores = turned(q[..., own], places) @ turned(k[..., shared], places).swapaxes(1, 2) / 4
            heads.append(softmax(np.where(mask, scores, -1e30)) @ v[..., shared])
        x = x + np.concatenate(heads, -1) @ w[f"{at}.self_attn.o_proj.weight"].T
        y = norm(x, f"{at}.post_attention_layernorm")
        gate = y @ w[f"{at}.mlp.gate_proj.weight"].T
        y = gate / (1 + np.exp(-gate)) * (y @ w[f"{at}.mlp.up_proj.weight"].T)
        x = x + y @ w[f"{at}.mlp.down_proj.weight"].T
    return norm(x, "model.norm") @ w["model.embed_tokens.weight"].T


def loss_of(logits: np.ndarray, labels: np.ndarray) -> float:
    counted = labels != -100
    logarithms = np.log(softmax(logits))[counted]
    return float(-logarithms[np.arange(counted.sum()), labels[counted]].mean())


@pytest.mark.parametrize("engine", ENGINES)
def test_logits_loss_and_perplexity_are_those_of_the_formulas(tmp_path: Path, engine: str):
    program = from_lm(made_folder(tmp_path / "m"), length=LENGTH, output=tmp_path / "m.pb")
    program.outputs(logits=program["logits"])
    run = prograd.Run(program.compile(batch=BATCH), tmp_path, engine=engine)  # type: ignore[arg-type]
    fed, w = rows(), {name: array.astype(np.float64) for name, array in weights_of(LLAMA).items()}
    wanted = llama(w, fed["codes"])
    np.testing.assert_allclose(run.predict({"codes": fed["codes"]})["logits"], wanted, rtol=1e-3, atol=1e-4)
    found = run.step(fed, entry="evaluate")
    np.testing.assert_allclose(found["loss"], loss_of(wanted, fed["labels"]), rtol=1e-5)
    np.testing.assert_allclose(found["perplexity"], np.exp(loss_of(wanted, fed["labels"])), rtol=1e-5)


@pytest.mark.parametrize("engine", ENGINES)
def test_texts_of_a_row_do_not_see_each_other(tmp_path: Path, engine: str):
    program = from_lm(made_folder(tmp_path / "m"), length=LENGTH, together=True, output=tmp_path / "m.pb")
    run = prograd.Run(program.compile(batch=BATCH), tmp_path, engine=engine)  # type: ignore[arg-type]
    fed = rows()
    segments = np.repeat([[1] * 10 + [2] * 14], BATCH, 0).astype(np.int32)
    positions = np.repeat([[*range(10), *range(14)]], BATCH, 0).astype(np.int32)
    found = run.step(fed | {"segments": segments, "positions": positions}, entry="evaluate")["loss"]
    w = {name: array.astype(np.float64) for name, array in weights_of(LLAMA).items()}
    apart = np.concatenate([llama(w, fed["codes"][:, :10]), llama(w, fed["codes"][:, 10:])], 1)
    np.testing.assert_allclose(found, loss_of(apart, fed["labels"]), rtol=1e-5)
    assert abs(loss_of(llama(w, fed["codes"]), fed["labels"]) - found) > 1e-3


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ENGINES)
def test_weights_of_bfloat16_stay_in_the_file_and_adapters_train(tmp_path: Path, engine: str):
    folder = made_folder(tmp_path / "m", dtype="bfloat16")
    program = from_lm(folder, length=LENGTH, output=tmp_path / "m.pb")
    adapted = program.lora("q_proj", "v_proj", r=4, alpha=8)
    assert adapted == [f"model.layers.{i}.self_attn.{x}_proj.weight" for x in "qv" for i in (0, 1)]
    program.minimize(program["loss"], adamw(1e-2))
    compiled = program.compile(batch=BATCH)
    assert compiled.arrays == {}
    compiled.save(tmp_path / "m.pb")
    run = prograd.load(tmp_path / "m.pb", engine=engine)
    fed, before = rows(), {name: np.array(run.state[name]) for name in run.state}
    losses = [float(run.step(fed)["loss"]) for _ in range(8)]
    assert losses[-1] < losses[0] - 0.1
    changed = {name for name in before if not np.array_equal(before[name], run.state[name])}
    trained = {name for name in changed if not name.endswith((".m", ".v")) and name not in ("step", "total_steps")}
    assert trained == {f"{name}.lora_{side}" for name in adapted for side in "ab"}


def test_trained_weights_become_float32_and_others_stay(tmp_path: Path):
    folder = made_folder(tmp_path / "m", dtype="bfloat16")
    program = from_lm(folder, length=LENGTH, trained=["model.layers.1.*"], output=tmp_path / "m.pb")
    kept = {name for name, state in program.states.items() if state.trainable}
    assert kept == {name for name in weights_of(LLAMA) if name.startswith("model.layers.1.")}
    program.minimize(program["loss"], adamw(1e-3))
    program.compile(batch=BATCH).save(tmp_path / "m.pb")
    assert (tmp_path / "m.weights.safetensors").stat().st_size < 200_000
    run = prograd.load(tmp_path / "m.pb")
    assert np.isfinite(run.step(rows())["loss"])


def test_parts_of_weights_are_one_model(tmp_path: Path):
    fed, losses = rows(), []
    for parts in (1, 3):
        folder = made_folder(tmp_path / str(parts), GPT2, parts=parts)
        program = from_lm(folder, length=LENGTH, output=tmp_path / f"{parts}.pb")
        run = prograd.Run(program.compile(batch=BATCH), tmp_path)
        losses.append(run.step(fed, entry="evaluate")["loss"])
    assert losses[0] == losses[1]


def test_a_folder_beside_the_program_is_copied_into_a_file_of_its_own(tmp_path: Path):
    folder = made_folder(tmp_path / "elsewhere" / "m")
    (tmp_path / "here").mkdir()
    program = from_lm(folder, length=LENGTH, output=tmp_path / "here" / "m.pb")
    program.compile(batch=BATCH).save(tmp_path / "here" / "m.pb")
    assert (tmp_path / "here" / "m.weights.safetensors").is_file()
    assert np.isfinite(prograd.load(tmp_path / "here" / "m.pb").step(rows(), entry="evaluate")["loss"])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_the_scale_of_embeddings_is_rounded_to_the_dtype_of_the_table(dtype: str):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    for width in (48, 640, 1152, 2560, 3840):
        want = width**0.5 if dtype == "float32" else float(np.float32(width**0.5).astype(kind))
        assert network._rounded_to(width**0.5, dtype) == want
