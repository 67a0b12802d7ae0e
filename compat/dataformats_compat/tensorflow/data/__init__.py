"""`tf.data`: datasets that yield numpy values, element by element or in batches.

Orders equal TensorFlow's, except for shuffles, whose random numbers are Python's. Functions that `map` and others take
are called for each element, not once: they may contain any Python code.
"""

from __future__ import annotations

from dataformats_compat.tensorflow.data import experimental
from dataformats_compat.tensorflow.data.constants import AUTOTUNE, INFINITE_CARDINALITY, UNKNOWN_CARDINALITY
from dataformats_compat.tensorflow.data.dataset import Dataset
from dataformats_compat.tensorflow.data.dataset_base import Iterator, make_one_shot_iterator
from dataformats_compat.tensorflow.data.options import Options
from dataformats_compat.tensorflow.data.record_dataset import TFRecordDataset
from dataformats_compat.tensorflow.missing import missing_from

__all__ = [
    "AUTOTUNE", "INFINITE_CARDINALITY", "UNKNOWN_CARDINALITY", "Dataset", "Iterator", "Options", "TFRecordDataset",
    "experimental", "make_one_shot_iterator",
]  # fmt: skip

__getattr__ = missing_from(__name__)
