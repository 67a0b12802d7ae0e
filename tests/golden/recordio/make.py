"""Write the golden files with mxnet 1.9.1 (and numpy 1.23), and damage copies of them.

Run from a checkout: `python -m tests.golden.recordio.make`.
"""

from __future__ import annotations

import struct
from pathlib import Path

HERE = Path(__file__).parent
MAGIC = struct.pack("<I", 0xCED7230A)


def data(index: int) -> bytes:
    """Return the image of record `index`: 0 to 28 bytes, or some with the magic number at a multiple of 4."""
    plain_data = bytes((index * 7 + at) % 256 for at in range(index * 5 % 29))
    return plain_data if index % 10 != 3 else b"ab" * 4 + MAGIC + b"c" * (index % 7) + MAGIC * 3 + plain_data


def labels(index: int) -> list[float]:
    """Return the labels of record `index` of the file that has several."""
    return [index / 4 + at for at in range(index % 4)]


def plain(index: int) -> bytes:
    """Return record `index` of the file without image headers."""
    return b"record_%d" % index if index % 5 else MAGIC * (index % 3)


def main() -> None:
    from mxnet import recordio  # type: ignore[import-not-found]

    images = recordio.MXIndexedRecordIO(str(HERE / "images.idx"), str(HERE / "images.rec"), "w")
    several = recordio.MXRecordIO(str(HERE / "several.rec"), "w")
    without = recordio.MXRecordIO(str(HERE / "plain.rec"), "w")
    for index in range(40):
        images.write_idx(index, recordio.pack(recordio.IRHeader(0, index / 8, index, 2**40), data(index)))
        several.write(recordio.pack(recordio.IRHeader(0, labels(index), index, 0), data(index)))
        without.write(plain(index))
    for file in (images, several, without):
        file.close()
    good = (HERE / "images.rec").read_bytes()
    second = 8 + 24  # where the second record begins
    damaged = {
        "cut": good[:-9],
        "cut_header": good[: second + 5],
        "magic": good[:second] + b"\0" + good[second + 1 :],
        "flag": good[: second + 7] + b"\xff" + good[second + 8 :],
        "huge_length": good[: second + 4] + struct.pack("<I", 2**29 - 1) + good[second + 8 :],
        "many_labels": good[: second + 8] + struct.pack("<I", 2**32 - 1) + good[second + 12 :],
    }
    for name, content in damaged.items():
        (HERE / "corrupt" / f"{name}.rec").write_bytes(content)


if __name__ == "__main__":
    main()
