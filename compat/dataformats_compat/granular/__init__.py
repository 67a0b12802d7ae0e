"""Drop-in module for `granular`: versions 0.22 to 0.24, and the calls of 0.21.

Values, blobs, orders and positions equal the original's. Bags of all generations are read. New datasets have the files
of 0.24; `version=2`, or a type that ends in `[]`, writes the files of 0.21.

Example:
    >>> import tempfile
    >>> import dataformats_compat.granular as granular
    >>> folder = tempfile.mkdtemp()
    >>> spec = {"text": "utf8", "label": "int"}
    >>> with granular.ShardedDatasetWriter(folder, spec, granular.encoders) as writer:
    ...     for label, text in enumerate(["a", "b", "c"]):
    ...         _ = writer.append({"text": text, "label": label})
    >>> reader = granular.ShardedDatasetReader(folder, granular.decoders)
    >>> source = granular.sources.Epochs(reader, shuffle=True)
    >>> [source(step)["text"] for step in range(6)]
    ['c', 'a', 'b', 'c', 'a', 'b']
    >>> reader.close()
"""

from dataformats_compat.granular import sources, utils
from dataformats_compat.granular.bag import BagReader, BagWriter
from dataformats_compat.granular.dataset import DatasetReader, DatasetWriter
from dataformats_compat.granular.formats import decoders, encoders
from dataformats_compat.granular.loader import Loader
from dataformats_compat.granular.sharded import ShardedDatasetReader, ShardedDatasetWriter

__all__ = [
    "BagReader", "BagWriter", "DatasetReader", "DatasetWriter", "Loader", "ShardedDatasetReader",
    "ShardedDatasetWriter", "decoders", "encoders", "sources", "utils",
]  # fmt: skip
