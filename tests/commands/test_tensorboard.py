"""`--tensorboard`: event files, read back by the format's own description."""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from subjects.commands import run_runtime as run

from prograd_proto.wording import install_hint

Capture = pytest.CaptureFixture[str]


def events(folder: str) -> Iterator[Any]:
    """Return the records of a folder's only file: length, checksum of the length, bytes, checksum of the bytes."""
    event = pytest.importorskip("tensorboardX.proto.event_pb2").Event
    (path,) = Path(folder).glob("events.out.tfevents.*")
    data = path.read_bytes()
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        yield event.FromString(data[12 : 12 + length])
        data = data[16 + length :]


def test_events_are_those_of_the_metrics(folder: Path, capsys: Capture):
    pytest.importorskip("tensorboardX")
    words = ("execute", "p.pb", "-q", "--metrics", "m.jsonl", "--watch", "*")
    assert run(capsys, *words, "--tensorboard", "board")[0] == 0
    found = list(events("board"))
    assert found[0].file_version == "brain.Event:2"
    values = [(event.step, value) for event in found for value in event.summary.value]
    told = [json.loads(line) for line in Path("m.jsonl").read_text().splitlines()]
    losses = [(step, value.tag, value.simple_value) for step, value in values if value.tag.endswith("/loss")]
    of = {"step": "steps", "epoch": "epochs", "evaluation": "test"}
    expected = [(line["step"], f"{of[line['event']]}/loss", line["loss"]) for line in told if "loss" in line]
    assert [loss[:2] for loss in losses] == [loss[:2] for loss in expected]
    assert [loss[2] for loss in losses] == pytest.approx([loss[2] for loss in expected])
    counts = [list(value.histo.bucket) for _, value in values if value.HasField("histo")]
    assert counts == [line["counts"] for line in told if line["event"] == "histogram"]


def test_a_folder_of_another_run_is_left_alone_unless_forced(folder: Path, capsys: Capture):
    pytest.importorskip("tensorboardX")
    words = ("execute", "p.pb", "-q", "--tensorboard", "board")
    assert run(capsys, *words)[0] == 0
    code, _, err = run(capsys, *words)
    assert (code, err) == (2, "runtime: board: the folder has events of another run; --force removes them\n")
    assert run(capsys, *words, "--force")[0] == 0
    assert list(events("board"))


def test_without_the_package_a_sentence_says_what_to_install(
    folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
):
    for name in [name for name in sys.modules if name.startswith("tensorboardX")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    code, _, err = run(capsys, "execute", "p.pb", "-q", "--tensorboard", "board")
    sentence = f"--tensorboard needs the package tensorboardX: {install_hint('tensorboard')}"
    assert (code, err) == (2, f"runtime: {sentence}\n")
    assert not Path("board").exists()
