"""Write the golden files with llm.c's own `dev/data/data_common.py`, and as nanoGPT's prepare.py does; damage copies.

Run from a checkout, with the folder of that module: `PYTHONPATH=llm.c/dev/data python -m tests.golden.tokens.make`.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).parent


def stream(dtype: str, first: int = 0) -> NDArray[Any]:
    """Return 1,000 tokens."""
    step = 37 if dtype == "uint16" else 90_001
    return ((first + np.arange(1000)) * step % (2**16 if dtype == "uint16" else 128_256)).astype(dtype)


def main() -> None:
    from data_common import write_datafile  # type: ignore[import-not-found]  # of llm.c

    for shard in range(2):
        write_datafile(str(HERE / f"fineweb_train_{shard:06d}.bin"), stream("uint16", 1000 * shard).tolist())
    write_datafile(str(HERE / "llama.bin"), stream("uint32").tolist(), "llama-3")
    write_datafile(str(HERE / "empty.bin"), [])
    tokens = np.memmap(HERE / "train.bin", dtype=np.uint16, mode="w+", shape=(1000,))  # as in openwebtext/prepare.py
    tokens[:] = stream("uint16")
    tokens.flush()
    good = (HERE / "llama.bin").read_bytes()
    damaged = {
        "version_2": good[:4] + struct.pack("<i", 2) + good[8:],
        "cut": good[:-6],
        "longer": good + bytes(4),
        "huge_count": good[:8] + struct.pack("<i", 2**31 - 1) + good[12:],
        "negative_count": good[:8] + struct.pack("<i", -1) + good[12:],
    }
    for name, data in damaged.items():
        (HERE / "corrupt" / f"{name}.bin").write_bytes(data)


if __name__ == "__main__":
    main()
