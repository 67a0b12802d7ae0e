"""Writes folders of media: a file for each record, in the folder of its label, and other fields beside them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np

from dataformats.backends.media.kinds import MediaKind
from dataformats.backends.media.tables import FILE_NAME
from dataformats.batch import Blobs
from dataformats.batch.stored_records import MISSING_LIST
from dataformats.columns.codec_resolver import CodecResolver
from dataformats.display.media import media_of
from dataformats.errors import FormatError, SpecError
from dataformats.interfaces import FieldsWriter, RecordCodec
from dataformats.kernels import crc32
from dataformats.registry import codecs
from dataformats.spec import Spec, Type
from dataformats.storage import atomic
from dataformats.storage.checked_json import pack_checked, parse_checked
from dataformats.storage.record_journal import journal_path

NAMES = ("path", "label", "label_name")
"""The fields that the names of files and folders hold."""

_METADATA = "metadata.jsonl"


class MediaWriter(FieldsWriter):
    """Writes each medium under a hidden name and renames it, so that a killed writer leaves whole media.

    After a loss of power, a medium may have its name, and other bytes. So a journal beside the folder lists the media
    in order, with sizes, CRC-32s and the other fields, and a resume keeps those at the front that are as listed. Then
    `close` writes the other fields to `metadata.jsonl`, as Hugging Face has it.

    Args:
        kind: The kind of media.
        path: The folder.
        stored: The types of the fields.
        resume: Continue behind the media that are there.
    """

    def __init__(self, kind: MediaKind, path: Path, stored: Spec, *, resume: bool = False) -> None:
        self._kind = kind
        self._head = pack_checked({"format": kind.name}) + b"\n"
        self._has_digits = "label_name" in stored and stored["label_name"].codec == "decimal"
        self._class_names = class_folders(stored["label"]) if "label" in stored else ()
        self._others = Spec(
            {
                name: replace(of, codec="utf8") if of.codec == "bytes" else of
                for name, of in stored.items()
                if name not in (kind.field, *NAMES)
            }
        )
        self._resolver = CodecResolver(None, trusted=False)
        self._rows = cast("RecordCodec", codecs.get("json_object")).bind(self._others, self._resolver)
        self._folder = path
        self._has_numbers = False  # True if folders have the number of their label
        self._journal = journal_path(path)
        if not resume:
            atomic.remove(path, self._journal)
        path.mkdir(parents=True, exist_ok=True)
        kept = dict(self._kept())
        for file in [file for file in path.rglob("*") if file.is_file() and file not in kept]:
            file.unlink()
        lines = [self._head, *kept.values()]
        atomic.write_chunks(self._journal, lines)  # it is on the disk before the first image
        self._file = atomic.open_unbuffered(self._journal)
        self._end = sum(map(len, lines))  # bytes of the journal
        self._unsynced: list[Path] = [*kept]
        self.n_records: int = len(kept)
        self.n_bytes: int = sum(file.stat().st_size for file in kept)

    def _kept(self) -> Iterator[tuple[Path, bytes]]:
        """Yield the images at the front that are as their lines in the journal say.

        Without a journal, yields all images if they have no other fields, and else none.

        Raises:
            FormatError: The journal is damaged.
        """
        there = {file.relative_to(self._folder).as_posix(): file for file in self._folder.rglob("*") if file.is_file()}
        if not self._journal.is_file():
            images = [file for file in there.values() if not (file.name.startswith(".") or self._others)]
            yield from ((file, self._line(file, file.read_bytes(), "{}")) for file in images)
            return
        with self._journal.open("rb") as lines:
            if next(lines, b"") != self._head and there:
                remedy = "Start again without resume=True"
                remedy = remedy if self._others else f"Delete it to keep all images, or s{remedy[1:]}"
                what = "the journal of the unfinished data is damaged"
                raise FormatError(what, path=str(self._journal), remedy=remedy)
            for line in lines:
                try:
                    listed = parse_checked(line)
                    path, row = there[listed["path"]], listed["row"]
                except (ValueError, LookupError, TypeError):
                    return
                if self._line(path, path.read_bytes(), row) != line:
                    return
                yield path, line

    def _line(self, path: Path, image: bytes, row: str) -> bytes:
        name = path.relative_to(self._folder).as_posix()
        return pack_checked({"path": name, "bytes": len(image), "crc32": crc32(image), "row": row}) + b"\n"

    def _row(self, blobs: Mapping[str, Sequence[bytes]]) -> str:
        """Return the other fields as JSON."""
        values = {}
        for name, kind in self._others.items():
            found, is_list = blobs[name], kind.is_blob_list
            if found is not MISSING_LIST and (found or is_list):
                counts = np.array([len(found)]) if is_list else None
                values[name] = self._resolver.decode(kind.required, Blobs.join([*found]), counts, field=name)[0]
        return self._rows.encode(values).decode()

    def append(self, blobs: Mapping[str, Sequence[bytes]]) -> None:
        """Append one medium.

        Raises:
            SpecError: It is no such medium, or its path is not a new one within the folder.
            CodecError: A field of bytes is no text.
        """
        (image,) = blobs[self._kind.field]
        row = self._row(blobs)
        path = self._folder / self._path(image, blobs)
        if path.exists():
            raise SpecError(f"the folder has the path {str(path.relative_to(self._folder))!r} already", field="path")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            what = f"expected a folder, but a file has the path of one: {str(path.relative_to(self._folder))!r}"
            raise SpecError(what, field="path") from None
        partial = path.parent / f".{path.name}"
        partial.write_bytes(image)
        line = self._line(path, image, row)
        atomic.write_all(self._file.fileno(), line, self._end)
        os.rename(partial, path)
        self._end += len(line)
        self._unsynced.append(path)
        self.n_records += 1
        self.n_bytes += len(image)

    def _path(self, image: bytes, blobs: Mapping[str, Sequence[bytes]]) -> str:
        if "path" in blobs:
            path = blobs["path"][0].decode()
            parts = path.split("/")
            is_wrong = any(part.startswith(".") or {"\\", "\0"} & set(part) for part in parts)
            if is_wrong or not self._kind.has(path) or not all(parts):
                raise SpecError(f"expected the relative path of one of {self._kind.name}, found {path!r}", field="path")
            if "label_name" in blobs and [label := self._name_of(blobs["label_name"][0])] != parts[:-1][:1]:
                what = f"expected a path in the folder of its label {label!r}, found {path!r}"
                raise SpecError(what, field="path", index=self.n_records)
            return path
        found = media_of(image)
        ending = None if found is None else self._kind.endings.get(found.name)
        if ending is None:
            what = f"expected {' or '.join(self._kind.endings)}, found {found.name if found else repr(image[:8])}"
            raise SpecError(what, field=self._kind.field, index=self.n_records)
        return f"{self._label(blobs)}{self.n_records:08d}{ending}"

    def _label(self, blobs: Mapping[str, Sequence[bytes]]) -> str:
        if "label_name" in blobs:
            name = self._name_of(blobs["label_name"][0])
            if not _is_folder_name(name):
                raise SpecError(f"expected the name of a folder, found {name!r}", field="label_name")
            return f"{name}/"
        if "label" not in blobs:
            return ""
        number = int.from_bytes(blobs["label"][0], "little", signed=True)
        if number < 0:
            raise SpecError(f"expected a label from 0 on, found {number}", field="label", index=self.n_records)
        self._has_numbers = True
        if not self._class_names:
            return f"{number:06d}/"
        if number >= len(self._class_names):
            what = f"expected a label below {len(self._class_names)}, the number of classes, found {number}"
            raise SpecError(what, field="label", index=self.n_records)
        return f"{self._class_names[number]}/"

    def _name_of(self, label: bytes) -> str:
        """Return the name of the folder of a label: six digits for a number.

        Raises:
            SpecError: It is no text, or no whole number.
        """
        try:
            if not self._has_digits:
                return label.decode()
            whole, _, fraction = label.decode().partition(".")
            if fraction.strip("0") or not whole.removeprefix("-").isdecimal():
                raise SpecError(
                    f"expected a whole number, found {label.decode()}", field="label_name", index=self.n_records
                )
            return f"{int(whole):06d}"
        except UnicodeDecodeError as error:
            raise SpecError(f"expected text, found {label[:20]!r}", field="label_name", index=self.n_records) from error

    def flush(self, *, sync: bool = False) -> None:
        """Sync the new media and their folders."""
        if sync:
            images = [path.relative_to(self._folder) for path in self._unsynced]
            for name in {*images, *(folder for image in images for folder in image.parents)}:
                atomic.sync(self._folder / name)
            self._unsynced.clear()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Sync all media.

        Raises:
            SpecError: Labels without names have gaps: readers number the folders from 0 on.
        """
        if self._file.closed:
            return
        self.flush(sync=True)
        self._file.close()
        if self._others:
            with self._journal.open("rb") as lines:
                next(lines)
                atomic.write_chunks(self._folder / _METADATA, map(_entry, lines))
        if self._has_numbers:
            folders = [path.name for path in self._folder.iterdir() if path.is_dir()]
            names = self._class_names
            found = sorted(names.index(name) if names else int(name) for name in folders)
            missing = next((number for number, label in enumerate(found) if number != label), None)
            if missing is not None:
                what = f"no {self._kind.field} has the label {missing}"
                what = f"{what}, so readers would read {found[missing]} as {missing}"
                remedy = "Number the labels from 0 on, or write label_name instead"
                raise SpecError(what, field="label", remedy=remedy)

    def suspend(self) -> None:
        self._file.close()

    def discard(self) -> None:
        self._file.close()
        atomic.remove(self._folder, self._journal)


def _entry(line: bytes) -> bytes:
    """Return the line of the metadata for a line of the journal."""
    listed = parse_checked(line)
    row = {FILE_NAME: listed["path"], **json.loads(listed["row"])}
    return json.dumps(row, ensure_ascii=False).encode() + b"\n"


def class_folders(label: Type) -> tuple[str, ...]:
    """Return the class names of a label if folders can have them: readers number folders by their order."""
    names = label.class_names
    return names if tuple(sorted({*names})) == names and all(map(_is_folder_name, names)) else ()


def _is_folder_name(name: str) -> bool:
    return bool(name) and not name.startswith(".") and not {"/", "\\", "\0"} & set(name)
