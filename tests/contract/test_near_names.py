"""Names of other programs are understood, or answered with ours."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats import Loader, Ragged, RecordBatch, RecordWriter, Spec
from dataformats.foreign_names import BATCH, LOADER, MODULE, RAGGED, SOURCE, TYPES, WRITER
from dataformats.registry import backends, codecs
from dataformats.spec import NUMBER_TYPES
from dataformats.testing.loop_over import loop_over

DIGITS = "tests/golden/real/digits-*.tfrecord"
SPEC = {"image": "uint8[8,8]", "label": "int64"}


@pytest.fixture(scope="module")
def digits() -> dataformats.RecordSource:
    return dataformats.open(DIGITS, spec=SPEC)


@loop_over(
    "kind, text",
    [
        (int, "int64"), (float, "float64"), (bool, "bool"), (str, "utf8"), (bytes, "bytes"), (np.uint8, "uint8"),
        (np.dtype(">i4"), "int32"), (np.dtype("float16"), "float16"), (np.bool_, "bool"),
    ],
)  # fmt: skip
def test_types_of_python_and_numpy(kind: Any, text: str) -> None:
    assert Spec({"a": kind}) == {"a": text}


@loop_over("kind", [dict, list, None, 3, np.dtype("M8[s]"), np.dtype("i4,i4"), ["int64"]])
def test_spec_refuses_unknown_types(kind: Any) -> None:
    with pytest.raises(dataformats.SpecError, match="is not a type"):
        Spec({"a": kind})


@loop_over("name", sorted(TYPES))
def test_a_type_of_another_program_is_answered(name: str) -> None:
    assert name not in codecs
    assert {meant.removesuffix("[]") for meant in TYPES[name]} <= {*codecs, *NUMBER_TYPES}
    with pytest.raises(dataformats.UnknownNameError, match=re.escape(f"nearest: {', '.join(TYPES[name])}")) as caught:
        dataformats.open(DIGITS, spec={"label": name})[0]
    assert caught.value.remedy == f"Pass spec= with {' or '.join(map(repr, TYPES[name]))}."


def test_a_codec_of_the_caller_goes_before_such_names() -> None:
    own = (lambda value: b"", lambda blob: len(blob))
    assert dataformats.open(DIGITS, payload="str", codecs={"str": own})[0] == 97


@loop_over("name", ["tfrecord", "TFRecord", ".tfrecord", "tfrecords", "tfrec"])
def test_suffixes_and_spellings_of_formats(name: str, tmp_path: Path) -> None:
    assert dataformats.open(DIGITS, format=name).format == "tfrecord"
    with dataformats.create(tmp_path / "a", name) as writer:
        writer.append(b"one")
    assert dataformats.convert(tmp_path / "a", tmp_path / "b", "FFR").format == "ffrecord"
    assert backends.get("ffr") is backends.get("ffrecord")


def test_swapped_arguments_of_create(tmp_path: Path) -> None:
    path = tmp_path / "a.ffr"
    with pytest.raises(TypeError, match=re.escape(f"create({str(path)!r}, 'ffrecord')")):
        dataformats.create("ffrecord", path)  # type: ignore[arg-type]


def test_lists_where_several_arguments_are_meant(digits: Any) -> None:
    assert tuple(digits.select(["label"]).spec) == tuple(digits.select("label").spec)
    assert [len(part) for part in digits.split([0.8, 0.1, 0.1])] == [len(part) for part in digits.split(0.8, 0.1, 0.1)]


CALLS: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (lambda src: src.select([0, 1]), TypeError, r"take\(indices\) selects records"),
    (lambda src: src.split("0.8"), ValueError, "fractions in"),
    (lambda src: src.split(80, 20), ValueError, "fractions in"),
    (lambda src: src.read(slice(1, 3)), TypeError, r"source\[1:3\] is a view"),
    (lambda src: src.read(3), TypeError, r"source\[3\] is one record"),
    (lambda src: src.read("label"), TypeError, r"\['label'\]"),
    (lambda src: src.read([0], "label"), TypeError, r"pass \['label'\]"),
    (lambda src: src.take([True]), TypeError, r"source.where\(mask\)"),
    (lambda src: src["label"], TypeError, r"source.select\('label'\) is a view"),
    (lambda src: src[[0, 1]], TypeError, r"source.read\(indices\) is a batch"),
    (lambda src: src[True], TypeError, "found True"),
    (lambda src: src.shuffle(100), AttributeError, r"'shuffle'; instead: dataformats.Loader\("),
    (lambda src: src.nothing, AttributeError, "has no attribute 'nothing'$"),
    (lambda src: src.read([0])["image"].nothing, AttributeError, "no attribute 'nothing'$"),
    (lambda src: src.read([0]).to_pandas(), AttributeError, r"instead: batch.to_arrow\(\)"),
    (lambda src: Ragged(np.arange(2), np.array([0, 2])).mean(), AttributeError, r"instead: .values has all values"),  # type: ignore[attr-defined]
    (lambda src: Loader(src, 4).reset(), AttributeError, r"instead: loader.set_epoch\("),
    (lambda src: dataformats.open(src), TypeError, "found a source, which is open"),
    (lambda src: src.spec["lable"], KeyError, "nearest: label"),
    (lambda src: dataformats.load_dataset, AttributeError, r"instead: dataformats.open\(path\)"),  # type: ignore[attr-defined]
    (lambda src: Loader(src, 4, num_workers=2, pin_memory=True), TypeError, r"num_workers= use workers=\. .*device="),  # type: ignore[call-arg]
    (lambda src: Loader(src, 4, nothing=2), TypeError, "^unknown arguments: nothing$"),  # type: ignore[call-arg]
    (
        lambda src: dataformats.convert(src, "x.ffr", "ffrecord", shuffle=7),
        TypeError,
        "For shuffle= use shuffle_seed= of",
    ),
    (lambda src: dataformats.open(DIGITS, batch_size=4), TypeError, r"For batch_size= use dataformats.Loader\("),
]


@loop_over("call, error, words", CALLS)
def test_a_call_of_another_program_is_answered(digits: Any, call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call(digits)


def test_columns_are_no_records(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "a.ffr", spec={"n": "int64"}) as writer:
        with pytest.raises(TypeError, match=r"append takes a record; .*RecordBatch\(columns"):
            writer.extend({"n": [1, 2]})
        with pytest.raises(AttributeError, match=r"'write'; instead: writer.append\(record\)"):
            writer.write({"n": 1})  # type: ignore[attr-defined]
        writer.extend(dataformats.RecordBatch({"n": np.array([1, 2])}, indices=np.arange(2)))
    assert len(dataformats.open(tmp_path / "a.ffr")) == 2


def test_answers_hide_no_name_of_ours() -> None:
    tables = {
        dataformats.RecordSource: SOURCE,
        RecordBatch: BATCH,
        Ragged: RAGGED,
        RecordWriter: WRITER,
        Loader: LOADER,
    }
    assert not [(kind, name) for kind, table in tables.items() for name in table if hasattr(kind, name)]
    assert not MODULE.keys() & set(dir(dataformats))


def test_failing_property_keeps_its_error() -> None:
    class Broken(dataformats.RecordSource):
        __len__ = read = spec = None  # type: ignore[assignment]

        @property
        def fingerprint(self) -> str:
            return self.missing  # type: ignore[attr-defined, no-any-return]

        @property
        def size(self) -> str:
            return self.missing  # type: ignore[attr-defined, no-any-return]

    broken = Broken()
    for name in ("fingerprint", "size"):
        with pytest.raises(AttributeError, match="'missing'"):
            getattr(broken, name)


def test_the_signature_of_the_loader_stays() -> None:
    assert list(inspect.signature(Loader).parameters)[:3] == ["source", "batch_size", "shuffle"]
