"""Writes the golden files with litdata 0.2.76, pyarrow, torch and Pillow: `python make.py` in this folder."""

# pyright: reportMissingImports=false, reportIndexIssue=false, reportGeneralTypeIssues=false

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from litdata.streaming.item_loader import TokensLoader
from litdata.streaming.writer import BinaryWriter
from PIL import Image

HERE = Path(__file__).parent


def item(i: int) -> dict[str, Any]:
    return {
        "i": i,
        "f": i / 3,
        "s": "añ" * (i % 4),
        "b": bytes([i]) * (i % 3),
        "flag": i % 2 == 0,
        "t": torch.arange(i + 1).reshape(1, -1).float(),
        "n": np.arange((i + 1) * 2, dtype=np.int16).reshape(2, -1),
        "n1": np.arange(i % 5, dtype=np.int32),
        "t1": torch.arange(i % 5 + 1),
        "p": Image.fromarray(np.full((3, 4, 3), i, np.uint8)),
    }


def row(i: int) -> dict[str, Any]:
    tags = [str(number) for number in range(i % 3)]
    return {"text": "añ" * (i % 4), "n": i, "score": i / 3, "tags": tags, "more": None if i % 5 == 0 else i}


def write(name: str, items: list[Any], **options: Any) -> None:
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    writer = BinaryWriter(str(folder), **options)
    for index, value in enumerate(items):
        writer[index] = value
    writer.done()
    writer.merge(1)


def main() -> None:
    items = [item(i) for i in range(12)]
    write("types", items, chunk_size=5)
    write("zstd", items, chunk_size=5, compression="zstd", compression_level="chunk")
    write("framed", items[:2], chunk_size=5, compression="zstd")
    write("single", [f"text{i}" for i in range(7)], chunk_size=4)
    write("tuple", [(i, "x" * i) for i in range(7)], chunk_size=4)
    tokens = [torch.arange(i * 10, i * 10 + 10 + i, dtype=torch.int32) for i in range(7)]
    write("tokens", tokens, chunk_bytes=120, item_loader=TokensLoader(block_size=8))
    write("arrow", [row(i) for i in range(300)], chunk_size=290, compression="zstd")
    write("pickle", [{"o": {1, 2}}] * 3, chunk_size=4)


if __name__ == "__main__":
    main()
