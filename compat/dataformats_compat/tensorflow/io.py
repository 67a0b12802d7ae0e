"""`tf.io`: write and read TFRecords, and parse their records."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from dataformats.internals import TFRecordWriter as FileWriter
from dataformats_compat.tensorflow import features, gfile, image_files, parsing, tensors
from dataformats_compat.tensorflow.data.record_dataset import records_of
from dataformats_compat.tensorflow.dtypes import string_array
from dataformats_compat.tensorflow.features import *  # noqa: F403
from dataformats_compat.tensorflow.image_files import *  # noqa: F403
from dataformats_compat.tensorflow.missing import missing_from
from dataformats_compat.tensorflow.parsing import *  # noqa: F403
from dataformats_compat.tensorflow.tensor import array_of, as_tensor
from dataformats_compat.tensorflow.tensors import *  # noqa: F403

__all__ = [
    "TFRecordCompressionType", "TFRecordOptions", "TFRecordWriter", "gfile", "matching_files", "read_file",
    "tf_record_iterator", "write_file", *features.__all__, *image_files.__all__, *parsing.__all__, *tensors.__all__,
]  # fmt: skip

__getattr__: Any = missing_from(__name__)


class TFRecordCompressionType:
    """The compressions of a file."""

    NONE = 0
    ZLIB = 1
    GZIP = 2


_COMPRESSIONS = {TFRecordCompressionType.ZLIB: "ZLIB", TFRecordCompressionType.GZIP: "GZIP"}


class TFRecordOptions:
    """How a file is compressed.

    Args:
        compression_type: `"GZIP"`, `"ZLIB"`, `""` or `None`, or a number of `TFRecordCompressionType`.
        ignored: TensorFlow's other options are accepted, without effect.

    Example:
        >>> import dataformats_compat.tensorflow as tf
        >>> tf.io.TFRecordOptions("GZIP").compression_type
        'GZIP'
    """

    def __init__(self, compression_type: Any = None, *ignored: Any, **named: Any) -> None:
        known = isinstance(compression_type, int)
        self.compression_type: Any = _COMPRESSIONS.get(compression_type) if known else compression_type
        _compression(self.compression_type)

    @classmethod
    def get_compression_type_string(cls, options: Any) -> str:
        """Return `"GZIP"`, `"ZLIB"` or `""` of options, a number or a name."""
        return (options if isinstance(options, TFRecordOptions) else cls(options)).compression_type or ""


def _compression(name: Any) -> Literal["gzip", "zlib", "none"]:
    for known in ("gzip", "zlib", "none"):
        if known == str(name or "none").lower():
            return known
    raise ValueError(f"compression_type: expected 'GZIP', 'ZLIB', '' or None, found {name!r}")


class TFRecordWriter:
    """Writes records to one file, which exists, and grows, under its name from the beginning.

    Args:
        path: The file; one that exists is replaced.
        options: `TFRecordOptions`, or a compression type.

    Raises:
        FileNotFoundError: There is no such folder.

    Example:
        >>> import pathlib, tempfile
        >>> import dataformats_compat.tensorflow as tf
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "numbers.tfrecord"
        >>> with tf.io.TFRecordWriter(path) as writer:
        ...     writer.write(b"one")
        >>> list(tf.data.TFRecordDataset(path).as_numpy_iterator())
        [b'one']
    """

    def __init__(self, path: str | os.PathLike[str], options: Any = None) -> None:
        chosen = options if isinstance(options, TFRecordOptions) else TFRecordOptions(options)
        compression = _compression(chosen.compression_type)
        self._writer: FileWriter | None = FileWriter(Path(os.fspath(path)), compression=compression)

    def write(self, record: bytes) -> None:
        """Append a record, any bytes.

        Raises:
            TypeError: It is not bytes.
            RuntimeError: The writer is closed.
        """
        self._open().append(record)

    def flush(self) -> None:
        """Flush to the operating system: the records so far can be read."""
        self._open().flush()

    def close(self) -> None:
        """Complete the file; a second call is a no-op."""
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer.close(sync=False)  # TensorFlow does not sync

    def _open(self) -> FileWriter:
        if self._writer is None:
            raise RuntimeError("the writer is closed: write before close(), or within the with block")
        return self._writer

    def __enter__(self) -> TFRecordWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_writer", None) is not None:
            self.close()


def tf_record_iterator(path: Any, options: Any = None) -> Iterator[bytes]:
    """Yield the records of a file, as TensorFlow 1 does.

    Args:
        path: Its path.
        options: `TFRecordOptions`, or a compression type; `None`: as the file itself says.

    Raises:
        FileNotFoundError: There is no such file.
        FormatError: The file is damaged, and all records before the damage were yielded.

    Example:
        >>> import dataformats_compat.tensorflow as tf
        >>> sum(1 for record in tf.compat.v1.io.tf_record_iterator("tests/golden/real/photos.tfrecord")) > 0
        True
    """
    name = TFRecordOptions.get_compression_type_string(options)
    return records_of(path, name.lower() or "auto")


def matching_files(pattern: Any, name: Any = None) -> Any:
    """Return the files that match a pattern, or one of several, sorted: a tensor of strings."""
    paths = gfile.glob([os.fsdecode(one) for one in array_of(pattern).ravel().tolist()])
    return as_tensor(string_array([os.fsencode(path) for path in sorted({*paths})]))


def read_file(filename: Any, name: Any = None) -> Any:
    """Return the bytes of a file, a string."""
    return as_tensor(Path(os.fsdecode(filename)).read_bytes())


def write_file(filename: Any, contents: bytes, name: Any = None) -> None:
    """Write bytes to a file, and create its folder."""
    path = Path(os.fsdecode(filename))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(contents)
