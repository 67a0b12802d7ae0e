"""Make the dataset of this folder with pylance: python tests/golden/lance/make.py"""

import shutil
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa

HERE = Path(__file__).parent
N = 40


def table(first: int, n: int) -> Any:
    numbers = range(first, first + n)
    required = pa.field("n", pa.int64(), nullable=False)
    fields = [required, pa.field("text", pa.string()), pa.field("blob", pa.binary(), nullable=False),
              pa.field("vector", pa.list_(pa.float32(), 3), nullable=False), pa.field("tokens", pa.list_(pa.int32())),
              pa.field("maybe", pa.int16())]  # fmt: skip
    columns = {
        "n": list(numbers),
        "text": ["é" * (i % 4) + str(i) for i in numbers],
        "blob": [bytes([i]) * (i % 7) for i in numbers],
        "vector": [np.arange(3, dtype="f4") + i for i in numbers],
        "tokens": [list(range(i % 5)) for i in numbers],
        "maybe": [i if i % 3 else None for i in numbers],
    }
    return pa.table(columns, schema=pa.schema(fields))


def main() -> None:
    path = HERE / "types.lance"
    shutil.rmtree(path, ignore_errors=True)
    lance.write_dataset(table(0, 30), path, max_rows_per_file=20)
    lance.write_dataset(table(30, N - 30 + 2), path, mode="append")
    lance.dataset(path).delete("n >= 40")
    damaged = HERE / "corrupt" / "data.lance"
    shutil.rmtree(damaged, ignore_errors=True)
    lance.write_dataset(table(0, 10), damaged)
    (file,) = (damaged / "data").iterdir()
    file.write_bytes(file.read_bytes()[:100])


main()
