"""FFRecord (`.ffr`) of HFAiLab: records behind a table of their offsets and CRCs; and packed folders."""

from dataformats.backends.ffrecord.backend import FFRecordBackend
from dataformats.backends.ffrecord.packed import PackedFolder, pack_folder

__all__ = ["PackedFolder", "pack_folder"]

BACKEND = FFRecordBackend()
