"""Granular: random batches of a dataset of generation 3."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.harness import Case, Data, Side, Target, Work, peer
from tests.benchmarks.ours import Steps, at_random, reads, write

BATCH = 64
SHAPE = (60, 80, 3)
SPEC = {"image": f"uint8[{','.join(map(str, SHAPE))}]", "label": "int", "text": "utf8"}
IN_MEMORY = 'dataformats, cache="memory"'


def records(n: int) -> Iterator[dict[str, Any]]:
    """Yield n records, the same ones every time."""
    rng = np.random.default_rng(n)
    for index in range(n):
        image = rng.integers(0, 256, SHAPE, np.uint8)
        yield {"image": image, "label": index, "text": f"what is to be seen in picture {index}"}


def original(path: Path, steps: Steps, cache_keys: Sequence[str] = ()) -> Side:
    """One record after another, as granular gives them, stacked."""
    granular = peer("granular")
    reader = granular.DatasetReader(path, granular.decoders, cache_keys=tuple(cache_keys))
    wanted = [list(map(int, indices)) for indices in steps]

    def batches() -> Iterator[dict[str, Any]]:
        for indices in wanted:
            points = [reader[index] for index in indices]
            yield {
                "image": np.stack([point["image"] for point in points]),
                "label": np.array([point["label"] for point in points]),
                "text": [point["text"] for point in points],
            }

    return Side(batches, lambda batch: batch | {"label": batch["label"].tolist()})


def reading(data: Data) -> Work:
    """Return the work of reading random batches."""
    n = data.count(10_000, least=BATCH)
    path = data.made(
        f"pictures-{n}.granular", lambda path: write(path, records(n), "granular", spec=SPEC, generation=3)
    )
    steps = at_random(n, BATCH, data.count(400))
    return Work(
        f"Granular generation 3, {n:,} × {{{'×'.join(map(str, SHAPE))} array, int, text}}, random batches of {BATCH}",
        {
            "dataformats": reads(path, steps),
            IN_MEMORY: reads(path, steps, cache="memory"),
            "granular": lambda: original(path, steps),
            "granular, cache_keys": lambda: original(path, steps, tuple(SPEC)),
        },
    )


CASES = (
    Case(
        "granular",
        reading,
        (
            Target("granular", 4),
            Target("granular", 8, IN_MEMORY),
            Target("granular, cache_keys", None, IN_MEMORY),
        ),
    ),
)
