"""`dataformats bench`: how fast a dataset reads and loads on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dataformats.cli import options
from dataformats.cli.output import format_count, print_fact, print_json

if TYPE_CHECKING:
    from dataformats.loaders.benchmark import Benchmark


@options.paths
@options.option("batch_size", "int", "Records of a loader's batch.", 64)
@options.option("seconds", "", "How long each measurement takes.", 1.0, type=options.Number(0.01, 3600), metavar="S")
@options.reading
@options.checksums
@options.as_json
def bench(paths: str | list[str], batch_size: int, seconds: float, as_json: bool, **reading: Any) -> None:
    """Measure how fast a dataset reads and loads on this machine.

    Shows the speed in order, at random, and through a Loader with 0, 1, 2 and 4 workers, beside the speed of the disk;
    what limits the Loader; and each change that made it faster here, with its gain.
    """
    from dataformats.loaders.benchmark import benchmark

    found = benchmark(paths, batch_size, seconds, options.arguments(reading))
    print_json(found.to_json()) if as_json else _print(found)


def _print(found: Benchmark) -> None:
    print_fact("records", f"{found.records:,}, {format_count(found.nbytes, 'byte')}")
    print_fact("index", f"{found.index_s:.2f} s")
    for rate in found.rates:
        records = "" if rate.records_per_s is None else f"{rate.records_per_s:,.0f} records/s, "
        print_fact(rate.work, f"{records}{rate.bytes_per_s / 1e6:,.1f} MB/s")
    print_fact("time of a Loader", ", ".join(f"{name} {share:.0%}" for name, share in found.shares.items()))
    print_fact("limit", found.limit)
    for advice in found.advice:
        print_fact("faster", f"{advice.change}: {advice.gain:.2f} times")
    if not found.advice:
        print_fact("faster", "nothing that was tried: other workers, the window order, the cache in memory")
