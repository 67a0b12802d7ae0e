"""Views: slices, take, select, where, find, split, shard, map, concat."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from dataformats.errors import SpecError, UnknownNameError
from dataformats.reading.concat import concat
from dataformats.testing.dataset_fixture import DatasetFixture
from dataformats.testing.loop_over import loop_over

_SLICES = [
    slice(2, 10),
    slice(None, None, 2),
    slice(None, None, -1),
    slice(30, 2, -7),
    slice(5, 5),
    slice(-3, None),
    slice(0, 99),
]


class ViewConformance:
    """Views against lists of indices."""

    @loop_over("part", _SLICES)
    def test_slices(self, data: DatasetFixture, part: slice) -> None:
        """A slice holds the records of a list's slice; so does a slice of a slice."""
        src, numbers = data.source(33), range(33)
        data.check(src[part], numbers[part])
        for inner in _SLICES:
            view, expected = src[part][inner], numbers[part][inner]
            assert len(view) == len(expected)
            data.check(view, expected)
            data.check((view[i] for i in range(-len(view), 0)), expected)
            data.check(view.read(range(len(view))), expected)

    def test_take(self, data: DatasetFixture) -> None:
        """Any order, repeats, ranges and arrays, one view on another."""
        src = data.source(20)
        for asked in ([3, 3, 0, 19], [], np.array([5, 4]), range(19, 0, -3), range(0)):
            data.check(src.take(asked), list(asked))
        view = src.take([9, 8, 7, 6, 5]).take([4, 0, 0])[1:]
        data.check(view, [9, 9])
        assert view.read([1]).indices.tolist() == [1]
        data.check(src[10:].take([0, 9])[::-1], [19, 10])
        for wrong in ([20], [-1], range(15, 21), range(5, -2, -1)):
            with pytest.raises(IndexError):
                src.take(wrong)
        with pytest.raises(IndexError):
            src[3:5].read([2])
        with pytest.raises(IndexError):
            src[3:5][2]

    def test_select(self, data: DatasetFixture) -> None:
        """Fields in the order asked for, below every other view."""
        data.need_fields()
        src = data.source(9)
        view = src.select("data", "id")
        assert list(view.spec) == ["data", "id"]
        assert view.read([1]).keys() == ("data", "id")
        ids = src.select("id")[2:5]
        assert list(ids) == [{"id": data.record(i)["id"]} for i in range(2, 5)]
        assert ids[0, {"id": True}] == {"id": data.record(2)["id"]}
        assert src[2:5].select("id")[-1] == {"id": data.record(4)["id"]}
        assert ids.present_fields(0) == {"id": True}
        for wrong in (lambda: src.select("nothing"), lambda: ids.read([0], ["data"]), lambda: ids.select("data")):
            with pytest.raises(UnknownNameError):
                wrong()
        with pytest.raises(SpecError):
            ids.read_bytes([0])

    def test_where(self, data: DatasetFixture) -> None:
        """A mask, and a function that is called once for each record."""
        src = data.source(700)
        mask = np.arange(700) % 3 == 1
        data.check(src.where(mask), np.flatnonzero(mask).tolist())
        data.check(src.where(mask.tolist()), np.flatnonzero(mask).tolist())
        seen: list[int] = []

        def chosen(record: Any) -> bool:
            seen.append(data.index(record))
            return data.index(record) % 7 == 2

        view = src.where(chosen)
        numbers = [i for i in range(700) if i % 7 == 2]
        data.check(view, numbers)
        data.check(view, numbers)
        assert sorted(seen) == list(range(700))
        data.check(src[:9].where(lambda record: data.index(record) > 2)[::-1], range(8, 2, -1))
        for wrong in ([True], np.ones(700), np.ones((700, 1), bool)):
            with pytest.raises(ValueError, match="700"):
                src.where(wrong)

    def test_find(self, data: DatasetFixture) -> None:
        """A record is found by its key in a source, a view, joined sources and a pickle."""
        pytest.importorskip("pyarrow", reason="pyarrow reads the keys")
        data.need_fields()
        src = data.source(40)
        ids = [data.record(i)["id"] for i in range(40)]
        assert src.find(ids[7], "id") == 7
        assert src.find([ids[39], ids[0], ids[39]], on="id").tolist() == [39, 0, 39]
        view = src[30:10:-1]
        assert view.find(np.array([ids[11], ids[30]]), "id").tolist() == [19, 0]
        assert concat([view, src[:5]]).find(ids[4], "id") == 24
        assert pickle.loads(pickle.dumps(view.select("id"))).find(ids[29], "id") == 1
        with pytest.raises(UnknownNameError, match="unknown key in 'id'"):
            view.find(ids[31], "id")
        with pytest.raises(SpecError, match="a key is not unique"):
            concat([src, src]).find(ids[0], "id")

    def test_split(self, data: DatasetFixture) -> None:
        """Disjoint, complete, in order, the same each time; another seed gives another one."""
        src = data.source(100)
        train, rest = src.split(0.9, seed=3)
        assert (len(train), len(rest)) == (90, 10)
        found = [[data.index(record) for record in part] for part in (train, rest)]
        assert sorted(found[0] + found[1]) == list(range(100))
        assert all(part == sorted(part) for part in found)
        assert [data.index(record) for record in src.split(0.9, seed=3)[1]] == found[1]
        assert [data.index(record) for record in src.split(0.9, seed=4)[1]] != found[1]
        assert [len(part) for part in src.split(0.5, 0.3)] == [50, 30, 20]
        assert [len(part) for part in src.split(0.5, 0.5)] == [50, 50]
        for wrong in ((), (0.0,), (1.0,), (0.7, 0.7), (-0.1,)):
            with pytest.raises(ValueError, match="fractions"):
                src.split(*wrong)

    def test_shard(self, data: DatasetFixture) -> None:
        """Contiguous parts that cover everything."""
        src = data.source(23)
        for count in (1, 2, 5, 23, 30):
            parts = [src.shard(number, count) for number in range(count)]
            lengths = [len(part) for part in parts]
            assert max(lengths) - min(lengths) <= 1
            data.check([record for part in parts for record in part], range(23))
        for number, count in ((2, 2), (-1, 2), (0, 0)):
            with pytest.raises(ValueError, match=r"number|count"):
                src.shard(number, count)

    def test_map(self, data: DatasetFixture) -> None:
        """A function that is called at each read, from records to records or to anything."""
        src = data.source(10)
        doubled = src.map(lambda record: {"twice": 2 * data.index(record)})
        assert doubled[3] == {"twice": 6}
        assert doubled.read([4, 2])["twice"] == [8, 4]
        sizes = src.map(lambda record: data.index(record) % 4)
        assert list(sizes) == [i % 4 for i in range(10)]
        assert list(sizes[::-2]) == list(sizes)[::-2]
        assert list(src[2:4].map(data.index).map(str)) == ["2", "3"]
        assert list(sizes.where(lambda size: size == 1)) == [1] * list(sizes).count(1)
        for view in (doubled, sizes, sizes[1:3], concat([doubled, doubled])):
            assert "Mapped" in repr(view) or "records" in repr(view)
        with pytest.raises(SpecError):
            doubled.read([0], ["twice"])
        with pytest.raises(SpecError):
            sizes.read_bytes([0])
        assert list(concat([doubled, doubled[:1]]))[-1] == doubled[0]
        assert concat([doubled, doubled[:1]])[10] == doubled[0]
        assert concat([sizes, sizes])[12] == sizes[2]

    def test_concat(self, data: DatasetFixture) -> None:
        """One source after the other, reads across them in the order asked for."""
        a, b = data.source(7, "a"), data.source(5, "b")
        both = concat([a, b[::-1], a[:0], a])
        numbers = [*range(7), *range(4, -1, -1), *range(7)]
        assert len(both) == 19
        data.check(both, numbers)
        for asked in ([18, 0, 7, 7, 6, 11], [8], []):
            batch = both.read(asked)
            data.check(batch, [numbers[i] for i in asked])
            assert batch.indices.tolist() == asked
        data.check(both[5:9], numbers[5:9])
        data.check([both[-1]], [6])
        data.check_spec(both)
        assert both.paths == a.paths + b.paths + a.paths + a.paths
        if data.case.plain:
            assert [record["id"] for record in both.select("id")] == [data.record(i)["id"] for i in numbers]
            with pytest.raises(SpecError, match="data"):
                concat([a, b.select("id")])
        if data.case.blobs:
            assert both.read_bytes([8, 0]) == [b.read_bytes([3])[0], a.read_bytes([0])[0]]
        with pytest.raises(IndexError):
            both.read([19])

    def test_fingerprints(self, data: DatasetFixture) -> None:
        """A fingerprint depends on the records, not on names, fields, or views of the same records."""
        src = data.source(20)
        same = src.fingerprint
        assert same == data.source(20, "copy").fingerprint
        chosen = [] if not data.case.plain else [src.select("id"), src[:].select("data")]
        for view in (*chosen, src[:], src.take(range(20)), src.take(list(range(20))), src.map(str)):
            assert view.fingerprint == same
        assert src.where(np.ones(20, bool)).fingerprint == same
        assert concat([src]).fingerprint == same
        others = [src[1:], src[::-1], src[:19], src.take([0] * 20), concat([src, src]), data.source(21, "more")]
        others += [data.open(data.write(20, "other", first=1)), src.shard(0, 2), src.shard(1, 2), *src.split(0.5)]
        prints = [other.fingerprint for other in others]
        assert len({same, *prints}) == len(prints) + 1
        assert src[1:].fingerprint == src.take(list(range(1, 20))).fingerprint
        assert not data.case.plain or src[1:].select("id").fingerprint == src[1:].fingerprint

    def test_fingerprints_cover_every_record(self, data: DatasetFixture) -> None:
        """A fingerprint over checksums differs if one of many records differs, even if only by its content."""
        if not data.case.fingerprints_records:
            pytest.skip("without checksums, a fingerprint is of all lengths and of a sample of the records")
        records = data.records(range(1000))
        prints = set()
        for number in (None, 7, 500, 993):
            name, other = list(records[0])[-1], data.record(2000)
            changed = [{**record, name: other[name]} if i == number else record for i, record in enumerate(records)]
            with data.create(data.path(f"changed-{number}")) as writer:
                writer.extend(changed)
            prints.add(data.open(data.path(f"changed-{number}")).fingerprint)
        assert len(prints) == 4
