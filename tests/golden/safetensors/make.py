"""Write the golden files with safetensors 0.8, and damage copies. Run: `python -m tests.golden.safetensors.make`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).parent
_DTYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64")
TENSORS: dict[str, NDArray[Any]] = {
    **{f"{dtype}s": (np.arange(20 * 3) * 5 % 97).astype(dtype).reshape(20, 3) for dtype in _DTYPES},
    "flags": np.arange(20) % 3 == 0,
    "images": (np.arange(20 * 4 * 4 * 3) * 7 % 251).astype("u1").reshape(20, 4, 4, 3),
}


def main() -> None:
    from safetensors.numpy import save_file

    save_file(TENSORS, HERE / "rows.safetensors", {"made_by": "tests"})
    save_file({}, HERE / "empty.safetensors")
    save_file({"a": np.zeros((3, 2)), "b": np.zeros((4, 2))}, HERE / "weights.safetensors")
    save_file({"scale": np.array(1.5)}, HERE / "single.safetensors")
    _write_torch()
    small = {"ids": np.arange(6), "vectors": np.arange(24, dtype="f4").reshape(6, 4)}
    save_file(small, HERE / "small.safetensors")
    good = (HERE / "small.safetensors").read_bytes()
    length = int.from_bytes(good[:8], "little")
    header, tensors = json.loads(good[8 : 8 + length]), good[8 + length :]

    def changed(**facts: Any) -> bytes:
        text = json.dumps({**header, "ids": {**header["ids"], **facts}}).encode()
        return len(text).to_bytes(8, "little") + text + tensors

    damaged = {
        "cut_header": good[:40],
        "cut_tensors": good[:-20],
        "longer": good + b"\0",
        "huge_header": (2**60).to_bytes(8, "little") + good[8:],
        "no_json": good[:8] + b'{"ids": {]' + good[18:],
        "nested": (5000).to_bytes(8, "little") + b'{"a": {' + b'"a":[' * 999 + bytes(5000),
        "dtype": changed(dtype="F128"),
        "shape": changed(shape=[7]),
        "negative": changed(data_offsets=[-48, 0]),
        "huge_offsets": changed(data_offsets=[2**63, 2**63 + 48]),
        "outside": changed(data_offsets=[2**40, 2**40 + 48]),
        "text_shape": changed(shape="6"),
    }
    for name, content in damaged.items():
        (HERE / "corrupt" / f"{name}.safetensors").write_bytes(content)


def _write_torch() -> None:
    """Write a dtype that NumPy lacks."""
    import torch
    from safetensors.torch import save_file

    numbers = torch.arange(12, dtype=torch.bfloat16).reshape(4, 3)
    save_file({"embedding": numbers, "id": torch.arange(4)}, HERE / "bfloat16.safetensors")


if __name__ == "__main__":
    main()
