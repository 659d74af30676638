"""The wheel: its names, and that its runtime works when the compiler's rooms are deleted."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree, built without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    [path] = folder.glob("*.whl")
    return path


def test_the_wheel_has_five_names_and_their_types(wheel: Path):
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.partition("/")[0] for name in names if ".dist-info/" not in name}
    assert tops == {"compiler", "prograd", "prograd_proto", "registry", "runtime"}
    assert {f"{top}/py.typed" for top in tops} <= set(names)
    assert wheel.name.endswith("-py3-none-any.whl")
    assert "prograd_proto/program.proto" in names
    assert [name for name in names if name.endswith(".safetensors")] == ["prograd/digits.safetensors"]


@pytest.mark.rule
def test_the_runtime_works_when_registry_and_compiler_are_deleted(wheel: Path, tmp_path: Path):
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    shutil.rmtree(site / "registry")
    shutil.rmtree(site / "compiler")
    for name in ("digits_mlp.pb", "digits.safetensors"):
        shutil.copy(ROOT / "examples" / name, tmp_path)
    script = (
        f"import sys; sys.path[:] = [p for p in sys.path if p not in ({str(ROOT)!r}, {str(ROOT / 'proto')!r})]\n"
        f"sys.path.insert(0, {str(site)!r})\n"
        "import prograd, runtime; assert runtime.__file__.startswith(sys.path[0]), runtime.__file__\n"
        "assert prograd.load is runtime.load\n"
        "from runtime.__main__ import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", script, "execute", "digits_mlp.pb", "--epochs", "1", "-q"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (done.returncode, done.stderr.count("Traceback")) == (0, 0), done.stderr
    assert done.stdout.startswith("OK entry=train steps=37 ")


def test_the_wheel_is_the_same_to_the_byte_wherever_and_whenever_it_is_built(wheel: Path, tmp_path: Path):
    copy = tmp_path / "elsewhere"
    kept = ("examples", "pyproject.toml", "README.md", "LICENSE", "compiler", "prograd", "registry", "runtime", "proto")
    copy.mkdir()
    for name in kept:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(
                source, copy / name, copy_function=shutil.copyfile, ignore=shutil.ignore_patterns("__pycache__")
            )
        else:
            shutil.copyfile(source, copy / name)  # another time, and another mode
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / wheel.name).read_bytes() == wheel.read_bytes()
