"""ArrayRecord (`.array_record`): chunks of records and a table of them, read and written by array_record."""

from dataformats.backends.array_record.backend import ArrayRecordBackend

BACKEND = ArrayRecordBackend()
