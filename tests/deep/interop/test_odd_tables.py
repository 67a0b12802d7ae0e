"""Random tables of odd types and nulls: each value is the one that pyarrow gives, and a bad row costs that row."""

from __future__ import annotations

import datetime
import decimal
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.errors import CodecError
from tests.campaign import SEED, share

arrow = pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
pytest.importorskip("pyarrow.parquet")

TIME = datetime.datetime(1970, 1, 1)
LEAVES: list[tuple[Any, Callable[[random.Random], Any]]] = [
    *[(kind, lambda rng: rng.choice([0, 1, 127])) for kind in (arrow.int8(), arrow.uint16(), arrow.uint64())],
    (arrow.int64(), lambda rng: rng.choice([-(2**63), 2**63 - 1, 2**53 + 1])),
    (arrow.float16(), lambda rng: np.float16(rng.choice([0, 1.5, -2]))),
    (arrow.float32(), lambda rng: rng.choice([0.0, -0.0, 1.5])),
    (arrow.float64(), lambda rng: rng.choice([0.1, 1e300])),
    (arrow.bool_(), lambda rng: rng.random() < 0.5),
    *[(kind, lambda rng: rng.choice(["", "é\n,", "null"])) for kind in (arrow.string(), arrow.large_string())],
    *[(kind, lambda rng: rng.randbytes(rng.choice([0, 5]))) for kind in (arrow.binary(), arrow.large_binary())],
    (arrow.binary(3), lambda rng: rng.randbytes(3)),
    (arrow.date32(), lambda rng: TIME.date() + datetime.timedelta(rng.randrange(-9999, 9999))),
    (arrow.timestamp("ns", "UTC"), lambda rng: TIME + datetime.timedelta(seconds=rng.randrange(2**31))),
    (arrow.duration("s"), lambda rng: datetime.timedelta(seconds=rng.randrange(10**6))),
    (arrow.decimal128(9, 2), lambda rng: decimal.Decimal(rng.randrange(10**6)) / 100),
    (arrow.null(), lambda rng: None),
    (arrow.dictionary(arrow.int8(), arrow.string()), lambda rng: rng.choice(["a", ""])),
]
PLAIN = (*(f"is_{kind}" for kind in ("integer", "floating", "boolean", "string", "binary")), "is_fixed_size_binary")
PLAIN = (*PLAIN, "is_large_string", "is_large_binary")


def random_type(rng: random.Random, depth: int = 0) -> Any:
    if depth == 3 or rng.random() < 0.65:
        return rng.choice(LEAVES[: -1 if depth else None])[0]  # pyarrow writes no sound dictionary in a null struct
    inner = random_type(rng, depth + 1)
    return rng.choice(
        [
            arrow.list_(inner),
            arrow.large_list(inner),
            arrow.struct([("s", inner), ("t", arrow.int8())]),
            arrow.map_(arrow.string(), inner),
        ]
    )


def random_value(kind: Any, rng: random.Random, nulls: float) -> Any:
    if rng.random() < nulls:
        return None
    if arrow.types.is_struct(kind):
        return {field.name: random_value(field.type, rng, nulls) for field in kind}
    if arrow.types.is_map(kind):
        return [(key, random_value(kind.item_type, rng, nulls)) for key in "kl"[: rng.randrange(3)]]
    if arrow.types.is_list(kind) or arrow.types.is_large_list(kind):
        return [random_value(kind.value_type, rng, nulls) for _ in range(rng.randrange(4))]
    return next(make for leaf, make in LEAVES if leaf == kind)(rng)


def random_table(rng: random.Random) -> Any:
    n = rng.choice([1, 7, 30])
    columns = {}
    for number in range(rng.randrange(1, 5)):
        kind, nulls = random_type(rng), rng.choice([0, 0, 0.1, 1])
        values = [random_value(kind, rng, nulls) for _ in range(n)]
        columns[rng.choice([f"c{number}", f"é {number}", f"a.b{number}"])] = arrow.array(values, kind)
    return arrow.table(columns)


def write(table: Any, path: Path, rng: random.Random) -> None:
    if path.suffix == ".parquet":
        arrow.parquet.write_table(table, path, row_group_size=rng.choice([3, 100]), use_dictionary=rng.random() < 0.5)
        return
    with arrow.OSFile(str(path), "wb") as file, arrow.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=rng.choice([3, 100]))


def plain(value: Any) -> Any:
    """Return a value in Python's own types."""
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    return [plain(inner) for inner in value] if isinstance(value, list | tuple) else value


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_random_tables(suffix: str, tmp_path: Path) -> None:
    for number in range(share(300)):
        rng = random.Random(f"{SEED} {number}")
        table, path = random_table(rng), tmp_path / f"{number}{suffix}"
        write(table, path, rng)
        source = dataformats.open(path)
        batch = source.read(range(len(table)), on_corrupt="omit")
        found = dict(zip(batch.indices.tolist(), map(plain, batch), strict=True))
        for index in range(len(table)):
            if index in found:
                assert plain(source[index]) == found[index], (number, index)
            else:
                with pytest.raises(CodecError, match=f"record {index} "):
                    source[index]
        check_values(table, found)
        assert [finding.index for finding in dataformats.verify(path).findings] == sorted(batch.failed), number


def check_values(table: Any, found: dict[int, Any]) -> None:
    for name in table.column_names:
        column = table[name].combine_chunks()
        kind = column.type
        if any(getattr(arrow.types, is_kind)(kind) for is_kind in PLAIN):
            wanted = column.to_pylist()
            assert {at: record.get(name) for at, record in found.items()} == {at: plain(wanted[at]) for at in found}
