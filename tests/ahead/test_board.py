"""The words of the driver's board, whose numbers stand in three languages."""

import re
from pathlib import Path

import runtime.ahead
from runtime.codegen import board

HOST = Path(runtime.ahead.__file__).parent


def test_the_runtime_in_c_has_the_words_of_the_board():
    text = (HOST / "host" / "prograd_tables.h").read_text()
    [body] = re.findall(r"enum \{ (BOARD_STOP.*?) \}", text, re.DOTALL)
    number, found = -1, dict[str, int]()
    for name, _, value in (item.partition(" = ") for item in re.split(r",\s+", body)):
        number = int(value) if value else number + 1
        found[name.removeprefix("BOARD_")] = number
    assert len(found) > 8
    assert found == {name: getattr(board, name) for name in found}


def test_the_runtime_in_javascript_has_the_words_of_the_board():
    text = (HOST / "site" / "prograd.mjs").read_text()
    [body] = re.findall(r"const BOARD = \{ (.*?) \}", text)
    found = {name.upper(): int(number) for name, number in re.findall(r"(\w+): (\d+)", body)}
    assert len(found) > 4
    assert found == {name: getattr(board, name) for name in found}
