"""The network that several files train by the ranks of a job."""

from pathlib import Path

import pytest
from subjects.ranks import save_network


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the network in eight shards, `net.pb`, and its rows."""
    folder = tmp_path_factory.mktemp("network")
    save_network(folder)
    return folder
