"""Limits of the system on addresses: where a library would end the process, it is not called."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have other limits, or none")

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits_cnn.pb"
LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]) << 20,) * 2)
from runtime.__main__ import main
sys.argv = sys.argv[1:]
sys.exit(main())
"""
START = (
    "runtime: there is not enough memory: the commands need 136 MiB of address space to start; "
    "raise the limit of the system (ulimit -v, ulimit -d)\n"
)
COMPILE = (
    "runtime: there is not enough memory for LLVM, which compiles the program; "
    "use the engine 'reference', or raise the limit of the system (ulimit -v, ulimit -d)\n"
)


def limited(mebibytes: int, *arguments: str) -> tuple[int, str, str]:
    script = [sys.executable, "-P", "-c", LIMITED, str(mebibytes), "execute", str(EXAMPLE), "-q", "--steps", "1"]
    done = subprocess.run([*script, *arguments], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("mebibytes", [60, 100, 120, 140])
@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_limit_below_what_starting_takes_ends_with_6(mebibytes: int, engine: str):
    assert limited(mebibytes, "--engine", engine) == (6, "", START)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mebibytes", [200, 272, 284])
def test_a_limit_below_what_llvm_takes_ends_with_6_where_native_code_is_asked_for(
    mebibytes: int, monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip("llvmlite", reason="the native engine is an extra")
    monkeypatch.setenv("PROGRAD_CACHE", "")
    monkeypatch.delenv("PROGRAD_ENGINE", raising=False)
    assert limited(mebibytes, "--engine", "native") == (6, "", COMPILE)
    code, out, err = limited(mebibytes)
    assert (code, err) == (0, "")
    assert " engine=reference native=too_little_memory " in out
