"""Each command on files of the original programs, sound and damaged: output and exit codes."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.testing.loop_over import loop_over
from tests.cli.conftest import Run

GOLDEN = Path(__file__).parents[1] / "golden"
REAL = GOLDEN / "real"
DIGITS, PHOTOS = str(REAL / "digits-*.tfrecord"), str(REAL / "photos.tfrecord")
DAMAGED = str(GOLDEN / "tfrecord" / "corrupt" / "data_bit.tfrecord")
DAMAGED_FFR = str(GOLDEN / "ffrecord" / "corrupt" / "data_bit.ffr")


# ---- info


def test_info(run: Run) -> None:
    result = run("info", DIGITS)
    assert result.code == 0
    facts = result.facts
    assert (facts["format"], facts["payload"], facts["records"]) == ("tfrecord", "example", "1797")
    assert (facts["bytes"], facts["files"]) == ("203061", "3")
    assert facts["spec"] == "inferred from the records"
    assert (facts["field image"], facts["field label"]) == ("bytes", "int64")
    assert len(facts["fingerprint"]) == 32


def test_info_of_listed_files_equals_info_of_glob(run: Run) -> None:
    files = sorted(REAL.glob("digits-*.tfrecord"))
    listed, globbed = run("info", *files, "--json").json, run("info", DIGITS, "--json").json
    assert listed["fingerprint"] == globbed["fingerprint"]
    assert [file["records"] for file in listed["files"]] == [599, 599, 599]


def test_info_of_a_declared_spec(run: Run) -> None:
    result = run("info", DIGITS, "--spec", "image=uint8[8,8]", "--spec", "label=int32")
    assert result.facts["spec"] == "declared"
    assert result.facts["field image"] == "uint8[8,8]"
    as_json = run("info", DIGITS, "--spec", '{"image": "uint8[8,8]", "label": "int32"}', "--json").json
    assert as_json["spec"] == {"image": "uint8[8,8]", "label": "int32"}
    assert not as_json["spec_is_inferred"]


def test_info_names_few_of_many_files(run: Run, tmp_path: Path) -> None:
    for number in range(12):
        shutil.copy(PHOTOS, tmp_path / f"part-{number}.tfrecord")
    result = run("info", tmp_path)
    assert result.facts["more files"] == "2; --json lists them all"
    assert f"file {tmp_path / 'part-9.tfrecord'}" in result.facts
    assert len(run("info", tmp_path, "--json").json["files"]) == 12
    result = run("index", tmp_path)
    assert (result.facts["files"], result.facts["more files"]) == ("12", "2; --json lists them all")
    assert len(run("index", tmp_path, "--json").json["files"]) == 12


def test_info_of_nothing(run: Run) -> None:
    result = run("info")
    assert result.code == 2
    assert "PATH" in result.err


# ---- head


def test_head_shows_images_by_their_header(run: Run) -> None:
    result = run("head", PHOTOS, "-n", 2, "--fields", "name,image")
    assert result.out == (
        "record 0\n  name: b'astronaut'\n  image: JPEG image, 320 x 320, RGB, 28643 bytes\n"
        "record 1\n  name: b'chelsea'\n  image: JPEG image, 320 x 213, RGB, 17230 bytes\n"
    )


def test_head_of_declared_types(run: Run) -> None:
    spec = ("--spec", "image=jpg", "--spec", "name=utf8")
    result = run("head", PHOTOS, "-n", 1, *spec)
    image = "image: JPEG image, 320 x 320, RGB, 28643 bytes"
    assert result.out == f"record 0\n  height: 320\n  {image}\n  name: 'astronaut'\n  width: 320\n"
    arrays = run("head", DIGITS, "-n", 1, "--spec", "image=uint8[8,8]", "--spec", "label=int64")
    assert arrays.out == "record 0\n  image: uint8[8,8]: 0 0 5 13 9 1 0 0 ...\n  label: 0\n"


def test_head_as_json_is_whole(run: Run) -> None:
    result = run("head", DIGITS, "-n", 1797, "--json")
    assert result.code == 0
    records = result.json["records"]
    expected = json.loads((REAL / "expected.json").read_text("utf-8"))["digits"]
    images = b"".join(base64.b64decode(record["image"]["base64"]) for record in records)
    assert hashlib.sha256(images).hexdigest() == expected["sha256_of_all_images_in_order"]
    assert sum(record["label"] for record in records) == expected["sum_of_labels"]
    assert result.json["finding"] is None


def test_head_of_more_than_there_is(run: Run) -> None:
    assert run("head", PHOTOS, "-n", 100).out.count("record ") == 12
    assert run("head", PHOTOS, "-n", 10**20).out.count("record ") == 12
    assert run("head", PHOTOS, "-n", 0).out == ""


def test_head_runs_a_pickle_only_by_name(run: Run) -> None:
    path = GOLDEN / "ffrecord" / "pickled_ints.ffr"
    assert run("head", path, "-n", 2).out == "record 0: b'\\x80\\x04K\\x00.'\nrecord 1: b'\\x80\\x04K\\x01.'\n"
    assert run("head", path, "-n", 2, "--payload", "pickle").out == "record 0: 0\nrecord 1: 1\n"


def test_head_does_not_unpickle_payload_of_sidecar(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "some.ffr"
    shutil.copy(GOLDEN / "ffrecord" / "pickled_ints.ffr", path)
    facts = {"version": 1, "format": "ffrecord", "payload": "pickle"}
    path.with_name("some.ffr.dataformats.json").write_text(json.dumps(facts))
    result = run("head", path)
    assert result.code == 2
    assert "pickle" in result.err
    assert result.out == ""


def test_head_reads_up_to_the_damage(run: Run) -> None:
    result = run("head", DAMAGED)
    assert result.code == 1
    assert [line.split(":")[0] for line in result.out.splitlines()] == ["record 0", "record 1", "record 2"]
    assert result.err.startswith(f"dataformats: record 3 of '{DAMAGED}' at byte 368: ")
    assert "expected 0x6ae2e41b (stored), found 0x056a0ede (computed)" in result.err
    as_json = run("head", DAMAGED, "--json")
    assert as_json.code == 1
    assert len(as_json.json["records"]) == 3
    assert as_json.json["finding"]["index"] == 3
    for option in (["--no-checksums"], ["--option", "verify_checksums=false"], ["--option", "verify_checksums=False"]):
        assert run("head", DAMAGED, *option).code == 0
    assert "expected True or False, found 'no'" in run("head", DAMAGED, "--option", "verify_checksums=no").err


# ---- verify


@loop_over("path", [DIGITS, PHOTOS, str(GOLDEN / "ffrecord" / "folder_dump")])
def test_verify_of_sound_files(run: Run, path: str) -> None:
    result = run("verify", path)
    assert result.code == 0
    assert result.facts["findings"] == "0"
    as_json = run("verify", path, "--json")
    assert as_json.code == 0
    assert as_json.json["ok"]


@pytest.mark.parametrize(
    ("path", "index", "offset"), [(DAMAGED, 3, 368), (DAMAGED_FFR, 2, 95)], ids=["tfrecord", "ffrecord"]
)
def test_verify_names_the_place(run: Run, path: str, index: int, offset: int) -> None:
    result = run("verify", path)
    assert result.code == 1
    assert result.facts["findings"] == "1"
    assert f"record {index} of '{path}' at byte {offset}: " in result.facts["finding"]
    assert "expected 0x" in result.facts["finding"]
    assert "found 0x" in result.facts["finding"]
    as_json = run("verify", path, "--json")
    assert as_json.code == 1
    (finding,) = as_json.json["findings"]
    assert (finding["path"], finding["index"], finding["offset_bytes"]) == (path, index, offset)


def corrupt(format: str, *stages: str) -> list[Any]:
    entries = json.loads((GOLDEN / format / "expected.json").read_text("utf-8"))["entries"]
    return [
        GOLDEN / format / entry["path"]
        for entry in entries
        if entry["error"] and entry["stage"] in stages and not entry["id"].startswith(("not_gzip", "gzip_as_plain"))
    ]


@loop_over("path", corrupt("tfrecord", "read", "either", "trailing") + corrupt("ffrecord", "open", "read", "either"))
def test_verify_finds_every_damage(run: Run, path: Path) -> None:
    result = run("verify", path)
    assert result.code == 1
    assert path.name in result.out
    assert int(result.facts["findings"]) >= 1
    assert result.err == ""
    assert run("verify", path, "--json").json["findings"]


# ---- index


def test_index_is_kept(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DATAFORMATS_CACHE", str(tmp_path))
    result = run("index", DIGITS)
    assert result.code == 0
    assert result.facts["records"] == "1797"
    assert len(list(tmp_path.rglob("*.dataformats.idx"))) == 1  # of all three files


def test_index_fails_if_no_index_can_be_written(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("DATAFORMATS_CACHE", str(tmp_path / "file"))
    result = run("index", DIGITS)
    assert (result.code, result.facts["records"]) == (2, "1797")
    assert result.err.count("indexes are kept in memory only") == 1
    assert run("info", DIGITS).code == 0


def test_index_beside_and_full(run: Run, tmp_path: Path) -> None:
    shutil.copy(PHOTOS, tmp_path / "photos.tfrecord")
    result = run("index", tmp_path / "photos.tfrecord", "--beside", "--full", "--json")
    assert result.json["records"] == 12
    assert result.json["spec"]["height"] == "int64"
    assert (tmp_path / "photos.tfrecord.dataformats.idx").exists()


def test_index_says_if_the_spec_is_declared(run: Run, tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "a.tfrecord", "tfrecord", spec={"a": "int32"}) as writer:
        writer.append({"a": 1})
    facts = run("index", tmp_path / "a.tfrecord", "--full").facts
    assert (facts["spec"], facts["field a"]) == ("declared", "int32")
    assert run("index", PHOTOS, "--full").facts["spec"] == "inferred from the records"


def test_index_as_the_tfrecord_package_has_it(run: Run, tmp_path: Path) -> None:
    shutil.copy(GOLDEN / "tfrecord" / "vahidk.tfrecord", tmp_path)
    result = run("index", tmp_path / "vahidk.tfrecord", "--text")
    assert result.facts["text index"] == str(tmp_path / "vahidk.tfrecord.index")
    written = (tmp_path / "vahidk.tfrecord.index").read_text()
    assert written == (GOLDEN / "tfrecord" / "vahidk.index").read_text()


def test_index_as_text_is_for_tfrecord(run: Run, tmp_path: Path) -> None:
    shutil.copy(GOLDEN / "ffrecord" / "base.ffr", tmp_path)
    result = run("index", tmp_path / "base.ffr", "--text")
    assert result.code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["base.ffr"]


# ---- convert


@pytest.mark.parametrize("paths", [(), (PHOTOS,)])
def test_convert_without_a_target(run: Run, paths: tuple[str, ...]) -> None:
    result = run("convert", *paths)
    assert result.code == 2
    assert "DESTINATION" in result.err
    assert "SOURCE" not in result.err


def test_convert_there_and_back(run: Run, tmp_path: Path) -> None:
    there, back = tmp_path / "digits.ffr", tmp_path / "digits.tfrecord"
    result = run("convert", DIGITS, there, "--spec", "image=uint8[8,8]", "--spec", "label=int64")
    assert result.code == 0
    assert (result.facts["format"], result.facts["records were"]) == ("ffrecord", "copied")
    assert run("info", there).facts["field image"] == "uint8[8,8]"
    assert run("convert", there, back, "--json").json["records"] == 1797
    assert back.read_bytes() == b"".join(path.read_bytes() for path in sorted(REAL.glob("digits-*")))


def test_convert_changes_types(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "digits.ffr"
    options = ("--from-spec", "image=uint8[8,8]", "--from-spec", "label=int64")
    result = run("convert", DIGITS, target, *options, "--spec", "image=png", "--spec", "label=int32")
    assert result.facts["records were"] == "rewritten"
    assert run("head", target, "-n", 1).out.splitlines()[1].startswith("  image: PNG image, 8 x 8, L, ")


def test_convert_into_shards(run: Run, tmp_path: Path) -> None:
    result = run("convert", DIGITS, tmp_path / "digits", "--format", "tfrecord", "--shard-records", 1000)
    assert result.code == 0
    names = [f"digits-0000{number}-of-00002.tfrecord" for number in range(2)]
    assert sorted(path.name for path in (tmp_path / "digits").iterdir()) == names


def test_convert_compresses_as_the_name_says(run: Run, tmp_path: Path) -> None:
    assert run("convert", PHOTOS, tmp_path / "photos.tfrecord.gz").code == 0
    assert (tmp_path / "photos.tfrecord.gz").read_bytes()[:2] == b"\x1f\x8b"
    assert run("convert", PHOTOS, tmp_path / "plain.tfrecord", "--compression", "none").code == 0
    assert (tmp_path / "plain.tfrecord").read_bytes() == Path(PHOTOS).read_bytes()


def test_convert_stops_at_damage_and_leaves_nothing(run: Run, tmp_path: Path) -> None:
    result = run("convert", DAMAGED, tmp_path / "new.ffr")
    assert result.code == 1
    assert f"record 3 of '{DAMAGED}' at byte 368: " in result.err
    assert list(tmp_path.iterdir()) == []


def test_convert_stops_at_undecodable_payload(run: Run, tmp_path: Path) -> None:
    source = GOLDEN / "tfrecord" / "corrupt" / "not_examples.tfrecord"
    result = run("convert", source, tmp_path / "new.ofrecord", "--from-payload", "example")
    assert result.code == 1
    assert "record 1 of " in result.err
    assert list(tmp_path.iterdir()) == []


def test_convert_replaces_only_when_told(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "new.ffr"
    target.write_bytes(b"precious")
    result = run("convert", PHOTOS, target)
    assert result.code == 2
    assert "--overwrite" in result.err
    assert target.read_bytes() == b"precious"
    assert run("convert", PHOTOS, target, "--overwrite").code == 0


def test_convert_never_replaces_a_pipe_or_a_device(run: Run, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.ffr")
    result = run("convert", PHOTOS, tmp_path / "pipe.ffr", "--overwrite")
    assert result.code == 2
    assert "is a device, a pipe or a socket" in result.err
    assert (tmp_path / "pipe.ffr").is_fifo()


# ---- usage errors

USAGE = {
    "missing file": ("info", "no-such-file.tfrecord"),
    "missing glob": ("verify", "no-such-*.tfrecord"),
    "no path": ("verify",),
    "no command": (),
    "unknown command": ("frobnicate",),
    "unknown option": ("info", "--frobnicate"),
    "unknown format": ("verify", PHOTOS, "--format", "ofrecrod"),
    "unknown payload": ("head", PHOTOS, "--payload", "exampel"),
    "bad spec": ("head", PHOTOS, "--spec", "image=uint8[8"),
    "no spec": ("head", PHOTOS, "--spec", "image"),
    "bad JSON": ("head", PHOTOS, "--spec", "{image"),
    "a field twice": ("head", PHOTOS, "--spec", "image=jpg", "--spec", "image=png"),
    "unknown field": ("head", PHOTOS, "--fields", "imge"),
    "unknown codec": ("head", PHOTOS, "--spec", "image=no_such_codec"),
    "target without format": ("convert", PHOTOS, "somewhere"),
    "no compression": ("convert", PHOTOS, "new.tfrecord", "--compression", "gz"),
    "compressed ffrecord": ("convert", PHOTOS, "new.ffr", "--compression", "gzip"),
    "shards of nothing": ("convert", PHOTOS, "new", "--format", "ffrecord", "--shard-records", "0"),
    "no fields": ("head", PHOTOS, "--fields", ""),
    "quality of many digits": ("verify", PHOTOS, "--spec", f"image=jpg({'9' * 5000})"),
    "deep JSON": ("head", PHOTOS, "--spec", '{"a":' * 5000),
    "unknown scheme": ("info", "s4://bucket/x"),
    "unknown scheme in a chain": ("info", "simplecache::nosuch://x"),
    "URL without arguments": ("info", "reference://x"),
    "no such file in memory": ("info", "memory://nothing/x"),
    "no archive": ("info", f"zip://x::{PHOTOS}"),
    "unknown user": ("info", "~nouser/x"),
    "target of an unknown user": ("convert", PHOTOS, "~nouser/x.ffr"),
    "target with an unknown scheme": ("convert", PHOTOS, "s4://bucket/y.ffr"),
    "target that cannot be written": ("convert", PHOTOS, "data://y.ffr"),
    "this folder as target": ("convert", PHOTOS, ".", "--format", "granular"),
    "its parent as target": ("convert", PHOTOS, "..", "--format", "granular", "--overwrite"),
    "root as target": ("convert", PHOTOS, "/", "--format", "granular", "--overwrite"),
}


@loop_over("arguments", USAGE.values())
def test_usage_errors(run: Run, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert result.code == 2
    assert result.out == ""
    assert len(result.err.splitlines()) == 1 or not arguments  # no arguments print the help
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("raised", "code", "text"), [(MemoryError, 2, "not enough memory"), (KeyError, 3, "a bug")])
def test_errors_outside_the_package(
    run: Run, monkeypatch: pytest.MonkeyPatch, raised: type[Exception], code: int, text: str
) -> None:
    def fail(*_arguments: object, **_options: object) -> None:
        raise raised("x")

    monkeypatch.setattr("dataformats.inspecting.description.info", fail)
    result = run("info", PHOTOS)
    assert (result.code, result.out) == (code, "")
    assert text in result.err


def test_no_pickle(run: Run) -> None:
    result = run("head", GOLDEN / "ffrecord" / "base.ffr", "--payload", "pickle")
    assert result.code == 1
    assert "does not decode as 'pickle'" in result.err


def test_errors_of_a_url_scheme_are_short(run: Run) -> None:
    assert "unknown URL scheme 'htp' (nearest: http" in run("info", "htp://host/x").err
    assert len(run("info", "foo://bucket/x").err) < 250


def test_errors_name_the_nearest_names(run: Run) -> None:
    assert "unknown command 'inf' (nearest: info). See" in run("inf", PHOTOS).err
    assert "nearest: ffrecord" in run("verify", PHOTOS, "--format", "ffrecrod").err
    assert "nearest: image" in run("head", PHOTOS, "--fields", "imge").err


# ---- remedies name options


def test_remedies_name_options(run: Run, tmp_path: Path) -> None:
    (tmp_path / "nameless").touch()
    empty = run("info", tmp_path / "nameless")
    assert empty.code == 1
    assert "Pass --format if" in empty.err
    misfit = run("head", PHOTOS, "--spec", "name=int64")
    assert misfit.code == 1
    assert "record 0 of " in misfit.err
    assert "field 'name'" in misfit.err
    assert "Pass --spec name=bytes, or" in misfit.err
    assert "Pass --payload bytes" in run("head", GOLDEN / "ffrecord" / "base.ffr", "--payload", "example").err


def test_remedies_of_convert_are_for_its_source(run: Run, tmp_path: Path) -> None:
    (tmp_path / "nameless").write_bytes(b"\xfe\xff\1\2" * 9)
    unknown = run("convert", tmp_path / "nameless", tmp_path / "x.ffr")
    assert "Pass --from-format if you know it." in unknown.err
    with pytest.raises(dataformats.FormatError, match=r"Pass source_options=\{'format': \.\.\.\} if"):
        dataformats.convert(tmp_path / "nameless", tmp_path / "x.ffr")
    with dataformats.create(tmp_path / "a.ffr", "ffrecord", spec={"a": "int64"}) as writer:
        writer.append({"a": 1})
    shutil.copy(GOLDEN / "ffrecord" / "base.ffr", tmp_path / "a.ffr")
    stale = run("convert", tmp_path / "a.ffr", tmp_path / "x.ffr")
    assert "to read what is there, pass --from-payload example and --from-spec." in stale.err
    assert "--payload" in run("index", tmp_path / "a.ffr").err
    assert run("index", tmp_path / "a.ffr", "--payload", "bytes", "--spec", "a=int64").code == 0


def test_info_of_single_values(run: Run) -> None:
    assert run("info", GOLDEN / "ffrecord" / "base.ffr").facts["spec"] == "none: a record is one value"


# ---- all five formats


MINE = (lambda value: value, lambda blob: blob)


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    """A Granular dataset with media, documents, sequences, and two types that nothing decodes."""
    path = tmp_path / "pets"
    spec = {
        "photo": "jpeg(90)",
        "clip": "mp4",
        "meta": "tree",
        "words": "utf8[]",
        "vector": "float32[3]",
        "secret": "mytype",
        "parts": "mytype[]",
        "object": "pickle",
        "label": "int64",
    }
    record = {
        "photo": np.zeros((4, 6, 3), np.uint8),
        "clip": MP4_START,
        "meta": {"pose": np.ones(3), "names": ["a", None]},
        "words": ["é", "b"],
        "vector": [1, 2, 3],
        "secret": b"\x01\x02",
        "parts": [b"p", b"q"],
        "object": {1},
        "label": 7,
    }
    codecs = {"mytype": MINE, "mp4": MINE}
    with dataformats.create(path, "granular", spec=spec, codecs=codecs) as writer:
        writer.extend([record, record])
    return path


MP4_START = b"\x00\x00\x00\x20ftypisom" + bytes(50)


def test_head_shows_every_kind_of_value(run: Run, pets: Path) -> None:
    result = run("head", pets, "-n", 1)
    assert result.code == 0
    assert result.err == ""
    lines = result.out.splitlines()
    assert lines[0] == "record 0"
    assert lines[1].startswith("  photo: JPEG image, 6 x 4, RGB, ")
    assert lines[2:8] == [
        f"  clip: MP4 video, {len(MP4_START)} bytes",
        "  meta: {'pose': float64[3]: 1.0 1.0 1.0, 'names': ['a', None]}",
        "  words: ['é', 'b']",
        "  vector: float32[3]: 1.0 2.0 3.0",
        "  secret: opaque: no codec 'mytype'; b'\\x01\\x02'",
        "  parts: opaque: no codec 'mytype'; [b'p', b'q']",
    ]
    assert lines[8].startswith("  object: opaque: a file may not name 'pickle', only --spec may; b'")
    assert lines[9:] == ["  label: 7"]


def test_head_as_json_lists_opaque_fields(run: Run, pets: Path) -> None:
    found = run("head", pets, "-n", 1, "--json").json
    assert found["opaque"] == {"secret": "mytype", "parts": "mytype[]", "object": "pickle"}
    assert base64.b64decode(found["records"][0]["secret"]["base64"]) == b"\x01\x02"
    assert found["records"][0]["words"] == ["é", "b"]


def test_an_unknown_codec_in_the_call_is_an_error(run: Run, pets: Path) -> None:
    result = run("head", pets, "--spec", "secret=mytipe")
    assert result.code == 2
    assert "unknown codec 'mytipe'" in result.err


def test_info_and_verify_name_opaque_fields(run: Run, pets: Path) -> None:
    facts = run("info", pets).facts
    assert facts["field parts"] == "mytype[] (opaque: no codec 'mytype')"
    assert facts["generation"] == "2"
    photos = pets.with_name("without-clips")  # the clips are truncated, and need an extra
    assert run("convert", pets, photos, "--format", "granular", "--fields", "photo,secret,object").code == 0
    result = run("verify", photos)
    assert (result.code, result.facts["findings"]) == (0, "0")
    assert result.facts["field secret"] == "opaque: no codec 'mytype'; read, not decoded"
    assert run("verify", photos, "--json").json["opaque"] == {"secret": "mytype", "object": "pickle"}


def test_head_shows_missing_values(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "some.tfrecord"
    with dataformats.create(path, "tfrecord", spec={"a": "int64?", "b": "json"}) as writer:
        writer.extend([{"a": 1, "b": [None]}, {"b": [1]}])
    assert run("head", path).out == "record 0\n  a: 1\n  b: [None]\nrecord 1\n  a: missing\n  b: [1]\n"
    assert run("head", path, "--json").json["records"][1] == {"b": [1]}


def test_head_of_deep_documents(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "deep.ffr"
    value: list[Any] = []
    for _ in range(500):
        value = [value]
    with dataformats.create(path, "ffrecord", payload="json") as writer:
        writer.append(value)
    assert run("head", path).out == "record 0: [[[[[[[... (1 in all)]]]]]]]\n"
    assert run("head", path, "--json").json["records"] == [value]


def test_verify_names_file_record_and_field(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "set"
    with dataformats.create(path, "granular", spec={"a": "int64", "meta": "bytes", "words": "utf8[]"}) as writer:
        writer.extend({"a": n, "meta": b"{" if n == 2 else b"{}", "words": ["x"] * n} for n in range(4))
    spec = [f"--spec={pair}" for pair in ("a=int64", "meta=json", "words=utf8[]")]
    (finding,) = run("verify", path, *spec, "--json").json["findings"]
    assert (finding["kind"], finding["index"]) == ("CodecError", 2)
    assert finding["path"].startswith(str(path))
    assert "field 'meta'" in finding["message"]


def test_verify_of_a_cut_bag(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "set"
    with dataformats.create(path, "granular", spec={"a": "int64", "text": "utf8"}) as writer:
        writer.extend({"a": n, "text": "text"} for n in range(4))
    with (path / "text.bag").open("r+b") as file:
        file.truncate(14)
    result = run("verify", path)
    assert result.code == 1
    assert f"finding: TruncatedError: record 3 of '{path / 'text.idx'}' at byte 24: " in result.out


def test_index_of_fields(run: Run, pets: Path) -> None:
    assert run("index", pets).facts[f"file {pets}"] == "2 records"


TARGETS = {"x.ffr": "ffrecord", "x.tfrecord": "tfrecord", "x.ofrecord": "ofrecord", "x.syr": "syrah"}


@loop_over("name, format", [*TARGETS.items(), ("part-00000", "ofrecord")])
def test_convert_guesses_the_format(run: Run, tmp_path: Path, name: str, format: str) -> None:
    result = run("convert", PHOTOS, tmp_path / name)
    assert result.code == 0, result.err
    assert result.facts["format"] == format
    assert run("verify", tmp_path / name).code == 0


def test_convert_to_granular_and_back(run: Run, tmp_path: Path) -> None:
    spec = ("--spec", "image=jpg", "--spec", "name=utf8", "--spec", "height=int64", "--spec", "width=int64")
    result = run("convert", PHOTOS, tmp_path / "photos", "--format", "granular", *spec)
    assert (result.code, result.facts["records were"]) == (0, "rewritten")
    assert run("info", tmp_path / "photos").facts["generation"] == "3"
    assert run("convert", tmp_path / "photos", tmp_path / "back.tfrecord").code == 0
    before = dataformats.open(PHOTOS)
    blobs = dataformats.open(tmp_path / "back.tfrecord", spec=before.spec)
    assert [record["image"] for record in blobs] == [record["image"] for record in before]
    assert str(dataformats.open(tmp_path / "back.tfrecord").spec["image"]) == "jpg"


def test_convert_generation(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "photos"
    assert run("convert", PHOTOS, target, "--format", "granular", "--to-option", "generation=2").code == 0
    assert run("info", target).facts["generation"] == "2"
    for options in (("x.syr",), (tmp_path / "g", "--format", "granular")):
        result = run("convert", PHOTOS, *options, "--to-option", "generation=1")
        assert result.code == 2
        assert "--to-option: " in result.err


def test_convert_some_fields_by_other_names(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "names.syr"
    assert run("convert", PHOTOS, target, "--fields", "width,name", "--rename", "name=title").code == 0
    assert run("head", target, "-n", 1).out == "record 0\n  width: 320\n  title: b'astronaut'\n"
    typed = tmp_path / "typed.syr"
    spec = ("--spec", "title=utf8")
    assert run("convert", PHOTOS, typed, "--fields", "width,name", "--rename", '{"name": "title"}', *spec).code == 0
    assert run("head", typed, "-n", 1).out == "record 0\n  width: 320\n  title: 'astronaut'\n"


def test_convert_changes_stored_types(run: Run, tmp_path: Path) -> None:
    source, target = tmp_path / "a", tmp_path / "b.ofrecord"
    with dataformats.create(source, "granular", spec={"x": "bytes", "n": "int64", "left": "utf8"}) as writer:
        writer.append({"x": b"[1]", "n": 3, "left": "alone"})
    assert run("convert", source, target, "--spec", "x=json", "--spec", "n=int8").code == 0
    assert run("head", target).out == "record 0\n  x: [1]\n  n: 3\n  left: 'alone'\n"


def test_convert_copies_opaque_fields(run: Run, pets: Path, tmp_path: Path) -> None:
    target = tmp_path / "pets.ffr"
    assert run("convert", pets, target).code == 0
    assert run("head", target, "-n", 1).out == run("head", pets, "-n", 1).out


def test_convert_does_not_unpickle_omitted_fields(run: Run, pets: Path, tmp_path: Path) -> None:
    target = tmp_path / "labels.ofrecord"
    assert run("convert", pets, target, "--fields", "label", "--spec", "label=int32").code == 0
    assert run("head", target, "-n", 1).out == "record 0\n  label: 7\n"


def test_convert_names_every_unsupported_field(run: Run, tmp_path: Path) -> None:
    source = tmp_path / "odd.tfrecord"
    with dataformats.create(source, "tfrecord", spec={"a b": "int64", "refs": "utf8[]", "ok": "int64"}) as writer:
        writer.append({"a b": 1, "refs": ["x"], "ok": 2})
    result = run("convert", source, tmp_path / "odd", "--format", "granular", "--to-option", "generation=3")
    assert result.code == 2
    first, second, third = result.err.splitlines()
    assert first.startswith("dataformats: field 'a b': ")
    assert first.endswith("To convert, pass --rename 'a b=a_b'.")
    assert second.startswith("  field 'refs': ")
    assert second.endswith("To convert, pass --rename refs=refs_.")
    assert third.startswith("  field 'refs': ")
    assert third.endswith("Pass --to-option generation=2, or leave it out.")
    renamed = ("--rename", "a b=a_b", "--rename", "refs=refs_")
    assert run("convert", source, tmp_path / "odd", "--format", "granular", *renamed).code == 0
    assert run("convert", source, tmp_path / "odd.syr").err.count("\n") == 1
    assert run("convert", source, tmp_path / "odd.syr", "--fields", "a b,ok").code == 0


def test_convert_of_single_values(run: Run, tmp_path: Path) -> None:
    source = GOLDEN / "ffrecord" / "base.ffr"
    assert run("convert", source, tmp_path / "values.bag").code == 0
    assert run("verify", tmp_path / "values.bag").facts["records"] == run("info", source).facts["records"]
    assert run("convert", tmp_path / "values.bag", tmp_path / "values.ffr").facts["records were"] == "copied"


@loop_over(
    "arguments, said",
    [
        ((PHOTOS, "x.bag"), "expected the name of a folder"),
        (
            (PHOTOS, "folder"),
            "syrah, text, tfrecord, videos, webdataset). Pass --format.",
        ),
        ((PHOTOS, "x.syr", "--rename", "nix=x"), "unknown field 'nix'"),
        ((PHOTOS, "x.syr", "--rename", "name"), "expected OLD=NEW"),
        ((PHOTOS, "x.syr", "--rename", "name=width"), "two fields would have the same name"),
        ((PHOTOS, "x.syr", "--fields", "nix"), "unknown field 'nix'"),
        ((PHOTOS, "x.syr", "--from-spec", "label"), "--from-spec"),
        (
            (PHOTOS, "x.syr", "--compression", "gzip"),
            "expected an argument of create() or an option of syrah (it has none), found 'compression'",
        ),
        ((str(GOLDEN / "ffrecord" / "base.ffr"), "x", "--format", "granular"), "name that ends in .bag"),
        ((str(GOLDEN / "ffrecord" / "base.ffr"), "x.bag", "--shard-records", 2), "shards"),
        ((str(GOLDEN / "ffrecord" / "base.ffr"), "x.syr", "--rename", "a=b"), "unknown field 'a'"),
    ],
)
def test_convert_refuses(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[object, ...], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("convert", *arguments)
    assert result.code == 2
    assert said in result.err
    assert list(tmp_path.iterdir()) == []


def data_in(format: str) -> list[Path]:
    """Return the files of a format, sound and damaged, and the folders of Granular datasets."""
    if format == "granular":
        return sorted(
            {path.parent for path in (GOLDEN / format).rglob("spec.json")} | {*(GOLDEN / format).glob("*/*.bag")}
        )
    suffixes = {".ffr", ".ofrecord", ".syr", ".tfrecord"}
    return sorted(path for path in (GOLDEN / format).rglob("*") if path.suffix in suffixes)


@pytest.mark.filterwarnings("ignore:.* is of an old version:UserWarning")
@loop_over("format", ["ffrecord", "granular", "ofrecord", "syrah", "tfrecord"])
def test_head_of_whatever_there_is(run: Run, format: str) -> None:
    paths = data_in(format)
    assert len(paths) > 10
    for path in paths:
        shown, as_json = run("head", path), run("head", path, "--json")
        assert shown.code in (0, 1), shown.err
        assert as_json.code == shown.code


# ---- merge and split


def test_merge_and_split(run: Run, tmp_path: Path) -> None:
    files = sorted(REAL.glob("digits-*.tfrecord"))
    merged, shards = tmp_path / "digits.tfrecord", tmp_path / "shards"
    assert run("merge", *files, merged).facts == {str(merged): "1797 records"}
    result = run("split", merged, shards, "--shards", "4", "--json")
    assert [file["records"] for file in result.json["files"]] == [449, 449, 449, 450]
    assert list(run("split", merged, shards, "--shard-records", "1000", "--overwrite").facts.values()) == [
        "1000 records",
        "797 records",
    ]
    assert run("merge", shards, merged).code == 2
    result = run("merge", PHOTOS, GOLDEN / "ffrecord" / "base.ffr", tmp_path / "x")
    assert (result.code, "is ffrecord, and" in result.err) == (2, True)
    result = run("merge", PHOTOS, DAMAGED, tmp_path / "x", "--from-payload", "bytes")
    assert (result.code, "record 15" in result.err, (tmp_path / "x").exists()) == (1, True, False)


def test_split_at_random(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    facts = run("split", DIGITS, "a.tfrecord", "b.tfrecord", "--fraction", "0.8", "--seed", "3").facts
    assert facts == {"a.tfrecord": "1438 records", "b.tfrecord": "359 records"}
    for view, path in zip(dataformats.open(DIGITS).split(0.8, seed=3), ("a.tfrecord", "b.tfrecord"), strict=True):
        part = dataformats.open(path)
        assert list(view.read_bytes(range(len(view)))) == list(part.read_bytes(range(len(part))))
    facts = run("split", DIGITS, "c.tfrecord", "--fraction", "0.8", "--rest-path", "d.tfrecord").facts
    assert facts == {"c.tfrecord": "1438 records", "d.tfrecord": "359 records"}
    assert Path("c.tfrecord").read_bytes() != Path("a.tfrecord").read_bytes()
    for wrong in (["--fraction", "1.5"], ["--fraction", "0"], ["--fraction", "0.5", "--shards", "2"]):
        assert run("split", DIGITS, "x.tfrecord", "y.tfrecord", *wrong).code == 2
    assert run("split", DIGITS, "x.tfrecord", "--fraction", "0.5").code == 2
    assert not [*Path().glob("x*"), *Path().glob("y*")]


def test_split_by_a_condition(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rules = "def is_eight(record):\n    return record['label'] == 8\ndef fails(record):\n    return record['nothing']\n"
    (tmp_path / "split_rules.py").write_text(rules)
    facts = run("split", DIGITS, "a.tfrecord", "--where", "split_rules:is_eight", "--rest-path", "b.tfrecord").facts
    assert facts == {"a.tfrecord": "174 records", "b.tfrecord": "1623 records"}
    np.save("mask.npy", np.arange(1797) < 5)
    facts = run("split", DIGITS, "a.tfrecord", "b.tfrecord", "--where", "mask.npy", "--overwrite").facts
    assert facts == {"a.tfrecord": "5 records", "b.tfrecord": "1792 records"}
    np.save("short.npy", np.ones(5, bool))
    for where, found in (
        ("split_rules:fails", "the function raised KeyError: 'nothing'"),
        ("split_rules:nothing", "no attribute 'nothing'"),
        ("no_rules:is_eight", "No module named 'no_rules'"),
        ("short.npy", "expected bool[1797]"),
        ("missing.npy", "no such file"),
    ):
        result = run("split", DIGITS, "x.tfrecord", "--where", where, "--rest-path", "y.tfrecord")
        assert (result.code, found in result.err) == (2, True), result.err
    assert run("split", DIGITS, "x", "--where", "mask.npy").code == 2
    assert run("split", DIGITS, "x", "--shards", "2", "--shard-records", "3").code == 2
    assert run("split", DIGITS, "x", "--shards", "5000").code == 2
    assert run("split", "x", "--shards", "2").code == 2
    assert not any(path.name.startswith(("x", "y")) for path in tmp_path.iterdir())


def test_verify_groups_equal_findings(run: Run) -> None:
    result = run("verify", DIGITS, "--spec", "label=utf8", "--max-findings", 5)
    assert (result.code, len(result.out.splitlines())) == (1, 7)
    assert result.facts["finding"].startswith("SpecError, 1797 times: record 0 of ")
    assert result.facts["  records"] == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 1787 more"
    assert result.facts["findings"] == "1797"
    as_json = run("verify", DIGITS, "--spec", "label=utf8", "--max-findings", 5, "--json").json
    assert (as_json["n_findings"], len(as_json["findings"]), as_json["groups"][0]["count"]) == (1797, 5, 1797)


def test_info_lists_the_datasets_below_a_folder(run: Run, tmp_path: Path) -> None:
    for name in ("train", "val"):
        (tmp_path / name).mkdir()
        shutil.copy(PHOTOS, tmp_path / name / "a.tfrecord")
    result = run("info", tmp_path)
    assert (result.code, result.facts) == (
        1,
        {f"dataset {tmp_path / name}": "tfrecord, 1 file" for name in ("train", "val")},
    )
    found = "the folder holds no dataset, but folders in it do: found 'train', 'val'. Open one of them, such as"
    assert f"{found} {str(tmp_path / 'train')!r}" in result.err
    listed = run("info", tmp_path, "--json").json["datasets"]
    assert listed[0] == {"path": str(tmp_path / "train"), "format": "tfrecord", "files": 1}


def test_remedies_of_wrong_types_name_options(run: Run) -> None:
    assert "Pass --spec with 'float32' or 'float64'" in run("head", PHOTOS, "--spec", "width=float").err
    assert "name it in --payload or --spec" in run("head", PHOTOS, "--payload", "jsn").err


# ---- folders of tensorflow_datasets


def test_split_of_a_folder(run: Run, tmp_path: Path) -> None:
    folder, split = GOLDEN / "tfds" / "tfrecord" / "things" / "1.0.0", ("--from-option", "split=test")
    copy = tmp_path / "copy.tfrecord"
    assert "Pass --option split=train, or another one" in run("info", folder).err
    for command, other in (("convert", copy), ("merge", copy), ("diff", folder)):
        assert "Pass --from-option split=train, or another one" in run(command, folder, other).err, command
        assert run(command, folder, other, *split).code == 0, command
        copy.unlink(missing_ok=True)
