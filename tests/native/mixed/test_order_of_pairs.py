"""Products of bfloat16 that add pair by pair: equal bits on all instruction sets, and how a program names the order."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from native.mixed.contract import product_of_pairs
from native.mixed.test_contract import FEW_ROWS, KINDS, SETS, SHAPES, numbers, require_equal_bits
from subjects.random_networks import network

import prograd
from compiler.compare.differences import differences
from prograd import Program, mixed, ops
from prograd_proto import ProgramError
from prograd_proto import program_pb2 as pb
from prograd_proto.text import from_text, to_text
from runtime.check.run import check_entries

PAIRS = mixed("bfloat16", order="pairs")


@pytest.mark.sampled(6)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bits_are_those_of_one_chain_in_each_block(tmp_path: Path, shape: tuple[int, int, int], kind: str) -> None:
    m, k, n = shape
    rng = np.random.default_rng([m, k, n, KINDS.index(kind)])
    a, b = numbers(rng, (m, k), kind), numbers(rng, (k, n), kind)
    program = Program("product")
    x, y = program.input("a", "bfloat16", a.shape), program.input("b", "bfloat16", b.shape)
    program.outputs(y=ops.matmul(x, y))
    program.compile(mixed=PAIRS).save(tmp_path / "p.pb")
    wanted = product_of_pairs(a, b, SHAPES[shape])
    for name in SETS:
        found = np.asarray(prograd.load(tmp_path / "p.pb", engine=f"native.{name}").predict({"a": a, "b": b})["y"])
        require_equal_bits(name, found, wanted)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", FEW_ROWS, ids=str)
def test_few_rows_have_these_bits_too(tmp_path: Path, shape: tuple[int, int, int], kind: str) -> None:
    m, k, n = shape
    rng = np.random.default_rng([m, k, n, KINDS.index(kind)])
    a, w = numbers(rng, (m, k), kind), numbers(rng, (n, k), kind)
    program = Program("product")
    x, y = program.input("a", "bfloat16", a.shape), program.input("w", "bfloat16", w.shape)
    program.outputs(y=ops.matmul(x, y, transpose_b=True))
    program.compile(mixed=PAIRS).save(tmp_path / "p.pb")
    wanted = product_of_pairs(a, w.T)
    for name in SETS:
        run = prograd.load(tmp_path / "p.pb", engine=f"native.{name}", threads=2)
        require_equal_bits(name, np.asarray(run.predict({"a": a, "w": w})["y"]), wanted)


def trained(path: Path, seed: int, engine: str, threads: int = 1, order: str = "pairs") -> tuple[float, str]:
    """Return the last of three losses and the digest of the states."""
    program, feeds = network(seed)
    program.compile(batch=32, mixed=mixed("bfloat16", order=order)).save(path / "p.pb", force=True)
    run = prograd.load(path / "p.pb", engine=engine, threads=threads)
    feeds = {name: np.concatenate([x] * (32 // len(x)))[:32] if len(x) < 32 else x[:32] for name, x in feeds.items()}
    losses = [float(run.step(feeds)["loss"]) for _ in range(3)]
    return losses[-1], run.state_sha256


@pytest.mark.sampled(24)
@pytest.mark.parametrize("seed", range(24))
def test_states_depend_neither_on_instructions_nor_on_threads(tmp_path: Path, seed: int) -> None:
    first, *others = SETS
    wanted = trained(tmp_path, seed, f"native.{first}", 2)
    others = others or [first]  # a machine with one set compares threads
    name = others[seed % len(others)]
    assert trained(tmp_path, seed, f"native.{name}") == wanted, name
    loss, _ = trained(tmp_path, seed, "reference")
    assert loss == pytest.approx(wanted[0], rel=0.02)


def test_the_orders_of_one_network_have_hashes_of_their_own(tmp_path: Path) -> None:
    by_order = {order: trained(tmp_path, 3, "native", order=order) for order in ("tiles", "pairs")}
    assert by_order["tiles"][1] != by_order["pairs"][1]
    assert by_order["tiles"][0] == pytest.approx(by_order["pairs"][0], rel=0.01)


def test_a_program_keeps_its_order_in_files_and_when_it_is_built_on(tmp_path: Path) -> None:
    program, _ = network(3)
    compiled = program.compile(batch=32, mixed=PAIRS)
    assert compiled.desc.bfloat16_order == pb.BFLOAT16_ORDER_PAIRS
    compiled.save(tmp_path / "p.pb")
    again = Program.load(tmp_path / "p.pb").compile()
    assert again.desc.bfloat16_order == pb.BFLOAT16_ORDER_PAIRS
    text = to_text(compiled.desc)
    assert ", by_pairs" in text.splitlines()[0]
    assert from_text(text) == compiled.desc
    tiles = program.compile(batch=32, mixed="bfloat16").desc
    assert tiles.bfloat16_order == pb.BFLOAT16_ORDER_UNSPECIFIED
    found = dict(differences(tiles, compiled.desc))
    assert "order of products of bfloat16: tiles -> pairs" in found["program"]
    compiled.desc.bfloat16_order = cast(Any, 7)
    with pytest.raises(ProgramError) as caught:
        check_entries(compiled.desc)
    assert str(caught.value) == "this version has no order 7 of products of bfloat16"


def test_amx_adds_pairs_without_its_tiles() -> None:
    from runtime.codegen.machine import INSTRUCTION_SETS, target

    program: Any = pb.ProgramDesc(bfloat16_order=pb.BFLOAT16_ORDER_PAIRS)
    for name in INSTRUCTION_SETS:
        of = target(name).for_program(program)
        assert (of.adds_pairs, of.has_matrix_tiles, of.chains_pairs) == (True, False, False), name
        assert of.has_pair_products == (name == "avx512_bf16"), name
        assert target(name).for_program(pb.ProgramDesc()) == target(name), name


def test_no_other_order_is_taken() -> None:
    with pytest.raises(prograd.CompileError) as caught:
        mixed("bfloat16", order="rows")
    assert str(caught.value) == "mixed: order='rows' is no order of additions; there are tiles and pairs"
