"""The messages of TFRecord payloads, in a descriptor pool of our own.

TensorFlow registers messages of the same names in the default pool; two pools do not meet, so both can be
loaded in one process.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from dataformats.errors import CorruptRecordError

__all__ = ["EXAMPLE_MESSAGE", "FEATURE_MESSAGE", "SEQUENCE_MESSAGE", "parse"]

_PACKAGE = "tensorflow"
_ONE, _MANY = FieldDescriptorProto.LABEL_OPTIONAL, FieldDescriptorProto.LABEL_REPEATED
_MESSAGE = FieldDescriptorProto.TYPE_MESSAGE


def _add_field(message: DescriptorProto, name: str, number: int, kind: Any, label: Any = _ONE, **more: Any) -> None:
    message.field.add(name=name, number=number, type=kind, label=label, **more)


def _add_list(file: FileDescriptorProto, name: str, kind: Any) -> None:
    _add_field(file.message_type.add(name=name), "value", 1, kind, _MANY)


def _add_feature(file: FileDescriptorProto, lists: dict[str, str]) -> None:
    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, (name, kind) in enumerate(lists.items(), start=1):
        _add_field(feature, name, number, _MESSAGE, type_name=f".{_PACKAGE}.{kind}", oneof_index=0)


def _add_map(file: FileDescriptorProto, name: str, field: str, value: str) -> None:
    message = file.message_type.add(name=name)
    entry = message.nested_type.add(name=f"{field.title().replace('_', '')}Entry")
    entry.options.map_entry = True
    _add_field(entry, "key", 1, FieldDescriptorProto.TYPE_STRING)
    _add_field(entry, "value", 2, _MESSAGE, type_name=f".{_PACKAGE}.{value}")
    _add_field(message, field, 1, _MESSAGE, _MANY, type_name=f".{_PACKAGE}.{name}.{entry.name}")


def _add_message(file: FileDescriptorProto, name: str, fields: dict[str, str], label: Any = _ONE) -> None:
    message = file.message_type.add(name=name)
    for number, (field, kind) in enumerate(fields.items(), start=1):
        _add_field(message, field, number, _MESSAGE, label, type_name=f".{_PACKAGE}.{kind}")


def _described() -> FileDescriptorProto:
    file = FileDescriptorProto(name="dataformats/example.proto", package=_PACKAGE, syntax="proto3")
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


def _message_classes() -> dict[str, Any]:
    pool = DescriptorPool()
    file = _described()
    pool.AddSerializedFile(file.SerializeToString())
    return {
        message.name: GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{message.name}"))
        for message in file.message_type
    }


_CLASSES = _message_classes()

EXAMPLE_MESSAGE: Any = _CLASSES["Example"]
"""`tensorflow.Example`."""

SEQUENCE_MESSAGE: Any = _CLASSES["SequenceExample"]
"""`tensorflow.SequenceExample`."""

FEATURE_MESSAGE: Any = _CLASSES["Feature"]
"""`tensorflow.Feature`."""


def parse(message: Any, blob: bytes | memoryview, index: int | None = None) -> Any:
    """Return the message in `blob`.

    Raises:
        CorruptRecordError: It does not parse.
    """
    try:
        return message.FromString(blob)
    except (DecodeError, UnicodeDecodeError) as error:
        name = message.DESCRIPTOR.full_name
        raise CorruptRecordError(
            f"the payload does not parse as {name} ({error})",
            index=index,
            expected=f"{name}, {len(blob)} bytes",
            remedy="pass payload='bytes' if it is something else",
        ) from error
