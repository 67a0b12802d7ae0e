"""OneFlow's `oneflow.core.record.record_pb2`: the messages of OFRecord files, without OneFlow.

    import dataformats_compat.ofrecord as ofrecord  # instead of: import oneflow.core.record.record_pb2 as ofrecord

The messages are OneFlow's in names and bytes. They belong to a separate descriptor pool, so OneFlow itself may be in
the same process. Code that reads and writes the frames of a file by itself runs unchanged; each record is its length,
eight bytes, and the message.

Example:
    >>> import struct, tempfile, pathlib
    >>> import dataformats_compat.ofrecord as ofrecord
    >>> label = ofrecord.Feature(int32_list=ofrecord.Int32List(value=[7]))
    >>> record = ofrecord.OFRecord(feature={"label": label})
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "part-0"
    >>> with open(path, "wb") as file:
    ...     _ = file.write(struct.pack("<q", record.ByteSize()) + record.SerializeToString())
    >>> with open(path, "rb") as file:
    ...     length, = struct.unpack("<q", file.read(8))
    ...     read = ofrecord.OFRecord.FromString(file.read(length))
    >>> list(read.feature["label"].int32_list.value)
    [7]

    The same file by this package:

    >>> import dataformats
    >>> dataformats.open(path, format="ofrecord")[0]
    {'label': 7}
"""

from __future__ import annotations

from typing import Any

from dataformats.internals import message_class

__all__ = ["BytesList", "DoubleList", "Feature", "FloatList", "Int32List", "Int64List", "OFRecord"]

BytesList: Any = message_class("oneflow.BytesList")
"""`value`: any number of bytes values."""

FloatList: Any = message_class("oneflow.FloatList")
"""`value`: any number of float32 numbers."""

DoubleList: Any = message_class("oneflow.DoubleList")
"""`value`: any number of float64 numbers."""

Int32List: Any = message_class("oneflow.Int32List")
"""`value`: any number of int32 numbers."""

Int64List: Any = message_class("oneflow.Int64List")
"""`value`: any number of int64 numbers."""

Feature: Any = message_class("oneflow.Feature")
"""One of `bytes_list`, `float_list`, `double_list`, `int32_list` and `int64_list`."""

OFRecord: Any = message_class("oneflow.OFRecord")
"""`feature`: name to `Feature`."""

for _name in __all__:
    globals()[_name].__module__ = __name__  # pickles name a class by its module

DESCRIPTOR: Any = OFRecord.DESCRIPTOR.file
"""Describes all of them."""
