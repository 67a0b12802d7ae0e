"""Find the metadata (format, payload, spec) that the sidecars of a dataset's files hold, and check that they apply."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dataformats.columns.common_type import wider_type
from dataformats.errors import FormatError, Remedy, TruncatedError
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.reading.other_formats import other_format
from dataformats.registry import backends
from dataformats.sidecars.file_comparison import (
    SidecarDiff,
    compare_file,
    compare_files,
    current_names,
    fitting_metadata,
)
from dataformats.sidecars.sidecar import Sidecar, load_sidecar, remedy_instead_of
from dataformats.spec import Type
from dataformats.storage.selected_files import ListedFolder

_MAX_SIDECARS = 64

_Types = Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class _SidecarPart:
    """Files of a dataset that one sidecar describes, or none.

    Attributes:
        name: The first of them, or their folder.
        sidecar: The sidecar; `None` if they have none.
        files: The files.
        folder: Their folder, if the sidecar is the folder's.
        whole: True if these are all data files of the folder.
    """

    name: str
    sidecar: Sidecar | None
    files: list[StoredFile]
    folder: str | None = None
    whole: bool = False

    def compare(self, listed: Sequence[Mapping[str, Any]]) -> SidecarDiff:
        """Compare the files with the list of files in the sidecar."""
        sidecar = "" if self.sidecar is None else self.sidecar.name
        if self.folder is None:
            return compare_file(sidecar, listed, self.files[0])
        return compare_files(sidecar, listed, self.folder, self.files, whole=self.whole)


class DatasetSidecars:
    """The sidecars of the files and folders of a path. Each is read once.

    Args:
        entries: The files and folders, at least one.
        needed: False if the call names payload and spec: then a damaged sidecar is ignored.
    """

    def __init__(self, entries: Sequence[StoredFile | Folder], needed: bool) -> None:
        self._entries = entries
        self._needed = needed
        self._own: dict[str, Sidecar | None] = {}
        self._listing: dict[str, tuple[Sidecar | None, frozenset[str]]] = {}

    @property
    def format(self) -> str | None:
        """The registered format that the sidecar of the first file or folder names, or `None`.

        An interrupted writer may have replaced data of another format: then the content decides.
        """
        entry = self._entries[0]
        if isinstance(entry, Folder) and entry.explicit:
            entry = entry.file(entry.names()[0])
        sidecar = self._beside(entry) or (None if isinstance(entry, Folder) else self._of_folder(entry))
        known = () if sidecar is None else (sidecar.metadata, sidecar.previous or sidecar.metadata)
        named = {metadata.get("format") for metadata in known}
        format = named.pop() if len(named) == 1 else None
        return format if format is not None and format in backends else None

    def current_entries(self) -> list[StoredFile | Folder]:
        """Return the files and folders, without files in them that a writer is about to add or delete."""
        entries: list[StoredFile | Folder] = []
        for entry in self._entries:
            own = self._beside(entry) if isinstance(entry, Folder) and not entry.explicit else None
            names = None if own is None or not isinstance(entry, Folder) else current_names(own, entry)
            entries.append(entry if names is None or not isinstance(entry, Folder) else ListedFolder(entry, names))
        return entries

    def metadata(
        self,
        files: Sequence[Sequence[StoredFile]],
        used: Callable[[Mapping[str, Any]], set[str]],
        report: Callable[[FormatError], None],
        typed: Collection[str] | None = None,
    ) -> dict[str, Any]:
        """Return the metadata that hold for all files. A field that the spec of one of them lacks is optional.

        Args:
            files: The data files of each entry.
            used: Returns the keys that the caller uses. If there are any, the files must be those it lists;
                else only none may be missing from a whole folder.
            report: Called with the error of each file that is not as its sidecar says; may raise it.
            typed: The fields that the call types, if the format stores fields apart: its files tell how numbers are
                stored, and which more fields they have. `None`: it does not.

        Raises:
            FormatError: A sidecar is damaged, or two disagree about metadata that are used.
        """
        first: tuple[_SidecarPart, dict[str, Any]] | None = None
        spec: _Types = None
        parts = list(self._parts(files))
        for part in parts:
            metadata: dict[str, Any] = {}
            if part.sidecar is not None:
                metadata, found = fitting_metadata(part.sidecar, part.compare)
                names = used(metadata)
                known = {name: metadata.get(name) for name in names}
                for error in found.errors(known) if names else found.missing_errors():
                    report(_with_kind(error, part.files))
            first = first or (part, metadata)
            paths = first[0].name, part.name
            both = metadata.get("spec") if first[1] is metadata else _common(spec, metadata.get("spec"), typed, paths)
            names = used(first[1]) | used(metadata)
            for name in names:
                is_same = both is not None if name == "spec" else metadata.get(name) == first[1].get(name)
                if not is_same and metadata is not first[1]:
                    raise _disagreement(name, first, (part, metadata), names)
            spec = both
        if first is None:
            return {}
        if len(parts) > 1 and typed is not None and spec is not None:
            return first[1] | {"spec": spec or None, "other_fields": True}
        return first[1] | {"spec": spec} if spec is not None else first[1]

    def _parts(self, files: Sequence[Sequence[StoredFile]]) -> Iterator[_SidecarPart]:
        """Yield the parts of the dataset; at most 64 files outside of folders with a sidecar are looked at."""
        single: list[StoredFile] = []  # not in a folder with a sidecar
        for entry, inside in zip(self._entries, files, strict=True):
            own = self._beside(entry) if isinstance(entry, Folder) and not entry.explicit else None
            if own is not None:
                yield _SidecarPart(entry.name, own, list(inside), entry.name, whole=True)
            else:
                single += inside
        step = max(1, -(-len(single) // _MAX_SIDECARS))
        shards: dict[str, _SidecarPart] = {}
        for number, file in enumerate(single):
            own = self._beside(file) if number % step == 0 else None
            others = self._of_folder(file) if own is None else None
            if others is not None:
                shards.setdefault(others.name, _SidecarPart(file.name, others, [], _folder_name(file))).files.append(
                    file
                )
            elif number % step == 0:
                yield _SidecarPart(file.name, own, [file])
        yield from shards.values()

    def _beside(self, entry: StoredFile | Folder) -> Sidecar | None:
        if entry.name not in self._own:
            try:
                self._own[entry.name] = load_sidecar(entry)
            except FormatError:
                if self._needed:
                    raise
                self._own[entry.name] = None
            if (sidecar := self._own[entry.name]) is not None and sidecar.metadata.get("incomplete"):
                what = "the data are incomplete: a writer that replaced them was interrupted, or is at work"
                raise FormatError(
                    what, path=entry.name, remedy=Remedy("Write them again with {overwrite}", overwrite=True)
                )
        return self._own[entry.name]

    def _of_folder(self, file: StoredFile) -> Sidecar | None:
        """Return the sidecar of a file's folder, if it lists the file as a shard."""
        name = _folder_name(file)
        if name not in self._listing:
            folder = file.folder()
            sidecar = None if folder is None else self._beside(folder)
            known = () if sidecar is None else (sidecar.metadata, sidecar.previous or {})
            self._listing[name] = (
                sidecar,
                frozenset(listed["name"] for metadata in known for listed in metadata.get("files") or ()),
            )
        sidecar, shards = self._listing[name]
        return sidecar if file.basename in shards else None


def _common(one: _Types, other: _Types, typed: Collection[str] | None, paths: Sequence[str]) -> _Types:
    """Return the fields of two specs; `None` if a type differs.

    Args:
        one: A spec.
        other: Another one.
        typed: See `DatasetSidecars.metadata`.
        paths: Files of the two.
    """
    if one is None or other is None or one == other:
        return None if other is None else one
    found: dict[str, Type] = {}
    for name in dict.fromkeys([*one, *other]):
        first, last = (Type.named({**a, **b}[name]) for a, b in ((other, one), (one, other)))
        is_missing = (name not in one or name not in other) and not first.is_blob_list
        kind = wider_type(first, last) if typed is not None or first.required == last.required else None
        if kind is not None:
            is_optional = is_missing or first.optional or last.optional
            known = kind.known_in([(paths[0], first), (paths[1], last)])
            found[name] = replace(known, optional=is_optional)
        elif typed is None or name not in typed:
            return None
    return found


def _with_kind(error: FormatError, files: Iterable[StoredFile]) -> FormatError:
    """Return the error of a file with the other format that it looks like, if it does: a git-lfs pointer, perhaps."""
    file = next((file for file in files if file.name == error.path), None)
    other = other_format(file) if isinstance(error, TruncatedError) and file is not None and file.size else None
    if other is None:
        return error
    what = f"{error.what}; it looks like {other.name}"
    return TruncatedError(what, path=error.path, expected=error.expected, found=error.found, remedy=other.remedy)


def _folder_name(file: StoredFile) -> str:
    return file.name.rpartition("/")[0] or "."


def _disagreement(
    name: str,
    first: tuple[_SidecarPart, Mapping[str, Any]],
    second: tuple[_SidecarPart, Mapping[str, Any]],
    used: Iterable[str],
) -> FormatError:
    (one, expected), (other, found) = first, second
    if one.sidecar is not None and other.sidecar is not None:
        what = f"the {name} in its sidecar {other.sidecar.name!r} is not that in {one.sidecar.name!r}"
    elif one.sidecar is not None:
        what = f"the sidecar {one.sidecar.name!r} has the {name} of {one.name!r}, and no sidecar describes this file"
    else:
        sidecar = other.sidecar.name if other.sidecar is not None else ""
        what = f"its sidecar {sidecar!r} has the {name}, and no sidecar describes {one.name!r}"
    remedy = remedy_instead_of(dict.fromkeys(used), "Pass {arguments}.")
    return FormatError(what, path=other.name, expected=expected.get(name), found=found.get(name), remedy=remedy)
