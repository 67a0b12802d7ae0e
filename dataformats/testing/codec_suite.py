"""CodecConformance: the tests that every codec must pass."""

from __future__ import annotations

import copy
import pickle
import random
import tracemalloc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dataformats.batch import Blobs, RecordBatch
from dataformats.batch.column_types import items_of
from dataformats.columns.codec_resolver import CodecLike, CodecResolver
from dataformats.columns.field_decoder import value_decoder
from dataformats.errors import CodecError, CorruptRecordError, SpecError
from dataformats.interfaces import RecordCodec
from dataformats.reading.opening import open as open_dataset
from dataformats.spec import Spec, Type
from dataformats.testing.damage_choice import DamageChoice, flipped
from dataformats.testing.records import is_same_value
from dataformats.writing.creating import create

_PEAK_BYTES = 16 * 2**20
_ERRORS = (CodecError, CorruptRecordError, SpecError)


@dataclass(frozen=True)
class CodecCase:
    """One codec, with its arguments, as the suite sees it.

    Attributes:
        kind: The type in a spec, such as `"png"` or `"int(8)"`; the name, if the codec is a payload of records.
        values: Values that are read back as they were written; at least two, which differ.
        spec: The spec of the records; `None` if the codec is of single values.
        frozen: Pairs of a value and its bytes in hex, which stay the same in every version.
        refuses: Values that `encode` refuses.
        damaged: Blobs that `decode` refuses.
        bad_args: Arguments that the codec refuses; `kind` has them between the parentheses.
        codecs: The `codecs=` of `open` and `create`; `None` if the codec is registered.
        lossless: False if values are read back nearly as they were written: only type, dtype and shape are compared.
        cuts: True if no blob that is cut short decodes.
        flips: True if no blob with a flipped bit decodes.
        flip_every: The distance in bits of the bits that are flipped: 1 is all of them; an odd number reaches every
            position in a byte.
        pickles: False if the codec cannot be pickled, such as a pair of lambdas.

    Example:
        >>> from dataformats.testing import CodecCase
        >>> str(CodecCase("int(2)", [1, 2], frozen=[(258, "0201")], cuts=True))
        'int(2)'
    """

    kind: str
    values: Sequence[Any]
    spec: Mapping[str, str] | None = None
    frozen: Sequence[tuple[Any, str]] = ()
    refuses: Sequence[Any] = ()
    damaged: Sequence[bytes] = ()
    bad_args: Sequence[str] = ()
    codecs: Mapping[str, CodecLike] | None = None
    lossless: bool = True
    cuts: bool = False
    flips: bool = False
    flip_every: int = 1
    pickles: bool = True
    coder: _CaseCodec = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "coder", _CaseCodec(self.kind, self.spec, CodecResolver(self.codecs, trusted=True)))

    def check(self, found: Any, value: Any) -> None:
        """Fail unless a value was read back."""
        if self.lossless:
            assert is_same_value(found, value), f"{found!r} is not {value!r}"
        elif isinstance(value, np.ndarray):
            assert (found.dtype, found.shape) == (value.dtype, value.shape)
        else:
            assert type(found) is type(value)

    def __str__(self) -> str:
        return self.kind


class _CaseCodec:
    """The codec of a case between values and blobs: of a field, or of whole records."""

    def __init__(self, kind: str, spec: Mapping[str, str] | None, resolver: CodecResolver) -> None:
        self.kind: Type = Type.parse(kind)
        self.resolver: CodecResolver = resolver
        self.spec: Spec | None = None if spec is None else Spec(dict(spec))

    @property
    def codec(self) -> Any:
        """The codec; bound to the spec if it is one of records."""
        codec = self.resolver.codec(self.kind)
        if self.spec is None:
            return codec
        assert isinstance(codec, RecordCodec)
        return codec.bind(self.spec, self.resolver)

    def encode(self, value: Any) -> bytes:
        if self.spec is not None:
            encoded: bytes = self.codec.encode(value)
            return encoded
        (blob,) = self.resolver.encode(self.kind, value, field="x")
        return blob

    def decode(self, blobs: Iterable[bytes]) -> list[Any]:
        """Return the values of one batch."""
        joined = Blobs.join(list(blobs))
        if self.spec is not None:
            columns = self.codec.decode_batch(joined, dict.fromkeys(self.spec, True))
            return list(RecordBatch(columns, np.arange(len(joined))))
        column = self.resolver.decode(self.kind, joined, field="x")
        return [record["x"] for record in RecordBatch({"x": column}, np.arange(len(joined)))]

    def decode_alone(self, blob: bytes) -> tuple[Any] | None:
        """Return the value by the short path, or `None` if the codec has no such path."""
        if self.spec is not None:
            record = self.codec.decode_record(bytearray(blob), dict.fromkeys(self.spec, True))
            return None if record is None else (record,)
        decode = value_decoder(self.codec, self.kind)
        return None if decode is None else (decode(bytearray(blob)),)


class CodecConformance(DamageChoice):
    """The tests that every codec must pass. A subclass returns the codec from a fixture `case`."""

    @pytest.fixture
    def case(self) -> CodecCase:
        """Return the codec under test."""
        raise NotImplementedError("a subclass returns the CodecCase from a fixture `case`")

    def test_values_come_back(self, case: CodecCase) -> None:
        """One at a time, and each value keeps its bytes when it is encoded again."""
        for value in case.values:
            blob = case.coder.encode(value)
            assert isinstance(blob, bytes)
            (found,) = case.coder.decode([blob])
            case.check(found, value)
            assert not case.lossless or case.coder.encode(found) == blob

    def test_a_blob_alone_is_a_batch_of_one(self, case: CodecCase) -> None:
        """Single-record decoding gives the same value, of the same type, as batch decoding."""
        for value in case.values:
            blob = case.coder.encode(value)
            (batch,) = case.coder.decode([blob])
            alone = case.coder.decode_alone(blob)
            assert alone is None or is_same_value(alone[0], batch)

    def test_frozen_bytes(self, case: CodecCase) -> None:
        """Values have the bytes that they had in the first version, and these are read."""
        for value, text in case.frozen:
            blob = bytes.fromhex(text)
            assert case.coder.encode(value).hex() == blob.hex()
            case.check(case.coder.decode([blob])[0], value)

    def test_a_batch_is_its_values(self, case: CodecCase) -> None:
        """A batch of none, of one, of all; from the middle of a larger buffer too."""
        blobs = [case.coder.encode(value) for value in case.values]
        single = [case.coder.decode([blob])[0] for blob in blobs]
        for chosen in (slice(0), slice(1), slice(None), slice(None, None, -1), slice(1, None)):
            found = case.coder.decode(blobs[chosen])
            assert all(map(is_same_value, found, single[chosen]))
            assert len(found) == len(blobs[chosen])
        inside = Blobs.join([b"before", *blobs, b"behind"]).take(slice(1, -1))
        found = case.coder.decode(bytes(blob) for blob in inside)
        assert all(map(is_same_value, found, single))

    def test_encoding_is_deterministic(self, case: CodecCase) -> None:
        """The same bytes each time, also from an equal value; values are not changed."""
        for value in case.values:
            before = copy.deepcopy(value)
            blob = case.coder.encode(value)
            assert is_same_value(value, before)
            assert case.coder.encode(before) == case.coder.encode(value) == blob

    def test_a_column_has_the_bytes_of_its_values(self, case: CodecCase) -> None:
        """`encode_batch` gives each value the bytes of `encode`, or leaves values to `encode`."""
        if case.spec is not None:
            return
        encode = case.coder.resolver.batch_encoder(case.coder.kind)
        blobs = [case.coder.encode(value) for value in case.values]
        decoded: list[Any] = [
            case.coder.resolver.decode(case.coder.kind, Blobs.join(one)) for one in (blobs, blobs[:1])
        ]
        for values in (list(case.values), list(case.values[:1]), *decoded):
            found = None
            with suppress(Exception):
                found = encode(values)
            assert found is None or list(found) == [case.coder.encode(value) for value in items_of(values)]

    def test_values_are_the_callers(self, case: CodecCase) -> None:
        """Arrays that were decoded can be written to, and share no memory with other values."""
        blobs = [case.coder.encode(value) for value in case.values] * 2
        found = case.coder.decode(blobs)
        before = [copy.deepcopy(value) for value in found]
        for array in _arrays(found[0]):
            array[...] = 0
        assert all(map(is_same_value, found[1:], before[1:]))

    def test_cut_at_every_byte(self, case: CodecCase) -> None:
        """A blob that is cut short raises an error of this package, with its place, or has a value."""
        _need_safe(case)
        for value in case.values:
            blob = case.coder.encode(value)
            every = range(0, len(blob), 1 + len(blob) // 500)  # 250 to 500 places of a large blob
            for n in self.choose_damage(every):
                assert not _decodes(case, blob[:n], blob) or not case.cuts, f"{value!r}, cut at byte {n}"

    def test_every_bit_flipped(self, case: CodecCase) -> None:
        """A blob with a flipped bit raises an error of this package, with its place, or has a value."""
        _need_safe(case)
        for value in case.values[:3]:
            blob = case.coder.encode(value)
            for bit in self.choose_damage(range(0, 8 * len(blob), case.flip_every)):
                damaged = flipped(blob, bit)
                with _little_memory(traced=bit % 8 == 7):  # the bits that make numbers large
                    assert not _decodes(case, damaged, blob) or not case.flips, f"{value!r}, bit {bit}"

    def test_any_bytes(self, case: CodecCase) -> None:
        """Random bytes, alone and behind the first bytes of a sound blob."""
        _need_safe(case)
        noise = random.Random(0)
        good = case.coder.encode(case.values[0])
        for n in range(200):
            some = noise.randbytes(n % 50)
            _decodes(case, some, good)
            _decodes(case, good[: n % (len(good) + 1)] + some, good)

    def test_damaged_blobs_are_named(self, case: CodecCase) -> None:
        """A blob that does not decode raises an error with its index in the batch."""
        good = case.coder.encode(case.values[0])
        for blob in case.damaged:
            with pytest.raises(_ERRORS) as caught:
                case.coder.decode([good, blob, good])
            assert getattr(caught.value, "index", None) == 1
            assert case.spec is not None or getattr(caught.value, "field", "x") == "x"

    def test_refused_values(self, case: CodecCase) -> None:
        """A value that would not be read back as it is raises before there are bytes."""
        for value in case.refuses:
            with pytest.raises((CodecError, SpecError)):
                case.coder.encode(value)

    def test_arguments(self, case: CodecCase) -> None:
        """Arguments that the codec does not know are refused."""
        for args in case.bad_args:
            with pytest.raises(SpecError):
                case.coder.resolver.codec(Type(case.coder.kind.codec, tuple(args.split(","))))

    def test_many_threads(self, case: CodecCase) -> None:
        """Eight threads encode and decode with one codec. Lossy encoders may choose other bytes under load."""
        blobs = [case.coder.encode(value) for value in case.values]
        single = case.coder.decode(blobs)

        def work(_: int) -> bool:
            again = [case.coder.encode(value) for value in case.values]
            return (again == blobs or not case.lossless) and all(map(is_same_value, case.coder.decode(blobs), single))

        with ThreadPoolExecutor(8) as threads:
            assert all(threads.map(work, range(24)))

    def test_pickling(self, case: CodecCase) -> None:
        """A pickled codec gives the same bytes."""
        if not case.pickles:
            pytest.skip("the codec cannot be pickled")
        resolver: CodecResolver = pickle.loads(pickle.dumps(case.coder.resolver))
        again = _CaseCodec(case.kind, case.spec, resolver)
        assert [again.encode(value) for value in case.values] == [case.coder.encode(value) for value in case.values]
        pickle.loads(pickle.dumps(case.coder.resolver.codec(case.coder.kind)))

    def test_through_a_file(self, case: CodecCase, tmp_path: Path) -> None:
        """Values that are written to a file are read back by record, by batch and by iteration."""
        path = tmp_path / "values.ffr"
        options: dict[str, Any] = {} if case.codecs is None else {"codecs": case.codecs}
        if case.spec is not None:
            options |= {"spec": dict(case.spec), "payload": case.kind}
            records = list(case.values)
        else:
            options |= {"spec": {"x": case.kind}}
            records = [{"x": value} for value in case.values if value is not None]  # a missing field
        with create(path, "ffrecord", **options) as writer:
            writer.extend(records)
        src = open_dataset(path, **options)
        for found in (src, src.read(range(len(records))), [src[i] for i in range(len(records))]):
            for record, written in zip(found, records, strict=True):
                for name, value in written.items():
                    case.check(record[name], value)


@contextmanager
def _little_memory(traced: bool) -> Iterator[None]:
    if not traced:
        yield
        return
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < _PEAK_BYTES, "too much memory"
    finally:
        tracemalloc.stop()


def _need_safe(case: CodecCase) -> None:
    if not case.coder.resolver.codec(case.coder.kind).safe:
        pytest.skip("decoding runs code from the data: damaged data may do anything")


def _decodes(case: CodecCase, blob: bytes, good: bytes) -> bool:
    """Return True if a blob decodes between two sound ones; fail unless an error has its index."""
    with suppress(*_ERRORS):
        assert len(case.coder.decode([blob])) == 1
        return True
    with pytest.raises(_ERRORS) as caught:
        case.coder.decode([good, blob, good])
    assert getattr(caught.value, "index", None) == 1
    return False


def _arrays(value: Any) -> Iterator[Any]:
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _arrays(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _arrays(inner)
