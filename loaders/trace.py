"""The records of a step, from the plan alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dataformats.loaders.adapters import Readable
from dataformats.loaders.plan import Plan
from dataformats.loaders.steps import Step

__all__ = ["TracedRecord"]


class TracedRecord(NamedTuple):
    """A record that a rank receives in a step.

    Attributes:
        step: The number of the step since training began.
        rank: The rank.
        position: Its position: `loader.skip(position, position + 1)` takes it out of the run.
        epoch: How often its source was completed before.
        component: The number of its source in a mixture; 0 without one.
        index: Its index in that source.
        path: Its file; empty if it has none.
        offset_bytes: The byte at which its stored bytes begin in the file; -1 if that is unknown, as in Parquet.
    """

    step: int
    rank: int
    position: int
    epoch: int
    component: int
    index: int  # type: ignore[assignment]  # a record's number here; in other tuples the method that searches
    path: str
    offset_bytes: int


def trace(number: int, step: Step, world_size: int, plan: Plan, sources: Sequence[Readable]) -> list[TracedRecord]:
    """Return the records of a step, rank by rank, in the order of each batch.

    Args:
        number: The number of the step.
        step: The step.
        world_size: Number of ranks.
        plan: The order.
        sources: The source of each component.
    """
    of_ranks = [step.of_rank(rank, world_size) for rank in range(world_size)]
    ranks = np.repeat(np.arange(world_size), [len(positions) for positions in of_ranks])
    positions = np.concatenate(of_ranks)
    place = plan.locate(positions)
    files = np.full(len(positions), None)
    for component in np.unique(place.component).tolist():
        source, rows = sources[component], np.flatnonzero(place.component == component)
        origins = source.origins(place.record[rows], offsets=True)
        files[rows] = np.fromiter(((one.path, one.offset_bytes) for one in origins), object, len(rows))
    columns = (ranks, positions, place.epoch, place.component, place.record)
    numbers = zip(*(column.tolist() for column in columns), strict=True)
    return [TracedRecord(number, *of_record, *file) for of_record, file in zip(numbers, files, strict=True)]
