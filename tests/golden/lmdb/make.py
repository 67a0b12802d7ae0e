"""Make the files of this folder with py-lmdb: python tests/golden/lmdb/make.py"""

import shutil
from pathlib import Path
from typing import Any

import lmdb

HERE = Path(__file__).parent


def value(i: int) -> bytes:
    return bytes([i % 256]) * (i * 37 % 400) + (b"x" * 9000 if i == 7 else b"")


def write(path: Path, n: int, **options: Any) -> None:
    with lmdb.open(str(path), map_size=2**20, **options) as env, env.begin(write=True) as out:
        for i in reversed(range(n)):
            out.put(f"key-{i:05d}".encode(), value(i))


def main() -> None:
    for name in ("folder", "single.lmdb", "empty.lmdb"):
        shutil.rmtree(HERE / name, ignore_errors=True)
        (HERE / name).unlink(missing_ok=True)
    write(HERE / "folder", 100)
    write(HERE / "single.lmdb", 50, subdir=False)
    write(HERE / "empty.lmdb", 0, subdir=False)
    for lock in HERE.glob("**/*lock*"):
        lock.unlink()
    whole = (HERE / "single.lmdb").read_bytes()
    (HERE / "corrupt" / "cut.lmdb").write_bytes(whole[: len(whole) // 2])
    (HERE / "corrupt" / "version.lmdb").write_bytes(
        whole[:20] + b"\x07" + whole[21 : 4096 + 20] + b"\x07" + whole[4096 + 21 :]
    )


main()
