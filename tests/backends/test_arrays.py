"""Formats that other libraries decode, and that are only read: HDF5, LMDB, Zarr, Lance."""

from __future__ import annotations

import json
import multiprocessing
import pickle
import struct
import sys
import zlib
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.backends.tables.hdf5_chunks import Chunks
from dataformats.errors import DataFormatsError, FormatError, MissingExtraError, SpecError
from dataformats.testing.loop_over import loop_over

GOLDEN = Path(__file__).parents[1] / "golden"
LIBRARIES = {"hdf5": "h5py", "lance": "lance", "lmdb": "lmdb", "zarr": "zarr"}
PATHS = {
    "hdf5": "hdf5/rows.h5",
    "lance": "lance/types.lance",
    "lmdb": "lmdb/single.lmdb",
    "zarr": "zarr/v3.zarr",
}


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def text_of(source: Any) -> Any:
    return str([plain(record) for record in source])


@pytest.fixture(params=[format for format in PATHS if format != "lance"])  # tests/deep/interop has it
def path(request: pytest.FixtureRequest) -> Path:
    pytest.importorskip(LIBRARIES[request.param], reason=f"the extra {request.param} is not installed")
    return GOLDEN / PATHS[request.param]


def test_batches_views_and_pickles(path: Path) -> None:
    source = dataformats.open(path)
    every = [str(record) for record in source]
    order = np.random.default_rng(0).permutation(len(source))
    for again in (source, pickle.loads(pickle.dumps(source)), source.take(range(len(source)))):
        assert [str(record) for record in again.read(order)] == [every[i] for i in order]
        assert str(again[7]) == every[7]
    assert len(source.read([])) == 0
    assert dataformats.verify(path).ok
    assert dataformats.open(path).fingerprint == source.fingerprint


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_other_processes(path: Path, method: str) -> None:
    source = dataformats.open(path)
    expected = text_of(source)
    with ProcessPoolExecutor(2, multiprocessing.get_context(method)) as pool:
        assert set(pool.map(text_of, [source] * 4)) == {expected}
    assert text_of(source) == expected


def child(source: Any, queue: Any) -> None:
    queue.put(text_of(source))


def test_an_open_source_in_a_forked_child(path: Path) -> None:
    """The child gets the source itself, not a pickle."""
    source = dataformats.open(path)
    expected = text_of(source)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=child, args=(source, queue))
    process.start()
    assert queue.get(timeout=240) == expected
    process.join()


def rows_of(batch: Any) -> list[str]:
    return [str(row) for row in zip(*batch.values(), strict=True)]


@pytest.mark.parametrize("world", [1, 3])
def test_loaders_resume_on_other_ranks(path: Path, world: int) -> None:
    source = dataformats.open(path).take(range(36))

    def loader(rank: int, world: int) -> Any:
        return dataformats.Loader(source, 2 * 3 // world, seed=1, shuffle="window", rank=rank, world_size=world)

    whole = [row for batch in loader(0, 1) for row in rows_of(batch)]
    begun = loader(0, 1)
    batches = iter(begun)
    seen = [row for _ in range(2) for row in rows_of(next(batches))]
    rest: list[str] = []
    for rank in range(world):
        resumed = loader(rank, world)
        resumed.load_state_dict(begun.state_dict())
        rest += [row for batch in resumed for row in rows_of(batch)]
    assert seen == whole[: len(seen)]
    assert sorted(rest) == sorted(whole[len(seen) :])


def test_conversions(path: Path, tmp_path: Path) -> None:
    source = dataformats.open(path)
    assert dataformats.convert(path, tmp_path / "x.tfrecord").records == len(source)
    assert dataformats.verify(tmp_path / "x.tfrecord", against=path).ok


@loop_over("format", PATHS)
def test_missing_library(format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, LIBRARIES[format], None)
    with pytest.raises(MissingExtraError, match=rf"pip install 'dataformats\[{format}\]'"):
        dataformats.open(GOLDEN / PATHS[format])


# ---- HDF5


@pytest.mark.parametrize("name", ["contiguous.h5", "rows.h5"])
def test_types_of_hdf5(name: str) -> None:
    pytest.importorskip("h5py", reason="the extra hdf5 is not installed")
    source = dataformats.open(GOLDEN / "hdf5" / name)
    expected = json.loads((GOLDEN / "hdf5" / "expected.json").read_text("utf-8"))
    columns = source.read(range(40))
    for field, values in expected.items():
        found = [plain(value) for value in columns[field]]
        if field == "blob":
            values = [bytes(value) for value in values]
        elif field in ("name", "label"):
            found = [value.decode() for value in found]
        assert found == values, field
    assert source[6]["pair/box"].tolist() == [6, 12]
    assert (source[6]["pair/x"], source[6]["pair/in/y"]) == (1.5, 30)
    assert not {"mean", "alias"} & set(source.spec)


def write_hdf5(path: Path, n: int, chunk: int | None, user_block: int = 0) -> dict[str, Any]:
    """Write datasets of several types, and return their values."""
    import h5py

    pair = np.zeros(n, [("x", "<f4"), ("box", "<i2", (2, 3))])
    pair["x"], pair["box"] = np.arange(n) / 4, np.arange(6 * n).reshape(n, 2, 3)
    image = np.arange(12 * n, dtype=np.uint8).reshape(n, 2, 2, 3)
    values = {"image": image, "label": np.arange(n), "even": np.arange(n) % 2 == 0, "pair": pair}
    with h5py.File(path, "w", userblock_size=user_block) as file:
        for name, array in values.items():
            chunks = None if chunk is None else (chunk, *array.shape[1:])
            file.create_dataset(name, data=array, chunks=chunks)
    return {
        "image": image,
        "label": values["label"],
        "even": values["even"],
        "pair/x": pair["x"],
        "pair/box": pair["box"],
    }


@loop_over("chunk, user_block", [(None, 0), (7, 0), (25, 0), (None, 512)])
def test_hdf5_rows_are_read_in_place(chunk: int | None, user_block: int, tmp_path: Path) -> None:
    pytest.importorskip("h5py", reason="the extra hdf5 is not installed")
    columns = [write_hdf5(tmp_path / f"{number}.h5", n, chunk, user_block) for number, n in enumerate((25, 40))]
    expected = {name: np.concatenate([one[name] for one in columns]) for name in columns[0]}
    source = dataformats.open(tmp_path)
    assert source.block_starts is None  # a table of h5py has blocks
    for order in (np.random.default_rng(0).permutation(65), range(5, 60)):
        for again in (source, pickle.loads(pickle.dumps(source))):
            batch = again.read(order)
            assert all(np.array_equal(batch[name], values[order]) for name, values in expected.items())
    for first, stop in ((0, 25), (3, 18), (20, 30), (25, 65), (64, 65)):  # one read each, if no file or chunk ends
        batch = source.read(range(first, stop), ["image", "label", "even"])
        assert all(np.array_equal(batch[name], expected[name][first:stop]) for name in batch.keys())  # noqa: SIM118
    assert dataformats.open(tmp_path, fields="label", io="mmap").read([64, 0])["label"].tolist() == [39, 0]
    assert dataformats.verify(tmp_path).ok


@loop_over("name", ["in_place.h5", "gzip.h5", "group.zarr"])
def test_arrays_missing_in_some_files(name: str, tmp_path: Path) -> None:
    library: Any = pytest.importorskip("zarr" if name.endswith("zarr") else "h5py", reason="the extra is not installed")
    cap = np.arange(6, dtype="f4").reshape(3, 2)
    files: list[dict[str, Any]] = [{"n": np.arange(4, dtype="i4")}, {"n": np.arange(3, dtype="i8") + 2**40, "cap": cap}]
    paths = [tmp_path / f"{number}-{name}" for number in range(2)]
    for path, arrays in zip(paths, files, strict=True):
        if name.endswith("zarr"):
            group = library.open_group(str(path), mode="w")
            for field, values in arrays.items():
                group.create_array(field, data=values)
            continue
        with library.File(path, "w") as file:
            for field, values in arrays.items():
                file.create_dataset(field, data=values, compression="gzip" if name == "gzip.h5" else None)
    expected = [{"n": row} for row in range(4)]
    expected += [{"n": 2**40 + row, "cap": cap[row].tolist()} for row in range(3)]
    source = dataformats.open(paths)
    assert source.spec == {"n": "int64", "cap": "float32[2]?"}
    for records in (
        source,
        source.read(range(7)),
        [source[row] for row in range(7)],
        pickle.loads(pickle.dumps(source)),
    ):
        assert [{field: np.asarray(one[field]).tolist() for field in one} for one in records] == expected
    assert dataformats.open(paths[::-1])[0]["cap"].tolist() == [0, 1]
    assert source.select("cap").read([6, 1])["cap"].present.tolist() == [True, False]


def test_h5py_decodes_other_hdf5_values(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="the extra hdf5 is not installed")
    made: dict[str, dict[str, Any]] = {
        "big": {"data": np.arange(20, dtype=">i4")},
        "gzip": {"data": np.arange(20), "chunks": (4,), "compression": "gzip"},
        "parts": {"data": np.arange(40).reshape(20, 2), "chunks": (4, 1)},
        "never": {"shape": (20,), "dtype": "i4", "fillvalue": 7},
        "some": {"shape": (20,), "dtype": "i4", "fillvalue": 7, "chunks": (4,)},
    }
    for name, options in made.items():
        for user_block in (0, 512):
            path = tmp_path / f"{name}{user_block}.h5"
            with h5py.File(path, "w", userblock_size=user_block) as file:
                dataset = file.create_dataset("x", **options)
                dataset[3 : 3 if name == "never" else 6] = dataset[3 : 3 if name == "never" else 6]
                expected = dataset[:]
            source = dataformats.open(path)
            assert source.block_starts is not None
            assert np.array_equal(source.read(range(20))["x"], expected)


@loop_over("shuffle", [False, True])
@loop_over("dtype", ["u1", "<i8", ">i4", "<f2", "f8"])
def test_gzip_chunks_of_hdf5(dtype: str, shuffle: bool, tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="the extra hdf5 is not installed")
    values = np.random.default_rng(0).integers(0, 100, (12_000, 2, 3)).astype(dtype)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for name, chunk in {"a": 700, "b": 512}.items():
            file.create_dataset(name, data=values, chunks=(chunk, 2, 3), compression="gzip", shuffle=shuffle)
        some = file.create_dataset("c", (12_000,), "i4", chunks=(700,), compression="gzip", fillvalue=7)
        some[8000:] = np.arange(4000)
        expected = {"a": values, "b": values, "c": some[:]}
    source = dataformats.open(tmp_path / "x.h5")
    assert source.block_starts is not None
    for order in (range(12_000), range(699, 1500), np.random.default_rng(1).permutation(12_000)):
        batch = source.read(order)
        assert all(np.array_equal(batch[name], found[order]) for name, found in expected.items())


def test_threads_share_h5py(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="the extra hdf5 is not installed")
    values = np.random.default_rng(0).integers(0, 9, 400_000)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for name in "ab":
            file.create_dataset(name, data=values, chunks=(1000,), compression="gzip")
    for _ in range(20):  # h5py calls HDF5 from two threads
        batch = dataformats.open(tmp_path / "x.h5").read(range(400_000))
        assert np.array_equal(batch["a"], values)


@loop_over("chunk, place", [(20_000, 0.01), (20_000, 0.5), (20_000, 0.99), (2000, 0.5), (1000, 0.5)])
def test_damaged_gzip_chunk_of_hdf5(chunk: int, place: float, tmp_path: Path) -> None:
    """Damage costs one chunk; a block has several of the short ones."""
    h5py = pytest.importorskip("h5py", reason="the extra hdf5 is not installed")
    values = np.random.default_rng(0).integers(0, 100, 60_000)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        chunks = file.create_dataset("x", data=values, chunks=(chunk,), compression="gzip").id
        begin, size = chunks.get_chunk_info(1).byte_offset, chunks.get_chunk_info(1).size
    content = bytearray((tmp_path / "x.h5").read_bytes())
    content[begin + int(place * size)] ^= 255
    (tmp_path / "x.h5").write_bytes(content)
    source = dataformats.open(tmp_path / "x.h5")
    with pytest.raises(FormatError, match=f"rows {chunk} to {2 * chunk - 1} of '/x' cannot be decoded"):
        source.read(range(60_000))
    batch = source.read(range(0, 60_000, 100), on_corrupt="omit")
    assert batch["x"].tolist() == values[[*range(0, chunk, 100), *range(2 * chunk, 60_000, 100)]].tolist()


def test_rows_behind_the_end_of_hdf5(tmp_path: Path) -> None:
    pytest.importorskip("h5py", reason="the extra hdf5 is not installed")
    write_hdf5(tmp_path / "x.h5", 40, 7)
    source = dataformats.open(tmp_path / "x.h5", fields="image")
    size = (tmp_path / "x.h5").stat().st_size
    with open(tmp_path / "x.h5", "r+b") as file:
        file.truncate(size // 2)
    with pytest.raises(DataFormatsError, match=r"x\.h5"):
        source.read(range(40))


def test_chunks_behind_a_user_block() -> None:
    pytest.importorskip("h5py", reason="the extra hdf5 is not installed")
    source = dataformats.open(GOLDEN / "hdf5" / "chunked.h5")
    assert source.format == "hdf5"
    assert source.block_starts is not None
    assert not (source.block_starts % 100).any()
    order = np.random.default_rng(0).permutation(6000)
    batch = source.read(order)
    assert np.array_equal(batch["n"], order)
    assert np.array_equal(batch["half"], (order / 2).astype("f4"))


@loop_over("options", [{}, {"chunks": (16,)}, {"chunks": (16,), "compression": "gzip", "shuffle": True}])
def test_damaged_references_of_hdf5(options: dict[str, Any], tmp_path: Path) -> None:
    """HDF5 would allocate what they state. Damage costs one row."""
    library = pytest.importorskip("h5py", reason="the extra hdf5 is not installed")
    for name, kind, value in (
        ("text.h5", library.string_dtype(), b"abc"),
        ("lists.h5", library.vlen_dtype(np.int32), [1, 2, 3]),
    ):
        with library.File(tmp_path / name, "w") as file:
            stored = file.create_dataset("x", (40,), kind, **options)
            for row in range(40):
                stored[row] = value
        with library.File(tmp_path / name, "r+") as file:
            stored = file["x"].id
            if options:
                skipped, chunk = stored.read_direct_chunk((16,))
                rows = damaged(chunk, "gzip" in options.values())
                stored.write_direct_chunk((16,), rows, skipped)
                continue
            begin = stored.get_offset() + 16 * 16
        content = bytearray((tmp_path / name).read_bytes())
        content[begin : begin + 16 * 16] = damaged(bytes(content[begin : begin + 16 * 16]), False)
        (tmp_path / name).write_bytes(content)
    for name in ("text.h5", "lists.h5"):
        source = dataformats.open(tmp_path / name)
        with pytest.raises(FormatError, match="the reference of row 19 is damaged"):
            source[19]
        batch = source.read(range(40), on_corrupt="omit")
        assert [*batch.failed] == [19, 21]
        assert len({str(value) for value in batch["x"]}) == 1


def damaged(references: bytes, is_compressed: bool) -> bytes:
    """Return 16 references of which the fourth states a gigabyte, and the sixth has another object."""
    rows = bytearray(zlib.decompress(references) if is_compressed else references)  # HDF5 does not shuffle them
    rows[16 * 3 : 16 * 3 + 4] = b"\0\0\0\x40"
    rows[16 * 5 + 12] ^= 0x80
    return zlib.compress(rows) if is_compressed else bytes(rows)


def test_text_of_hdf5_is_utf8(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="the extra hdf5 is not installed")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", data=[b"a", b"\xff", b"c"], dtype=h5py.string_dtype())
        file["pair"] = np.array(
            [(b"d", 1), (b"e", 2), (b"\xfe", 3)], [("text", h5py.string_dtype("utf-8", 1)), ("n", "i4")]
        )
    source = dataformats.open(tmp_path / "x.h5")
    batch = source.read(range(3), on_corrupt="omit")
    assert list(batch) == [{"pair/n": 1, "pair/text": "d", "x": "a"}]
    assert [type(error).__name__ for error in batch.failed.values()] == ["CodecError"] * 2
    assert list(source.select("pair/n").read(range(3))["pair/n"]) == [1, 2, 3]


def test_blocks_of_short_chunks_in_hdf5(tmp_path: Path) -> None:
    """A block of 64 KiB would have thousands of chunks."""
    h5py = pytest.importorskip("h5py", reason="the extra hdf5 is not installed")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", data=np.arange(1000), chunks=(2,), compression="gzip")
        file.create_dataset("text", data=[b"a"] * 1000, dtype=h5py.string_dtype())
    assert dataformats.open(tmp_path / "x.h5", fields="text").block_starts.tolist() == [0]  # type: ignore[union-attr]
    source = dataformats.open(tmp_path / "x.h5")
    assert source.block_starts is not None
    assert source.block_starts.tolist() == [*range(0, 1000, 128)]
    assert source.read(range(1000))["x"].tolist() == [*range(1000)]


def test_hdf5_chunks_are_listed_by_the_first_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    h5py = pytest.importorskip("h5py", reason="the extra hdf5 is not installed")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        rows = file.create_dataset("x", (400, 500), "i4", chunks=(10, 500))
        for first in reversed(range(0, 400, 10)):  # the first chunk lies behind the others
            rows[first : first + 10] = np.arange(first, first + 10)[:, None]
            file.flush()
    listed, places = list[Chunks](), Chunks.places

    def count(chunks: Chunks) -> Any:
        listed.append(chunks)
        return places(chunks)

    monkeypatch.setattr(Chunks, "places", count)
    source = dataformats.open(tmp_path / "x.h5")
    assert (source.block_starts, listed) == (None, [])
    with ThreadPoolExecutor(4) as pool:
        parts = [*pool.map(lambda first: source.read(range(first, first + 25))["x"][:, 7], range(0, 400, 25))]
    assert np.concatenate(parts).tolist() == [*range(400)]
    assert len(listed) == 1


def test_damaged_list_of_chunks_in_hdf5(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="the extra hdf5 is not installed")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", data=np.arange(100, dtype="i4"), chunks=(10,))
    content, key = (tmp_path / "x.h5").read_bytes(), struct.Struct("<IIQQ").pack
    assert content.count(key(40, 0, 30, 0)) == 1
    (tmp_path / "x.h5").write_bytes(content.replace(key(40, 0, 30, 0), key(40, 0, 40, 0)))
    source = dataformats.open(tmp_path / "x.h5")
    batch = source.read(range(100), on_corrupt="omit")
    assert batch["x"].tolist() == [*range(30), *range(50, 100)]
    with pytest.raises(FormatError, match=r"record 45 of .* outside the file"):
        source[45]


def test_fields_of_several_lengths() -> None:
    pytest.importorskip("h5py", reason="the extra hdf5 is not installed")
    path = GOLDEN / "hdf5" / "lengths.h5"
    with pytest.raises(SpecError, match=r"test/x: 4, train/x: 9.*fields="):
        dataformats.open(path)
    assert dataformats.open(path, fields=["train"])[8] == {"train/x": 8, "train/y": 16}
    assert list(dataformats.open(path, fields="train/y,train/x").spec) == ["train/x", "train/y"]
    assert dataformats.verify(path, fields=["train"]).ok
    with pytest.raises(SpecError, match="no such array"):
        dataformats.open(path, fields=["trian"])


@loop_over(
    "name, text",
    [
        ("filter", "filter 32099.*hdf5plugin"),
        ("huge", "too long"),
        ("cut", "truncated"),
        ("chunk", r"record 3400 of .*chunk\.h5.*rows 3400 to 3499 of '/n'"),
    ],
)
def test_damaged_hdf5(name: str, text: str) -> None:
    pytest.importorskip("h5py", reason="the extra hdf5 is not installed")
    with pytest.raises(FormatError, match=text):
        dataformats.open(GOLDEN / "hdf5" / "corrupt" / f"{name}.h5")[3400]


@loop_over(
    "name, field, text",
    [
        ("external_link", "other", "link to another file"),
        ("external_storage", "raw", "values in other files"),
        ("virtual", "virtual", "values in other files"),
    ],
)
def test_datasets_in_other_files_are_left_out(name: str, field: str, text: str) -> None:
    pytest.importorskip("h5py", reason="the extra hdf5 is not installed")
    path = GOLDEN / "hdf5" / "corrupt" / f"{name}.h5"
    with pytest.warns(UserWarning, match=f"'{field}' is left out: .*{text}"):
        source = dataformats.open(path)
    assert [*source.spec] == ["x"]
    assert text in source[:1].spec_facts.left_out[field]
    assert list(pickle.loads(pickle.dumps(source))) == list(dataformats.open(path, fields=["x"]))
    assert [finding.kind for finding in dataformats.verify(path).findings] == ["IncompleteDataError"]
    assert [note for note in dataformats.info(path).notes if text in note]
    with pytest.raises(FormatError, match=text):
        dataformats.open(path, fields=[field, "x"])


def test_values_without_a_type_are_opaque_in_hdf5(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="the extra hdf5 is not installed")
    times = np.arange(5).astype("M8[s]")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["n"] = np.arange(5)
        file["z"] = np.arange(5) * 1j
        file["pair"] = np.zeros(5, [("a", "i4"), ("b", ">c8")])
        file["time"] = times.astype(h5py.opaque_dtype(times.dtype))
        file["ref"] = np.array([file["n"].ref] * 5, h5py.ref_dtype)
    with pytest.warns(UserWarning, match="'ref' is left out"):
        source = dataformats.open(tmp_path / "x.h5")
    kinds = {name: str(kind) for name, kind in source.spec_facts.opaque_fields.items()}
    assert kinds == {"z": "complex128", "pair/b": "complex64", "time": "datetime64(s)"}
    assert source[3]["z"] == np.complex128(3j).tobytes()
    assert (source[3]["n"], source.with_spec({"time": "int64"})[3]["time"]) == (3, 3)
    assert dataformats.verify(source).ok


def test_enums_of_hdf5_are_class_names(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="the extra hdf5 is not installed")
    kinds = [{"dog": 1, "cat": 0}, {"cat": 1, "dog": 0}, {"cat": 1, "dog": 4}]
    for number, names in enumerate(kinds):
        with h5py.File(tmp_path / f"{number}.h5", "w") as file:
            file.create_dataset("label", data=np.ones(3, "i1"), dtype=h5py.enum_dtype(names, "i1"))
            file["is_it"] = np.ones(3, np.bool_)
    found = [dataformats.open(tmp_path / f"{number}.h5").spec["label"] for number in range(3)]
    assert [kind.class_names for kind in found] == [("cat", "dog"), ("dog", "cat"), ()]
    with pytest.warns(UserWarning, match="class 0 is 'cat' in '.*0.h5' and 'dog' in '.*1.h5'"):
        assert dataformats.open(tmp_path).spec["label"].class_names == ()
    dataformats.convert(tmp_path / "0.h5", tmp_path / "x.parquet")
    assert dataformats.open(tmp_path / "x.parquet").spec["label"].class_names == ("cat", "dog")


@loop_over("name", ["{}.npy", "{}.h5", "{}.gzip.h5", "{}.safetensors"])
def test_columns_in_files_are_a_note(name: str, tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="the extra hdf5 is not installed")
    for field, shape in (("images", (3, 2)), ("labels", (3,) if "npy" not in name else (3, 2))):
        path, array = tmp_path / name.format(field), np.zeros(shape, "<f4")
        if name.endswith("h5"):
            with h5py.File(path, "w") as file:
                file.create_dataset(field, data=array, compression="gzip" if "gzip" in name else None)
        elif name.endswith("npy"):
            np.save(path, array)
        else:
            head = json.dumps({field: {"dtype": "F32", "shape": shape, "data_offsets": [0, array.nbytes]}}).encode()
            path.write_bytes(len(head).to_bytes(8, "little") + head + array.tobytes())
    call = f"'images.*', 'labels.*' follow each other: .* call dataformats.zip.*open.'{tmp_path}/images"
    with pytest.warns(UserWarning, match=call) as warned:
        assert len(dataformats.open(tmp_path)) == 6
    assert (dataformats.info(tmp_path).notes, len(warned)) == ((str(warned[0].message),), 1)
    assert dataformats.verify(tmp_path).ok
    assert dataformats.doctor(tmp_path).ok


def test_files_with_a_field_in_common_are_no_columns(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="the extra hdf5 is not installed")
    for name in ("x", "y"):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file["id"], file[name] = np.arange(3), np.arange(3)
    assert dataformats.info(tmp_path).notes == ()


def test_sound_chunks_of_a_damaged_file() -> None:
    pytest.importorskip("h5py", reason="the extra hdf5 is not installed")
    path = GOLDEN / "hdf5" / "corrupt" / "chunk.h5"
    batch = dataformats.open(path).read(range(6000), on_corrupt="omit")
    assert batch["n"].tolist() == [*range(3400), *range(3500, 6000)]
    assert not dataformats.verify(path).ok


def test_hdf5_behind_a_url() -> None:
    pytest.importorskip("h5py", reason="the extra hdf5 is not installed")
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    memory.put(str(GOLDEN / "hdf5" / "rows.h5"), "/rows.h5")
    try:
        assert text_of(dataformats.open("memory://rows.h5")) == text_of(dataformats.open(GOLDEN / "hdf5" / "rows.h5"))
    finally:
        memory.rm("/rows.h5")


# ---- LMDB


def lmdb_value(i: int) -> bytes:
    """The value that tests/golden/lmdb/make.py writes."""
    return bytes([i % 256]) * (i * 37 % 400) + (b"x" * 9000 if i == 7 else b"")


@loop_over("name, n", [("folder", 100), ("folder/data.mdb", 100), ("single.lmdb", 50), ("empty.lmdb", 0)])
def test_lmdb(name: str, n: int) -> None:
    pytest.importorskip("lmdb", reason="the extra lmdb is not installed")
    source = dataformats.open(GOLDEN / "lmdb" / name)
    assert (source.format, len(source)) == ("lmdb", n)
    assert list(source) == [{"key": f"key-{i:05d}".encode(), "value": lmdb_value(i)} for i in range(n)]


def test_values_of_lmdb_take_the_type_of_a_codec(tmp_path: Path) -> None:
    lmdb = pytest.importorskip("lmdb", reason="the extra lmdb is not installed")
    with lmdb.open(str(tmp_path / "x")) as env, env.begin(write=True) as out:
        for i in range(3):
            out.put(str(i).encode(), json.dumps({"n": i}).encode())
    source = dataformats.open(tmp_path / "x", spec={"key": "utf8", "value": "json"})
    assert list(source) == [{"key": str(i), "value": {"n": i}} for i in range(3)]


def test_named_databases_of_lmdb_are_refused(tmp_path: Path) -> None:
    lmdb = pytest.importorskip("lmdb", reason="the extra lmdb is not installed")
    with lmdb.open(str(tmp_path / "plain")) as env, env.begin(write=True) as out:
        out.put(b"k", bytes(48))  # as long as the struct of a database
    assert list(dataformats.open(tmp_path / "plain")) == [{"key": b"k", "value": bytes(48)}]
    with lmdb.open(str(tmp_path / "named"), max_dbs=2) as env:
        for name in (b"images", b"labels"):
            with env.begin(write=True, db=env.open_db(name)) as out:
                out.put(b"k", b"v")
    with pytest.raises(SpecError, match=r"holds named databases, which are not read: images, labels\. Copy one"):
        dataformats.open(tmp_path / "named")


def test_an_open_lmdb_environment() -> None:
    lmdb = pytest.importorskip("lmdb", reason="the extra lmdb is not installed")
    path = GOLDEN / "lmdb" / "empty.lmdb"
    with (
        lmdb.open(str(path), subdir=False, readonly=True, lock=False),
        pytest.raises(SpecError, match="open in this process"),
    ):
        dataformats.open(path)


@pytest.mark.parametrize(("name", "text"), [("cut", "truncated: expected 45056 bytes, found 22528"), ("version", "v7")])
def test_damaged_lmdb(name: str, text: str) -> None:
    pytest.importorskip("lmdb", reason="the extra lmdb is not installed")
    with pytest.raises(FormatError, match=text):
        dataformats.open(GOLDEN / "lmdb" / "corrupt" / f"{name}.lmdb")


# ---- Zarr


@pytest.mark.parametrize("version", [2, 3])
def test_types_of_zarr(version: int) -> None:
    zarr = pytest.importorskip("zarr", reason="the extra zarr is not installed")
    path = GOLDEN / "zarr" / f"v{version}.zarr"
    source = dataformats.open(path)
    assert (source.format, len(source)) == ("zarr", 40)
    assert ([file.records for file in dataformats.info(path).files], dataformats.info(path).notes) == ([40], ())
    group = zarr.open_group(path, mode="r")
    order = np.random.default_rng(0).permutation(40)
    columns = source.read(order)
    assert "mean" not in source.spec
    assert str(source.spec["numbers/f2"]) == "float16"
    for name in source.spec:
        assert [plain(value) for value in columns[name]] == group[name][:][order].tolist(), name


@loop_over("version", [2, 3])
def test_values_without_a_type_are_opaque_in_zarr(version: Any, tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr", reason="the extra zarr is not installed")
    group = zarr.open_group(tmp_path / f"x{version}.zarr", mode="w", zarr_format=version)
    group["n"], group["z"] = np.arange(5), np.arange(10).reshape(5, 2) * 1j
    group["time"] = np.arange(5).astype("M8[ns]")
    source = dataformats.open(tmp_path / f"x{version}.zarr")
    kinds = {name: str(kind) for name, kind in source.spec_facts.opaque_fields.items()}
    assert kinds == {"time": "datetime64(ns)", "z": "complex128"}
    batch = source.read([4, 1])
    assert (batch["n"].tolist(), next(iter(batch["z"]))) == ([4, 1], np.array([8j, 9j]).tobytes())
    assert source.with_spec({"time": "int64"})[3]["time"] == 3
    with pytest.raises(SpecError, match="cannot be read as float64"):
        source.with_spec({"time": "float64"})
    dataformats.convert(source.paths[0].rpartition("/")[0], tmp_path / f"x{version}.ffr")
    assert dataformats.open(tmp_path / f"x{version}.ffr")[1]["time"] == (1).to_bytes(8, "little")


def test_rows_of_one_array_are_copied(tmp_path: Path) -> None:
    pytest.importorskip("zarr", reason="the extra zarr is not installed")
    dataformats.convert(GOLDEN / "zarr" / "array.zarr", tmp_path / "x.tfrecord")
    copy = dataformats.open(tmp_path / "x.tfrecord")
    assert (copy.payload, len(copy), copy[19].tolist()) == ("npy", 20, [57, 58, 59])


def test_bytes_of_zarr(tmp_path: Path) -> None:
    """All chunks count; the fingerprint covers some of them."""
    zarr = pytest.importorskip("zarr", reason="the extra zarr is not installed")
    for name, dtype in (("a", "i4"), ("b", "i8")):  # they are joined as one table with a type for both
        group = zarr.open_group(tmp_path / name / "x.zarr", mode="w")
        group.create_array("n", shape=(100,), chunks=(2,), dtype=dtype)[:] = np.arange(1, 101)
    expected = [sum(one.stat().st_size for one in (tmp_path / name).rglob("*") if one.is_file()) for name in "ab"]
    about = dataformats.info([tmp_path / name / "x.zarr" for name in "ab"])
    assert (about.nbytes, [file.nbytes for file in about.files]) == (sum(expected), expected)


def test_arrays_and_shards_of_zarr() -> None:
    pytest.importorskip("zarr", reason="the extra zarr is not installed")
    assert dataformats.open(GOLDEN / "zarr" / "array.zarr")[19].tolist() == [57, 58, 59]
    source = dataformats.open(GOLDEN / "zarr" / "sharded.zarr")
    assert source.block_starts is not None
    assert not (source.block_starts % 5000).any()
    assert source.read([19999, 3])["n"].tolist() == [19999, 3]


@pytest.mark.parametrize("version", [2, 3])
def test_zarr_behind_a_url(version: int) -> None:
    pytest.importorskip("zarr", reason="the extra zarr is not installed")
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    memory.put(str(GOLDEN / "zarr" / f"v{version}.zarr"), "/x.zarr", recursive=True)
    try:
        expected, found = dataformats.open(GOLDEN / "zarr" / f"v{version}.zarr"), dataformats.open("memory://x.zarr")
        assert found.fingerprint == expected.fingerprint
        assert found.nbytes == expected.nbytes
        assert text_of(found) == text_of(expected)
    finally:
        memory.rm("/x.zarr", recursive=True)


@loop_over(
    "name, error, text",
    [
        ("chunk", FormatError, "record 0 of .*rows 0 to 39 of 'image' cannot be decoded"),
        ("metadata", FormatError, r"zarr\.json.*the group cannot be decoded"),
        ("pickle", DataFormatsError, "pickle"),
    ],
)
def test_damaged_zarr(name: str, error: type[Exception], text: str) -> None:
    pytest.importorskip("zarr", reason="the extra zarr is not installed")
    with pytest.raises(error, match=text):
        dataformats.open(GOLDEN / "zarr" / "corrupt" / f"{name}.zarr")[0]


def test_many_blocks_of_zarr(tmp_path: Path) -> None:
    """Neighbors are read together; a damaged chunk fails only its records."""
    zarr = pytest.importorskip("zarr", reason="the extra zarr is not installed")
    group, n = zarr.open_group(tmp_path / "x.zarr", mode="w"), 200
    values = np.random.default_rng(0).integers(0, 256, (n, 64, 512), np.uint8)
    group.create_array("image", shape=values.shape, chunks=(4, 64, 512), dtype=np.uint8)[:] = values
    group.create_array("label", shape=(n,), chunks=(4,), dtype=np.int64)[:] = np.arange(n)
    source = dataformats.open(tmp_path / "x.zarr")
    for order in (range(90, 130), np.random.default_rng(1).permutation(n), [7, 7, 199]):
        batch = source.read(order)
        assert np.array_equal(batch["image"], values[order])
        assert batch["label"].tolist() == list(order)
    (tmp_path / "x.zarr" / "label" / "c" / "5").write_bytes(b"damaged")
    batch = dataformats.open(tmp_path / "x.zarr").read(range(10, 40), on_corrupt="omit")
    assert sorted(batch.failed) == [20, 21, 22, 23]
    assert np.array_equal(batch["image"], values[batch.indices])
