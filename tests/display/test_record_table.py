"""Sources and batches as HTML, for notebooks."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np

import dataformats
from dataformats.batch import RecordBatch
from dataformats.display.cells import DETAIL, TABLE, cell

REAL = Path(__file__).parents[1] / "golden" / "real"
HOSTILE = "</td><script>alert(1)</script>'\"\x1b[31m\u202e\udc80"
TAGS = {*re.findall(r"\w+", "style div table thead tbody tr th td img em span svg path")}
ATTRIBUTES = {
    *re.findall(r"[\w-]+", "class src alt title scope colspan role aria-label viewbox width height fill stroke d")
}
ATTRIBUTES |= {"preserveaspectratio"}


class Tags(HTMLParser):
    """Collects the tags, and checks that each is closed."""

    ALONE: tuple[str, ...] = ("img", "path")
    ATTRIBUTES = ATTRIBUTES

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.open: list[str] = []
        text.encode()
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.names.add(tag)
        assert {name for name, _ in attrs} <= self.ATTRIBUTES
        if tag not in self.ALONE:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def html_of(thing: Any) -> str:
    text: str = thing._repr_html_()
    assert not {"\x1b", "\u202e"} & {*text}
    assert Tags(text).names <= TAGS
    assert len(text.encode()) < 200_000
    return text


def test_photos() -> None:
    text = html_of(dataformats.open(REAL / "photos.tfrecord"))
    assert "12 records" in text
    assert len(re.findall("data:image/jpeg;base64,", text)) == 5
    assert "title='JPEG 320 × 320, " in text
    assert (
        len(re.findall("data:image/jpeg;base64,", html_of(dataformats.open(REAL / "photos.tfrecord").read([3, 3]))))
        == 2
    )


def test_arrays_and_results_of_functions() -> None:
    digits = dataformats.open(REAL / "digits-*.tfrecord", spec={"image": "uint8[8,8]", "label": "int64"})
    assert "data:image/png;base64," in html_of(digits)
    assert ">4</td>" in html_of(digits.map(lambda record: record["label"]))
    assert "ZeroDivisionError" in html_of(digits.map(lambda record: record["label"] / 0))


def test_hostile_names_and_values() -> None:
    columns = {
        f"{HOSTILE}{i}": [HOSTILE * 1000, {HOSTILE: HOSTILE}, HOSTILE.encode(errors="replace")] for i in range(2000)
    }
    text = html_of(RecordBatch(columns, np.arange(3)))
    assert "more fields</div>" in text


class Broken(dataformats.RecordSource):
    """A source whose length is unknown."""

    @property
    def spec(self) -> dataformats.Spec:
        return dataformats.Spec({"n": "int64"})

    @property
    def fingerprint(self) -> str:
        return "broken"

    def __len__(self) -> int:
        raise RuntimeError(HOSTILE)

    def read(self, indices: Any, fields: Any = None, on_corrupt: Any = "raise", decode: Any = None) -> RecordBatch:
        raise AssertionError


def test_errors_are_shown(tmp_path: Path) -> None:
    assert html_of(Broken()).startswith("<em class='why'>RuntimeError: ")
    with dataformats.create(tmp_path / "x.tfrecord", spec={"n": "int64"}) as writer:
        writer.extend([{"n": i} for i in range(9)])
    blob = bytearray((tmp_path / "x.tfrecord").read_bytes())
    blob[len(blob) // 9 * 3 - 6] ^= 1
    (tmp_path / "x.tfrecord").write_bytes(blob)
    src = dataformats.open(tmp_path / "x.tfrecord", payload="example", spec={"n": "int64"})
    assert html_of(src).count("ChecksumError") == 1
    assert ">4</td>" in html_of(src)
    assert "n" in html_of(src[:0])
    assert src.view().html.count("<tr>") == 9
    assert src.view().html.count("<tr class='damaged'>") == 1


def test_view_shows_the_first_records_within_limits() -> None:
    photos = dataformats.open(REAL / "photos.tfrecord")
    tables = [photos.view(7), photos.read(range(7)).view(), photos[3:10].view(9)]
    assert [table.html.count("<img ") for table in tables] == [7, 7, 7]
    assert all(Tags(table.html).names <= TAGS for table in tables)
    assert photos.view(-1).html.count("<img ") == photos.read([]).view().html.count("<img ") == 0
    long = RecordBatch({"text": ["é" * 200] * 20_000}, np.arange(20_000))
    text = long.view(20_000).html
    assert len(text.encode()) < 1_100_000
    assert "more records" in text


def test_chat_messages_are_a_conversation() -> None:
    parts = [{"type": "text", "text": HOSTILE}, {"type": "image_url", "image_url": "x.png"}]
    chat = [{"role": HOSTILE, "content": parts}, *[{"role": "user", "content": f"no. {n}"} for n in range(9)]]
    html = RecordBatch({"chat": [chat]}, np.zeros(1, np.int64))._repr_html_()
    assert Tags(html).names <= TAGS
    assert "<em>user</em> no. 4</div> <span class='note'>10 messages</span>" in html
    assert "alert(1)" in html
    assert "x.png" in html
    assert cell(chat, DETAIL)["turns"][9] == {"role": "user", "text": "no. 8"}
    assert cell([{"a": 1}], TABLE)["kind"] == "json"
