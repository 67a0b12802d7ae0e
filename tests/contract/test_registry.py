"""Names of backends and codecs: registered, built in, or from another package."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import dataformats
from dataformats.backends.ffrecord import BACKEND
from dataformats.errors import UnknownNameError
from dataformats.registry import Registry, backends, codecs
from dataformats.testing.subprocess_entry import in_fork

PACKAGE = {
    "brought.py": """
from dataformats.interfaces import Codec

class Upper(Codec):
    name = "upper"
    def encode(self, value):
        return value.lower().encode()
    def decode(self, blob):
        return blob.decode().upper()

class Unsafe(Upper):
    name = "unsafe"
    safe = False

UPPER, UNSAFE = Upper(), Unsafe()
""",
    "broughtrec.py": """
from dataformats.backends.tfrecord import TFRecordBackend

class Backend(TFRecordBackend):
    name = "broughtrec"
    suffixes = (".brought",)

BACKEND = Backend()
""",
    "brought-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: brought\nVersion: 1.0\n",
    "brought-1.0.dist-info/entry_points.txt": """
[dataformats.codecs]
upper = brought:UPPER
unsafe = brought:UNSAFE
jpg = brought:UPPER
[dataformats.backends]
broken = brought:NOTHING
nowhere = missing_module:BACKEND
broughtrec = broughtrec:BACKEND
""",
}
PROGRAM = """
import sys, tempfile, pathlib
import dataformats
from dataformats.registry import backends, codecs
path = pathlib.Path(tempfile.mkdtemp()) / "x.tfrecord"
assert "upper" in codecs and "upper" in list(codecs) and not codecs.shipped("upper")
assert codecs.shipped("jpg") and type(codecs.get("jpg")).__module__ == "dataformats.codecs.images"
assert "brought" not in sys.modules
with dataformats.create(path, "tfrecord", spec={"t": "upper"}) as writer:
    writer.append({"t": "ABC"})
source = dataformats.open(path)
assert source[0] == {"t": b"abc"}, source[0]  # a file may not choose code that is run
assert [*source.spec_facts.opaque_fields] == ["t"]
try:
    source.with_spec({"t": "unsafe"})
    raise SystemExit("an unsafe name was not refused")
except dataformats.UnknownNameError as error:
    assert "unsafe" in str(error) and "codecs=" in str(error), error
assert dataformats.open(path, spec={"t": "upper"})[0] == {"t": "ABC"}
for kind, expected in (("upper", {"t": "ABC"}), ("unsafe", {"t": b"abc"})):  # a codec of the package of the format
    path = path.with_name(f"{kind}.brought")
    with dataformats.create(path, "broughtrec", spec={"t": kind}) as writer:
        writer.append({"t": "ABC"})
    found = dataformats.open(path, format="broughtrec")[0]
    assert found == expected, (kind, found)

for call in (  # entry points that cannot be imported are no formats
    lambda: dataformats.open("missing"),
    lambda: dataformats.open("missing", format=".other"),
    lambda: dataformats.convert(path, path.with_name("x.other")),
):
    try:
        call()
        raise SystemExit("no error")
    except (FileNotFoundError, dataformats.UnknownNameError):
        pass
dataformats.convert(path, path.with_name("new.tfrecord"))
try:
    dataformats.open(path, format="nowhere")
    raise SystemExit("no error")
except ImportError as error:
    assert "the format 'nowhere' of the package 'brought' cannot be imported: ModuleNotFoundError" in str(error), error
"""


def test_one_name_two_objects() -> None:
    colors: Registry[int] = Registry("color", "example.none", {})
    colors.register("red", 1)
    colors.register("red", 1)
    with pytest.raises(ValueError, match="replace=True"):
        colors.register("red", 2)
    colors.register("red", 2, replace=True)
    assert (colors.get("red"), "red" in colors, "blue" in colors, list(colors)) == (2, True, False, ["red"])
    with pytest.raises(UnknownNameError, match="nearest: red"):
        colors.get("reed")


def test_shipped_names() -> None:
    assert backends.get("ffrecord") is BACKEND
    dataformats.register_backend(BACKEND)
    with pytest.raises(ValueError, match="ffrecord"):
        backends.register("ffrecord", backends.get("tfrecord"))
    for registry in (backends, codecs):
        for name in registry:
            assert getattr(registry.get(name), "name", name) == name
    assert backends.shipped("ffrecord")
    assert codecs.shipped("jpg")
    assert not codecs.shipped("no-such-codec")


def test_registered_codecs() -> None:
    def encode(value: int) -> bytes:
        return bytes([value])

    def decode(blob: bytes) -> int:
        return blob[0]

    for name in ("jpg", "int64"):
        with pytest.raises(ValueError, match=name):
            dataformats.register_codec(name, encode, decode)
    dataformats.register_codec("test-octet", encode, decode)
    dataformats.register_codec("test-octet", encode, decode)
    with pytest.raises(ValueError, match="test-octet"):
        dataformats.register_codec("test-octet", encode, int)
    dataformats.register_codec("test-octet", encode, decode, replace=True, safe=True)
    codecs._objects.pop("test-octet")


def test_unknown_names() -> None:
    with pytest.raises(UnknownNameError, match="nearest: tfrecord"):
        dataformats.create("x", "tfrecordz")
    with pytest.raises(UnknownNameError, match="nearest: tfrecord"):
        dataformats.open(__file__, format="tfrecordz")


def test_entry_points(tmp_path: Path) -> None:
    for name, text in PACKAGE.items():
        path = tmp_path / "site" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.lstrip())
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r})\n{PROGRAM}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_while_another_thread_loads_something() -> None:
    constants: Registry[float] = Registry("constant", "example.constants", {"tau": "math:tau"})
    held, forked = threading.Event(), threading.Event()

    def hold() -> None:
        with constants._lock:
            held.set()
            forked.wait(240)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(240)
    try:
        assert in_fork(lambda: constants.get("tau")) == math.tau
    finally:
        forked.set()
        thread.join()
