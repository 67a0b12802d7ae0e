"""OFRecord, OneFlow's format: frames of a length and a message, without checksums."""

from dataformats.backends.ofrecord.backend import OFRecordBackend
from dataformats.backends.ofrecord.reader import OFRecordReader
from dataformats.backends.ofrecord.writer import OFRecordWriter

__all__ = ["BACKEND", "OFRecordBackend", "OFRecordReader", "OFRecordWriter"]

BACKEND = OFRecordBackend()
