"""Make the folders of this folder with zarr: python tests/golden/zarr/make.py"""

import json
import shutil
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import zarr

HERE = Path(__file__).parent
N = 40


def fill(path: Path, version: Any) -> Any:
    shutil.rmtree(path, ignore_errors=True)
    group = zarr.open_group(path, mode="w", zarr_format=version)
    numbers = np.arange(N)
    for dtype in ("<i2", "|u1", "<f2", ">f8", "|b1"):
        group.create_array(f"numbers/{dtype[1:]}", data=(numbers % 100).astype(dtype), chunks=(20,))
    group.create_array("image", data=np.arange(N * 12, dtype="u1").reshape(N, 2, 2, 3) % 251, chunks=(20, 2, 2, 3))
    text = group.create_array("text", shape=(N,), dtype="str", chunks=(20,))
    text[:] = np.array(["é" * (i % 4) + str(i) for i in range(N)], object)
    group.create_array("fixed", data=np.array([f"c{i % 5}" for i in range(N)], "S3"), chunks=(20,))
    group.create_array("mean", data=np.array(1.5))  # no rows
    return group


def main() -> None:
    fill(HERE / "v2.zarr", 2)
    zarr.consolidate_metadata(HERE / "v2.zarr")
    fill(HERE / "v3.zarr", 3)
    for name in ("array.zarr", "sharded.zarr", "corrupt/chunk.zarr", "corrupt/metadata.zarr", "corrupt/pickle.zarr"):
        shutil.rmtree(HERE / name, ignore_errors=True)
    zarr.create_array(HERE / "array.zarr", data=np.arange(60).reshape(20, 3), chunks=(5, 3))
    group = zarr.open_group(HERE / "sharded.zarr", mode="w")
    group.create_array("n", data=np.arange(20000), chunks=(1000,), shards=(5000,))
    damaged = fill(HERE / "corrupt" / "chunk.zarr", 3)
    for name in ("text", "fixed", "numbers", "mean"):
        del damaged[name]
    chunk = HERE / "corrupt" / "chunk.zarr" / "image" / "c" / "1" / "0" / "0" / "0"
    chunk.write_bytes(chunk.read_bytes()[:20])
    (HERE / "corrupt" / "metadata.zarr").mkdir()
    (HERE / "corrupt" / "metadata.zarr" / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group"')
    folder = HERE / "corrupt" / "pickle.zarr"
    folder.mkdir()
    metadata = {"zarr_format": 2, "shape": [2], "chunks": [2], "dtype": "<i4", "fill_value": 0, "order": "C",
                "filters": None, "compressor": {"id": "pickle", "protocol": 5}}  # fmt: skip
    (folder / ".zarray").write_text(json.dumps(metadata))
    (folder / "0").write_bytes(numcodecs.Pickle().encode(np.array([1, 2], "i4")))


main()
