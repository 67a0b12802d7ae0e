"""Names of other programs, and the same things' names here: errors say what to write instead."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def _table(rows: Mapping[str, T]) -> dict[str, T]:
    """Return each of the names in a key, which spaces separate, with its value."""
    return {name: value for names, value in rows.items() for name in names.split()}


TYPES = _table(
    {
        "str string text unicode": ("utf8",),
        "binary blob": ("bytes",),
        "float number": ("float32", "float64"),
        "i8 byte": ("int8", "uint8"),
        "i16 short": ("int16",),
        "i32": ("int32",),
        "long integer": ("int64",),
        "u8": ("uint8",),
        "u16": ("uint16",),
        "u32": ("uint32",),
        "f16 half": ("float16",),
        "f32 single": ("float32",),
        "f64 double": ("float64",),
        "boolean": ("bool",),
        "list sequence": ("int64[]", "float32[]"),
        "ndarray": ("array", "npy"),
        "image img pil": ("jpg", "png", "webp"),
        "video": ("mp4", "webm"),
        "sound wav flac mp3 ogg": ("audio",),
        "dict object": ("json", "msgpack"),
        "protobuf proto": ("example", "bytes"),
        "tf.train.example": ("example",),
    }
)
"""The types and payloads that other programs call so."""

_LOADER = "dataformats.Loader(source, batch_size)"
_ORDER = "source.take(indices), and shuffle=False"

SOURCE = _table(
    {
        "shuffle": f"{_LOADER} shuffles all records; source.take(numpy.random.permutation(len(source))) is a view",
        "batch": f"{_LOADER} makes batches; source.read(indices) is one",
        "filter query": "source.where(condition)",
        "repeat": f"{_LOADER}.forever() runs through all epochs",
        "prefetch": f"{_LOADER} and iteration read ahead",
        "cache": 'dataformats.open(path, cache="memory")',
        "skip": "source[n:]",
        "limit head": "source[:n]",
        "tail": "source[-n:]",
        "sample": "source.take(numpy.random.choice(len(source), n, replace=False))",
        "concatenate concat": "dataformats.concat([source, other])",
        "interleave": "dataformats.mix",
        "train_test_split random_split": "source.split(0.9)",
        "as_numpy_iterator iterrows": "iterate the source",
        "to_list to_dicts": "list(source)",
        "to_pandas to_polars to_table": "source.to_arrow() is a pyarrow.Table",
        "to_numpy numpy to_dict": "source.read(range(len(source))) has columns of NumPy",
        "to_torch with_format set_format": f'{_LOADER} with to="torch" or to="jax"',
        "columns column_names fields keys": "source.spec has the names of the fields",
        "features schema element_spec dtypes": "source.spec has the types of the fields",
        "num_rows shape size": "len(source)",
        "items values": "iterate the source; source.read(indices) has columns",
        "remove_columns select_columns drop": "source.select(*names)",
        "rename rename_column rename_columns": "source.map(function); convert takes rename=",
        "cast astype": "source.with_spec(spec)",
        "apply flat_map": "source.map(function)",
        "loc iloc get": "source[i] is a record, source.read(indices) a batch",
        "describe unique value_counts": "source.stats(name)",
        "sort sort_values": "source.take(numpy.argsort(column))",
        "save save_to_disk to_parquet": "dataformats.convert(path, new_path, format)",
    }
)
"""The attributes that sources of tf.data, datasets, WebDataset and pandas have."""

_DENSE = ".values has all values, .lengths the lengths of the items, .pad() is an array, list(...) the items"

RAGGED = _table({"shape dtype ndim tolist to_list numpy to_numpy flatten mean sum min max": _DENSE})
"""The attributes that arrays have."""

BATCH = _table(
    {
        "to_pandas to_polars to_table": "batch.to_arrow()",
        "to_numpy numpy to_dict": "dict(batch) has columns of NumPy",
        "shape size num_rows": "len(batch)",
        "column_names columns_names fields": "batch.keys()",
    }
)
"""The attributes that tables have."""

WRITER = _table({"write put add save write_record": "writer.append(record)", "write_batch writerows": "writer.extend"})
"""The attributes that writers of TensorFlow, WebDataset and csv have."""

LOADER = _table(
    {
        "next": "next(iter(loader))",
        "reset": "loader.set_epoch(epoch)",
        "shuffle set_seed": "arguments of dataformats.Loader",
    }
)
"""The attributes that loaders have."""

MODULE = _table(
    {
        "load read load_dataset open_dataset Dataset TFRecordDataset Reader": "dataformats.open(path)",
        "DataLoader": _LOADER,
        "write save Writer TFRecordWriter": "dataformats.create(path)",
        "concatenate concatenate_datasets": "dataformats.concat",
        "interleave_datasets sample_from_datasets": "dataformats.mix",
        "filter shuffle": "views of a source, as dataformats.open(path).where",
    }
)
"""The functions and classes that other packages have."""

_ARGUMENTS = _table(
    {
        "num_workers num_parallel_calls worker_count": "workers=",
        "prefetch_factor worker_buffer_size": "prefetch=",
        "collate_fn": "collate=",
        "drop_remainder": "drop_last=",
        "pin_memory pin_memory_device": 'to="torch" and device=, whose copies use page-locked memory',
        "persistent_workers": "nothing: workers stay until loader.close()",
        "sampler batch_sampler": _ORDER,
        "generator random_state": "seed=",
        "timeout": "hang_timeout_s=",
        "multiprocessing_context": 'worker_type="process" and start_method=',
        "worker_init_fn": "transform(record, rng), whose random numbers depend on seed and position",
        "operations transforms map_fn": "transform=",
        "shard_options num_shards num_replicas": "rank= and world_size=",
        "num_epochs epochs": "loader.forever(), or a loop",
        "buffer_size shuffle_buffer_size": 'shuffle=True, or shuffle="window" and window_blocks=',
        "columns fields": "source.select(*names)",
        "schema features dtype dtypes": "spec=",
        "compression_type": "compression=",
        "batch_size transform": f"{_LOADER}, which takes it",
        "shuffle seed": f"shuffle_seed= of dataformats.convert, or {_LOADER}, which takes it",
        "split": "source.split(0.9)",
        "mode": "dataformats.open to read, dataformats.create to write",
    }
)


def no_attribute(owner: object, name: str, table: Mapping[str, str]) -> AttributeError:
    """Return the error for an attribute that an object lacks."""
    remedy = f"; instead: {table[name]}" if name in table else ""
    message = f"{type(owner).__name__!r} object has no attribute {name!r}{remedy}"
    return AttributeError(message, name=name, obj=owner)


def describe_replacements(names: Iterable[str]) -> str:
    """Return sentences with the arguments to pass instead of these; empty if none is known."""
    return "".join(f". For {name}= use {_ARGUMENTS[name]}" for name in names if name in _ARGUMENTS)


def suggest_arguments(function: Callable[P, T]) -> Callable[P, T]:
    """Return the function; its `TypeError` for an unknown keyword argument names ours, if another program has it."""
    import inspect

    own = inspect.signature(function).parameters

    @functools.wraps(function)
    def call(*args: P.args, **named: P.kwargs) -> T:
        if unknown := named.keys() - own:
            listed = ", ".join(sorted(unknown))
            raise TypeError(f"unknown arguments: {listed}{describe_replacements(sorted(unknown))}")
        return function(*args, **named)

    return call
