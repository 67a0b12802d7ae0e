"""Drop-in module for `bags` 0.5, the forerunner of granular.

New bags and datasets have generation 1, which `bags` reads. Generation 2 is read, too.

Example:
    >>> import os, tempfile
    >>> import dataformats_compat.bags as bags
    >>> folder = os.path.join(tempfile.mkdtemp(), "words")
    >>> with bags.DatasetWriter(folder, {"n": "int(4)", "words": "utf8[]"}, bags.encoders) as writer:
    ...     writer.append({"n": 5, "words": ["a", "b"]})
    0
    >>> with bags.DatasetReader(folder, bags.decoders) as reader:
    ...     reader.spec["n"], reader[0], reader[0, {"words": range(1)}]
    ((False, 'int', ('4',)), {'n': 5, 'words': ['a', 'b']}, {'words': ['a']})
"""

from dataformats_compat.bags.bags import (
    BagReader,
    BagWriter,
    DatasetReader,
    DatasetWriter,
    ShardedDatasetReader,
    ShardedDatasetWriter,
)
from dataformats_compat.bags.formats import decoders, encoders

__all__ = [
    "BagReader", "BagWriter", "DatasetReader", "DatasetWriter", "ShardedDatasetReader", "ShardedDatasetWriter",
    "decoders", "encoders",
]  # fmt: skip
__version__ = "0.5.1"
