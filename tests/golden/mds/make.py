"""Writes the golden files with mosaicml-streaming 0.13.0, Pillow and NumPy: `python make.py` in this folder.

`types` has every encoding but pickle, `zstd` and `gz` the same samples compressed, with hashes, `merged` two datasets
in folders below, with one index by `merge_index`. `brotli`, `pickle` are refused. `corrupt` has damaged copies.
"""

# pyright: reportMissingImports=false, reportIndexIssue=false, reportGeneralTypeIssues=false

import json
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from streaming import MDSWriter
from streaming.base.util import merge_index

HERE = Path(__file__).parent
NUMBERS = ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]
COLUMNS = {
    **{name: name for name in NUMBERS},
    "bytes": "bytes",
    "str": "str",
    "int": "int",
    "json": "json",
    "str_int": "str_int",
    "str_float": "str_float",
    "str_decimal": "str_decimal",
    "pil": "pil",
    "jpeg": "jpeg",
    "png": "png",
    "list_jpeg": "list[jpeg]",
    "list_pil": "list[pil]",
    "list_png": "list[png]",
    "jpegarray": "jpegarray",
    "any_array": "ndarray",
    "array": "ndarray:int32",
    "fixed": "ndarray:float32:2,3",
}
N = 12


def picture(index: int, mode: str = "RGB") -> Image.Image:
    pixels = (np.arange((3 + index) * 4 * 3) * 5 + index).astype(np.uint8).reshape(3 + index, 4, 3)
    return Image.fromarray(pixels).convert(mode)


def jpeg(index: int) -> bytes:
    from io import BytesIO

    out = BytesIO()
    picture(index).save(out, format="JPEG")
    return out.getvalue()


def sample(i: int) -> dict[str, Any]:
    return {
        **{name: np.dtype(name).type(i * 7 % 100) for name in NUMBERS},
        "bytes": bytes([i]) * (i % 5),
        "str": "añ€😀"[: i % 5] * i,
        "int": i * -(10**12),
        "json": {"i": i, "list": [i, None, "é"]},
        "str_int": 10**30 + i,
        "str_float": i / 7,
        "str_decimal": Decimal(i) / Decimal(8),
        "pil": picture(i, ("RGB", "L", "RGBA", "1", "I", "F")[i % 6]),
        "jpeg": picture(i),
        "png": picture(i),
        "list_jpeg": [picture(i)] * (i % 3),
        "list_pil": [picture(i)] * 2,
        "list_png": [picture(i), picture(i + 1)],
        "jpegarray": [jpeg(i)] * (1 + i % 2),
        "any_array": np.arange(i + 1, dtype=NUMBERS[i % 11]).reshape(1, -1),
        "array": np.arange((i % 4 + 1) * 2, dtype=np.int32).reshape(-1, 2),
        "fixed": np.full((2, 3), i / 3, np.float32),
    }


def write(name: str, first: int = 0, stop: int = N, columns: dict[str, str] = COLUMNS, **options: Any) -> Path:
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    with MDSWriter(out=str(folder), columns=columns, **options) as writer:
        for i in range(first, stop):
            writer.write({key: value for key, value in sample(i).items() if key in columns})
    return folder


def damaged(name: str, file: str, offset: int, data: bytes, cut: int | None = None) -> None:
    folder = HERE / "corrupt" / name
    shutil.copytree(HERE / "plain", folder)
    old = (folder / file).read_bytes()
    (folder / file).write_bytes((old[:offset] + data + old[offset + len(data) :])[:cut])


def main() -> None:
    write("types", size_limit=8192)
    small = {name: COLUMNS[name] for name in ("str", "int", "bytes", "fixed")}
    write("plain", columns=small, size_limit=700, hashes=["sha1", "xxh64"])
    write("empty", stop=0)
    write("one_variable", columns={"str": "str", "int32": "int32"})
    for kind in ("zstd", "gz", "br"):
        write(kind, columns=small, compression=f"{kind}:3", size_limit=500, hashes=["sha256"])
    write("pickle", columns={"int": "pkl"})
    merged = HERE / "merged"
    shutil.rmtree(merged, ignore_errors=True)
    for number in (0, 1):
        write(f"merged/part{number}", number * 6, number * 6 + 6, small, size_limit=300)
    merge_index(str(merged))
    shutil.rmtree(HERE / "corrupt", ignore_errors=True)
    text = (HERE / "plain" / "index.json").read_bytes()
    damaged("index_cut", "index.json", 0, b"", len(text) // 2)
    damaged("path", "index.json", 0, text.replace(b'"shard.00000.mds"', b'"../shard.00.mds"'))
    damaged("samples", "shard.00000.mds", 0, b"\x09")
    damaged("offset", "shard.00000.mds", 8, b"\xff\xff\xff\x7f")
    damaged("shard_cut", "shard.00001.mds", 0, b"", -5)
    begin = int.from_bytes((HERE / "plain" / "shard.00000.mds").read_bytes()[4:8], "little")
    damaged("head", "shard.00000.mds", begin, b"\xf0")
    sizes = {path.parent.name: path.stat().st_size for path in HERE.rglob("*.mds")}
    print(json.dumps(sizes, indent=1))


if __name__ == "__main__":
    main()
