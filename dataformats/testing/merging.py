"""Datasets copied into one, and one into several."""

from __future__ import annotations

import numpy as np
import pytest

from dataformats.errors import SpecError
from dataformats.merging import merge, split
from dataformats.testing.dataset_fixture import DatasetFixture


class MergingConformance:
    """Records copied as they are stored."""

    def test_merge(self, data: DatasetFixture) -> None:
        """Records of all sources in order, with spec and payload."""
        first, second, path = data.write(7, "first"), data.write(5, "second", 7), data.path("both")
        assert merge([first, second], path) == {str(path): 12}
        data.check(data.open(path), range(12))
        data.check_spec(data.open(path))
        assert data.open(path).payload == data.open(first).payload
        with data.open(first) as one, data.open(second) as other:
            assert merge([other, one, other], path, overwrite=True) == {str(path): 17}
        data.check(data.open(path), [*range(7, 12), *range(7), *range(7, 12)])

    def test_merge_of_files_with_other_fields(self, data: DatasetFixture) -> None:
        """Records lack fields in the copy, too, or the format refuses that, and nothing is left behind."""
        data.need_fields()
        data.need_shards()
        few = data.write_records([{"id": 1}], {"id": "int64"}, "few")
        more = data.write_records([{"id": 2, "text": "x"}], {"id": "int64", "text": "utf8"}, "more")
        try:
            merge([few, more], data.path("out"))
        except SpecError as error:
            assert "record has every field" in str(error)  # noqa: PT017
            assert not any("out" in left.name for left in data.folder.iterdir())
        else:
            assert list(data.open(data.path("out"))) == [{"id": 1}, {"id": 2, "text": "x"}]

    def test_split_into_shards(self, data: DatasetFixture) -> None:
        """Shards of one size, or a number of them; each can be opened, and all together."""
        data.need_shards()
        source, path = data.write(10), data.folder / "train"
        steps: list[tuple[int, int]] = []
        for shards, shard_records, expected in ((3, None, [3, 3, 4]), (None, 4, [4, 4, 2])):
            counts = split(
                source,
                path,
                shards=shards,
                shard_records=shard_records,
                overwrite=True,
                progress=lambda *step: steps.append(step),
            )
            assert (list(counts.values()), steps.pop()) == (expected, (10, 10))
            assert sorted(path.iterdir()) == sorted(map(path.parent.joinpath, counts))
            data.check(data.open(path), range(10))
            data.check_spec(data.open(path))
            found = [record for shard in counts for record in data.open(shard, **data.declared())]
            data.check(found, range(10))
        again = data.path("again")
        assert merge(path, again) == {str(again): 10}
        data.check(data.open(again), range(10))
        with pytest.raises(SpecError, match="1 to 10 shards"):
            split(source, path, shards=11, overwrite=True)

    def test_two_datasets_by_a_condition(self, data: DatasetFixture) -> None:
        """Records are split by a function into matching records and the rest."""
        source, path, rest = data.source(10), data.path("few"), data.path("rest")
        counts = split(source, path, where=lambda record: data.index(record) in (1, 4, 7), rest_path=rest)
        assert counts == {str(path): 3, str(rest): 7}
        data.check(data.open(path), [1, 4, 7])
        data.check(data.open(rest), [0, 2, 3, 5, 6, 8, 9])
        data.check_spec(data.open(path), data.open(rest))
        counts = split(source, path, where=np.zeros(10, bool), rest_path=rest, overwrite=True)
        assert counts == {str(path): 0, str(rest): 10}

    def test_merge_refuses_sources_of_different_specs(self, data: DatasetFixture) -> None:
        """Another spec raises, and nothing is left behind."""
        data.need_fields()
        source, other = data.source(3), data.open(data.write_records([{"n": 1}], {"n": "int64"}, "other"))
        with pytest.raises(SpecError, match="Convert one of them first"):
            merge([source, other], data.path("out"))
        with pytest.raises(TypeError, match=r"use convert\(\)"):
            merge([source[:2]], data.path("out"))
        assert not any("out" in left.name for left in data.folder.iterdir())
