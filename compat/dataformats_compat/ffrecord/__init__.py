"""HFAiLab's `ffrecord` 1.4: `FileReader`, `FileWriter`, `PackedFolder`, `pack_folder`, and `ffrecord.torch`.

    import dataformats_compat.ffrecord as ffrecord  # instead of: import ffrecord

`ffrecord.torch` is imported on its own, as the original's is, and needs torch.

Example:
    >>> import pathlib, pickle, tempfile
    >>> from dataformats_compat.ffrecord import FileReader, FileWriter
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "test.ffr"
    >>> with FileWriter(path, 3) as writer:
    ...     for sample in ("one", "two", "three"):
    ...         writer.write_one(pickle.dumps(sample))
    >>> with FileReader(path, check_data=True) as reader:
    ...     [pickle.loads(data) for data in reader.read([2, 0])]
    ['three', 'one']
"""

from __future__ import annotations

from dataformats_compat.ffrecord import utils as utils
from dataformats_compat.ffrecord.fileio import FileReader, FileWriter, checkFsAlign
from dataformats_compat.ffrecord.package import PackedFolder, pack_folder

__all__ = ["FileReader", "FileWriter", "PackedFolder", "checkFsAlign", "pack_folder"]  # the original has these five

__version__ = "1.4.0"
