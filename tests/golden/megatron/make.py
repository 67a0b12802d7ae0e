"""Write the golden files with megatron-core 0.16.1 (its `IndexedDatasetBuilder`) and torch, and damage copies of them.

Run from a checkout: `python -m tests.golden.megatron.make`.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).parent
DTYPES = ("uint8", "int8", "int16", "int32", "int64", "uint16")
_IDX_HEADER = 34


def document(index: int, dtype: str = "uint16") -> NDArray[Any]:
    """Return the tokens of document `index`: 0 to 12 of them."""
    return (index * 1000 + np.arange(index * 7 % 13)).astype(dtype)


def sentence_lengths(index: int) -> list[int]:
    """Return the tokens of each sentence of document `index`."""
    n = len(document(index))
    return [n // 3, 0, n - n // 3] if index % 2 else [n]


def main() -> None:
    import torch
    from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder  # type: ignore[import-not-found]

    def builder(name: str, dtype: str, **options: Any) -> Any:
        return IndexedDatasetBuilder(str(HERE / f"{name}.bin"), dtype=getattr(np, dtype), **options)

    def tokens(index: int, dtype: str) -> Any:
        return torch.from_numpy(document(index, dtype).astype(np.int64))

    for dtype in DTYPES:
        built = builder(dtype, dtype)
        for index in range(20):
            built.add_item(tokens(index, dtype))
            built.end_document()
        built.finalize(str(HERE / f"{dtype}.idx"))
    sentences = builder("sentences", "int32")
    for index in range(20):
        sentences.add_document(tokens(index, "int32"), sentence_lengths(index))
    sentences.finalize(str(HERE / "sentences.idx"))
    merged = builder("merged", "int32")
    merged.add_index(str(HERE / "int32"))
    merged.add_index(str(HERE / "sentences"))
    merged.finalize(str(HERE / "merged.idx"))
    builder("empty", "uint16").finalize(str(HERE / "empty.idx"))
    modes = builder("modes", "int32", multimodal=True)
    for index in range(4):
        modes.add_item(tokens(index, "int32"), mode=index % 2)
        modes.end_document()
    modes.finalize(str(HERE / "modes.idx"))
    _damage()


def _damage() -> None:
    """Write damaged copies of `uint16` and `sentences`, named for their damage."""
    good, idx = (HERE / "uint16.bin").read_bytes(), (HERE / "uint16.idx").read_bytes()
    second = _IDX_HEADER + 4 * 20 + 8  # the pointer of the second document
    damaged = {
        "cut_data": (good[:-5], idx),
        "cut_tables": (good, idx[:-1]),
        "cut_header": (good, idx[:20]),
        "version_2": (good, idx[:9] + struct.pack("<Q", 2) + idx[17:]),
        "code_7": (good, idx[:17] + b"\7" + idx[18:]),
        "huge_count": (good, idx[:18] + struct.pack("<Q", 2**62) + idx[26:]),
        "negative_size": (good, idx[:_IDX_HEADER] + struct.pack("<i", -1) + idx[_IDX_HEADER + 4 :]),
        "pointer_outside": (good, idx[:second] + struct.pack("<q", 2**62) + idx[second + 8 :]),
        "documents_fall": (good, idx[:-16] + struct.pack("<2q", 2, 20)),
        "documents_end_early": (good, idx[:-8] + struct.pack("<q", 19)),
    }
    for name, (data, tables) in damaged.items():
        (HERE / "corrupt" / f"{name}.bin").write_bytes(data)
        (HERE / "corrupt" / f"{name}.idx").write_bytes(tables)
    (HERE / "corrupt" / "no_tables.bin").write_bytes(good)
    (HERE / "corrupt" / "no_data.idx").write_bytes(idx)


if __name__ == "__main__":
    main()
