"""The error classes: their messages, and that they survive pickling between processes."""

from __future__ import annotations

import copy
import pickle

from dataformats import errors
from dataformats.testing.loop_over import loop_over

CASES: list[tuple[errors.DataFormatsError, type[Exception], str]] = [
    (
        errors.FormatError("no length", path="a", index=3, offset_bytes=96, expected=1, found="x", remedy="Look."),
        ValueError,
        "record 3 of 'a' at byte 96: no length: expected 1, found x. Look.",
    ),
    (errors.FormatError(path="a"), ValueError, "'a'"),
    (errors.FormatError("what"), ValueError, "what"),
    (errors.FormatError("what", offset_bytes=0), ValueError, "at byte 0: what"),
    (errors.TruncatedError("ends", path="a"), errors.FormatError, "'a': ends"),
    (
        errors.ChecksumError(path="a.tfrecord", index=17, offset_bytes=4096, stored=0x1F2E3D4C, computed=0),
        errors.FormatError,
        "record 17 of 'a.tfrecord' at byte 4096: checksum: expected 0x1f2e3d4c (stored), found 0x00000000 (computed)",
    ),
    (errors.CorruptRecordError("torn", index=0), errors.FormatError, "record 0: torn"),
    (errors.SpecError("no", field="f", index=2), ValueError, "record 2, field 'f': no"),
    (errors.SpecError("no"), ValueError, "no"),
    (
        errors.SpecError(
            "no", field="f", remedy=errors.Remedy("Pass {spec}, or {format}.", spec={"f": "T"}, format=...)
        ),
        ValueError,
        "field 'f': no. Pass spec={'f': 'T'}, or format=.",
    ),
    (
        errors.SpecError.of([errors.SpecError("no", field="f", remedy="Drop it."), errors.SpecError("bad", field="g")]),
        ValueError,
        "field 'f': no. Drop it.\nfield 'g': bad",
    ),
    (
        errors.CodecError("bad", codec="jpg", field="f", index=2, path="p"),
        ValueError,
        "record 2 of 'p', field 'f', codec 'jpg': bad",
    ),
    (
        errors.UnknownNameError("codec", name="jpeg", known=["jpg", "png"], remedy="Look."),
        LookupError,
        "unknown codec 'jpeg' (nearest: jpg). Look.",
    ),
    (errors.UnknownNameError("codec", name="zzz", known=["b", "a"]), LookupError, "unknown codec 'zzz' (known: a, b)"),
    (
        errors.StateMismatchError("seed", expected=1, found=2, remedy="strict=False"),
        ValueError,
        "seed differs: expected 1, found 2. strict=False",
    ),
    (errors.WorkerError("died", worker=3, reading="a"), RuntimeError, "worker 3 while reading a: died"),
    (
        errors.MissingExtraError("x", package="adlfs"),
        ImportError,
        "x needs a package. Run pip install adlfs",
    ),
    (errors.MissingExtraError("x"), ImportError, "x needs a package"),
    (
        errors.TargetExistsError("'x' exists", remedy=errors.Remedy("Pass {overwrite}", overwrite=True)),
        FileExistsError,
        "'x' exists. Pass overwrite=True",
    ),
    (errors.TargetInUseError("'x' has another writer", remedy="Wait"), BlockingIOError, "'x' has another writer. Wait"),
    (
        errors.MissingExtraError("to_torch", extra="torch"),
        ImportError,
        "to_torch needs a package. Run pip install 'dataformats[torch]'",
    ),
]


@loop_over("error, base, text", CASES)
def test_errors(error: errors.DataFormatsError, base: type[Exception], text: str) -> None:
    assert isinstance(error, base)
    assert isinstance(error, errors.DataFormatsError)
    assert str(error) == text
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is type(error)
        assert str(again) == text
        assert _facts(again) == _facts(error)


def test_pickles_keep_notes() -> None:
    for error in (
        errors.FormatError("no length fits", path="a"),
        errors.UnknownNameError("field", name="a", known=["b"]),
    ):
        if hasattr(error, "add_note"):  # Python 3.11
            error.add_note("while reading shard 3")
            assert pickle.loads(pickle.dumps(error)).__notes__ == ["while reading shard 3"]


def _facts(error: errors.DataFormatsError) -> dict[str, object]:
    # Errors have no equality.
    return {name: list(map(str, fact)) if name == "problems" else fact for name, fact in vars(error).items()}


def test_records_can_be_named_later() -> None:
    error = errors.ChecksumError("data", path="a", stored=1, computed=2)
    placed = error.at(5)
    assert (placed.index, placed.stored, placed.computed, placed.path) == (5, 1, 2, "a")
    assert error.index is None
    assert type(placed) is errors.ChecksumError
    assert errors.SpecError("no", field="f").at(5).index == 5
    error.path = "b"
    assert pickle.loads(pickle.dumps(error)).path == "b"


def test_remedies_keep_their_arguments() -> None:
    remedy = errors.Remedy("Pass {payload} or {rename}.", payload="bytes", rename={"a": "b"})
    assert remedy == "Pass payload='bytes' or rename={'a': 'b'}."
    for again in (remedy, pickle.loads(pickle.dumps(remedy)), copy.deepcopy(remedy)):
        assert (
            again.written(lambda name, value: f"<{name}: {value}>") == "Pass <payload: bytes> or <rename: {'a': 'b'}>."
        )


def test_all_is_all() -> None:
    found = {name for name, thing in vars(errors).items() if isinstance(thing, type) and issubclass(thing, Exception)}
    assert {name for name in found if not name.startswith("_")} == set(errors.__all__) - {"Remedy"}


def test_state_mismatch_shows_only_differences() -> None:
    then = {"format": "ffrecord", "spec": {"a": "int64", "b": "utf8", "c": "json"}}
    now = {"format": "ffrecord", "spec": {"a": "int64", "b": "bytes", "d": "json"}}
    error = errors.StateMismatchError("the encoding", expected=then, found=now)
    shown = "expected {'spec': {'b': 'utf8', 'c': 'json'}}, found {'spec': {'b': 'bytes', 'd': 'json'}}"
    assert str(error) == f"the encoding differs: {shown}"
    assert (error.expected, error.found) == (then, now)
