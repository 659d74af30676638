"""The examples: short scripts whose committed programs are what they make, and do what they say."""

import runpy
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import runtime
from compiler.__main__ import main as compiler_main
from prograd_proto.files import load
from prograd_proto.identity import program_sha256

FOLDER = Path(__file__).parents[2] / "examples"
SAVE_NOTHING = {"from_pytorch", "language_model", "camera", "cartpole"}
"""Examples that other tests run: in frontends/, language/ and training/."""
SCRIPTS = sorted(
    path for path in FOLDER.glob("*.py") if not path.name.startswith("make_") and path.stem not in SAVE_NOTHING
)

each_example = pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)


def test_every_program_has_its_script():
    assert {path.stem for path in FOLDER.glob("*.pb")} == {path.stem for path in SCRIPTS}


@each_example
def test_an_example_is_short(script: Path):
    assert 30 <= len(script.read_text(encoding="utf-8").splitlines()) <= 100


@each_example
def test_a_script_makes_the_committed_program_to_the_byte(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    copy = tmp_path / "examples"
    copy.mkdir()
    for path in (script, *FOLDER.glob("*.safetensors")):
        shutil.copy(path, copy)
    monkeypatch.chdir(tmp_path)
    runpy.run_path(f"examples/{script.name}", run_name="__main__")
    made, committed = copy / f"{script.stem}.pb", FOLDER / f"{script.stem}.pb"
    assert program_sha256(load(made)) == program_sha256(load(committed))
    assert made.read_bytes() == committed.read_bytes(), "run make examples"


@pytest.mark.sampled(3)
@each_example
def test_an_example_trains_to_the_same_states_each_time(script: Path):
    hashes = set()
    for _ in range(2):
        run = runtime.load(FOLDER / f"{script.stem}.pb")
        assert len([event for event in run.events(steps=20) if isinstance(event, runtime.StepEnd)]) == 20
        hashes.add(run.states.sha256())
    assert len(hashes) == 1


def test_the_regression_finds_the_weights_that_made_its_targets():
    run = runtime.load(FOLDER / "linear_regression.pb")
    run.train()
    seen = run.evaluate("test")
    assert seen["loss"] < 1e-3
    images = np.random.default_rng(0).integers(0, 17, (7, 8, 8, 1)).astype(np.uint8)
    # What always has no ink, such as the corners, teaches nothing: these weights stay as they were.
    assert np.median(np.abs(run.state["w"] - 1)) < 0.02
    assert run.predict(images)["ink"].shape == (7,)


@pytest.mark.thorough
def test_the_convolutional_network_knows_held_out_digits():
    run = runtime.load(FOLDER / "digits_cnn.pb")
    run.train()
    assert run.evaluate("test")["accuracy"] >= 0.98


@pytest.mark.thorough
def test_the_residual_network_knows_held_out_digits():
    run = runtime.load(FOLDER / "resnet.pb")
    run.train()
    assert run.evaluate("test")["accuracy"] >= 0.975  # 0.988 here; other seeds, as other processors, give 0.98 to 0.99


@pytest.mark.thorough
def test_the_character_model_learns_more_than_pairs_of_letters_and_writes_letters():
    run = runtime.load(FOLDER / "characters.pb")
    run.train()
    # A model that saw what it predicts would need far fewer bits.
    assert 2.5 < run.evaluate("test")["bits"] < 2.95 < bits_by_the_letter_before() - 0.3
    start = b"`What a curious feeling!' said Alice; `I must be shutting up"
    [codes] = run.predict({"start": padded(start)}, entry="write")["text"]
    words = set(codes.tobytes().decode("ascii").split())
    assert len({"the", "and", "to", "was", "she", "of", "it", "said", "in", "Alice"} & words) >= 4


@pytest.mark.parametrize("name", ["characters", "decoder"])
def test_the_loops_that_write_are_compiled(name: str, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("llvmlite", reason="the native engine is an extra")
    assert compiler_main(["show", str(FOLDER / f"{name}.pb"), "--entry", "write", "--engine", "native"]) == 0
    text = capsys.readouterr().out
    assert "compiled with their blocks: scan 1" in text
    assert "by NumPy" not in text


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["reference", "native"])
def test_the_characters_that_an_entry_writes_are_those_that_its_predictions_make_likeliest(engine: str):
    run = runtime.load(FOLDER / "characters.pb", engine=engine)
    text = b"The Queen"
    [codes] = run.predict({"start": padded(text)}, entry="greedy")["text"]
    window = np.frombuffer(text.rjust(64, b"\n"), np.uint8)
    for code in codes[:20]:
        assert code == run.predict({"text": window[np.newaxis]})["logits"][0].argmax()
        window = np.append(window[1:], code)


@pytest.mark.thorough
def test_the_recurrent_network_forecasts_better_than_repetition():
    run = runtime.load(FOLDER / "lstm_series.pb")
    run.train()
    seen = run.evaluate("test")
    months = load_file(FOLDER / "co2.safetensors")
    before, after = (months[key][months["test"]].astype(np.float64) for key in ("before", "after"))
    assert seen["naive"] == pytest.approx(np.abs(before[:, -1:] - after).mean(), rel=1e-5)
    year_ago = before[:, -12:] + before[:, -1:] - before[:, -13:-12]
    assert seen["seasonal"] == pytest.approx(np.abs(year_ago - after).mean(), rel=1e-5)
    forecast = run.predict({"before": months["before"][months["test"]]})["forecast"]
    assert seen["error"] == pytest.approx(np.abs(forecast - after).mean(), rel=1e-4)
    assert seen["error"] < 0.9 * seen["seasonal"] < 0.3 * seen["naive"]


def test_no_month_that_is_held_out_is_trained_on():
    months = load_file(FOLDER / "co2.safetensors")
    assert months["train"].max() + 36 + 12 <= months["test"].min() + 36
    series = np.concatenate([months["before"][0], months["after"][:, 0], months["after"][-1, 1:]])
    windows = np.lib.stride_tricks.sliding_window_view(series, 36 + 12)
    np.testing.assert_array_equal(np.hstack([months["before"], months["after"]]), windows)


@pytest.mark.thorough
def test_the_generator_comes_near_the_digits():
    run = runtime.load(FOLDER / "gan.pb")
    digits = load_file(FOLDER / "digits.safetensors")
    real = digits["image"][digits["test"]][:, :, :, 0] / 8.0
    at_first = run.evaluate("test")["distance"]
    assert at_first == pytest.approx(energy_distance(run.step(entry="predict")["image"] / 8.0, real), rel=0.05)
    run.train()
    assert run.evaluate("test")["distance"] < 0.25 < 0.1 * at_first
    assert energy_distance(run.step(entry="predict")["image"] / 8.0, real) < 0.25


@pytest.mark.thorough
def test_the_sharpness_rises_to_two_over_the_rate_and_is_that_of_the_loss():
    run = runtime.load(FOLDER / "sharpness.pb")
    seen = [event.metrics for event in run.events() if isinstance(event, runtime.EpochEnd)]
    assert seen[100]["sharpness"] < 2.2
    assert np.mean([metrics["sharpness"] for metrics in seen[-200:]]) == pytest.approx(2 / 0.8, rel=0.05)
    assert seen[-1]["loss"] < 0.7 * seen[100]["loss"]

    names = [name for name in run.state if f"{name}.u" in run.state]
    at, direction = ({name: run.state[name + end] for name in names} for end in ("", ".u"))
    assert sum(np.sum(u**2) for u in direction.values()) == pytest.approx(1.0, rel=1e-5)
    losses = []
    for far in (-0.05, 0.05, 0.0):
        for name in names:
            run.state[name] = at[name] + np.float32(far) * direction[name]
        losses.append(run.evaluate("train")["loss"])
    digits = load_file(FOLDER / "digits.safetensors")
    next_step = run.step({name: digits[name][digits["train"]] for name in ("image", "label")})
    assert next_step["sharpness"] == pytest.approx((losses[0] + losses[1] - 2 * losses[2]) / 0.05**2, rel=0.03)


def test_the_digits_name_their_source_and_licence_and_hold_out_every_third_row():
    from safetensors import safe_open

    with safe_open(FOLDER / "digits.safetensors", "np") as file:
        assert "CC BY" in file.metadata()["licence"]
        assert "10.24432/C50P49" in file.metadata()["source"]
        rows = np.arange(len(file.get_tensor("label")))
        np.testing.assert_array_equal(file.get_tensor("test"), rows[rows % 3 == 2])
        np.testing.assert_array_equal(file.get_tensor("train"), rows[rows % 3 != 2])


def test_the_other_data_name_their_source_and_licence():
    from safetensors import safe_open

    for name in ("alice", "co2"):
        with safe_open(FOLDER / f"{name}.safetensors", "np") as file:
            assert file.metadata()["licence"] == "public domain"
            assert file.metadata()["source"]


def bits_by_the_letter_before() -> float:
    """The conditional entropy of a character of the story given the one before it: no model of pairs does better."""
    text = load_file(FOLDER / "alice.safetensors")["text"]
    pairs = np.zeros((128, 128))
    np.add.at(pairs, (text[:, :-1], text[:, 1:]), 1)
    share = pairs / pairs.sum(axis=1, keepdims=True).clip(1)
    return -np.sum(pairs * np.log2(share, where=share > 0, out=np.zeros_like(share))) / pairs.sum()


def energy_distance(x: np.ndarray, y: np.ndarray) -> float:
    """Between two samples of images, over pairs of different ones."""

    def mean(a: np.ndarray, b: np.ndarray, same: int) -> float:
        distances = np.sqrt(((a.reshape(len(a), 1, -1) - b.reshape(1, len(b), -1)) ** 2).sum(axis=2))
        return distances.sum() / (len(a) * (len(b) - same))

    return 2 * mean(x, y, 0) - mean(x, x, 1) - mean(y, y, 1)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_decoder_with_a_cache_writes_what_its_predictions_of_whole_rows_make_likeliest(engine: str):
    run = runtime.load(FOLDER / "decoder.pb", engine=engine, settings={"temperature": 0})
    [codes] = run.predict({"start": padded(b"The Queen")}, entry="write")["text"]
    assert codes[:9].tobytes() == b"The Queen"
    logits = run.predict({"text": codes[np.newaxis, :64]})["logits"][0]
    np.testing.assert_array_equal(codes[9:64], logits[8:63].argmax(-1))


@pytest.mark.thorough
def test_the_decoder_learns_and_writes_words():
    run = runtime.load(FOLDER / "decoder.pb")
    run.train()
    assert 2.4 < run.evaluate("test")["bits"] < 2.8
    texts = [run.predict({"start": padded(b"The Queen")}, entry="write")["text"][0].tobytes() for _ in range(2)]
    assert texts[0] == texts[1]
    assert (
        len({"the", "and", "to", "was", "she", "of", "it", "said", "in", "Alice"} & {*texts[0].decode().split()}) >= 4
    )


@pytest.mark.thorough
def test_a_fit_of_reviews_finds_the_memory_that_made_them():
    run = runtime.load(FOLDER / "fsrs.pb")
    before = run.evaluate("test")["loss"]
    run.train()
    assert run.evaluate("test")["loss"] < before - 0.02
    rows = load_file(FOLDER / "reviews.safetensors")
    found = run.predict({"rating": rows["rating"][:32], "days": rows["days"][:32]})["w"]
    made = np.array([0.9, 1.2, 3.6, 9.0])  # days of a card's first stability, by its first rating
    assert np.all(np.abs(np.log(found[:4] / made)) < 0.25)


def test_a_chance_to_recall_is_that_of_the_model_of_memory():
    run = runtime.load(FOLDER / "fsrs.pb")
    rows = load_file(FOLDER / "reviews.safetensors")
    found = run.predict({"rating": rows["rating"][:32], "days": rows["days"][:32]})
    w = found["w"].astype(np.float64)
    for card in range(32):
        rating, days = rows["rating"][card], rows["days"][card].astype(np.float64)
        stability, difficulty = w[rating[0] - 1], w[4] - (int(rating[0]) - 3) * w[5]
        for i in range(1, int((rating > 0).sum())):
            recall = 1 / (1 + days[i] / (9 * stability))
            assert abs(found["recall"][card, i - 1] - min(max(recall, 1e-4), 1 - 1e-4)) < 1e-4
            difficulty = w[7] * w[4] + (1 - w[7]) * (difficulty - w[6] * (int(rating[i]) - 3))
            difficulty = min(max(difficulty, 1), 10)
            if rating[i] > 1:
                grown = np.exp(w[8]) * (11 - difficulty) * stability ** -w[9] * (np.exp((1 - recall) * w[10]) - 1)
                stability *= 1 + grown * {2: w[15], 3: 1.0, 4: w[16]}[int(rating[i])]
            else:
                stability = w[11] * difficulty ** -w[12] * ((stability + 1) ** w[13] - 1) * np.exp((1 - recall) * w[14])
            stability = min(max(stability, 0.1), 36500)


def test_a_swing_is_the_method_of_runge_and_kutta_with_the_learnt_right_hand_side():
    run = runtime.load(FOLDER / "pendulum.pb")
    list(run.events(steps=20))
    w = {
        name: run.state[f"slope.{name}"].astype(np.float64) for name in ("hidden.w", "hidden.b", "output.w", "output.b")
    }

    def slope(y: np.ndarray) -> np.ndarray:
        return np.tanh(y @ w["hidden.w"] + w["hidden.b"]) @ w["output.w"] + w["output.b"]

    y = np.array([[1.5, 0.0], [-0.3, 2.0]])
    found = run.predict({"start": y.astype(np.float32)}, entry="swing")["path"]
    assert found.shape == (2, 100, 2)
    for i in range(20):
        a = slope(y)
        b = slope(y + 0.05 * a)
        c = slope(y + 0.05 * b)
        y = y + 0.1 / 6 * (a + 2 * b + 2 * c + slope(y + 0.1 * c))
        np.testing.assert_allclose(found[:, i], y, rtol=1e-4, atol=1e-4)


@pytest.mark.thorough
def test_the_pendulum_swings_as_the_equation_says_and_not_as_a_linear_one_does():
    run = runtime.load(FOLDER / "pendulum.pb")
    run.train()
    rows = load_file(FOLDER / "pendulum.safetensors")
    assert run.evaluate("test")["error"] < 0.25
    start = rows["path"][rows["test"], 0]
    found = run.predict({"start": start}, entry="swing")["path"][:, 19]
    ends = [swung(start, pull) for pull in (np.sin, lambda angle: angle)]
    near, far = (np.sqrt(np.mean((found - end) ** 2)) for end in ends)
    assert near < 0.4 < 1.0 < far


def swung(start: np.ndarray, pull: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Return angles and speeds after 2 seconds, by steps of half a millisecond."""
    angle, speed = start.astype(np.float64).T
    for _ in range(4000):
        speed = speed + 0.0005 * (-9.81 * pull(angle) - 0.3 * speed)
        angle = angle + 0.0005 * speed
    return np.stack([angle, speed], 1)


def padded(text: bytes) -> np.ndarray:
    return np.frombuffer(text.ljust(64, b"\0"), np.uint8)[np.newaxis]


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_filing_clerk_sorts_documents_that_it_has_not_seen(engine):
    if engine == "native":
        pytest.importorskip("llvmlite")
    run = runtime.load(FOLDER / "documents.pb", engine=engine)
    run.train()
    found = run.evaluate("test")
    assert found["kinds"] > 0.9
    assert found["labels"] > 0.9
