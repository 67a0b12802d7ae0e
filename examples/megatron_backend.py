"""Megatron's indexed datasets: NAME.bin has the tokens of all sequences, NAME.idx says where each sequence lies."""

import os
from struct import Struct

import numpy as np

import dataformats
from dataformats import FormatError, SpecError, TruncatedError, Type
from dataformats.interfaces import (
    AppendingWriter,
    FieldsBackend,
    FieldsIndex,
    FieldsWriter,
    FileIndex,
    HasSidecars,
    IndexedFieldsReader,
    LazyProblems,
    SniffResult,
)

HEADER = Struct("<9sQBQQ")  # magic, version, code of the dtype, numbers of sequences and of document indices
MAGIC = b"MMIDIDX\0\0"
CODES = {1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float64", 7: "float32", 8: "uint16"}


def header_of(file):
    """Return the .idx file of a .bin file, the dtype of its tokens, and the number of sequences."""
    idx = file.file_beside(file.basename.removesuffix(".bin") + ".idx")
    if idx is None:
        raise FormatError("the .idx file is missing", path=file.name)
    head = idx.pread(0, HEADER.size)
    magic, version, code, n, n_documents = HEADER.unpack(head) if len(head) == HEADER.size else (head, 0, 0, 0, 0)
    if (magic, version) != (MAGIC, 1) or code not in CODES:
        raise FormatError("no header of version 1", path=idx.name, offset_bytes=0, expected=MAGIC, found=head)
    size = HEADER.size + 12 * n + 8 * n_documents
    if idx.size != size:
        raise TruncatedError("not the size of the tables", path=idx.name, expected=size, found=idx.size)
    return idx, np.dtype(CODES[code]), n


class MegatronReader(IndexedFieldsReader):
    def type_of(self, field):
        dtypes = {header_of(file)[1].name for file in self.files}
        if len(dtypes) > 1:
            raise FormatError("the files differ in dtype", path=self.files[0].name, found=sorted(dtypes))
        return Type(dtypes.pop(), dims=(None,))

    def build_index(self, file):
        idx, dtype, n = header_of(file)
        sizes, pointers = idx.pread_many([(HEADER.size, 4 * n), (HEADER.size + 4 * n, 8 * n)])
        offset, length = np.frombuffer(pointers, "<i8"), np.frombuffer(sizes, "<i4") * np.int64(dtype.itemsize)
        most = np.minimum(file.size - np.clip(offset, 0, file.size), self.options.max_record_bytes)

        def problem(record):
            return TruncatedError("no such bytes", path=file.name, expected=f"<= {most[record]}", found=length[record])

        wrong = (offset < 0) | (length < 0) | (length > most)
        index = FileIndex(offset, np.where(wrong, 0, length), problems=LazyProblems(wrong, problem))
        return FieldsIndex(n, {"tokens": index})


class MegatronWriter(AppendingWriter, FieldsWriter, HasSidecars):
    """Writes a pair of files, each sequence a document. Until `close`, the .idx file has the sizes alone."""

    def __init__(self, path, dtype, name, resume):
        self.code = next(code for code, known in CODES.items() if known == dtype)
        self.dtype, self.idx_name = np.dtype(dtype), name.removesuffix(".bin") + ".idx"
        self.idx = path.with_name(path.name + ".idx")
        data = self.idx.read_bytes() if resume and self.idx.exists() else b""
        if data.startswith(MAGIC):  # `close` had written all of it
            data = data[HEADER.size :][: 4 * HEADER.unpack_from(data)[3]]
        self.sizes = bytearray(data[: len(data) // 4 * 4])
        super().__init__(path, resume=resume)
        del self.sizes[4 * self.n_records :]
        self.log = self.idx.open("wb", buffering=0)
        self.log.write(self.sizes)

    def lengths(self):
        return np.frombuffer(self.sizes, "<i4") * np.int64(self.dtype.itemsize)

    def index(self, file):
        length = self.lengths()
        problems = LazyProblems(np.cumsum(length) > file.size, lambda _: TruncatedError("cut", path=file.name))
        yield FileIndex(np.cumsum(length) - length, length, problems=problems)

    def frame(self, record):
        return record["tokens"][0]

    def frames(self, records):
        blobs = [self.frame(record) for record in records]
        sizes = np.array([len(blob) // self.dtype.itemsize for blob in blobs], "<i4").tobytes()
        self.log.write(sizes)
        self.sizes += sizes
        return blobs

    def flush(self, *, sync=False):
        super().flush(sync=sync)
        if sync:
            os.fsync(self.log.fileno())

    def end(self):
        length, n = self.lengths(), self.n_records
        tables = [self.sizes, (np.cumsum(length) - length).astype("<i8"), np.arange(n + 1, dtype="<i8")]
        self.log.close()
        with self.idx.open("wb") as idx:
            idx.write(HEADER.pack(MAGIC, 1, self.code, n, n + 1) + b"".join(map(bytes, tables)))
            idx.flush()
            os.fsync(idx.fileno())
        return b""

    def sidecars(self):
        return {self.idx_name: self.idx}

    def suspend(self):
        super().suspend()
        self.log.close()

    def discard(self):
        super().discard()
        self.log.close()
        self.idx.unlink(missing_ok=True)


class Megatron(FieldsBackend):
    name, suffixes, has_checked_header = "megatron", (".bin",), True

    def sniff(self, file):
        try:
            header_of(file)
        except FormatError as error:
            return SniffResult("no", str(error))
        return SniffResult("yes")

    def open(self, files, options):
        return MegatronReader(files, options)

    def stored_spec(self, spec):
        if list(spec) != ["tokens"] or spec["tokens"] not in [Type(dtype, dims=(None,)) for dtype in CODES.values()]:
            raise SpecError(f"expected one field, 'tokens', of a type such as int32[], found {dict(spec)}")
        return spec

    def create(self, path, *, stored, resume=False, place):
        return MegatronWriter(path, stored["tokens"].codec, place.name or path.name, resume)

    def shard_names(self, stem, count):
        return [f"{stem}-{number:05d}.bin" for number in range(count)]


def register():
    dataformats.register_backend(Megatron(), replace=True)
