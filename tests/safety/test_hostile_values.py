"""Values in programs and files that no honest author writes: each has a sentence and a code, word for word."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from subjects.commands import ended
from subjects.small_programs import arrays, linear, save

from compiler import Program, constant, ops, sgd
from compiler.__main__ import main as compiler
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalysis
from prograd_proto.files import load
from prograd_proto.files import save as save_file
from runtime.__main__ import main as runtime

PREDICT = ["execute", "p.pb", "-q", "--entry", "predict"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    save(linear(), tmp_path, evaluate=None, keep_best=None)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("epochs", [(1 << 63) - 1, 1 << 61])
def test_more_steps_than_a_counter_counts_are_refused(folder, capsys, epochs):
    program = load("p.pb")
    program.run.epochs = epochs
    save_file(program, "p.pb", force=True)
    code, out, err = ended(capsys, runtime, "execute", "p.pb", "-q", "--max-time", "100")
    assert (code, out) == (2, "")
    assert err == f"runtime: {epochs} epochs of 7 steps are more steps than 64 bits count\n"


@pytest.mark.parametrize(
    ("value", "made"),
    [(float("inf"), "inf"), (float("-inf"), "-inf"), (float("nan"), "nan"), (1e300, "1e+300"), (-1e300, "-1e+300")],
)
def test_an_integer_state_is_filled_with_integers(folder, capsys, value, made):
    program = Program("counts")
    x = program.input("x", "float32", ("n",))
    w = program.parameter("w", ())
    count = program.buffer("count", (2,), constant(1.0), dtype="int64")
    program.minimize(ops.mean((x * w) ** 2), sgd(0.1))
    program.update(count, count + 1)
    desc = program.compile(n=2).desc
    state = next(state for state in desc.states if state.name == "count")
    attribute = next(a for a in state.op.attributes if a.name == "value")
    attribute.float_value = value
    save_file(desc, "full.pb")
    code, out, err = ended(capsys, runtime, "execute", "full.pb", "-q", "--feed", "x=[1, 2]")
    assert (code, out) == (3, "")
    assert err.endswith(f"): the value {made} is no int64\n")


@pytest.mark.parametrize("option", ["--steps", "--epochs", "--seed", "--every", "--keep", "--threads"])
def test_a_number_of_24_digits_is_a_matter_of_usage(folder, capsys, option):
    assert ended(capsys, runtime, "execute", "p.pb", option, "1" * 24)[0] == 2


@pytest.mark.parametrize("option", ["--save", "--metrics", "--trace", "--checkpoint"])
def test_a_name_of_300_letters_is_a_matter_of_data(folder, capsys, option):
    name = "x" * 296 + ".csv"
    code, out, err = ended(capsys, runtime, "execute", "p.pb", "-q", option, name)
    assert (code, out) == (4, "")
    assert err.lower().endswith("file name too long\n")
    assert len(err.splitlines()) == 1


def test_json_that_is_nested_a_thousand_deep_is_no_feed(folder, capsys):
    code, _, err = ended(capsys, runtime, *PREDICT, "--feed", "x=" + "[" * 5000)
    assert code == 2
    assert err.endswith(": this is neither @file.npy nor a JSON value\n")
    assert len(err) < 420


def npz(way: int) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", way) as archive:
        for name, array in arrays().items():
            part = io.BytesIO()
            np.save(part, array)
            archive.writestr(f"{name}.npy", part.getvalue())
    return out.getvalue()


def encrypted() -> bytes:
    raw = bytearray(npz(zipfile.ZIP_STORED))
    raw[6] |= 1
    raw[raw.rfind(b"PK\1\2", 0, raw.find(b"PK\1\2") + 4) + 8] |= 1
    return bytes(raw)


def corrupt() -> bytes:
    raw = bytearray(npz(zipfile.ZIP_LZMA))
    raw[80:90] = bytes(10)
    return bytes(raw)


@pytest.mark.parametrize("make", [encrypted, corrupt], ids=["encrypted", "corrupt LZMA"])
def test_an_archive_that_cannot_be_unpacked_is_a_matter_of_data(folder, capsys, make):
    Path("d.npz").write_bytes(make())
    code, out, err = ended(capsys, runtime, "execute", "p.pb", "-q", "--data", "d.npz")
    assert (code, out) == (4, "")
    assert err.startswith("runtime: d.npz: this cannot be read as a npz file: ")


def npy(shape: str) -> bytes:
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117).encode() + b"\n"
    return b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header + bytes(12)


@pytest.mark.parametrize(
    ("shape", "sentence"),
    [
        ("(True, 3)", "an array says that its shape is (True, 3)"),
        ("(-1, 3)", "an array says that its shape is (-1, 3)"),
        (f"({10**20}, 3)", "an array of 1200000000000000000000 bytes is more than the 68719476736 that are read"),
        ("(2, 3)", "an array says that it has 24 bytes, and 12 are there"),
        ("(1, (", None),
    ],
)
def test_an_array_with_an_absurd_shape_is_a_matter_of_data(folder, capsys, shape, sentence):
    Path("x.npy").write_bytes(npy(shape))
    code, out, err = ended(capsys, runtime, *PREDICT, "--feed", "x=@x.npy")
    assert (code, out) == (4, "")
    assert err.startswith("runtime: x.npy: this cannot be read as a npy file: ")
    assert sentence is None or err.endswith(f": {sentence}\n")


def test_a_loop_of_links_is_told_as_the_system_does(folder, capsys):
    Path("loop").symlink_to("loop")
    Path("loop.txt").symlink_to("loop.txt")
    for command, arguments in (
        (runtime, ["check", "loop"]),
        (runtime, ["execute", "p.pb", "--load", "loop"]),
        (runtime, ["execute", "p.pb", "--checkpoint", "loop/x"]),
        (runtime, ["execute", "p.pb", "--save", "loop/x"]),
        (compiler, ["check", "loop"]),
        (compiler, ["compile", "loop.txt"]),
    ):
        code, out, err = ended(capsys, command, *arguments)
        assert code in (2, 3, 4)
        assert len([line for line in err.splitlines() if "rows do not fill" not in line]) == 1
        assert out == ""


def test_halves_are_profiled(folder, capsys):
    program = Program("halves")
    x = program.input("x", "bfloat16", ("n", 3))
    program.outputs(wide=ops.cast(x, dtype="float32"))
    program.compile(n=2).save("halves.pb")
    assert ended(capsys, runtime, "profile", "halves.pb", "--steps", "1")[0] == 0


def test_a_profile_has_limits(folder, capsys, monkeypatch):
    monkeypatch.setattr("runtime.runs.overtime.EXTRA_CALL_SECONDS", 600.0)  # a busy machine must not end this process
    assert ended(capsys, runtime, "profile", "p.pb", "--steps", "1", "--max-memory", "10B")[0] == 6
    code, _, err = ended(capsys, runtime, "profile", "p.pb", "--steps", "1000000000", "--max-time", "0")
    assert (code, err) == (6, "runtime: the run took its 0 seconds\n")


def test_a_step_of_no_ops_has_no_way_to_keep_a_budget(folder, capsys):
    program = Program("still")
    program.outputs(x=program.input("x", "float32", ("n", 100)))
    program.compile(n=2).save("still.pb")
    code, _, err = ended(capsys, compiler, "plan", "still.pb", "--budget", "100B")
    assert code == 6
    assert err.endswith("bytes by itself, more than the budget of 100\n")


def test_a_step_is_not_larger_than_a_plan_can_say():
    from compiler.errors import CompileError
    from compiler.passes.plan_memory import plan_from
    from runtime.engines.reference.target import REFERENCE
    from runtime.step import places_of

    places = places_of(BlockAnalysis(pb.BlockDesc()), REFERENCE)._replace(arena_bytes=(1 << 62) + 64)
    with pytest.raises(CompileError, match="more than the 4611686018427387904 that a plan can say"):
        plan_from(places)
