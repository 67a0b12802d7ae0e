"""The lines of docs/jobs.md run, one after another."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from dataformats.cli import main
from tests.deep.docs.test_docs import CHECKOUT, DOCS

PAGE = DOCS / "jobs.md"
STEP = re.compile(r"^(?:# (.*)\n)?(dataformats .*)$", re.MULTILINE)
COMMAND = re.compile(r"((?:'[^']*'|[^'|>])*)(.*)")  # and what its output goes to

pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="reads a page of a checkout, and these tests are outside")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    golden = CHECKOUT / "tests" / "golden"
    for path in golden.iterdir():
        (tmp_path / path.name).symlink_to(path)
    (tmp_path / "real").unlink()
    shutil.copytree(golden / "real", tmp_path / "real")
    monkeypatch.chdir(tmp_path / "real")
    monkeypatch.setenv("DATAFORMATS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "real"


def test_jobs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = STEP.findall(PAGE.read_text("utf-8"))
    assert len(steps) >= 40
    for title, line in steps:
        command, rest = COMMAND.fullmatch(line).groups()  # type: ignore[union-attr]  # it matches any line
        arguments = shlex.split(command)[1:]
        if arguments[0] == "view":
            check_view(arguments)
            continue
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        printed = capsys.readouterr()
        expected = 1 if "exit code 1" in title.lower() or arguments[:2] == ["info", "../tfds"] else 0
        assert (ended.value.code, bool(printed.out)) == (expected, True), f"{line}\n{printed.err}"
        if rest:
            script = ["sh", "-c", f"cat {rest}"]
            done = subprocess.run(script, input=printed.out, capture_output=True, text=True, check=True)
            assert done.stdout or rest.startswith(">")
    assert (folder / "report.json").read_text().startswith('{"path": "digits.tfrecord"')


def check_view(arguments: list[str]) -> None:
    """Load the page at the address that is printed, and end the server."""
    arguments = [*arguments[: arguments.index("--port")], "--port", "0"]  # another test may have the port of the page
    command = [sys.executable, "-m", "dataformats", *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"}
    ) as view:
        assert view.stdout is not None
        with urllib.request.urlopen(view.stdout.readline().removeprefix("view: ").strip(), timeout=240) as page:
            assert page.status == 200
        view.send_signal(signal.SIGINT)
        assert view.wait(timeout=240) == 0
