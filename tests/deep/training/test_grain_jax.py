"""A source works as Grain's `RandomAccessDataSource`, tested with Grain; a batch is a JAX tree.

Both run in interpreters of their own: Grain imports JAX where it finds it, and JAX warns at each fork from then on.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import dataformats
from dataformats.batch.jax_trees import register_with_jax

DIGITS = str(Path(__file__).parents[2] / "golden" / "real" / "digits-*.tfrecord")
SPEC = {"image": "uint8[8,8]", "label": "int64"}

needs_grain = pytest.mark.skipif(importlib.util.find_spec("grain") is None, reason="grain is not installed")
needs_jax = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="jax is not installed")


def printed_by(body: str, folder: Path) -> Any:
    """Return the last line that a program prints, which is JSON; `digits` is a source there."""
    program = folder / "program.py"
    head = f"import json\nimport dataformats\ndigits = dataformats.open({DIGITS!r}, spec={SPEC!r})\n"
    program.write_text(f'{head}if __name__ == "__main__":\n{textwrap.indent(textwrap.dedent(body), "    ")}', "utf-8")
    done = subprocess.run(
        [sys.executable, str(program)], cwd=folder, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def labels() -> list[int]:
    source = dataformats.open(DIGITS, spec=SPEC)
    found: list[int] = source.read(range(len(source)))["label"].tolist()
    return found


# ---- Grain


@needs_grain
def test_a_source_is_a_grain_source(tmp_path: Path) -> None:
    assert printed_by(
        """
        import grain.python as grain
        print(json.dumps([isinstance(source, grain.RandomAccessDataSource) for source in (digits, digits[5:10])]))
        """,
        tmp_path,
    ) == [True, True]


@needs_grain
def test_grains_pipeline_over_a_source(tmp_path: Path, labels: list[int]) -> None:
    found = printed_by(
        """
        import grain.python as grain
        batches = grain.MapDataset.source(digits).shuffle(seed=3).map(lambda record: record).batch(100)
        batches = list(batches.to_iter_dataset())
        assert batches[0]["image"].dtype == "uint8"
        print(json.dumps([int(label) for batch in batches for label in batch["label"]]))
        """,
        tmp_path,
    )
    assert found != labels
    assert sorted(found) == sorted(labels)


@needs_grain
@pytest.mark.parametrize("workers", [0, 2])
def test_grains_loader_over_a_source(tmp_path: Path, labels: list[int], workers: int) -> None:
    found = printed_by(
        f"""
        import grain.python as grain
        from absl import flags

        flags.FLAGS(["program"])  # Grain's worker processes ask for flags
        sampler = grain.IndexSampler(len(digits), grain.ShardOptions(0, 1), shuffle=True, num_epochs=1, seed=0)
        batches = grain.DataLoader(
            data_source=digits, sampler=sampler, operations=[grain.Batch(100)], worker_count={workers}
        )
        print(json.dumps([int(label) for batch in batches for label in batch["label"]]))
        """,
        tmp_path,
    )
    assert found != labels
    assert sorted(found) == sorted(labels)


@needs_grain
def test_the_loader_over_a_source_of_grain(tmp_path: Path, labels: list[int]) -> None:
    """The loader reads sources of Grain, here a pipeline with random access."""
    found = printed_by(
        """
        import grain.python as grain
        loader = dataformats.Loader(grain.MapDataset.source(digits).map(lambda record: record), 100)
        print(json.dumps([int(label) for batch in loader for label in batch["label"]]))
        """,
        tmp_path,
    )
    assert found != labels
    assert sorted(found) == sorted(labels)


# ---- JAX


@needs_jax
def test_jax_takes_a_batch(tmp_path: Path) -> None:
    assert printed_by(
        """
        import jax
        batch = next(iter(dataformats.Loader(digits, 5, shuffle=False)))
        put = jax.device_put(batch)
        total = jax.jit(lambda batch: batch["label"].sum())(batch)
        shapes = jax.tree.map(lambda column: column.shape, batch)
        print(json.dumps([type(put).__name__, put["image"].shape, int(total), shapes, batch.positions.tolist()]))
        """,
        tmp_path,
    ) == ["dict", [5, 8, 8], 10, {"image": [5, 8, 8], "label": [5]}, [0, 1, 2, 3, 4]]


@needs_jax
def test_columns_are_jax_trees(tmp_path: Path) -> None:
    assert printed_by(
        """
        import jax, numpy as np
        records = [{"tokens": np.arange(i % 3), "text": "x" * i, "level": None if i % 2 else i} for i in range(6)]
        spec = {"tokens": "int64[]", "text": "utf8", "level": "int64?"}
        with dataformats.create("six.tfrecord", "tfrecord", spec=spec, overwrite=True) as writer:
            writer.extend(records)
        six = dataformats.open("six.tfrecord")
        total = jax.jit(lambda batch: batch["tokens"].values.sum() + batch["level"].values.sum())
        totals = [int(total(six.read(range(6), fields=["tokens", "level"])))]
        batch = next(iter(dataformats.Loader(six, 6, shuffle=False, to="jax")))
        totals.append(int(total({name: batch[name] for name in ("tokens", "level")})))
        kinds = [isinstance(part, jax.Array) for part in (batch["tokens"].values, batch["level"].present)]
        try:
            next(iter(dataformats.Loader(np.array([1, 2**40]), 2, to="jax")))
        except OverflowError as error:
            refused = str(error)
        print(json.dumps([totals, kinds, batch["text"], batch["tokens"].lengths.tolist(), "jax_enable_x64" in refused]))
        """,
        tmp_path,
    ) == [[6 + 2, 6 + 2], [True, True], ["x" * i for i in range(6)], [0, 1, 2, 0, 1, 2], True]


@needs_grain
def test_a_loader_is_a_grain_dataset_with_exact_state(tmp_path: Path, labels: list[int]) -> None:
    first, rest, again = printed_by(
        """
        from dataformats.interop.grain import LoaderDataset
        def batches():
            dataset = LoaderDataset(dataformats.Loader(digits, 500, seed=3))
            return iter(dataset.map(lambda batch: batch["label"].tolist()))
        before = batches()
        first = next(before) + next(before)
        state = before.get_state()
        after = batches()
        after.set_state(json.loads(json.dumps(state)))
        print(json.dumps([first, sum(before, []), sum(after, [])]))
        """,
        tmp_path,
    )
    assert rest == again
    assert sorted(first + rest) == sorted(labels)


@needs_grain
def test_grain_reads_batches_at_once(tmp_path: Path) -> None:
    assert printed_by(
        """
        import grain.python as grain
        reads = []
        class Counted(dataformats.RecordSource):
            __len__ = lambda self: len(digits)
            spec, fingerprint = digits.spec, digits.fingerprint
            def read(self, indices, fields=None, on_corrupt="raise"):
                reads.append(len(indices))
                return digits.read(indices, fields, on_corrupt)
        rows = grain.MapDataset.source(Counted())._getitems(range(64))
        print(json.dumps([len(rows), reads]))
        """,
        tmp_path,
    ) == [64, [64]]


def test_without_jax_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "jax", raising=False)
    register_with_jax(dict)
    assert "jax" not in sys.modules
