"""Every line of the table on every sample; and the page says what came of it."""

from pathlib import Path

import pytest

from peers.compare import compare
from peers.page import line
from peers.spelling import Peer
from peers.table import PEERS
from registry import OPS
from registry.table import SPELLED

PAGE = (Path(__file__).parents[2] / "docs/compared.md").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("peer", PEERS, ids=[f"{i}-{peer}" for i, peer in enumerate(PEERS)])
def test_values_and_gradients_are_those_of_pytorch(peer: Peer):
    outcome = compare(peer)
    assert outcome.faults == []
    assert set(peer.operators) & set(OPS) <= outcome.operators, "the spelling does not use what it is said to compare"
    assert line(peer, outcome) in PAGE, "docs/compared.md is of another comparison: run `make compared`"


def test_the_page_names_every_operator():
    text = "\n".join(PAGE)
    assert [name for name in (*OPS, *SPELLED) if f"`{name}`" not in text] == []
