"""Data cards: one page without scripts, complete or absent."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

import pytest

import dataformats
from dataformats.storage import atomic
from dataformats.viewer.card import export_card
from dataformats.viewer.dataset import ViewedDataset
from tests.display.test_record_table import ATTRIBUTES, HOSTILE, TAGS, Tags

GOLDEN = Path(__file__).parents[1] / "golden"
PHOTOS = GOLDEN / "real" / "photos.tfrecord"
DAMAGED = GOLDEN / "tfrecord" / "corrupt" / "data_bit.tfrecord"
PAGE_TAGS = "html head meta title body header main h1 h2 h3 p dl dt dd details summary pre section figure ol ul li a"


class CardTags(Tags):
    """Collects the tags of a page."""

    ALONE = ("img", "meta", "rect", "path")
    ATTRIBUTES = ATTRIBUTES | {*re.findall(r"[\w-]+", "lang charset http-equiv content name tabindex aria-hidden")}
    ATTRIBUTES |= {"id", "href"}


def card_of(path: Path, folder: Path, n: int = 50, damaged: int = 0) -> str:
    assert export_card(ViewedDataset(str(path)), folder, n) == damaged
    assert [one.name for one in folder.iterdir()] == ["index.html"]
    text = (folder / "index.html").read_text("utf-8")
    assert CardTags(text).names <= TAGS | {"rect", *PAGE_TAGS.split()}
    assert len(re.sub("src='data:[^']*'", "", text).encode()) < 2_000_000
    return text


def test_card_shows_facts_statistics_and_records(tmp_path: Path) -> None:
    text = card_of(PHOTOS, tmp_path / "card")
    assert dataformats.open(PHOTOS).fingerprint in text
    assert "tfrecord · 12 records · 4 fields" in text
    assert len(re.findall("<img [^>]*src='data:image/jpeg;base64,", text)) == 12
    assert "320 × 213" in text
    style = text.partition("<style>")[2].partition("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:" in text
    assert card_of(PHOTOS, tmp_path / "same") == text
    assert "First 2 records</h2>" in card_of(PHOTOS, tmp_path / "two", n=2)


def test_hostile_data_stay_text_of_bounded_size(tmp_path: Path) -> None:
    names = [f"{HOSTILE[:-1]}{i}" for i in range(10_000)]
    with dataformats.create(tmp_path / "x.tfrecord", spec=dict.fromkeys(names, "bytes")) as writer:
        writer.append(dict.fromkeys(names, b"<script>base64,"))
        writer.append(dict.fromkeys(names, b"'\"<img src=x onerror=alert(1)>" * 9) | {names[5]: b"<b>" * 3_500_000})
    text = card_of(tmp_path / "x.tfrecord", tmp_path / "card")
    assert "more fields" in text
    assert "10,500,000 bytes" in text


def test_damaged_records_are_listed(tmp_path: Path) -> None:
    text = card_of(DAMAGED, tmp_path / "card", damaged=1)
    assert "<h2>1 damaged record</h2>" in text
    assert len(re.findall("ChecksumError", text)) == 2


def test_card_is_complete_or_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "old").mkdir()
    with pytest.raises(dataformats.TargetExistsError, match=r"old' exists\. Give the folder"):
        export_card(ViewedDataset(str(PHOTOS)), tmp_path / "old", 1)

    def fail(partial: Path, folder: Path, *, replace: bool) -> None:
        assert (partial / "index.html").stat().st_size > 10_000
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic, "publish", fail)
    monkeypatch.setattr(atomic, "write_bytes", Path.write_bytes)
    with pytest.raises(OSError, match="No space"):
        export_card(ViewedDataset(str(PHOTOS)), tmp_path / "new", 1)
    assert [one.name for one in tmp_path.iterdir()] == ["old"]
