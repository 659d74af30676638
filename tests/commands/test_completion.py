"""Shells complete verbs, options and their words."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from compiler.__main__ import main as compiler
from compiler.commands.verbs.command import COMMAND as COMPILER
from runtime.__main__ import main as runtime
from runtime.command_line.parsing import verb_parser
from runtime.command_line.tables import OPTIONS_OF_EVERY_VERB
from runtime.commands.verbs.command import COMMAND as RUNTIME

MAINS = {"runtime": runtime, "compiler": compiler}
COMMANDS = {"runtime": RUNTIME, "compiler": COMPILER}
SHELLS = ("bash", "zsh", "fish")


@pytest.fixture
def scripts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> dict[tuple[str, str], Path]:
    """Map each command and shell to the file of the completions that the verb prints."""
    made = {}
    for command, main in MAINS.items():
        for shell in SHELLS:
            assert main(["completion", shell]) == 0
            made[command, shell] = tmp_path / f"{command}.{shell}"
            made[command, shell].write_text(capsys.readouterr().out)
    return made


ASKED = {
    "runtime ex": "execute",
    "runtime ": "execute replay audit check profile bench cache sweep serve chat plot completion",
    "runtime execute --eng": "--engine",
    "runtime execute p.pb --engine ": (
        "reference native native.amx_int8 native.amx native.avx512_bf16 native.avx512_vnni native.avx512 "
        "native.avx_vnni native.avx2 native.sse2 native.neon_dotprod native.neon"
    ),
    "runtime execute p.pb --log-format t": "text",
    "runtime execute --seed ": "",
    "runtime execute ": "",  # files
    "runtime completion ": "bash zsh fish",
    "compiler da": "data",
    "compiler data ": "pack show",
    "compiler data pack --sp": "--split",
    "compiler show --sort o": "offset",
}


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_offers_what_fits(scripts: dict[tuple[str, str], Path]):
    lines = [f"source {scripts[command, 'bash']}" for command in MAINS]
    lines += ['try() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _prograd_$1; echo "${COMPREPLY[*]}"; }']
    lines += [f"try {line}''" if line.endswith(" ") else f"try {line}" for line in ASKED]
    done = subprocess.run(["bash", "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    assert dict(zip(ASKED, done.stdout.splitlines(), strict=True)) == ASKED


@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
def test_fish_offers_what_fits(scripts: dict[tuple[str, str], Path], tmp_path: Path):
    for line, wanted in ASKED.items():
        script = f"cd {tmp_path}; source {scripts[line.split()[0], 'fish']}; complete -C '{line}'"
        done = subprocess.run(["fish", "-N", "-c", script], capture_output=True, text=True, check=True)
        offered = {offer.split("\t")[0] for offer in done.stdout.splitlines()}
        assert set(wanted.split()) <= offered
        assert not wanted or offered == set(wanted.split())


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_is_one_of_its_shell(shell: str, scripts: dict[tuple[str, str], Path]):
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")
    for command in MAINS:
        done = subprocess.run([shell, "-n", scripts[command, shell]], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


def test_a_script_has_every_verb_and_every_option_that_help_shows(scripts: dict[tuple[str, str], Path]):
    for (command, shell), path in scripts.items():
        script = path.read_text()
        for verb, table in COMMANDS[command].verbs.items():
            assert verb.split()[-1] in script
            help = verb_parser(COMMANDS[command], table).format_help()
            for flag in [flag for option in (*OPTIONS_OF_EVERY_VERB, *table.options) for flag in option.flags]:
                if flag in help and flag.startswith("--"):
                    assert (f"-l {flag[2:]}" if shell == "fish" else flag) in script, (verb, flag)


def test_another_shell_is_one_sentence(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as caught:
        runtime(["completion", "zhs"])
    assert caught.value.code == 2
    assert capsys.readouterr().err == (
        "runtime: argument {bash,zsh,fish}: 'zhs' is not one of bash, zsh, fish; did you mean 'zsh'?; "
        "see runtime completion --help\n"
    )


def test_nothing_of_it_is_loaded_before_it_is_asked_for():
    script = "import sys; from runtime.__main__ import main; main(['cache', '-q']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "runtime.command_line.completion" not in done.stdout.split()
