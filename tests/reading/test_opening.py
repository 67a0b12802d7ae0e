"""How `open` chooses format and payload: names, sidecars, empty files."""

from __future__ import annotations

import contextlib
import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest

import dataformats
from dataformats.registry import backends
from dataformats.storage.files import LocalFolder
from dataformats.testing.loop_over import loop_over
from tests.cases import GOLDEN, frames


@pytest.mark.parametrize("format", ["tfrecord", "ofrecord"])
def test_our_own_empty_files_open(tmp_path: Path, format: str) -> None:
    dataformats.create(tmp_path / "x", format, spec={"a": "int64"}).close()
    assert len(dataformats.open(tmp_path / "x")) == 0
    assert dataformats.verify(tmp_path / "x").ok


def test_files_of_ours_in_a_folder_keep_their_sidecars(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "x.ffr", "ffrecord", spec={"a": "int64"}) as writer:
        writer.append({"a": 1})
    assert dataformats.open(tmp_path)[0] == {"a": 1}


class Names(list[str]):
    """Names that count how often they are searched."""

    searches = 0

    def __contains__(self, name: object) -> bool:
        Names.searches += 1
        return super().__contains__(name)


@loop_over("format", [*backends])
def test_names_of_a_folder_are_not_searched_for_each(
    format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time of the search would be quadratic in the number of files."""
    for number in range(10):
        for name in (f"{number}.bin", f"{number}.idx", f"fineweb_train_{number:06d}.bin", f"{number}.tar"):
            (tmp_path / name).touch()
    names = LocalFolder(tmp_path).names()
    monkeypatch.setattr(LocalFolder, "names", lambda _: Names(names))
    Names.searches = 0
    backends.get(format).find(LocalFolder(tmp_path))
    assert Names.searches <= 3


class _Loud:
    def __reduce__(self) -> tuple[Any, ...]:
        return pytest.fail, ("a pickle in data was run",)


def test_only_the_call_can_name_pickle(tmp_path: Path) -> None:
    path = tmp_path / "x.ffr"
    with dataformats.create(path, "ffrecord", spec={"x": "bytes"}) as writer:
        writer.append({"x": pickle.dumps(_Loud())})
    sidecar = tmp_path / "x.ffr.dataformats.json"
    sidecar.write_text(json.dumps(json.loads(sidecar.read_text()) | {"spec": {"x": "pickle"}}))
    for payload in (None, "example"):
        source = dataformats.open(path, payload=payload)
        assert [*source.spec_facts.opaque_fields] == ["x"]
        assert source[0] == {"x": pickle.dumps(_Loud())}
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
    assert named.spec == {"a": "pickle", "b": "bytes"}
    assert pickle.loads(pickle.dumps(named)).spec == named.spec
    assert named[0, ["b"]] == {"b": pickle.dumps(_Loud())}
    quiet, blob = dataformats.open(path), pickle.dumps(_Loud())
    for source in (
        pickle.loads(pickle.dumps(quiet)),
        quiet.with_spec(dataformats.Spec({"b": "pickle"})),
        dataformats.concat([quiet, quiet]),
    ):
        assert source[0] == {"a": blob, "b": blob}
    with pytest.raises(refused):
        named.with_spec({"b": "nonsense"})
    first = named.select("a")
    assert dataformats.concat([first, quiet.select("a")])[3] == {"a": blob}
    assert dataformats.verify(path).opaque == {"a": "pickle", "b": "pickle"}
    for source in (quiet, dataformats.mix({"x": quiet, "y": quiet})):
        with dataformats.Loader(source, batch_size=1) as loader:
            assert list(next(iter(loader))["a"]) == [blob]


@loop_over("spec", [None, {"b": "pickle"}, {"a": "pickle", "b": "pickle"}])
@loop_over("source_spec", [None, {"a": "bytes", "b": "bytes"}])
def test_a_conversion_runs_no_pickle_of_a_file(spec: Any, source_spec: Any, tmp_path: Path) -> None:
    path = _loud_folder(tmp_path, ("a", "b"))
    options: Any = {"spec": spec, "source_options": {"spec": source_spec} if source_spec else None}
    for format in ("granular", "tfrecord"):
        with contextlib.suppress(dataformats.DataFormatsError):
            dataformats.convert(path, tmp_path / format, format, **options)


def test_spec_does_not_make_sidecar_payload_trusted(tmp_path: Path) -> None:
    path = tmp_path / "x.ffr"
    with dataformats.create(path, "ffrecord", payload="bytes") as writer:
        writer.append(pickle.dumps(_Loud()))
    sidecar = {"version": 1, "format": "ffrecord", "payload": "pickle"}
    (tmp_path / "x.ffr.dataformats.json").write_text(json.dumps(sidecar))
    for spec in (None, {"a": "pickle"}, {"value": "pickle"}):
        with pytest.raises(dataformats.UnknownNameError, match="file may name"):
            dataformats.open(path, spec=spec)[0]


@loop_over("path", ["granular/v2/base", "syrah/base.syr", "real/photos.tfrecord"])
def test_a_pickled_source_keeps_its_spec(path: str) -> None:
    whole = dataformats.open(Path("tests/golden") / path)
    name = next(name for name, kind in whole.spec.items() if kind.codec in ("bytes", "utf8"))
    chosen = whole.with_spec({name: "bytes"})
    again = pickle.loads(pickle.dumps(chosen))
    assert (again.spec, again.spec_facts.provenance) == ({**whole.spec, name: again.spec[name]}, "declared")
    assert again.spec[name] == dataformats.Type("bytes")
    assert [*again[0]] == [*whole[0]]
    assert pickle.loads(pickle.dumps(whole)).spec == whole.spec
    assert pickle.loads(pickle.dumps(whole)).spec_facts == whole.spec_facts


def test_a_description_of_one_kind_of_name() -> None:
    with pytest.raises(dataformats.UnknownNameError, match="'5'"):
        dataformats.open("tests", format=5)  # type: ignore[arg-type]  # what a caller without types may do
    with pytest.raises(FileNotFoundError):
        dataformats.open("")


def test_an_unknown_format_is_named_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_bytes(b"\xfe\xff\1\2" * 20)
    with pytest.raises(dataformats.FormatError, match=r"no known format: it begins with b.*xfe") as caught:
        dataformats.open(tmp_path / "notes.md")
    assert (caught.value.path, caught.value.remedy) == (str(tmp_path / "notes.md"), "Pass format= if you know it.")
    with pytest.raises(
        dataformats.FormatError, match=r"the folder holds a file of no known format: 'notes\.md'"
    ) as caught:
        dataformats.open(tmp_path)
    assert (caught.value.path, caught.value.remedy) == (str(tmp_path), "Pass format=, or a glob.")


# ---- empty files


@pytest.mark.filterwarnings("ignore:.* shards are missing")
@loop_over("name", ["e.tfrecord", "e.tfrecords", "e.tfrecord.gz", "e-00001-of-00002", "e.ofrecord", "part-7", "e.bag"])
def test_an_empty_file_whose_name_is_of_a_format_is_an_empty_dataset(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    for path in (tmp_path / name, [tmp_path / name] * 2, f"{tmp_path}/{name[:2]}*"):
        source = dataformats.open(path)
        assert (len(source), list(source)) == (0, [])
    if name != "e.bag":
        assert len(dataformats.open(tmp_path)) == 0
    assert dataformats.verify(tmp_path / name).ok
    assert dataformats.info(tmp_path / name).records == 0


def test_empty_shards_among_others(tmp_path: Path) -> None:
    for n, count in enumerate((0, 2, 0)):
        (tmp_path / f"x-0000{n}-of-00003").write_bytes(frames(*[b"a"] * count))
    for path in (tmp_path, f"{tmp_path}/*", sorted(tmp_path.iterdir())):
        assert list(dataformats.open(path)) == [b"a", b"a"]


@pytest.mark.parametrize("name", ["e.ffr", "e.syr"])
def test_empty_file_is_refused_as_too_short(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(dataformats.TruncatedError, match="too short for a header"):
        dataformats.open(tmp_path / name)


def test_empty_files_of_no_format_or_of_several(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("e", "e.tfrecord", "e.ofrecord")]
    for path in paths:
        path.touch()
    cases: list[tuple[Any, str]] = [(paths[0], "the file"), (paths, "every file"), (paths[1:], "every file")]
    for path, match in cases:
        with pytest.raises(dataformats.FormatError, match=f"{match} is empty") as caught:
            dataformats.open(path)
        assert "format=" in str(caught.value.remedy)
    assert len(dataformats.open(paths, format="tfrecord")) == 0


# ---- sidecar, name, content


def test_a_file_whose_checksums_fail_is_not_read_as_a_format_without(tmp_path: Path) -> None:
    """Leaving out bytes of the header makes a frame of OFRecord."""
    data = (GOLDEN / "tfrecord" / "sequence.tfrecord").read_bytes()
    for name in ("x.tfrecord", "x"):
        (tmp_path / name).write_bytes(data[:8] + data[12:])
        source = dataformats.open(tmp_path / name)
        assert (source.format, len(source)) == ("tfrecord", 1)
        with pytest.raises(dataformats.ChecksumError):
            source[0]


def test_the_format_in_the_sidecar_counts_before_name_and_content(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with dataformats.create(path, "ofrecord", payload="msgpack") as writer:
        writer.append({"a": 1})
    assert dataformats.open(path)[0] == {"a": 1}
    shutil.copy(GOLDEN / "tfrecord" / "raw.tfrecord", path)
    with pytest.raises(dataformats.FormatError, match="sidecar"):
        dataformats.open(path)
    assert dataformats.open(path, format="tfrecord", payload="bytes", spec={"value": "bytes"}).format == "tfrecord"


def test_checked_content_counts_before_the_name(tmp_path: Path) -> None:
    for name in ("x.ffr", "x.bag", "x.ofrecord", "part-0", "x"):
        shutil.copy(GOLDEN / "tfrecord" / "raw.tfrecord", tmp_path / name)
        assert dataformats.open(tmp_path / name).format == "tfrecord"
    shutil.copy(GOLDEN / "ofrecord" / "base.ofrecord", tmp_path / "y")
    assert dataformats.open(tmp_path / "y").format == "ofrecord"
    shutil.copy(GOLDEN / "ofrecord" / "base.ofrecord", tmp_path / "y.tfrecord")
    with pytest.raises(dataformats.FormatError, match="may be of a format without checksums: pass format='ofrecord'"):
        dataformats.open(tmp_path / "y.tfrecord")


# ---- the place of indexes


def test_an_index_beside_a_file_of_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.tfrecord").write_bytes(frames(b"a", b"b"))
    monkeypatch.chdir(tmp_path)
    assert len(dataformats.open("x.tfrecord", index="beside")) == 2
    assert (tmp_path / "x.tfrecord.dataformats.idx").exists()


@pytest.mark.parametrize("format", ["tfrecord", "ffrecord"])
def test_a_misspelt_place_of_indexes_makes_no_folder(
    format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with dataformats.create(tmp_path / "x", format) as writer:
        writer.append(b"a")
    monkeypatch.chdir(tmp_path)
    for word, nearest in (("besides", "beside"), ("cahce", "cache"), ("", "known")):
        with pytest.raises(dataformats.UnknownNameError, match=nearest) as caught:
            dataformats.open("x", index=word)
        assert "./indexes" in str(caught.value.remedy)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x"]
    (tmp_path / "besides").mkdir()
    for folder in ("besides", "./new", str(tmp_path / "other")):
        assert len(dataformats.open("x", index=folder)) == 1


def test_impossible_sizes_in_sidecar_raise(tmp_path: Path) -> None:
    """The size is refused also for a field that no record has: a batch would need an array of that size."""
    path = tmp_path / "x.ffr"
    with dataformats.create(path, "ffrecord", spec={"x": "int64"}) as writer:
        writer.append({"x": 1})
    sidecar = tmp_path / "x.ffr.dataformats.json"
    for name in ("x", "y"):
        metadata = {"version": 1, "payload": "example", "spec": {name: f"uint8[{','.join(['2147483647'] * 32)}]?"}}
        sidecar.write_text(json.dumps(metadata))
        with pytest.raises(dataformats.DataFormatsError):
            dataformats.open(path)[0]


def test_a_sidecar_with_an_invalid_format_names_itself(tmp_path: Path) -> None:
    (tmp_path / "e.tfrecord").touch()
    (tmp_path / "e.tfrecord.dataformats.json").write_text('{"version": 1, "format": {}}')
    with pytest.raises(dataformats.FormatError, match=r"e\.tfrecord\.dataformats\.json.*invalid 'format'"):
        dataformats.open(tmp_path / "e.tfrecord")


def test_a_missing_file_with_partial_data_says_so(tmp_path: Path) -> None:
    writer = dataformats.create(tmp_path / "x.ffr", "ffrecord", resume=True)
    writer.append(b"data")
    writer.abort()
    with pytest.raises(FileNotFoundError, match=r"x\.ffr\.partial.*resume=True"):
        dataformats.open(tmp_path / "x.ffr")


def test_files_of_several_formats(tmp_path: Path) -> None:
    for name in ("x.tfrecord", "x.ffr"):
        with dataformats.create(tmp_path / name) as writer:
            writer.append(b"one")
    first, other = tmp_path / "x.tfrecord", tmp_path / "x.ffr"
    for paths in ([first, other], [other, first]):
        for sidecar in tmp_path.glob("*.json"):
            sidecar.unlink()
        words = rf"{paths[1].name}': the files are of several formats: .* the first file, '.*{paths[0].name}'"
        with pytest.raises(dataformats.FormatError, match=words):
            dataformats.open(paths)
    other.write_bytes(first.read_bytes())  # the content counts, not the name
    assert len(dataformats.open([first, other])) == 2
