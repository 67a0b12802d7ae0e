"""From a path to a source: find the files, recognise the format, build the source."""

from __future__ import annotations

import functools
import logging
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard

from dataformats.columns.codec_resolver import CodecResolver
from dataformats.errors import DataFormatsError, FormatError, SpecError, StateMismatchError
from dataformats.indexing.sidecar import load_facts
from dataformats.interfaces import Backend, OpenOptions, SniffResult
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.reading.file_source import MAX_RECORD_BYTES, FileSource, Parts
from dataformats.reading.schema import DeclaredSchema
from dataformats.reading.source import RecordSource
from dataformats.registry import backends
from dataformats.spec import Spec, SpecLike, Type
from dataformats.storage.paths import resolve

__all__ = ["open", "register_backend"]

_LOG = logging.getLogger("dataformats")
_SNIFFED = 64


def open(  # the name that the contract gives it
    path: Any,
    *,
    format: str | None = None,
    payload: str | None = None,
    spec: SpecLike | None = None,
    codecs: Mapping[str, Any] | None = None,
    verify_checksums: bool = True,
    cache: str | Sequence[str] | None = None,
    index: str = "cache",
    io: str = "auto",
    storage_options: dict[str, Any] | None = None,
    max_record_bytes: int = MAX_RECORD_BYTES,
    progress: Callable[[int, int], None] | None = None,
    **backend_options: Any,
) -> RecordSource:
    """Return the records of files as a sequence.

    Lists, stats, recognises and reads headers; an index is made at the first `len`, `[i]` or `read`.

    Args:
        path: A str or PathLike, a sequence of them, a glob, a folder, a URL that fsspec knows, or an object with
            `open`, `/`, `exists`, `glob`. Files are taken in the format's own order; a list keeps its order.
        format: `"ffrecord"`, `"tfrecord"` or a registered name; `None` finds out from the content of the first file
            that is not empty.
        payload: The codec of whole records: `"bytes"`, `"example"`, `"sequence_example"`, `"msgpack"`, ...; `None`
            takes what our sibling file says, else what the format and the records say.
        spec: Field to type, where the data do not say it: `{"image": "uint8[8,8]", "label": "int64"}`.
        codecs: Codecs for this source, name to `(encode, decode)` or a `Codec`; they win over registered ones. A
            codec that is not safe, as `pickle`, must be named by `payload=`, `spec=` or here.
        verify_checksums: False skips what costs a pass over the data; lengths and offsets are always checked.
        cache: `"memory"` holds the files in anonymous shared memory, read whole at their first use; names of fields
            hold the files of these fields alone.
        index: Where indexes are kept: `"cache"` (the user's cache folder, or `DATAFORMATS_CACHE`), `"beside"` the
            data, or a folder.
        io: How files are read: `"auto"` takes from memory what the operating system has there and reads the rest many
            at a time; `"uring"`, `"libaio"` and `"threads"` ask for one engine; `"mmap"` maps local files, which nobody
            may change then: one that is cut short ends the process.
        storage_options: For the fsspec file system of a URL.
        max_record_bytes: A longer record is refused before anything is allocated for it.
        progress: Called with (bytes done, bytes in all) while an index is built.
        **backend_options: What the format adds, as `compression="gzip"` for TFRecord.

    Raises:
        FileNotFoundError: Nothing is there.
        FormatError: The content is no format that is known, or not the one that was named, or a header is broken.
        SpecError: The spec does not parse.
        UnknownNameError: No such format, or payload; a codec that `spec` names is looked up by the first read.
        ValueError: No such `io` or `cache`, or the files cannot be mapped.

    Example:
        >>> import dataformats
        >>> src = dataformats.open("tests/golden/real/digits-*.tfrecord")
        >>> src[0]["label"], len(src[0]["image"])
        (0, 64)
    """
    found = resolve(path, storage_options)
    backend, files = _choose(found, format or _told_format(found))
    needed = [name for name, given in (("payload", payload), ("spec", spec)) if given is None]
    facts = _facts(found, files, needed) if needed else {}
    is_told = payload in (None, facts.get("payload"))  # another payload has other fields than our sibling says
    wanted = _spec(spec) if spec is not None or not is_told else _told_spec(facts)
    named = payload if payload is not None else facts.get("payload")
    options = OpenOptions(verify_checksums, index, progress, operator.index(max_record_bytes))
    reader = backend.open(files, options, **backend_options)
    resolver = CodecResolver(codecs, trusted=_named(payload, spec))
    again = {
        "path": path,
        "format": backend.name,
        "payload": payload,
        "spec": None if spec is None else Spec(spec).to_json(),
        "codecs": codecs,
        "verify_checksums": verify_checksums,
        "cache": cache,
        "index": index,
        "io": io,
        "storage_options": storage_options,
        "max_record_bytes": max_record_bytes,
        **backend_options,
    }
    reopen = functools.partial(_reduced, again)
    told = DeclaredSchema(named, wanted, resolver, index)
    return FileSource(Parts(backend, reader, told, max_record_bytes, reopen, cache, io))


def register_backend(backend: Backend, *, replace: bool = False) -> None:
    """Make a format known under `backend.name`.

    Args:
        backend: What reads and writes it.
        replace: Take the place of another one of that name.

    Raises:
        ValueError: The name is taken.

    Example:
        >>> import dataformats
        >>> from dataformats.backends.ffrecord import BACKEND
        >>> dataformats.register_backend(BACKEND)
    """
    backends.register(backend.name, backend, replace=replace)


def _reduced(again: dict[str, Any], fingerprint: str, payload: str | None, spec: Spec, shared: Any) -> tuple[Any, ...]:
    """Return what `__reduce__` returns: only what differs from the defaults, so that it stays small."""
    kept = {name: value for name, value in again.items() if value is not None}
    return _reopen, (kept, fingerprint, payload, spec.to_json(), shared)


def _reopen(
    again: dict[str, Any],
    fingerprint: str,
    payload: str | None,
    spec: dict[str, str],
    shared: Any = None,
) -> FileSource:
    source = open(**again)
    assert isinstance(source, FileSource)  # what open() makes; for the type checker
    source.adopt_memory(shared)
    if source.reader.spec is None:  # fields that are stored apart have no spec but the call's or their own
        source.adopt(payload, Spec({name: Type.named(text) for name, text in spec.items()}))
    if source.fingerprint != fingerprint:
        raise StateMismatchError(
            f"the data at {source.paths[0]!r}",
            expected=fingerprint,
            found=source.fingerprint,
            remedy="they changed since this source was pickled: open them anew",
        )
    return source


def _spec(spec: Any) -> Spec | None:
    if spec is None:
        return None
    if not isinstance(spec, Mapping):
        raise SpecError(f"expected a mapping of field to type, found {type(spec).__name__}")
    return Spec(spec)


def _told_spec(facts: Mapping[str, Any]) -> Spec | None:
    """Return the spec of our sibling file; a type that is not of the grammar is an opaque name, as in any file."""
    told = _strings(facts.get("spec"))
    return None if told is None else Spec({name: Type.named(text) for name, text in told.items()})


def _strings(spec: Any) -> dict[str, str] | None:
    if spec is None:
        return None
    if not isinstance(spec, Mapping) or not all(isinstance(text, str) for text in spec.values()):
        raise SpecError("the spec in our sibling file is no mapping of field to type")
    return dict(spec)


def _named(payload: str | None, spec: SpecLike | None) -> frozenset[str]:
    """Return the codecs that the call itself names: what a file names must be safe."""
    kinds = [*Spec(spec or {}).values(), *([Type.parse(payload)] if payload is not None else [])]
    return frozenset(kind.codec for kind in kinds)


def _facts(found: Sequence[StoredFile | Folder], files: Sequence[StoredFile], needed: Sequence[str]) -> dict[str, Any]:
    """Return what the siblings say of payload and spec: one of a file, or one of the folder that we wrote it in.

    Raises:
        FormatError: A sibling is damaged, or those of several files differ in what is needed.
    """
    listed = [part for entry in found for part in (_all_files(entry) if _is_glob(entry) else [entry])]
    try:
        if len(found) == 1 and isinstance(found[0], Folder) and load_facts(found[0]) is None:
            listed = [*files] or listed  # a folder that is no data set of ours may hold some that are
        folders = _FolderFacts()
        said = [(entry, load_facts(entry) or folders.of(entry)) for entry in listed[:_SNIFFED]]
    except ValueError as error:
        raise FormatError(str(error)) from error
    first = said[0][1] or {}
    for entry, facts in said:
        for name in needed:
            if (facts or {}).get(name) != first.get(name):
                raise FormatError(
                    f"our sibling files name another {name} for it than for {said[0][0].name!r}",
                    path=entry.name,
                    expected=first.get(name),
                    found=(facts or {}).get(name),
                    remedy="pass payload= and spec=",
                )
    return first


def _told_format(found: Sequence[StoredFile | Folder]) -> str | None:
    """Return the format of an empty file that we wrote, which its content cannot tell."""
    entry = found[0]
    if len(found) > 1 or isinstance(entry, Folder) or entry.size:
        return None
    told = _facts(found, [], ()).get("format")
    return told if told in backends else None


def _is_glob(entry: StoredFile | Folder) -> TypeGuard[Folder]:
    return isinstance(entry, Folder) and entry.explicit


class _FolderFacts:
    """What is said of the folders of files; each folder's sibling, which may name ten thousand, is read once."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[dict[str, Any] | None, frozenset[str]]] = {}

    def of(self, entry: StoredFile | Folder) -> dict[str, Any] | None:
        """Return what is said of the folder of a file, if it was written as one of its shards."""
        folder = None if isinstance(entry, Folder) else entry.folder()
        if folder is None:
            return None
        if folder.name not in self._read:
            facts = load_facts(folder)
            written = (facts or {}).get("files") or ()
            self._read[folder.name] = facts, frozenset(file["name"] for file in written)
        facts, names = self._read[folder.name]
        return facts if entry.basename in names else None


# ---- which files, which format


def _choose(found: Sequence[StoredFile | Folder], name: str | None) -> tuple[Backend, list[StoredFile]]:
    if name is not None:
        backend = backends.get(name)
        return backend, [file for entry in found for file in _files_of(entry, backend)]
    first = found[0]
    if len(found) == 1 and isinstance(first, Folder) and not first.explicit:
        return _choose_in_folder(first)
    files = [file for entry in found for file in (_all_files(entry) if isinstance(entry, Folder) else [entry])]
    # A folder may hold folders alone, as a sharded Granular data set does.
    backend = _recognise(files) if files or not isinstance(first, Folder) else _choose_in_folder(first)[0]
    return backend, [file for entry in found for file in _files_of(entry, backend)]


def _files_of(entry: StoredFile | Folder, backend: Backend) -> list[StoredFile]:
    if isinstance(entry, StoredFile):
        return [entry]
    if entry.explicit:
        return [entry.file(name) for name in backend.order(entry.names())]
    files = backend.find(entry)
    if not files:
        names = entry.names()
        raise FormatError(
            f"the folder holds no {backend.name} files" if names else "the folder holds no data files",
            path=entry.name,
            expected=f"names that end in {' or '.join(backend.suffixes)}" if names else None,
            found=_some(names) if names else None,
        )
    return files


def _all_files(folder: Folder) -> list[StoredFile]:
    return [folder.file(name) for name in folder.names()]


def _choose_in_folder(folder: Folder) -> tuple[Backend, list[StoredFile]]:
    claims = {backend.name: backend.find(folder) for backend in _known()}
    claims = {name: files for name, files in claims.items() if files}
    if len(claims) > 1:
        both = "; ".join(f"{name}: {_some([file.basename for file in files])}" for name, files in claims.items())
        raise FormatError(
            "files of several formats in one folder",
            path=folder.name,
            found=both,
            remedy="pass format=, or a glob",
        )
    if claims:
        name, files = next(iter(claims.items()))
        backend = backends.get(name)
        found = _recognise(files, backend) if any(file.size for file in files) else backend
        return found, files if found is backend else _ordered(files, found)
    return _choose_by_content(folder)


def _ordered(files: Sequence[StoredFile], backend: Backend) -> list[StoredFile]:
    by_name = {file.name: file for file in files}
    return [by_name[name] for name in backend.order(list(by_name))]


def _choose_by_content(folder: Folder) -> tuple[Backend, list[StoredFile]]:
    """Take a folder whose names tell nothing: every file (of the first 64) must be of one format."""
    names = folder.names()
    if not names:
        raise FormatError("the folder holds no data files", path=folder.name)
    files = [file for file in _all_files(folder) if file.size]
    if not files:
        raise FormatError("every file in the folder is empty", path=folder.name, remedy="pass format=")
    formats = {_recognise([file]).name: file for file in reversed(files[:_SNIFFED])}
    if len(formats) > 1:
        both = "; ".join(f"{name}: {file.basename}" for name, file in formats.items())
        raise FormatError(
            "files of several formats in one folder",
            path=folder.name,
            found=both,
            remedy="pass format=, or a glob",
        )
    backend = backends.get(next(iter(formats)))
    return backend, [folder.file(name) for name in backend.order(names)]


def _recognise(files: Sequence[StoredFile], claimed: Backend | None = None) -> Backend:
    """Return the format of the first file that is not empty, by its content; a name only breaks ties.

    Raises:
        FormatError: It is none, with what each format misses.
    """
    file = next((file for file in files if file.size), None)
    if file is None:
        what = "the file is empty" if len(files) == 1 else "every file is empty"
        raise FormatError(what, path=files[0].name, remedy="pass format= if that is what it should be")
    verdicts = {backend.name: (backend, backend.sniff(file)) for backend in _known()}
    for fits in ("yes", "damaged"):
        matching = [backend for backend, verdict in verdicts.values() if verdict.match == fits]
        hinted = [backend for backend in matching if backend is claimed or backend.matches_name(file.basename)]
        if len(matching) == 1 or len(hinted) == 1:
            return (hinted or matching)[0]
        if matching:
            formats = " or ".join(backend.name for backend in matching)
            raise FormatError(f"the content could be {formats}", path=file.name, remedy="pass format=")
    raise FormatError(f"no known format: {_reasons(verdicts)}", path=file.name, offset_bytes=0)


def _reasons(verdicts: Mapping[str, tuple[Backend, SniffResult]]) -> str:
    return "; ".join(f"not {name} ({verdict.why})" for name, (_, verdict) in verdicts.items())


def _known() -> list[Backend]:
    """Return every backend that can be imported; one of another package that cannot is logged."""
    found = []
    for name in backends:
        try:
            found.append(backends.get(name))
        except DataFormatsError:
            raise
        except Exception as error:  # whatever another package's import raises
            if backends.shipped(name):
                raise
            _LOG.warning("the backend %r cannot be imported: %s", name, error)
    return found


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
