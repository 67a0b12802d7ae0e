"""Conversion: from one file to another, read back, beside copies, loops of the original programs, and itself."""

from __future__ import annotations

import contextlib
import functools
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import dataformats
from tests.benchmarks.harness import OURS, Case, Data, Side, Target, Work, peer
from tests.benchmarks.ours import write
from tests.benchmarks.photos import Photos
from tests.benchmarks.tfrecord import KB, file_of

SHAPE = (3, 64, 64)
SPEC = {"image": f"uint8[{','.join(map(str, SHAPE))}]", "label": "int64"}
PHOTOS = Photos("conversion", "375×500 JPEGs", 2_000)
COPY, LOOP, WHOLE, ONE_WORKER = "cp, then cat", "tfrecord, granular", "the whole conversion", "1 worker"

Convert = Callable[[Path], int | None]


def converting(
    data: Data, title: str, sides: Mapping[str, Convert], prepare: Convert | None = None, needs: Sequence[str] = ()
) -> Work:
    """Return the work of converting into the shared memory, so that no side waits for a disk.

    Args:
        data: The folder of the sources.
        title: The first column of the table.
        sides: Maps a name to a function that writes to a path and returns the number of records.
        prepare: Creates something at that path, outside the timing.
        needs: The modules that all sides but ours need.
    """
    shared = Path("/dev/shm")
    folder = tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else data.folder)
    path = Path(folder.name) / "new"

    def before(_keep: object = folder) -> None:  # the folder is deleted with this function
        for part in path.parent.iterdir():
            shutil.rmtree(part) if part.is_dir() else part.unlink()
        if prepare is not None:
            prepare(path)

    def side(convert: Convert) -> Side:
        for module in needs if convert is not sides[OURS] else ():
            peer(module)
        return Side(lambda: (convert(path) for _ in range(1)), lambda records: {"records": records})

    return Work(title, {name: functools.partial(side, convert) for name, convert in sides.items()}, before)


# ---- the same payload


def copying(data: Data) -> Work:
    """Return the work of copying payloads to another format."""
    source, n = file_of(data, 300_000, KB)

    def ours(path: Path) -> int:
        return dataformats.convert(source, path, "ffrecord", source_options={"payload": "bytes"}).records

    def copy(path: Path) -> int:
        subprocess.run(["cp", source, path], check=True)
        subprocess.run(["cat", path], check=True, stdout=subprocess.DEVNULL)
        return n

    return converting(data, f"TFRecord to FFRecord, {n:,} × 1 KB, read back", {OURS: ours, COPY: copy})


# ---- fields


def arrays(data: Data, full: int) -> tuple[Path, int]:
    """Return a TFRecord of arrays with a label, and how many there are."""
    n = data.count(full, least=64)
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (256, *SHAPE), np.uint8)
    records = ({"image": images[number % 256], "label": number % 100} for number in range(n))
    return data.made(f"arrays-{n}.tfrecord", lambda path: write(path, records, "tfrecord", spec=SPEC)), n


def to_granular(data: Data) -> Work:
    """Return the work of decoding Examples and encoding them as Granular."""
    source, n = arrays(data, 60_000)

    def ours(path: Path) -> int:
        return dataformats.convert(source, path, "granular").records

    def original(path: Path) -> int:
        tfrecord, granular = peer("tfrecord"), peer("granular")
        fields = {"image": "byte", "label": "int"}
        with granular.DatasetWriter(path, {"image": "array", "label": "int"}, granular.encoders) as writer:
            for record in tfrecord.tfrecord_loader(str(source), None, fields):
                image = np.frombuffer(record["image"], np.uint8).reshape(SHAPE)
                writer.append({"image": image, "label": int(record["label"][0])})
        return n

    title = f"TFRecord to Granular, {n:,} × {{uint8[3,64,64], int64}}, read back"
    return converting(data, title, {OURS: ours, LOOP: original}, needs=("tfrecord", "granular"))


def resuming(data: Data) -> Work:
    """Return the work of resuming a conversion that is 90 % done, and of the whole one."""
    source, n = arrays(data, 60_000)
    options: dict[str, Any] = {"format": "granular", "shard_records": -(-n // 20)}

    def stop(done: int, total: int) -> None:
        if done >= 0.9 * total:
            raise KeyboardInterrupt

    def prepare(path: Path) -> None:
        with contextlib.suppress(KeyboardInterrupt):
            dataformats.convert(source, path, progress=stop, **options)

    def resume(path: Path) -> int:
        return dataformats.convert(source, path, resume=True, **options).records

    def whole(path: Path) -> int:
        return dataformats.convert(source, path.with_name("whole"), **options).records

    return converting(data, f"Resume the same, {n:,} records, 90 % done", {OURS: resume, WHOLE: whole}, prepare)


# ---- pictures


def pictures(data: Data) -> Work:
    """Return the work of encoding JPEGs again with one worker and with two."""
    source, n = PHOTOS.stored(data)

    def with_workers(path: Path, workers: int) -> int:
        options = {"spec": {"image": "jpg", "label": "int64"}}
        new = {"image": "jpg(80)", "label": "int64"}
        return dataformats.convert(
            source, path, "ffrecord", spec=new, source_options=options, workers=workers, shard_records=-(-n // 20)
        ).records

    sides = {OURS: functools.partial(with_workers, workers=2), ONE_WORKER: functools.partial(with_workers, workers=1)}
    return converting(data, f"{n:,} × {PHOTOS.what} to jpg(80), 2 workers, read back", sides)


CASES = (
    Case("convert-copy", copying, (Target(COPY, 0.3),)),
    Case("convert-granular", to_granular, (Target(LOOP, 10),)),
    Case("convert-resume", resuming, (Target(WHOLE, 5),)),
    Case("convert-pictures", pictures, (Target(ONE_WORKER, 1.8),)),
)
