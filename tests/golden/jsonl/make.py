"""Write the golden files with `json` of Python, `datasets` 5.2.0 and `orjson` 3.13.0, and damage copies of them.

Run from a checkout: `python -m tests.golden.jsonl.make`.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def record(index: int) -> dict[str, Any]:
    """Return record `index`."""
    return {
        "id": index * 1_000_003 - 7,
        "score": index / 7,
        "flag": index % 3 == 0,
        "text": 'añ€😀 "quoted"\n'[: index % 14] + str(index),
        "numbers": [index - at for at in range(index % 5)],
        "words": ["w" * at for at in range(index % 4)],
        "nested": {"x": [index, None], "y": {"z": "é"}},
    }


def main() -> None:
    """Write all files."""
    import datasets
    import orjson  # type: ignore[import-not-found]  # not in the environment of the tests

    records = [record(index) for index in range(60)]
    lines = [json.dumps(one).encode() for one in records]
    whole = b"\n".join([*lines, b""])
    (HERE / "python.jsonl").write_bytes(whole)
    (HERE / "crlf.jsonl").write_bytes(b"\r\n".join([*lines, b""]))
    (HERE / "gaps.ndjson").write_bytes(b"\xef\xbb\xbf\n \t\n" + b"\n\r\n  \n".join(lines))
    (HERE / "orjson.jsonl").write_bytes(
        b"".join(orjson.dumps(one, option=orjson.OPT_APPEND_NEWLINE) for one in records)
    )
    (HERE / "python.jsonl.gz").write_bytes(gzip.compress(whole, mtime=0))
    datasets.Dataset.from_list(records).to_json(HERE / "datasets.jsonl")
    damage = HERE / "corrupt"
    middle = b"".join(lines[:3]).find(b"nested")
    (damage / "cut.jsonl").write_bytes(whole[:-9])
    (damage / "merged.jsonl").write_bytes(whole.replace(b"\n", b"", 1))
    (damage / "zeros.jsonl").write_bytes(whole[:middle] + bytes(16) + whole[middle + 16 :])
    (damage / "cut.jsonl.gz").write_bytes(gzip.compress(whole, mtime=0)[:-40])


if __name__ == "__main__":
    main()
