"""Write the golden files of Parquet and Arrow by pyarrow, datasets, Polars: `python tests/golden/parquet/write.py`."""

from __future__ import annotations

import datetime
import decimal
import json
import shutil
import sys
import tempfile
from pathlib import Path

import datasets
import polars
import pyarrow
from pyarrow import parquet

N = 25
HERE = Path(__file__).parent
ARROW = HERE.parent / "arrow"


def table() -> pyarrow.Table:
    """Return 25 rows of every type that a field can have."""
    rows = range(N)
    day = datetime.date(2024, 2, 28)
    return pyarrow.table(
        {
            "label": pyarrow.array(rows, pyarrow.int64()),
            "small": pyarrow.array([i - 12 for i in rows], pyarrow.int8()),
            "large": pyarrow.array([2**64 - 1 - i for i in rows], pyarrow.uint64()),
            "half": pyarrow.array([i / 4 for i in rows], pyarrow.float32()),
            "flag": pyarrow.array([i % 3 == 0 for i in rows]),
            "text": pyarrow.array([f"row {i} é" for i in rows]),
            "raw": pyarrow.array([bytes([i]) * i for i in rows], pyarrow.binary()),
            "maybe": pyarrow.array([i if i % 3 else None for i in rows]),
            "name": pyarrow.array([None if i % 2 else "even" for i in rows]),
            "tokens": pyarrow.array([list(range(i % 5 + 1)) for i in rows], pyarrow.list_(pyarrow.int32())),
            "vector": pyarrow.array([[float(i)] * 4 for i in rows], pyarrow.list_(pyarrow.float64(), 4)),
            "words": pyarrow.array([["a"] * (i % 3 + 1) for i in rows], pyarrow.list_(pyarrow.string())),
            "kind": pyarrow.array(["x" if i % 2 else "y" for i in rows]).dictionary_encode(),
            "day": pyarrow.array([day + datetime.timedelta(i) for i in rows]),
            "price": pyarrow.array([decimal.Decimal(i) / 4 for i in rows], pyarrow.decimal128(9, 2)),
            "box": pyarrow.array([{"x": i, "names": ["n"] * i} for i in rows]),
        }
    )


def main() -> None:
    """Write the files, and what they hold."""
    rows = table()
    parquet.write_table(rows, HERE / "types.parquet", row_group_size=7, write_page_checksum=True, compression="zstd")
    parquet.write_table(rows, HERE / "version-1.parquet", version="1.0", data_page_version="1.0", compression="gzip")
    parquet.write_table(
        rows, HERE / "version-2.parquet", data_page_version="2.0", compression="none", row_group_size=10
    )
    with pyarrow.ipc.new_file(str(ARROW / "types.arrow"), rows.schema) as out:
        out.write_table(rows, max_chunksize=7)
    options = pyarrow.ipc.IpcWriteOptions(compression="lz4")
    with pyarrow.ipc.new_file(str(ARROW / "lz4.feather"), rows.schema, options=options) as out:
        out.write_table(rows)
    with pyarrow.ipc.new_stream(str(ARROW / "stream.arrow"), rows.schema) as out:
        out.write_table(rows, max_chunksize=10)
    polars.DataFrame({"n": [1, None, 3], "text": ["a", "é", ""]}).write_ipc_stream(ARROW / "polars.arrow")
    with tempfile.TemporaryDirectory() as folder:
        dataset = datasets.Dataset.from_dict({"text": [f"row {i}" for i in range(N)], "label": list(range(N))})
        dataset.save_to_disk(Path(folder, "x"), num_shards=2)
        shutil.rmtree(ARROW / "hugging_face", ignore_errors=True)
        shutil.copytree(Path(folder, "x"), ARROW / "hugging_face")
    expected = [{name: _plain(value) for name, value in row.items()} for row in rows.to_pylist()]
    (HERE / "expected.json").write_text(json.dumps(expected, indent=0, ensure_ascii=False) + "\n", "utf-8")
    print(
        f"pyarrow {pyarrow.__version__}, datasets {datasets.__version__}, polars {polars.__version__}", file=sys.stderr
    )


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    return str(value) if isinstance(value, (datetime.date, decimal.Decimal)) else value


if __name__ == "__main__":
    main()
