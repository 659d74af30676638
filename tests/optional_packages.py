"""Packages that not every environment has: the files of tests that import them are skipped without them."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

OPTIONAL = frozenset(
    "PIL llvmlite mpi4py onnx onnxruntime onnxscript skl2onnx sklearn tf2onnx torch torchvision transformers".split()  # noqa: SIM905
)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Skip a file whose imports end at an optional package that is missing; every other error fails."""
    report = yield
    error = report.call.excinfo  # an attribute that pytest itself reads
    cause = error and error.value.__cause__
    if isinstance(cause, ModuleNotFoundError) and str(cause.name).partition(".")[0] in OPTIONAL:
        report.outcome, report.longrepr = "skipped", (str(collector.path), 0, f"needs {cause.name}")
    return report


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip all tests of the native engine where LLVM is missing."""
    if Path(__file__).parent / "native" in item.path.parents:
        pytest.importorskip("llvmlite", reason="the native engine is an extra")
