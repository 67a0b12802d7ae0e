"""Shell completion: the words that the program proposes, and a TAB in bash."""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tests.cli.test_program as fast
from dataformats.cli import main
from dataformats.registry import backends

environment = fast.environment  # fixture


@pytest.fixture
def program(environment: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """Return the environment of a shell whose PATH has `dataformats`."""
    script = tmp_path / "bin" / "dataformats"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m dataformats "$@"\n')
    script.chmod(0o755)
    return environment | {"PATH": f"{script.parent}:{os.environ['PATH']}"}


def test_words(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def proposed(words: str) -> list[str]:
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
        with pytest.raises(SystemExit):
            main([])
        return capsys.readouterr().out.replace("plain,", "").split()

    monkeypatch.setenv("_DATAFORMATS_COMPLETE", "bash_complete")
    assert {"cat", "convert"} <= {*proposed("dataformats c")}
    assert proposed("dataformats convert --part") == ["--part"]
    assert proposed("dataformats convert --format ") == [*backends]
    assert proposed("dataformats cat x --payload seq") == ["sequence_example"]
    assert proposed("dataformats convert --on-corrupt o") == ["omit"]
    assert proposed("dataformats convert --compression z") == ["zlib", "zstd"]
    assert proposed("dataformats convert --format tfrecord --compression ") == ["auto", "gzip", "none", "zlib"]
    assert proposed("dataformats head ./") == ["file,./"]  # the shell completes files
    assert proposed("dataformats view x --export ") == ["file,"]
    assert proposed("dataformats cat x --where ") == []
    assert proposed("dataformats kat --fie") == []


def test_few_imports(environment: dict[str, str]) -> None:
    asked = {"_DATAFORMATS_COMPLETE": "bash_complete", "COMP_WORDS": "dataformats cat --payload ", "COMP_CWORD": "3"}
    command = [sys.executable, "-X", "importtime", "-m", "dataformats"]
    done = subprocess.run(command, env=environment | asked, capture_output=True, text=True, timeout=240, check=True)
    assert "sequence_example" in done.stdout
    assert not re.search(r"\b(numpy|pyarrow|duckdb|PIL)$", done.stderr, re.MULTILINE)


def installed(name: str) -> str:
    """Return the path of a shell, or skip the test."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"the system has no {name}")
    return path


def script_for(shell: str, program: dict[str, str]) -> str:
    return run_in(shell, program, "--show-completion").stdout


def run_in(shell: str, program: dict[str, str], option: str) -> subprocess.CompletedProcess[str]:
    environment = program | {"SHELL": f"/bin/{shell}"}
    command = ["dataformats", option]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)


@pytest.mark.parametrize(
    ("shell", "name"),
    [("bash", ".bashrc"), ("zsh", ".zshrc"), ("fish", ".config/fish/completions/dataformats.fish")],
)
def test_script_is_installed_once(shell: str, name: str, program: dict[str, str], tmp_path: Path) -> None:
    home = program | {"HOME": str(tmp_path)}
    for _ in range(2):
        assert run_in(shell, home, "--install-completion").stdout == f"completion: {tmp_path / name}, for new shells\n"
    assert (tmp_path / name).read_text().count(script_for(shell, home)) == 1


def test_unknown_shell_is_a_usage_error(program: dict[str, str]) -> None:
    done = run_in("csh", program, "--install-completion")
    expected = "dataformats: expected bash, zsh or fish in the environment variable SHELL, found 'csh'."
    assert (done.returncode, done.stderr.startswith(expected)) == (2, True)


@pytest.mark.parametrize("name", ["bash", "zsh"])
def test_tab(name: str, program: dict[str, str], tmp_path: Path) -> None:
    shell, script = installed(name), script_for(name, program)
    if name == "zsh":
        script = f"autoload -Uz compinit\ncompinit -u -D\nunsetopt zle_bracketed_paste\n{script}"
    rc = tmp_path / ".zshrc"
    rc.write_text(f"PS1='ready> '\n{script}")
    (tmp_path / "photos.tfrecord").write_bytes(b"")
    parent, child = pty.openpty()
    options = ["--noprofile", "--rcfile", str(rc)] if name == "bash" else []
    with subprocess.Popen(
        [shell, *options, "-i"],
        stdin=child,
        stdout=child,
        stderr=child,
        cwd=tmp_path,
        env=program | {"TERM": "dumb", "ZDOTDIR": str(tmp_path)},
        start_new_session=True,
    ) as running:
        try:
            typed(parent, "", "ready> ")
            typed(parent, "dataformats sam\t", "dataformats sample ")
            typed(parent, "phot\t", "photos.tfrecord ")
            typed(parent, "--whe\t", "--where ")
            typed(parent, "x --form\t", "--format ")
            typed(parent, "tf\t", "tfrecord ")
        finally:
            running.kill()
            os.close(parent)
            os.close(child)


def test_fish(program: dict[str, str], tmp_path: Path) -> None:
    shell = installed("fish")
    (tmp_path / "photos.tfrecord").touch()
    (tmp_path / "script").write_text(script_for("fish", program))
    expected = {
        "sam": "sample",
        "sample x --whe": "--where",
        "head x --format tf": "tfrecord",
        "head ph": "photos.tfrecord",
    }
    asked = [f"complete -C {shlex.quote(f'dataformats {words}')}" for words in expected]
    command = [shell, "--no-config", "-c", "; ".join(["source script", *asked])]
    done = subprocess.run(command, cwd=tmp_path, env=program, capture_output=True, text=True, timeout=240, check=True)
    assert [line.split("\t")[0] for line in done.stdout.splitlines() if line] == [*expected.values()]


def typed(terminal: int, keys: str, expected: str) -> None:
    """Press keys, and wait until the terminal shows a text."""
    os.write(terminal, keys.encode())
    shown, end = "", time.monotonic() + 240
    while expected not in shown:
        assert select.select([terminal], [], [], max(0, end - time.monotonic()))[0], f"no {expected!r} in {shown!r}"
        shown += os.read(terminal, 4096).decode()
