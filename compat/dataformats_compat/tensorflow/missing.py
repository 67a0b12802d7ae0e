"""Errors for TensorFlow's names that this package lacks, with their replacements."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable
from typing import Any, NoReturn

__all__ = ["REMEDIES", "missing", "missing_from"]

_HERE = "dataformats_compat.tensorflow"
_GENERATOR = "Write a Python generator, and pass it to tf.data.Dataset.from_generator"
_CALLS = "There are no graphs and no sessions: call functions, and iterate over datasets"
_PREPARED = "Keep elements with cache(filename), or write records with dataformats.create and read them with open"
_STATIC = "Look at an element, next(iter(dataset)): there are no static shapes"

REMEDIES = {
    "Session": _CALLS,
    "placeholder": _CALLS,
    "data.Dataset.choose_from_datasets": _GENERATOR,
    "data.Dataset.counter": _GENERATOR,
    "data.Dataset.element_spec": _STATIC,
    "data.Dataset.fingerprint": "Use dataformats.open(paths).fingerprint",
    "data.Dataset.ignore_errors": "Copy the sound records with dataformats.repair",
    "data.Dataset.load": _PREPARED,
    "data.Dataset.make_initializable_iterator": _CALLS,
    "data.Dataset.output_shapes": _STATIC,
    "data.Dataset.output_types": _STATIC,
    "data.Dataset.ragged_batch": "Use padded_batch, or parse a RaggedFeature of whole batches",
    "data.Dataset.random": _GENERATOR,
    "data.Dataset.rebatch": "Use unbatch().batch(n)",
    "data.Dataset.rejection_resample": "Use filter",
    "data.Dataset.save": _PREPARED,
    "data.Dataset.scan": _GENERATOR,
    "data.Dataset.snapshot": _PREPARED,
    "data.Dataset.sparse_batch": "Use padded_batch",
    "data.Dataset.unique": _GENERATOR,
    "data.FixedLengthRecordDataset": _GENERATOR,
    "data.TextLineDataset": _GENERATOR,
    "data.experimental.Counter": _GENERATOR,
    "data.experimental.assert_cardinality": "Use len(dataformats.open(paths)) for the number of records",
    "data.experimental.dense_to_ragged_batch": "Use padded_batch, or parse a RaggedFeature of whole batches",
    "data.experimental.get_single_element": "Use dataset.get_single_element()",
    "data.experimental.ignore_errors": "Copy the sound records with dataformats.repair",
    "data.experimental.make_csv_dataset": "Convert the files with dataformats convert, which reads CSV",
    "data.experimental.snapshot": _PREPARED,
    "io.decode_bmp": "Decode with Pillow",
    "io.decode_csv": "Use tf.strings.split and tf.strings.to_number",
    "io.decode_gif": "Decode with Pillow",
    "io.match_filenames_once": "Use tf.io.gfile.glob",
}
"""Name to what stands for it."""

_OTHER = "Values are numpy: use numpy, or import tensorflow beside it for the rest of a program"


def missing(name: str) -> AttributeError:
    """Return the error of a name that TensorFlow may have, such as `"io.decode_gif"`, with a remedy."""
    owner, _, last = name.rpartition(".")
    if last.startswith("__"):  # Python looks for it
        return AttributeError(name)
    text = f"tf.{name} is not in {_HERE}, which has the names that read and write TFRecords."
    if name in REMEDIES:
        return AttributeError(f"{text} {REMEDIES[name]}")
    module = sys.modules.get(f"{_HERE}.{owner}" if owner else _HERE)
    near = difflib.get_close_matches(last, getattr(module, "__all__", ()), 1, 0.7)
    if near:
        text = f"{text} The nearest name is tf.{owner + '.' if owner else ''}{near[0]}."
    return AttributeError(f"{text} {_OTHER}")


def missing_from(module: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module of this package."""

    def raise_missing(name: str) -> NoReturn:
        raise missing(f"{module.removeprefix(_HERE)}.{name}".lstrip("."))

    return raise_missing
