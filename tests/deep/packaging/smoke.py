"""Check an installed wheel: `python tests/deep/packaging/smoke.py [--all]` in its environment.

The wheel has compiled kernels, stands in the environment, reads a golden file of every format, and runs the examples
of every command. Formats and commands whose package is missing are named; `--all` makes that an error.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import dataformats
import dataformats.kernels
from dataformats.cli import app
from dataformats.errors import MissingExtraError
from dataformats.registry import backends

ALL = "--all" in sys.argv[1:]
GOLDEN = Path(__file__).parents[2] / "golden"
FILES = {  # format: path, records
    "array_record": ("array_record/groups.array_record.gz", 20),
    "arrow": ("arrow/types.arrow", 25),
    "audio": ("sounds", 1),
    "csv": ("digits.csv", 3),
    "ffrecord": ("ffrecord/many_1000.ffr", 1000),
    "granular": ("granular/v3/many", 300),
    "hdf5": ("hdf5/contiguous.h5", 40),
    "images": ("pets", 2),
    "json": ("json/indent.json", 12),
    "jsonl": ("jsonl/python.jsonl", 60),
    "lance": ("lance/types.lance", 40),
    "litdata": ("litdata/types", 12),
    "lmdb": ("lmdb/folder", 100),
    "mds": ("mds/types", 12),
    "megatron": ("megatron/int32.bin", 20),
    "npy": ("npy/images.npy", 12),
    "ofrecord": ("ofrecord/many_1000.ofrecord", 1000),
    "parquet": ("parquet/types.parquet", 25),
    "recordio": ("recordio/images.rec", 40),
    "safetensors": ("safetensors/rows.safetensors", 20),
    "syrah": ("syrah/many_2000.syr", 2000),
    "text": ("digits.txt", 4),
    "tfrecord": ("tfrecord/many_1000.tfrecord", 1000),
    "tokens": ("tokens/fineweb_train_000000.bin", 62),
    "videos": ("clips", 1),
    "webdataset": ("webdataset/train-000000.tar", 4),
    "zarr": ("zarr/v3.zarr", 40),
}
MEDIA = {"clips": ("1.mov", b"\0\0\0\x14ftypqt  "), "sounds": ("1.m4a", b"\0\0\0\x14ftypM4A ")}  # of no codec
OPTIONS: dict[str, Any] = {"tokens": {"window": 16}}


def check_installation() -> None:
    program = Path(sysconfig.get_path("scripts"), "dataformats")
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if version != dataformats.__version__:
        raise SystemExit(f"smoke: expected version {dataformats.__version__} of {program}, found {version}")
    place = Path(dataformats.__file__).resolve()
    if Path(sys.prefix).resolve() not in place.parents:
        raise SystemExit(f"smoke: expected dataformats in {sys.prefix}, found {place}")
    kernels = dataformats.kernels.describe()
    if kernels["implementation"] != "native":
        raise SystemExit(f"smoke: expected compiled kernels, found {kernels}")
    shipped = {name for name in backends if backends.shipped(name)}
    if shipped != FILES.keys():
        raise SystemExit(f"smoke: expected the formats {sorted(FILES)}, found {sorted(shipped)}")


def unpack(folder: Path, path: str) -> Path:
    """Copy a golden file, or make the file of a format whose original program is this one."""
    source, copy = GOLDEN / path, folder / path.removesuffix(".array_record.gz")
    copy.parent.mkdir(parents=True, exist_ok=True)
    if path == "pets":
        for name in ("cat", "dog"):
            (copy / name).mkdir(parents=True)
            (copy / name / "1.jpg").write_bytes(dataformats.open(GOLDEN / "real/photos.tfrecord")[0]["image"])
    elif path in MEDIA:
        copy.mkdir(parents=True)
        name, data = MEDIA[path]
        (copy / name).write_bytes(data + bytes(99))
    elif path.startswith("digits."):
        copy.write_text("x,y\n1,2\n3,4\n5,6\n")
    elif path.endswith(".gz"):
        copy = copy.with_suffix(".array_record")
        copy.write_bytes(gzip.decompress(source.read_bytes()))
    elif source.is_dir():
        shutil.copytree(source, copy)
    else:
        for file in source.parent.glob(f"{source.stem}.*"):
            shutil.copyfile(file, copy.with_suffix(file.suffix))
    return copy


def check_format(name: str, folder: Path) -> bool:
    """Verify the file of a format; return False if the format needs a package that is not installed."""
    path, n_records = FILES[name]
    try:
        source = dataformats.open(unpack(folder, path), **OPTIONS.get(name, {}))
        source[len(source) - 1]
        report = dataformats.verify(source)
    except MissingExtraError as error:
        print(f"{name} needs a package: {error}")
        return False
    if (report.format, report.records, report.findings) != (name, n_records, ()):
        raise SystemExit(f"smoke: expected {n_records} sound records of {name}, found {report}")
    return True


def check_commands(folder: Path) -> None:
    """Run the examples of each command in a folder of its own; only the viewer's server is not started."""
    for examples in app.COMMANDS.values():
        place = Path(tempfile.mkdtemp(dir=folder))
        os.chdir(place)
        for path in (GOLDEN / "real").glob("*.tfrecord"):
            shutil.copy(path, place)
        digits = dataformats.Loader(dataformats.open(str(place / "digits-*.tfrecord")), 16, seed=0)
        next(iter(digits))
        (place / "state.json").write_text(json.dumps(digits.state_dict()))
        for example in examples:
            words = shlex.split(example)[1:]
            if words[0] == "view" and "--export" not in words:
                continue
            code, printed = run(words)
            if code and not ALL and "needs a package" in printed:
                print(f"{example}: {printed}", end="")
            elif code:
                raise SystemExit(f"smoke: {example} ends with {code}\n{printed}")


def run(words: list[str]) -> tuple[object, str]:
    """Run a command in this process; return its exit code and what it printed."""
    printed = io.TextIOWrapper(io.BytesIO(), write_through=True)  # commands write bytes, too
    with redirect_stdout(printed), redirect_stderr(printed):
        try:
            app.main(words)
        except SystemExit as end:
            code = end.code
    return code, printed.buffer.getvalue().decode()


def main() -> None:
    check_installation()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["DATAFORMATS_CACHE"] = str(folder / "cache")
        read = [format for format in FILES if check_format(format, folder / format)]
        if ALL and len(read) < len(FILES):
            raise SystemExit(f"smoke: expected all formats, found {read}")
        check_commands(folder)
        os.chdir("/")
    variants = dataformats.kernels.describe()["variants"]
    print(f"dataformats {dataformats.__version__}: {len(read)} formats, {len(app.COMMANDS)} commands, {variants}")


if __name__ == "__main__":
    main()
