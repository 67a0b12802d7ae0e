"""Drop-in modules have the names that code imports from their originals, in the same submodules.

The names are typed in from the originals: their `__all__` if there is one, else the names that their documentation,
tests and examples use.
"""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import dataformats_compat

GRANULAR = "BagReader BagWriter DatasetReader DatasetWriter ShardedDatasetReader ShardedDatasetWriter decoders encoders"
EXAMPLE = "BytesList Example Feature FeatureList FeatureLists Features FloatList Int64List SequenceExample"
LOADERS = (
    "example_loader extract_feature_dict multi_tfrecord_loader process_feature sequence_loader tfrecord_iterator"
    " tfrecord_loader"
)
ITERATORS = "cycle sample_iterators shuffle_iterator"

NAMES = {
    "ffrecord": "FileReader FileWriter PackedFolder __version__ checkFsAlign pack_folder",
    "ffrecord.utils": "dump",
    "ffrecord.fileio": "FileReader FileWriter",
    "ffrecord.package": "MAGIC_BYTES PackedFolder dump_files dump_structure pack_folder",
    "ffrecord.torch": "ConcatDataset DataLoader Dataset ReaderRegistry Subset",
    "ffrecord.torch.dataloader": "DataLoader SkipableSampler",
    "granular": f"{GRANULAR} Loader bag dataset formats loader sharded sources utils",
    "granular.bag": "BagReader BagWriter SharedBuffer",
    "granular.dataset": "DatasetReader DatasetWriter",
    "granular.sharded": "ShardedDatasetReader ShardedDatasetWriter",
    "granular.formats": "decode_array decode_image decode_int decode_tree decode_video decoders"
    " encode_array encode_image encode_int encode_tree encode_video encoders",
    "granular.loader": "Loader SharedArray",
    "granular.sources": "Epochs Interleave Mix Sample Transform Truncate convert",
    "granular.utils": "Closing",
    "bags": f"{GRANULAR} __version__",
    "syrah": "File __version__ config version",
    "syrah.config": "MAGIC_BYTES",
    "syrah.version": "version version_tuple",
    "syrah.utils.data": "SyrahConcatDataset SyrahDataset",
    "tfrecord": f"TFRecordWriter {LOADERS} {ITERATORS} example_pb2 iterator_utils reader tools torch writer",
    "tfrecord.reader": LOADERS,
    "tfrecord.writer": "TFRecordWriter",
    "tfrecord.iterator_utils": ITERATORS,
    "tfrecord.example_pb2": EXAMPLE,
    "tfrecord.tools": "create_index tfrecord2idx",
    "tfrecord.tools.tfrecord2idx": "create_index create_indices main",
    "tfrecord.torch": "MultiTFRecordDataset TFRecordDataset dataset",
    "tfrecord.torch.dataset": "MultiTFRecordDataset TFRecordDataset",
    "ofrecord": "BytesList DoubleList Feature FloatList Int32List Int64List OFRecord",
    "check": "check main",
    "tensorflow": "data io train python_io float32 int64 string uint8 bool",
    "tensorflow.io": "FixedLenFeature FixedLenSequenceFeature RaggedFeature TFRecordOptions TFRecordWriter"
    " VarLenFeature decode_jpeg decode_png decode_raw parse_example parse_single_example"
    " parse_single_sequence_example parse_tensor",
    "tensorflow.train": EXAMPLE,
    "tensorflow.data": "AUTOTUNE Dataset TFRecordDataset",
    "tensorflow.python_io": "tf_record_iterator",
}
"""Module to its names."""

OFFERED = {module.name for module in pkgutil.iter_modules(dataformats_compat.__path__)}


def test_every_module_is_listed() -> None:
    assert [name for name in sorted(OFFERED) if name not in NAMES] == []


@pytest.mark.parametrize("name", [name for name in NAMES if name.partition(".")[0] in OFFERED])
def test_names_resolve(name: str) -> None:
    module = importlib.import_module(f"dataformats_compat.{name}")
    assert [one for one in NAMES[name].split() if not hasattr(module, one)] == []
