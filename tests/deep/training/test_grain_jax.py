"""A source works as Grain's `RandomAccessDataSource`, tested with Grain; a batch is a JAX tree.

Each library runs once, in an interpreter of its own: Grain imports JAX if it is installed, and JAX warns at each fork
from then on. That program prints the values that the tests compare.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import dataformats
from dataformats.batch.jax_trees import register_with_jax

CHECKOUT = Path(__file__).parents[3]
PAGE = CHECKOUT / "docs" / "pytorch.md"
BLOCK = re.compile(r"^```\{code-block\} python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DIGITS = str(Path(__file__).parents[2] / "golden" / "real" / "digits-*.tfrecord")
SPEC = {"image": "uint8[8,8]", "label": "int64"}
HEAD = f"""
import json
import dataformats

digits = dataformats.open({DIGITS!r}, spec={SPEC!r})
found = {{}}

def error_of(function):
    try:
        return repr(function())
    except Exception as error:
        return f"{{type(error).__name__}}: {{error}}"
"""


def found_by(body: str, folder: Path) -> dict[str, Any]:
    """Run a program that has a source `digits`; return its dict `found`."""
    program = folder / "program.py"
    body = f"{body}\nprint(json.dumps(found))"
    program.write_text(f'{HEAD}\nif __name__ == "__main__":\n{textwrap.indent(body, "    ")}', "utf-8")
    done = subprocess.run(
        [sys.executable, str(program)], cwd=folder, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def labels() -> list[int]:
    source = dataformats.open(DIGITS, spec=SPEC)
    found: list[int] = source.read(range(len(source)))["label"].tolist()
    return found


# ---- Grain

GRAIN = """
import itertools
import grain.python as grain
from dataformats.interop.grain import LoaderDataset

def labels(batches):
    return [int(label) for batch in itertools.islice(batches, 100) for label in batch["label"]]

found["is a source"] = [isinstance(source, grain.RandomAccessDataSource) for source in (digits, digits[5:10])]

batches = list(grain.MapDataset.source(digits).shuffle(seed=3).map(lambda record: record).batch(100).to_iter_dataset())
found["dtype"], found["pipeline"] = str(batches[0]["image"].dtype), labels(batches)

found["source of Grain"] = labels(
    dataformats.Loader(grain.MapDataset.source(digits).map(lambda record: record), 100)
)

reads = []
class Counted(dataformats.RecordSource):
    __len__ = lambda self: len(digits)
    spec, fingerprint = digits.spec, digits.fingerprint
    def read(self, indices, fields=None, on_corrupt="raise"):
        reads.append(len(indices))
        return digits.read(indices, fields, on_corrupt)
found["read at once"] = [len(grain.MapDataset.source(Counted())._getitems(range(64))), reads]

# The state at every step, resumed from each, in a pipeline.
def batches():
    dataset = LoaderDataset(dataformats.Loader(digits, 500, seed=3), num_epochs=2)
    return iter(dataset.map(lambda batch: batch["label"].tolist()))
running = batches()
states, whole = [json.dumps(running.get_state())], []
for batch in running:
    whole.append(batch)
    states.append(json.dumps(running.get_state()))
rests = []
for state in states:
    resumed = batches()
    resumed.set_state(json.loads(state))
    rests.append(list(resumed))
found["every step"] = [whole, rests]

loader = dataformats.Loader(digits, 600)
dataset = LoaderDataset(loader)
found["again"] = [len(labels(dataset)) for _ in range(2)]
first = iter(dataset)
next(first), next(first)
next(iter(dataset))
found["two at once"] = [error_of(first.get_state), error_of(lambda: next(first))]
loader.set_epoch(3)
found["behind the last epoch"] = labels(LoaderDataset(loader, num_epochs=1))
"""


@pytest.fixture(scope="module")
def grain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    if importlib.util.find_spec("grain") is None:
        pytest.skip("grain is not installed")
    return found_by(GRAIN, tmp_path_factory.mktemp("grain"))


def test_a_source_is_a_grain_source(grain: dict[str, Any]) -> None:
    assert grain["is a source"] == [True, True]


@pytest.mark.parametrize("way", ["pipeline", "source of Grain"])
def test_each_record_comes_once(grain: dict[str, Any], labels: list[int], way: str) -> None:
    assert grain[way] != labels
    assert sorted(grain[way]) == sorted(labels)
    assert grain["dtype"] == "uint8"


@pytest.mark.skipif(not PAGE.exists(), reason="runs programs of a page, and these tests stand outside a checkout")
@pytest.mark.parametrize("part", ["grain.DataLoader(", "LoaderDataset("])
def test_programs_of_the_page_deliver_each_record(part: str, labels: list[int], tmp_path: Path) -> None:
    pytest.importorskip("grain", reason="grain is not installed")
    program = tmp_path / "program.py"
    program.write_text(next(text for text in BLOCK.findall(PAGE.read_text("utf-8")) if part in text), "utf-8")
    done = subprocess.run(
        [sys.executable, str(program)], cwd=CHECKOUT, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    printed = [(int(n), int(total)) for n, total in re.findall(r"^\((\d+), 8, 8\) (\d+)", done.stdout, re.MULTILINE)]
    assert [sum(column) for column in zip(*printed, strict=True)] == [len(labels), sum(labels)]


def test_grain_reads_batches_at_once(grain: dict[str, Any]) -> None:
    assert grain["read at once"] == [64, [64]]


def test_a_loader_is_a_grain_dataset_with_exact_state(grain: dict[str, Any], labels: list[int]) -> None:
    whole, rests = grain["every step"]
    assert sorted(label for batch in whole for label in batch) == sorted(labels * 2)
    assert rests == [whole[step:] for step in range(len(whole) + 1)]


def test_iterators_of_a_loader_dataset_begin_anew(grain: dict[str, Any]) -> None:
    assert grain["again"] == [1797, 1797]
    assert all("another iterator moved it" in error for error in grain["two at once"])
    assert grain["behind the last epoch"] == []


# ---- JAX

JAX = """
import jax, numpy as np

batch = next(iter(dataformats.Loader(digits, 5, shuffle=False)))
put = jax.device_put(batch)
total = jax.jit(lambda batch: batch["label"].sum())(batch)
shapes = jax.tree.map(lambda column: column.shape, batch)
found["batch"] = [type(put).__name__, put["image"].shape, int(total), shapes, batch.positions.tolist()]

records = [{"tokens": np.arange(i % 3), "text": "x" * i, "level": None if i % 2 else i} for i in range(6)]
spec = {"tokens": "int64[]", "text": "utf8", "level": "int64?"}
with dataformats.create("six.tfrecord", "tfrecord", spec=spec, overwrite=True) as writer:
    writer.extend(records)
six = dataformats.open("six.tfrecord")
numbers = six.read(range(6), fields=["tokens", "level"])
total = jax.jit(lambda batch: batch["tokens"].values.sum() + batch["level"].values.sum())
batch = next(iter(dataformats.Loader(six, 6, shuffle=False, to="jax")))
found["totals"] = [int(total(numbers)), int(total({name: batch[name] for name in ("tokens", "level")}))]
found["kinds"] = [isinstance(part, jax.Array) for part in (batch["tokens"].values, batch["level"].present)]
found["items"] = [batch["text"], batch["tokens"].lengths.tolist()]

leaves, tree = jax.tree.flatten(numbers)
rebuilt = jax.tree.unflatten(tree, [object() for _ in leaves])["level"]
shown = []
jax.jit(lambda batch: shown.append(repr(batch["level"])))(numbers)
found["repr"] = [repr(rebuilt)[:9], shown[0][:9]]

def values(array):
    return next(iter(dataformats.Loader(array, len(array), shuffle=False, to="jax")))["value"]
kinds = (jax.numpy.bfloat16, jax.numpy.float8_e4m3fn, jax.numpy.int4)
found["narrow"] = [repr(values(np.arange(3).astype(kind))) for kind in kinds]
found["times"] = type(values(np.arange(3).astype("m8[s]"))).__name__
found["refused"] = error_of(lambda: values(np.array([1, 2**40])))
found["big-endian"] = [[str(array.dtype), array.tolist()] for array in (values(np.array([1, 2], ">i4")),)]
"""


@pytest.fixture(scope="module")
def jax(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    if importlib.util.find_spec("jax") is None:
        pytest.skip("jax is not installed")
    return found_by(JAX, tmp_path_factory.mktemp("jax"))


def test_jax_takes_a_batch(jax: dict[str, Any]) -> None:
    assert jax["batch"] == ["dict", [5, 8, 8], 10, {"image": [5, 8, 8], "label": [5]}, [0, 1, 2, 3, 4]]


def test_columns_are_jax_trees(jax: dict[str, Any]) -> None:
    assert jax["totals"] == [6 + 2, 6 + 2]
    assert jax["kinds"] == [True, True]
    assert jax["items"] == [["x" * i for i in range(6)], [0, 1, 2, 0, 1, 2]]
    assert jax["repr"] == ["Nullable(", "Nullable("]


def test_jax_receives_only_supported_dtypes(jax: dict[str, Any]) -> None:
    assert "jax_enable_x64" in jax["refused"]
    assert jax["narrow"] == [f"Array([0, 1, 2], dtype={kind})" for kind in ("bfloat16", "float8_e4m3fn", "int4")]
    assert jax["times"] == "ndarray"
    assert jax["big-endian"] == [["int32", [1, 2]]]


def test_without_jax_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "jax", raising=False)
    register_with_jax(dict)
    assert "jax" not in sys.modules
