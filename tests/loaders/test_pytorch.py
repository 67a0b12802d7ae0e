"""Batches as tensors, on devices, and under torch's own DataLoader."""

from __future__ import annotations

import copy
import gc
import pickle
import warnings
import weakref
from collections import OrderedDict, namedtuple
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import dataformats
from dataformats.batch import Nullable
from dataformats.errors import SpecError, StateMismatchError
from dataformats.kernels import buffers
from dataformats.loaders.batch import Batch
from dataformats.storage import threads

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

from torch.utils.data import DataLoader, Subset, default_collate  # noqa: E402
from torch.utils.data._utils.pin_memory import pin_memory  # noqa: E402

from dataformats.loaders.pytorch import DeviceCopier, RecordDataset, Records, collate, to_torch  # noqa: E402
from dataformats.testing.loop_over import loop_over  # noqa: E402

DIGITS = str(Path(__file__).parents[1] / "golden" / "real" / "digits-*.tfrecord")
SPEC = {"image": "uint8[8,8]", "label": "int64"}
WAYS: list[dict[str, Any]] = [
    {},
    {"num_workers": 2, "multiprocessing_context": "fork"},
]


@pytest.fixture
def digits() -> dataformats.RecordSource:
    return dataformats.open(DIGITS, spec=SPEC)


def ragged(rows: list[list[int]], dtype: Any = np.int64) -> dataformats.Ragged:
    offsets = np.cumsum([0, *map(len, rows)])
    return dataformats.Ragged(np.array([value for row in rows for value in row], dtype), offsets)


def text(rows: list[str]) -> dataformats.Ragged:
    data = [row.encode() for row in rows]
    return dataformats.Ragged(np.frombuffer(b"".join(data), np.uint8), np.cumsum([0, *map(len, data)]), "utf8")


def batch_of_everything() -> Batch:
    columns = {
        "image": np.arange(12, dtype=np.float32).reshape(2, 2, 3),
        "tokens": ragged([[1, 2], [3]]),
        "name": text(["a", "bc"]),
        "age": Nullable(np.array([7, 0]), np.array([True, False])),
        "frames": [np.zeros((2, 2)), np.ones((3, 2))],
    }
    return Batch(columns, np.array([4, 5]), np.zeros(2, bool))


# ---- to tensors


@loop_over("dtype", ["?", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "c8", "c16"])
def test_numbers_share_their_memory(dtype: str) -> None:
    array = np.zeros((2, 3), dtype)
    tensor = to_torch({"x": array})["x"]
    assert tensor.numpy().dtype == array.dtype
    assert tensor.data_ptr() == array.ctypes.data


@loop_over("rows", [[[], [1, 2]], [[1, 2], []], [[1], [2, 3]]])
def test_torch_refuses_ragged_items_as_one_tensor(rows: list[list[int]]) -> None:
    for convert in (torch.tensor, torch.as_tensor, torch.LongTensor):
        with pytest.raises(ValueError, match=r"differ in length. Take pad\(\), or to_torch\(\)"):
            convert(ragged(rows))
        with pytest.raises(ValueError, match="its items are text"):
            convert(text(["a", "bc"]))


@loop_over("rows", [[[1, 2], [3, 4]], [[], []], [[7]]])
def test_torch_takes_items_of_one_length(rows: list[list[int]]) -> None:
    tensor = torch.tensor(ragged(rows))
    assert (tensor.tolist(), tensor.dtype) == (rows, torch.int64)
    assert torch.tensor(ragged(rows), dtype=torch.float32).tolist() == rows
    assert torch.tensor(ragged(rows)[:0]).dtype == torch.int64
    nested = dataformats.Ragged(ragged(rows * 2), np.arange(0, 2 * len(rows) + 1, len(rows)))
    assert torch.tensor(nested).tolist() == [rows, rows]


def read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


@loop_over(
    "array",
    [
        np.arange(6, dtype=">i4").reshape(2, 3),
        np.arange(6).reshape(2, 3)[:, ::-1],
        np.arange(6).reshape(3, 2).T,
        np.arange(12).reshape(2, 6)[:, ::2],
        read_only(np.arange(6)),
        np.arange(0).reshape(0, 8, 8),
        np.array(5),
    ],
)
def test_unshareable_arrays_are_copied(array: np.ndarray) -> None:
    before = array.copy()
    tensor = to_torch(array)
    assert tensor.numpy().dtype == array.dtype.newbyteorder("=")
    assert tensor.shape == array.shape
    assert np.array_equal(tensor.numpy(), array)
    if not (array.flags.c_contiguous and array.flags.writeable and array.dtype.isnative):
        tensor += 1
    assert np.array_equal(array, before)


def test_a_tensor_keeps_its_memory() -> None:
    """Memory of large arrays is reused when no reference is left: a tensor is a reference."""
    array = buffers.empty(2**20)
    array[:] = 7
    tensor = to_torch(array)
    base = weakref.ref(array.base if isinstance(array.base, np.ndarray) else array)
    del array
    gc.collect()
    others = [buffers.empty(2**20) for _ in range(4)]
    for other in others:
        other[:] = 1
    assert base() is not None
    assert bool((tensor == 7).all())
    del tensor
    gc.collect()
    assert base() is None


def test_every_kind_of_column() -> None:
    batch = to_torch(batch_of_everything())
    assert type(batch) is Batch
    assert isinstance(batch.positions, np.ndarray)
    assert batch["image"].dtype == torch.float32
    assert [part.tolist() for part in batch["tokens"].unbind()] == [[1, 2], [3]]
    assert batch["name"] == ["a", "bc"]
    assert (batch["age"].values.tolist(), batch["age"].present.tolist()) == ([7, 0], [True, False])
    assert [tuple(frame.shape) for frame in batch["frames"]] == [(2, 2), (3, 2)]


def test_jagged_columns() -> None:
    empty = to_torch(ragged([]))
    assert (empty.layout, len(empty.unbind())) == (torch.jagged, 0)
    cut = dataformats.Ragged(np.arange(9.0), np.array([2, 4, 7]))
    assert [part.tolist() for part in to_torch(cut).unbind()] == [[2, 3], [4, 5, 6]]
    nested = dataformats.Ragged(ragged([[1], [2, 3], [4]]), np.array([0, 2, 3]))
    assert [[part.tolist() for part in item] for item in to_torch(nested)] == [[[1], [2, 3]], [[4]]]


def test_structures_of_a_collate() -> None:
    pair = namedtuple("pair", "x y")
    found = to_torch({"deep": {"a": np.ones(2)}, "two": (np.ones(1), "s"), "pair": pair(np.zeros(1), None)})
    assert isinstance(found["deep"]["a"], torch.Tensor)
    assert isinstance(found["two"][0], torch.Tensor)
    assert found["two"][1] == "s"
    assert isinstance(found["pair"], pair)
    assert isinstance(found["pair"].x, torch.Tensor)
    words = np.array(["a", "b"])
    assert to_torch(words) is words


# ---- batches in frameworks


def test_pinning_keeps_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pinning needs CUDA: a clone stands for the page-locked tensor."""
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor, device=None: tensor.clone())
    batch = to_torch(batch_of_everything())
    pinned = cast(Any, pin_memory)(batch)
    assert type(pinned) is Batch
    assert pinned.positions.tolist() == [4, 5]
    for before, after in ((batch["image"], pinned["image"]), (batch["age"].values, pinned["age"].values)):
        assert torch.equal(before, after)
        assert before.data_ptr() != after.data_ptr()
    assert pinned["name"] == ["a", "bc"]


def test_to_moves_columns() -> None:
    """Lightning and Accelerate call `to` of an object that has it."""
    batch = batch_of_everything()
    moved = batch.to(torch.device("meta"), non_blocking=True)
    assert type(moved) is Batch
    assert moved.positions is batch.positions
    assert moved["image"].device.type == moved["age"].values.device.type == moved["age"].present.device.type == "meta"
    assert moved["tokens"].device.type == "meta"
    assert moved["frames"][1].device.type == "meta"
    assert isinstance(batch["image"], np.ndarray)
    assert batch["age"].to("meta").present.device.type == "meta"
    assert batch["tokens"].to("cpu").values().tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    "rebuild", [lambda batch: type(batch)(dict(batch)), lambda batch: type(batch)(OrderedDict(batch))]
)
def test_a_batch_rebuilt_from_its_columns(rebuild: Any) -> None:
    rebuilt = rebuild(batch_of_everything())
    assert list(rebuilt) == ["image", "tokens", "name", "age", "frames"]
    with pytest.raises(AttributeError, match="has no positions: a library rebuilt it"):
        _ = rebuilt.positions
    with pytest.raises(AttributeError, match="no attribute 'else'"):
        _ = getattr(rebuilt, "else")
    assert not hasattr(pickle.loads(pickle.dumps(rebuilt)), "padding")


def test_copies_of_a_batch_keep_positions() -> None:
    for again in (pickle.loads(pickle.dumps(batch_of_everything())), copy.copy(batch_of_everything())):
        assert type(again) is Batch
        assert again.positions.tolist() == [4, 5]
        assert again.padding.tolist() == [False, False]


# ---- to a device


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_copier_without_streams(device: str) -> None:
    copier = DeviceCopier(device)
    given = list(copier.ahead(batch_of_everything() for _ in range(3)))
    assert [type(batch) for batch in given] == [Batch] * 3
    assert all(batch["image"].device.type == device for batch in given)
    assert list(copier.ahead([])) == []


def test_the_next_copy_begins_before_a_batch_is_yielded() -> None:
    taken = []

    def batches() -> Any:
        for number in range(3):
            taken.append(number)
            yield {"x": np.array([number])}

    ahead = DeviceCopier("cpu").ahead(batches())
    assert next(ahead)["x"].item() == 0
    assert taken == [0, 1]
    assert [batch["x"].item() for batch in ahead] == [1, 2]


@pytest.mark.skipif(torch.cuda.is_available(), reason="is about machines without CUDA")
@loop_over("device", ["cuda", "cuda:3", 0, "xpu", "mps", "nonsense"])
def test_an_unknown_device(device: Any) -> None:
    with pytest.raises(ValueError, match=r"expected a device of torch .*, found device="):
        DeviceCopier(device)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_copies_on_cuda_are_complete() -> None:
    copier = DeviceCopier("cuda")
    arrays = [np.random.default_rng(seed).integers(0, 256, 2**24, np.uint8) for seed in range(8)]
    heavy = torch.ones(4096, 4096, device="cuda")
    for number, batch in enumerate(copier.ahead({"x": array, "t": ragged([[1], [2, 3]])} for array in arrays)):
        heavy = heavy @ heavy / 4096
        assert batch["x"].sum(dtype=torch.int64).item() == arrays[number].sum()
        assert batch["t"].values().tolist() == [1, 2, 3]


class FakeStream:
    """Stands for a CUDA stream: records its calls."""

    def __init__(self, log: list[str], name: str) -> None:
        self.log, self.name = log, name

    def record_event(self) -> str:
        self.log.append(f"{self.name} records")
        return "event"

    def wait_event(self, event: str) -> None:
        self.log.append(f"{self.name} waits for the {event}")

    def __enter__(self) -> None:
        self.log.append(f"on {self.name}")

    def __exit__(self, *exception: object) -> None:
        self.log.append(f"off {self.name}")


def test_the_order_of_calls_on_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks the calls of stream, event and memory, and their order, without a GPU."""
    log: list[str] = []
    mine = FakeStream(log, "the caller's stream")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: FakeStream(log, "the side stream"))
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: stream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: mine)
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda tensor: False)

    def pin(tensor: Any) -> Any:
        log.append("pinned")
        return tensor

    def to(tensor: Any, device: Any, non_blocking: bool = False) -> Any:
        log.append(f"to {device}, {'not ' if non_blocking else ''}waiting")
        return tensor

    monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
    monkeypatch.setattr(torch.Tensor, "to", to)
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda tensor, stream: log.append(f"kept for {stream.name}"))
    copier = DeviceCopier("cuda:0")
    assert log == []
    begun = copier.begin({"x": np.ones(2)})
    assert log == [
        "on the side stream",
        "pinned",
        "to cuda:0, not waiting",
        "the side stream records",
        "off the side stream",
    ]
    log.clear()
    begun.wait()
    assert log == ["the caller's stream waits for the event", "kept for the caller's stream"]


# ---- map-style


def all_labels(source: dataformats.RecordSource) -> list[int]:
    labels: list[int] = source.read(range(len(source)))["label"].tolist()
    return labels


@pytest.mark.parametrize("function", [collate, default_collate], ids=["collate", "default"])
@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")  # torch warns if there is one processor
@pytest.mark.parametrize("way", WAYS, ids=["0", "fork"])
def test_map_style(digits: dataformats.RecordSource, way: dict[str, Any], function: Any) -> None:
    batches = list(DataLoader(RecordDataset(digits), batch_size=500, collate_fn=function, **way))
    assert [len(batch["image"]) for batch in batches] == [500, 500, 500, 297]
    assert batches[0]["image"].dtype == torch.uint8
    assert torch.cat([batch["label"] for batch in batches]).tolist() == all_labels(digits)


def test_map_style_shuffles_and_takes_subsets(digits: dataformats.RecordSource) -> None:
    some = Subset(RecordDataset(digits), list(range(0, 1797, 2)))
    loader = DataLoader(some, 64, shuffle=True, collate_fn=collate, generator=torch.Generator().manual_seed(1))
    labels = torch.cat([batch["label"] for batch in loader]).tolist()
    assert labels != all_labels(digits)[::2]
    assert sorted(labels) == sorted(all_labels(digits)[::2])


def test_a_batch_is_one_read(digits: dataformats.RecordSource, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = []
    whole = type(digits).read

    def read(source: Any, indices: Any, **more: Any) -> Any:
        reads.append(len(indices))
        return whole(source, indices, **more)

    monkeypatch.setattr(type(digits), "read", read)
    next(iter(DataLoader(RecordDataset(digits), batch_size=100, collate_fn=collate)))
    assert reads == [100]


def test_record_dataset_returns_records_of_the_source(digits: dataformats.RecordSource) -> None:
    dataset = RecordDataset(digits)
    assert len(dataset) == 1797
    assert dataset[-1]["label"] == digits[-1]["label"]
    with pytest.raises(IndexError):
        dataset[1797]
    records = dataset.__getitems__([3, 1, 3])
    assert isinstance(records, Records)
    assert [record["label"] for record in records] == [digits[i]["label"] for i in (3, 1, 3)]
    assert records[-1]["label"] == digits[3]["label"]


def halved(record: dict[str, Any]) -> dict[str, Any]:
    return {"x": torch.from_numpy(record["image"]) / 2, "y": record["label"]}


@pytest.mark.parametrize("function", [collate, default_collate], ids=["collate", "default"])
def test_map_style_transforms(digits: dataformats.RecordSource, function: Any) -> None:
    batch = next(iter(DataLoader(RecordDataset(digits, halved), batch_size=10, collate_fn=function)))
    assert batch["x"].dtype == torch.float32
    assert torch.equal(batch["x"] * 2, torch.from_numpy(digits.read(range(10))["image"]).float())


def processors_of(record: Any) -> int:
    return threads.processors()


def test_a_transform_of_map_style_keeps_types(tmp_path: Path) -> None:
    spec = {"score": "float32", "tokens": "int32[]", "rare": "int16?"}
    with dataformats.create(tmp_path / "a.tfrecord", "tfrecord", spec=spec) as writer:
        writer.extend({"score": 0.5, "tokens": np.arange(n), **({"rare": n} if n % 2 else {})} for n in range(4))
    source = dataformats.open(tmp_path / "a.tfrecord", spec=spec)
    batch = collate(RecordDataset(source, dict).__getitems__([1, 2, 3]))
    assert batch["score"].dtype == torch.float32
    assert (batch["tokens"].values().dtype, batch["tokens"].offsets().tolist()) == (torch.int32, [0, 1, 3, 6])
    assert list(batch["rare"]) == [1, None, 3]


def test_dtypes_of_torch_are_types() -> None:
    assert dataformats.Spec({"a": torch.int64, "b": torch.bool}) == {"a": "int64", "b": "bool"}


def test_workers_share_the_processors(digits: dataformats.RecordSource, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise each would start more threads than there are CPU cores for it."""
    monkeypatch.setattr(threads, "N_THREADS", 6)
    way: dict[str, Any] = {"num_workers": 2, "multiprocessing_context": "fork"}
    dataset = RecordDataset(digits[:8], processors_of)
    assert torch.cat(list(DataLoader(dataset, batch_size=4, **way))).tolist() == [3] * 8
    assert torch.cat(list(DataLoader(dataset, batch_size=4))).tolist() == [6] * 8


def test_any_sequence_is_a_map_style_dataset() -> None:
    batches = list(
        DataLoader(RecordDataset([{"x": np.float32(i)} for i in range(5)]), batch_size=3, collate_fn=collate)
    )
    assert [batch["x"].tolist() for batch in batches] == [[0, 1, 2], [3, 4]]
    assert batches[0]["x"].dtype == torch.float32


def test_collate_names_unstackable_records(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "x.ffr", "ffrecord", spec={"a": "array"}) as writer:
        writer.extend([{"a": np.zeros(2)}, {"a": np.zeros(3)}])
    loader = DataLoader(RecordDataset(dataformats.open(tmp_path / "x.ffr")), batch_size=2, collate_fn=collate)
    with pytest.raises(SpecError, match=r"record 0 has float64\[2\], record 1 has float64\[3\]"):
        next(iter(loader))


def test_map_style_state_checks_the_data(digits: dataformats.RecordSource) -> None:
    state = RecordDataset(digits).state_dict()
    RecordDataset(dataformats.open(DIGITS, spec=SPEC)).load_state_dict(state)
    with pytest.raises(StateMismatchError, match="records differs: expected 1797, found 100"):
        RecordDataset(digits[:100]).load_state_dict(state)
    with pytest.raises(StateMismatchError, match="fingerprint differs"):
        RecordDataset(digits[::-1]).load_state_dict(state)


def test_no_warning_of_torch(digits: dataformats.RecordSource) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for io in ("mmap", "threads"):
            source = dataformats.open(DIGITS, spec=SPEC, io=io)
            next(iter(DataLoader(RecordDataset(source), batch_size=8, collate_fn=collate)))


# ---- transforms as torchvision has them


class Flip(torch.nn.Module):  # type: ignore[name-defined, misc]  # torch is what importorskip found
    """A random transform on tensors, like torchvision's: a module that draws from torch's generator."""

    def forward(self, image: Any) -> Any:
        return image.flip(-1) if torch.rand(1) < 0.5 else image


class Train:
    """A typical user transform: from a record to tensors, with random transforms."""

    def __init__(self) -> None:
        self.image = torch.nn.Sequential(Flip(), torch.nn.Dropout(0.3))

    def __call__(self, record: dict[str, Any]) -> dict[str, Any]:
        image = torch.from_numpy(record["image"]).float()[None] / 16
        return {"image": self.image(image), "label": record["label"]}


@pytest.mark.parametrize(
    "workers",
    [{"workers": 2}, {"workers": 2, "worker_type": "process", "start_method": "fork"}],
    ids=["thread", "fork"],
)
def test_random_transforms_of_torch(digits: dataformats.RecordSource, workers: dict[str, Any]) -> None:
    """They draw the same numbers for a record in any worker, and do not change the global generator."""
    before = torch.get_rng_state()
    alone = list(dataformats.Loader(digits, 300, seed=5, transform=Train(), to="torch", workers=0))
    with dataformats.Loader(digits, 300, seed=5, transform=Train(), to="torch", **workers) as loader:
        again = list(loader)
    assert torch.equal(before, torch.get_rng_state())
    assert len(alone) == len(again) == 6
    for one, other in zip(alone, again, strict=True):
        assert one["image"].shape[1:] == (1, 8, 8)
        assert one["image"].dtype == torch.float32
        assert torch.equal(one["image"], other["image"])
        assert torch.equal(one["label"], other["label"])
    assert not torch.equal(alone[0]["image"][0] == 0, alone[0]["image"][1] == 0)
