"""MDS of MosaicML streaming: a folder of shards (`shard.00000.mds`), and `index.json` that lists them."""

from dataformats.backends.mds.backend import MdsBackend

BACKEND = MdsBackend()
"""The MDS backend."""
