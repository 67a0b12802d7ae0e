"""The calls that meet faults: each runs on a URL as on a local path."""

from __future__ import annotations

import http.client
import multiprocessing
import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dataformats
from dataformats.writing.dataset_writer import DatasetWriter

SPEC = {"n": "int64", "text": "utf8"}
SHARD_RECORDS = 4
NEW, FEWER = range(14), range(1000, 1010)
OLD, ADDED, MORE = range(5000, 5018), range(6000, 6007), range(7000, 7006)
ALIKE = range(8000, 8018)  # files of the names and sizes of OLD: only the values show a mixture
LOST = 6  # the record that is damaged in the source of `repair`


def record(n: int) -> dict[str, Any]:
    return {"n": n, "text": f"<{n:06d}>" * (1 + n % 3)}


@dataclass(frozen=True)
class Place:
    """The target and the sources of a call.

    Attributes:
        base: A URL or a local folder, without a slash at the end.
        sources: The folder of `prepare_sources`.
        tell: Reports facts to the harness.
    """

    base: str
    sources: Path
    tell: Callable[..., None]

    def path(self, name: str) -> str:
        return f"{self.base}/{name}"


Call = Callable[..., None]
"""Receives a `Place` and options of the function that it calls."""


def create_shards(name: str, format: str, numbers: Sequence[int], **arguments: Any) -> Call:
    """Return a call of `create` with `shard_records`."""
    return create_file(name, format, numbers, shard_records=SHARD_RECORDS, **arguments)


def create_file(name: str, format: str, numbers: Sequence[int], *, retries: bool = False, **arguments: Any) -> Call:
    """Return a call of `create`; with `resume` it begins with the records that are missing."""

    def call(place: Place, **options: Any) -> None:
        writer = dataformats.create(place.path(name), format, spec=SPEC, **{**arguments, **options})
        if retries:
            _close_twice(writer, numbers, place)
            return
        with writer:
            place.tell(begin=len(writer))
            rest = numbers[len(writer) :] if {**arguments, **options}.get("resume") else numbers
            for n in rest:
                writer.append(record(n))

    return call


def _close_twice(writer: DatasetWriter, numbers: Sequence[int], place: Place) -> None:
    """Close a writer again if it fails, once the fault has passed; report if the error names a folder that is there."""
    writer.extend([record(n) for n in numbers])
    try:
        writer.close()
    except OSError as error:
        text = "\n".join([str(error), *getattr(error, "__notes__", [])])
        folder = re.escape(os.environ["TMPDIR"])
        named = [path for path in re.findall(rf"{folder}[^\s'\",;:]*", text) if os.path.exists(path)]
        place.tell(failed_close=text, names_folder=bool(named))
        lift_fault()
        writer.close()


def lift_fault() -> None:
    """Ask the proxy to let the later requests of this process pass."""
    host, port = os.environ["AWS_ENDPOINT_URL"].removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port))
    connection.request("POST", "/.lift", headers={"Authorization": f"Credential={os.environ['AWS_ACCESS_KEY_ID']}/"})
    connection.getresponse().read()
    connection.close()


def convert_file(name: str, format: str, source: str = "source.tfrecord", **arguments: Any) -> Call:
    def call(place: Place, **options: Any) -> None:
        chosen = {**arguments, **options}
        chosen.setdefault("resume", False)
        report = dataformats.convert(place.sources / source, place.path(name), format, **chosen)
        place.tell(resumed=report.resumed)

    return call


def convert_shards(name: str, format: str, source: str = "source.tfrecord", **arguments: Any) -> Call:
    """Return a call of `convert` with `shard_records`."""
    return convert_file(name, format, source, shard_records=SHARD_RECORDS, **arguments)


def convert_in_pool(name: str, format: str, **arguments: Any) -> Call:
    """Return a conversion in two processes, which are forked before the first request."""

    def call(place: Place, **options: Any) -> None:
        with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as executor:
            list(executor.map(abs, range(2)))
            convert_shards(name, format, executor=executor, **arguments)(place, **options)

    return call


def convert_in_parts(name: str, format: str) -> Call:
    """Return a call of both parts of a conversion, one after the other, and of the commit."""

    def call(place: Place, **options: Any) -> None:
        steps: tuple[dict[str, Any], ...] = ({"part": (0, 2)}, {"part": (1, 2)}, {"publish_parts": True})
        for step in steps:
            convert_shards(name, format, **step)(place, **options)

    return call


def merge(name: str, **arguments: Any) -> Call:
    def call(place: Place, **options: Any) -> None:
        dataformats.merge(str(place.sources / "part-*.tfrecord"), place.path(name), **{**arguments, **options})

    return call


def split(name: str, **arguments: Any) -> Call:
    def call(place: Place, **options: Any) -> None:
        chosen = {**arguments, **options}
        if "rest_path" in chosen:
            chosen["rest_path"] = place.path(chosen["rest_path"])
        dataformats.split(place.sources / "source.tfrecord", place.path(name), **chosen)

    return call


def repair(name: str, source: str) -> Call:
    def call(place: Place, **options: Any) -> None:
        dataformats.repair(place.sources / source, place.path(name), **options)

    return call


def prepare_sources(folder: Path) -> None:
    """Write the sources of `convert`, `merge`, `split` and `repair`."""
    place = Place(str(folder), folder, lambda **facts: None)
    create_file("source.tfrecord", "tfrecord", NEW)(place)
    for number, part in enumerate((NEW[:5], NEW[5:9], NEW[9:])):
        create_file(f"part-{number}.tfrecord", "tfrecord", part)(place)
    create_shards("damaged", "tfrecord", NEW)(place)
    create_file("damaged.tfrecord", "tfrecord", NEW)(place)
    create_file("fewer.tfrecord", "tfrecord", FEWER)(place)
    for path in (*sorted(folder.glob("damaged/*")), folder / "damaged.tfrecord"):
        content = path.read_bytes()
        path.write_bytes(content.replace(b"<%06d>" % LOST, b"<broken>"))


def is_even(row: Any) -> bool:
    return bool(row["n"] % 2 == 0)
