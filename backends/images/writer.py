"""Writes folders of images: a file for each record, in the folder of its label."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from dataformats.backends.images.listing import is_image
from dataformats.display.media import media_of
from dataformats.errors import FormatError, SpecError
from dataformats.interfaces import FieldsWriter
from dataformats.kernels import crc32
from dataformats.storage import atomic
from dataformats.storage.checked_json import pack_checked, parse_checked
from dataformats.storage.record_journal import journal_path

_HEAD = pack_checked({"format": "images"}) + b"\n"
_ENDINGS = {b"\xff\xd8": ".jpg", b"\x89PNG": ".png", b"RIFF": ".webp"}


class ImagesWriter(FieldsWriter):
    """Writes each image under a hidden name and renames it, so that a killed writer leaves whole images.

    After a loss of power, an image may have its name, and other bytes. So a journal beside the folder lists the images
    in order, with sizes and CRC-32s, and a resume keeps those at the front that are as listed.

    Args:
        path: The folder.
        resume: Continue behind the images that are there.
    """

    def __init__(self, path: Path, *, resume: bool = False) -> None:
        self._folder = path
        self._has_numbers = False  # True if folders have the number of their label
        self._journal = journal_path(path)
        if not resume:
            atomic.remove(path, self._journal)
        path.mkdir(parents=True, exist_ok=True)
        kept = dict(self._kept())
        for file in [file for file in path.rglob("*") if file.is_file() and file not in kept]:
            file.unlink()
        lines = [_HEAD, *kept.values()]
        atomic.write_chunks(self._journal, lines)  # it is on the disk before the first image
        self._file = atomic.open_unbuffered(self._journal)
        self._end = sum(map(len, lines))  # bytes of the journal
        self._unsynced: list[Path] = [*kept]
        self.n_records: int = len(kept)
        self.n_bytes: int = sum(file.stat().st_size for file in kept)

    def _kept(self) -> Iterator[tuple[Path, bytes]]:
        """Yield the images at the front that are as their lines in the journal say; without a journal, all images.

        Raises:
            FormatError: The journal is damaged.
        """
        there = {file.relative_to(self._folder).as_posix(): file for file in self._folder.rglob("*") if file.is_file()}
        if not self._journal.is_file():
            images = [file for file in there.values() if not file.name.startswith(".")]
            yield from ((file, self._line(file, file.read_bytes())) for file in images)
            return
        with self._journal.open("rb") as lines:
            if next(lines, b"") != _HEAD and there:
                remedy = "Delete it to keep all images, or start again without resume=True"
                what = "the journal of the unfinished data is damaged"
                raise FormatError(what, path=str(self._journal), remedy=remedy)
            for line in lines:
                try:
                    path = there[parse_checked(line)["path"]]
                except (ValueError, LookupError, TypeError):
                    return
                if self._line(path, path.read_bytes()) != line:
                    return
                yield path, line

    def _line(self, path: Path, image: bytes) -> bytes:
        name = path.relative_to(self._folder).as_posix()
        return pack_checked({"path": name, "bytes": len(image), "crc32": crc32(image)}) + b"\n"

    def append(self, blobs: Mapping[str, Sequence[bytes]]) -> None:
        """Append one image.

        Raises:
            SpecError: It is no image, or its path is not a new one within the folder.
        """
        (image,) = blobs["image"]
        path = self._folder / self._path(image, blobs)
        if path.exists():
            raise SpecError(f"an image has the path {str(path.relative_to(self._folder))!r} already", field="path")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            what = f"expected a folder, but an image has the path of one: {str(path.relative_to(self._folder))!r}"
            raise SpecError(what, field="path") from None
        partial = path.parent / f".{path.name}"
        partial.write_bytes(image)
        line = self._line(path, image)
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
            if is_wrong or not is_image(path) or not all(parts):
                raise SpecError(f"expected the relative path of an image, found {path!r}", field="path")
            if "label_name" in blobs and [blobs["label_name"][0].decode()] != parts[:-1][:1]:
                what = f"expected a path in the folder of its label {blobs['label_name'][0].decode()!r}, found {path!r}"
                raise SpecError(what, field="path", index=self.n_records)
            return path
        ending = next((ending for start, ending in _ENDINGS.items() if image.startswith(start)), None)
        if ending is None:
            found = media_of(image)
            what = f"expected a JPEG, PNG or WebP image, found {found.name if found else repr(image[:8])}"
            raise SpecError(what, field="image", index=self.n_records)
        return f"{self._label(blobs)}{self.n_records:08d}{ending}"

    def _label(self, blobs: Mapping[str, Sequence[bytes]]) -> str:
        if "label_name" in blobs:
            name = blobs["label_name"][0].decode()
            if not name or name.startswith(".") or {"/", "\\", "\0"} & set(name):
                raise SpecError(f"expected the name of a folder, found {name!r}", field="label_name")
            return f"{name}/"
        if "label" not in blobs:
            return ""
        number = int.from_bytes(blobs["label"][0], "little", signed=True)
        if number < 0:
            raise SpecError(f"expected a label from 0 on, found {number}", field="label", index=self.n_records)
        self._has_numbers = True
        return f"{number:06d}/"

    def flush(self, *, sync: bool = False) -> None:
        """Sync the new images and their folders."""
        if sync:
            images = [path.relative_to(self._folder) for path in self._unsynced]
            for name in {*images, *(folder for image in images for folder in image.parents)}:
                atomic.sync(self._folder / name)
            self._unsynced.clear()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Sync all images.

        Raises:
            SpecError: Labels without names have gaps: readers number the folders from 0 on.
        """
        if self._file.closed:
            return
        self.flush(sync=True)
        self._file.close()
        if self._has_numbers:
            found = sorted(int(path.name) for path in self._folder.iterdir() if path.is_dir())
            missing = next((number for number, label in enumerate(found) if number != label), None)
            if missing is not None:
                what = f"no image has the label {missing}, so readers would read {found[missing]} as {missing}"
                remedy = "Number the labels from 0 on, or write label_name instead"
                raise SpecError(what, field="label", remedy=remedy)

    def suspend(self) -> None:
        self._file.close()

    def discard(self) -> None:
        self._file.close()
        atomic.remove(self._folder, self._journal)
