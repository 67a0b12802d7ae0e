"""An interrupt (Ctrl-C) or a full disk between two steps of a writer costs no record, and doubles none."""

from __future__ import annotations

import errno
import io
import itertools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from PIL import Image

import dataformats
from dataformats.staging.local_area import LocalArea
from dataformats.testing.loop_over import loop_over

FORMATS: dict[str, dict[str, Any]] = {
    "x.ofrecord": {"payload": "bytes"},
    "x.ffr": {"payload": "bytes"},
    "x.txt": {"payload": "utf8"},
    "x.syr": {"spec": {"a": "bytes"}},
    "x.tar": {"spec": {"a": "bytes"}},
    "x.bin": {"format": "megatron", "spec": {"tokens": "uint16[]"}},
    "x.jsonl": {"spec": {"a": "utf8"}},
    "x.g3": {"format": "granular", "spec": {"a": "bytes", "b": "bytes"}},
    "x.g2": {"format": "granular", "spec": {"a": "bytes", "b": "bytes"}, "generation": 2},
    "x.bag": {"payload": "bytes"},
}
_WRITERS = ("appending_writer", "bag_appender", "bags_writer", "record_journal", "atomic")


def record(i: int, options: dict[str, Any]) -> Any:
    if "payload" in options:
        return f"record {i}" if options["payload"] == "utf8" else b"record %d" % i
    if "tokens" in options["spec"]:
        return {"tokens": [i, i + 1]}
    return {name: f"{name} {i}" if kind == "utf8" else b"%d" % i for name, kind in options["spec"].items()}


def at_call(number: int) -> Callable[[FrameType, str, Any], None]:
    """Return a profiler that raises at a call within the writers."""
    calls = iter(range(number))

    def profile(frame: FrameType, event: str, _: Any) -> None:
        is_ours = Path(frame.f_code.co_filename).stem in _WRITERS
        if is_ours and event == "call" and next(calls, None) is None:
            sys.setprofile(None)
            raise KeyboardInterrupt

    return profile


@loop_over("name", FORMATS)
def test_interrupted_flush_can_be_repeated(name: str, tmp_path: Path) -> None:
    options = FORMATS[name]
    for number in itertools.count():
        path = tmp_path / f"{number}{name[1:]}"
        writer = dataformats.create(path, resume=True, **options)
        writer.extend([record(i, options) for i in range(3)])
        sys.setprofile(at_call(number))
        is_interrupted = False
        try:
            writer.flush(sync=True)
        except KeyboardInterrupt:
            is_interrupted = True
        finally:
            sys.setprofile(None)
        try:
            writer.extend([record(i, options) for i in range(len(writer), 5)])
            writer.close()
        except RuntimeError:  # between two bags, or a bag and the journal
            with dataformats.create(path, resume=True, **options) as writer:
                writer.extend([record(i, options) for i in range(len(writer), 5)])
        expected = [record(i, options) for i in range(5)]
        found = list(dataformats.open(path, payload=options.get("payload")))
        if name == "x.bin":
            found = [{"tokens": one["tokens"].tolist()} for one in found]
        elif "payload" not in options:
            found = [{field: one[field] for field in options["spec"]} for one in found]
        assert found == expected
        if not is_interrupted:
            break


def test_journal_can_be_replaced_again_after_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"format": "ffrecord", "payload": "bytes", "resume": True}
    writer = dataformats.create(tmp_path / "x.ffr", **options)
    writer.extend([b"a" * i for i in range(6)])
    with monkeypatch.context() as patch:
        patch.setattr(LocalArea, "publish", lambda *_: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            writer.close()
    writer = dataformats.create(tmp_path / "x.ffr", **options)
    writer.append(b"new")
    with monkeypatch.context() as patch:
        patch.setattr("dataformats.storage.atomic.sync", lambda _: 1 // 0)  # behind the rename of the journal
        with pytest.raises(ZeroDivisionError):
            writer.flush()
    writer.close()
    assert list(dataformats.open(tmp_path / "x.ffr")) == [*(b"a" * i for i in range(6)), b"new"]


def test_image_refused_by_a_full_disk_can_be_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.BytesIO()
    Image.new("RGB", (2, 2)).save(stream, "PNG")
    writer = dataformats.create(tmp_path / "x", "images", spec={"image": "bytes"}, resume=True)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", raise_full)
        with pytest.raises(OSError, match="full"):
            writer.append({"image": stream.getvalue()})
    writer.append({"image": stream.getvalue()})
    writer.close()
    assert len(dataformats.open(tmp_path / "x")) == 1


@pytest.mark.parametrize("more", [{}, {"shard_start": 0}])
def test_shard_refused_by_a_full_disk_can_be_begun_again(
    more: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = dataformats.create(tmp_path / "x", "tfrecord", shard_records=2, **more)
    writer.extend([b"0", b"1"])
    with monkeypatch.context() as patch:
        patch.setattr("dataformats.writing.output_schema.OutputSchema.create", raise_full)
        for _ in range(2):
            with pytest.raises(OSError, match="full"):
                writer.append(b"2")
    assert len(writer) == 2
    writer.append(b"2")
    writer.close()
    assert list(dataformats.open(tmp_path / "x")) == [b"0", b"1", b"2"]


def raise_full(*_: Any) -> int:
    raise OSError(errno.ENOSPC, "full")


@pytest.mark.parametrize("damage", ["one bit", "empty"])
def test_damaged_journal_of_images_costs_no_image(damage: str, tmp_path: Path) -> None:
    stream = io.BytesIO()
    Image.new("RGB", (2, 2)).save(stream, "PNG")
    options: dict[str, Any] = {"format": "images", "spec": {"image": "bytes"}, "resume": True}
    writer = dataformats.create(tmp_path / "x", **options)
    writer.append({"image": stream.getvalue()})
    writer.abort()
    journal = tmp_path / "x.partial.journal"
    data = journal.read_bytes()
    journal.write_bytes(b"" if damage == "empty" else data[:3] + bytes([data[3] ^ 1]) + data[4:])
    with pytest.raises(dataformats.FormatError, match="the journal of the unfinished data is damaged"):
        dataformats.create(tmp_path / "x", **options)
    journal.unlink()
    with dataformats.create(tmp_path / "x", **options) as writer:
        assert len(writer) == 1


def test_tar_without_a_sample_is_resumed(tmp_path: Path) -> None:
    options: dict[str, Any] = {"spec": {"a": "bytes"}, "resume": True}
    writer = dataformats.create(tmp_path / "x.tar", **options)
    writer.flush(sync=True)
    writer.abort()
    with dataformats.create(tmp_path / "x.tar", **options) as writer:
        assert len(writer) == 0
