"""RecordIO of MXNet (`.rec`): frames of a magic number, a length and the data, with the labels of an image in front."""

from dataformats.backends.recordio.backend import RecordIOBackend

BACKEND = RecordIOBackend()
