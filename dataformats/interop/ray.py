"""Ray: conversions on the machines of a cluster, and records for Ray Data."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from typing import Any

from dataformats.errors import MissingExtraError
from dataformats.interfaces.record_source import RecordSource
from dataformats.reading.opening import open as open_source

try:
    import pyarrow
    import ray
    from ray.data import Datasource, ReadTask
    from ray.data.block import BlockMetadata
    from ray.exceptions import RayError, RayTaskError
except ImportError as error:
    raise MissingExtraError("dataformats.interop.ray", extra="ray") from error

__all__ = ["RayExecutor", "RecordDatasource"]

_RETRIES = 8


class RayExecutor(Executor):
    """Runs tasks on a Ray cluster: pass it to `convert(executor=)` or `verify(executor=)`.

    A task whose worker or node dies runs again, on another one. A conversion publishes each shard once, however often
    its task ran. All nodes must see the source and the destination under the same paths, and have `dataformats`
    installed.

    Args:
        address: The cluster, as in `ray.init`; `None` takes the one that this process is connected to, or that
            `RAY_ADDRESS` names, or starts one on this machine.
        retries: How often a task runs again after its worker died.
        **options: More options of a Ray task, such as `num_cpus=2`.

    Example:
        >>> import dataformats, tempfile, pathlib
        >>> from dataformats.interop.ray import RayExecutor  # doctest: +SKIP
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "digits"
        >>> with RayExecutor() as cluster:  # doctest: +SKIP
        ...     report = dataformats.convert(
        ...         "tests/golden/real/digits-*.tfrecord", path, "ffrecord", shard_records=500, executor=cluster
        ...     )
        >>> report.files  # doctest: +SKIP
        4
    """

    def __init__(self, address: str | None = None, *, retries: int = _RETRIES, **options: Any) -> None:
        if address is not None or not ray.is_initialized():
            ray.init(address=address, ignore_reinit_error=True)
        self._run = ray.remote(max_retries=retries, **options)(_call)
        self._max_workers = max(1, int(ray.cluster_resources().get("CPU", 1)))

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Return the future of a call on the cluster. It cannot be canceled."""
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        reference = self._run.remote(function, args, kwargs)
        reference.future().add_done_callback(functools.partial(_forward, future))
        return future


def _call(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    return function(*args, **kwargs)


def _forward(future: Future[Any], done: Future[Any]) -> None:
    """Give a future the result of Ray's, the error that the task raised, or `BrokenExecutor` if its workers died."""
    error = done.exception()
    if error is None:
        future.set_result(done.result())
    elif isinstance(error, RayTaskError):
        future.set_exception(error.cause)
    else:
        future.set_exception(BrokenExecutor(str(error)) if isinstance(error, RayError) else error)


class RecordDatasource(Datasource):  # type: ignore[misc]  # Ray has no types here
    """Records as a dataset of Ray Data: each read task takes a range of them.

    Ray Data keeps the order of records only with `DataContext.execution_options.preserve_order`.

    Args:
        source: A source, or a path as in `open`.
        **options: Arguments of `open`, if `source` is a path.

    Example:
        >>> import ray  # doctest: +SKIP
        >>> from dataformats.interop.ray import RecordDatasource  # doctest: +SKIP
        >>> digits = ray.data.read_datasource(RecordDatasource("digits-*.tfrecord"))  # doctest: +SKIP
        >>> digits.count()  # doctest: +SKIP
        1797
    """

    def __init__(self, source: RecordSource | Any, **options: Any) -> None:
        super().__init__()
        self._source = source if isinstance(source, RecordSource) else open_source(source, **options)

    def get_name(self) -> str:
        """Return the name of the source in Ray's plans."""
        return "dataformats"

    def estimate_inmemory_data_size(self) -> int:
        """Return about the bytes of all records."""
        return self._source.nbytes

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        """Return at most `parallelism` tasks, whose ranges of records differ by at most one in length."""
        n = len(self._source)
        parts = min(parallelism, n) or 1
        bounds = [n * part // parts for part in range(parts + 1)]
        return [
            ReadTask(
                functools.partial(_tables, self._source, first, stop),
                BlockMetadata(
                    num_rows=stop - first,
                    size_bytes=self._source.nbytes * (stop - first) // max(1, n),
                    input_files=tuple(map(str, self._source.paths)),
                    exec_stats=None,
                ),
                per_task_row_limit=per_task_row_limit,
            )
            for first, stop in itertools.pairwise(bounds)
        ]


def _tables(source: RecordSource, first: int, stop: int) -> Iterator[Any]:
    """Yield these records as Arrow tables of a few megabytes."""
    for batch in source[first:stop].to_batches():
        yield pyarrow.Table.from_batches([batch])
