"""The contract of formats that are only read, and of the windows of Megatron: one row a format."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fsspec
import pytest

import dataformats
from dataformats.errors import DataFormatsError, SpecError
from dataformats.inspecting.verification import verify
from dataformats.interfaces import BlobBackend, FieldsBackend
from dataformats.interfaces.declared_spec import is_single
from dataformats.registry import backends
from dataformats.testing.loop_over import loop_over
from dataformats.testing.records import is_same_value
from tests.cases import FORMATS, TABLES

GOLDEN = Path(__file__).parents[1] / "golden"


@dataclass(frozen=True)
class ReadOnly:
    """A file that is only read.

    Attributes:
        format: The format.
        name: The file, in the folder of the golden files.
        options: The options of `open`.
        beside: Endings of the files beside it.
        has_end: False if nothing in a file says where it ends.
    """

    format: str
    name: str
    options: dict[str, Any] = field(default_factory=dict)
    beside: tuple[str, ...] = ()
    has_end: bool = True

    def __str__(self) -> str:
        return f"{self.format}-{Path(self.name).stem}"

    @property
    def path(self) -> Path:
        return GOLDEN / self.name

    def files(self) -> list[Path]:
        return [self.path, *(self.path.with_suffix(ending) for ending in self.beside)]

    def open(self, path: Any = None, **options: Any) -> Any:
        return dataformats.open(self.path if path is None else path, **self.options, **options)


CASES = [
    ReadOnly("json", "json/jq.json", has_end=False),
    ReadOnly("json", "json/coco.json", {"key": "annotations"}),
    ReadOnly("megatron", "megatron/uint16.bin", {"window": 5, "stride": 4}, (".idx",)),
    ReadOnly("npy", "npy/vectors.npy"),
    ReadOnly("npy", "npy/labels.npy", {"window": 6, "stride": 5}),
    ReadOnly("recordio", "recordio/images.rec", has_end=False),
    ReadOnly("recordio", "recordio/several.rec", has_end=False),
    ReadOnly("recordio", "recordio/plain.rec", {"headers": False}, has_end=False),
    ReadOnly("safetensors", "safetensors/small.safetensors"),
    ReadOnly("tokens", "tokens/fineweb_train_000000.bin", {"window": 17, "stride": 16}),
    ReadOnly("tokens", "tokens/train.bin", {"window": 16, "dtype": "uint16"}, has_end=False),
]
every = pytest.mark.parametrize("case", CASES, ids=str)


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("DATAFORMATS_CACHE", str(tmp_path_factory.mktemp("cache")))


def same(found: Any, expected: Any) -> bool:
    return len(found) == len(expected) and all(map(is_same_value, found, expected))


TESTED_ELSEWHERE = {"hdf5", "lance", "litdata", "lmdb", "zarr"}


def test_every_read_only_format_has_a_case() -> None:
    written = {name for name in backends if isinstance(backends.get(name), BlobBackend | FieldsBackend)}
    written -= (media := {"images", "videos", "audio"})  # in the order of names; test_media.py has their tests
    assert {case.format for case in (*FORMATS, *TABLES)} == written
    written |= media
    assert {case.format for case in CASES} | written | TESTED_ELSEWHERE == set(backends)


@every
def test_reads(case: ReadOnly) -> None:
    """Batches in any order, single records, iteration and views give the same records."""
    source = case.open()
    n = len(source)
    records = list(source)
    assert source.format == case.format
    assert same([source[index] for index in range(n)], records)
    assert same(list(source.read(range(n))), records)
    order = [n - 1, 0, 3 % n, 0, n // 2]
    assert same(list(source.read(order)), [records[index] for index in order])
    for _ in range(20):  # the extents are pinned meanwhile
        assert same(list(source.read(range(n))), records)
    assert same(list(source.take(order).shard(0, 1)), [records[index] for index in order])
    name = next(iter(source.spec))
    assert same(list(source.select(name).read(order)), [{name: records[index][name]} for index in order])
    report = verify(case.path, **case.options)
    assert (report.ok, report.records) == (True, n)


@every
@loop_over("options", [{"io": "threads"}, {"io": "mmap"}, {"cache": "memory"}])
def test_ways_to_read(case: ReadOnly, options: dict[str, Any]) -> None:
    if options.get("io") == "mmap" and case.format == "recordio":
        pytest.skip("records in several frames are not mapped")
    assert same(list(case.open(**options)), list(case.open()))


@every
def test_url_and_bytes(case: ReadOnly) -> None:
    records, folder = list(case.open()), f"/read_only/{case}"
    memory = fsspec.filesystem("memory")
    for file in case.files():
        memory.pipe(f"{folder}/{file.name}", file.read_bytes())
    for path in (f"memory:/{folder}/{case.path.name}", f"memory:/{folder}/{case.path.stem}*"):
        assert same(list(case.open(path)), records)
    if not case.beside:
        assert same(list(case.open(case.path.read_bytes(), format=case.format)), records)


@every
def test_pickle(case: ReadOnly) -> None:
    source = case.open()
    again = pickle.loads(pickle.dumps(source))
    assert again.fingerprint == source.fingerprint
    assert same(list(again), list(source))


@every
def test_loader_resumes(case: ReadOnly) -> None:
    """From the state after each step, a new loader gives the rest."""
    source = case.open().take(range(12 if len(case.open()) >= 12 else 6))
    batches, states = [], []
    loader = dataformats.Loader(source, 3, seed=1)
    for batch in loader:
        batches.append(list(batch))
        states.append(loader.state_dict())
    for step, state in enumerate(states[:-1]):
        resumed = dataformats.Loader(source, 3, seed=1)
        resumed.load_state_dict(state)
        rest = [list(batch) for _, batch in zip(batches[step + 1 :], resumed, strict=False)]
        assert all(map(same, rest, batches[step + 1 :]))


@every
def test_convert(case: ReadOnly, tmp_path: Path) -> None:
    """Into TFRecord and back nothing changes; into the format itself nothing is written."""
    source = case.open()
    dataformats.convert(source, tmp_path / "x.ffr", payload="msgpack" if is_single(source) else None)
    assert same(list(dataformats.open(tmp_path / "x.ffr")), list(source))
    if case.format == "megatron":
        return
    with pytest.raises(SpecError, match=f"{case.format} files are read, not written"):
        dataformats.convert(source, tmp_path / "y", case.format)
    assert not (tmp_path / "y").exists()


# ---- damage


def damaged_bytes(content: bytes, bits: int, cuts: int) -> Iterator[bytes]:
    """Yield the bytes of a file cut at every `cuts`-th byte, and with every `bits`-th bit flipped."""
    for stop in range(0, len(content), cuts):
        yield content[:stop]
    for bit in range(0, 8 * len(content), bits):
        yield content[: bit // 8] + bytes([content[bit // 8] ^ 1 << bit % 8]) + content[bit // 8 + 1 :]


def check_damaged(
    case: ReadOnly, folder: Path, bits: int, cuts: int, choose: Callable[[Sequence[bytes]], Sequence[bytes]] = list
) -> int:
    """Read damaged copies: only errors of this package come out; a cut file loses no record silently.

    Returns:
        How many copies were read.
    """
    records, spec, n_read = list(case.open()), dict(case.open().spec), 0
    for file in case.files():
        (folder / file.name).write_bytes(file.read_bytes())
    for file in case.files():
        content = file.read_bytes()
        for damaged in choose([*damaged_bytes(content, bits, cuts)]):
            (folder / file.name).write_bytes(damaged)
            n_read += 1
            try:
                source = case.open(folder / case.path.name, format=case.format)
                n = len(source)
                batch = source.read(range(min(n, 2 * len(records))), on_corrupt="omit")
            except DataFormatsError:
                continue
            if len(damaged) < len(content) and dict(source.spec) == spec:  # a label may be one, or several
                assert n == 0 or all(is_same_value(batch[row], records[i]) for row, i in enumerate(batch.indices))
                assert batch.failed or n == len(records) or not case.has_end
        (folder / file.name).write_bytes(content)
    return n_read


@every
def test_damage(case: ReadOnly, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        size = sum(file.stat().st_size for file in case.files())
        assert check_damaged(case, tmp_path, bits=size // 8 | 1, cuts=size // 40 + 1) > 60
