"""Packing loses no token, marks each segment, and resumes exactly on other ranks."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataformats
from dataformats.batch import Ragged
from dataformats.loaders.pack_batch import Pack, pack
from dataformats.testing.loop_over import loop_over


def column_of(lengths: list[int], dtype: Any = np.int64) -> Ragged:
    """Return documents of these lengths; document i holds 1000 i, 1000 i + 1, ..."""
    values = [np.arange(length) + 1000 * i for i, length in enumerate(lengths)]
    return Ragged(np.concatenate([np.zeros(0), *values]).astype(dtype), np.cumsum([0, *lengths]))


def segments_of(batch: Any) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the document and tokens of each segment, row by row, and check everything else."""
    shape = batch["tokens"].shape
    assert batch["segment_ids"].shape == batch["positions"].shape == batch["of"].shape == shape
    assert batch["segment_ids"].dtype == batch["positions"].dtype == batch["of"].dtype == np.int32
    for tokens, ids, positions, documents in zip(
        batch["tokens"], batch["segment_ids"], batch["positions"], batch["of"], strict=True
    ):
        count = int(ids.max())
        assert np.array_equal(np.unique(ids[ids > 0]), np.arange(1, count + 1))
        assert set(tokens[ids == 0]) <= {-7}
        assert set(documents[ids == 0]) <= {-1}
        assert not positions[ids == 0].any()
        for number in range(1, count + 1):
            at = np.flatnonzero(ids == number)
            assert at.tolist() == list(range(at[0], at[-1] + 1))
            assert positions[at].tolist() == list(range(len(at)))
            (document,) = set(documents[at].tolist())
            yield document, tokens[at]


LENGTHS = st.lists(st.integers(0, 9), max_size=12)


@given(LENGTHS, st.integers(1, 7), st.booleans())
def test_nothing_is_lost(lengths: list[int], length: int, truncate: bool) -> None:
    column = column_of(lengths)
    batch = pack("tokens", length=length, value=-7, truncate=truncate, document_column="of").of_columns(
        {"tokens": column}
    )

    found: dict[int, list[int]] = {}
    for document, tokens in sorted(segments_of(batch), key=lambda each: each[1][0]):
        assert len(tokens) == length or len(tokens) == lengths[document] % length
        found.setdefault(document, []).extend(tokens.tolist())
    wanted = {i: item.tolist()[: length if truncate else None] for i, item in enumerate(column) if len(item)}
    assert found == wanted
    assert len(batch["tokens"]) <= sum(-(-len(tokens) // length) for tokens in wanted.values())


@given(LENGTHS, st.integers(1, 7))
def test_records_and_columns_agree(lengths: list[int], length: int) -> None:
    column, labels = column_of([3, *lengths], np.int16), np.arange(len(lengths))
    cut = Ragged(column.values, column.offsets[1:])
    collate = pack("tokens", length=length, document_column="of")
    found = collate.of_columns({"label": labels, "tokens": cut})
    records = [{"label": label, "tokens": tokens} for label, tokens in zip(labels, cut, strict=True)]

    assert list(found) == ["label", "tokens", "segment_ids", "positions", "of"]
    assert found["tokens"].dtype == np.int16
    for name, column in collate(records).items():
        np.testing.assert_array_equal(column, found[name], strict=True)


def test_pack_chooses_the_fullest_row_with_room() -> None:
    batch = pack("tokens", length=6).of_columns({"tokens": column_of([2, 4, 1, 5, 13])})

    assert batch["tokens"].tolist() == [
        [4000, 4001, 4002, 4003, 4004, 4005],
        [4006, 4007, 4008, 4009, 4010, 4011],
        [3000, 3001, 3002, 3003, 3004, 2000],
        [1000, 1001, 1002, 1003, 0, 1],
        [4012, 0, 0, 0, 0, 0],
    ]
    assert batch["segment_ids"][2:].tolist() == [[1, 1, 1, 1, 1, 2], [1, 1, 1, 1, 2, 2], [1, 0, 0, 0, 0, 0]]
    assert batch["positions"][2:].tolist() == [[0, 1, 2, 3, 4, 0], [0, 1, 2, 3, 0, 1], [0, 0, 0, 0, 0, 0]]


def test_several_fields() -> None:
    columns = {"tokens": column_of([2, 3]), "mask": Ragged(np.ones((5, 2), np.float32), np.array([0, 2, 5]))}
    batch = pack("tokens", "mask", length=4, value=9).of_columns(columns)

    assert batch["tokens"].tolist() == [[1000, 1001, 1002, 9], [0, 1, 9, 9]]
    assert batch["mask"].dtype == np.float32
    assert batch["mask"][:, :, 1].tolist() == [[1, 1, 1, 9], [1, 1, 9, 9]]
    columns["mask"] = Ragged(np.ones(4), np.array([0, 2, 4]))
    with pytest.raises(dataformats.SpecError, match="field 'mask': row 1 has 2 values, but 3 of 'tokens'"):
        pack("tokens", "mask", length=4).of_columns(columns)


def test_a_given_number_of_rows() -> None:
    collate = pack("tokens", length=4, rows=3)
    assert collate.of_columns({"tokens": column_of([4, 3, 1])})["segment_ids"].tolist()[1:] == [[1, 1, 1, 2], [0] * 4]
    with pytest.raises(dataformats.SpecError, match=r"need 4 rows of 4, more than rows=3\. Pass a smaller batch_size"):
        collate.of_columns({"tokens": column_of([13])})


def test_no_tokens() -> None:
    empty = pack("tokens", length=4).of_columns({"tokens": column_of([0, 0], np.int32), "label": np.arange(2)})
    assert empty["tokens"].shape == (0, 4)
    assert empty["tokens"].dtype == np.int32
    assert empty["label"].tolist() == [0, 1]
    assert pack("tokens", length=4)([]) == {}


@loop_over(
    "arguments, message",
    [
        ({"length": 0}, "length: expected a whole number .* found 0"),
        ({"length": None}, "found None"),
        ({"length": 4, "rows": True}, "rows: expected a whole number .* found True"),
        ({"length": 4, "document_column": ""}, "document_column: expected the name of a column"),
        ({"length": 4, "document_column": "positions"}, "document_column: expected the name of a column"),
    ],
)
def test_invalid_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pack("tokens", **arguments)


def test_pack_refuses_wrong_fields() -> None:
    with pytest.raises(ValueError, match=r"expected the names of the fields to pack, found \(\)"):
        pack(length=4)
    with pytest.raises(dataformats.SpecError, match="expected a field of the records to pack, found only a"):
        pack("tokens", length=4)([{"a": 1}])
    with pytest.raises(dataformats.SpecError, match="expected sequences of numbers to pack, found a str"):
        pack("tokens", length=4)([{"tokens": "abc"}])
    with pytest.raises(dataformats.SpecError, match="field 'positions': pack gives a column the name of this field"):
        pack("tokens", length=4)([{"tokens": [1], "positions": 3}])
    with pytest.raises(dataformats.SpecError, match="value=-1 does not fit uint8"):
        pack("tokens", length=4, value=-1)([{"tokens": np.zeros(2, np.uint8)}])


def test_it_pickles() -> None:
    collate = pack("tokens", length=4, rows=2, value=1, truncate=True, document_column="of")
    assert isinstance(collate, Pack)
    assert pickle.loads(pickle.dumps(collate)) == collate


# ---- in the loader


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a dataset of 83 documents: number i has i % 23 tokens, all of them i."""
    path = tmp_path_factory.mktemp("packing") / "documents.tfrecord"
    with dataformats.create(path, "tfrecord", spec={"tokens": "int64[]", "number": "int64"}) as writer:
        writer.extend({"tokens": np.full(i % 23, i), "number": i} for i in range(83))
    return path


def loader_of(path: Path, batch_size: int, **options: Any) -> dataformats.Loader:
    return dataformats.Loader(dataformats.open(path), batch_size, seed=3, collate=pack("tokens", length=10), **options)


def tokens_in(batch: Any) -> list[int]:
    tokens: list[int] = batch["tokens"][batch["segment_ids"] > 0].tolist()
    return tokens


def test_each_document_comes_once_wherever_a_run_resumes(documents: Path) -> None:
    """Steps of 2 ranks, then a resume on 3 ranks with another batch size, then on 1 rank with other workers."""
    wanted = sorted(i for i in range(83) for _ in range(i % 23))
    for first_steps in range(4):
        tokens: list[int] = []
        numbers: list[int] = []
        state = after = None
        for world_size, batch_size, steps, workers in [(2, 7, first_steps, 0), (3, 4, 2, 2), (1, 9, None, 1)]:
            loaders = [
                loader_of(documents, batch_size, rank=rank, world_size=world_size, workers=workers)
                for rank in range(world_size)
            ]
            for loader in loaders:
                if state is not None:
                    loader.load_state_dict(state)
                for step, batch in enumerate(loader):
                    if step == steps:
                        break
                    tokens += tokens_in(batch)
                    numbers += batch["number"].tolist()
                    after = loader.state_dict()
                loader.close()
            state = after
        assert sorted(tokens) == wanted
        assert sorted(numbers) == list(range(83))


def test_batches_depend_on_positions_alone(documents: Path) -> None:
    def batches(**options: Any) -> list[dict[str, Any]]:
        with loader_of(documents, 8, **options) as loader:
            return [{name: column.tolist() for name, column in batch.items()} for batch in loader]

    expected = batches(workers=0)
    assert batches(workers=2) == expected
    assert batches(transform=dict) == expected


def test_tensors(documents: Path) -> None:
    torch = pytest.importorskip("torch", reason="the extra torch is not installed")
    with loader_of(documents, 8, to="torch") as loader:
        batch = next(iter(loader))
    assert batch["tokens"].dtype == torch.int64
    assert batch["segment_ids"].dtype == batch["positions"].dtype == torch.int32
    assert len(batch["number"]) == len(batch.positions) == 8


def test_a_rank_without_documents(documents: Path) -> None:
    """The last step has 2 documents for 3 ranks."""
    last = []
    for rank in range(3):
        with loader_of(documents, 9, rank=rank, world_size=3) as loader:
            last.append(list(loader)[-1])
    assert [len(batch["number"]) for batch in last] == [0, 1, 1]
    assert last[0]["tokens"].shape == last[0]["segment_ids"].shape == (0, 10)
    assert last[0]["tokens"].dtype == np.int64


def test_rows_are_not_repeated(documents: Path) -> None:
    with pytest.raises(ValueError, match=r"pad_last repeats the rows of records, .* pass rows= to pack"):
        loader_of(documents, 8, pad_last=True)
