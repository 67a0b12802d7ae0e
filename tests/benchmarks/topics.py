"""The cases of each topic, in the order of the page."""

from __future__ import annotations

from importlib import import_module

from tests.benchmarks.harness import Case

MODULES = {
    "TFRecord and FFRecord": ("tfrecord", "ffrecord", "cold", "indexing"),
    "Compressed TFRecord": ("compressed",),
    "Syrah and Granular": ("syrah", "granular"),
    "Single records": ("single_records",),
    "Examples, OFRecords, and other programs": ("examples", "other_programs", "parsing"),
    "Images": ("images",),
    "Loader": ("loading",),
    "Formats with a library": ("libraries",),
    "Object stores": ("remote",),
    "Write, convert, merge, and query": ("writing", "conversion", "merging", "sql"),
    "Drop-in modules": ("granular_drop_in", "drop_ins", "drop_ins_unpublished"),
}
TOPICS: dict[str, list[Case]] = {
    topic: [case for name in names for case in import_module(f"tests.benchmarks.{name}").CASES]
    for topic, names in MODULES.items()
}
"""Topic to its cases: each is a table of the page."""
