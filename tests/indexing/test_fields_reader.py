"""Readers of fields: the indexes of all files are joined, and give each record what its own file's index says."""

from __future__ import annotations

import random

import numpy as np
import pytest

from dataformats.errors import FormatError
from dataformats.indexing.fields_reader import DERIVED, FieldsReader
from dataformats.indexing.file_index import ArrayIndex, FileIndex, LazyProblems
from dataformats.interfaces import StoredFile
from dataformats.storage.given_files import BytesFile
from tests.campaign import SEED

Extent = tuple[int, int, int, int, str]  # file, offset, length, stored checksum, problem


class GivenIndexes(FieldsReader):
    """Files whose indexes are given. The odd ones have a derived file."""

    def __init__(self, indexes: list[FileIndex]) -> None:
        files = [BytesFile(bytes(1)) for _ in indexes]
        self.given = dict(zip(files, indexes, strict=True))
        super().__init__(files)

    def index_of(self, file: StoredFile) -> FileIndex:
        return self.given[file]  # type: ignore[index]  # the files above

    def derived_file(self, file: StoredFile, file_index: FileIndex) -> StoredFile | None:
        return BytesFile(bytes(2)) if file_index.metadata["number"] % 2 else None


def random_index(rng: random.Random, number: int) -> FileIndex:
    n = rng.randrange(5)
    fields = {name: random_array(rng, n, f"{number}.{name}") for name in "abc" if rng.random() < 0.7}
    return FileIndex(n, fields, {"number": number})


def random_array(rng: random.Random, n: int, text: str) -> ArrayIndex:
    most = rng.choice([100, 2**15, 2**32, 2**40])
    offset, length = (np.array([rng.randrange(low, most) for _ in range(n)], np.int64) for low in (0, -1))
    length[[rng.random() < 0.2 for _ in range(n)]] = -1
    stored = None if rng.random() < 0.5 else np.array([rng.randrange(2**32) for _ in range(n)], np.uint32)
    wrong = np.array([rng.random() < 0.1 for _ in range(n)], np.bool_)
    length[wrong] = 0
    return ArrayIndex(offset, length, stored, LazyProblems(wrong, lambda row: FormatError(f"{text}.{row}")))


def expected(indexes: list[FileIndex], name: str) -> list[Extent | None]:
    """The extent of each record, `None` if it lacks the field."""
    found: list[Extent | None] = []
    for number, index in enumerate(indexes):
        array = index.arrays.get(name)
        for row in range(len(index)):
            if array is None or array.length[row] < 0:
                found.append(None)
                continue
            stored = 0 if array.stored is None else int(array.stored[row])
            problem = str(array.problems[row]) if row in array.problems else ""
            found.append((number, int(array.offset[row]), int(array.length[row]), stored, problem))
    return found


@pytest.mark.parametrize("seed", range(30))
def test_records_have_the_extents_of_their_file(seed: int) -> None:
    rng = random.Random(SEED + seed)
    indexes = [random_index(rng, number) for number in range(rng.randint(1, 5))]
    reader, n = GivenIndexes(indexes), sum(map(len, indexes))
    names = {name for index in indexes for name in index.fields}
    assert set(reader.spec or ()) == names
    indices = np.array([rng.randrange(n) for _ in range(40)] if n else [], np.int64)
    for name, located in reader.locate(indices, dict.fromkeys(names, True)).items():
        extents, every = located.extents, expected(indexes, name)
        right = [every[index] for index in indices.tolist()]
        counts = located.counts if located.counts is not None else np.ones(len(indices), np.int64)
        assert counts.tolist() == [int(one is not None) for one in right]
        stored = extents.stored if extents.stored is not None else np.zeros(len(extents), np.uint32)
        columns = (extents.file, extents.offset, extents.length, stored)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        problems = [str(extents.problems[row]) if row in extents.problems else "" for row in range(len(extents))]
        assert [(*row, text) for row, text in zip(rows, problems, strict=True)] == [one for one in right if one]


def test_offsets_lead_to_derived_files() -> None:
    indexes = [FileIndex(2, {"a": ArrayIndex(np.array([7, 7 + DERIVED * (k % 2)]), np.array([1, 2]))}, {"number": k})
               for k in range(4)]  # fmt: skip
    reader = GivenIndexes(indexes)
    assert [file.size for file in reader.files] == [1, 1, 1, 1, 2, 2]
    assert reader.counts.tolist() == [2, 2, 2, 2, 0, 0]
    extents = reader.locate(np.arange(8), {"a": True})["a"].extents
    assert extents.file.tolist() == [0, 0, 1, 4, 2, 2, 3, 5]
    assert extents.offset.tolist() == [7] * 8
