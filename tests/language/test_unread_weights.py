"""Weights of imported models, which stay in their files until a program is saved or run."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from subjects.language_model import LLAMA, made_folder, weights_of

import prograd
from compiler.__main__ import main as compiler
from compiler.build.brought_arrays import Unread
from compiler.errors import CompileError
from compiler.frontends.language_models import gguf_blocks
from compiler.frontends.language_models.from_lm import from_lm
from prograd_proto.regular_files import open_regular
from runtime.language.gguf import KINDS, GgufTensor


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The number of times that each file of tensors was opened, by its name."""
    count: Counter[str] = Counter()

    def counted(path: Path) -> Any:
        count[path.name] += 1
        return open_regular(path)

    monkeypatch.setattr("runtime.files.tensor_files.open_regular", counted)
    return count


@pytest.mark.parametrize("options", [{}, {"trained": ["*"]}, {"vocabulary": 330}], ids=["copied", "trained", "wider"])
def test_each_file_is_opened_once_and_no_weight_is_kept(tmp_path: Path, opened: Counter[str], options: dict[str, Any]):
    folder = made_folder(tmp_path / "there" / "m", parts=3)
    (tmp_path / "here").mkdir()
    program = from_lm(folder, length=24, output=tmp_path / "here" / "net.pb", **options)
    [arrays] = program.arrays.values()
    assert {type(array) for array in arrays.values()} == {Unread}
    program.compile(batch=2).save(tmp_path / "here" / "net.pb")
    assert {name: opened[name] for name in opened if name.startswith("model-")} == {
        f"model-{i}.safetensors": 1 for i in range(3)
    }
    found, wanted = load_file(tmp_path / "here" / "net.weights.safetensors"), weights_of(LLAMA)
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name][: len(array)], array)


def test_a_program_runs_before_it_is_saved(tmp_path: Path):
    folder = made_folder(tmp_path / "there" / "m")
    compiled = from_lm(folder, length=24, output=tmp_path / "here" / "net.pb").compile(batch=2)
    run = prograd.Run(compiled, tmp_path)
    for name, array in weights_of(LLAMA).items():
        np.testing.assert_array_equal(run.state[name], array)


def test_a_file_that_was_cut_after_it_was_read_ends_in_a_sentence(tmp_path: Path):
    folder = made_folder(tmp_path / "there" / "m")
    compiled = from_lm(folder, length=24, output=tmp_path / "here" / "net.pb").compile(batch=2)
    file = folder / "model.safetensors"
    with file.open("r+b") as stream:
        stream.truncate(file.stat().st_size - 100)
    with pytest.raises(CompileError) as error:
        compiled.save(tmp_path / "net.pb")
    assert str(error.value) == f"{file}: this cannot be read as a safetensors file: it ends too early"
    assert not [*tmp_path.glob("net.*")]


@pytest.mark.parametrize("form", ["q8_0", "q4_0"])
def test_codes_of_a_file_are_not_kept_either(tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    made_folder(Path("m"))
    assert compiler(["import", "lm", "m", "--length", "24", "--weights", form, "-o", "net.pb"]) == 0
    assert compiler(["merge", "net.pb", "--layout", "gguf", "-o", "m.gguf"]) == 0
    program = from_lm("m.gguf", length=24, output="again.pb")
    [arrays] = program.arrays.values()
    coded = [name for name in arrays if name.endswith(".codes")]
    assert coded
    for name in (*coded, *(name.replace(".codes", ".scales") for name in coded)):
        array = arrays[name].read()
        assert (str(array.dtype), array.shape) == arrays[name].type


@pytest.mark.parametrize("kind", [kind for kind in KINDS.values() if kind.elements > 1], ids=lambda kind: kind.name)
def test_blocks_are_widened_alike_in_bands_of_any_size(kind, monkeypatch: pytest.MonkeyPatch):
    raw = np.random.default_rng(1).integers(0, 256, 7 * kind.nbytes, dtype=np.uint8).tobytes()
    tensor = GgufTensor(kind, (7, kind.elements), 0, len(raw))
    whole = gguf_blocks.widened_blocks(tensor, raw)
    monkeypatch.setattr(gguf_blocks, "BAND_ELEMENTS", 3 * kind.elements)
    np.testing.assert_array_equal(gguf_blocks.widened_blocks(tensor, raw), whole)
