"""Show real TFRecords, convert them through five formats and back, compare, and train with an interruption.

Run it with `make demo`, or `python examples/demo.py` if the package is installed. It exits 1 if a converted dataset
differs from the original, if the classifier has not learned the digits, or if an interrupted and resumed run has
other weights than an uninterrupted one.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import dataformats

DATA = Path(__file__).resolve().parents[1] / "tests" / "golden" / "real"
ACCURACY = 0.9
TRAINED_ON = "ffrecord"
BATCH, EPOCHS, RATE = 64, 30, 0.5

Weights = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Step:
    """One conversion; its source is the output of the step before."""

    format: str
    suffix: str


# The last step is TFRecord again, the format of the originals. Granular's datasets are folders.
STEPS = (
    Step("ffrecord", ".ffr"),
    Step("ofrecord", ".ofrecord"),
    Step("syrah", ".syr"),
    Step("granular", ""),
    Step("tfrecord", ".tfrecord"),
)


@dataclass(frozen=True)
class Row:
    """The result of one step for one dataset."""

    data: str
    format: str
    records: int
    bytes: int
    write: float  # records per second
    read: float
    equal: bool


# ---- the known content of the data


def digits_are_known(source: dataformats.RecordSource, expected: dict[str, Any]) -> bool:
    batch = source.read(range(len(source)))
    images = hashlib.sha256(batch["image"].tobytes()).hexdigest()
    facts = len(source), int(batch["label"].sum()), images
    return facts == (
        expected["records"],
        expected["sum_of_labels"],
        expected["sha256_of_all_images_in_order"],
    )


def photos_are_known(source: dataformats.RecordSource, expected: dict[str, Any]) -> bool:
    names = [record["name"] for record in source]
    sizes = [[record["image"].shape[1], record["image"].shape[0]] for record in source]
    declared = [[record["width"], record["height"]] for record in source]
    return (names, sizes, declared) == (expected["names"], expected["sizes_wh"], expected["sizes_wh"])


@dataclass(frozen=True)
class DataSet:
    name: str
    pattern: str
    spec: dict[str, str]
    is_known: Callable[[dataformats.RecordSource, dict[str, Any]], bool]


DATA_SETS = (
    DataSet("digits", "digits-*.tfrecord", {"image": "uint8[8,8]", "label": "int64"}, digits_are_known),
    DataSet(
        "photos",
        "photos.tfrecord",
        {"image": "jpg", "name": "utf8", "height": "int64", "width": "int64"},
        photos_are_known,
    ),
)


# ---- convert, read back, compare


def convert(data: DataSet, folder: Path, expected: dict[str, Any]) -> Iterator[Row]:
    """Take a dataset through all steps, and compare the result of each with the original, bit by bit."""
    original = dataformats.open(DATA / data.pattern, spec=data.spec)
    before = original
    for number, step in enumerate(STEPS):
        path = folder / f"{data.name}-{number}{step.suffix}"
        report = dataformats.convert(before, path, step.format)
        verified = dataformats.verify(path)
        after = dataformats.open(path)
        seconds = timed(after)
        equal = verified.ok and same(original, after) and data.is_known(after, expected)
        speed = report.records / report.seconds, len(after) / seconds
        yield Row(data.name, step.format, len(after), after.nbytes, *speed, equal)
        before = after


def timed(source: dataformats.RecordSource) -> float:
    """Return the seconds it takes to read every record."""
    begin = time.perf_counter()
    for _ in source:
        pass
    return time.perf_counter() - begin


def same(one: dataformats.RecordSource, other: dataformats.RecordSource) -> bool:
    """Return True if all records have the same fields with the same values, types included."""
    return len(one) == len(other) and all(
        a.keys() == b.keys() and all(same_value(a[name], b[name]) for name in a)
        for a, b in zip(one, other, strict=True)
    )


def same_value(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return isinstance(other, np.ndarray) and one.dtype == other.dtype and np.array_equal(one, other)
    return type(one) is type(other) and bool(one == other)


# ---- train


def train(path: Path) -> float:
    """Fit a softmax classifier to the digits of a file; return its accuracy on held-out digits.

    It is fitted once without an interruption, and once by a run that is interrupted in the middle of an epoch and
    resumed with another number of workers.

    Raises:
        RuntimeError: The two runs have different weights.
    """
    learned, held_out = dataformats.open(path).split(0.8, seed=0)
    end = EPOCHS * len(learned)
    whole, _ = fit(learned, np.zeros((65, 10)), None, end)
    half, state = fit(learned, np.zeros((65, 10)), None, end // 2)
    resumed, _ = fit(learned, half, json.loads(json.dumps(state)), end, workers=1)
    if not np.array_equal(whole, resumed):
        raise RuntimeError("the interrupted and resumed run has other weights than the uninterrupted one")
    batch = held_out.read(range(len(held_out)))
    return float(np.mean((features(batch["image"]) @ whole).argmax(axis=1) == batch["label"]))


def fit(
    source: dataformats.RecordSource, weights: Weights, state: dict[str, Any] | None, end: int, workers: int = 2
) -> tuple[Weights, dict[str, Any]]:
    """Train from a state until `end` records were consumed; return the weights and the new state."""
    weights = weights.copy()
    with dataformats.Loader(source, BATCH, seed=0, workers=workers) as loader:
        if state is not None:
            loader.load_state_dict(state)
        batches = loader.forever()
        while loader.position < end:
            batch = next(batches)
            x, y = features(batch["image"]), batch["label"]
            error = probabilities(x @ weights) - np.eye(10)[y]
            weights -= RATE * x.T @ error / len(y)
        return weights, loader.state_dict()


def features(images: np.ndarray[Any, np.dtype[np.uint8]]) -> Weights:
    """Return the 64 pixels of each digit, scaled to [0, 1], and a constant 1."""
    pixels = images.reshape(len(images), 64) / 16
    return np.hstack([pixels, np.ones((len(images), 1))])


def probabilities(scores: Weights) -> Weights:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


# ---- show


def show(*arguments: str) -> None:
    """Run a command as a user would, in the folder of the data."""
    print(f"$ dataformats {shlex.join(arguments)}", flush=True)
    subprocess.run([sys.executable, "-m", "dataformats", *arguments], cwd=DATA, check=True)
    print(flush=True)


def print_table(rows: list[Row], accuracy: float) -> None:
    print(f"{'data':8}{'format':10}{'records':>8}{'bytes':>10}{'written/s':>11}{'read/s':>10}  equal  accuracy")
    for row in rows:
        trained = f"{accuracy:.3f}" if (row.data, row.format) == ("digits", TRAINED_ON) else ""
        print(
            f"{row.data:8}{row.format:10}{row.records:8}{row.bytes:10}{row.write:11.0f}{row.read:10.0f}"
            f"  {'yes' if row.equal else 'NO':5}  {trained}".rstrip()
        )


def main() -> int:
    expected = json.loads((DATA / "expected.json").read_text("utf-8"))
    with tempfile.TemporaryDirectory() as name:
        os.environ["DATAFORMATS_CACHE"] = str(Path(name) / "cache")
        for data in DATA_SETS:
            show("info", data.pattern)
            show("head", data.pattern, "-n", "2", "--spec", json.dumps(data.spec))
        rows = [row for data in DATA_SETS for row in convert(data, Path(name), expected[data.name])]
        number, step = next((number, step) for number, step in enumerate(STEPS) if step.format == TRAINED_ON)
        accuracy = train(Path(name) / f"digits-{number}{step.suffix}")
    print_table(rows, accuracy)
    print("(These files are too small to measure speed on a disk.)")
    unequal = [f"{row.data} in {row.format} differ from the original TFRecords" for row in rows if not row.equal]
    weak = [f"the accuracy is {accuracy:.3f}, expected more than {ACCURACY}"] if accuracy <= ACCURACY else []
    for problem in unequal + weak:
        print(f"failed: {problem}", file=sys.stderr)
    return 1 if unequal or weak else 0


if __name__ == "__main__":
    sys.exit(main())
