"""dataformats schema: types that can be passed back; and messages of unknown types, by number."""

from __future__ import annotations

import shlex
from pathlib import Path

import dataformats
from dataformats.display.protobuf_text import protobuf_text
from dataformats.display.value_text import as_text
from dataformats.testing.loop_over import loop_over
from tests.cases import GOLDEN
from tests.cli.conftest import Run

PHOTOS = str(GOLDEN / "real" / "photos.tfrecord")


def test_a_schema_is_passed_back(run: Run) -> None:
    facts = run("schema", PHOTOS).facts
    assert (facts["spec"], facts["field width"]) == ("inferred from the records", "int64")
    declared = run("schema", PHOTOS, *shlex.split(facts["options"])).facts
    assert declared == facts | {"spec": "declared"}
    as_json = run("schema", PHOTOS, "--json").json
    arguments = as_json["arguments"]
    assert dataformats.open(PHOTOS, **arguments)[0].keys() == arguments["spec"].keys() == as_json["spec"].keys()


def test_unprintable_names_round_trip_as_options(run: Run, tmp_path: Path) -> None:
    spec = {"evil\x1b[31m\n": "int64", "a=b": "utf8", "it's": "float32[2]"}
    with dataformats.create(tmp_path / "a.ffr", spec=spec) as writer:
        writer.append({"evil\x1b[31m\n": 1, "a=b": "x", "it's": [0.5, 1]})
    facts = run("schema", tmp_path / "a.ffr").facts
    given = shlex.split(facts["options"])
    assert run("schema", tmp_path / "a.ffr", *given, "--json").json["spec"] == spec


def test_opaque_fields_are_bytes(run: Run) -> None:
    path = GOLDEN / "granular" / "v3" / "custom_type"
    facts = run("schema", path).facts
    assert (facts["field a"], facts["options"]) == (
        "my_type (opaque: no codec 'my_type')",
        "--spec a=bytes --spec b=bytes",
    )
    assert run("schema", path, *shlex.split(facts["options"])).code == 0


def test_single_values(run: Run) -> None:
    facts = run("schema", GOLDEN / "ffrecord" / "base.ffr").facts
    assert (facts["spec"], facts["options"]) == ("none: a record is one value", "--payload bytes")


MESSAGE = b"\x0a\x03one\x10\x96\x01\x1d\x00\x00\xc0\x3f\x21" + b"\0" * 7 + b"\x40\x32\x04\x08\x01\x10\x02"


def test_a_message_is_shown_by_number() -> None:
    expected = "{1: 'one', 2: varint 150, 3: fixed32 1.5 or 1069547520, 4: fixed64 2 or 4611686018427387904, "
    assert protobuf_text(MESSAGE) == expected + "6: {1: varint 1, 2: varint 2}}"
    assert as_text(MESSAGE).startswith(f"{len(MESSAGE)} bytes, perhaps protobuf {{1: 'one', ")


@loop_over(
    "blob",
    [
        b"",
        b"\x08\x01",
        b"\n\x05plain text of one line",
        b"some text\nin two lines",
        MESSAGE[:-1],
        MESSAGE + b"\x00",
        b"\x0b\x08\x01\x0c",  # a group
        b"\x08" + b"\xff" * 11,
        bytes(range(256)),
        b"\x08\x01" * 20_000,
        b"\xff" * 10**6,
    ],
)
def test_other_bytes_are_no_messages(blob: bytes) -> None:
    assert protobuf_text(blob) is None


def test_hostile_messages_are_short(run: Run, tmp_path: Path) -> None:
    evil = b"\x1b[31m\r\n" * 10**6
    nested = b"\x08\x01\x10\xff\x01"
    for _ in range(50):
        nested = b"\x0a" + bytes([len(nested)]) + nested if len(nested) < 127 else nested
    tag = b"\x08\x01\x12\x80\x80\x80\x02"
    with dataformats.create(tmp_path / "a.ffr") as writer:
        writer.extend([nested, tag + evil[: 2**22], b"\x08\xff\x01" * 9000])
    lines = run("head", tmp_path / "a.ffr").out.splitlines()
    assert all(len(line) < 1100 for line in lines)
    assert "... (9000 in all)" in lines[2]
