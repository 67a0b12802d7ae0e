"""DuckDB, Polars, pandas, pyarrow and Hugging Face read sources: the values equal `read`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.testing.loop_over import loop_over

arrow = pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
polars = pytest.importorskip("polars", reason="the extra polars is not installed")
pandas = pytest.importorskip("pandas", reason="pandas is not installed")

GOLDEN = Path(__file__).parents[2] / "golden"
DIGITS = {"image": "uint8[8,8]", "label": "int64"}
FILES = (
    *("real/photos.tfrecord", "ffrecord/mixed_lengths.ffr", "ofrecord/base.ofrecord", "ofrecord/parts_padded"),
    *("syrah/base.syr", "syrah/float128.syr", "syrah/strings.syr", "tfrecord/examples.tfrecord"),
    *("tfrecord/raw.tfrecord.gz", "tfrecord/nsynth_like.tfrecord", "granular/v3/basic", "granular/v2/sequences"),
)  # fmt: skip


class Spy(dataformats.RecordSource):
    """Notes which fields are read."""

    def __init__(self, source: dataformats.RecordSource) -> None:
        self.source = source
        self.fields: set[str] = set()
        self.n_records = 0

    @property
    def spec(self) -> dataformats.Spec:
        return self.source.spec

    @property
    def fingerprint(self) -> str:
        return self.source.fingerprint

    def __len__(self) -> int:
        return len(self.source)

    def read(
        self, indices: Any, fields: Any = None, on_corrupt: Any = "raise", decode: Any = None
    ) -> dataformats.RecordBatch:
        self.fields |= set(self.mask(fields))
        self.n_records += len(indices)
        return self.source.read(indices, fields, on_corrupt)


@pytest.fixture
def digits() -> Spy:
    return Spy(dataformats.open(GOLDEN / "real" / "digits-*.tfrecord", spec=DIGITS))


@pytest.fixture
def counts(digits: Spy) -> list[tuple[int, int]]:
    labels, found = np.unique(digits.source.read(range(1797))["label"], return_counts=True)
    return list(zip(labels.tolist(), found.tolist(), strict=True))


def same(found: Any, expected: Any) -> bool:
    return repr(found) == repr(expected)  # NaN is not equal to itself


@pytest.mark.parametrize("name", [name for name in FILES if (GOLDEN / name).exists()])
def test_golden_files(name: str) -> None:
    from dataformats.interop.polars import scan

    source = dataformats.open(GOLDEN / name)
    rows = source.to_arrow().to_pylist()
    values = [list(row.values()) for row in rows]  # some programs rename the field ""
    found = duckdb.sql("select * from source").to_arrow_table().to_pylist()
    assert same([list(row.values()) for row in found], values)
    if "float128" not in name:  # Polars and pandas make no Python values of them
        assert same([list(row) for row in polars.from_arrow(source.to_arrow()).rows()], values)
        if "" not in source.spec:  # Polars renames it
            assert same([list(row) for row in scan(source).collect().rows()], values)
        assert pandas.DataFrame.from_arrow(source).shape == (len(rows), len(source.spec))


def queried(records: Any, query: str) -> Any:
    return duckdb.sql(query).fetchall()  # DuckDB finds `records` by its name


def test_duckdb_reads_only_the_columns_of_a_query(digits: Spy, counts: list[tuple[int, int]]) -> None:
    from dataformats.interop.arrow import SourceDataset

    query = "select label, count(*) from records group by label order by label"
    assert queried(SourceDataset(digits), query) == counts
    assert digits.fields == {"label"}
    assert queried(SourceDataset(digits), "select image[1][3] from records where label = 3 limit 1") == [(7,)]
    assert queried(digits, query) == counts
    assert digits.fields == {"image", "label"}


def test_a_filter_may_name_any_field(tmp_path: Path) -> None:
    from dataformats.interop.arrow import SourceDataset

    names = ["a b", 'quo"te', "größe", "x.y", ""]
    with dataformats.create(tmp_path / "x.ffr", "ffrecord", spec=dict.fromkeys(names, "int64")) as out:
        out.extend([dict.fromkeys(names, i) for i in range(10)])
    dataset = SourceDataset(dataformats.open(tmp_path / "x.ffr"))
    for name in names:
        condition = arrow.compute.field(name) > 6
        assert dataset.to_table(["a b"], filter=condition)["a b"].to_pylist() == [7, 8, 9]
        assert dataset.count_rows(condition) == 3
        assert dataset.to_table({"n": arrow.compute.field(name) * 2})["n"].to_pylist()[3] == 6
    assert dataset.count_rows() == 10


def test_polars_scan_reads_only_needed_fields_and_rows(digits: Spy, counts: list[tuple[int, int]]) -> None:
    from dataformats.interop.polars import scan

    lazy = scan(digits)
    assert digits.fields == set()
    assert lazy.group_by("label").len().sort("label").collect().rows() == counts
    assert digits.fields == {"label"}
    threes = lazy.filter(polars.col("label") == 3).select("image").head(2).collect()
    assert threes["image"].to_numpy().shape == (2, 8, 8)
    assert lazy.select(polars.len()).collect().item() == 1797
    long = Spy(dataformats.concat([digits.source] * 10))
    assert scan(long).head(5).collect().height == 5
    assert long.n_records <= 3 * 1024


def test_parquet(digits: Spy, tmp_path: Path) -> None:
    from pyarrow import dataset

    from dataformats.interop.arrow import SourceDataset

    for number, source in enumerate((digits, SourceDataset(digits.source))):
        dataset.write_dataset(source, tmp_path / str(number), format="parquet", preserve_order=True)
        assert dataset.dataset(tmp_path / str(number)).to_table().equals(digits.to_arrow())


# ---- Hugging Face


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    datasets = pytest.importorskip("datasets", reason="the extra huggingface is not installed")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)
    return tmp_path


def test_load(digits: Spy, cache: Path) -> None:
    from dataformats.interop.huggingface import load

    found, again = load(digits.source), load(digits.source)
    assert found[:]["label"] == again[:]["label"] == digits.to_arrow()["label"].to_pylist()
    assert len(list(cache.rglob("*.arrow"))) == 1
    assert np.array_equal(found.with_format("numpy")[5]["image"], digits.source[5]["image"])


def test_class_names_are_labels(cache: Path, tmp_path: Path) -> None:
    import datasets

    from dataformats.interop.huggingface import load

    names = {"type": "int32?", "class_names": ["no", "yes"]}
    with dataformats.create(tmp_path / "x.ffr", "ffrecord", spec={"label": names}) as out:
        out.extend([{"label": 1}, {}])
    for streaming in (False, True):
        found = load(tmp_path / "x.ffr", streaming=streaming)
        assert found.features["label"] == datasets.ClassLabel(names=["no", "yes"])
        assert [record["label"] for record in found] == [1, None]
    loaded = load(tmp_path / "x.ffr")
    loaded.to_parquet(tmp_path / "y.parquet")
    assert dataformats.open(tmp_path / "y.parquet").spec["label"].class_names == ("no", "yes")


def test_features_match_the_spec(cache: Path, tmp_path: Path) -> None:
    import datasets

    from dataformats.interop.huggingface import load

    spec = {"label": "int64?", "png": "png", "pngs": "png[]?", "any": "array", "doc": "json"}
    with dataformats.create(tmp_path / "x.ffr", "ffrecord", spec=spec) as out:
        image = np.arange(12, dtype=np.uint8).reshape(3, 4)
        out.append({"png": image, "any": image, "doc": {"a": [1]}})
        out.append({"label": 1, "png": image, "pngs": [image, image], "any": image, "doc": [2]})
    for streaming in (False, True):
        found = load(tmp_path / "x.ffr", streaming=streaming)
        assert found.features["label"] == datasets.Value("int64")
        assert found.features["pngs"] == datasets.LargeList(datasets.Image())
        first, second = found
        assert (first["label"], second["label"]) == (None, 1)
        assert np.array_equal(np.asarray(first["png"]), image)
        assert np.array_equal(np.asarray(second["pngs"][1]), image)
        assert second["any"]["shape"] == [3, 4]
        documents = ({"a": [1]}, [2]) if hasattr(datasets, "Json") else ('{"a":[1]}', "[2]")
        assert (first["doc"], second["doc"]) == documents


@loop_over("format", ["parquet", "arrow"])
def test_new_tables_have_features_of_media(format: str, cache: Path, tmp_path: Path) -> None:
    import datasets

    image = np.arange(12, dtype=np.uint8).reshape(3, 4)
    with dataformats.create(tmp_path / "x.tfrecord", spec={"image": "png", "n": "int64"}) as out:
        out.extend({"image": image + n, "n": n} for n in range(3))
    dataformats.convert(tmp_path / "x.tfrecord", tmp_path / f"y.{format}")
    for streaming in (False, True):
        files, kept = str(tmp_path / f"y.{format}"), str(tmp_path / f"cache of {format}")
        found: Any = datasets.load_dataset(format, data_files=files, cache_dir=kept, streaming=streaming)
        assert found["train"].features == {"image": datasets.Image(), "n": datasets.Value("int64")}
        assert [np.asarray(record["image"])[0, 0] for record in found["train"]] == [0, 1, 2]


def test_a_stream_resumes_at_the_record(digits: Spy, cache: Path) -> None:
    from dataformats.interop.huggingface import load

    labels = digits.source.to_arrow()["label"].to_pylist()
    for n in (0, 1, 36, 37, 38, 1000, 1796, 1797):
        stream = load(digits, streaming=True)
        records = iter(stream)
        taken = [next(records)["label"] for _ in range(n)]
        state = json.loads(json.dumps(stream.state_dict()))
        resumed = load(digits, streaming=True)
        resumed.load_state_dict(state)
        digits.n_records = 0
        assert taken + [record["label"] for record in resumed] == labels
        assert digits.n_records <= 1797 - n + 2 * 38  # it seeks


def test_workers_and_ranks_share_a_stream(digits: Spy, cache: Path) -> None:
    pytest.importorskip("torch", reason="the extra torch is not installed")
    from datasets.distributed import split_dataset_by_node
    from torch.utils.data import DataLoader

    from dataformats.interop.huggingface import load

    labels = sorted(digits.source.to_arrow()["label"].to_pylist())
    stream = load(digits.source, streaming=True)
    batches = DataLoader(stream.with_format("torch"), batch_size=64, num_workers=2)
    assert sorted(int(label) for batch in batches for label in batch["label"]) == labels
    parts = [[record["label"] for record in split_dataset_by_node(stream, rank, 3)] for rank in range(3)]
    assert sorted(sum(parts, [])) == labels  # noqa: RUF017  # three lists
    assert all(abs(len(part) - 599) < 20 for part in parts)
