"""Megatron: files of megatron-core, damaged pairs, windows over the token stream, and a writer that is killed."""

from __future__ import annotations

import shutil
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.backends.megatron import BACKEND
from dataformats.backends.megatron.writer import MegatronWriter
from dataformats.errors import FormatError, SpecError, TruncatedError
from dataformats.inspecting.verification import verify
from dataformats.spec import Spec
from dataformats.storage import atomic
from dataformats.testing.loop_over import loop_over
from tests.golden.megatron.make import DTYPES, document, sentence_lengths

GOLDEN = Path(__file__).parents[1] / "golden" / "megatron"
STREAM = np.concatenate([document(index) for index in range(20)])


def check_documents(source: Any, expected: list[Any]) -> None:
    assert len(source) == len(expected)
    batch = source.read(range(len(expected)))["tokens"]
    for index, tokens in enumerate(expected):
        for found in (source[index]["tokens"], batch[index]):
            assert found.dtype == tokens.dtype
            np.testing.assert_array_equal(found, tokens)


@loop_over("dtype", DTYPES)
def test_original_files(tmp_path: Path, dtype: str) -> None:
    """Documents are those of the original, and our own file of them equals it byte for byte."""
    expected = [document(index, dtype) for index in range(20)]
    source = dataformats.open(GOLDEN / f"{dtype}.bin")
    check_documents(source, expected)
    assert str(source.spec["tokens"]) == f"{dtype}[]"
    assert verify(GOLDEN / dtype).ok
    copied = [tmp_path / "copied.bin", tmp_path / "again.bin"]
    with dataformats.create(copied[0], spec={"tokens": f"{dtype}[]"}) as writer:
        writer.extend({"tokens": tokens} for tokens in expected)
    assert dataformats.convert(source, copied[1]).records == 20
    for path in copied:
        for ending in (".bin", ".idx"):
            assert path.with_suffix(ending).read_bytes() == (GOLDEN / f"{dtype}{ending}").read_bytes()


@loop_over("name", ["uint16.bin", "uint16.idx", "uint16", "uint16.*"])
def test_each_name_of_a_pair(name: str) -> None:
    source = dataformats.open(GOLDEN / name)
    assert source.paths == (str(GOLDEN / "uint16.bin"),)
    check_documents(source, [document(index) for index in range(20)])


def test_folder_and_list_of_pairs(tmp_path: Path) -> None:
    for name in ("int32", "sentences"):
        shutil.copy(GOLDEN / f"{name}.bin", tmp_path)
        shutil.copy(GOLDEN / f"{name}.idx", tmp_path)
    (tmp_path / "vocabulary.txt").write_text("other files are left out")
    expected = [document(index % 20, "int32") for index in range(40)]
    for path in (tmp_path, [tmp_path / "int32", tmp_path / "sentences"], GOLDEN / "merged"):
        check_documents(dataformats.open(path), expected)
    check_documents(dataformats.open([GOLDEN / "int32", GOLDEN / "uint16"]), expected)


def test_index_maps_beside_a_pair(tmp_path: Path) -> None:
    """Megatron-LM leaves them there as NumPy arrays."""
    with dataformats.create(tmp_path / "x.bin", "megatron", spec={"tokens": "int32[]"}) as writer:
        writer.append({"tokens": [7]})
    np.save(tmp_path / "x_train_indexmap_10ns_2sl_1s_doc_idx.npy", np.arange(4, dtype=np.int32))
    assert dataformats.open(tmp_path).format == "megatron"


def test_prefix_of_a_url(tmp_path: Path) -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    for ending in (".bin", ".idx"):
        memory.pipe(f"/megatron/uint16{ending}", (GOLDEN / f"uint16{ending}").read_bytes())
    check_documents(dataformats.open("memory://megatron/uint16"), [document(index) for index in range(20)])
    (tmp_path / "x.tfrecord.idx").write_bytes(b"an index of another program")
    with pytest.raises(FileNotFoundError, match=r"x\.tfrecord'$"):
        dataformats.open(tmp_path / "x.tfrecord")


def test_sequences_are_parts_of_documents() -> None:
    documents = dataformats.open(GOLDEN / "sentences")
    check_documents(documents, [document(index, "int32") for index in range(20)])
    expected = [
        part
        for index in range(20)
        for part in np.split(document(index, "int32"), np.cumsum(sentence_lengths(index))[:-1])
    ]
    check_documents(dataformats.open(GOLDEN / "sentences", sequences=True), expected)
    with pytest.raises(ValueError, match="sequences: expected True or False, found 1"):
        dataformats.open(GOLDEN / "sentences", sequences=1)


def test_windows() -> None:
    """Windows cross documents, as in the original's data sets for pretraining, and never files."""
    for window, stride in ((1, None), (16, None), (17, 16), (4, 9), (len(STREAM), 1), (len(STREAM) + 1, None)):
        source = dataformats.open(GOLDEN / "uint16", window=window, stride=stride)
        starts = range(0, len(STREAM) - window + 1, stride or window)
        check_documents(source, [STREAM[start : start + window] for start in starts])
        assert str(source.spec["tokens"]) == f"uint16[{window}]"
        pair = dataformats.open([GOLDEN / "uint16", GOLDEN / "uint16.idx"], window=window, stride=stride)
        assert len(pair) == 2 * len(source)
        if starts:
            np.testing.assert_array_equal(pair[-1]["tokens"], source[-1]["tokens"])


@loop_over("options", [{"window": 0}, {"window": 2, "stride": 0}, {"window": 1.5}, {"window": True}])
def test_wrong_windows(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected a whole number"):
        dataformats.open(GOLDEN / "uint16", **options)


def test_options_exclude_each_other() -> None:
    with pytest.raises(SpecError, match=r"a stride needs a window\. Pass window="):
        dataformats.open(GOLDEN / "uint16", stride=2)
    with pytest.raises(SpecError, match="not from sequences"):
        dataformats.open(GOLDEN / "uint16", window=2, sequences=True)


def test_type_of_tokens() -> None:
    """Tokens may be declared as bytes, with other dims, or as numbers that hold them."""
    choices: list[dict[str, Any]] = [{}, {"window": 6}]
    for options in choices:
        found = dataformats.open(GOLDEN / "uint16", spec={"tokens": "bytes"}, **options)[3]["tokens"]
        assert found == dataformats.open(GOLDEN / "uint16", **options)[3]["tokens"].tobytes()
        dims = "[6]" if options else "[]"
        wide = dataformats.open(GOLDEN / "uint16", spec={"tokens": f"int32{dims}"}, **options)[3]["tokens"]
        assert (wide.dtype, wide.tobytes()) == (np.dtype("i4"), np.frombuffer(found, "u2").astype("i4").tobytes())
        with pytest.raises(SpecError, match=r"expected uint16.*found bool.*Pass spec="):
            dataformats.open(GOLDEN / "uint16", spec={"tokens": "bool[]"}, **options)[3]
    pairs = dataformats.open(GOLDEN / "uint16", window=6, spec={"tokens": "uint16[3,2]"})
    np.testing.assert_array_equal(pairs[1]["tokens"], STREAM[6:12].reshape(3, 2))


@loop_over(
    "name, message",
    [
        ("cut_tables", "not as long as its tables"),
        ("cut_header", r"the \.idx file has no header.*Restore it, or open the \.bin file as tokens"),
        ("version_2", "the version of the .idx file is unknown: expected 1, found 2"),
        ("code_7", "neither dtype that the code may mean fits the sequences: found float32 or float64"),
        ("huge_count", "not as long as its tables"),
        ("../modes", "modes of multimodal data are not read"),
    ],
)
def test_pair_with_a_damaged_header(name: str, message: str) -> None:
    with pytest.raises(FormatError, match=message.removeprefix("")):
        dataformats.open(GOLDEN / "corrupt" / f"{name}.bin")
    assert not verify(GOLDEN / "corrupt" / f"{name}.bin").ok


@pytest.mark.parametrize("name", ["documents_fall", "documents_end_early"])
def test_damaged_documents(name: str) -> None:
    """Sequences and windows do not need the table of documents."""
    path = GOLDEN / "corrupt" / f"{name}.bin"
    with pytest.raises(FormatError, match=r"table of documents.*rise from 0 to 20.*sequences=True"):
        dataformats.open(path)
    check_documents(dataformats.open(path, sequences=True), [document(index) for index in range(20)])
    assert len(dataformats.open(path, window=4)) == len(STREAM) // 4


def test_documents_whose_differences_overflow(tmp_path: Path) -> None:
    idx = bytearray((GOLDEN / "uint16.idx").read_bytes())
    n_documents = int.from_bytes(idx[26:34], "little")
    middle = len(idx) - 8 * (n_documents // 2)
    idx[middle : middle + 16] = struct.pack("<2q", 2**62, -(2**62) - 2)
    (tmp_path / "x.idx").write_bytes(idx)
    (tmp_path / "x.bin").write_bytes((GOLDEN / "uint16.bin").read_bytes())
    with pytest.raises(FormatError, match="table of documents is damaged"):
        dataformats.open(tmp_path / "x.bin")


@loop_over("name, wrong", [("negative_size", 0), ("pointer_outside", 1), ("cut_data", 19)])
def test_damaged_record(name: str, wrong: int) -> None:
    """The other documents are readable; windows need all sequences, and are whole or an error."""
    path = GOLDEN / "corrupt" / f"{name}.bin"
    source = dataformats.open(path)
    failed = source.read(range(20), on_corrupt="omit").failed
    assert list(failed) == [wrong]
    with pytest.raises(FormatError, match=f"record {wrong} of .*reaches outside the file"):
        source[wrong]
    for index in {*range(20)} - {wrong}:
        np.testing.assert_array_equal(source[index]["tokens"], document(index))
    if name != "cut_data":
        with pytest.raises(FormatError, match="need sequences one behind another"):
            dataformats.open(path, window=4)
        return
    windows = dataformats.open(path, window=4)  # 2 whole tokens and a half are lost
    assert len(windows) == len(STREAM) // 4
    with pytest.raises(TruncatedError):
        windows[-1]
    np.testing.assert_array_equal(windows[-2]["tokens"], STREAM[: len(STREAM) // 4 * 4].reshape(-1, 4)[-2])


def test_scattered_sequences(tmp_path: Path) -> None:
    """A document of sequences that lie apart is an error; the sequences are readable."""
    shutil.copy(GOLDEN / "sentences.bin", tmp_path / "x.bin")
    tables = bytearray((GOLDEN / "sentences.idx").read_bytes())
    n = int.from_bytes(tables[18:26], "little")
    pointers = np.frombuffer(tables, "<i8", n, 34 + 4 * n)
    pointers[6] = 0  # the last sentence of document 3, of 8 tokens, moves to the front
    (tmp_path / "x.idx").write_bytes(tables)
    source = dataformats.open(tmp_path / "x")
    assert list(source.read(range(20), on_corrupt="omit").failed) == [3]
    with pytest.raises(FormatError, match=r"record 3 of .*lie apart"):
        source[3]
    assert len(dataformats.open(tmp_path / "x", sequences=True).read(range(n))) == n


@loop_over("code, dtype", [(6, "f8"), (7, "f4"), (6, "f4"), (7, "f8")])  # in Megatron, and in GPT-NeoX
def test_floats(code: int, dtype: str, tmp_path: Path) -> None:
    for lengths in ([3, 1, 4], [5]):
        values = np.arange(sum(lengths)).astype(f"<{dtype}") / 4
        ends = np.cumsum(lengths)
        (tmp_path / "x.bin").write_bytes(values.tobytes())
        tables = np.array(lengths, "<i4").tobytes() + ((ends - lengths) * values.itemsize).astype("<i8").tobytes()
        head = struct.pack("<9sQBQQ", b"MMIDIDX\0\0", 1, code, len(lengths), len(lengths) + 1)
        (tmp_path / "x.idx").write_bytes(head + tables + np.arange(len(lengths) + 1, dtype="<i8").tobytes())
        source = dataformats.open(tmp_path / "x")
        check_documents(source, np.split(values, ends[:-1]))
        assert source[0]["tokens"].dtype == values.dtype
        np.testing.assert_array_equal(dataformats.open(tmp_path / "x", window=2)[1]["tokens"], values[2:4])


@loop_over("content, message", [(b"", "is empty"), (b"TNTIDX" + bytes(60), "fairseq's older family is not read")])
def test_index_of_another_kind(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "x.idx").write_bytes(content)
    (tmp_path / "x.bin").write_bytes(b"\1\2" * 90)
    for path in (tmp_path / "x.bin", tmp_path / "x"):
        with pytest.raises(FormatError, match=message):
            dataformats.open(path)


@pytest.mark.parametrize(("name", "message"), [("no_tables.bin", "not megatron"), ("no_data.idx", ".bin file is miss")])
def test_half_a_pair(name: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        dataformats.open(GOLDEN / "corrupt" / name)
    with pytest.raises(FormatError, match="file is missing beside it"):
        dataformats.open(GOLDEN / "corrupt" / name, format="megatron")


@loop_over(
    "spec", [{"x": "int32[]"}, {"tokens": "float32[]"}, {"tokens": "int32[]", "n": "int64"}, {"tokens": "int32[][2]"}]
)
def test_refused_spec(tmp_path: Path, spec: dict[str, str]) -> None:
    with pytest.raises(SpecError, match=r"expected one field 'tokens', of uint8\[\]"):
        dataformats.create(tmp_path / "x.bin", "megatron", spec=spec)


def test_windows_become_documents(tmp_path: Path) -> None:
    source = dataformats.open(GOLDEN / "uint16", window=8)
    dataformats.convert(source, tmp_path / "x.bin", "megatron")
    check_documents(dataformats.open(tmp_path / "x"), list(STREAM[: len(STREAM) // 8 * 8].reshape(-1, 8)))


# ---- a writer that is interrupted


def unfinished(folder: Path) -> MegatronWriter:
    writer = MegatronWriter(folder / "x", "uint16", "x.bin", resume=False)
    writer.extend([{"tokens": [document(index).tobytes()]} for index in range(6)])
    return writer


def test_resume_of_a_complete_file(tmp_path: Path) -> None:
    """A writer that was killed between `close` and its new name goes on behind its last document."""
    unfinished(tmp_path).close()
    writer = MegatronWriter(tmp_path / "x", "uint16", "x.bin", resume=True)
    assert writer.n_records == 6
    writer.extend([{"tokens": [document(index).tobytes()]} for index in range(6, 20)])
    writer.close()
    assert (tmp_path / "x").read_bytes() == (GOLDEN / "uint16.bin").read_bytes()
    assert (tmp_path / "x.idx").read_bytes() == (GOLDEN / "uint16.idx").read_bytes()
    (tmp_path / "x.journal").unlink()
    with pytest.raises(FormatError, match="cannot resume an unfinished file without its journal"):
        MegatronWriter(tmp_path / "x", "uint16", "x.bin", resume=True)


def test_tables_do_not_depend_on_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [document(index) for index in range(20)]
    monkeypatch.setattr("dataformats.storage.record_journal._BLOCK_BYTES", 100)
    with dataformats.create(tmp_path / "x.bin", spec={"tokens": "uint16[]"}) as writer:
        writer.extend({"tokens": tokens} for tokens in expected)
    assert (tmp_path / "x.idx").read_bytes() == (GOLDEN / "uint16.idx").read_bytes()


def test_resume_refuses_another_dtype(tmp_path: Path) -> None:
    unfinished(tmp_path).suspend()
    with pytest.raises(SpecError, match=r"expected .*uint16.*, found .*int32"):
        MegatronWriter(tmp_path / "x", "int32", "x.bin", resume=True)


def test_killed_replacement_keeps_the_old_pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next writer moves the files back where they were."""
    path = tmp_path / "x.bin"
    arguments: dict[str, Any] = {"spec": {"tokens": "int32[]"}, "overwrite": True, "resume": True}

    def kill(moves: Any, new: Path) -> None:
        old, aside = next(iter(moves))
        old.rename(aside)
        raise KeyboardInterrupt

    for n in (1, 2):
        with monkeypatch.context() as patched, suppress(KeyboardInterrupt):
            if n == 2:
                patched.setattr(atomic, "rename_all", kill)
            with dataformats.create(path, "megatron", **arguments) as writer:
                writer.extend([{"tokens": [n]}] * n)
    assert not path.exists()
    dataformats.create(path, "megatron", **arguments).abort()
    assert [record["tokens"].tolist() for record in dataformats.open(path)] == [[1]]


def test_shards_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="cannot be shards"):
        dataformats.create(tmp_path / "x", "megatron", spec={"tokens": "int32[]"}, shard_records=3)
    assert BACKEND.stored_spec(Spec({"tokens": "int32[7]"})) == Spec({"tokens": "int32[]"})


def test_new_pair_needs_its_ending(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"expected 'new\.bin', found 'new'"):
        dataformats.create(tmp_path / "new", "megatron", spec={"tokens": "int32[]"})
