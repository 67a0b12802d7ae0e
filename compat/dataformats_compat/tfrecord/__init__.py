"""The `tfrecord` package (vahidk): its readers and its writer of TFRecord files.

`torch` is imported when it is used: `tfrecord.torch.TFRecordDataset`.

Example:
    >>> import pathlib, tempfile
    >>> import dataformats_compat.tfrecord as tfrecord
    >>> path = str(pathlib.Path(tempfile.mkdtemp()) / "data.tfrecord")
    >>> writer = tfrecord.TFRecordWriter(path)
    >>> writer.write({"image": (b"jpeg", "byte"), "label": (0.5, "float"), "index": ([3, 4], "int")})
    >>> writer.close()
    >>> for record in tfrecord.tfrecord_loader(path, None, {"image": "byte", "index": "int"}):
    ...     print(record)
    {'image': b'jpeg', 'index': array([3, 4])}
"""

from __future__ import annotations

import importlib
from types import ModuleType

from dataformats_compat.tfrecord import example_pb2, iterator_utils, reader, tools, writer
from dataformats_compat.tfrecord.iterator_utils import cycle, sample_iterators, shuffle_iterator
from dataformats_compat.tfrecord.reader import (
    example_loader,
    extract_feature_dict,
    multi_tfrecord_loader,
    process_feature,
    sequence_loader,
    tfrecord_iterator,
    tfrecord_loader,
)
from dataformats_compat.tfrecord.writer import TFRecordWriter

__all__ = [
    "TFRecordWriter", "cycle", "example_loader", "example_pb2", "extract_feature_dict", "iterator_utils",
    "multi_tfrecord_loader", "process_feature", "reader", "sample_iterators", "sequence_loader", "shuffle_iterator",
    "tfrecord_iterator", "tfrecord_loader", "tools", "writer",
]  # fmt: skip


def __getattr__(name: str) -> ModuleType:
    if name == "torch":
        try:
            return importlib.import_module(f"{__name__}.torch")
        except ImportError as error:
            raise AttributeError(f"{__name__}.torch needs a package: {error}") from error
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
