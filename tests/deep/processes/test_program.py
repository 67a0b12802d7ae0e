"""The installed program: each example of the help, terminals, pipes."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

import dataformats
import tests.cli.conftest as commands
import tests.cli.test_program as fast
from dataformats.cli.app import COMMANDS
from tests.cli.conftest import Run
from tests.cli.test_program import PROGRAM, REAL, run
from tests.waiting import wait_until

environment, run_here = fast.environment, commands.run  # fixtures


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "view"])  # `view` serves until it is ended
def test_examples_of_the_help_run(name: str, run_here: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = run_here(name, "--help")
    assert shown.code == 0
    examples = re.findall(r"^ +(dataformats .*)$", shown.out.partition("Example")[2], re.MULTILINE)
    assert examples
    for path in (*REAL.glob("*.tfrecord"), REAL / "state.json"):
        shutil.copy(path, tmp_path)
    monkeypatch.chdir(tmp_path)
    for example in examples:
        done = run_here(*shlex.split(example)[1:])
        assert done.code == 0, f"{example}\n{done.err}"
        assert done.out
        assert done.err == ""


@pytest.mark.parametrize("arguments", [["verify"], ["info"], ["index"]])
def test_progress_on_a_terminal_only(arguments: list[str], environment: dict[str, str]) -> None:
    command = [*PROGRAM, *arguments, "photos.tfrecord", "--json"]
    parent, child = pty.openpty()
    with subprocess.Popen(
        command, cwd=REAL, env=environment, stdout=subprocess.PIPE, stderr=child, text=True
    ) as program:
        os.close(child)
        assert program.stdout is not None
        assert json.loads(program.stdout.read())["records"] == 12
        assert b"%|" in everything(parent)
    os.close(parent)
    assert run(command[len(PROGRAM) :], environment).stderr == ""


def everything(descriptor: int) -> bytes:
    found = b""
    try:
        while part := os.read(descriptor, 4096):
            found += part
    except OSError:  # Linux raises it at the end of a terminal
        pass
    return found


# Each worker writes one shard, and waits in its second one: a worker that is still being started would answer Ctrl-C.
WAITS = """
import itertools, os, pathlib, time

records = itertools.count()

def waits(record):
    if next(records) == 30:
        pathlib.Path(f"waiting-{os.getpid()}").touch()
        while pathlib.Path("hold").exists():
            time.sleep(0.01)
    return record
"""


def test_ctrl_c_ends_a_conversion_in_processes_with_one_line(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "waits.py").write_text(WAITS)
    (tmp_path / "hold").touch()
    options = ["--format", "ffrecord", "--shard-records", "20", "--limit", "160", "--map", "waits:waits"]
    command = ["convert", str(REAL / "digits-*.tfrecord"), "digits", *options, "--workers", "2"]
    with subprocess.Popen(
        [*PROGRAM, *command], cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as program:
        signs = ("waiting-*", "digits.partial/0000?.json")
        wait_until(lambda: all(len([*tmp_path.glob(sign)]) >= 2 for sign in signs))
        os.killpg(program.pid, signal.SIGINT)  # a terminal sends it to all processes, too
        assert program.stderr is not None
        said = program.stderr.read()
        assert program.wait(timeout=240) == 130
    assert said == "dataformats: interrupted; to continue, add --resume to the same command\n"
    assert not (tmp_path / "digits").exists()
    (tmp_path / "hold").unlink()
    done = run([*command, "--resume", "--json"], environment, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["resumed"] == 40
    assert dataformats.verify(tmp_path / "digits", against=command[1], limit=160).ok
