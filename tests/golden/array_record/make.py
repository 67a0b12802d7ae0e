"""Write small files with array_record 0.8.6: `python make.py .`

They are compressed with gzip here, because each is padded to 128 KiB.
"""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

from array_record.python.array_record_module import ArrayRecordWriter

OUT = Path(sys.argv[1])
FILES = {
    "default": ("", 20),
    "groups": ("group_size:7", 20),
    "plain": ("group_size:1,uncompressed", 20),
    "brotli": ("group_size:3,brotli:6", 20),
    "snappy": ("group_size:3,snappy", 20),
    "transposed": ("group_size:5,transpose", 20),
    "empty": ("", 0),
}


def record(i: int) -> bytes:
    return b"" if i == 3 else f"record {i} ".encode() * (i * 7 % 11 + 1)


for name, (options, n) in FILES.items():
    path = OUT / f"{name}.array_record"
    writer = ArrayRecordWriter(str(path), options)
    for i in range(n):
        writer.write(record(i))
    writer.close()
    with gzip.GzipFile(f"{path}.gz", "w", mtime=0) as file:
        file.write(path.read_bytes())
    path.unlink()
