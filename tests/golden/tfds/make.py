"""Write small datasets with tensorflow_datasets 4.9.10 (and TensorFlow 2.21), and the values that it reads.

    pip install tensorflow-cpu==2.21.0 tensorflow_datasets==4.9.10 array_record==0.8.6 pillow
    python make.py . 5 2

The files of ArrayRecord are compressed with gzip here, because each is padded to 128 KiB.
"""

from __future__ import annotations

import gzip
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow_datasets as tfds  # type: ignore[import-not-found, unused-ignore]

OUT, N_TRAIN, N_TEST = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
FEATURES = {
    "image": tfds.features.Image(shape=(None, None, 3), encoding_format="png"),
    "photo": tfds.features.Image(encoding_format="jpeg"),
    "mask": tfds.features.Image(shape=(4, 5, 1), dtype=np.uint8),
    "label": tfds.features.ClassLabel(names=["cat", "dog", "cow"]),
    "text": tfds.features.Text(),
    "n": tfds.features.Scalar(np.int64),
    "i32": np.int32,
    "u8": np.uint8,
    "flag": np.bool_,
    "f32": np.float32,
    "f64": np.float64,
    "vector": tfds.features.Tensor(shape=(3,), dtype=np.float32),
    "matrix": tfds.features.Tensor(shape=(2, 3), dtype=np.int64),
    "rows": tfds.features.Tensor(shape=(None, 3), dtype=np.float32),
    "any": tfds.features.Tensor(shape=(None,), dtype=np.int64),
    "u8s": tfds.features.Tensor(shape=(None,), dtype=np.uint8),
    "words": tfds.features.Sequence(tfds.features.Text()),
    "classes": tfds.features.Sequence(tfds.features.ClassLabel(num_classes=3)),
    "box": tfds.features.BBoxFeature(),
    "objects": tfds.features.Sequence({"area": np.int64, "bbox": tfds.features.BBoxFeature()}),
    "nested": {"a": np.int64, "b": {"c": tfds.features.Text()}},
    "zipped": tfds.features.Tensor(shape=(2, 2), dtype=np.float32, encoding="zlib"),
    "raw": tfds.features.Tensor(shape=(2, 2), dtype=np.int32, encoding="bytes"),
    "audio": tfds.features.Audio(),
}


class Things(tfds.core.GeneratorBasedBuilder):  # type: ignore[misc, unused-ignore]
    VERSION = tfds.core.Version("1.0.0")

    def _info(self) -> Any:
        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(FEATURES))

    def _split_generators(self, _: Any) -> Any:
        return {"train": self._generate_examples(0, N_TRAIN), "test": self._generate_examples(10**6, N_TEST)}

    def _generate_examples(self, first: int, n: int) -> Any:
        for i in range(first, first + n):
            yield i, record(i)


def record(i: int) -> dict[str, Any]:
    r = np.random.default_rng(i)
    k = int(r.integers(0, 4))
    box = tfds.features.BBox(0.1, 0.2, 0.3 + k / 10, 0.4)
    return {
        "image": r.integers(0, 256, (3, 4, 3), np.uint8),
        "photo": r.integers(0, 256, (8, 8, 3), np.uint8),
        "mask": r.integers(0, 256, (4, 5, 1), np.uint8),
        "label": i % 3,
        "text": f"höhe {i}",
        "n": i - 5,
        "i32": i,
        "u8": i % 256,
        "flag": i % 2 == 0,
        "f32": i / 3,
        "f64": i / 7,
        "vector": r.random(3, np.float32),
        "matrix": r.integers(0, 9, (2, 3)),
        "rows": r.random((k, 3), np.float32),
        "any": r.integers(0, 9, k),
        "u8s": r.integers(0, 255, k).astype(np.uint8),
        "words": [f"w{j}" for j in range(k)],
        "classes": [j % 3 for j in range(k)],
        "box": box,
        "objects": [{"area": j, "bbox": box} for j in range(k)],
        "nested": {"a": i, "b": {"c": str(i)}},
        "zipped": r.random((2, 2), np.float32),
        "raw": r.integers(0, 9, (2, 2)).astype(np.int32),
        "audio": r.integers(-9, 9, 5),
    }


def flat(value: Any, name: str = "") -> dict[str, Any]:
    """Return the fields of a record as tensorflow_datasets names them in files."""
    if isinstance(value, dict):
        prefix = f"{name}/" if name else ""
        return {field: found for key, one in value.items() for field, found in flat(one, prefix + key).items()}
    plain = np.asarray(value).tolist()
    if isinstance(plain, list) and plain and isinstance(plain[0], bytes):
        return {name: [one.decode() for one in plain]}
    return {name: plain.decode() if isinstance(plain, bytes) else plain}


expected: dict[str, Any] = {}
for format in ("tfrecord", "array_record", "parquet"):
    shutil.rmtree(OUT / format, ignore_errors=True)
    builder = Things(data_dir=OUT / format, file_format=format)
    builder.download_and_prepare()
    if format != "parquet":
        reader = builder.as_dataset(shuffle_files=False) if format == "tfrecord" else builder.as_data_source()
        for split in ("train", "test"):
            records = tfds.as_numpy(reader[split]) if format == "tfrecord" else reader[split]
            expected[f"{format}/{split}"] = [flat(dict(one)) for one in records]
with gzip.GzipFile(OUT / "expected.json.gz", "w", mtime=0) as file:
    file.write(json.dumps(expected).encode())
for path in sorted((OUT / "array_record").rglob("*.array_record-*")):
    with gzip.GzipFile(f"{path}.gz", "w", mtime=0) as file:
        file.write(path.read_bytes())
    path.unlink()
