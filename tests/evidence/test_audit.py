"""`execute --attest` and `runtime audit`: a chain through a run, and the place where something else happened."""

from __future__ import annotations

import hashlib
import json
import random
import re
import shlex
import shutil
import subprocess
from base64 import b64decode
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from subjects.commands import fields
from subjects.commands import run_runtime as run
from subjects.small_programs import arrays, save

from compiler import Program, adam, ops
from runtime.commands.reports import attest as attest_report
from runtime.runs.evidence.chain import DIGITS

ROOT = Path(__file__).parents[2]
ATTEST = ("--attest", "run.intoto.json", "--chain", 5, "--checkpoint", "run1", "--keep", 100)


def attested(capsys, *options: object) -> dict[str, Any]:
    """The statement of a run."""
    code, _, err = run(capsys, "execute", "p.pb", "-q", *ATTEST, *options)
    assert (code, err) == (0, "")
    return json.loads(Path("run.intoto.json").read_bytes())


def audited(capsys, *options: object) -> tuple[int, str, str]:
    """The code of an audit, the first word of its last line, and its sentences."""
    code, out, err = run(capsys, "audit", "p.pb", "-q", "--attest", "run.intoto.json", *options)
    return code, out[-1].partition(" ")[0] if out else "", err


def sha256(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def forged(statement: dict[str, Any], change: Any) -> None:
    """Write the statement with a change to its links, as who can compute hashes would."""
    links = statement["predicate"]["chain"]["links"]
    change(links)
    before = statement["predicate"]["run"]["program_sha256"]
    for link in links:
        text = f"{before} {link['step']} {link['state_sha256']} {int(link['closes'])} {link['steps']}"
        before = link["sha256"] = sha256(text.encode())
    Path("run.intoto.json").write_text(json.dumps(statement))


def test_a_statement_is_in_totos_and_names_the_files_by_their_hashes(folder, capsys):
    statement = attested(capsys, "--save", "t.safetensors")
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "urn:prograd:training-run:1"
    assert {each["name"]: each["digest"]["sha256"] for each in statement["subject"]} == {
        name: sha256(Path(name).read_bytes()) for name in ("p.pb", "rows.safetensors", "t.safetensors")
    }
    links = statement["predicate"]["chain"]["links"]
    assert [(link["step"], link["closes"]) for link in links] == [
        *[(0, False), (5, False), (7, True), (10, False), (14, True), (15, False), (20, False), (21, True)]
    ]
    assert [len(link["steps"]) // DIGITS for link in links] == [0, 5, 2, 3, 4, 1, 5, 1]
    assert statement["predicate"]["metrics"].keys() >= {"loss", "mean", "total"}


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_an_audit_repeats_all_of_a_run_or_a_part(folder, capsys, engine):
    if engine == "native":
        pytest.importorskip("llvmlite")
    links = attested(capsys, "--engine", engine)["predicate"]["chain"]["links"]
    assert audited(capsys) == (0, "OK", "")
    for a, b in ((0, 5), (5, 7), (10, 14), (15, 21)):
        code, out, err = run(
            capsys,
            "audit",
            "p.pb",
            "-q",
            "--attest",
            "run.intoto.json",
            "--checkpoint",
            "run1",
            "--interval",
            f"{a}:{b}",
        )
        assert (code, err) == (0, "")
        shown = fields(out[-1])
        assert shown["interval"] == f"{a}:{b}"
        if b != 21:  # at the end, the best states are restored
            assert shown["state_sha256"] == next(link["state_sha256"] for link in links if link["step"] == b)


def test_an_ordinary_network_is_audited_on_both_engines(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = {"x": rng.normal(size=(256, 64)).astype(np.float32), "y": rng.integers(0, 10, 256)}
    save_file(rows, "rows.safetensors")
    program = Program("wide", seed=3)
    x, y = program.input("x", "float32", ("batch", 64)), program.input("y", "int64", ("batch",))
    hidden = ops.dropout(ops.relu(x @ program.parameter("v", (64, 128))), ratio=0.1)
    program.minimize(ops.softmax_cross_entropy(hidden @ program.parameter("w", (128, 10)), y), adam())
    program.data("rows.safetensors")
    program.training(epochs=2)
    program.compile(batch=32).save("p.pb")
    for engine in ("reference", "native"):
        attested(capsys, "--engine", engine, "--force")
        assert audited(capsys, "--checkpoint", "run1", "--interval", "10:16") == (0, "OK", "")
        forged(json.loads(Path("run.intoto.json").read_bytes()), lambda links: links[-1].update(state_sha256="0" * 64))
        assert audited(capsys, "--checkpoint", "run1", "--interval", "10:16")[0] == 1


def test_the_first_step_that_differs_is_named(folder, capsys):
    statement = attested(capsys)

    def change(links: list[dict[str, Any]]) -> None:
        digests = links[3]["steps"]  # of the steps 8 to 10
        links[3]["steps"] = digests[:DIGITS] + ("0" if digests[DIGITS] != "0" else "1") + digests[DIGITS + 1 :]

    forged(statement, change)
    code, word, err = audited(capsys, "--checkpoint", "run1", "--interval", "5:10")
    assert (code, word) == (1, "FAILED")
    assert err.startswith("runtime: step 9 is the first that differs: here its metrics are loss=")
    assert audited(capsys, "--checkpoint", "run1", "--interval", "10:21") == (0, "OK", "")


def test_other_states_with_equal_metrics_are_between_two_links(folder, capsys):
    forged(attested(capsys), lambda links: links[3].update(state_sha256="ab" * 32))
    code, word, err = audited(capsys)
    assert (code, word) == (1, "FAILED")
    assert err == (
        "runtime: the states after step 10 differ, and the metrics up to there are equal: a step after step 7 left "
        "other states\n"
    )


def test_a_row_with_another_bit_is_located(folder, capsys):
    attested(capsys, "--force")
    raw = bytearray(Path("rows.safetensors").read_bytes())
    raw[-3] ^= 1
    Path("rows.safetensors").write_bytes(raw)
    code, word, err = audited(capsys)
    assert (code, word) == (1, "FAILED")
    assert err.startswith("runtime: rows.safetensors: the file differs from what the run read in bytes 0 to ")
    assert "rows 0 to 42 of 'x'" in err


def test_rows_of_a_large_file_are_located_among_a_few(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(1000, 64)).astype(np.float32), rng.normal(size=1000).astype(np.float32)
    splits = {"train": np.arange(900), "test": np.arange(900, 1000)}
    save_file({"x": x, "y": y} | splits, "other.safetensors")
    save(wide(), tmp_path)
    assert run(capsys, "execute", "p.pb", "-q", "--steps", 2, "--data", "other.safetensors", *ATTEST)[0] == 0
    x[777, 5] = 0
    save_file({"x": x, "y": y} | splits, "other.safetensors")
    code, _, err = audited(capsys, "--data", "other.safetensors")
    assert code == 1
    assert err == (
        "runtime: other.safetensors: the file differs from what the run read in bytes 204800 to 208895, which are rows "
        "767 to 783 of 'x'\n"
    )


def wide() -> Program:
    program = Program("linear", seed=5)
    x, y = program.input("x", "float32", ("batch", 64)), program.input("y", "float32", ("batch",))
    prediction = ops.sum(x * program.parameter("w", (64,)), axis=(1,))
    program.minimize(ops.squared_error(prediction, y), adam())
    save_file(
        {"x": np.zeros((43, 64), np.float32), **{k: v for k, v in arrays().items() if k != "x"}}, "rows.safetensors"
    )
    return program


def test_a_checkpoint_of_another_run_or_with_another_bit_is_refused(folder, capsys):
    attested(capsys)
    path = Path("run1/step-0000000010.safetensors")
    good = path.read_bytes()
    damaged = bytearray(good)
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    code, _, err = audited(capsys, "--checkpoint", "run1", "--interval", "10:15")
    assert code != 0
    assert "step-0000000010.safetensors: the checkpoint is damaged: its tensors do not have the hash" in err
    run(capsys, "execute", "p.pb", "-q", "--seed", 99, "--checkpoint", "run2", "--every", 5, "--keep", 100)
    path.write_bytes(Path("run2/step-0000000010.safetensors").read_bytes())
    code, word, err = audited(capsys, "--checkpoint", "run1", "--interval", "10:15")
    assert (code, word) == (1, "FAILED")
    assert err.startswith(
        "runtime: run1/step-0000000010.safetensors: this is not a state of the attested run: their hash is "
    )


def test_a_statement_with_another_bit_is_never_taken_for_good(folder, capsys):
    """Each bit of the part that says something is covered by a hash, which the sentence names."""
    attested(capsys)
    path, rng = Path("run.intoto.json"), random.Random(0)
    good = path.read_bytes()
    accepted = json.loads(good)
    said = set[str]()
    for _ in range(120):
        raw = bytearray(good)
        raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(7)
        path.write_bytes(raw)
        try:
            if json.loads(raw) == accepted:
                continue  # another blank
        except ValueError:
            pass
        code, _, err = audited(capsys, "--interval", "0:5")
        assert code != 0, "a statement with another bit passes"
        assert err.startswith(("runtime: run.intoto.json: ", "runtime: --record and "))
        said.add(err)
    assert any("the link of its chain at step" in each for each in said)


@pytest.mark.parametrize("part", ["subject", "run", "metrics", "inputs"])
def test_the_damaged_part_of_a_statement_is_named(folder, capsys, part):
    statement = attested(capsys)
    if part == "subject":
        statement["subject"][0]["digest"]["sha256"] = "0" * 64
    elif part == "inputs":
        statement["predicate"]["inputs"][1]["bytes"] += 1
    else:
        statement["predicate"][part]["seed" if part == "run" else "loss"] = 1
    Path("run.intoto.json").write_text(json.dumps(statement))
    code, _, err = audited(capsys)
    assert code != 0
    assert err == (
        f"runtime: run.intoto.json: the statement is damaged: its {part!r} does not have the hash that it names\n"
    )


def test_a_resumed_run_ends_with_the_chain_of_one_that_was_not_interrupted(folder, capsys, tmp_path):
    whole = attested(capsys)["predicate"]["chain"]
    options = [*ATTEST[:4], "--checkpoint", "run2", "--keep", 100, "--force"]
    assert run(capsys, "execute", "p.pb", "-q", *options, "--steps", 21, "--every", 4)[0] == 0
    for step in (21, 20, 16):
        Path(f"run2/step-{step:010}.safetensors").unlink()
    code, _, err = run(capsys, "execute", "p.pb", "-q", *options[:-1], "--resume", "--force")
    assert (code, err) == (0, "")
    assert json.loads(Path("run.intoto.json").read_bytes())["predicate"]["chain"] == whole
    assert audited(capsys, "--checkpoint", "run2", "--interval", "15:21")[0] in (0, 2)
    Path("run2/chain.json").write_text("{}")
    Path("run2/step-0000000021.safetensors").unlink()
    err = run(capsys, "execute", "p.pb", "-q", *options, "--resume")[2]
    assert err == "runtime: run2/chain.json: the chain of the run is damaged\n"
    Path("run2/chain.json").unlink()
    err = run(capsys, "execute", "p.pb", "-q", *options, "--resume")[2]
    assert err == (
        "runtime: run2/chain.json: the chain of the run cannot be read: No such file or directory; --attest follows a "
        "run from its start\n"
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--interval", "0:6"], "--interval 0:6: the chain has no link at step 6, but at 5 and 7"),
        (["--interval", "5:99"], "--interval 5:99: the chain has no link at step 99, but at 21"),
        (["--interval", "5:7"], "the interval begins after step 5, with its checkpoint; give --checkpoint DIR"),
        (["--interval", "14:15", "--checkpoint", "none"], "none: there is no checkpoint of step 14, but none"),
        (["--data", "rows.safetensors"], "the recorded run was given no file by --data; leave it out"),
        (["--key", "none.pem"], "none.pem: the key cannot be read: No such file or directory"),
    ],
)
def test_an_audit_that_cannot_be_made_says_why(folder, capsys, options, sentence):
    pytest.importorskip("cryptography")
    attested(capsys)
    code, _, err = audited(capsys, *options)
    assert code == 2 if "--key" not in options else code != 0
    assert err == f"runtime: {sentence}\n"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--chain", 3], "--chain says how often --attest takes the states' hash; give --attest"),
        (["--sign", "key.pem"], "--sign signs the statement of --attest; give --attest"),
        (
            ["--attest", "a.json", "--fold", "1/3"],
            "--attest says what to replay, and --fold is no part of it; leave one out",
        ),
        (["--attest", "a.csv"], "a.csv: statements are written as .json files; write a.json"),
        (
            ["--attest", "a.json", "--entry", "evaluate"],
            "--attest belongs to training, and the entry 'evaluate' does not train",
        ),
    ],
)
def test_options_that_contradict_each_other_are_refused(folder, capsys, options, sentence):
    code, _, err = run(capsys, "execute", "p.pb", "-q", *options)
    assert (code, err) == (2, f"runtime: {sentence}\n")


def test_a_statement_is_signed_and_the_key_is_asked_for(folder, capsys):
    ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
    from cryptography.hazmat.primitives import serialization as pem

    for name in ("mine", "other"):
        key = ed25519.Ed25519PrivateKey.generate()
        Path(f"{name}.pem").write_bytes(
            key.private_bytes(pem.Encoding.PEM, pem.PrivateFormat.PKCS8, pem.NoEncryption())
        )
        Path(f"{name}.pub").write_bytes(
            key.public_key().public_bytes(pem.Encoding.PEM, pem.PublicFormat.SubjectPublicKeyInfo)
        )
    envelope = attested(capsys, "--sign", "mine.pem")
    assert envelope["payloadType"] == "application/vnd.in-toto+json"
    payload = b64decode(envelope["payload"])
    # what DSSE says is signed, by another implementation of Ed25519
    Path("signed").write_bytes(b"DSSEv1 28 application/vnd.in-toto+json %d " % len(payload) + payload)
    Path("sig").write_bytes(b64decode(envelope["signatures"][0]["sig"]))
    try:
        asked = [
            "openssl",
            "pkeyutl",
            "-verify",
            "-pubin",
            "-inkey",
            "mine.pub",
            "-rawin",
            "-in",
            "signed",
            "-sigfile",
            "sig",
        ]
        assert subprocess.run(asked, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        pass
    assert audited(capsys, "--key", "mine.pub") == (0, "OK", "")
    name = envelope["signatures"][0]["keyid"][:16]
    assert audited(capsys) == (
        0,
        "OK",
        f"runtime: run.intoto.json: the signature by the key {name}... is not checked; give --key\n",
    )
    code, _, err = audited(capsys, "--key", "other.pub")
    assert code != 0
    assert err.startswith(f"runtime: run.intoto.json: the statement is signed by the key {name}..., not by ")
    assert audited(capsys, "--key", "mine.pem")[2] == (
        "runtime: mine.pem: this is no public Ed25519 key, as openssl pkey -pubout writes it\n"
    )
    envelope["payload"] = envelope["payload"].replace("A", "B", 1)
    Path("run.intoto.json").write_text(json.dumps(envelope))
    assert audited(capsys, "--key", "mine.pub")[0] != 0
    err = run(capsys, "execute", "p.pb", "-q", "--attest", "b.json", "--sign", "mine.pub")[2]
    assert err == (
        "runtime: mine.pub: this is no private Ed25519 key, as openssl genpkey -algorithm ed25519 writes it\n"
    )


def test_a_changed_statement_loses_its_signature(folder, capsys):
    ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
    from cryptography.hazmat.primitives import serialization as pem

    key = ed25519.Ed25519PrivateKey.generate()
    Path("k.pem").write_bytes(key.private_bytes(pem.Encoding.PEM, pem.PrivateFormat.PKCS8, pem.NoEncryption()))
    Path("k.pub").write_bytes(key.public_key().public_bytes(pem.Encoding.PEM, pem.PublicFormat.SubjectPublicKeyInfo))
    signed = attested(capsys, "--sign", "k.pem")
    other = attested(capsys, "--seed", 3, "--force", "--sign", "k.pem")
    signed["payload"] = other["payload"]
    Path("run.intoto.json").write_text(json.dumps(signed))
    code, _, err = audited(capsys, "--key", "k.pub")
    assert code != 0
    assert err == (
        f"runtime: run.intoto.json: the statement was changed after it was signed by the key "
        f"{signed['signatures'][0]['keyid'][:16]}...\n"
    )


def test_the_commands_of_the_page_about_evidence(tmp_path, monkeypatch, capsys):
    pytest.importorskip("cryptography")
    page = (ROOT / "docs/evidence.md").read_text(encoding="utf-8")
    for name in ("digits_mlp.pb", "digits.safetensors"):
        shutil.copy(ROOT / "examples" / name, tmp_path / name.replace("_mlp", ""))
    monkeypatch.chdir(tmp_path)
    for command in re.findall(r"^    \$ (.*)$", page, re.MULTILINE):
        if command.startswith("openssl"):
            if shutil.which("openssl") is None:
                return
            subprocess.run(command, shell=True, check=True, capture_output=True)
            Path("run.intoto.json").unlink()
            continue
        assert run(capsys, *shlex.split(command, comments=True)[1:], "-q", "--max-time", "60")[0] == 0, command


def test_the_chain_is_taken_where_steps_are_made_at_once(folder, capsys):
    """The native engine makes many steps in one call; the hash at a link is that after its step, and no later one."""
    pytest.importorskip("llvmlite")
    states = {}
    for interval in (1, 5):
        options = ("--attest", f"{interval}.json", "--chain", interval, "--engine", "native")
        assert run(capsys, "execute", "p.pb", "-q", *options)[0] == 0
        links = json.loads(Path(f"{interval}.json").read_bytes())["predicate"]["chain"]["links"]
        states[interval] = {(link["step"], link["closes"]): link["state_sha256"] for link in links}
    assert states[5].items() <= states[1].items()
    assert len(set(states[1].values())) == len(states[1])


def test_the_interval_of_a_chain_is_a_hundred_steps_by_default():
    assert attest_report.DEFAULT_EVERY == 100


def test_a_bit_of_the_states_that_were_saved_is_seen_by_the_subject(folder, capsys):
    statement = attested(capsys, "--save", "t.safetensors")
    tensors = load_file("t.safetensors")
    assert tensors
    digest = {each["name"]: each["digest"]["sha256"] for each in statement["subject"]}["t.safetensors"]
    assert digest == sha256(Path("t.safetensors").read_bytes())
