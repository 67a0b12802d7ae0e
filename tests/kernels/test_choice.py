"""The choice of kernels: the value of `DATAFORMATS_KERNELS`, the kernels that are available, and the warnings."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from dataformats import kernels

HIDE_NATIVE = "import sys; sys.modules['dataformats.kernels._native'] = None\n"


def run(code: str, choice: str | None, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {key: text for key, text in os.environ.items() if key != "DATAFORMATS_KERNELS"} | variables
    if choice is not None:
        environment["DATAFORMATS_KERNELS"] = choice
    command = [sys.executable, "-W", "always", "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)


def test_unknown_choice() -> None:
    found = run("import dataformats.kernels", "fast")
    assert found.returncode == 1
    message = "UnknownNameError: unknown value of DATAFORMATS_KERNELS 'fast' (known: auto, native, reference)"
    assert message in found.stderr


def test_an_empty_choice_is_none() -> None:
    assert run("import dataformats.kernels as k; print(k.describe()['requested'])", "").stdout == "auto\n"


def test_native_insists() -> None:
    found = run(HIDE_NATIVE + "import dataformats.kernels", "native")
    assert found.returncode == 1
    assert "ImportError: DATAFORMATS_KERNELS=native, but the compiled kernels are missing" in found.stderr


def test_auto_warns_once_and_at_first_use() -> None:
    code = HIDE_NATIVE + (
        "import dataformats.kernels as k\n"
        "print('imported', file=sys.stderr)\n"
        "assert [k.crc32c(b'123456789') for _ in range(3)] == [0xE3069283] * 3\n"
        "assert k.crc32(b'123456789') == 0xCBF43926\n"
        "print(k.implementation(), k.describe()['why_not_native'])\n"
    )
    for choice in (None, "auto"):
        found = run(code, choice)
        assert found.returncode == 0, found.stderr
        before, after = found.stderr.split("imported\n")
        assert before == ""
        assert after.count("RuntimeWarning: dataformats runs on its slower reference kernels") == 1
        assert "install a C compiler" in after or "pip install -e ." in after  # the second if it hides an installation
        assert found.stdout.startswith("reference the compiled kernels could not be imported: ")


def test_reference_is_quiet() -> None:
    found = run("import dataformats.kernels as k; k.crc32c(b'abc'); print(k.implementation())", "reference")
    assert (found.stdout, found.stderr) == ("reference\n", "")


def test_describe_agrees() -> None:
    described = kernels.describe()
    assert described["implementation"] == kernels.implementation()
    requested = os.environ.get("DATAFORMATS_KERNELS", "auto")
    assert described["requested"] == requested
    if requested != "auto":
        assert kernels.implementation() == requested
    for name, variants in described["available"].items():
        assert described["variants"][name] == variants[0]
        assert variants[-1] == "portable"
    assert (described["why_not_native"] is None) == (kernels.implementation() == "native")


@pytest.mark.parametrize("choice", ["auto", "native"])
def test_checkout_hiding_compiled_kernels_names_both_paths(tmp_path: Path, choice: str) -> None:
    package, installed = tmp_path / "checkout" / "dataformats", tmp_path / "site" / "dataformats"
    left_out = shutil.ignore_patterns("_native.*.so", "_native.*.pyd", "__pycache__")
    shutil.copytree(Path(kernels.__file__).parents[1], package, ignore=left_out)
    (package.parent / "setup.py").touch()
    compiled = installed / "kernels" / f"_native{EXTENSION_SUFFIXES[0]}"
    compiled.parent.mkdir(parents=True)
    compiled.touch()
    path = os.pathsep.join([str(package.parent), str(installed.parent)])
    found = run("import dataformats.kernels as k; k.crc32(b'abc')", choice, PYTHONPATH=path, PYTHONSAFEPATH="1")
    assert found.returncode == (choice == "native")
    assert f"{str(package)!r} comes first on sys.path and hides the compiled {str(installed)!r}" in found.stderr
    assert f"run `pip install -e .` in {str(package.parent)!r}" in found.stderr
