"""Programs of every kind by the native engine: watched, spilled, of older files; they do what the reference does."""

import random
from pathlib import Path

import numpy as np
import pytest
from subjects.small_programs import arrays, linear, rich, save, write_data
from subjects.spilling import spilled

import runtime
from compiler import Program, ops
from prograd_proto import program_pb2 as pb
from prograd_proto import type_of
from prograd_proto.files import load as load_program
from prograd_proto.files import save as save_program
from runtime.errors import NonFinite

GOLDEN = sorted((Path(__file__).parents[2] / "golden" / "compiled").glob("*.pb"))


def engines(program: object, **options: object) -> list[runtime.Run]:
    load = runtime.Run if isinstance(program, pb.ProgramDesc) else runtime.load
    return [load(program, engine=name, **options) for name in ("native", "reference")]


@pytest.mark.parametrize("threads", [1, 2])
def test_the_first_op_that_makes_nan_is_named_with_what_it_read(threads: int, tmp_path: Path):
    x = arrays()["x"]
    x[3, 1] = np.nan
    write_data(tmp_path, x=x)
    path = save(linear(), tmp_path)
    sentences = []
    for run in engines(path, check_nan=True, threads=threads):
        with pytest.raises(NonFinite) as error:
            list(run.events())
        sentences.append(str(error.value))
    assert sentences[0] == sentences[1]


def test_a_nan_that_would_never_be_in_memory_is_found():
    program = Program()
    x = program.input("x", "float64", (4,))
    program.outputs(y=ops.where(x > 1.0, ops.log(x - 1.0), x) * 2.0)
    native, _ = engines(program.compile().desc, check_nan=True)
    with pytest.raises(NonFinite, match=r"has 1 of 4 elements that are NaN or Inf; it reads %sub_\d+ in \[-0\.5, 2\]$"):
        native.step({"x": [3, 0.5, 2, 2.25]}, entry="predict")


def test_states_and_feeds_are_those_before_the_step_that_failed(tmp_path: Path):
    x = arrays()["x"]
    x[-1, 0] = np.inf
    write_data(tmp_path, x=x)
    path = save(rich(), tmp_path)
    found = []
    for run in engines(path, check_nan=True):
        with pytest.raises(NonFinite):
            list(run.events())
        found.append({name: array.copy() for name, array in run.states.arrays.items()})
    for name, expected in found[1].items():
        np.testing.assert_allclose(found[0][name], expected, rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("seed", range(3))
def test_a_program_that_moves_values_to_a_file_and_back_trains_alike(seed: int, tmp_path: Path):
    path = save(rich(), tmp_path)
    save_program(spilled(load_program(path), random.Random(seed).randrange, pairs=2), path, force=True)
    native, reference = engines(path, spill=tmp_path)
    for run in (native, reference):
        list(run.events(epochs=1))
    for name, expected in reference.states.arrays.items():
        np.testing.assert_allclose(native.states.arrays[name], expected, rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_a_golden_program_computes_what_the_reference_does(path: Path, tmp_path: Path):
    native, reference = engines(path, spill=tmp_path)
    for run in (native, reference):
        if "total_steps" in run.state:
            run.state["total_steps"] = 10
    for entry in reference.program.entries:
        feeds = random_feeds(reference, entry.name)
        made, expected = (run.step(feeds, entry=entry.name) for run in (native, reference))
        for name, value in expected.items():
            np.testing.assert_allclose(made[name], value, rtol=1e-3, atol=1e-4, err_msg=f"{entry.name}: {name}")


def random_feeds(run: runtime.Run, entry: str) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    block = run.session.bindings(entry)[0].block
    types = {tensor.name: type_of(tensor) for tensor in block.tensors}
    feeds: dict[str, np.ndarray] = {}
    for parameter in block.parameters:
        if parameter.WhichOneof("source") == "feed":
            type = types[parameter.tensor]
            is_float = "float" in type.dtype
            made = rng.standard_normal(type.static_shape) if is_float else rng.integers(0, 2, type.static_shape)
            feeds[parameter.feed] = made.astype("float32" if type.dtype == "bfloat16" else type.dtype)
    return feeds
