"""Remedies work: each call fails, and succeeds with the arguments that its error names, as options and in Python."""

from __future__ import annotations

import ast
import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.cli import exit_codes
from dataformats.errors import DataFormatsError, Remedy, SpecError
from dataformats.images import CenterCrop
from dataformats.testing.loop_over import loop_over
from tests.cases import GOLDEN
from tests.cli.conftest import Run

DIGITS, PHOTOS = str(GOLDEN / "real" / "digits-00000-of-00003.tfrecord"), str(GOLDEN / "real" / "photos.tfrecord")
PACKAGE = Path(dataformats.__file__).parent
Call = tuple[str, list[Any], dict[str, Any]]


def convert(source: Path, destination: Path, **options: Any) -> None:
    of_source = {name.removeprefix("from_"): value for name, value in options.items() if name.startswith("from_")}
    others = {name: value for name, value in options.items() if not name.startswith("from_")}
    dataformats.convert(source, destination, source_options=of_source, **others)


def created(path: Path, record: Any = b"one", format: str | None = None, **options: Any) -> None:
    with dataformats.create(path, format or (None if path.suffix else "ffrecord"), **options) as writer:
        writer.append(record)


def zipped(paths: Mapping[str, str], **options: Any) -> None:
    dataformats.zip({name: dataformats.open(path) for name, path in paths.items()}, **options)


COMMANDS: dict[str, Callable[..., Any]] = {
    "cat": lambda path, **options: list(dataformats.open(path, **options)),
    "convert": convert,
}
CALLS: dict[str, Callable[..., Any]] = {
    **COMMANDS,
    "create": created,
    "decode": lambda path, **options: dataformats.open(path, **options).read([0], decode={"image": CenterCrop(8)}),
    "packed": lambda path, **options: dataformats.packed(dataformats.open(path, **options), "tokens", length=4),
    "zip": zipped,
}


def written(path: Path, spec: Mapping[str, str] | None, *records: Any, **options: Any) -> Path:
    """Write records; return the path."""
    with dataformats.create(path, spec=spec, **options) as writer:
        writer.extend(records)
    return path


def without_sidecar(path: Path) -> Path:
    path.with_name(f"{path.name}.dataformats.json").unlink()
    return path


def joined(path: Path, *parts: Path) -> Path:
    """Concatenate files whose records are framed one by one."""
    path.write_bytes(b"".join(part.read_bytes() for part in parts))
    return path


def text(folder: Path) -> Call:
    (folder / "words").write_text("one\ntwo\n")
    return "cat", [folder / "words"], {}


def link_out(folder: Path) -> Call:
    text(folder)
    (folder / "data").mkdir()
    (folder / "data" / "0.txt").symlink_to("../words")
    return "convert", [folder / "data", folder / "a.ffr"], {}


def several_formats(folder: Path) -> Call:
    written(folder / "a.ffr", None, b"one")
    shutil.copy(DIGITS, folder)
    return "cat", [folder], {}


def stale_sidecar(folder: Path) -> Call:
    written(folder / "a.ffr", None, *"abc", payload="utf8")
    shutil.copy(written(folder / "b.ffr", None, "a", payload="utf8"), folder / "a.ffr")
    return "cat", [folder / "a.ffr"], {}


def unknown_field(folder: Path) -> Call:
    examples = without_sidecar(written(folder / "a.ffr", {"n": "int64"}, {"n": 1}))
    return "convert", [examples, folder / "b.ffr"], {"fields": ["n"]}


def field_for_no_member(folder: Path) -> Call:
    lists = written(folder / "a.ffr", {"n": "int64", "pages": "bytes[]"}, {"n": 1, "pages": [b"a"]})
    return "convert", [lists, folder / "b.tar"], {}


def no_examples(folder: Path) -> Call:
    return "cat", [written(folder / "a.ffr", None, b"text")], {"payload": "example"}


def tokens(folder: Path) -> Call:
    return "cat", [GOLDEN / "tokens" / "train.bin"], {"format": "tokens", "window": 8}


def plain_tokens(folder: Path) -> Call:
    (folder / "a.bin").write_bytes(b"\x01\x02" * 2048)
    return "cat", [folder / "a.bin"], {}


def latin1_names(folder: Path) -> Call:
    pytest.importorskip("pyarrow")
    (folder / "a.csv").write_text("Straße,n\nx,1\n", "latin-1")
    return "cat", [folder / "a.csv"], {}


def escaped_quotes(folder: Path) -> Call:
    pytest.importorskip("pyarrow")
    (folder / "a.csv").write_text('a,b\n"says \\"hi, you\\"",1\n', "utf-8")
    return "cat", [folder / "a.csv"], {}


def nanogpt(folder: Path) -> Call:
    return "cat", [GOLDEN / "tokens" / "train.bin"], {}


def empty_index(folder: Path) -> Call:
    (folder / "a.idx").touch()
    (folder / "a.bin").write_bytes(b"\x01\x02" * 2048)
    return "cat", [folder / "a.bin"], {}


def other_name(folder: Path) -> Call:
    return "cat", [shutil.copy(GOLDEN / "ofrecord" / "base.ofrecord", folder / "a.tfrecord")], {}


def matlab(folder: Path) -> Call:
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "a.mat", "w", userblock_size=512) as file:
        file["x"] = [1, 2]
    with (folder / "a.mat").open("r+b") as begin:
        begin.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64")
    return "cat", [folder / "a.mat"], {}


def no_checksums(folder: Path) -> Call:
    (folder / "a.tfrecord").write_bytes((b"\3" + bytes(11) + b"one" + bytes(4)) * 3)
    return "cat", [folder / "a.tfrecord"], {}


def no_window(folder: Path) -> Call:
    return "cat", [GOLDEN / "tokens" / "fineweb_train_000000.bin"], {}


def no_split(folder: Path) -> Call:
    return "cat", [GOLDEN / "tfds" / "tfrecord" / "things" / "1.0.0"], {}


def wrong_type(folder: Path) -> Call:
    return "cat", [PHOTOS], {"spec": {"width": "float32[2]"}}


def missing_value(folder: Path) -> Call:
    first, second = (
        written(folder / "a.tfrecord", {"n": "int64?"}, {"n": 1}),
        written(folder / "b", {"n": "int64?"}, {}, format="tfrecord"),
    )
    return "cat", [joined(folder / "c.tfrecord", first, second)], {"spec": {"n": "int64"}}


def late_field(folder: Path) -> Call:
    first = written(folder / "a.tfrecord", {"n": "int64"}, *({"n": i} for i in range(600)))
    second = written(folder / "b.tfrecord", {"n": "int64", "m": "float32"}, {"n": 1, "m": 1})
    return "cat", [joined(folder / "c.tfrecord", first, second)], {}


def late_field_in_steps(folder: Path) -> Call:
    first = written(
        folder / "a.tfrecord", {"n": "int64[]"}, *({"n": [i]} for i in range(600)), payload="sequence_example"
    )
    second = written(
        folder / "b.tfrecord", {"n": "int64[]", "m": "float32[]"}, {"n": [1], "m": [1]}, payload="sequence_example"
    )
    return "cat", [joined(folder / "c.tfrecord", first, second)], {}


def list_in_context(folder: Path) -> Call:
    path = written(folder / "a.tfrecord", {"n": "int64[]"}, {"n": [1]}, payload="sequence_example")
    return "cat", [path], {"payload": "sequence_example", "spec": {"n": "int64"}}


def json_type(folder: Path) -> Call:
    (folder / "a.jsonl").write_text('{"n": 1}\n{"n": "one"}\n')
    return "cat", [folder / "a.jsonl"], {"spec": {"n": "int64"}}


def json_missing(folder: Path) -> Call:
    (folder / "a.jsonl").write_text('{"n": 1}\n{}\n')
    return "cat", [folder / "a.jsonl"], {"spec": {"n": "int64"}}


def json_late(folder: Path) -> Call:
    (folder / "a.jsonl").write_text('{"n": 1}\n' * 600 + '{"n": 1, "m": 1}\n')
    return "cat", [folder / "a.jsonl"], {}


def json_lists(folder: Path) -> Call:
    (folder / "a.json").write_text('{"a": [{"n": 1}], "b b": [{"n": 1}, {"n": 2}]}')
    return "cat", [folder / "a.json"], {}


def json_in_lines(folder: Path) -> Call:
    (folder / "a.json").write_text("[1]\n[2]\n")
    return "cat", [folder / "a.json"], {}


def json_is_read(folder: Path) -> Call:
    return "create", [folder / "a.json", "one"], {}


def json_value(folder: Path) -> Call:
    (folder / "a.jsonl").write_text("1\n2\n")
    return "cat", [folder / "a.jsonl"], {"payload": "json_object"}


def array_type(folder: Path) -> Call:
    return "cat", [GOLDEN / "npy" / "labels.npy"], {"spec": {"value": "utf8"}}


def target_exists(folder: Path) -> Call:
    return "convert", [PHOTOS, written(folder / "a.ffr", None, b"one")], {}


def not_a_name(folder: Path) -> Call:
    source = written(folder / "a.tfrecord", {"a b": "int64"}, {"a b": 1})
    return "convert", [source, folder / "g"], {"format": "granular"}


def old_sequences(folder: Path) -> Call:
    source = written(folder / "a.tfrecord", {"words": "utf8[]"}, {"words": ["a"]})
    return "convert", [source, folder / "g"], {"format": "granular", "generation": 3}


def images(folder: Path) -> Call:
    records = ({"picture": record["image"], "class": "a", "n": {}} for record in dataformats.open(PHOTOS))
    source = written(folder / "a.tfrecord", {"picture": "jpg", "class": "utf8", "n": "msgpack"}, *records)
    return "convert", [source, folder / "images"], {"format": "images"}


def payload_of_fields(folder: Path) -> Call:
    return "cat", [GOLDEN / "granular" / "v3" / "base"], {"payload": "json"}


def payload_of_new_fields(folder: Path) -> Call:
    return "convert", [PHOTOS, folder / "g"], {"format": "granular", "payload": "msgpack"}


def shape_in_fields(folder: Path) -> Call:
    return "create", [folder / "a.ffr", {"image": np.zeros(3)}], {"spec": {"image": "uint8[n]"}}


def split_of_files(folder: Path) -> Call:
    return "cat", [PHOTOS], {"split": "train"}


def several_splits(folder: Path) -> Call:
    for name in ("train", "test"):
        without_sidecar(written(folder / "data" / f"{name}.tfrecord", {"n": "int64"}, {"n": 1}))
    return "cat", [folder], {}


def splits_of_images(folder: Path) -> Call:
    for name in ("train", "test"):
        (folder / "x" / name / "cat").mkdir(parents=True)
        (folder / "x" / name / "cat" / "0.jpg").write_bytes(dataformats.open(PHOTOS)[0]["image"])
    return "cat", [folder / "x"], {}


def damaged_dtype(folder: Path) -> Call:
    path = written(folder / "a.syr", {"n": "int64"}, {"n": 1})
    path.write_bytes(path.read_bytes().replace(b"int64", b"int65"))
    return "cat", [without_sidecar(path)], {}


def values_for_lines(folder: Path) -> Call:
    return "create", [folder / "a.jsonl", "no JSON"], {"payload": "utf8"}


def joined_fields(folder: Path) -> Call:
    return "zip", [{"a": PHOTOS, "b": PHOTOS}], {}


def packed_bytes(folder: Path) -> Call:
    return (
        "packed",
        [written(folder / "a.tfrecord", {"tokens": "int64[]"}, {"tokens": [1, 2]})],
        {"spec": {"tokens": "bytes"}},
    )


def optional_image(folder: Path) -> Call:
    return "decode", [PHOTOS], {"spec": {"image": "bytes?"}}


def shared_shard(folder: Path) -> Call:
    created(folder / "set", shard_start=0)
    return "create", [folder / "set"], {"shard_start": 0}


def shard_of_a_dataset(folder: Path) -> Call:
    created(folder / "set", "one", payload="utf8", shard_records=1)
    return "create", [folder / "set", "two"], {"payload": "utf8", "shard_start": 0}


def finished(folder: Path) -> Call:
    created(folder / "a.tfrecord")
    return "create", [folder / "a.tfrecord"], {"resume": True}


def null_in_list(folder: Path) -> Call:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"words": [["one", None]]}), str(folder / "a.parquet"))
    return "cat", [folder / "a.parquet"], {}


def early_time(folder: Path) -> Call:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    times = arrow.array([-(10**10)], arrow.int64()).cast(arrow.timestamp("s", "America/New_York"))
    parquet.write_table(arrow.table({"t": times}), str(folder / "a.parquet"))
    return "convert", [folder / "a.parquet", folder / "new.parquet"], {}


def hundreds(folder: Path) -> Call:
    arrow = pytest.importorskip("pyarrow")
    table = arrow.table({"n": arrow.array([Decimal("1e2")], arrow.decimal128(5, -2))})
    with arrow.ipc.new_file(str(folder / "a.arrow"), table.schema) as file:
        file.write_table(table)
    return "convert", [folder / "a.arrow", folder / "new.parquet"], {}


def path_without_bytes(folder: Path) -> Call:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    kind = arrow.struct([("bytes", arrow.binary()), ("path", arrow.string())])
    files = arrow.array([{"bytes": None, "path": "a.png"}], kind)
    parquet.write_table(arrow.table({"image": files}), str(folder / "a.parquet"))
    return "cat", [folder / "a.parquet"], {}


CASES: list[Callable[[Path], Call]] = [
    link_out, text, several_formats, stale_sidecar, unknown_field, no_examples, tokens, plain_tokens, nanogpt,
    empty_index, latin1_names, escaped_quotes,
    other_name, matlab,
    no_checksums, no_window, no_split, wrong_type,
    missing_value, late_field, late_field_in_steps, list_in_context, json_type, json_missing, json_late, json_value,
    json_lists, json_in_lines, json_is_read, array_type, target_exists, not_a_name, old_sequences, images,
    payload_of_fields, payload_of_new_fields, split_of_files, damaged_dtype, values_for_lines,
    several_splits, splits_of_images, shape_in_fields,
    field_for_no_member, joined_fields, packed_bytes, optional_image,
    shared_shard, shard_of_a_dataset, finished, null_in_list, path_without_bytes, early_time, hundreds,
]  # fmt: skip


def named_arguments(error: DataFormatsError) -> list[tuple[Remedy, dict[str, Any]]]:
    """Return the remedies of an error, each with the arguments that it names with a value."""
    errors: list[Any] = [*(error.problems if isinstance(error, SpecError) else ())] or [error]
    remedies = [one.remedy for one in errors if isinstance(one.remedy, Remedy)]
    return [(one, {name: value for name, value in one._arguments.items() if value is not ...}) for one in remedies]


def as_options(options: Mapping[str, Any]) -> list[str]:
    return [
        part
        for name, value in options.items()
        for part in shlex.split(exit_codes._option(name, value).partition(" (")[0])
    ]


def choices(remedy: Remedy, named: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the arguments to pass together, for each of the ways that a remedy offers."""
    return [{name: value} for name, value in named.items()] if " or {" in remedy._template else [named]


def changed(options: Mapping[str, Any], remedy: Remedy, named: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a call with the arguments that a remedy names, or without them if it says so."""
    if remedy.startswith("Leave out"):
        return {name: value for name, value in options.items() if name not in named}
    replaced = re.findall(r"instead of (\w+)=", remedy)
    return {name: value for name, value in options.items() if name not in replaced} | named


def tried(case: Callable[[Path], Call], folder: Path) -> tuple[list[tuple[Remedy, dict[str, Any]]], Call]:
    """Return what the error of a call advises, and the call."""
    folder.mkdir()
    command, paths, options = case(folder)
    with pytest.raises(DataFormatsError) as raised:
        CALLS[command](*paths, **options)
    return named_arguments(raised.value), (command, paths, options)


@loop_over("case", CASES)
def test_named_arguments_work(case: Callable[[Path], Call], run: Run, tmp_path: Path) -> None:
    remedies, _ = tried(case, tmp_path / "first")
    assert remedies
    ways = [(remedy, way) for remedy, named in remedies for way in choices(remedy, named)]
    for number, (remedy, named) in enumerate(ways):
        _, (command, paths, options) = tried(case, tmp_path / f"{number}")
        CALLS[command](*paths, **changed(options, remedy, named))
        _, (command, paths, options) = tried(case, tmp_path / f"{number} by command")
        if command in COMMANDS:
            failed = run(command, *paths, *as_options(options))
            assert failed.code in (1, 2)
            assert all(exit_codes._option(name, value) in failed.err for name, value in named.items())
            done = run(command, *paths, *as_options(changed(options, remedy, named)))
            assert (done.code, done.err) == (0, "")


# These advise nothing to pass to the call that fails.
OTHERS = {
    "To read the object as one record, pass {key}.",  # a warning: tests/backends/test_json.py
    "Write them again with {overwrite}",  # to the writer, after an error of a reader
    "Change {rename}.",
    "Start again without {resume}.",
    "Resume with the same source and arguments, or start again without {resume}.",
    "Pass {overwrite} to resume that writer",  # if it was interrupted
    "Pass {format} to read the values before the damage.",  # tests/backends/test_json.py: one more record is an error
    "Pass {format}, or the other one.",  # no two formats share a content
    "Write the records that can be read with convert and {on_corrupt}.",  # to another call
    "Write those that can be read in another format, with convert and {on_corrupt}.",  # to another call
    "Pass {spec}, or run dataformats index --full --beside.",  # a finding: tests/reading/test_verify.py
    "Pass {codecs}, or name it in {payload} or {spec}.",  # an implementation
    "each of the first records looks like a JSON object: pass {payload}",  # tests/cli/test_info.py
    "each of the first records is a file that 'jpg' decodes: pass {payload}",
    "field 'a' holds files that 'jpg' decodes: pass {spec}",
    "field 'a' has the bytes of pixels in 'b' rows and 'c' columns: pass {spec}",  # tests/reading/test_shaped_fields.py
    "field 'a' holds text that is not UTF-8: for Latin-1, pass {encoding}",  # a note: tests/backends/test_tables.py
}


def templates() -> Iterator[str]:
    """Yield a pattern for the template of each remedy in the package that names a value; `.*` is a part of names."""
    files = (Path(folder, name) for folder, _, names in os.walk(PACKAGE, followlinks=True) for name in names)
    for text in (path.read_text("utf-8") for path in files if path.suffix == ".py" and path.name != "errors.py"):
        if "Remedy(" not in text:
            continue
        for call in ast.walk(ast.parse(text)):
            if not isinstance(call, ast.Call) or getattr(call.func, "id", "") != "Remedy":
                continue
            if any(getattr(value.value, "value", None) is not ... for value in call.keywords):
                yield pattern(call.args[0])


def pattern(template: ast.expr) -> str:
    parts = template.values if isinstance(template, ast.JoinedStr) else [template]
    return "".join(re.escape(str(part.value)) if isinstance(part, ast.Constant) else ".*" for part in parts)


def test_every_remedy_with_values_has_a_case(tmp_path: Path) -> None:
    found = [remedy for case in CASES for remedy, _ in tried(case, tmp_path / case.__name__)[0]]
    seen = {remedy._template.replace("{from_", "{") for remedy in found} | OTHERS
    lacking = [one for one in templates() if not any(re.fullmatch(one, template) for template in seen)]
    assert lacking == []
