"""A sample of the backend tests of onnx on both engines; `python -m conformance.run` runs them all."""

import warnings

import pytest

pytest.importorskip("onnx", reason='needs ONNX: pip install ".[onnx]"')

from conformance.backend import KINDS, cases, judged
from conformance.round_trip import round_trips
from conformance.run import rows

LISTED = {"node": 96, "simple": 6}
"""Number of cases of each kind that do not pass; a smaller number replaces it when the list shrinks.

It grew once, by two cases of Resize whose numbers neither ONNX Runtime nor PyTorch computes: see docs/from-onnx.md.
"""

SAMPLES = [
    ("node", "reference", 20),
    ("node", "native", 40),
    ("simple", "reference", 1),
    ("converted", "reference", 3),
    ("converted", "native", 9),
    ("operator", "reference", 3),
    ("operator", "native", 9),
]
"""Kind, engine, and the distance of the cases that are run."""


@pytest.mark.sampled(9)
@pytest.mark.parametrize(("kind", "engine", "every"), SAMPLES)
def test_every_sampled_case_passes_unless_the_list_has_it(kind: str, engine: str, every: int):
    listed = {name for name, own, _ in rows() if own == kind}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # onnx and NumPy warn about infinities that the cases are about
        found = {case.name: judged(case, engine).reason for case in cases(kind)[::every]}
    assert {name: reason for name, reason in found.items() if reason and name not in listed} == {}
    assert [name for name, reason in found.items() if not reason and name in listed] == []


@pytest.mark.thorough
def test_a_sample_has_the_same_numbers_after_an_export_and_another_import():
    differing, refused, count = round_trips("node", 25)
    assert differing == {}
    assert sum(refused.values()) < count // 10


def test_the_list_only_shrinks():
    counts = {kind: sum(own == kind for _, own, _ in rows()) for kind in KINDS}
    assert {kind: count for kind, count in counts.items() if count} == LISTED
    assert all(reason for _, _, reason in rows())
