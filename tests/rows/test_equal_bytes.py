"""Packing writes equal bytes in every process, whatever order Python's sets have there."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

SEEDS = range(8)
PACK = """
import prograd
rows = range(30)
table = {
    "dept": [("1", "01", "2", "02", "3", "003")[i % 6] for i in rows],
    "city": [("Rome", "Oslo", "Bern", "Köln")[i % 4] for i in rows],
    "text": [f"{'abcdefg'[i % 7]} {'hijkl'[i % 5]}" for i in rows],
    "a": [i % 5 for i in rows], "b": [i % 3 for i in rows], "flag": [i % 2 == 0 for i in rows],
}
prograd.data.pack(table, "random.safetensors", classes=["dept"], words=["text"], join={"x": ["b", "a"]},
                  missing={"city": "most"}, split={"train": 0.5, "test": 0.5})
prograd.data.pack(table, "group.safetensors", drop=["text"], classes=["dept"], one_hot=["city"],
                  split={"train": 0.5, "test": 0.5}, by="group", of="dept")
prograd.data.pack(table, "strata.safetensors", drop=["text"], classes=["dept"],
                  split={"train": 0.5, "test": 0.5}, by="stratified", of="city")
"""


@pytest.mark.thorough
def test_eight_hash_seeds_give_equal_bytes(tmp_path: Path):
    found: dict[str, set[str]] = {}
    for seed in SEEDS:
        folder = tmp_path / str(seed)
        folder.mkdir()
        environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
        subprocess.run([sys.executable, "-P", "-c", PACK], check=True, cwd=folder, env=environment)
        for path in sorted(folder.iterdir()):
            found.setdefault(path.name, set()).add(hashlib.sha256(path.read_bytes()).hexdigest())
    assert {name: len(hashes) for name, hashes in found.items()} == {
        "group.safetensors": 1,
        "random.safetensors": 1,
        "strata.safetensors": 1,
    }
