"""Types and columns: every written value is read back, in columns whose shape and dtype follow the spec."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import dataformats.converting
from dataformats.batch import Nullable, Ragged
from dataformats.errors import CodecError, SpecError
from dataformats.testing.dataset_fixture import DatasetFixture
from dataformats.testing.records import KINDS, is_same_value, values


class ColumnConformance:
    """One dataset with a field of each type."""

    def test_values_come_back(self, data: DatasetFixture) -> None:
        """Every value of every type, by record, by batch and by iteration."""
        spec, records = _all_kinds(data, 17)
        src = data.open(data.write_records(records, spec))
        assert src.spec == spec
        batch = src.read(range(17))
        for i, (record, streamed) in enumerate(zip(records, src, strict=True)):
            for found in (src[i], batch[i], streamed):
                wrong = {
                    spec[name]: found.get(name) for name in spec if not is_same_value(found.get(name), record.get(name))
                }
                assert wrong == {}, f"record {i}: {record}"
                assert found.keys() == record.keys()

    def test_columns_follow_the_spec(self, data: DatasetFixture) -> None:
        """The columns of a batch have the shape and dtype of their type; so do the columns of an empty batch."""
        spec, records = _all_kinds(data, 12)
        src = data.open(data.write_records(records, spec))
        for asked in ([], [0], [1], [4], [1, 4, 7], range(12)):
            batch = src.read(asked)
            for name, kind in spec.items():
                assert len(batch[name]) == len(asked)
                _check_column(kind, batch[name])

    def test_missing_fields(self, data: DatasetFixture) -> None:
        """Records may lack a field of an optional type: in batches, masks, copies and Arrow tables."""
        data.need_fields()
        spec = {"id": "int64", "maybe": "int64?", "some": "int32[2]?"}
        if not data.case.refuses.isdisjoint(spec.values()):
            pytest.skip("every record of the format has every field")
        some = [np.array([i, -i], np.int32) for i in range(6)]
        records: list[dict[str, Any]] = [{"id": i, "maybe": i, "some": some[i]} for i in range(6)]
        for lacking, names in ((0, ["maybe"]), (2, ["maybe", "some"]), (3, ["some"]), (5, ["some"])):
            for name in names:
                del records[lacking][name]
        path = data.path()
        with data.create(path, spec=spec) as writer:
            writer.extend([records[0], {"maybe": None, "some": None, **records[1]}, {**records[2], "some": None}])
            writer.extend(records[3:])
        src = data.open(path)
        batch = src.read([5, 2, 1, 0], ["maybe", "some"])
        maybe = batch["maybe"]
        assert isinstance(maybe, Nullable)
        assert maybe.present.tolist() == [True, False, True, False]
        assert (batch[1], batch[3]["some"].tolist()) == ({}, [0, 0])
        second: dict[str, bool | range] = {"some": range(1, 2)}
        assert [record["some"].tolist() for record in src.read([4, 0], second)] == [[-4], [0]]
        with pytest.raises(IndexError):
            src.read([4, 3], second)
        assert {*src.present_fields(2)} == {"id"}
        dataformats.converting.convert(src[1:], data.path("copy"), data.case.format, **data.case.create_options)
        for found, expected in ((src, records), (data.open(data.path("copy")), records[1:])):
            assert found.spec == spec
            for chosen in (list(found), list(found.read(range(len(expected))))):
                assert all(is_same_value(one, record) for one, record in zip(chosen, expected, strict=True))
        pytest.importorskip("pyarrow", reason="tables need pyarrow")
        table = src.to_arrow()
        assert table.column("maybe").to_pylist() == [None, 1, None, 3, 4, 5]
        with data.create(data.path("table"), spec=spec) as writer:
            writer.extend(table)
        assert all(is_same_value(*pair) for pair in zip(data.open(data.path("table")), records, strict=True))

    def test_fields_missing_in_some_files(self, data: DatasetFixture) -> None:
        """A field that only some files have is optional: in batches, records, masks, pickles and under a spec."""
        data.need_fields()
        data.need_shards()
        spec = {"id": "int64", "pair": "int32[2]", "text": "utf8"}
        records: list[dict[str, Any]] = [{"id": row} for row in range(3)]
        records += [{"id": row, "pair": np.array([row, -row], np.int32), "text": f"{row}"} for row in range(3, 7)]
        paths = [data.write_records(records[:3], {"id": "int64"}, "a"), data.write_records(records[3:], spec, "b")]
        optional = {"id": "int64", "pair": "int32[2]?", "text": "utf8?"}
        src = data.open(paths)
        assert src.spec == optional
        for path in paths:
            path.with_name(f"{path.name}.dataformats.json").unlink(missing_ok=True)
        declared = data.open(paths, **data.declared(optional))
        for source in (src, pickle.loads(pickle.dumps(src)), declared):
            for found in (list(source), [source[row] for row in range(7)], list(source.read(range(7)))):
                assert all(is_same_value(*pair) for pair in zip(found, records, strict=True))
        assert [{**one} for one in src.read([6, 0, 3], ["text"])] == [{"text": "6"}, {}, {"text": "3"}]
        assert [one["pair"].tolist() for one in src.read([5, 3], {"pair": range(1, 2)})] == [[-5], [-3]]
        assert ({*src.present_fields(0)}, {*src.present_fields(6)}) == ({"id"}, {*spec})
        other = data.open(paths[::-1], **data.declared(optional))
        assert is_same_value(other[0], records[3])
        assert {**other[4]} == {"id": 0}

    def test_declared_numbers_are_cast(self, data: DatasetFixture) -> None:
        """Stored numbers are read as other numbers if each of them fits, and by no reading of their bits."""
        data.need_fields()
        records = [{"n": row, "pair": np.array([row, 100 * row], np.int32)} for row in range(4)]
        path = data.write_records(records, {"n": "int32", "pair": "int32[2]"})
        src = data.open(path, spec={"n": "int64", "pair": "int32[2]"})
        assert [type(one["n"]) for one in src] == [int] * 4
        for kind in ("int16", "uint64", "float32", "float64") if not data.case.blobs else ():
            declared = data.open(path, spec={"n": kind, "pair": f"{kind}[2]"})
            batch = declared.read([3, 0])
            assert (batch["n"].dtype, batch["pair"].dtype) == (np.dtype(kind), np.dtype(kind))
            assert (batch["n"].tolist(), batch["pair"].tolist()) == ([3, 0], [[3, 300], [0, 0]])
            assert [one["pair"].tolist() for one in declared] == [[row, 100 * row] for row in range(4)]
            assert declared[2, {"pair": range(1, 2)}] == {"pair": np.array([200], kind)}
        if not data.case.blobs:
            narrow = data.open(path, spec={"pair": "int8[2]"})
            assert narrow[1]["pair"].tolist() == [1, 100]
            with pytest.raises(SpecError, match=r"record 2 of .*field 'pair'.*out of range"):
                narrow.read([0, 2])
            for kind in ("bool[2]", "float32[4]"):
                with pytest.raises((SpecError, CodecError), match="field 'pair'"):
                    data.open(path, spec={"pair": kind}).read([0])

    def test_refused_types(self, data: DatasetFixture) -> None:
        """A type that the format cannot hold is refused before anything is written."""
        data.need_fields()
        for kind in data.case.refuses:
            with pytest.raises(SpecError, match="field"):
                data.create(data.path(), spec={"before": "int64", "field": kind})
            assert list(data.folder.iterdir()) == []


def _all_kinds(data: DatasetFixture, n: int) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """Return a spec with each type that the format holds, between fields of a few bytes, and `n` records."""
    data.need_fields()
    kinds = [kind for kind in KINDS if kind not in data.case.refuses]
    spec = {f"f{number:02d}": kind for number, kind in enumerate(kinds)}
    columns = {name: values(kind, n, empty=data.case.empty_values) for name, kind in spec.items()}
    return spec, [{name: held[i] for name, held in columns.items() if held[i] is not None} for i in range(n)]


def _check_column(kind: str, column: Any) -> None:
    codec, _, dims = kind.rstrip("?").partition("[")
    sizes = [size for part in dims.rstrip("]").split("][") for size in part.split(",")] if dims else []
    if kind.endswith("?") and not isinstance(column, Ragged):
        assert isinstance(column, Nullable), f"{kind} gave {column!r}"
        assert column.present.dtype == bool
        column = column.values
    number = codec == "bool" or codec.rstrip("0123456789") in ("int", "uint", "float")
    if number and "" not in sizes:
        assert isinstance(column, np.ndarray), f"{kind} gave {column!r}"
        assert column.dtype == np.dtype(codec)
        assert column.shape[1:] == tuple(map(int, sizes))
    elif number:
        assert isinstance(column, Ragged), f"{kind} gave {column!r}"
        assert isinstance(column.values, np.ndarray)
        assert column.values.dtype == np.dtype(codec)
        assert column.values.shape[1:] == tuple(map(int, sizes[1:]))
        assert column.offsets.dtype == np.int64
    elif sizes:
        assert isinstance(column, Ragged), f"{kind} gave {column!r}"
        _check_elements(codec, column.values)
    else:
        _check_elements(codec, column)


def _check_elements(codec: str, column: Any) -> None:
    if codec not in ("bytes", "utf8"):
        assert isinstance(column, list), f"{codec} gave {column!r}"
        return
    assert isinstance(column, Ragged), f"{codec} gave {column!r}"
    assert column.item_kind == codec
    assert isinstance(column.values, np.ndarray)
    assert column.values.dtype == np.uint8
