"""JSONL and text: golden files, ends of lines, compression, types, damage, hostile bytes."""

from __future__ import annotations

import gzip
import json
import os
import random
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.backends.lines import line_scan
from dataformats.backends.lines.writer import JsonLinesWriter
from dataformats.errors import ChecksumError, CodecError, CorruptRecordError, DataFormatsError, FormatError, SpecError
from dataformats.storage.compressed.seekable_gzip import DecompressedFile
from dataformats.testing.loop_over import loop_over
from dataformats.testing.records import is_same_value
from tests.campaign import SEED, share
from tests.golden.jsonl.make import record

GOLDEN = Path(__file__).parents[1] / "golden" / "jsonl"
FILES = ("python.jsonl", "crlf.jsonl", "gaps.ndjson", "orjson.jsonl", "datasets.jsonl", "python.jsonl.gz")
TYPES = {
    "id": "int64",
    "score": "float64",
    "flag": "bool",
    "text": "utf8",
    "numbers": "int64[]",
    "words": "utf8[]",
    "nested": "json",
}


def expected(index: int, name: str = "") -> dict[str, Any]:
    values = record(index)
    if name == "datasets.jsonl":  # it writes ten digits
        values["score"] = json.loads((GOLDEN / name).read_bytes().splitlines()[index])["score"]
    return {**values, "numbers": np.array(values["numbers"], np.int64)}


@loop_over("name", FILES)
def test_golden_files(name: str) -> None:
    src = dataformats.open(GOLDEN / name)
    assert (src.format, src.payload, src.spec) == ("jsonl", "json_object", dataformats.Spec(TYPES))
    assert len(src) == 60
    assert all(is_same_value(found, expected(index, name)) for index, found in enumerate(src))
    order = np.random.default_rng(3).permutation(60).tolist()
    assert all(is_same_value(found, expected(index, name)) for index, found in zip(order, src.read(order), strict=True))
    assert is_same_value(src[17], expected(17, name))
    assert dataformats.verify(GOLDEN / name).ok


@loop_over("name, bad, n", [("cut.jsonl", 59, 60), ("merged.jsonl", 0, 59), ("zeros.jsonl", 0, 60)])
def test_damaged_golden_files(name: str, bad: int, n: int) -> None:
    src = dataformats.open(GOLDEN / "corrupt" / name)
    batch = src.read(range(n), on_corrupt="omit")
    assert len(src) == n
    assert list(batch.failed) == [bad]
    with pytest.raises(CorruptRecordError) as caught:
        src[bad]
    assert (caught.value.index, caught.value.path) == (bad, str(GOLDEN / "corrupt" / name))
    assert not dataformats.verify(GOLDEN / "corrupt" / name).ok


def test_truncated_gzip_keeps_whole_lines() -> None:
    src = dataformats.open(GOLDEN / "corrupt" / "cut.jsonl.gz")
    n = len(src)
    assert 40 < n < 60
    assert all(is_same_value(src[index], expected(index)) for index in range(n - 1))
    with pytest.raises(FormatError, match="whole line"):
        src[n - 1]


@loop_over(
    "data, lines",
    [
        (b"", []),
        (b"\n", [""]),
        (b"a", ["a"]),
        (b"a\n\nb\n", ["a", "", "b"]),
        (b"a\r\n\r\nb\r\n", ["a", "", "b"]),
        (b"a\r\nb", ["a", "b"]),
        (b"a\r\nb\nc\r\n", ["a\r", "b", "c\r"]),
        (b"\xef\xbb\xbf\xc3\xa9\n", ["é"]),
        (b" \n\t\n", [" ", "\t"]),
    ],
)
def test_ends_of_text_lines(tmp_path: Path, data: bytes, lines: list[str]) -> None:
    (tmp_path / "x.txt").write_bytes(data)
    assert list(dataformats.open(tmp_path / "x.txt", format="text")) == lines
    (tmp_path / "x.txt.gz").write_bytes(gzip.compress(data))
    assert list(dataformats.open(tmp_path / "x.txt.gz", format="text")) == lines


def test_windows_join(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines, blanks and ends of two bytes that lie across windows of any size."""
    generator = random.Random(SEED)
    path = tmp_path / "x.jsonl"
    for size in (1, 2, 3, 7, 64):
        monkeypatch.setattr(line_scan, "_WINDOW", size)
        for _ in range(share(40)):
            values = [generator.randrange(10 ** generator.randrange(1, 9)) for _ in range(9)]
            ends = [generator.choice(["\n", "\r\n", "\n\n", "\n \r\n"]) for _ in values]
            text = "".join(f'{{"n":{value}}}{end}' for value, end in zip(values, ends, strict=True))
            path.write_bytes(text.encode())
            src = dataformats.open(path, index=str(tmp_path / f"{generator.random()}"))
            assert [found["n"] for found in src] == values


@loop_over("size", [1, 2, 3, 4])
def test_ends_of_two_bytes_between_windows(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_scan, "_WINDOW", size)
    (tmp_path / "x.txt").write_bytes(b"a\r\nbc\r\n\r\nd\r\n")
    assert list(dataformats.open(tmp_path / "x.txt", format="text")) == ["a", "bc", "", "d"]


def test_index_follows_an_append(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"a":1}\n')
    assert len(dataformats.open(path)) == 1
    with path.open("a") as file:
        file.write('{"a":2}\n{"a":3}')
    assert dataformats.open(path).read([2])["a"].tolist() == [3]


def test_long_line_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    with path.open("wb") as file:
        file.write(b'{"a": "')
        file.truncate(2**28)  # zeros without an end, sparse on the disk
    src = dataformats.open(path, format="jsonl", payload="json", max_record_bytes=2**20)
    tracemalloc.start()
    assert len(src) == 1
    with pytest.raises(FormatError, match="max_record_bytes"):
        src[0]
    assert tracemalloc.get_traced_memory()[1] < 32 * 2**20
    tracemalloc.stop()


ROWS = {
    '{"a": 9223372036854775808}': SpecError,  # of 64 bits
    '{"a": 1.5}': SpecError,
    '{"a": true}': SpecError,
    '{"a": null}': SpecError,
    "{}": SpecError,
    '{"a": 1, "b": 2}': SpecError,
    '{"a": 1}{"a": 2}': CorruptRecordError,
    '{"a": 1}, {"a": 2}': CorruptRecordError,
    "[1]": CorruptRecordError,
    '{"a": ': CorruptRecordError,
    '{"a": ' + "9" * 5000 + "}": CorruptRecordError,
    '{"a": ' + "[" * 100_000: CorruptRecordError,
    '{"a": ' + '{"a":' * 5000 + "1" + "}" * 5001: CorruptRecordError,
}


@loop_over("line", ROWS)
def test_bad_record_is_an_error_of_its_record(tmp_path: Path, line: str) -> None:
    good = ['{"a": 1}'] * 200
    (tmp_path / "x.jsonl").write_text("\n".join([*good, line, *good]))
    src = dataformats.open(tmp_path / "x.jsonl")
    src = src.with_spec({"a": "int64"})
    if line == '{"a": 1, "b": 2}':  # a sampled record has the other key
        assert src.spec == {"a": "int64", "b": "int64?"}
        assert src[200] == {"a": 1, "b": 2}
        return
    with pytest.raises(ROWS[line]) as caught:
        src.read([3, 200])
    assert caught.value.index == 200  # type: ignore[attr-defined]  # both have it
    assert src.read([199, 201])["a"].tolist() == [1, 1]


def test_inferred_types(tmp_path: Path) -> None:
    rows = [
        {"big": 2**64, "mix": 1, "num": 1, "null": None, "empty": [], "list": [1], "deep": [[1]], "sur": "\ud800"},
        {
            "big": 1,
            "mix": "a",
            "num": 1.5,
            "null": None,
            "empty": [],
            "list": [2.5],
            "deep": [],
            "sur": "a",
            "may": True,
        },
    ]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    src = dataformats.open(tmp_path / "x.jsonl")
    assert src.spec.to_json() == {
        "big": "json", "mix": "json", "num": "float64", "null": "json?", "empty": "json", "list": "float64[]",
        "deep": "json", "sur": "json", "may": "bool?",
    }  # fmt: skip
    assert src[0]["big"] == 2**64
    with pytest.raises(SpecError, match="sur"):
        src.with_spec({"sur": "utf8"})[0]


def test_records_with_few_of_many_fields(tmp_path: Path) -> None:
    """Only the values that are there are looked at: as they are read one by one, nulls and misfits included."""
    rows: list[dict[str, Any]] = [{"all": row, f"k{row}": row or None, f"l{row}": [row] * row} for row in range(40)]
    path = tmp_path / "x.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = dataformats.open(path)
    batch = source.read(range(40))
    assert batch["all"].tolist() == list(range(40))
    for row, expected in enumerate(rows):
        values = {name: column[row] for name, column in batch.items() if getattr(column, "present", [True] * 40)[row]}
        assert {name: np.asarray(value).tolist() for name, value in values.items()} == {
            name: value for name, value in expected.items() if value is not None
        }
    with pytest.raises(SpecError, match=r"record 0 of .*field 'k1': expected int64, found nothing"):
        source.with_spec({**source.spec, "k1": "int64"}).read(range(40))


def test_an_empty_compressed_file_comes_first(tmp_path: Path) -> None:
    for ending, line in (("jsonl", b'{"a": 1}\n'), ("txt", b"a\n")):
        for number, content in enumerate((b"", line)):
            (tmp_path / f"{ending}-{number}.{ending}.gz").write_bytes(gzip.compress(content))
        assert len(dataformats.open(tmp_path / f"{ending}-*.gz")) == 1
        assert dataformats.open(tmp_path / f"{ending}-0.{ending}.gz").format == ("text" if ending == "txt" else ending)


def test_numbers_are_exact(tmp_path: Path) -> None:
    lines = ['{"x": 0.1, "y": NaN, "n": 3}', '{"x": -0.0, "y": -Infinity, "n": 255}', '{"x": 5e-324, "y": 2, "n": 0}']
    (tmp_path / "x.jsonl").write_text("\n".join(lines))
    src = dataformats.open(tmp_path / "x.jsonl", spec={"x": "float64", "y": "float32", "n": "uint8"})
    batch = src.read(range(3))
    assert batch["x"].tobytes() == np.array([0.1, -0.0, 5e-324]).tobytes()
    assert np.array_equal(batch["y"], np.array([np.nan, -np.inf, 2], np.float32), equal_nan=True)
    for line, kind in (('{"x": 1e999}', "float64"), ('{"x": 9007199254740993}', "float64"), ('{"x": 256}', "uint8")):
        (tmp_path / "y.jsonl").write_text(lines[2] + "\n" + line)
        with pytest.raises(SpecError) as caught:
            dataformats.open(tmp_path / "y.jsonl", spec={"x": kind}).read([1])
        assert caught.value.index == 1


def test_written_values_come_back_through_json(tmp_path: Path) -> None:
    records = [expected(index) for index in range(60)]
    for name in ("x.jsonl", "x.jsonl.gz"):
        with dataformats.create(tmp_path / name, spec=TYPES) as writer:
            writer.extend(records)
    text = (tmp_path / "x.jsonl").read_bytes()
    assert [json.loads(line) for line in text.splitlines()] == [record(index) for index in range(60)]
    assert gzip.decompress((tmp_path / "x.jsonl.gz").read_bytes()) == text


@loop_over("kind", ["bytes", "jpg", "msgpack", "array", "bytes[]"])
def test_blobs_are_refused(tmp_path: Path, kind: str) -> None:
    with pytest.raises(SpecError, match="JSON holds numbers, text and documents"):
        dataformats.create(tmp_path / "x.jsonl", spec={"x": kind})


@loop_over("text", ["a\nb", "a\r", "\ufeffa"])
def test_ambiguous_lines_of_text_are_refused(tmp_path: Path, text: str) -> None:
    with dataformats.create(tmp_path / "x.txt") as writer:
        with pytest.raises(SpecError, match="a line of text"):
            writer.append(text)
        writer.append("whole")
    assert list(dataformats.open(tmp_path / "x.txt")) == ["whole"]


def test_lone_surrogate_is_not_written(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "x.jsonl", spec={"t": "utf8"}) as writer:
        with pytest.raises(CodecError, match="surrogates"):
            writer.append({"t": "\ud800"})
        writer.append({"t": "é"})
    assert len(dataformats.open(tmp_path / "x.jsonl")) == 1


def test_append_extends_plain_files_alone(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"a":1}\n\n{"a":2}\n')
    with dataformats.create(path, append=True, spec={"a": "int64"}) as writer:
        writer.append({"a": 3})
    assert dataformats.open(path).read(range(3))["a"].tolist() == [1, 2, 3]
    path.write_text('{"a":1}')
    with pytest.raises(DataFormatsError, match="last line without an end"):
        dataformats.create(path, append=True, spec={"a": "int64"})


def test_zstd(tmp_path: Path) -> None:
    zstd = pytest.importorskip("backports.zstd")
    whole = (GOLDEN / "python.jsonl").read_bytes()
    parts = [whole[first : first + 1000] for first in range(0, len(whole), 1000)]
    (tmp_path / "x.jsonl.zst").write_bytes(b"".join(map(zstd.compress, parts)))
    compressor = zstd.ZstdCompressor()
    (tmp_path / "y.jsonl.zst").write_bytes(compressor.compress(whole) + compressor.flush())  # no size in its header
    for name in ("x", "y"):
        src = dataformats.open(tmp_path / f"{name}.jsonl.zst")
        assert is_same_value(src[41], expected(41))
        assert all(is_same_value(found, expected(index)) for index, found in enumerate(src))


def test_zstd_is_written_in_frames(tmp_path: Path) -> None:
    zstd = pytest.importorskip("backports.zstd")
    rows = [{"n": number, "text": "a b " * (number % 900)} for number in range(4000)]
    spec = {"n": "int64", "text": "utf8"}
    text = b"".join(json.dumps(row, separators=(",", ":")).encode() + b"\n" for row in rows)
    for name, size in (("one", 4000), ("many", 7)):
        with dataformats.create(tmp_path / f"{name}.jsonl.zst", spec=spec) as out:
            for first in range(0, 4000, size):
                out.extend(rows[first : first + size])
    stored = (tmp_path / "one.jsonl.zst").read_bytes()
    assert stored == (tmp_path / "many.jsonl.zst").read_bytes()
    assert zstd.decompress(stored) == text
    source = dataformats.open(tmp_path / "one.jsonl.zst")
    assert source[3999] == rows[3999]
    assert source.block_starts is not None
    assert len(source.block_starts) == -(-len(text) // 2**20)
    report = dataformats.convert(source, tmp_path / "shards", "jsonl", compression="zstd", shard_records=1500)
    assert (report.records, len(list((tmp_path / "shards").glob("*.jsonl.zst")))) == (4000, 3)


@loop_over("cut", [0, 1, 5, 1000, 30_000])
def test_truncated_zstd_keeps_whole_lines(cut: int, tmp_path: Path) -> None:
    pytest.importorskip("backports.zstd")
    rows = [random.Random(number).randbytes(150).hex() for number in range(7000)]
    path = tmp_path / "x.jsonl.zst"
    with dataformats.create(path, payload="json") as out:
        out.extend(rows)
    (tmp_path / "x.jsonl.zst.dataformats.json").unlink()
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) - cut])
    source = dataformats.open(path, payload="json")
    n = len(source) - bool(cut)  # the last record has the error
    assert list(source[:n]) == rows[:n]
    assert n == {0: 7000, 30_000: 2**20 // 303}.get(cut, 2 * 2**20 // 303)
    if cut:
        with pytest.raises(FormatError, match="ends in a frame of zstd"):
            source[n]
    writer = JsonLinesWriter(path, "jsonl", resume=True, compression="zstd")
    assert writer.n_records == n
    for row in rows[n:]:
        writer.append(json.dumps(row).encode())
    writer.close()
    assert path.read_bytes() == whole


def test_resume_raises_if_lines_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only damage ends the records; after another error they are still there."""
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(gzip.compress(b"1\n2\n"))

    def pread(file: DecompressedFile, offset: int, length: int) -> bytes:
        raise FormatError("the file was replaced", path=file.name)

    monkeypatch.setattr(DecompressedFile, "pread", pread)
    with pytest.raises(FormatError, match="was replaced"):
        JsonLinesWriter(path, "jsonl", resume=True, compression="gzip")
    assert gzip.decompress(path.read_bytes()) == b"1\n2\n"


def test_no_record_of_a_gzip_member_with_a_wrong_checksum_is_read(tmp_path: Path) -> None:
    """Members of level 0 store letters as they are: one changes, and the checksum at the end of the member does not."""
    path = tmp_path / "x.txt.gz"
    members = [gzip.compress(b"one\ntwo\n", 0), gzip.compress(b"three\nfour\n" * 20_000, 0)]
    sound = b"".join(members)
    path.write_bytes(sound)
    os.utime(path, (10**9, 10**9))
    assert dataformats.open(path)[2] == "three"
    for at, n in (sound.index(b"three"), 2), (sound.index(b"one"), 0):
        path.write_bytes(sound[:at] + b"X" + sound[at + 1 :])
        source = dataformats.open(path)
        assert list(source[:n]) == ["one", "two"][:n]
        assert len(source) == n + 1
        with pytest.raises(FormatError, match=rf"incorrect data check.* from {4 * n} on, where the member begins"):
            source[n]


def test_compressed_bytes_changed_behind_an_index_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "x.txt.gz"
    sound = gzip.compress(b"three\nfour\n" * 20_000, 0)
    path.write_bytes(sound)
    os.utime(path, (10**9, 10**9))
    assert len(dataformats.open(path)) == 40_000
    path.write_bytes(sound[:150_002] + b"X" + sound[150_003:])
    os.utime(path, (10**9, 10**9))
    source = dataformats.open(path)
    assert source[23_000] == "three"
    for row in (27_000, 39_999):
        with pytest.raises(ChecksumError, match="in 131072 to 196608"):
            source[row]


def test_beginnings_of_zstd_files(tmp_path: Path) -> None:
    """A block of 128 KB is decoded as a whole; and programs such as pzstd write a skippable frame first."""
    zstd = pytest.importorskip("backports.zstd")
    lines = [b'{"a": "%s"}\n' % random.Random(number).randbytes(150).hex().encode() for number in range(1000)]
    skippable = bytes.fromhex("502a4d18 04000000 00000000")
    for name, data in (("x", zstd.compress(b"".join(lines))), ("y", skippable + zstd.compress(lines[0]))):
        (tmp_path / f"{name}.jsonl.zst").write_bytes(data)
        source = dataformats.open(tmp_path / f"{name}.jsonl.zst")
        assert source[0] == json.loads(lines[0])
        assert len(source) == (1 if name == "y" else 1000)


def test_text_gives_way_in_a_folder(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "x.jsonl") as writer:
        writer.append({"a": 1})
    (tmp_path / "README.txt").write_text("about\n")
    assert dataformats.open(tmp_path).format == "jsonl"
    (tmp_path / "x.jsonl").unlink()
    for sidecar in tmp_path.glob("x.jsonl*"):
        sidecar.unlink()
    assert dataformats.open(tmp_path).format == "text"


def test_mutated_lines_raise_only_our_errors(tmp_path: Path) -> None:
    """5,000 lines with flipped bits: each is the value that Python's json gives, or an error of its record."""
    generator = random.Random(8)
    lines = []
    for index in range(5000):
        damaged = bytearray(
            json.dumps({"a": index, "t": "é\n", "l": [1.5, None]}, ensure_ascii=index % 2 == 0).encode()
        )
        for _ in range(generator.randrange(1, 3)):
            damaged[generator.randrange(len(damaged))] ^= 1 << generator.randrange(8)
        lines.append(bytes(damaged).replace(b"\n", b"?"))
    (tmp_path / "x.jsonl").write_bytes(b"\n".join([b'{"a": 0}', *lines]))
    src = dataformats.open(tmp_path / "x.jsonl", spec={"a": "json?", "t": "json?", "l": "json?"}, payload="json_object")
    batch = src.read(range(len(src)), on_corrupt="omit")
    sound = dict(zip(batch.indices.tolist(), batch, strict=True))
    assert len(src) == 5001
    for index, line in enumerate(lines, 1):
        try:
            value = json.loads(line.decode())
        except ValueError:
            assert index in batch.failed
            continue
        assert isinstance(value, dict)
        assert is_same_value(sound[index], {name: value[name] for name in src.spec if value.get(name) is not None})


@loop_over(
    "usual, other, remedy",
    [
        ("1", '"s"', "'json'"),
        ("1", "1.5", "'float64'"),
        ("1.5", "true", "'json'"),
        ("1.5", str(2**60 + 1), "'json'"),
        ("[1]", "3", "'json'"),
        ("1.5", "1e400", "'json'"),
    ],
)
def test_the_remedy_of_a_misfit_fits_all_records(usual: str, other: str, remedy: str, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(f'{{"x":{usual}}}\n' * 2000 + f'{{"x":{other}}}\n')
    source = dataformats.open(path)
    with pytest.raises(SpecError, match=f"record 2000 .*Pass.*'x': {remedy}"):
        source[2000]
    wider = source.with_spec({"x": remedy.strip("'")})
    assert len(wider.read([0, 2000])) == 2


def test_lines_with_other_names_each(tmp_path: Path) -> None:
    rows = [{f"k{i}": [{"n": i}], **({"k0": None} if i % 7 == 3 else {})} for i in range(40)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = dataformats.open(tmp_path / "a.jsonl", spec={f"k{i}": "json?" for i in range(40)})
    assert list(source.read(range(40))) == [{f"k{i}": [{"n": i}]} for i in range(40)]


@pytest.mark.parametrize(
    "parts", [[b"", b'{"x": 1}\n{"x": 2}\n'], [b'{"x"', b': 1}\n{"x": 2}\n'], [b"", b"", b'{"x": 1}\n{"x":', b" 2}"]]
)
def test_gzip_members_begin_anywhere(parts: list[bytes], tmp_path: Path) -> None:
    for name in ("a.jsonl.gz", "a.gz"):
        (tmp_path / name).write_bytes(b"".join(map(gzip.compress, parts)))
        source = dataformats.open(tmp_path / name)
        assert (source.format, list(source)) == ("jsonl", [{"x": 1}, {"x": 2}])
