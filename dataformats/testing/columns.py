"""Types: what is written comes back, in columns that follow the spec alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dataformats.batch import Nullable, Ragged
from dataformats.errors import SpecError
from dataformats.testing.dataset_fixture import Workshop
from dataformats.testing.records import KINDS, same, values

__all__ = ["ColumnConformance"]


class ColumnConformance:
    """One data set for each type."""

    @pytest.mark.parametrize("kind", KINDS)
    def test_values_come_back(self, shop: Workshop, kind: str) -> None:
        """Every value of a type, by record, by batch and by iteration; or the type is refused at once."""
        spec = {"before": "int64", "field": kind, "after": "bytes"}
        if kind in shop.case.refuses:
            with pytest.raises(SpecError, match="field"):
                shop.create(shop.path(), spec=spec)
            assert list(shop.folder.iterdir()) == []
            return
        records = _records(shop, kind, 17)
        src = shop.open(shop.write_records(records, spec))
        assert src.spec == spec
        batch = src.read(range(17))
        for i, (record, streamed) in enumerate(zip(records, src, strict=True)):
            for found in (src[i], batch[i], streamed):
                assert same(found, record), f"record {i}: {found} is not {record}"

    @pytest.mark.parametrize("kind", KINDS)
    def test_columns_follow_the_spec(self, shop: Workshop, kind: str) -> None:
        """A batch of any records, of none too, has a column of the same shape and dtype."""
        if kind in shop.case.refuses:
            pytest.skip("the format cannot hold this type")
        spec = {"before": "int64", "field": kind, "after": "bytes"}
        src = shop.open(shop.write_records(_records(shop, kind, 12), spec))
        for asked in ([], [0], [1], [4], [1, 4, 7], range(12)):
            column = src.read(asked)["field"]
            assert len(column) == len(asked)
            _check_column(kind, column)


def _records(shop: Workshop, kind: str, n: int) -> list[dict[str, Any]]:
    fields = enumerate(values(kind, n, empty=shop.case.empty_values))
    records = ({"before": i, "field": held, "after": b"x" * (i + 1)} for i, held in fields)
    return [{name: held for name, held in record.items() if held is not None} for record in records]


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
    assert column.item == codec
    assert isinstance(column.values, np.ndarray)
    assert column.values.dtype == np.uint8
