"""Random tables from fixed seeds: every source packs and encodes the same rows; `python -m fuzz.tables` tries many."""

from pathlib import Path

import pytest
from fuzz.tables.judge import judged, tried
from fuzz.tables.sources import table

from runtime.rows.encoding import class_texts

SEEDS = range(48)


def faults(seed: int) -> list[str]:
    return [str(fault) for fault in tried(seed).faults]


@pytest.mark.thorough
@pytest.mark.parametrize("start", range(0, len(SEEDS), 12))
def test_every_source_of_a_random_table_gives_the_same_rows(start: int):
    assert {seed: said for seed in SEEDS[start : start + 12] if (said := faults(seed))} == {}


@pytest.mark.thorough
def test_most_tables_are_packed_from_every_source(tmp_path: Path):
    agreed, others = 0, 0
    for seed in SEEDS:
        folder = tmp_path / str(seed)
        folder.mkdir()
        verdicts = judged(table(seed), folder, seed)
        agreed += sum(verdict.word == "agreed" for verdict in verdicts)
        others += sum(verdict.word != "agreed" for verdict in verdicts)
    assert others < agreed / 10


@pytest.mark.thorough
@pytest.mark.parametrize("planted", ["_number", "_composed"])
def test_a_planted_fault_is_found(monkeypatch: pytest.MonkeyPatch, planted: str):
    monkeypatch.setattr(class_texts, planted, str.strip)
    assert any(faults(seed) for seed in SEEDS)
