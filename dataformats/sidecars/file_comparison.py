"""Compare the files of a dataset with those that its sidecar lists."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dataformats.errors import FormatError, Remedy, TruncatedError
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.sidecars.file_digest import file_digest, is_same_file
from dataformats.sidecars.sidecar import Sidecar, remedy_instead_of
from dataformats.storage.remote.names import unquote_path

_MAX_DIGESTS = 64  # spread over the dataset: more would make `open` slow on a cold disk
_REMEDY = "{file}, delete the sidecar, or, to read what is there, pass {arguments}."
_UNKNOWN: Mapping[str, Any] = dict.fromkeys(("payload", "spec"))
_MISSING_REMEDY = "Restore the file, delete the sidecar, or pass a glob."


@dataclass(frozen=True, slots=True)
class _Claim:
    """The size that a sidecar lists for a file, and perhaps a digest; or the size of all files of a folder together.

    Attributes:
        entry: The number of the entry in the sidecar's list.
        listed: The entry, or one of its parts.
        files: The files.
        grows: True if they may be longer, because other programs append to them; then the digest is of the beginning.
    """

    entry: int
    listed: Mapping[str, Any]
    files: Sequence[StoredFile]
    grows: bool = False

    @property
    def name(self) -> str:
        return self.files[0].name if len(self.files) == 1 else os.path.dirname(self.files[0].name)


@dataclass(slots=True)
class SidecarDiff:
    """A comparison of the files that a sidecar lists with the files that are there.

    Attributes:
        sidecar: The path of the sidecar.
        claims: The listed files that are there.
        missing: The names of the others.
        extra: Files that the sidecar does not list, by name; for each folder that it does not list, one.
    """

    sidecar: str
    claims: list[_Claim] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    extra: dict[str, StoredFile] = field(default_factory=dict)

    def ignore(self, metadata: Mapping[str, Any]) -> None:
        """Do not count files as extra ones if these metadata of a sidecar list them."""
        for entry in metadata.get("files") or ():
            self.extra.pop(entry["name"], None)

    def checksums(self) -> Iterator[tuple[StoredFile, Mapping[str, str], int]]:
        """Yield files, their listed CRC-32s, and how many bytes from their beginning these cover."""
        for claim in self.claims:
            if "crc32" in claim.listed:
                yield claim.files[0], {"crc32": claim.listed["crc32"]}, claim.listed["bytes"]

    def missing_errors(self) -> Iterator[FormatError]:
        """Yield an error for each missing file."""
        for name in self.missing:
            what = f"the file is missing, and the sidecar {self.sidecar!r} lists it"
            yield FormatError(what, path=name, remedy=_MISSING_REMEDY)

    def errors(self, used: Mapping[str, Any] = _UNKNOWN, *, remote: bool = False) -> Iterator[FormatError]:
        """Yield why the sidecar does not match the files, at most one error for each entry.

        Args:
            used: The metadata that the caller uses, for the remedies: see `remedy_instead_of`.
            remote: Compare the digests of files that are not local, too.
        """
        yield from self.missing_errors()
        for file in self.extra.values():
            what = f"the sidecar {self.sidecar!r} does not list the file"
            remedy = remedy_instead_of(used, _REMEDY.replace("{file}", "Move the file away"))
            yield FormatError(what, path=file.name, remedy=remedy)
        remedy = remedy_instead_of(used, _REMEDY.replace("{file}", "Restore the file"))
        wrong = {}
        for claim in self.claims:
            if claim.entry not in wrong and (error := self._size_error(claim, remedy)) is not None:
                wrong[claim.entry] = error
        sized = [claim for claim in self.claims if claim.entry not in wrong]
        yield from wrong.values()
        yield from self._digest_errors(sized, remedy, remote)

    def _size_error(self, claim: _Claim, remedy: Remedy) -> FormatError | None:
        found, expected = sum([file.size for file in claim.files]), claim.listed["bytes"]
        if found == expected or (claim.grows and found > expected):
            return None
        kind = TruncatedError if found < expected else FormatError
        what = f"not as long as the sidecar {self.sidecar!r} lists"
        return kind(what, path=claim.name, expected=f"{expected} bytes", found=f"{found} bytes", remedy=remedy)

    def _digest_errors(self, claims: Sequence[_Claim], remedy: Remedy, remote: bool) -> Iterator[FormatError]:
        here = [claim for claim in claims if remote or claim.files[0].local is not None]
        known = [claim for claim in here if "digest" in claim.listed]
        step = max(1, -(-len(known) // _MAX_DIGESTS))
        wrong = set()
        for claim in known[::step]:
            file = claim.files[0]
            if claim.entry not in wrong and not is_same_file(
                claim.listed["digest"], file_digest(file, min(file.size, claim.listed["bytes"]))
            ):
                wrong.add(claim.entry)
                what = f"not the file that the sidecar {self.sidecar!r} describes: its content differs"
                yield FormatError(what, path=file.name, remedy=remedy)


def compare_file(sidecar: str, listed: Sequence[Mapping[str, Any]], file: StoredFile) -> SidecarDiff:
    """Compare a file, and those beside it that belong to it, with the one entry of its sidecar.

    Args:
        sidecar: The path of the sidecar.
        listed: Its `files`; the file may have another name than then.
        file: The file.
    """
    found = SidecarDiff(sidecar)
    if len(listed) != 1:
        found.extra = {"": file} if listed else {}  # those are the shards of a folder that had the name
        return found
    entry = listed[0]
    found.claims.append(_Claim(0, entry, [file]))
    for part in entry.get("parts", ()):
        name = _renamed(part["name"], entry["name"], file.basename)
        other = file.file_beside(name) if is_name(name) else None
        if other is None:
            found.missing.append(f"{file.name.removesuffix(file.basename)}{name}")
        else:
            other.release()
            found.claims.append(_Claim(0, part, [other]))
    return found


def is_name(text: str) -> bool:
    """True for the name of a file, which leads to no other folder."""
    return text not in ("", ".", "..") and not any(mark in text for mark in ("/", os.sep, "\0"))


def _renamed(part: str, then: str, now: str) -> str:
    """Return the new name of a file beside a renamed one: `y.idx` for `x.idx` if `x.bag` became `y.bag`."""
    stem, _, ending = then.rpartition(".")
    is_pair = part.startswith(f"{stem}.") and now.endswith(f".{ending}")
    return now.removesuffix(ending) + part.removeprefix(f"{stem}.") if is_pair else part


def compare_files(
    sidecar: str,
    listed: Sequence[Mapping[str, Any]],
    folder: str,
    files: Iterable[StoredFile],
    *,
    whole: bool,
) -> SidecarDiff:
    """Compare files of a folder with the list in the folder's sidecar.

    Args:
        sidecar: The path of the sidecar.
        listed: Its `files`: those in the folder, or folders in it, or the folder itself, which may be renamed since.
        folder: The path of the folder.
        files: The data files.
        whole: True if these are all data files of the folder, so that none may be missing.
    """
    found = SidecarDiff(sidecar)
    if not listed:
        return found
    inside: dict[str, dict[str, StoredFile]] = {}  # entry of the folder to its files, by their places in it
    for file in itertools.chain.from_iterable((file, *file.covers) for file in files):
        if file.name == folder:  # the names of its files, in memory
            continue
        head, _, rest = _place(folder, file).partition("/")
        inside.setdefault(head, {})[rest] = file
    if len(listed) == 1 and "digest" not in listed[0] and listed[0]["name"] not in inside:
        places = {_place(folder, file): file for of_head in inside.values() for file in of_head.values()}
        _compare_folder(found, 0, listed[0], folder, places)  # the folder itself
        return found
    for number, entry in enumerate(listed):
        name = entry["name"]
        if name not in inside:
            found.missing += [_joined(folder, name)] if whole else []
        elif "" in inside[name]:
            found.claims.append(_Claim(number, entry, [inside[name][""]]))
        else:
            _compare_folder(found, number, entry, _joined(folder, name), inside[name])
    known = {entry["name"] for entry in listed}
    found.extra = {head: next(iter(inside[head].values())) for head in inside if head not in known}
    return found


def _compare_folder(
    diff: SidecarDiff, number: int, entry: Mapping[str, Any], folder: str, files: Mapping[str, StoredFile]
) -> None:
    """Compare the files of a folder, by their places in it, with the one entry that lists them all."""
    if "parts" not in entry:
        if not files:
            diff.missing.append(folder)
            return
        diff.claims.append(_Claim(number, entry, list(files.values())))
        return
    for part in entry["parts"]:
        if part["name"] in files:
            diff.claims.append(_Claim(number, part, [files[part["name"]]], part["name"] in entry.get("grows", ())))
        else:
            diff.missing.append(_joined(folder, part["name"]))


def _place(folder: str, file: StoredFile) -> str:
    """Return the path of a file in its folder."""
    return file.name if folder == "." else unquote_path(file.name).removeprefix(unquote_path(folder).rstrip("/") + "/")


def _joined(folder: str, name: str) -> str:
    return name if folder == "." else f"{folder.rstrip('/')}/{name}"


def compare_entry(sidecar: str, entry: StoredFile | Folder, listed: Sequence[Mapping[str, Any]]) -> SidecarDiff:
    """Compare a file, or all files of a folder and of those in it, with the list in its sidecar."""
    if isinstance(entry, StoredFile):
        return compare_file(sidecar, listed, entry)
    return compare_files(sidecar, listed, entry.name, _files_in(entry), whole=True)


def _files_in(folder: Folder) -> Iterator[StoredFile]:
    for name in folder.names():
        file = folder.file(name)
        file.release()
        yield file
    for name in folder.folders():
        yield from _files_in(folder.folder(name))


def fitting_metadata(
    sidecar: Sidecar, compare: Callable[[Sequence[Mapping[str, Any]]], SidecarDiff]
) -> tuple[dict[str, Any], SidecarDiff]:
    """Return the metadata that hold for the data there, and the comparison with their list of files.

    These are the metadata of the sidecar, unless its writer was interrupted and the data are still the previous ones.
    Files of the other data may be there, too, as objects are that get their names one after another.

    Args:
        sidecar: The sidecar.
        compare: Compares a list of files with the data.
    """
    found = compare(sidecar.metadata.get("files") or ())
    if sidecar.previous is not None:
        found.ignore(sidecar.previous)
        if any(found.errors(remote=True)):
            earlier = compare(sidecar.previous.get("files") or ())
            earlier.ignore(sidecar.metadata)
            if not any(earlier.errors(remote=True)):
                return sidecar.previous, earlier
    return sidecar.metadata, found


def current_names(sidecar: Sidecar, folder: Folder) -> set[str] | None:
    """Return the names in a folder, without names that a writer is about to add or delete; `None` for all.

    Args:
        sidecar: The sidecar of the folder.
        folder: The folder.
    """
    for metadata in () if sidecar.previous is None else (sidecar.metadata, sidecar.previous):
        listed = metadata.get("files") or ()
        inside, folders = {*folder.names()}, {*folder.folders()}
        if listed and all(
            {part["name"] for part in entry["parts"]} <= {*folder.folder(entry["name"]).names()}
            if entry["name"] in folders and "parts" in entry
            else entry["name"] in inside
            for entry in listed
        ):
            return {entry["name"] for entry in listed}
    return None
