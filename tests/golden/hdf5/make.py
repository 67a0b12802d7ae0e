"""Make the files of this folder with h5py: python tests/golden/hdf5/make.py"""

# pyright: reportMissingImports=false, reportIndexIssue=false, reportGeneralTypeIssues=false

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np

HERE = Path(__file__).parent
N = 40


def text(i: int) -> str:
    return "é" * (i % 4) + str(i)


def blob(i: int) -> bytes:
    return bytes(range(i % 7)) + b"\xff"


def fill(out: Any, n: int = N, **options: Any) -> None:
    numbers = np.arange(n)
    for dtype in ("i1", "u1", "<i2", ">i2", "<u4", ">i8", "<f2", "<f4", ">f8"):
        out.create_dataset(
            f"numbers/{dtype[1:] if dtype[0] == '<' else dtype.replace('>', 'big_')}",
            data=(numbers * 3 % 100).astype(dtype),
            **options,
        )
    out.create_dataset("image", data=(np.arange(n * 12) % 251).astype("u1").reshape(n, 2, 2, 3), **options)
    out.create_dataset("flag", data=numbers % 3 == 0, **options)
    out.create_dataset("text", data=[text(i) for i in range(n)], dtype=h5py.string_dtype(), **options)
    texts = [text(i).encode() for i in range(n)]
    out.create_dataset("name", data=texts, dtype=h5py.string_dtype("ascii"), **options)
    out.create_dataset(
        "fixed", data=[text(i).encode() for i in range(n)], dtype=h5py.string_dtype("utf-8", 12), **options
    )
    out.create_dataset("label", data=np.array([f"c{i % 5}" for i in range(n)], "S4"), **options)
    tokens = out.create_dataset("tokens", (n,), h5py.vlen_dtype("<i4"), **options)
    blobs = out.create_dataset("blob", (n,), h5py.vlen_dtype("u1"), **options)
    for i in range(n):
        tokens[i], blobs[i] = np.arange(i % 5), np.frombuffer(blob(i), "u1")
    pair = np.zeros(n, [("x", "<f4"), ("box", "<i2", (2,)), ("in", [("y", ">i4")])])
    pair["x"], pair["box"], pair["in"]["y"] = numbers / 4, numbers[:, None] * [1, 2], numbers * 5
    out.create_dataset("pair", data=pair, **options)
    out["mean"] = 1.5  # no rows
    out["alias"] = h5py.SoftLink("/text")


def main() -> None:
    with h5py.File(HERE / "contiguous.h5", "w") as out:
        fill(out)
    with h5py.File(HERE / "chunked.h5", "w", libver="latest", userblock_size=512) as out:
        numbers = np.arange(6000)
        out.create_dataset("n", data=numbers, chunks=(100,), compression="gzip", shuffle=True, fletcher32=True)
        out.create_dataset("half", data=(numbers / 2).astype("f4"), chunks=(100,), compression="lzf")
    with h5py.File(HERE / "rows.h5", "w") as out:
        fill(out, chunks=True)
    with h5py.File(HERE / "lengths.h5", "w") as out:
        out["train/x"], out["train/y"], out["test/x"] = np.arange(9), np.arange(9) * 2, np.arange(4)
    with h5py.File(HERE / "corrupt" / "external_link.h5", "w") as out:
        out["x"], out["other"] = np.arange(4), h5py.ExternalLink("/etc/hostname", "/x")
    with h5py.File(HERE / "corrupt" / "external_storage.h5", "w") as out:
        out["x"] = np.arange(4, dtype="i1")
        out.create_dataset("raw", (4,), "i1", external=[("/etc/hostname", 0, 4)])
    with h5py.File(HERE / "corrupt" / "virtual.h5", "w") as out:
        layout = h5py.VirtualLayout((4,), "i8")
        layout[:] = h5py.VirtualSource("/tmp/other.h5", "x", (4,))
        out["x"] = np.arange(4)
        out.create_virtual_dataset("virtual", layout)
    with h5py.File(HERE / "corrupt" / "filter.h5", "w") as out:
        plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plan.set_chunk((4,))
        plan.set_filter(32099, h5py.h5z.FLAG_OPTIONAL)
        h5py.h5d.create(out.id, b"x", h5py.h5t.NATIVE_INT32, h5py.h5s.create_simple((4,)), plan)
    with h5py.File(HERE / "corrupt" / "huge.h5", "w") as out:
        out.create_dataset("x", (2**50,), "i8", chunks=(2**28,))
    whole = bytearray((HERE / "chunked.h5").read_bytes())
    with h5py.File(HERE / "chunked.h5") as found:
        chunk = found["n"].id.get_chunk_info(30)  # records 3000 to 3099
    whole[chunk.byte_offset + 512 + 20] ^= 255
    (HERE / "corrupt" / "chunk.h5").write_bytes(whole)
    (HERE / "corrupt" / "cut.h5").write_bytes((HERE / "rows.h5").read_bytes()[:5000])
    with h5py.File(HERE / "contiguous.h5") as found:
        expected = {name: [plain(row) for row in found[name][:]] for name in NAMES}
    (HERE / "expected.json").write_text(json.dumps(expected, indent=0) + "\n")


NAMES = [
    *(f"numbers/{name}" for name in ("i1", "u1", "i2", "big_i2", "u4", "big_i8", "f2", "f4", "big_f8")),
    "image",
    "flag",
    "text",
    "name",
    "fixed",
    "label",
    "tokens",
    "blob",
]


def plain(row: Any) -> Any:
    return row.decode() if isinstance(row, bytes) else row.tolist()


main()
