"""The three ways to add a codec: an argument, `register_codec`, and an installed package's entry point."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import dataformats
from dataformats.columns.codec_resolver import CodecResolver
from dataformats.errors import CodecError, SpecError, UnknownNameError
from dataformats.registry import Registry
from dataformats.registry import codecs as registered
from dataformats.spec import Type

PAIR = (lambda text: text.upper().encode(), lambda blob: blob.decode().lower())

MODULE = """
from pathlib import Path

from dataformats.interfaces import Codec

Path(__file__).with_name("imported").touch()


class Shout(Codec):
    name = "shout"

    def encode(self, value):
        return value.upper().encode()

    def decode(self, blob):
        return blob.decode().lower()


SHOUT = Shout()
PAIR = (SHOUT.encode, SHOUT.decode)
"""
ENTRY_POINTS = """
[dataformats.codecs]
shout = shouting:SHOUT
pair = shouting:PAIR
wrong = shouting:MODULE
neither = shouting:__name__
nowhere = no_such_module:CODEC
jpg = shouting:SHOUT
twice = shouting:SHOUT
"""
SECOND = """
[dataformats.codecs]
twice = shouting:PAIR
"""


@pytest.fixture
def clean_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registered, "_objects", dict(registered._objects))
    monkeypatch.setattr("dataformats.columns.codec_resolver._registered_safe", {})


def install(folder: Path, name: str, entry_points: str) -> None:
    """Write a package as an installer does: its module, and the metadata beside it."""
    about = folder / f"{name}-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(entry_points)
    (folder / "shouting.py").write_text(MODULE)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    install(folder, "shouting", ENTRY_POINTS)
    return folder


def run(site: Path, program: str, *, imported: bool) -> Any:
    """Run a program that has the installed package; it prints one JSON document."""
    package = Path(dataformats.__file__).parents[1]
    path = os.pathsep.join([str(site), str(package), os.environ.get("PYTHONPATH", "")])
    begin = (
        "import json\nimport dataformats\nfrom dataformats.columns.codec_resolver import CodecResolver\n"
        "from dataformats.spec import Type\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", begin + program],
        cwd=site.parent,
        env=os.environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (site / "imported").exists() == imported
    return json.loads(done.stdout)


# ---- by entry point

WRITE = """
with dataformats.create("x.ffr", "ffrecord", spec={"text": "shout", "n": "int64"}) as writer:
    writer.append({"text": "Abc", "n": 1})
src = dataformats.open("x.ffr", spec={"text": "shout", "n": "int64"})
print(json.dumps([src[0], src.read_bytes([0])[0].hex()]))
"""

READ = """
src = dataformats.open("x.ffr")
print(json.dumps([str(src.spec["text"]), src.select("n")[0], str(src[0]["text"])]))
"""


def test_an_installed_package_brings_a_codec(site: Path) -> None:
    record, stored = run(site, WRITE, imported=True)
    assert record == {"text": "abc", "n": 1}
    assert b"ABC" in bytes.fromhex(stored)


def test_file_naming_a_plugin_codec_does_not_import_it(site: Path) -> None:
    run(site, WRITE, imported=True)
    (site / "imported").unlink()
    assert run(site, READ, imported=False) == ["shout", {"n": 1}, "b'ABC'"]
    by_argument = READ.replace('"x.ffr"', '"x.ffr", codecs={"shout": (str.encode, bytes.decode)}')
    assert run(site, by_argument, imported=False)[2] == "ABC"


def test_packages_are_neither_imported_nor_searched_before_they_are_needed(site: Path) -> None:
    program = "CodecResolver(trusted=True).codec(Type('utf8'))\nfrom dataformats.registry import codecs\n"
    assert run(site, program + "print(json.dumps(codecs._advertised))", imported=False) is None
    names = run(site, program + "print(json.dumps(list(codecs)))", imported=False)
    assert {"shout", "pair", "utf8", "jpg"} <= set(names)


def test_an_entry_point_may_be_a_pair(site: Path) -> None:
    program = (
        "codec = CodecResolver(trusted=True).codec(Type('pair'))\nprint(json.dumps([codec.name, codec.decode(b'A')]))"
    )
    assert run(site, program, imported=True) == ["pair", "a"]


@pytest.mark.parametrize(
    ("name", "imported", "words"),
    [
        (
            "neither",
            True,
            ["SpecError", "codec 'neither' must be a Codec or a pair (encode, decode), found 'shouting'"],
        ),
        ("wrong", True, ["AttributeError", "while loading codec 'wrong' from the entry point 'shouting:MODULE'"]),
        ("nowhere", False, ["ModuleNotFoundError", "while loading codec 'nowhere' from the entry point"]),
        ("shuot", False, ["UnknownNameError", "unknown codec 'shuot' (nearest: shout", "Pass codecs="]),
    ],
)
def test_errors_of_broken_plugins_state_the_cause(site: Path, name: str, imported: bool, words: list[str]) -> None:
    program = f"""
import traceback
try:
    CodecResolver(trusted=True).codec(Type("{name}"))
except Exception:
    print(json.dumps(traceback.format_exc()))
"""
    text = run(site, program, imported=imported)
    assert [word for word in words if word not in text] == []


def test_taken_name_is_ignored_with_a_warning(site: Path) -> None:
    install(site.parent / "second", "second", SECOND)
    program = f"""
import logging, sys
sys.path.append({str(site.parent / "second")!r})
lines = []
class Keep(logging.Handler):
    def emit(self, record):
        lines.append(record.getMessage())
logging.getLogger("dataformats").addHandler(Keep())
codecs = CodecResolver(trusted=True)
print(json.dumps([codecs.codec(Type("jpg")).safe, codecs.codec(Type("twice")).name, sorted(lines)]))
"""
    safe, name, lines = run(site, program, imported=True)
    assert (safe, name) == (True, "shout")
    assert lines == [
        "ignored entry point jpg = shouting:SHOUT: the name is taken",
        "ignored entry point twice = shouting:PAIR: the name is taken",
    ]


def test_a_call_may_take_the_name_of_an_entry_point(site: Path) -> None:
    program = """
try:
    dataformats.register_codec("shout", str.encode, bytes.decode)
except ValueError as error:
    found = [str(error)]
dataformats.register_codec("shout", str.encode, bytes.decode, safe=True, replace=True)
found.append(CodecResolver(trusted=False).codec(Type("shout")).decode(b"A"))
print(json.dumps(found))
"""
    message, value = run(site, program, imported=True)
    assert message == "codec 'shout' is registered already. Pass replace=True to replace it."
    assert value == "A"


# ---- by argument and by register_codec


def write(path: Path, **more: Any) -> None:
    with dataformats.create(path, "ffrecord", spec={"text": "mine", "n": "int64"}, **more) as writer:
        writer.append({"text": "Abc", "n": 1})


def test_by_argument(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="unknown codec 'mine'"):
        write(tmp_path / "none.ffr")
    write(tmp_path / "x.ffr", codecs={"mine": PAIR})
    assert dataformats.open(tmp_path / "x.ffr", codecs={"mine": PAIR})[0] == {"text": "abc", "n": 1}
    assert dataformats.open(tmp_path / "x.ffr").select("n")[0] == {"n": 1}
    assert type(dataformats.open(tmp_path / "x.ffr")[0]["text"]) is bytes
    for wrong in (len, (len,), (1, 2), "utf8"):
        with pytest.raises(SpecError, match="codec 'mine' must be a Codec or a pair"):
            dataformats.open(tmp_path / "x.ffr", codecs={"mine": wrong})


@pytest.mark.usefixtures("clean_registry")
def test_by_register_codec(tmp_path: Path) -> None:
    dataformats.register_codec("mine", *PAIR)
    write(tmp_path / "x.ffr")
    assert [*dataformats.open(tmp_path / "x.ffr").spec_facts.opaque_fields] == ["text"]
    spec = {"text": "mine", "n": "int64"}
    assert dataformats.open(tmp_path / "x.ffr", spec=spec)[0] == {"text": "abc", "n": 1}
    assert (
        dataformats.open(tmp_path / "x.ffr", spec=spec, codecs={"mine": (str.encode, bytes.hex)})[0]["text"] == "414243"
    )
    dataformats.register_codec("mine", *PAIR, safe=True, replace=True)
    assert dataformats.open(tmp_path / "x.ffr")[0] == {"text": "abc", "n": 1}


@pytest.mark.usefixtures("clean_registry")
def test_one_name_for_two_is_an_error() -> None:
    dataformats.register_codec("mine", *PAIR)
    dataformats.register_codec("mine", *PAIR)
    for taken in ("mine", "utf8", "tree"):
        with pytest.raises(ValueError, match=f"codec '{taken}' is registered already. Pass replace=True"):
            dataformats.register_codec(taken, str.encode, bytes.decode)
    with pytest.raises(ValueError, match="'float32' is a number type"):
        dataformats.register_codec("float32", str.encode, bytes.decode)


@pytest.mark.usefixtures("clean_registry")
def test_a_batch_function_makes_the_column() -> None:
    dataformats.register_codec("mine", *PAIR, decode_batch=lambda blobs: blobs.rows(2), safe=True)
    codecs = CodecResolver(trusted=False)
    from dataformats.batch import Blobs

    assert codecs.decode(Type("mine"), Blobs.join([b"ab", b"cd"])).tolist() == [[97, 98], [99, 100]]  # type: ignore[union-attr]  # an ndarray
    with pytest.raises(CodecError, match="codec 'mine'"):
        codecs.decode(Type("mine"), Blobs.join([b"ab", b"c"]))


# ---- shipped codecs


def test_only_pickle_may_not_be_named_by_files() -> None:
    shipped = [name for name in registered if registered.shipped(name)]
    assert [name for name in shipped if not registered.get(name).safe] == ["pickle"]
    assert [name for name in shipped if registered.get(name).name != name] == []
    for name in shipped:
        if name != "pickle":
            assert CodecResolver(trusted=False).codec(Type(name)) is registered.get(name)


def test_every_codec_of_the_wing_is_registered() -> None:
    import dataformats.codecs
    from dataformats.interfaces import Codec

    found = set()
    for path in Path(next(iter(dataformats.codecs.__path__))).glob("*.py"):
        module = __import__(f"dataformats.codecs.{path.stem}", fromlist=["x"])
        found |= {id(value) for value in vars(module).values() if isinstance(value, Codec)}
    assert found <= {id(registered.get(name)) for name in registered if registered.shipped(name)}


def test_registering_a_shipped_codec_before_its_first_use_keeps_it() -> None:
    registry: Registry[Any] = Registry("codec", "example.codecs", {"bytes": "dataformats.codecs.text:BYTES"})
    registry.register("bytes", registered.get("bytes"))
    assert registry.get("bytes") is registered.get("bytes")
    with pytest.raises(ValueError, match="registered already"):
        registry.register("bytes", object())
