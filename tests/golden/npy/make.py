"""Write the golden files with `numpy.save`, and damage copies of them. Run: `python -m tests.golden.npy.make`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).parent
ARRAYS: dict[str, NDArray[Any]] = {
    "images": (np.arange(12 * 4 * 5 * 3) * 7 % 251).astype("u1").reshape(12, 4, 5, 3),
    "vectors": (np.arange(30 * 8) * 0.37 - 11).astype("f4").reshape(30, 8),
    "labels": np.arange(50, dtype="i8") ** 2,
    "halves": (np.arange(40) / 16).astype("f2").reshape(10, 4),
    "flags": (np.arange(24) % 3 == 0).reshape(12, 2),
    "no_rows": np.zeros((0, 4), "f8"),
    "fortran_line": np.asfortranarray(np.arange(9, dtype="u2")),
}
REFUSED: dict[str, NDArray[Any]] = {
    "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "big_endian": np.arange(4, dtype=">i4"),
    "complex": np.zeros(3, "c8"),
    "text": np.array(["a", "b"]),
    "dates": np.array(["2020-01-01"], "M8[D]"),
    "structured": np.zeros(2, [("a", "f4")]),
    "single": np.array(1.5),
    "no_bytes": np.zeros((3, 0)),
    "objects": np.array([{"a": 1}, None], object),
}


def main() -> None:
    for name, array in ARRAYS.items():
        np.save(HERE / f"{name}.npy", array)
    for name, array in REFUSED.items():
        np.save(HERE / "corrupt" / f"{name}.npy", array, allow_pickle=True)
    with (HERE / "version_2.npy").open("wb") as file:
        np.lib.format.write_array(file, ARRAYS["labels"], (2, 0))
    good = (HERE / "vectors.npy").read_bytes()
    damaged = {
        "cut_header": good[:60],
        "version_9": good[:6] + b"\x09" + good[7:],
        "longer": good + b"\0",
        "huge_shape": good.replace(b"(30, 8), }", b"(9**9, 8),"),
        "huge_rows": good.replace(b"(30, 8), }                  ", b"(999999999999999999, 8), }  "),
        "nested": good[:10] + b"(" * 117 + b"\n" + good[128:],
    }
    for name, data in damaged.items():
        (HERE / "corrupt" / f"{name}.npy").write_bytes(data)


if __name__ == "__main__":
    main()
