"""verify(against=): every format against its source, and every kind of difference."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.inspecting.finding import Finding
from dataformats.testing.loop_over import loop_over
from tests.cases import GOLDEN

DIGITS, PHOTOS = GOLDEN / "real" / "digits-00000-of-00003.tfrecord", GOLDEN / "real" / "photos.tfrecord"
DAMAGED = GOLDEN / "tfrecord" / "corrupt" / "data_bit.tfrecord"
TARGETS = ("x.ffr", "x.tfrecord", "x.tfrecord.gz", "x.ofrecord", "x.syr", "granular")
SPEC = {"n": "int64", "image": "uint8[4,4]", "words": "utf8[]", "score": "float32"}


def records(n: int = 20) -> list[dict[str, Any]]:
    image = np.arange(16, dtype=np.uint8).reshape(4, 4)
    return [{"n": i, "image": image + i % 7, "words": ["a"] * (i % 3), "score": i / 2} for i in range(n)]


def written(path: Path, some: Iterable[Any], spec: dict[str, str] | None = None, **options: Any) -> Path:
    with dataformats.create(path, **{"format": "ffrecord", "spec": SPEC if spec is None else spec, **options}) as out:
        out.extend(some)
    return path


def changed(number: int, **values: Any) -> list[dict[str, Any]]:
    some = records()
    some[number].update(values)
    return some


@loop_over("name", TARGETS)
@loop_over("options", [{}, {"fields": ["label", "image"], "rename": {"image": "pixels"}}])
def test_every_format_against_its_source(tmp_path: Path, name: str, options: dict[str, Any]) -> None:
    target = tmp_path / name
    dataformats.convert(DIGITS, target, None if "." in name else "granular", **options)
    report = dataformats.verify(target, against=DIGITS, **options)
    assert (report.findings, report.records, report.differences) == ((), 599, {})
    assert report.against == str(DIGITS)


@loop_over("name", ["x.ffr", "x.tfrecord", "x.ofrecord", "x.syr"])
def test_verify_ignores_types_declared_on_one_side(tmp_path: Path, name: str) -> None:
    spec = {"image": "jpg", "name": "utf8", "height": "int32", "width": "int64"}
    dataformats.convert(PHOTOS, tmp_path / name, spec=spec)
    assert dataformats.verify(tmp_path / name, against=PHOTOS).ok
    (tmp_path / f"{name}.dataformats.json").unlink()
    payload: dict[str, Any] = {"payload": "example"} if name == "x.ffr" else {}
    declared = dataformats.open(PHOTOS, spec=spec | {"height": "int64"})
    assert dataformats.verify(tmp_path / name, against=declared, fields=["image", "name"], **payload).ok


def test_integers_of_granular(tmp_path: Path) -> None:
    source = written(tmp_path / "a", [{"a": 5, "b": -7}], {"a": "int", "b": "i64"}, format="granular")
    dataformats.convert(source, tmp_path / "a.ffr")
    assert dataformats.verify(tmp_path / "a.ffr", against=source).ok
    assert dataformats.verify(source, against=tmp_path / "a.ffr").ok


DIFFERENCES: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "number": ({"n": -1}, "n", "7", "-1"),
    "bits": ({"score": float("nan")}, "score", "3.5", "nan"),
    "pixel": (
        {"image": np.arange(16, dtype=np.uint8).reshape(4, 4) + np.eye(4, dtype=np.uint8)},
        "image",
        "0 at [0, 0] of uint8[4,4]",
        "1 (4 of 16 values differ, by at most 1)",
    ),
    "texts": ({"words": ["a", "b"]}, "words", "['a']", "['a', 'b']"),
}


@loop_over("format", ["ffrecord", "granular"])
@loop_over("values, field, expected, found", DIFFERENCES.values())
def test_a_difference(tmp_path: Path, format: str, values: Any, field: str, expected: str, found: str) -> None:
    source = written(tmp_path / "source", records(), format="granular")
    target = written(tmp_path / "target", changed(7, **values), format=format)
    report = dataformats.verify(target, against=source)
    (finding,) = report.findings
    assert not report.ok
    assert report.differences == {field: 1}
    assert (finding.kind, finding.index, finding.field) == ("Difference", 7, field)
    assert (finding.expected, finding.found) == (expected, found)
    assert finding.message.startswith(f"record 7 of {finding.path!r}, field {field!r}: expected {expected}, found ")
    assert str(finding.path).startswith(str(target))


def findings(tmp_path: Path, some: Iterable[Any], others: Iterable[Any], **options: Any) -> tuple[Finding, ...]:
    source, target = written(tmp_path / "a.ffr", some, **options), written(tmp_path / "b.ffr", others, **options)
    return dataformats.verify(target, against=source).findings


def test_different_payloads_are_compared_by_field(tmp_path: Path) -> None:
    (finding,) = findings(tmp_path, records(), changed(3, n=9), payload="example")
    assert (finding.index, finding.field, finding.found) == (3, "n", "9")


def test_single_values(tmp_path: Path) -> None:
    for payload, some, others in (("bytes", b"abc", b"abd"), ("json", {"a": [1]}, {"a": [2]}), ("utf8", "x", "y")):
        folder = tmp_path / payload
        folder.mkdir()
        source, target = folder / "a.ffr", folder / "b.ffr"
        for path, value in ((source, some), (target, others)):
            with dataformats.create(path, "ffrecord", payload=payload) as out:
                out.extend([some, value])
        (finding,) = dataformats.verify(target, against=source).findings
        assert (finding.index, finding.field) == (1, None)
    assert finding.message == f"record 1 of {str(target)!r}: expected 'x', found 'y'"


def test_the_same_values_in_other_bytes(tmp_path: Path) -> None:
    for name, text in (("a", b'{"a": 1}'), ("b", b'{"a":1}')):
        with dataformats.create(tmp_path / f"{name}.ffr", "ffrecord", payload="bytes") as out:
            out.append(text)
    target = dataformats.open(tmp_path / "b.ffr", payload="json")
    assert dataformats.verify(target, against=tmp_path / "a.ffr", source_options={"payload": "json"}).ok
    (finding,) = dataformats.verify(tmp_path / "b.ffr", against=tmp_path / "a.ffr").findings
    assert (finding.expected, finding.found) == ("8 bytes, 0x20 at byte 5", "7 bytes, 0x31 at byte 5")


def test_only_lossy_images_are_findings(tmp_path: Path) -> None:
    lossless, lossy = tmp_path / "png.ffr", tmp_path / "jpg.ffr"
    source = dataformats.open(DIGITS, spec={"image": "uint8[8,8]", "label": "int64"})[:50]
    for path, kind in ((lossless, "png"), (lossy, "jpg(50)")):
        dataformats.convert(source, path, spec={"image": kind, "label": "int64"})
    assert dataformats.verify(lossless, against=source).ok
    report = dataformats.verify(lossy, against=source)
    assert len(report.findings) == 10
    assert 40 < report.differences["image"] <= 50
    assert "differs a little: if that was intended, pass fields= without it." in report.findings[0].message
    assert dataformats.verify(lossy, against=source, fields=["label"]).ok


def test_a_nan_equals_a_nan_of_the_same_bits(tmp_path: Path) -> None:
    assert findings(tmp_path, changed(3, score=float("nan")), changed(3, score=float("nan"))) == ()


def test_different_declared_dtypes_are_findings(tmp_path: Path) -> None:
    source = written(tmp_path / "a", [{"n": 5}], {"n": "int64"}, format="granular")
    target = written(tmp_path / "b.ffr", [{"n": 5}], {"n": "int32"})
    (finding,) = dataformats.verify(target, against=source).findings
    assert (finding.expected, finding.found) == ("int64 5", "int32 5")
    assert "source_options={'spec': ...}" in finding.message


@loop_over("n_source, n_target", [(20, 17), (17, 20), (20, 0)])
def test_missing_and_extra_records(tmp_path: Path, n_source: int, n_target: int) -> None:
    (finding,) = findings(tmp_path, records(n_source), records(n_target))
    assert (finding.message, finding.index) == (f"expected {n_source} records, found {n_target}", None)


def test_missing_and_extra_fields(tmp_path: Path) -> None:
    source = written(tmp_path / "a.ffr", [{"a": 1, "b": 2}], {"a": "int64", "b": "int64"})
    target = written(tmp_path / "b.syr", [{"a": 1, "c": 2}], {"a": "int64", "c": "int64"}, format="syrah")
    first, second = dataformats.verify(target, against=source).findings
    assert first.message.startswith("field 'b': expected this field of the source, found none. Pass fields= or rename=")
    assert second.message.startswith("field 'c': the source has no such field. Pass fields= or rename=")
    assert dataformats.verify(target, against=source, rename={"b": "c"}).ok
    assert dataformats.verify(target, against=source, fields=["a"]).ok


def test_verify_refuses_names_missing_in_the_source(tmp_path: Path) -> None:
    wrong: list[dict[str, Any]] = [{"fields": ["nix"]}, {"rename": {"nix": "x"}}]
    for options in wrong:
        with pytest.raises(dataformats.UnknownNameError, match="nix"):
            dataformats.verify(PHOTOS, against=PHOTOS, **options)
    with pytest.raises(dataformats.SpecError, match="have no spec"):
        dataformats.verify(PHOTOS, against=dataformats.open(PHOTOS).map(len))
    with pytest.raises(TypeError, match="against="):
        dataformats.verify(PHOTOS, limit=1)
    with pytest.raises(TypeError, match=r"an option of tfrecord .*, found 'fields'"):
        dataformats.verify(PHOTOS, fields=["name"])


def test_many_differences_are_counted(tmp_path: Path) -> None:
    source = written(tmp_path / "a.ffr", records(1100))
    target = written(tmp_path / "b", [record | {"n": -record["n"]} for record in records(1100)], format="granular")
    report = dataformats.verify(target, against=source)
    assert report.differences == {"n": 1099}
    assert [finding.index for finding in report.findings] == list(range(1, 11))
    assert report.to_json()["differences"] == {"n": 1099}


def test_damage_is_reported_and_the_other_records_are_compared(tmp_path: Path) -> None:
    sound = tmp_path / "sound.ffr"
    dataformats.convert(dataformats.open(DAMAGED, verify_checksums=False), sound)
    for target, source in ((DAMAGED, sound), (sound, DAMAGED)):
        (finding,) = dataformats.verify(target, against=source).findings
        assert (finding.kind, finding.index, finding.path) == ("ChecksumError", 3, str(DAMAGED))


def test_damage_of_a_selected_source_names_its_own_record(tmp_path: Path) -> None:
    """Record 8 of the source is record 5 of the new data."""

    def is_late(record: dict[str, Any]) -> bool:
        return bool(record["n"] > 2)

    some = [{"n": n, "text": f"text {n}"} for n in range(10)]
    source = written(tmp_path / "source", some, {"n": "int64", "text": "utf8"}, format="tfrecord")
    dataformats.convert(source, tmp_path / "new.ffr", where=is_late)
    data = bytearray(source.read_bytes())
    data[data.index(b"text 8")] ^= 1
    (tmp_path / "damaged").write_bytes(data)
    options: dict[str, Any] = {"against": tmp_path / "damaged", "source_options": {"format": "tfrecord"}}
    (finding,) = dataformats.verify(tmp_path / "new.ffr", where=is_late, **options).findings
    assert (finding.kind, finding.index, finding.path) == ("ChecksumError", 8, str(tmp_path / "damaged"))
    assert finding.message.startswith(f"record 8 of {finding.path!r}")


def test_omitted_record_is_one_finding(tmp_path: Path) -> None:
    source = dataformats.open(DAMAGED)
    kept = [index for index in range(len(source)) if index != 3]
    dataformats.convert(source.take(kept), tmp_path / "sound.ffr")
    (finding,) = dataformats.verify(tmp_path / "sound.ffr", against=DAMAGED).findings
    assert (finding.kind, finding.index, finding.path) == ("ChecksumError", 3, str(DAMAGED))
    dataformats.convert(source.take(kept[::-1]), tmp_path / "other.ffr")
    assert "Difference" in {
        finding.kind for finding in dataformats.verify(tmp_path / "other.ffr", against=DAMAGED).findings
    }


def test_verify_against_unopenable_source_raises(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        dataformats.verify(PHOTOS, against=tmp_path / "nothing.ffr")
    (tmp_path / "nameless").write_bytes(b"\xfe\xff\1\2" * 9)
    with pytest.raises(dataformats.FormatError, match="source_options="):
        dataformats.verify(PHOTOS, against=tmp_path / "nameless")


def test_opaque_fields_are_compared_as_bytes(tmp_path: Path) -> None:
    def pair(name: str, blob: bytes) -> Path:
        codecs = {"mytype": (lambda value: value, lambda blob: blob)}
        return written(tmp_path / name, [{"a": blob}], {"a": "mytype"}, format="granular", codecs=codecs)

    source, same, other = pair("a", b"x"), pair("b", b"x"), pair("c", b"y")
    assert dataformats.verify(same, against=source).ok
    assert dataformats.verify(other, against=source).differences == {"a": 1}


def test_a_target_cannot_have_the_source_unpickled(tmp_path: Path) -> None:
    source = written(tmp_path / "a.ffr", [{"a": b"no pickle"}], {"a": "bytes"})
    target = written(tmp_path / "b", [{"a": b"no pickle"}], {"a": "bytes"}, format="granular")
    spec = target / "spec.json"
    spec.write_text(spec.read_text().replace('"bytes"', '"pickle"'))
    report = dataformats.verify(target, against=source, source_options={"payload": "example", "spec": {"a": "bytes"}})
    assert not [finding for finding in report.findings if finding.kind == "Difference"]


class Squares(dataformats.RecordSource):
    """A source that computes its records."""

    @property
    def spec(self) -> dataformats.Spec:
        return dataformats.Spec({"n": "int64", "text": "utf8"})

    @property
    def fingerprint(self) -> str:
        return "squares"

    def __len__(self) -> int:
        return 1100

    def read(self, indices: Any, fields: Any = None, on_corrupt: Any = "raise", decode: Any = None) -> Any:
        n = np.asarray(indices, np.int64)
        columns: dict[str, Any] = {"n": n * n, "text": [str(number) for number in n]}
        return dataformats.RecordBatch({name: columns[name] for name in self.mask(fields)}, n)


@loop_over("name", ["x.ffr", "x.syr", "granular"])
def test_computed_records(tmp_path: Path, name: str) -> None:
    dataformats.convert(Squares(), tmp_path / name, None if "." in name else "granular")
    assert dataformats.verify(tmp_path / name, against=Squares()).ok
    assert dataformats.verify(Squares(), against=tmp_path / name).ok
    report = dataformats.verify(tmp_path / name, against=Squares()[::-1])
    assert report.differences == {"n": 1100, "text": 1100}


def test_views(tmp_path: Path) -> None:
    source = dataformats.open(DIGITS, spec={"image": "uint8[8,8]", "label": "int64"})
    chosen = source.where(lambda record: record["label"] == 3)
    dataformats.convert(chosen, tmp_path / "threes", "granular")
    assert dataformats.verify(tmp_path / "threes", against=chosen).ok
    assert not dataformats.verify(tmp_path / "threes", against=source).ok


def test_progress(tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    report: Callable[[int, int], None] = lambda done, total: calls.append((done, total))  # noqa: E731
    dataformats.verify(written(tmp_path / "a.ffr", records()), against=tmp_path / "a.ffr", progress=report)
    assert calls[-1] == (20, 20)
    dataformats.verify(PHOTOS, progress=report)  # whose spec is inferred from all records first
    assert calls[-1] == (24, 24)
