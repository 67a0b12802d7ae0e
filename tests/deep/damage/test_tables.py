"""Damaged files that libraries decode: each read gives the record or an error, and `omit` leaves out the same records.

LMDB is not here: its library maps the file, and follows damaged pages out of it.
"""

from __future__ import annotations

import importlib
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.errors import DataFormatsError
from tests.campaign import SEED, share

N = 20
SPEC = {"a": "int64", "b": "float32[2,3]", "text": "utf8"}


def write_records(path: Path) -> None:
    options: dict[str, Any] = {"batch_records" if path.suffix == ".arrow" else "row_group_records": 3}
    with dataformats.create(path, spec=SPEC, **options) as out:
        out.extend({"a": n, "b": np.full((2, 3), n), "text": f"s{n}"} for n in range(N))


def write_csv(path: Path) -> None:
    path.write_text("a,text,x\n" + "".join(f'{n},"x,y",{n}.5\n' for n in range(N)))


def write_hdf5(path: Path) -> None:
    with importlib.import_module("h5py").File(path, "w") as file:
        file.create_dataset("a", data=np.arange(N))
        file.create_dataset("b", data=np.arange(N * 6.0).reshape(N, 2, 3), chunks=(3, 2, 3), compression="gzip")


def write_zarr(path: Path) -> None:
    group = importlib.import_module("zarr").open_group(path, mode="w")
    for name, values in (("a", np.arange(N)), ("b", np.arange(N * 6.0).reshape(N, 2, 3))):
        group.create_array(name, data=values, chunks=(3, *values.shape[1:]))


WRITERS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "x.parquet": ("pyarrow", write_records),
    "x.arrow": ("pyarrow", write_records),
    "x.csv": ("pyarrow", write_csv),
    "x.h5": ("h5py", write_hdf5),
    "x.zarr": ("zarr", write_zarr),
}


def damage(file: Path, rng: random.Random) -> None:
    data = bytearray(file.read_bytes())
    at, n = rng.randrange(len(data)), rng.choice([1, 16, 600])
    match rng.randrange(5):
        case 0:
            data[at] ^= 1 << rng.randrange(8)
        case 1:
            data[at : at + n] = bytes(len(data[at : at + n]))
        case 2:
            data[at : at + n] = rng.randbytes(len(data[at : at + n]))
        case 3:
            del data[at:]
        case 4:
            data[at:at] = data[max(0, at - 50) : at]
    file.write_bytes(data)


@pytest.mark.filterwarnings("ignore::UserWarning")  # a field is left out
@pytest.mark.parametrize("name", [*WRITERS])
def test_random_damage(name: str, tmp_path: Path) -> None:
    library, write = WRITERS[name]
    pytest.importorskip(library)
    write(tmp_path / name)
    for number in range(share(60 if name == "x.zarr" else 300)):
        rng, path = random.Random(f"{SEED} {name} {number}"), tmp_path / str(number) / name
        path.parent.mkdir()
        (shutil.copytree if (tmp_path / name).is_dir() else shutil.copy)(tmp_path / name, path)
        files = [path] if path.is_file() else sorted(one for one in path.rglob("*") if one.is_file())
        damage(rng.choice(files), rng)
        try:
            source = dataformats.open(path)
            batch = source.read(range(len(source)), on_corrupt="omit")
        except DataFormatsError:
            continue
        assert [index for index in range(len(source)) if can_read(source, index)] == batch.indices.tolist(), number
        dataformats.verify(path)


def can_read(source: dataformats.RecordSource, index: int) -> bool:
    try:
        source[index]
    except DataFormatsError:
        return False
    return True
