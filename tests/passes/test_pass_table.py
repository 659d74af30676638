"""The tables of passes: what is refused where a table is written, in which words, and what can be made of one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from subjects.commands import told

from compiler import CompileError, Program, ops
from compiler.passes.pass_table import Pass, PassTable
from compiler.passes.pipeline import PASSES
from compiler.planning.pipeline import PLANNING
from prograd_proto.blocks.block_analyses import BlockAnalyses


def bake(program: BlockAnalyses, *, minutes: int = 30, crust: str | None = None, hot: bool = False) -> None:
    """Put it into the oven.

    Args:
        program: the dough.
        minutes: so long,
            and no longer.
        crust: none unless given.
    """


def knead(program: BlockAnalyses) -> None:
    """Work the dough."""


def eat(program: BlockAnalyses) -> None: ...


KNEAD = Pass(knead, establishes={"smooth": "it has been worked"})
BAKE = Pass(bake, requires={"smooth": "lumps stay"}, establishes={"baked": "it was hot"}, invalidates={"smooth": "dry"})
EAT = Pass(eat, requires={"baked": "dough is not bread"})
BREAD = PassTable("bread", (KNEAD, BAKE, EAT))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: PassTable("bread", (BAKE, KNEAD)),
            "bread: bake requires 'smooth' (lumps stay), which knead establishes only after it; put that before",
        ),
        (
            lambda: PassTable("bread", (KNEAD, EAT, BAKE)),
            "bread: eat requires 'baked' (dough is not bread), which bake establishes only after it; put that before",
        ),
        (
            lambda: PassTable("bread", (KNEAD, BAKE, Pass(eat, requires={"smooth": "nice"}))),
            "bread: eat requires 'smooth' (nice), which bake, before it, invalidates (dry); put knead between",
        ),
        (
            lambda: PassTable("bread", (BAKE, Pass(eat, requires={"smooth": "nice"})), given={"smooth": "bought"}),
            "bread: eat requires 'smooth' (nice), which bake, before it, invalidates (dry); put that later",
        ),
        (
            lambda: PassTable("bread", (KNEAD, Pass(eat, requires={"smoth": "nice"}))),
            "bread: eat requires 'smoth' (nice), which no pass establishes; did you mean 'smooth'?",
        ),
        (
            lambda: PassTable("bread", (KNEAD, Pass(eat, invalidates={"bakd": "gone"}))),
            "bread: eat invalidates 'bakd' (gone), which no pass establishes",
        ),
        (
            lambda: PassTable("bread", (KNEAD, BAKE), promises={"cooled": "fingers"}),
            "bread promises 'cooled' (fingers), which no pass establishes",
        ),
        (
            lambda: PassTable("bread", (KNEAD, BAKE), promises={"smooth": "looks"}),
            "bread promises 'smooth' (looks), which bake, before it, invalidates (dry); put knead between",
        ),
        (
            lambda: PassTable("bread", (KNEAD, BAKE, KNEAD)),
            "bread: 2 passes have the name knead, that of their function; rename one",
        ),
        (
            lambda: PassTable("bread", (Pass(knead, establishes={"smooth": ""}),)),
            "bread: knead establishes 'smooth' without a reason; say why",
        ),
        (
            lambda: PassTable("bread", (KNEAD, BAKE), promises={"baked": "hunger"}).without("bake"),
            "bake cannot be left out: bread promises 'baked' (hunger)",
        ),
        (lambda: BREAD.only("nead"), "there is no pass 'nead'; did you mean 'knead'?; the passes are knead, bake, eat"),
        (
            lambda: BREAD.with_settings({"bake": {"minuts": 3}}),
            "bake: there is no option 'minuts'; did you mean 'minutes'?; its options are minutes, crust, hot",
        ),
        (lambda: BREAD.with_settings({"eat": {"fast": True}}), "eat: there is no option 'fast'; it has none"),
        (lambda: BREAD.with_settings({"bake": {"minutes": 1.5}}), "bake: the option minutes is 1.5; it takes int"),
        (lambda: BREAD.with_settings({"bake": {"minutes": True}}), "bake: the option minutes is True; it takes int"),
        (lambda: BREAD.with_settings({"bake": {"crust": 1}}), "bake: the option crust is 1; it takes str | None"),
    ],
)
def test_what_does_not_hold_is_refused_where_it_is_written(make: Callable[[], object], sentence: str):
    assert told(CompileError, make) == sentence


def test_a_table_can_be_cut_and_lengthened():
    def cool(program: BlockAnalyses) -> None: ...

    assert BREAD.names == ["knead", "bake", "eat"]
    assert BREAD.before("bake") == (KNEAD,)
    assert BREAD.since("bake") == (BAKE, EAT)
    assert BREAD.only("eat", "knead") == (EAT, KNEAD)
    assert BREAD.without("knead").names == ["bake", "eat"], "which then no longer asks for what is smooth"
    assert BREAD.with_pass(Pass(cool), before="eat").names == ["knead", "bake", "cool", "eat"]
    assert BREAD.facts == {"baked": "it was hot"}


def test_the_signature_of_a_pass_says_what_can_be_set():
    options = BREAD.with_settings({"bake": {"minutes": 5, "crust": "dark"}}).only("bake")[0].options
    assert [(o.name, o.type_name, o.value, o.meaning) for o in options.values()] == [
        ("minutes", "int", 5, "so long, and no longer."),
        ("crust", "str | None", "dark", "none unless given."),
        ("hot", "bool", False, ""),
    ]
    assert BREAD.only("bake")[0].options["minutes"].value == 30


each_table = pytest.mark.parametrize("table", [PASSES, PLANNING], ids=lambda table: table.name)


@each_table
def test_a_pass_has_the_name_of_its_file_and_says_what_it_does(table: PassTable):
    for each in table:
        assert each.function.__module__.rpartition(".")[2] == each.name
        assert each.does.endswith(".")
        assert all(option.meaning for option in each.options.values())


@each_table
def test_every_fact_that_is_established_is_asked_for(table: PassTable):
    asked = {fact for each in (*PASSES, *PLANNING) for fact in each.requires} | {*PASSES.promises, *PLANNING.promises}
    assert {fact for each in table for fact in each.establishes} <= asked


def test_a_pass_of_the_users_own_runs_in_its_place_with_its_options():
    seen: list[object] = []

    def count_ops(program: BlockAnalyses, *, least: int = 0) -> None:
        seen.extend((least, [op.type for op in program.desc.blocks[-1].ops]))

    program = Program()
    program.outputs(y=ops.exp(program.input("x", "float32", ("n",)) * 1.0))
    table = PASSES.with_pass(Pass(count_ops, requires={"folded": "constants count"}), before="simplify")
    program.compile(table.with_settings({"count_ops": {"least": 3}}), n=2)
    assert seen == [3, ["constant", "mul", "exp"]]
    program.compile(table.without("count_ops"), n=2)
    assert len(seen) == 2
