"""TFRecord: frames of length, its checksum, data, its checksum; the whole file may be GZIP or ZLIB compressed."""

from dataformats.backends.tfrecord.backend import TFRecordBackend

BACKEND = TFRecordBackend()
