"""The kernels compile without POSIX; the parts that need it are left out."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

KERNELS = Path(__file__).resolve().parents[2] / "dataformats" / "kernels"
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
WITHOUT_POSIX = ["-U__unix__", "-U__linux__"]


@pytest.mark.skipif(COMPILER is None or sys.platform != "linux", reason="needs a C compiler on Linux")
@pytest.mark.parametrize("folder", sorted({source.parent.name for source in KERNELS.glob("*/*.c")}))
def test_without_posix(folder: str) -> None:
    if folder == "python" and not Path(sysconfig.get_path("include"), "Python.h").exists():
        pytest.skip("without Python.h")
    sources = map(str, sorted((KERNELS / folder).glob("*.c")))
    include = ["-I", str(KERNELS), "-isystem", sysconfig.get_path("include")]
    command = [str(COMPILER), "-std=c11", "-fsyntax-only", "-Wall", "-Wextra", *WITHOUT_POSIX, *include, *sources]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
