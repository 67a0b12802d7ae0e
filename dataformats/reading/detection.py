"""Detect the files and the format of a path: by name, then by content."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from dataformats.errors import FormatError, Remedy
from dataformats.interfaces import Backend, SniffResult, SupportsRepair
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.reading.datasets_below import DatasetBelow, datasets_below
from dataformats.reading.other_formats import other_format
from dataformats.reading.splits import split_of
from dataformats.registry import backends

ONLY_BELOW = "the folder holds no dataset, but folders in it do"
"""The error about a folder, for which `datasets_in` returns datasets."""

_MAX_SNIFFED = 64
_SHOWN, _SHOWN_REASON = 8, 90  # bytes of an unknown file, and characters of why it is not of a format
_SHARED_SUFFIX = ".bin"  # many formats use it: only the content of the file decides
_NAME_FORMAT = Remedy("Pass {format}.", format=...)
_COPY_OR_NAME_FORMAT = Remedy("Copy it again, or pass {format} if it has another format.", format=...)
_COPY_OR_REPAIR = "Copy it again, or run dataformats repair: it finds what is sound"
_NAME_FORMAT_IF_KNOWN = Remedy("Pass {format} if you know it.", format=...)
_ONE_FORMAT = Remedy("Join sources of single formats with concat, or pass {format}.", format=...)
_UNSURE = (_COPY_OR_NAME_FORMAT, _COPY_OR_REPAIR, _NAME_FORMAT_IF_KNOWN)
_NAME_FORMAT_OR_GLOB = Remedy("Pass {format}, or a glob.", format=...)


def choose_files(entries: Sequence[StoredFile | Folder], format: str | None) -> tuple[Backend, list[list[StoredFile]]]:
    """Return the backend, and the data files of each entry in reading order.

    Args:
        entries: The files and folders of a path, at least one.
        format: The name of the format; `None` detects it.

    Raises:
        FormatError: The content is of no known format or of several, or a folder holds no data files.
        UnknownNameError: No such format.
    """
    if format is not None:
        return _ordered(entries, backends.get(format))
    first = entries[0]
    if len(entries) == 1 and isinstance(first, Folder) and not first.explicit:
        backend, files = _choose_in_folder(first)
        _check_one_split(first, files)
        return backend, [files]
    files = [file for entry in entries for file in (_all_files(entry) if isinstance(entry, Folder) else [entry])]
    # A folder may hold folders alone, as a sharded Granular dataset does.
    return _ordered(
        entries, _recognize(files) if files or not isinstance(first, Folder) else _choose_in_folder(first)[0]
    )


def check_one_format(backend: Backend, files: Sequence[StoredFile]) -> None:
    """Raise `FormatError` for a file that has the name and the content of another format than the first file."""
    for file in files[1:]:
        if backend.matches_name(file.basename):
            continue
        named = [one for one in backends.values() if one is not backend and one.matches_name(file.basename)]
        found = [one.name for one in named if one.sniff(file).match == "yes"]
        if found and backend.sniff(file).match != "yes":
            raise FormatError(
                "the files are of several formats",
                path=file.name,
                expected=f"{backend.name}, the format of the first file, {files[0].name!r}",
                found=found[0],
                remedy=_ONE_FORMAT,
            )


def _ordered(entries: Sequence[StoredFile | Folder], backend: Backend) -> tuple[Backend, list[list[StoredFile]]]:
    return backend, [_files_of(entry, backend) for entry in entries]


def _files_of(entry: StoredFile | Folder, backend: Backend) -> list[StoredFile]:
    if isinstance(entry, StoredFile):
        return [entry]
    if entry.explicit:
        return entry.files(backend.order(entry.names()))
    files = backend.find(entry)
    if not files:
        names = entry.names()
        named = next((entry.file(name) for name in names if backend.matches_name(name)), None)
        if named is not None and (result := backend.sniff(named)).match == "no":
            what = f"the folder holds no {backend.name} data: {named.basename!r}: {result.reason}"
            raise FormatError(what, path=entry.name, remedy=result.remedy)
        endings = {name[name.rfind(".") :] for name in names if "." in name}
        pattern = f"{entry.name.rstrip('/')}/*{endings.pop() if len(endings) == 1 else ''}"
        raise FormatError(
            f"the folder holds no {backend.name} files" if names else "the folder holds no data files",
            path=entry.name,
            expected=f"names that end in {' or '.join(backend.suffixes)}" if names else None,
            found=_shortened(names) if names else None,
            remedy=f"If the names are right, open {pattern!r}" if names else None,
        )
    _check_one_split(entry, files)
    return files


def _check_one_split(folder: Folder, files: Sequence[StoredFile]) -> None:
    """Raise `FormatError` if the names of files say that they are training data and test data, not one dataset."""
    by_split: dict[str, list[str]] = {}
    for file in files:
        name = file.basename
        split = split_of(name)
        if split is None:
            return
        by_split.setdefault(split, []).append(name)
    if len(by_split) > 1:
        found = "; ".join(f"{split}: {_shortened(names)}" for split, names in sorted(by_split.items()))
        remedy = Remedy("Pass {split}, or another one.", split=max(by_split))
        raise FormatError("the folder holds several splits", path=folder.name, found=found, remedy=remedy)


def _all_files(folder: Folder) -> list[StoredFile]:
    return folder.files(folder.names())


def _choose_in_folder(folder: Folder) -> tuple[Backend, list[StoredFile]]:
    """Choose by the names of the files, and let the content of the first file confirm it.

    If names are of several formats, all with checked headers, the content decides first.
    """
    names = folder.names()
    is_clear = names and names[0].rpartition(".")[2] in backends
    backend = _suggested(folder.file(names[0])) if is_clear else None
    if backend is not None and all(map(backend.matches_name, names)):
        return backend, backend.find(folder)
    found = {backend.name: backend.find(folder) for backend in backends.values()}
    covered = {one.name for files in found.values() for file in files[:1] for one in file.covers}
    found = {name: [file for file in files if file.name not in covered] for name, files in found.items()}
    by_format = _settled({name: files for name, files in found.items() if files})
    rank = min((backends.get(name).folder_rank for name in by_format), default=0)
    first = {name: files for name, files in by_format.items() if backends.get(name).folder_rank == rank}
    paths = (
        file.name.removeprefix(folder.name).lstrip("/")
        for name in by_format.keys() - first.keys()
        for file in by_format[name]
    )
    inside = {path.partition("/")[0] for path in paths if "/" in path}
    is_sure = len(inside) < 2 or any(backends.get(name).has_checked_header for name in first)
    if is_sure:  # several folders beside a table may be the data, such as images by label, or go with it
        by_format = first
    if not by_format:
        try:
            return _choose_by_content(folder)
        except FormatError:
            _name_datasets_below(folder, backends.values())
            raise
    if rank > 1:  # a README, or a configuration, above the data
        _name_datasets_below(folder, [backend for backend in backends.values() if backend.folder_rank < rank])
    name, files = _only_format(folder, by_format)
    claimed = backends.get(name)
    backend = _recognize(files, claimed)
    if backend is claimed:
        return backend, files
    by_name = {file.name: file for file in files}
    return backend, [by_name[name] for name in backend.order(list(by_name))]


def _settled(by_format: Mapping[str, list[StoredFile]]) -> dict[str, list[StoredFile]]:
    """Return the files of each format, without those that have names of several formats and another content.

    The content of one such file decides for all, if each of these formats has checked headers.
    """
    claims = Counter(file.name for files in by_format.values() for file in files)
    shared = [file for files in by_format.values() for file in files if claims[file.name] > 1]
    names = {file.name for file in shared}
    formats = [format for format, files in by_format.items() if any(file.name in names for file in files)]
    file = next((file for file in shared if file.size), None)
    if file is None or not all(backends.get(format).has_checked_header for format in formats):
        return dict(by_format)
    found = [format for format in formats if backends.get(format).sniff(file).match == "yes"]
    if len(found) != 1:
        return dict(by_format)
    left = {
        format: [file for file in files if format == found[0] or file.name not in names]
        for format, files in by_format.items()
    }
    return {format: files for format, files in left.items() if files}


def _choose_by_content(folder: Folder) -> tuple[Backend, list[StoredFile]]:
    """Choose for a folder whose names fit no format: the first 64 files must be of one format."""
    names = folder.names()
    if not names:
        raise FormatError("the folder holds no data files", path=folder.name)
    files = [file for file in _all_files(folder) if file.size]
    if not files:
        raise FormatError("every file in the folder is empty", path=folder.name, remedy=_NAME_FORMAT)
    by_format = {_recognize([file], folder=folder).name: [file] for file in reversed(files[:_MAX_SNIFFED])}
    backend = backends.get(_only_format(folder, by_format)[0])
    return backend, folder.files(backend.order(names))


def _name_datasets_below(folder: Folder, formats: Sequence[Backend]) -> None:
    """Raise if there are datasets of some formats in the folders below a folder.

    Raises:
        FormatError: There are.
    """
    below = datasets_below(folder, formats)
    if below:
        names = [dataset.path.removeprefix(folder.name).lstrip("/") for dataset in below]
        parts = {(re.sub(r"\d+", "*", name), dataset.format) for name, dataset in zip(names, below, strict=True)}
        remedy = f"Open one of them, such as {below[0].path!r}"
        if len(parts) == 1 < len(below):  # they differ in their numbers alone
            remedy = f"Open all by {below[0].path.removesuffix(names[0]) + parts.pop()[0]!r}, or one of them"
        raise FormatError(ONLY_BELOW, path=folder.name, found=_shortened([*map(repr, names)]), remedy=remedy) from None


def datasets_in(folder: Folder) -> list[DatasetBelow]:
    """Return the datasets below a folder that is no dataset itself: see `datasets_below`."""
    return datasets_below(folder, backends.values())


def _only_format(folder: Folder, by_format: Mapping[str, list[StoredFile]]) -> tuple[str, list[StoredFile]]:
    if len(by_format) > 1:
        found = {name: _shortened([file.basename for file in files]) for name, files in by_format.items()}
        most = max(by_format, key=lambda name: len(by_format[name]))
        raise FormatError(
            "the folder holds files of several formats",
            path=folder.name,
            found="; ".join(f"{name}: {files}" for name, files in found.items()),
            remedy=Remedy("Pass {format} to read these files alone, or a glob.", format=most),
        )
    return next(iter(by_format.items()))


def _recognize(files: Sequence[StoredFile], claimed: Backend | None = None, folder: Folder | None = None) -> Backend:
    """Return the format of the first file that is not empty, by its content and its name; if all are, by their names.

    Raises:
        FormatError: No format matches, or several.
    """
    file = next((file for file in files if file.size), None)
    if file is None:
        return _only_name(files, claimed)
    if (suggested := _suggested(file)) is not None:
        return suggested
    named, others = _by_name(file, claimed)
    results: dict[str, tuple[Backend, SniffResult]] = {}
    for backend in (*named, *others):
        result = results[backend.name] = backend, backend.sniff(file)
        if backend in named and backend.has_checked_header and result[1].match == "yes":
            return backend
    matching = _most_certain(results, [] if file.basename.endswith(_SHARED_SUFFIX) else named)
    if not any(results[backend.name][1].match == "yes" for backend in matching):
        _refuse_other(file, folder)
    if len(matching) == 1:
        return matching[0]
    if matching:
        formats = " or ".join(backend.name for backend in matching)
        remedy = Remedy("Pass {format}, or the other one.", format=matching[0].name)
        raise FormatError(f"the content could be {formats}", path=file.name, remedy=remedy)
    found, advice = _unknown(file, [backend.name for backend in named], results)
    if folder is not None:
        what = f"the folder holds a file of no known format: {file.basename!r}: {found}"
        raise FormatError(what, path=folder.name, remedy=_NAME_FORMAT_OR_GLOB if advice in _UNSURE else advice)
    raise FormatError(f"no known format: {found}", path=file.name, remedy=advice)


def _unknown(
    file: StoredFile, named: Sequence[str], results: Mapping[str, tuple[Backend, SniffResult]]
) -> tuple[str, str]:
    """Return what a file of no known format looks like, and the remedy.

    Args:
        file: The file.
        named: The formats that its name is of.
        results: What each format says of it.
    """
    found = f"it begins with {file.pread(0, _SHOWN)!r}"
    if named:
        reasons = [f"not {name}: {results[name][1].reason:.{_SHOWN_REASON}}" for name in named[:2]]
        found += f", and is {'; '.join(reasons)}"
    for name, (_, result) in results.items():
        if result.match != "no":
            return found, Remedy("It may be of a format without checksums: pass {format}.", format=name)
        if result.remedy is not None:
            return found, result.remedy
    if not named:
        return found, _NAME_FORMAT_IF_KNOWN
    return found, _COPY_OR_REPAIR if isinstance(results[named[0]][0], SupportsRepair) else _COPY_OR_NAME_FORMAT


def _suggested(file: StoredFile) -> Backend | None:
    """Return the shipped format that a name ends with, if a checked header confirms it: the others are not imported."""
    format = file.basename.rpartition(".")[2]
    backend = backends.get(format) if format in backends and backends.shipped(format) else None
    is_sure = backend is not None and backend.has_checked_header and file.size and backend.sniff(file).match == "yes"
    return backend if is_sure else None


def _refuse_other(file: StoredFile, folder: Folder | None) -> None:
    """Raise if a file is of another program.

    Raises:
        FormatError: The file looks like that.
    """
    other = other_format(file)
    if other is not None and folder is not None:
        what = f"the folder holds a file of no known format: {file.basename!r} looks like {other.name}"
        raise FormatError(what, path=folder.name, remedy=other.remedy)
    if other is not None:
        raise FormatError(f"no known format: it looks like {other.name}", path=file.name, remedy=other.remedy)


def _only_name(files: Sequence[StoredFile], claimed: Backend | None) -> Backend:
    """Return the format of empty files by their names; its backend decides if an empty file is an empty dataset."""
    names = [{backend.name for backend in _by_name(file, claimed)[0]} for file in files]
    formats = set.intersection(*names)
    if len(formats) == 1:
        return backends.get(formats.pop())
    what = "the file is empty" if len(files) == 1 else "every file is empty"
    raise FormatError(what, path=files[0].name, remedy=Remedy("Pass {format} if that is intended.", format=...))


def _by_name(file: StoredFile, claimed: Backend | None) -> tuple[list[Backend], list[Backend]]:
    """Return the formats that the name of a file is of, and all others."""
    every = backends.values()
    named = [backend for backend in every if backend is claimed or backend.matches_name(file.basename)]
    return named, [backend for backend in every if backend not in named]


def _most_certain(results: Mapping[str, tuple[Backend, SniffResult]], named: Sequence[Backend]) -> list[Backend]:
    """Return the formats with the best evidence.

    A format without checks recognizes a file by its structure alone, which a damaged file of another format may have
    by chance. So it comes after the formats with checks, unless the name is of it; it never has a file whose name is of
    a format with checks; and it has a damaged file only by name.
    """
    ranks = [(True, "yes", None), (False, "yes", True), (True, "damaged", None), (False, "damaged", True)]
    if not any(backend.has_checked_header for backend in named):
        ranks.append((False, "yes", False))
    for has_check, match, has_name in ranks:
        found = [backend for backend, result in results.values()
                 if (backend.has_checked_header, result.match) == (has_check, match)
                 and has_name in (None, backend in named)]  # fmt: skip
        if found:
            hinted = [backend for backend in found if backend in named]
            return hinted if len(hinted) == 1 else found
    return []


def _shortened(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
