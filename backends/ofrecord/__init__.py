"""OFRecord, OneFlow's format: frames of a length and a message, without checksums."""

from dataformats.backends.ofrecord.backend import OFRecordBackend

BACKEND = OFRecordBackend()
