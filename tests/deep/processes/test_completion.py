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


def proposed(words: str, environment: dict[str, str]) -> list[str]:
    asked = {"_DATAFORMATS_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    command = [sys.executable, "-X", "importtime", "-m", "dataformats"]
    done = subprocess.run(command, env=environment | asked, capture_output=True, text=True, timeout=240, check=True)
    assert not re.search(r"\b(numpy|pyarrow|duckdb|PIL)$", done.stderr, re.MULTILINE)
    return done.stdout.split()


def test_words(environment: dict[str, str]) -> None:
    assert {"cat", "convert"} <= {*proposed("dataformats c", environment)}
    assert proposed("dataformats convert --part", environment) == ["--part"]
    assert proposed("dataformats convert --format ", environment) == [*backends]
    assert proposed("dataformats cat x --payload seq", environment) == ["sequence_example"]
    assert proposed("dataformats convert --on-corrupt o", environment) == ["omit"]
    assert proposed("dataformats convert --compression ", environment) == ["gzip", "zlib", "none"]
    assert proposed("dataformats head ./", environment) == []  # the shell completes files


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_scripts_of_other_shells(shell: str, environment: dict[str, str]) -> None:
    asked = environment | {"_DATAFORMATS_COMPLETE": f"source_{shell}"}
    done = subprocess.run([*fast.PROGRAM], env=asked, capture_output=True, text=True, timeout=240, check=True)
    assert "dataformats" in done.stdout


def test_tab_in_bash(program: dict[str, str], tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("the system has no bash")
    script = subprocess.run(
        [bash, "-c", "dataformats --show-completion; :"],
        env=program,
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    ).stdout
    assert "complete -o default" in script
    (tmp_path / "rc").write_text(f"PS1='ready> '\n{script}")
    (tmp_path / "photos.tfrecord").write_bytes(b"")
    parent, child = pty.openpty()
    with subprocess.Popen(
        [bash, "--noprofile", "--rcfile", tmp_path / "rc", "-i"],
        stdin=child,
        stdout=child,
        stderr=child,
        cwd=tmp_path,
        env=program | {"TERM": "dumb"},
        start_new_session=True,
    ) as shell:
        try:
            typed(parent, "", "ready> ")
            typed(parent, "dataformats sam\t", "dataformats sample ")
            typed(parent, "phot\t", "photos.tfrecord ")
            typed(parent, "--whe\t", "--where ")
            typed(parent, "x --form\t", "--format ")
            typed(parent, "tf\t", "tfrecord ")
        finally:
            shell.kill()
            os.close(parent)
            os.close(child)


def typed(terminal: int, keys: str, expected: str) -> None:
    """Press keys, and wait until the terminal shows a text."""
    os.write(terminal, keys.encode())
    shown, end = "", time.monotonic() + 240
    while expected not in shown:
        assert select.select([terminal], [], [], max(0, end - time.monotonic()))[0], f"no {expected!r} in {shown!r}"
        shown += os.read(terminal, 4096).decode()
