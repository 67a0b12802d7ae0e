"""Every type, as records to Arrow and back: `extend` writes equal records from `to_arrow`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import dataformats
from dataformats.batch.arrow_types import arrow_type
from dataformats.errors import SpecError
from dataformats.spec import Type
from dataformats.testing.records import KINDS, is_same_value, value

pytest.importorskip("pyarrow", reason="the extra arrow is not installed")

OPTIONAL = ("uint8[2,3]?", "float32[][2]?", "utf8[]?", "json[]?", "png[]?", "bytes[]?", "bool[]?", "msgpack?", "png?")
N = 13


def opened(path: Path, format: str, kind: str) -> dataformats.RecordSource:
    return dataformats.open(path) if format == "granular" else dataformats.open(path, spec={"x": kind})


def record(kind: str, i: int) -> dict[str, Any]:
    held = value(kind, i)
    return {} if held is None else {"x": held}


@pytest.mark.parametrize("format", ["ffrecord", "granular"])
def test_types(format: str, tmp_path: Path) -> None:
    n_kinds = 0
    for number, kind in enumerate((*KINDS, *OPTIONAL)):
        try:
            with dataformats.create(tmp_path / f"{number}", format, spec={"x": kind}) as out:
                out.extend([record(kind, i) for i in range(N)])
        except SpecError:
            continue  # the format cannot hold it
        n_kinds += 1
        source = opened(tmp_path / f"{number}", format, kind)
        table, rows = source.to_arrow(), list(source)
        table.validate(full=True)
        if format != "granular":
            assert table.schema.field("x").type == arrow_type(Type.parse(kind)), kind
        assert {source[:0].to_arrow().schema, source[::-1].to_arrow().schema} == {table.schema}, kind
        for part, expected in ((table, rows), (table.slice(2, 7), rows[2:9])):
            with dataformats.create(tmp_path / "copy", format, spec={"x": kind}, overwrite=True) as out:
                out.extend(part)
            found = list(opened(tmp_path / "copy", format, kind))
            assert len(found) == len(expected), kind
            assert all(map(is_same_value, found, expected)), kind
    assert n_kinds > 20
