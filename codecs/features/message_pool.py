"""The descriptors of the messages of TFRecord and OFRecord payloads, in a pool of their own.

TensorFlow and OneFlow register messages of the same names in the default pool; a separate pool lets all be loaded in
one process. TensorFlow declares Example as proto3. As proto2 it has the same bytes, and a name that is not UTF-8 makes
no record unreadable, as in TensorFlow's own parser in C++: the keys of a map have such a name as bytes.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool

_ONE, _MANY = FieldDescriptorProto.LABEL_OPTIONAL, FieldDescriptorProto.LABEL_REPEATED
_MESSAGE = FieldDescriptorProto.TYPE_MESSAGE


def _add_field(message: DescriptorProto, name: str, number: int, kind: Any, label: Any = _ONE, **more: Any) -> None:
    message.field.add(name=name, number=number, type=kind, label=label, **more)


def _add_list(file: FileDescriptorProto, name: str, kind: Any) -> None:
    message = file.message_type.add(name=name)
    _add_field(message, "value", 1, kind, _MANY)
    if kind != FieldDescriptorProto.TYPE_BYTES:
        message.field[0].options.packed = True  # as in proto3


def _add_feature(file: FileDescriptorProto, lists: dict[str, str]) -> None:
    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, (name, kind) in enumerate(lists.items(), start=1):
        _add_field(feature, name, number, _MESSAGE, type_name=f".{file.package}.{kind}", oneof_index=0)


def _add_map(file: FileDescriptorProto, name: str, field: str, value: str) -> None:
    message = file.message_type.add(name=name)
    entry = message.nested_type.add(name=f"{field.title().replace('_', '')}Entry")
    entry.options.map_entry = True
    _add_field(entry, "key", 1, FieldDescriptorProto.TYPE_STRING)
    _add_field(entry, "value", 2, _MESSAGE, type_name=f".{file.package}.{value}")
    _add_field(message, field, 1, _MESSAGE, _MANY, type_name=f".{file.package}.{name}.{entry.name}")


def _add_message(file: FileDescriptorProto, name: str, fields: dict[str, str], label: Any = _ONE) -> None:
    message = file.message_type.add(name=name)
    for number, (field, kind) in enumerate(fields.items(), start=1):
        _add_field(message, field, number, _MESSAGE, label, type_name=f".{file.package}.{kind}")


def _tensorflow() -> FileDescriptorProto:
    file = FileDescriptorProto(name="dataformats/example.proto", package="tensorflow", syntax="proto2")
    _add_list(file, "BytesList", FieldDescriptorProto.TYPE_BYTES)
    _add_list(file, "FloatList", FieldDescriptorProto.TYPE_FLOAT)
    _add_list(file, "Int64List", FieldDescriptorProto.TYPE_INT64)
    _add_feature(file, {"bytes_list": "BytesList", "float_list": "FloatList", "int64_list": "Int64List"})
    _add_map(file, "Features", "feature", "Feature")
    _add_message(file, "FeatureList", {"feature": "Feature"}, _MANY)
    _add_map(file, "FeatureLists", "feature_list", "FeatureList")
    _add_message(file, "Example", {"features": "Features"})
    _add_message(file, "SequenceExample", {"context": "Features", "feature_lists": "FeatureLists"})
    return file


def _oneflow() -> FileDescriptorProto:
    file = FileDescriptorProto(name="dataformats/ofrecord.proto", package="oneflow", syntax="proto2")
    lists = {
        "bytes_list": ("BytesList", FieldDescriptorProto.TYPE_BYTES),
        "float_list": ("FloatList", FieldDescriptorProto.TYPE_FLOAT),
        "double_list": ("DoubleList", FieldDescriptorProto.TYPE_DOUBLE),
        "int32_list": ("Int32List", FieldDescriptorProto.TYPE_INT32),
        "int64_list": ("Int64List", FieldDescriptorProto.TYPE_INT64),
    }
    for name, kind in lists.values():
        _add_list(file, name, kind)
    _add_feature(file, {field: name for field, (name, _) in lists.items()})
    _add_map(file, "OFRecord", "feature", "Feature")
    return file


POOL = DescriptorPool()
"""The pool of both packages."""

for _file in (_tensorflow(), _oneflow()):
    POOL.AddSerializedFile(_file.SerializeToString())
