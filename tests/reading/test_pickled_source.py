"""A pickled source of local shards: unpickling lists, opens and counts none of them, and reads what they held."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.errors import FormatError, StateMismatchError
from dataformats.reading import opening, pickled_source
from dataformats.testing.loop_over import loop_over

FORMATS = ["tfrecord", "ofrecord", "ffrecord"]
_SHARDS = 40


def _write(folder: Path, format: str, first: int = 0) -> Path:
    with dataformats.create(folder, format=format, payload="bytes", shard_records=10, overwrite=True) as writer:
        for number in range(first, first + 10 * _SHARDS):
            writer.append(np.random.default_rng(number).bytes(4 + number // 10))
    return folder


@loop_over("format", FORMATS)
def test_no_shard_is_opened_before_it_is_read(tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = dataformats.open(_write(tmp_path / "data", format))
    pickled = pickle.dumps(source)
    monkeypatch.setattr(opening, "resolve", lambda *_: pytest.fail("the shards were listed"))
    opened: list[str] = []
    real = os.open

    def recorded(path: Any, *arguments: Any, **named: Any) -> int:
        opened.append(os.fspath(path))
        return real(path, *arguments, **named)

    monkeypatch.setattr(os, "open", recorded)
    again = pickle.loads(pickled)
    assert (len(again), again.fingerprint, again.paths) == (len(source), source.fingerprint, source.paths)
    assert not [path for path in opened if path in source.paths]
    assert again.read_bytes([0, 9, 10, 215, 399]) == source.read_bytes([0, 9, 10, 215, 399])
    assert list(again) == list(source)


@loop_over("format", FORMATS)
def test_a_changed_shard_is_refused_when_it_is_read(
    tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = dataformats.open(_write(tmp_path / "data", format))
    pickled = pickle.dumps(source)
    changed = Path(source.paths[7])
    changed.write_bytes(Path(source.paths[8]).read_bytes())
    with pytest.raises(StateMismatchError):  # a few shards are all compared at once
        pickle.loads(pickled)
    monkeypatch.setattr(pickled_source, "_COMPARED", 2)
    again = pickle.loads(pickled)
    assert again.read_bytes([69, 80]) == source.read_bytes([69, 80])
    with pytest.raises(FormatError, match="replaced or changed") as caught:
        again.read_bytes([70])
    assert caught.value.path == str(changed)


def test_the_same_data_at_another_time_are_compared(tmp_path: Path) -> None:
    source = dataformats.open(_write(tmp_path / "data", "tfrecord"))
    pickled, expected = pickle.dumps(source), list(source)
    for path in source.paths:
        os.utime(path, ns=(1, 1))
    assert list(pickle.loads(pickled)) == expected


def test_times_and_sizes_of_any_size_survive() -> None:
    facts = np.array([[0, 2**62, 5, 2**63 - 1], [2**63 - 1, 0, 1, 2], [1, 2, 3, 0]])
    assert pickled_source._unpacked(pickled_source._packed(facts)).tolist() == facts.tolist()
