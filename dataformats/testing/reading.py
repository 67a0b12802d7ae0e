"""Reads: order, repeats, ranges, masks, bytes, threads, closing."""

from __future__ import annotations

import gc
import re
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from dataformats.batch import RecordBatch
from dataformats.errors import DataFormatsError, SpecError, UnknownNameError
from dataformats.inspecting.description import info
from dataformats.inspecting.verification import verify
from dataformats.testing.dataset_fixture import DatasetFixture
from dataformats.testing.loop_over import loop_over
from dataformats.testing.records import blob, is_same_value


class ReadingConformance:
    """Reading plain records and blobs."""

    def test_blobs_come_back(self, data: DatasetFixture) -> None:
        """Records of one value, empty ones too if the format takes them."""
        data.need_bytes()
        blobs = [b for b in map(blob, range(60)) if b or data.case.empty_records]
        src = data.open(data.write_records(blobs, None), payload="bytes")
        assert list(src) == blobs
        assert src.read(range(len(blobs)))["value"][3] == blobs[3]
        assert src.read_bytes([3, 0, 3]) == [blobs[3], blobs[0], blobs[3]]
        assert (src.format, src.payload, dict(src.spec)) == (data.case.format, "bytes", {"value": src.spec["value"]})

    def test_no_records(self, data: DatasetFixture) -> None:
        """A dataset may have no records."""
        src = data.open(data.write(0), format=data.case.format)
        assert (len(src), list(src), len(src.read([])), list(src[:])) == (0, [], 0, [])
        with pytest.raises(IndexError):
            src[0]
        with pytest.raises(IndexError):
            src.read([0])
        assert src.fingerprint == src.fingerprint

    def test_missing_shards(self, data: DatasetFixture) -> None:
        """`open` of a folder warns, `info` notes and `verify` finds that a shard of its names is not there."""
        data.need_shards()
        if data.case.folder:
            pytest.skip("a shard is a folder, which the sidecar lists")
        folder = data.folder / "shards"
        folder.mkdir()
        first, last = (data.write(3, f"shards/train-{number:05d}-of-00003") for number in (0, 2))
        missing = r"1 of 3 shards are missing, such as 'train-00001-of-00003"
        options = {"format": data.case.format, **data.case.open_options}
        with pytest.warns(UserWarning, match=missing):
            assert len(data.open(folder, format=data.case.format)) == 6
        (note,) = (note for note in info(folder, **options).notes if "shards" in note)
        assert re.search(missing, note)
        assert [finding.kind for finding in verify(folder, **options).findings] == ["IncompleteDataError"]
        assert len(data.open([first, last])) == 6
        data.write(3, "shards/train-00001-of-00003")
        assert verify(folder, **options).ok

    def test_class_names_differ_by_file(self, data: DatasetFixture) -> None:
        """`open` warns and `info` notes that a number has two class names; the data are sound."""
        data.need_fields()
        data.need_shards()
        spec = {name: {"n": {"type": "int64", "class_names": [name, "dog"]}} for name in ("cat", "cow")}
        paths = [data.write_records([{"n": 0}], spec[name], name) for name in spec]
        with pytest.warns(UserWarning, match="field 'n': class 0 is 'cat' in .* and 'cow' in "):
            assert data.open(paths).spec["n"].class_names == ()
        assert "class 0 is 'cat'" in " ".join(info(paths, **data.case.open_options).notes)
        assert verify(paths, **data.case.open_options).ok

    def test_opaque_field_costs_itself(self, data: DatasetFixture) -> None:
        """A field whose type no codec may decode is bytes, and the other fields keep their types."""
        data.need_fields()
        path, codecs = data.path("opaque"), {"text_of_mine": (str.encode, bytes.decode)}
        try:
            with data.create(path, spec={"id": "int64", "text": "text_of_mine"}, codecs=codecs) as writer:
                writer.extend({"id": row, "text": f"row {row}"} for row in range(3))
        except SpecError:
            pytest.skip("the format holds no codec of the call")
        src = data.open(path)
        assert {name: str(kind) for name, kind in src.spec_facts.opaque_fields.items()} == {"text": "text_of_mine"}
        assert list(src) == [{"id": row, "text": f"row {row}".encode()} for row in range(3)]
        assert info(path, **data.case.open_options).opaque == {"text": "text_of_mine"}
        assert verify(path, **data.case.open_options).ok
        assert data.open(path, codecs=codecs)[2] == {"id": 2, "text": "row 2"}

    def test_one_by_one_and_in_order(self, data: DatasetFixture) -> None:
        """`src[i]`, `src[-i]`, iteration and `batch[i]` agree with the formula."""
        src = data.source(23)
        assert len(src) == 23
        data.check(src, range(23))
        data.check((src[i] for i in range(23)), range(23))
        data.check((src[-i] for i in range(1, 24)), range(22, -1, -1))
        batch = src.read(range(23))
        data.check(batch, range(23))
        data.check((batch[i] for i in range(-23, 0)), range(23))
        data.check([src[np.int64(3)]], [3])

    def test_order_and_repeats_are_kept(self, data: DatasetFixture) -> None:
        """A batch holds the requested records, in that order."""
        src = data.source(40)
        for asked in ([7, 3, 3, 39, 0], [5], [], list(range(39, -1, -1)), np.array([2, 2, 2], np.uint8)):
            batch = src.read(asked)
            data.check(batch, list(asked))
            assert batch.indices.tolist() == list(asked)
            assert batch.keys() == (tuple(data.spec) if data.spec else ("value",))
            assert not batch.failed

    @loop_over("index", [-1, 10, 2**62, -(2**63)])
    def test_indices_are_checked(self, data: DatasetFixture, index: int) -> None:
        """`read` takes indices in [0, len)."""
        src = data.source(10)
        with pytest.raises(IndexError, match=str(index)):
            src.read([0, index])
        if not -10 <= index < 10:
            with pytest.raises(IndexError, match=str(index)):
                src[index]

    @loop_over("index", [[1.0], "id", [[1]], [True], None, ["1"]])
    def test_only_numbers_are_indices(self, data: DatasetFixture, index: Any) -> None:
        """Nothing is cast to an index."""
        with pytest.raises(TypeError):
            data.source(10).read(index)

    def test_fields(self, data: DatasetFixture) -> None:
        """Names and masks choose fields."""
        data.need_fields()
        src = data.source(10)
        assert src.read([4, 2], ["id"]).keys() == ("id",)
        assert src.read([4, 2], {"id": True, "data": False})[1] == {"id": data.record(2)["id"]}
        assert src[3, {"data": True}] == {"data": data.record(3)["data"]}
        assert src[-1, ["id"]] == {"id": data.record(9)["id"]}
        assert src.read([1, 2], []).keys() == ()
        for wrong in (["nothing"], {"nothing": True}):
            with pytest.raises(UnknownNameError, match="nothing"):
                src.read([0], wrong)
        with pytest.raises(TypeError):
            src.read([0], "id")
        with pytest.raises(SpecError, match="id"):
            src[0, {"id": range(1)}]

    def test_a_type_for_one_field(self, data: DatasetFixture) -> None:
        """A spec with the type of one field leaves the types of all other fields."""
        data.need_fields()
        path = data.write(4)
        src = data.open(path)
        for name, kind in src.spec.items():
            for again in (data.open(path, spec={name: kind}), src.with_spec({name: kind})):
                assert again.spec == src.spec
                data.check(again, range(4))

    def test_parts_of_sequences(self, data: DatasetFixture) -> None:
        """A range in a mask takes elements; `present_fields` returns which exist."""
        data.need_fields()
        kinds = {"frames": "int64[]", "title": "bytes", "names": "bytes[]"}
        title = ["title"] if "bytes" not in data.case.refuses else []
        spec = {name: kind for name, kind in kinds.items() if kind not in data.case.refuses}
        records = [
            {"frames": np.arange(i, i + 9), "title": b"t%d" % i, "names": [b"n%d" % j for j in range(i)]}
            for i in range(4)
        ]
        src = data.open(data.write_records([{n: r[n] for n in spec} for r in records], spec))
        assert is_same_value(
            src[3, {"frames": range(2, 5), **dict.fromkeys(title, True)}],
            {"frames": np.arange(5, 8), **dict.fromkeys(title, b"t3")},
        )
        assert is_same_value(src[3, {"frames": range(8, 2, -3)}]["frames"], np.array([11, 8]))
        assert is_same_value(src[0, {"frames": range(0)}]["frames"], np.arange(0))
        with pytest.raises(IndexError, match="frames"):
            src[3, {"frames": range(5, 10)}]
        present = src.present_fields(3)
        assert present["frames"] == range(9)
        assert all(present[name] is True for name in title)
        if "names" in spec:
            assert present["names"] == range(3)
            assert src[3, {"names": range(1, 3)}] == {"names": [b"n1", b"n2"]}

    def test_bytes_of_records(self, data: DatasetFixture) -> None:
        """`read_bytes` returns the stored bytes, or raises."""
        src = data.source(10)
        if not data.case.blobs:
            with pytest.raises(SpecError):
                src.read_bytes([0])
            return
        stored = data.open(src.paths[0], payload="bytes", spec=None)
        assert src.read_bytes([3, 3, 9]) == [stored[3], stored[3], stored[9]]
        assert src.read_bytes([]) == []
        with pytest.raises(IndexError):
            src.read_bytes([10])

    def test_protocols(self, data: DatasetFixture) -> None:
        """A source is a Sequence, with PyTorch's `__getitems__` and the methods of Grain's `RandomAccessDataSource`."""
        src = data.source(12)
        assert isinstance(src, Sequence)
        assert isinstance(src[2:4], Sequence)
        fetched = src.__getitems__([5, 1])
        assert isinstance(fetched, list)
        data.check(fetched, [5, 1])
        data.check(reversed(src), range(11, -1, -1))
        assert callable(type(src).__len__)
        assert callable(type(src).__getitem__)
        assert "12 records" in repr(src)
        assert data.case.format in repr(src)

    def test_arrays_stay(self, data: DatasetFixture) -> None:
        """Later reads do not change arrays that a read returned."""
        data.need_fields()
        spec = {"x": "float32[4]", "y": "int64[]", "z": "bytes"}
        spec = {name: kind for name, kind in spec.items() if kind not in data.case.refuses}
        records = [{"x": np.full(4, i, np.float32), "y": np.arange(i), "z": blob(i) or b"z"} for i in range(50)]
        records = [{name: record[name] for name in spec} for record in records]
        src = data.open(data.write_records(records, spec))
        kept = [src.read(range(first, first + 10)) for first in range(0, 50, 10)]
        single = [src[i] for i in range(50)]
        iterated = list(src)
        src.close()
        gc.collect()
        for i in range(50):
            for found in (kept[i // 10][i % 10], single[i], iterated[i]):
                assert is_same_value(found, records[i])

    def test_many_threads(self, data: DatasetFixture) -> None:
        """Eight threads read at random, the first ones also make the index."""
        src = data.source(200)

        def read(seed: int) -> list[tuple[list[int], RecordBatch]]:
            numbers = np.random.default_rng(seed)
            asked = [numbers.integers(0, 200, 20) for _ in range(12)]
            return [(part.tolist(), src.read(part)) for part in asked]

        with ThreadPoolExecutor(8) as threads:
            for found in threads.map(read, range(8)):
                for asked, batch in found:
                    data.check(batch, asked)

    def test_closing(self, data: DatasetFixture) -> None:
        """A closed source opens its files again when it is used."""
        src = data.source(10)
        data.check([src[3]], [3])
        src.close()
        src.close()
        data.check(src, range(10))
        with src as again:
            data.check([again[4]], [4])
        data.check([src[5]], [5])

    def test_reading_ahead_ends(self, data: DatasetFixture) -> None:
        """An iteration that stops early leaves no thread behind; closing a generator is enough."""
        src = data.source(3000)
        gc.collect()
        others = threading.enumerate()
        for stop in ("break", "close", "raise"):
            records = iter(src)
            next(records)
            if stop == "close":
                records.close()  # type: ignore[attr-defined]  # a generator
            if stop == "raise":
                with pytest.raises(ZeroDivisionError):
                    records.throw(ZeroDivisionError)  # type: ignore[attr-defined]
            del records
            gc.collect()
            assert [t.name for t in threading.enumerate() if "ahead" in t.name and t not in others] == []

    def test_many_at_once(self, data: DatasetFixture) -> None:
        """More records than any window or part of a reader holds."""
        src = data.source(5000)
        numbers = np.random.default_rng(0).permutation(5000)
        batch = src.read(numbers)
        assert [data.index(record) for record in batch] == numbers.tolist()
        assert not data.case.plain or batch["id"].tolist() == (numbers.astype(np.int64) ** 2 - 5).tolist()
        assert [data.index(record) for record in src] == list(range(5000))

    def test_stats(self, data: DatasetFixture) -> None:
        """Counts, ranges, mean and deviation as numpy computes them."""
        data.need_fields()
        spec = {"n": "int64", "x": "float32?", "seq": "int64[]", "text": "bytes"}
        spec = {name: kind for name, kind in spec.items() if kind not in data.case.refuses}
        xs = [None if i % 4 == 0 else float(i) for i in range(30)]
        records = [{"n": i * 3, "x": xs[i], "seq": np.arange(i % 5), "text": b"t" * (i + 1)} for i in range(30)]
        records = [{n: record[n] for n in spec if record[n] is not None} for record in records]
        src = data.open(data.write_records(records, spec))
        n = src.stats("n")
        assert (n.count, n.missing, n.minimum, n.maximum, n.of_lengths) == (30, 0, 0, 87, False)
        assert np.allclose([n.mean, n.std], [np.arange(30).mean() * 3, np.std(np.arange(30) * 3)])  # type: ignore[arg-type]
        if "text" in spec:
            text = src.stats("text")
            assert (text.minimum, text.maximum, text.of_lengths) == (1, 30, True)
        seq = src.stats("seq")
        assert (seq.minimum, seq.maximum, seq.of_lengths) == (0, 4, True)
        if "x" in spec:
            x = src.stats("x")
            there = [value for value in xs if value is not None]
            assert (x.count, x.missing, x.minimum, x.maximum) == (len(there), 30 - len(there), 1, 29)
            assert np.allclose([x.mean, x.std], [np.mean(there), np.std(there)])  # type: ignore[arg-type]
        with pytest.raises(UnknownNameError):
            src.stats("nothing")
        empty = src[:0].stats("n")
        assert (empty.count, empty.minimum, empty.mean) == (0, None, None)

    def test_info_and_verify(self, data: DatasetFixture) -> None:
        """`info` describes the dataset, `verify` finds no damage."""
        path = data.write(9)
        about = info(path, **data.case.open_options)
        assert (about.format, about.records, about.problems) == (data.case.format, 9, ())
        n_bytes = {about.nbytes, data.open(path).nbytes, verify(path, **data.case.open_options).nbytes}
        assert n_bytes == {sum(file.nbytes for file in about.files)}
        assert data.case.documents or dict(about.spec) == data.spec
        assert sum(file.records for file in about.files) == 9
        assert about.fingerprint == data.open(path).fingerprint
        steps: list[tuple[int, int]] = []
        report = verify(path, progress=lambda *step: steps.append(step), **data.case.open_options)
        assert report.ok
        assert (report.format, report.records, report.findings, steps[-1]) == (data.case.format, 9, (), (9, 9))
        assert report.to_json()["ok"] is True
        assert verify(data.open(path)).ok

    def test_wrong_spec_raises_despite_omit(self, data: DatasetFixture) -> None:
        """Every read raises an error of this package, and `omit` does not hide it."""
        if not data.case.blobs or not data.case.plain:
            pytest.skip("the format stores its types, or no types")
        src = data.open(data.write(5), **data.declared({"id": "float64[3]", "data": "utf8"}))
        for on_corrupt in ("raise", "omit"):
            with pytest.raises(DataFormatsError, match="id"):
                src.read([0, 1], on_corrupt=on_corrupt)
        assert verify(src).findings[0].index == 0
        raw = data.open(data.path(), payload="bytes", spec={"id": "int64"})
        with pytest.raises(SpecError, match="bytes"):
            raw.read([0])

    def test_info_of_a_view(self, data: DatasetFixture) -> None:
        """`info` describes any source."""
        view = data.source(4)[:2]
        about = info(view)
        assert (about.records, about.files, about.fingerprint) == (2, (), view.fingerprint)
