"""Writes the files here: by webdataset 1.0.2 and by GNU tar 1.34 or later, and damaged ones from these.

`expected.json` has the samples of each file as webdataset reads them: key and extensions to bytes, in hex. Run it in an
environment with webdataset, numpy and Pillow: `python tests/golden/webdataset/make.py`.
"""

from __future__ import annotations

import importlib
import io
import json
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

webdataset: Any = importlib.import_module("webdataset")

HERE = Path(__file__).parent
BLOCK = 512


def sample(i: int) -> dict[str, object]:
    pixels = (np.arange(48) * (i + 1) % 256).astype(np.uint8).reshape(4, 4, 3)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    found: dict[str, object] = {
        "__key__": f"train/{i:04d}",
        "png": stream.getvalue(),
        "cls": i * 3 - 5,
        "json": {"i": i, "text": "é"},
        "emb.npy": np.arange(3, dtype=np.float32) * i,
        "bin": b"x" * (i * 300),
    }
    return found | ({"caption.txt": f"sample {i}"} if i % 3 else {})


def by_webdataset() -> None:
    with webdataset.ShardWriter(str(HERE / "train-%06d.tar"), maxcount=4, mtime=0, verbose=0) as shards:
        for i in range(10):
            shards.write(sample(i))
    with webdataset.TarWriter(str(HERE / "compressed.tar.gz"), mtime=0) as tar:
        for i in range(3):
            tar.write(sample(i))
    with webdataset.TarWriter(str(HERE / "long.tar"), mtime=0) as tar:  # Python's tarfile writes pax headers for these
        for key in ("folder/" + "k" * 120, "schlüssel/ä", "UPPER"):
            tar.write({"__key__": key, "TXT": key, "b.Cls": 7})


def by_gnu_tar(format: str, name: str, *options: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        long = "f" * 90 + "/" + "g" * 60 if format != "v7" else "short"
        for path, data in {
            f"{long}/a.txt": b"text",
            f"{long}/a.cls": b"7",
            "b.c/d.seg.TXT": b"",
            "b.c/e": b"no extension",
            "b.c/.hidden.txt": b"hidden",
            "z.bin": b"\0" * 1024,  # like the end of an archive
        }.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(data)
        (root / "b.c" / "link.txt").symlink_to("e")
        command = ["tar", "--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner", "--mode=644", "-b1"]
        command += ["--pax-option=delete=atime,delete=ctime"] if format == "pax" else []
        subprocess.run([*command, f"--format={format}", *options, "-cf", HERE / name, "."], cwd=root, check=True)


def sparse() -> None:
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/a.bin", "wb") as file:
            file.seek(100_000)
            file.write(b"end")
        Path(folder, "b.bin").write_bytes(b"whole")
        for format in ("gnu", "pax"):
            options = ["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "-b1", "--sparse", f"--format={format}"]
            options += ["--pax-option=delete=atime,delete=ctime"] if format == "pax" else []
            target = HERE / "corrupt" / f"sparse_{format}.tar"
            subprocess.run(["tar", *options, "-cf", target, "a.bin", "b.bin"], cwd=folder, check=True)


def damaged() -> None:
    whole = (HERE / "gnu.tar").read_bytes()
    train = (HERE / "train-000000.tar").read_bytes()
    later = (HERE / "train-000001.tar").read_bytes()  # its first member has data
    flipped = bytearray(train)
    flipped[BLOCK + 3] ^= 1  # the first member has no data
    huge = bytearray(train[:BLOCK])
    huge[124:136] = b"\x80" + b"\xff" * 11
    wide = bytearray(train[:BLOCK])
    wide[124:136] = b"\x80" + (2**50).to_bytes(11, "big")
    found = {
        "cut_data": later[: BLOCK + 40],
        "cut_header": train[: len(train) // BLOCK // 2 * BLOCK + 100],
        "flipped_header": bytes(flipped),
        "huge_size": summed(huge) + train[BLOCK:],
        "wide_size": summed(wide) + train[BLOCK:],
        "lone_zeros": train[:BLOCK] + bytes(BLOCK) + train[BLOCK:],
        "no_end": train[: len(train.rstrip(b"\0")) // BLOCK * BLOCK + BLOCK],
        "pax_length": (HERE / "pax.tar").read_bytes().replace(b" path=", b"9path=", 1),
        "empty": b"",
        "first_header": b"\1" + whole[1:],
    }
    for name, data in found.items():
        (HERE / "corrupt" / f"{name}.tar").write_bytes(data)
    with tarfile.open(HERE / "corrupt" / "duplicate.tar", "w", format=tarfile.USTAR_FORMAT) as archive:
        for name in ("a.txt", "b.txt", "b.txt", "c.txt"):
            about = tarfile.TarInfo(name)
            about.size = 1
            archive.addfile(about, io.BytesIO(b"1"))


def summed(head: bytearray) -> bytes:
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head)


def expected() -> None:
    found = {}
    for path in sorted([*HERE.glob("*.tar"), *HERE.glob("*.tar.gz")]):
        samples = webdataset.WebDataset(str(path), shardshuffle=False, empty_check=False)
        found[path.name] = [
            {name: value if isinstance(value, str) else value.hex() for name, value in one.items()}
            for one in ({k: v for k, v in one.items() if k not in ("__url__", "__local_path__")} for one in samples)
        ]
    (HERE / "expected.json").write_text(json.dumps(found, indent=0) + "\n")


if __name__ == "__main__":
    by_webdataset()
    for name in ("gnu", "pax", "ustar", "v7"):
        by_gnu_tar(name, f"{name}.tar")
    sparse()
    damaged()
    expected()
