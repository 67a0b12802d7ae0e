"""A wrong spec: the fields that are there, and types that no codec decodes, refused by `open`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import dataformats
from dataformats import SpecError, UnknownNameError
from dataformats.testing.loop_over import loop_over
from tests.cases import GOLDEN

PHOTOS = GOLDEN / "real" / "photos.tfrecord"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("widht", "'height', 'image', 'name', 'width'. Name the field 'width', or pass"),
        ("label", "'height', 'image', 'name', 'width'. Check the name of the field, or pass"),
    ],
)
def test_unknown_field_error_lists_the_fields_of_the_record(name: str, said: str) -> None:
    src = dataformats.open(PHOTOS, spec={name: "int64"})
    for read in (lambda: src[0], lambda: src.read([0, 1]), lambda: next(iter(src))):
        with pytest.raises(SpecError) as caught:
            read()
        assert f"field {name!r}: expected int64, found nothing; the record has {said}" in str(caught.value)
        assert (type(caught.value), caught.value.index, caught.value.path) == (SpecError, 0, str(PHOTOS))


def test_a_field_of_other_records_may_be_optional(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "a.tfrecord", spec={"a": "int64?", "b": "int64"}) as writer:
        writer.extend([{"a": 1, "b": 2}, {"b": 3}])
    src = dataformats.open(tmp_path / "a.tfrecord", spec={"a": "int64[1]", "b": "int64"})
    with pytest.raises(SpecError, match=r"record 1 of .*; the record has 'b'\. Check .* spec=.*'a': 'int64\[1\]\?'"):
        src.read([0, 1])


def test_inferred_field_missing_after_the_samples(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "a.tfrecord", spec={"a": "int64?", "b": "int64"}) as writer:
        writer.extend([*({"a": 1, "b": 2} for _ in range(600)), {"b": 3}])
    (tmp_path / "a.tfrecord.dataformats.json").unlink()
    with pytest.raises(SpecError, match=r"Pass spec={'a': 'int64\?'}, or run dataformats index --full --beside\.$"):
        dataformats.open(tmp_path / "a.tfrecord")[600]


@pytest.mark.parametrize(
    ("name", "remedy"),
    [("label", "'image/class/label'"), ("image", "'image/class/label' or 'image/encoded'")],
)
def test_a_name_may_be_part_of_a_path(tmp_path: Path, name: str, remedy: str) -> None:
    spec = {"image/encoded": "bytes", "image/class/label": "int64"}
    with dataformats.create(tmp_path / "a.tfrecord", spec=spec) as writer:
        writer.append({"image/encoded": b"a", "image/class/label": 1})
    with pytest.raises(SpecError, match=rf"Name the field {remedy}, or pass"):
        dataformats.open(tmp_path / "a.tfrecord", spec={name: "int64"})[0]


def test_sequence_examples(tmp_path: Path) -> None:
    spec = {"title": "utf8", "steps": "int64[]"}
    with dataformats.create(tmp_path / "a.tfrecord", payload="sequence_example", spec=spec) as writer:
        writer.append({"title": "a", "steps": [1]})
    with pytest.raises(SpecError, match=r"the record has 'steps', 'title'. Name the field 'title', or pass"):
        dataformats.open(tmp_path / "a.tfrecord", payload="sequence_example", spec={"titel": "utf8"})[0]


def test_long_and_many_names_are_cut(tmp_path: Path) -> None:
    spec = {f"{i}\x1b[31m{{}}" + "x" * 10_000: "int64" for i in range(50)}
    with dataformats.create(tmp_path / "a.tfrecord", spec=spec) as writer:
        writer.append(dict.fromkeys(spec, 1))
    for name in ("label", "1\x1b[31m{}" + "x" * 100):
        with pytest.raises(SpecError, match="and 40 more") as caught:
            dataformats.open(tmp_path / "a.tfrecord", spec={name: "int64"})[0]
        assert len(str(caught.value)) < 3000
        assert "\x1b" not in str(caught.value)


@loop_over(
    "options, error, said",
    [
        ({"spec": {"width": "int46"}}, UnknownNameError, "unknown codec 'int46' (nearest: int"),
        ({"spec": {"image": "jpeq[]?"}}, UnknownNameError, "nearest: jpeg"),
        ({"spec": {"width": "int64(3)"}}, SpecError, "field 'width': codec 'int64' takes no arguments"),
        (
            {"spec": {"width": "int64[][]"}, "payload": "example"},
            SpecError,
            "must be the first dimension, as in float32[][4]",
        ),
        ({"spec": {"width": "float32[None,4]"}}, SpecError, "'float32[][4]' of any number of rows"),
        ({"payload": "exampel"}, UnknownNameError, "nearest: example"),
    ],
)
def test_types_are_checked_by_open(options: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error) as caught:
        dataformats.open(PHOTOS, **options)
    assert said in str(caught.value)


def test_codecs_of_the_call_are_types() -> None:
    codecs = {"mine": (lambda value: value, lambda blob: len(blob))}
    assert dataformats.open(PHOTOS, spec={"image": "mine"}, codecs=codecs)[0]["image"] > 1000


def test_examples_without_a_sidecar_get_a_hint(tmp_path: Path) -> None:
    dataformats.convert(PHOTOS, tmp_path / "a.ffr")
    (tmp_path / "a.ffr.dataformats.json").unlink()
    src = dataformats.open(tmp_path / "a.ffr")
    with pytest.raises(UnknownNameError, match=r"If the records are tf\.train.Examples, pass payload='example'"):
        src.select("width")
    assert dataformats.open(tmp_path / "a.ffr", payload="example")[7]["width"] == 267
