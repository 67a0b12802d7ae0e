"""How `open` chooses format and payload: names, sidecars, empty files."""

from __future__ import annotations

import contextlib
import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import dataformats


@pytest.mark.parametrize("format", ["tfrecord", "ofrecord"])
def test_our_own_empty_files_open(tmp_path: Path, format: str) -> None:
    dataformats.create(tmp_path / "x", format, spec={"a": "int64"}).close()
    assert len(dataformats.open(tmp_path / "x")) == 0
    assert dataformats.verify(tmp_path / "x").ok


def test_files_of_ours_in_a_folder_keep_their_siblings(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "x.ffr", "ffrecord", spec={"a": "int64"}) as writer:
        writer.append({"a": 1})
    assert dataformats.open(tmp_path)[0] == {"a": 1}


class _Loud:
    def __reduce__(self) -> tuple[Any, ...]:
        return pytest.fail, ("a pickle in data was run",)


def test_only_the_call_can_name_pickle(tmp_path: Path) -> None:
    path = tmp_path / "x.ffr"
    with dataformats.create(path, "ffrecord", spec={"x": "bytes"}) as writer:
        writer.append({"x": pickle.dumps(_Loud())})
    sibling = tmp_path / "x.ffr.dataformats.json"
    sibling.write_text(json.dumps(json.loads(sibling.read_text()) | {"spec": {"x": "pickle"}}))
    for payload in (None, "example"):
        with pytest.raises(dataformats.UnknownNameError, match="file may name"):
            dataformats.open(path, payload=payload)[0]
    assert dataformats.convert(path, tmp_path / "y.tfrecord", "tfrecord").copied


@pytest.mark.parametrize("format", ["granular", "syrah"])
def test_a_payload_is_refused_if_fields_are_stored_apart(format: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    with dataformats.create(path, format, spec={"x": "int64"}) as writer:
        writer.append({"x": 1})
    for call in (dataformats.open, dataformats.info, dataformats.verify):
        with pytest.raises(dataformats.SpecError, match=f"{format} stores each field separately") as caught:
            call(path, payload="msgpack")
        assert "Leave out payload='msgpack'" in str(caught.value.remedy)


def _loud_folder(tmp_path: Path, fields: tuple[str, ...]) -> Path:
    """A Granular dataset whose own spec names pickle for each field."""
    path = tmp_path / "data"
    with dataformats.create(path, "granular", spec=dict.fromkeys(fields, "bytes")) as writer:
        writer.extend(dict.fromkeys(fields, pickle.dumps(_Loud())) for _ in range(3))
    (path / "spec.json").write_text(json.dumps(dict.fromkeys(fields, "pickle")))
    (tmp_path / "data.dataformats.json").unlink(missing_ok=True)
    return path


def test_a_name_in_files_is_trusted_in_no_way(tmp_path: Path) -> None:
    path = _loud_folder(tmp_path, ("a", "b"))
    refused = (dataformats.UnknownNameError, dataformats.SpecError)
    with pytest.raises(refused):
        dataformats.open(path, payload="pickle")[0]
    named = dataformats.open(path, spec={"a": "pickle"})
    assert list(named.spec) == ["a"]
    for fields in (["b"], ["a", "b"]):
        with pytest.raises(refused):
            named.read([0], fields)
    quiet = dataformats.open(path)
    first = dataformats.open(path, spec={"a": "pickle"}).select("a")
    for source in (
        pickle.loads(pickle.dumps(quiet)),
        quiet.with_spec(dataformats.Spec({"b": "pickle"})),
        dataformats.concat([quiet, quiet]).select("b"),
    ):
        with pytest.raises(refused):
            source[0]
    with pytest.raises(refused):
        dataformats.concat([first, quiet])[3]
    assert dataformats.verify(path).opaque == {"a": "pickle", "b": "pickle"}
    for source in (quiet, dataformats.mix({"x": quiet, "y": quiet})):
        with dataformats.Loader(source, batch_size=1) as loader, pytest.raises(refused):
            next(iter(loader))


@pytest.mark.parametrize("spec", [None, {"b": "pickle"}, {"a": "pickle", "b": "pickle"}])
@pytest.mark.parametrize("source_spec", [None, {"a": "bytes", "b": "bytes"}])
def test_a_conversion_runs_no_pickle_of_a_file(spec: Any, source_spec: Any, tmp_path: Path) -> None:
    path = _loud_folder(tmp_path, ("a", "b"))
    options: Any = {"spec": spec, "source_options": {"spec": source_spec} if source_spec else None}
    for format in ("granular", "tfrecord"):
        with contextlib.suppress(dataformats.DataFormatsError):
            dataformats.convert(path, tmp_path / format, format, **options)


def test_a_payload_that_a_sidecar_names_is_not_trusted_because_of_the_spec(tmp_path: Path) -> None:
    path = tmp_path / "x.ffr"
    with dataformats.create(path, "ffrecord", payload="bytes") as writer:
        writer.append(pickle.dumps(_Loud()))
    sidecar = {"version": 1, "format": "ffrecord", "payload": "pickle"}
    (tmp_path / "x.ffr.dataformats.json").write_text(json.dumps(sidecar))
    for spec in (None, {"a": "pickle"}, {"value": "pickle"}):
        with pytest.raises(dataformats.UnknownNameError, match="file may name"):
            dataformats.open(path, spec=spec)[0]


@pytest.mark.parametrize("path", ["granular/v2/base", "syrah/base.syr", "real/photos.tfrecord"])
def test_a_pickled_source_keeps_its_spec(path: str) -> None:
    whole = dataformats.open(Path("tests/golden") / path)
    name = next(iter(whole.spec))
    chosen = whole.with_spec(whole.spec.select([name]))
    again = pickle.loads(pickle.dumps(chosen))
    assert (again.spec, again.spec_is_inferred) == (chosen.spec, False)
    assert [*again[0]] == [name]
    assert pickle.loads(pickle.dumps(whole)).spec == whole.spec
    assert pickle.loads(pickle.dumps(whole)).spec_is_inferred == whole.spec_is_inferred


def test_a_description_of_one_kind_of_name() -> None:
    with pytest.raises(dataformats.UnknownNameError, match="'5'"):
        dataformats.open("tests", format=5)  # type: ignore[arg-type]  # what a caller without types may do
    with pytest.raises(FileNotFoundError):
        dataformats.open("")


def test_an_unknown_format_is_named_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("# Notes\n" * 20)
    with pytest.raises(dataformats.FormatError, match="not tfrecord") as caught:
        dataformats.open(tmp_path / "notes.md")
    assert (caught.value.path, caught.value.remedy) == (str(tmp_path / "notes.md"), "Pass format= if you know it.")
    with pytest.raises(
        dataformats.FormatError, match=r"the folder holds a file of no known format: 'notes\.md'"
    ) as caught:
        dataformats.open(tmp_path)
    assert (caught.value.path, caught.value.remedy) == (str(tmp_path), "Pass format=, or a glob.")
