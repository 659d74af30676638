import pytest


@pytest.fixture(scope="session", autouse=True)
def native_engine() -> None:
    """Skip the tests of this folder where LLVM is missing."""
    pytest.importorskip("llvmlite", reason="the native engine is an extra")
