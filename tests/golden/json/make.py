"""Write the golden files with `json` of Python, in the layouts of Python, orjson and jq.

Run from a checkout: `python -m tests.golden.json.make`.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from tests.golden.jsonl.make import record

HERE = Path(__file__).parent
N = 12


def main() -> None:
    """Write all files."""
    records = [record(index) for index in range(N)]
    boxes = [{"id": index, "image_id": index // 3, "bbox": [index, 2, 3, 4.5]} for index in range(N)]
    images = [{"id": index, "file_name": f"{index}.jpg"} for index in range(N // 3)]
    (HERE / "python.json").write_text(json.dumps(records))
    (HERE / "indent.json").write_text(json.dumps(records, indent=2))
    (HERE / "compact.json").write_text(json.dumps(records, ensure_ascii=False, separators=(",", ":")))
    (HERE / "jq.json").write_text("".join(json.dumps(one, indent=2, ensure_ascii=False) + "\n" for one in records))
    (HERE / "bom.json").write_text("\r\n" + json.dumps(records, indent="\t") + "\r\n", encoding="utf-8-sig")
    (HERE / "indent.json.gz").write_bytes(gzip.compress((HERE / "indent.json").read_bytes(), mtime=0))
    (HERE / "coco.json").write_text(json.dumps({"info": {"year": 2026}, "images": images, "annotations": boxes}))


if __name__ == "__main__":
    main()
