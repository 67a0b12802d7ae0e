"""JSON documents: golden files, layouts, lists by key, folders, compression, damage, many cuts and flips."""

from __future__ import annotations

import gzip
import json
import pickle
import random
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.backends.documents import walk
from dataformats.errors import DataFormatsError, FormatError, SpecError, TruncatedError
from dataformats.testing.loop_over import loop_over
from dataformats.testing.records import is_same_value
from tests.backends.test_lines import TYPES, expected
from tests.campaign import SEED, share

pytestmark = pytest.mark.filterwarnings("ignore:.*is left out")  # members beside a list

GOLDEN = Path(__file__).parents[1] / "golden" / "json"
FILES = ("python.json", "indent.json", "compact.json", "jq.json", "bom.json", "indent.json.gz")
COCO = {"info": {"n": 1}, "images": [{"id": 1}], "annotations": [{"id": 1}, {"id": 2}], "licenses": []}


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("DATAFORMATS_CACHE", str(tmp_path_factory.mktemp("cache")))


@loop_over("name", FILES)
def test_golden_files(name: str) -> None:
    src = dataformats.open(GOLDEN / name)
    assert (src.format, src.payload, src.spec) == ("json", "json_object", dataformats.Spec(TYPES))
    assert len(src) == 12
    assert all(is_same_value(found, expected(index)) for index, found in enumerate(src))
    assert is_same_value(src[7], expected(7))
    assert dataformats.verify(GOLDEN / name).ok


@loop_over(
    "text, values",
    [
        ("[]", []),
        (" [ ]\n", []),
        ("[1,2 , 3]", [1, 2, 3]),
        ('["a,]", null, [{}]]', ["a,]", None, [{}]]),
        ('[{"a": "\\"}]\\\\"}]', [{"a": '"}]\\'}]),
        ('{"a": 1}', [{"a": 1}]),
        ('{"a": 1}{"a": 2}\n\n{"a": 3}', [{"a": 1}, {"a": 2}, {"a": 3}]),
        ("7", [7]),
        ('{"a": [], "b": [1, {}]}', [{"a": [], "b": [1, {}]}]),
        ('{"data": [{"a": 1}, {"a": 2}], "version": 1}', [{"a": 1}, {"a": 2}]),
        ('{"data": [{"a": 1}]} {"data": []}', [{"data": [{"a": 1}]}, {"data": []}]),
        ('{"data": [1], "data": [{"a": 1}]}', [{"a": 1}]),
    ],
)
def test_values(tmp_path: Path, text: str, values: list[Any]) -> None:
    (tmp_path / "x.json").write_text(text)
    assert list(dataformats.open(tmp_path / "x.json", format="json", payload="json")) == values


def test_lists_of_an_object(tmp_path: Path) -> None:
    path = tmp_path / "coco.json"
    path.write_text(json.dumps(COCO, indent=1))
    with pytest.raises(FormatError, match=r"several lists.*annotations \(2\), images \(1\)\. Pass key='annotations'"):
        len(dataformats.open(path))
    for _ in range(2):  # kept indexes are of one list
        assert [record["id"] for record in dataformats.open(path, key="annotations")] == [1, 2]
        assert [record["id"] for record in dataformats.open(path, key="images")] == [1]
        assert len(dataformats.open(path, key="licenses")) == 0
        assert dataformats.open(path, key="", payload="json")[0] == COCO
    with pytest.raises(FormatError, match="no list 'info'"):
        len(dataformats.open(path, key="info"))
    (tmp_path / "list.json").write_text("[1]")
    with pytest.raises(FormatError, match="no key 'a', because the document is no object"):
        len(dataformats.open(tmp_path / "list.json", key="a"))


def test_folder_of_records(tmp_path: Path) -> None:
    """A file is a record, even if it has a list; files that describe data are none."""
    for index in range(11):
        (tmp_path / f"{index}.json").write_text(json.dumps({"id": index, "turns": [{"n": index}]}))
    (tmp_path / "dataset_info.json").write_text("{}")
    (tmp_path / "README.txt").write_text("about")
    src = dataformats.open(tmp_path)
    assert [record["id"] for record in src] == list(range(11))
    for _ in range(2):  # alone, it is its list
        with pytest.warns(UserWarning, match="the field 'id' is left out: it is beside the list 'turns'.*pass key=''"):
            alone = dataformats.open(tmp_path / "3.json")
        again = pickle.loads(pickle.dumps(alone))
        assert (alone[0], list(alone.spec_facts.left_out)) == ({"n": 3}, ["id"])
        assert again.spec_facts.left_out == alone.spec_facts.left_out
        chosen = dataformats.open(alone.paths[0], key="turns")
        assert pickle.loads(pickle.dumps(chosen)).spec_facts.left_out == chosen.spec_facts.left_out == {}
    assert [record["n"] for record in dataformats.open(tmp_path, key="turns")] == list(range(11))
    assert dataformats.open([tmp_path / "3.json", tmp_path / "4.json"]).read([0, 1])["id"].tolist() == [3, 4]


@loop_over("name", ["dataset_dict.json", "config.json", "README.txt"])
def test_data_below_a_description(name: str, tmp_path: Path) -> None:
    """Files that describe data are not taken for the dataset in the folders below."""
    (tmp_path / name).write_text('{"splits": ["train"]}')
    (tmp_path / "train").mkdir()
    with dataformats.create(tmp_path / "train" / "x.tfrecord", spec={"n": "int64"}) as writer:
        writer.append({"n": 1})
    with pytest.raises(FormatError, match=r"Open one of them, such as .*train"):
        dataformats.open(tmp_path)


def test_other_names_and_formats(tmp_path: Path) -> None:
    """The content decides; lines of objects stay JSONL, which keeps damage to its line."""
    texts = {"a.jsonl": ('{\n "a": 1\n}\n{\n "a": 2\n}\n', "json"), "b": ('[{"a": 1}]', "json"),
             "c.json": ('{"a": 1}\n{"a": 2}\n', "jsonl"), "d.jsonl": ('{"a": 1}', "jsonl")}  # fmt: skip
    for name, (text, format) in texts.items():
        (tmp_path / name).write_text(text)
        src = dataformats.open(tmp_path / name)
        assert (src.format, src[0]) == (format, {"a": 1})
    for name in ("e", "e.json"):
        (tmp_path / name).write_bytes('[{"a": "café au lait"}]'.encode("latin-1"))
        with pytest.raises(FormatError, match="JSON that is not in UTF-8"):
            dataformats.open(tmp_path / name)
    (tmp_path / "f").write_text("[INFO] started\n[INFO] ended\n")
    with pytest.raises(FormatError, match="no known format"):
        dataformats.open(tmp_path / "f")
    with pytest.raises(SpecError, match=r"json files are read, not written\. Pass format='jsonl'"):
        dataformats.create(tmp_path / "new.json", spec={"a": "int64"})


@loop_over(
    "text, values, message",
    [
        ('[{"a": 1}, {"a": 2}, {"a', [1, 2], "at byte 20: the list has no end: expected ], found the end"),
        ('[{"a": 1}, {"a": 2}', [1, 2], "at byte 19: the list has no end"),
        ('[{"a": 1}, {"a": 2},\n', [1, 2], "at byte 20: the list has no end"),
        ('[{"a": 1}, {"a": "2}]', [1], "at byte 10: the list has no end"),
        ('[{"a": 1}, {"a": 2},]', [1, 2], "at byte 19: a comma at the end of the list"),
        ('[{"a": 1}}', [], "at byte 1: the list has no end: expected ], found }"),
        ('[{"a": 1}]\n[{"a": 2}]', [1], "at byte 11: more behind the document: found .. If each line is a document"),
        ('{"a": 1} {"a": 2', [1], "at byte 9: the object has no end"),
        ('{"a": 1}]', [1], "at byte 8: the bracket closes nothing"),
        ('{"a": 1} 2', [1], "at byte 9: no object"),
        ('{"i": 0, "d": [{"a": 1}, {"a": 2}], "z": tr', [1, 2], "at byte 41: the object has no end"),
        ('{"d": [{"a": 1}, {"a": 2}] "z": 1}', [1, 2], "at byte 27: the object does not go on: expected , or }"),
        ('{"d": [{"a": 1}, {"a": 2}], z: 1}', [1, 2], "at byte 28: the object does not go on: expected a key"),
        ("", [], "at byte 0: the document has no value"),
    ],
)
def test_damaged_end(tmp_path: Path, text: str, values: list[int], message: str) -> None:
    """The sound records can be read, and one more is the error, which says where."""
    for name, data in (("x.json", text.encode()), ("x.json.gz", gzip.compress(text.encode()))):
        (tmp_path / name).write_bytes(data)
        for _ in range(2):  # by a new index, and by the kept one
            src = dataformats.open(tmp_path / name, format="json", payload="json")
            assert [record["a"] for record in src[: len(values)]] == values
            assert len(src) == len(values) + 1
            with pytest.raises(FormatError, match=f"record {len(values)} of .*{message}"):
                src[len(values)]


def test_truncated_gzip_and_zstd(tmp_path: Path) -> None:
    zstd = pytest.importorskip("backports.zstd")
    rows = [{"n": index, "text": random.Random(index).randbytes(40).hex()} for index in range(3000)]
    text = json.dumps(rows, indent=1).encode()
    options = {zstd.CompressionParameter.checksum_flag: 1}
    frames = [zstd.compress(text[first : first + 50_000], options=options) for first in range(0, len(text), 50_000)]
    broken = bytearray(frames[3])
    broken[len(broken) // 2] ^= 0xFF
    cases = {
        "cut.json.gz": gzip.compress(text)[:-5000],
        "cut.json.zst": b"".join(frames)[:-5000],
        "broken.json.zst": b"".join([*frames[:3], broken, *frames[4:]]),
    }
    (tmp_path / "x.json.zst").write_bytes(b"".join(frames))
    assert list(dataformats.open(tmp_path / "x.json.zst")) == rows
    for name, data in cases.items():
        (tmp_path / name).write_bytes(data)
        src = dataformats.open(tmp_path / name)
        assert 500 < len(src) < 3000
        assert list(src[:-1]) == rows[: len(src) - 1]
        with pytest.raises(FormatError):
            src[-1]


def test_conversion_to_lines_and_back(tmp_path: Path) -> None:
    src = dataformats.open(GOLDEN / "indent.json")
    for name in ("x.jsonl", "x.jsonl.gz", "x.parquet"):
        dataformats.convert(src, tmp_path / name)
        assert dataformats.verify(tmp_path / name, against=GOLDEN / "indent.json").ok
    lines = (tmp_path / "x.jsonl").read_bytes().splitlines()
    assert list(map(json.loads, lines)) == json.loads((GOLDEN / "indent.json").read_bytes())
    (tmp_path / "bad.json").write_text('[{"a": 1},\n{"a":\n"1\n2"},\n{"a": 3}]')
    with pytest.raises(FormatError, match=r"record 1 of .*bad.json.*the record is no JSON"):
        dataformats.convert(tmp_path / "bad.json", tmp_path / "bad.jsonl")
    report = dataformats.convert(tmp_path / "bad.json", tmp_path / "bad.jsonl", on_corrupt="omit")
    assert (report.records, report.omitted) == (2, 1)
    with pytest.raises(SpecError, match="Write the records that can be read with convert"):
        dataformats.repair(tmp_path / "bad.json", tmp_path / "repaired.jsonl")


def test_index_takes_no_memory_on_the_word_of_the_data(tmp_path: Path) -> None:
    """A text without an end, and nesting of any depth."""
    for name, front, fill in (("a.json", b'[1, "', 0), ("b.json", b"[1, " + b"[" * 2**21, 0), ("c.json", b'{"a', 0)):
        with (tmp_path / name).open("wb") as file:
            file.write(front)
            file.truncate(2**26)
        src = dataformats.open(tmp_path / name, format="json", payload="json")
        tracemalloc.start()
        n = len(src)
        with pytest.raises(TruncatedError):
            src[n - 1]
        assert tracemalloc.get_traced_memory()[1] < 16 * 2**20
        tracemalloc.stop()
        assert n == (1 if name == "c.json" else 2) + fill
    (tmp_path / "deep.json").write_text('[{"a": 1}, {"a": ' + "[" * 10**5 + "]" * 10**5 + "}, 3]")
    src = dataformats.open(tmp_path / "deep.json", payload="json")
    assert (len(src), src[2]) == (3, 3)
    with pytest.raises(DataFormatsError):
        src[1]


# ---- many documents, against json.loads of the whole


def random_value(generator: random.Random, depth: int = 0) -> Any:
    kind = generator.randrange(7 if depth < 3 else 5)
    if kind < 4:
        scalars = ["", "\\", '\\"', "],[", '{"a":1}, {"b"', "é\n", 0, -17, 2.5, None, True]
        return generator.choice(scalars)
    if kind == 5:
        return [random_value(generator, depth + 1) for _ in range(generator.randrange(4))]
    return {generator.choice('ab"\\'): random_value(generator, depth + 1) for _ in range(generator.randrange(3))}


def random_document(generator: random.Random) -> bytes:
    layout: dict[str, Any] = {"indent": generator.choice([None, 2, "\t"]), "ensure_ascii": generator.random() < 0.5}
    values = [random_value(generator, 1) for _ in range(generator.randrange(5))]
    kind = generator.randrange(3)
    if kind == 0:
        text = json.dumps(values, **layout)
    elif kind == 1:
        text = "\n".join(json.dumps({"a": value}, **layout) for value in values)
    else:
        text = json.dumps({"n": random_value(generator, 2), "data": [{"a": value} for value in values]}, **layout)
    return (generator.choice(["", "\ufeff", " \n"]) + text + generator.choice(["", "\n \t"])).encode()


def plain_records(data: bytes) -> list[Any] | None:
    """The records by `json` of Python; `None` if the document is damaged."""
    text, documents, at = data.decode().removeprefix("\ufeff"), list[Any](), 0
    decoder, space = json.JSONDecoder(), " \t\r\n"
    while at < len(text):
        if text[at] in space:
            at += 1
        else:
            document, at = decoder.raw_decode(text, at)
            documents.append(document)
    first = documents[0] if documents else None
    if len(documents) == 1 and isinstance(first, list):
        return first
    lists = [value for value in first.values() if value and isinstance(value, list) and isinstance(value[0], dict)] if (
        len(documents) == 1 and isinstance(first, dict)) else []  # fmt: skip
    if lists:
        return lists[0] if len(lists) == 1 else None
    is_sound = len(documents) == 1 or all(isinstance(document, dict) for document in documents)
    return documents if documents and is_sound else None


def test_cut_and_changed_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    """A document that Python reads gives the same records; another one gives an error."""
    generator = random.Random(SEED)
    n_sound = 0
    for _ in range(share(1500)):
        monkeypatch.setattr(walk, "_WINDOW", generator.choice([1, 2, 7, 64, 2**20]))
        monkeypatch.setattr(walk, "_ROOM", generator.choice([1, 2, 2**16]))
        data = bytearray(random_document(generator))
        change = generator.randrange(4)
        place = generator.randrange(len(data) or 1)
        if change == 1:
            del data[place:]
        elif change == 2:
            data[place : place + generator.randrange(2)] = generator.choice([b"[", b"]", b"}", b",", b'"', b"\\", b"1"])
        elif change == 3 and data:
            data[place] ^= 1 << generator.randrange(8)
        try:
            records = plain_records(bytes(data))
        except ValueError:
            records = None
        try:
            src = dataformats.open(bytes(data), format="json", payload="json")
            batch = src.read(np.arange(len(src)), on_corrupt="omit")
            found = None if batch.failed else list(batch)
        except DataFormatsError:
            found = None
        if records is None and b"data" in data:
            continue  # the members beside a list are not parsed
        assert found == records, bytes(data)
        n_sound += records is not None
    assert n_sound > share(300)
