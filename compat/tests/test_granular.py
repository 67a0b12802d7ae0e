"""`dataformats_compat.granular`: files, readers and writers, as the original has them."""

from __future__ import annotations

import gc
import io
import json
import os
import pickle
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.errors import FormatError, TruncatedError
from dataformats_compat import granular
from dataformats_compat.granular.bag import SharedBuffer

SPEC = {"text": "utf8", "n": "int"}


def point(n: int) -> dict[str, Any]:
    return {"n": n, "text": f"row {n}"}


def written(folder: Path, n: int = 5, **options: Any) -> Path:
    with granular.DatasetWriter(folder, SPEC, granular.encoders, **options) as writer:
        for number in range(n):
            writer.append(point(number))
    return folder


def ends(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}Q", *numbers)


# ---- writing in place


def test_rows_are_visible_before_close(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    writer = granular.DatasetWriter(str(folder), SPEC, granular.encoders)
    assert json.loads((folder / "spec.json").read_bytes()) == SPEC
    assert list(json.loads((folder / "spec.json").read_bytes())) == ["n", "text"]
    assert [writer.append(point(0)), writer.append(point(1), flush=False)] == [0, 1]
    assert (folder / "text.bag").read_bytes() == b"row 0"
    assert (folder / "n.idx").read_bytes() == ends(1)
    writer.flush()
    assert {path.name for path in folder.iterdir()} == {"spec.json", "n.bag", "n.idx", "text.bag", "text.idx"}
    with granular.DatasetReader(folder, granular.decoders) as reader:
        assert [reader[0], reader[1]] == [point(0), point(1)]
        writer.append(point(2))
        assert len(reader) == 2
        assert reader[1] == point(1)  # the files have grown
    assert (len(writer), writer.size, writer.spec) == (3, 3 * (1 + 5 + 16), SPEC)
    writer.close()
    writer.close()
    assert [dict(record) for record in dataformats.open(folder)] == [point(0), point(1), point(2)]


def test_a_dataset_is_continued(tmp_path: Path) -> None:
    folder = written(tmp_path / "set", 2)
    with granular.DatasetWriter(folder, SPEC, granular.encoders) as writer:
        assert len(writer) == 2
        assert writer.append(point(2)) == 2
    with dataformats.create(folder, "granular", spec=SPEC, append=True) as ours:
        ours.append(point(3))
    with granular.DatasetReader(folder, granular.decoders) as reader:
        assert [reader[n] for n in range(4)] == [point(n) for n in range(4)]
    with pytest.raises(AssertionError, match="cannot append"):
        granular.DatasetWriter(folder, {"text": "utf8"}, granular.encoders)


def test_verify_accepts_appended_rows(tmp_path: Path) -> None:
    """The drop-in module appends to bags, and leaves the sidecar as it is."""
    path = tmp_path / "x"
    with dataformats.create(path, "granular", spec={"n": "int64", "text": "utf8"}) as writer:
        writer.append({"n": 1, "text": "a"})
    assert path.with_name("x.dataformats.json").exists()
    with granular.DatasetWriter(path, json.loads((path / "spec.json").read_text()), granular.encoders) as other:
        other.append({"n": 2, "text": "b"})
    report = dataformats.verify(path)
    assert (report.findings, report.records) == ((), 2)


def test_longer_field_must_match_appended_rows(tmp_path: Path) -> None:
    folder = written(tmp_path / "set", 2)
    with granular.BagWriter(folder / "n.bag") as ahead:
        ahead.append(b"\2")
        ahead.append(b"\3")
    with pytest.raises(FormatError, match="different numbers of values"):
        granular.DatasetReader(folder, granular.decoders)
    with granular.DatasetWriter(folder, SPEC, granular.encoders) as writer:
        assert writer.append(point(2)) == 2
        with pytest.raises(ValueError, match="Record mismatch in column 'n' at index 3"):
            writer.append(point(9))
        assert writer.append(point(3)) == 3
        assert writer.append(point(4)) == 4
    with granular.DatasetReader(folder, granular.decoders) as reader:
        assert [reader[n] for n in range(5)] == [point(n) for n in range(5)]


def test_a_mismatch_leaves_the_other_fields_as_they_are(tmp_path: Path) -> None:
    folder = written(tmp_path / "set", 1)
    with granular.BagWriter(folder / "text.bag") as ahead:  # the last field
        ahead.append(b"row 1")
    with granular.DatasetWriter(folder, SPEC, granular.encoders) as writer:
        with pytest.raises(ValueError, match="Record mismatch"):
            writer.append(point(7))
        assert [writer.append(point(n)) for n in (1, 2)] == [1, 2]
    with granular.DatasetReader(folder, granular.decoders) as reader:
        assert [reader[n] for n in range(3)] == [point(n) for n in range(3)]


@pytest.mark.parametrize("left", [b"", b"th", b"third", b"thirdfou"])
def test_bytes_behind_the_last_end_are_used_again(tmp_path: Path, left: bytes) -> None:
    path = tmp_path / "x.bag"
    with granular.BagWriter(path) as writer:
        writer.append(b"first")
    with path.open("ab") as file:
        file.write(left)
    with granular.BagWriter(path) as writer:
        assert (len(writer), writer.append(b"third"), writer.append(b"fourth")) == (1, 1, 2)
    assert path.read_bytes() == b"firstthirdfourth"
    assert (tmp_path / "x.idx").read_bytes() == ends(5, 10, 16)


def test_other_bytes_behind_the_last_end_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.bag"
    path.write_bytes(b"other")
    writer = granular.BagWriter(str(path))
    writer.append(b"first", flush=False)
    with pytest.raises(ValueError, match="does not match"):
        writer.flush()
    with pytest.raises(KeyError), writer:  # closing fails, too, and does not hide it
        raise KeyError
    assert path.read_bytes() == b"other"


def test_a_torn_end_is_dropped_and_a_short_bag_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.bag"
    path.write_bytes(b"onetwo")
    path.with_suffix(".idx").write_bytes(ends(3, 6)[:-3])
    with granular.BagWriter(path) as writer:
        assert writer.append(b"two") == 1
    assert path.with_suffix(".idx").read_bytes() == ends(3, 6)
    path.write_bytes(b"one")
    with pytest.raises(TruncatedError, match="shorter than its ends"):
        granular.BagWriter(path)
    with granular.BagReader(path) as reader, pytest.raises(FormatError, match="behind the bag"):
        reader[1]


def test_failed_flush_is_repeated(tmp_path: Path) -> None:
    class Full(io.FileIO):
        """A file on a disk that is full after three bytes."""

        def write(self, data: Any) -> int:
            super().write(bytes(data)[:3])
            raise OSError("no space")

    path = tmp_path / "x.bag"
    with granular.BagWriter(path) as writer:
        writer.append(b"first")
        for name in ("idx", "bag"):
            file = getattr(writer, name)
            setattr(writer, name, Full(file.name, "ab"))
            with pytest.raises(OSError, match="no space"):
                writer.append(b"second")
            getattr(writer, name).close()
            setattr(writer, name, file)
        writer.flush()
        assert writer.append(b"last") == 3
    assert path.read_bytes() == b"firstsecondsecondlast"
    assert path.with_suffix(".idx").read_bytes() == ends(5, 11, 17, 21)


def test_unencodable_row_leaves_nothing(tmp_path: Path) -> None:
    with granular.DatasetWriter(tmp_path / "set", SPEC, granular.encoders) as writer:
        with pytest.raises(AttributeError, match="encode") as caught:
            writer.append({"n": 1, "text": 5})
        assert caught.value.__notes__ == ["while encoding field 'text' of type 'utf8'"]
        wrong: Any
        for wrong in ({"n": 1}, {"n": 1, "text": "", "more": 1}, [("n", 1)]):
            with pytest.raises(AssertionError, match="expected a dict with the fields n, text"):
                writer.append(wrong)
        assert writer.append(point(0)) == 0
    assert granular.DatasetReader(tmp_path / "set", granular.decoders)[0] == point(0)


def test_without_encoders_values_are_bytes(tmp_path: Path) -> None:
    with granular.DatasetWriter(tmp_path / "set", {"raw": "anything"}, None) as writer:
        writer.append({"raw": b""})
        with pytest.raises(AssertionError, match="expected bytes"):
            writer.append({"raw": bytearray(2)})
    with granular.DatasetReader(tmp_path / "set", None) as reader:
        assert reader[0] == {"raw": b""}
    with pytest.raises(KeyError, match="anything"):
        granular.DatasetReader(tmp_path / "set", granular.decoders)
    with pytest.raises(KeyError, match="zz"):
        granular.DatasetWriter(tmp_path / "other", {"raw": "zz"}, granular.encoders)
    with pytest.raises(AssertionError, match="at least one field"):
        granular.DatasetWriter(tmp_path / "other", {}, granular.encoders)
    for name in ("A", "1", "../a", "a/b", ""):
        with pytest.raises(AssertionError, match="lower-case"):
            granular.DatasetWriter(tmp_path / "other", {name: "int"}, granular.encoders)


# ---- reading


def test_reader_accepts_indices_slices_and_masks(tmp_path: Path) -> None:
    reader = granular.DatasetReader(written(tmp_path / "set"), granular.decoders, cache_keys=["n"])
    assert reader[np.int64(3)] == point(3)
    assert reader[3, ("text",)] == reader[3, ["text"]] == reader[3, {"text": True, "n": False}] == {"text": "row 3"}
    assert reader[3, ()] == {}
    assert reader[1:3] == reader[range(1, 3)] == {"n": [1, 2], "text": ["row 1", "row 2"]}
    assert reader[3:99, ("n",)] == {"n": [3, 4]}
    assert (reader[:2, ("n",)], reader[1:1]) == ({"n": [0, 1]}, {"n": [], "text": []})
    assert [record["n"] for record in _iterated(reader)] == [0, 1, 2, 3, 4]
    assert reader.size == sum(path.stat().st_size for path in (tmp_path / "set").glob("*.[bi]*"))
    for wrong in (slice(3, 2), slice(0, 4, 2), slice(-2, 4)):
        with pytest.raises(AssertionError, match="0 <= start <= stop"):
            reader[wrong]
    for index in (-1, 5):
        with pytest.raises(IndexError, match="out of range for 5 rows"):
            reader[index]
    for mask in (("zz",), 5, {"text": range(2)}):
        with pytest.raises(AssertionError, match="expected"):
            reader[0, mask]
    reader.close()
    with pytest.raises(AssertionError, match="closed"):
        reader[0]


def _iterated(reader: Any) -> Iterator[dict[str, Any]]:
    """Yield as `for` does it for a class with `[]` alone."""
    yield from reader


def test_unknown_cache_keys_are_refused(tmp_path: Path) -> None:
    folder = written(tmp_path / "set")
    for wrong in (("zz",), "n"):
        with pytest.raises(AssertionError, match="cache_keys"):
            granular.DatasetReader(folder, granular.decoders, cache_keys=wrong)


def test_failing_decoder_notes_field_and_row(tmp_path: Path) -> None:
    def fail(blob: bytes) -> int:
        raise RuntimeError("mine")

    with granular.DatasetReader(written(tmp_path / "set"), {**granular.decoders, "int": fail}) as reader:
        assert reader[0, ("text",)] == {"text": "row 0"}
        with pytest.raises(RuntimeError, match="mine") as caught:
            reader[2]
        assert caught.value.__notes__ == ["while decoding field 'n' of type 'int', 2"]


@pytest.mark.parametrize("cached", [False, True])
def test_readers_are_pickled(tmp_path: Path, cached: bool) -> None:
    folder = written(tmp_path / "set")
    reader = granular.DatasetReader(folder, granular.decoders, cached, ("text",) if cached else ())
    copied = pickle.loads(pickle.dumps(reader.copy()))
    assert copied[1:3] == reader[1:3]
    copied.close()
    assert reader[4] == point(4)
    reader.close()


def test_sources_of_a_bag(tmp_path: Path) -> None:
    path = tmp_path / "x.bag"
    with granular.BagWriter(path) as writer:
        for record in (b"", b"ab", b"c"):
            writer.append(record)
    bag, idx = path.read_bytes(), path.with_suffix(".idx").read_bytes()
    single = bag[:0] + b"abc" + ends(2, 3)
    sources: list[tuple[Any, ...]] = [
        (path,),
        (bag, idx),
        (SharedBuffer(bag), SharedBuffer(idx)),
        (path, path.with_suffix(".idx")),
    ]
    cached: dict[str, Any] = {"cache_data": True}
    for source in sources:
        with granular.BagReader(*source, **cached) as reader:
            assert (len(reader), reader.size) == (3, 3 + 24)
            assert [reader[n] for n in range(3)] == reader[0:9] == [b"", b"ab", b"c"]
    with granular.BagReader(single) as reader:
        assert reader[0:2] == [b"ab", b"c"]
    with granular.BagReader(path) as reader, pytest.raises(TypeError):
        reader["0"]


def test_a_field_may_be_called_refs(tmp_path: Path) -> None:
    for _ in range(2):
        with granular.DatasetWriter(tmp_path / "set", {"refs": "int"}, granular.encoders) as writer:
            writer.append({"refs": 5})
    assert granular.DatasetReader(tmp_path / "set", granular.decoders)[0:2] == {"refs": [5, 5]}


def test_full_shared_memory_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = written(tmp_path / "set")
    monkeypatch.setattr("os.statvfs", lambda path: os.statvfs_result((4096, 4096, 9, 0, 0, 0, 0, 0, 0, 255)))
    with pytest.raises(OSError, match="Pass cache_index=False"):
        granular.DatasetReader(folder, granular.decoders)
    assert granular.DatasetReader(folder, granular.decoders, cache_index=False)[1] == point(1)


def test_damaged_ends_are_errors_of_their_records(tmp_path: Path) -> None:
    path = tmp_path / "x.bag"
    path.write_bytes(b"abcd")
    path.with_suffix(".idx").write_bytes(ends(1, 2**60, 3, 4))
    with granular.BagReader(path, cache_index=False) as reader:
        assert [reader[0], reader[3]] == [b"a", b"d"]
        for wrong in (1, 2, slice(0, 3)):
            with pytest.raises(FormatError, match="expected an end from"):
                reader[wrong]


@pytest.mark.parametrize("text", ["[]", '{"a": 1}', "{", '{"../a": "int"}'])
def test_a_wrong_spec_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "spec.json").write_text(text)
    with pytest.raises(FormatError, match=r"spec\.json"):
        granular.DatasetReader(tmp_path, granular.decoders)


class Elsewhere:
    """A path object over a dict, with the few methods that the original needs."""

    def __init__(self, files: dict[str, bytes], path: str) -> None:
        self.files, self.path = files, path
        self.name = path.rpartition("/")[2]

    @property
    def parent(self) -> Elsewhere:
        return Elsewhere(self.files, self.path.rpartition("/")[0])

    def __truediv__(self, name: str) -> Elsewhere:
        return Elsewhere(self.files, f"{self.path}/{name}")

    def with_suffix(self, suffix: str) -> Elsewhere:
        return Elsewhere(self.files, self.path.rpartition(".")[0] + suffix)

    def exists(self) -> bool:
        return any(name == self.path or name.startswith(self.path + "/") for name in self.files)

    def mkdir(self, **_: Any) -> None:
        pass

    def glob(self, pattern: str) -> list[Elsewhere]:
        inside = {name[len(self.path) + 1 :].partition("/")[0] for name in self.files if name.startswith(self.path)}
        return [self / name for name in inside]

    def open(self, mode: str) -> io.BytesIO:
        if mode == "rb":
            return io.BytesIO(self.files[self.path])
        return _Written(self, self.files.setdefault(self.path, b"") if mode == "ab" else b"")


class _Written(io.BytesIO):
    def __init__(self, path: Elsewhere, present: bytes) -> None:
        super().__init__()
        self.path = path
        self.write(present)

    def flush(self) -> None:
        self.path.files[self.path.path] = self.getvalue()

    def close(self) -> None:
        self.flush()
        super().close()


@pytest.mark.parametrize("parallel", [False, True])
def test_path_objects(parallel: bool) -> None:
    folder = Elsewhere({}, "gs://bucket/set")
    for first in (0, 3):  # the second writer continues
        with granular.ShardedDatasetWriter(folder, SPEC, granular.encoders, shardlen=4) as writer:
            for n in range(first, first + 3):
                writer.append(point(n))
    assert sorted({name.rpartition("/")[0] for name in folder.files})[-1] == "gs://bucket/set/000001"
    with granular.ShardedDatasetReader(folder, granular.decoders, parallel=parallel, cache_keys=("n",)) as reader:
        assert [reader[n] for n in range(6)] == [point(n) for n in range(6)]
        assert reader[2:5, ("n",)] == {"n": [2, 3, 4]}


# ---- granular 0.21


@pytest.mark.parametrize("version", [1, 2])
def test_bags_of_one_file(tmp_path: Path, version: int) -> None:
    path = tmp_path / "x.bag"
    with granular.BagWriter(path, version=version) as writer:
        assert [writer.append(b"ab"), writer.append(b"c", flush=False)] == [0, 1]
        if version == 2:
            with pytest.raises(AssertionError, match="not empty"):
                writer.append(b"")
    assert path.read_bytes() == b"abc" + ends(*[0, 2, 3][version - 1 :])
    assert [file.name for file in tmp_path.iterdir()] == ["x.bag"]
    assert writer.size == path.stat().st_size
    options: Any
    for options in ((False,), (True, True), (None, None, True, True)):
        with granular.BagReader(path, *options) as reader:
            assert (reader[0], reader[0:5], len(reader), reader.size) == (b"ab", [b"ab", b"c"], 2, writer.size)
    with pytest.raises(AssertionError, match="written once"):
        granular.BagWriter(path, version)
    with pytest.raises(AssertionError, match="version 1, 2 or 3"):
        granular.BagWriter(path, version=4)


def test_sequences(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    with granular.DatasetWriter(folder, {"n": "int", "words": "utf8[]"}, granular.encoders) as writer:
        for n in range(4):
            writer.append({"n": n, "words": (f"w{i}" for i in range(n))})
    assert {path.name for path in folder.iterdir()} == {"spec.json", "refs.bag", "n.bag", "words.bag"}
    assert writer.size == sum(path.stat().st_size for path in folder.glob("*.bag"))
    for cached in ((), ("refs", "words")):
        with granular.DatasetReader(folder, granular.decoders, cache_keys=cached) as reader:
            assert reader[3] == {"n": 3, "words": ["w0", "w1", "w2"]}
            assert reader[3, {"words": range(1, 9)}] == {"words": ["w1", "w2"]}
            assert (reader[0, {"words": range(2)}], reader[2, {"words": False}]) == ({"words": []}, {})
            assert reader.available(3) == {"n": True, "words": range(3)}
            assert reader[1:4, {"n": True}] == {"n": [1, 2, 3]}
            assert reader[1:3] == {"n": [1, 2], "words": [["w0"], ["w0", "w1"]]}
            for wrong in ({"n": range(1)}, {"words": 12}):
                with pytest.raises(AssertionError, match="expected True, False"):
                    reader[3, wrong]
    assert list(dataformats.open(folder))[2] == {"n": 2, "words": ["w0", "w1"]}
    with pytest.raises(AssertionError, match="written once"):
        granular.DatasetWriter(folder, {"n": "int", "words": "utf8[]"}, granular.encoders)


def test_the_files_of_an_older_version_on_request(tmp_path: Path) -> None:
    with granular.ShardedDatasetWriter(tmp_path / "set", SPEC, granular.encoders, version=2) as writer:
        writer.append(point(0))
    assert {path.name for path in (tmp_path / "set/000000").iterdir()} == {"spec.json", "refs.bag", "n.bag", "text.bag"}
    with granular.ShardedDatasetReader(tmp_path / "set", granular.decoders) as reader:
        assert reader[0] == point(0)
        assert reader.available(0) == {"n": True, "text": True}


@pytest.mark.parametrize("row", [b"\x92\1\xc0", b"\x92\1\x63", b"\x91\1\1", b"\xc1\1\1", b"\x92\1\xff"])
def test_damaged_refs_are_errors_of_their_rows(tmp_path: Path, row: bytes) -> None:
    folder = written(tmp_path / "set", 3, version=2)
    refs = (folder / "refs.bag").read_bytes()
    (folder / "refs.bag").write_bytes(refs.replace(b"\x92\1\1", row))
    with granular.DatasetReader(folder, granular.decoders) as reader:
        assert [reader[0], reader[2]] == [point(0), point(2)]
        for wrong in (1, slice(0, 3)):
            with pytest.raises(FormatError, match=r"refs\.bag(.*)does not parse"):
                reader[wrong]


def test_slice_reads_rows_with_scattered_refs(tmp_path: Path) -> None:
    folder = written(tmp_path / "set", 3, version=2)
    refs = (folder / "refs.bag").read_bytes()
    (folder / "refs.bag").write_bytes(refs.replace(b"\x92\1\1", b"\x92\2\0"))
    with granular.DatasetReader(folder, granular.decoders) as reader:
        assert reader[0:3] == {"n": [0, 2, 2], "text": ["row 0", "row 0", "row 2"]}


# ---- shards


def test_shards(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    for start in (0, 1):
        with granular.ShardedDatasetWriter(folder, SPEC, granular.encoders, 2, shardstart=start, shardstep=2) as writer:
            assert [writer.append(point(10 * start + n)) for n in range(3)] == [0, 1, 2]
            assert (len(writer), writer.shards, writer.shardnum) == (3, 2, start + 2)
    assert sorted(path.name for path in folder.iterdir()) == ["000000", "000001", "000002", "000003"]
    with granular.ShardedDatasetReader(folder, granular.decoders) as reader:
        assert (len(reader), reader.shards, reader.spec) == (6, 4, SPEC)
        assert [reader[n]["n"] for n in range(6)] == reader[0:9]["n"] == [0, 1, 10, 11, 2, 12]
        assert reader[1:5, ("n",)] == {"n": [1, 10, 11, 2]}
        assert reader[2:2] == {"n": [], "text": []}
        assert reader.copy()[5] == point(12)
        for wrong in (-1, 6):
            with pytest.raises(IndexError, match="out of range for 6 rows"):
                reader[wrong]
    with granular.ShardedDatasetReader(folder, granular.decoders, shardstart=1, shardstep=2) as reader:
        assert reader[0:3, ("n",)] == {"n": [10, 11, 12]}
    (folder / "000003").rename(folder / "000007")
    for start in (0, 9):
        with pytest.raises(AssertionError, match="expected"):
            granular.ShardedDatasetReader(folder, granular.decoders, shardstart=start)


def test_a_shard_is_continued(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    for first in (0, 2):
        with granular.ShardedDatasetWriter(folder, SPEC, granular.encoders, shardlen=3) as writer:
            assert len(writer) == 0
            assert [writer.append(point(first + n), flush=False) for n in range(2)] == [first % 3, first % 3 + 1]
    with granular.ShardedDatasetReader(folder, granular.decoders) as reader:
        assert [len(shard) for shard in reader.readers] == [3, 1]
        assert reader[0:4]["n"] == [0, 1, 2, 3]
    with pytest.raises(AssertionError, match="shardlen"):
        granular.ShardedDatasetWriter(folder, SPEC, granular.encoders, shardstep=2)


def test_unknown_type_is_named(tmp_path: Path) -> None:
    folder = written(tmp_path / "data")
    spec = folder / "spec.json"
    spec.write_text(spec.read_text().replace("utf8", "utf9"))
    with pytest.raises(dataformats.UnknownNameError, match=r"field 'text'.*'utf9' \(nearest: utf8\)"):
        granular.DatasetReader(folder, granular.decoders)


def test_closing_with_a_view_in_use_prints_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    problems: list[Any] = []
    monkeypatch.setattr("sys.unraisablehook", problems.append)
    buffer = SharedBuffer(b"bytes")
    view = memoryview(buffer.buf)
    buffer.close()
    del buffer
    gc.collect()
    assert (bytes(view), problems) == (b"bytes", [])
