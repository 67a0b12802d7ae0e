"""TFRecord: frames of length, its checksum, data, its checksum; the whole file may be GZIP or ZLIB compressed."""

from dataformats.backends.tfrecord.backend import TFRecordBackend
from dataformats.backends.tfrecord.reader import TFRecordReader
from dataformats.backends.tfrecord.text_index import write_text_index
from dataformats.backends.tfrecord.writer import TFRecordWriter

__all__ = ["BACKEND", "TFRecordBackend", "TFRecordReader", "TFRecordWriter", "write_text_index"]

BACKEND = TFRecordBackend()
