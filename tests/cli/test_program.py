"""The installed program: examples of the help, pipes, terminals, debugging, start-up."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from dataformats.cli.app import COMMANDS
from dataformats.cli.doctor import EXTRAS

TESTS = Path(__file__).parents[1]
REAL = TESTS / "golden" / "real"
DAMAGED = TESTS / "golden" / "tfrecord" / "corrupt" / "data_bit.tfrecord"
PROGRAM = [sys.executable, "-m", "dataformats"]


@pytest.fixture
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    left_out = ("DATAFORMATS_DEBUG", "COLUMNS", "NO_COLOR", "FORCE_COLOR")
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    return kept | {
        "DATAFORMATS_CACHE": str(tmp_path_factory.mktemp("cache")),
        "TERM": "xterm",
    }


def run(arguments: list[str], environment: dict[str, str], folder: Path = REAL) -> subprocess.CompletedProcess[str]:
    command = [*PROGRAM, *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240, check=False
    )


def test_help_has_every_command_and_no_colors(environment: dict[str, str]) -> None:
    shown = run(["--help"], environment)
    assert shown.returncode == 0
    assert all(re.search(rf"^  {name} ", shown.stdout, re.MULTILINE) for name in COMMANDS)
    assert "\x1b" not in shown.stdout
    assert re.search(r"^  .*\.\.\.$", shown.stdout, re.MULTILINE) is None  # no description is cut


def test_help_imports_little(environment: dict[str, str]) -> None:
    program = (
        "import sys\nfrom dataformats.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    print(*sys.modules, sep='\\n', file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=240, check=True
    )
    heavy = {"numpy", "PIL", "google.protobuf", "tqdm", "fsspec", "bson"}
    assert heavy & {*done.stderr.splitlines()} == set()


def test_version(environment: dict[str, str]) -> None:
    done = run(["--version"], environment)
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*\n", done.stdout)


def test_an_error_is_one_line_and_a_traceback_if_asked_for(environment: dict[str, str]) -> None:
    quiet = run(["head", str(DAMAGED)], environment | {"DATAFORMATS_DEBUG": "0"})
    assert quiet.returncode == 1
    assert len(quiet.stderr.splitlines()) == 1
    for loud in (
        run(["--debug", "head", str(DAMAGED)], environment),
        run(["head", str(DAMAGED)], environment | {"DATAFORMATS_DEBUG": "1"}),
    ):
        assert loud.returncode == 1
        assert "Traceback" in loud.stderr
        assert loud.stderr.endswith(quiet.stderr)


def test_a_warning_is_one_line(environment: dict[str, str]) -> None:
    done = run(["info", "old_version.ffr"], environment, TESTS / "golden" / "ffrecord")
    assert done.returncode == 0
    assert done.stderr.startswith("dataformats: warning: 'old_version.ffr' is of an old version")
    assert len(done.stderr.splitlines()) == 1


def test_a_closed_pipe_is_no_error(environment: dict[str, str]) -> None:
    command = [*PROGRAM, "cat", "digits-*.tfrecord"]
    with subprocess.Popen(
        command, cwd=REAL, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        program.stdout.readline()
        program.stdout.close()
        assert program.stderr.read() == ""
        assert program.wait(timeout=240) == 141


def shell(command: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a shell command; `$P` stands for the program."""
    return subprocess.run(
        ["sh", "-c", command],
        cwd=REAL,
        env=environment | {"P": shlex.join(PROGRAM)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("$P info photos.tfrecord >&-", 0),
        ("$P info photos.tfrecord >/dev/full", 2),
        (f"$P head {DAMAGED} >&- 2>&-", 1),
        (f"$P head {DAMAGED} 2>/dev/full", 1),
        ("$P head 2>/dev/full", 2),
    ],
)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no device that is full")
def test_closed_or_full_streams_print_no_traceback(environment: dict[str, str], command: str, code: int) -> None:
    done = shell(command, environment)
    assert done.returncode == code
    assert "Traceback" not in done.stdout + done.stderr


def test_an_error_never_goes_to_the_output(environment: dict[str, str]) -> None:
    assert shell("$P info no-such-file 2>&-", environment).stdout == ""


@pytest.mark.parametrize("choice", ["fast", "NATIVE"])
def test_an_unknown_choice_of_kernels_is_a_usage_error(environment: dict[str, str], choice: str) -> None:
    done = run(["info", "photos.tfrecord"], environment | {"DATAFORMATS_KERNELS": choice})
    assert done.returncode == 2
    assert f"unknown value of DATAFORMATS_KERNELS '{choice}'" in done.stderr
    described = run(["doctor"], environment | {"DATAFORMATS_KERNELS": choice})
    assert described.returncode == 0
    assert f"kernels: unknown: unknown value of DATAFORMATS_KERNELS '{choice}'" in described.stdout


def test_narrow_encoding_escapes_letters(environment: dict[str, str], tmp_path: Path) -> None:
    shutil.copy(REAL / "photos.tfrecord", tmp_path / "fotos-für-später.tfrecord")
    narrow = environment | {"PYTHONIOENCODING": "ascii"}
    done = run(["info", "fotos-für-später.tfrecord"], narrow, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "path: fotos-f\\xfcr-sp\\xe4ter.tfrecord" in done.stdout


def test_names_move_no_cursor(environment: dict[str, str], tmp_path: Path) -> None:
    shutil.copy(REAL / "photos.tfrecord", tmp_path / "a\x1b[2Jb\nc.tfrecord")
    done = run(["info", "a\x1b[2Jb\nc.tfrecord"], environment, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("path: a\\x1b[2Jb\\nc.tfrecord\n")
    assert "\x1b" not in done.stdout


def test_extras_match_pyproject() -> None:
    pyproject = TESTS.parent / "pyproject.toml"
    declared = tomllib.loads(pyproject.read_text("utf-8"))["project"]["optional-dependencies"]
    named = {extra: re.split(r"[<>=\[]", needs[0])[0] for extra, needs in declared.items()}
    assert {extra: name for extra, name in named.items() if extra not in ("dev", "bench", "docs")} == EXTRAS
