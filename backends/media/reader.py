"""Reads folders of media: each record is a file, its path and label are in memory, other fields lie beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.media.kinds import MediaKind
from dataformats.backends.media.listing import MediaNames
from dataformats.backends.media.tables import ANNOTATIONS, BOXES, boxes_of, classes_of_yolo, table_fields, typed_boxes
from dataformats.backends.rows.reader import number_type_for
from dataformats.backends.webdataset.extensions import declared_type, stored_type_for, type_of_extension
from dataformats.batch import Blobs
from dataformats.errors import FormatError
from dataformats.interfaces import Extents, Located, Reader, StoredFile
from dataformats.spec import Spec, Type

_Places = tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]
"""File, -1 for none, offset and length of the values of one field."""


class MediaReader(Reader):
    """The media of one folder or more, each behind a file of their names.

    Args:
        kind: The kind of media.
        files: The `MediaNames` of each folder, then its media files. The files beside them come after all.

    Raises:
        FormatError: Media lie beside folders of media, the folders differ in their labels, or a table is damaged.
    """

    def __init__(self, kind: MediaKind, files: Sequence[StoredFile]) -> None:
        self._kind = kind
        self._names = [(number, file) for number, file in enumerate(files) if isinstance(file, MediaNames)]
        for _, names in self._names:
            if names.problem is not None:
                raise names.problem
            if names.label_names != self._names[0][1].label_names:
                what = f"the labels differ from {self._names[0][1].name!r}"
                raise FormatError(
                    what, path=names.name, expected=self._names[0][1].label_names, found=names.label_names
                )
        is_media = np.array([not isinstance(file, MediaNames) for file in files], np.bool_)
        self._media = np.flatnonzero(is_media).astype(np.int32)
        media = self._media.tolist()
        sizes = np.array([files[number].size for number in media], np.int64)
        kinds = {kind.codec_of(files[number].name) for number in media}
        self._stored: dict[str, Type] = {kind.field: Type(kinds.pop() if len(kinds) == 1 else "bytes")}
        self._places: dict[str, _Places] = {kind.field: (self._media, np.zeros(len(sizes), np.int64), sizes)}
        owners = np.diff([*(number for number, _ in self._names), len(files)]) - 1
        of_names = np.repeat(np.array([number for number, _ in self._names], np.int32), owners)
        label_names = tuple(self._names[0][1].label_names) if self._names else ()
        for name, codec in (("path", "utf8"), ("label", "int64"), ("label_name", "utf8"))[: 3 if label_names else 1]:
            parts = [names.places[name] for _, names in self._names]
            self._stored[name] = Type(codec, class_names=label_names if name == "label" else ())
            offset, length = (np.concatenate([part[side] for part in parts]) for side in (0, 1))
            self._places[name] = of_names, offset, length
        self.files: Sequence[StoredFile] = [*files]
        self._companions: set[str] = set()
        self._reads: dict[int, Callable[[int], bytes]] = {}
        self._has_boxes: bool = any(names.beside.boxes is not None for _, names in self._names)
        self.lacking: Sequence[str] = []
        self._join()
        self._counts = np.append(is_media, np.zeros(len(self.files) - len(files), np.bool_)).astype(np.int64)
        self.spec: Spec | None = Spec({name: declared_type(stored) for name, stored in self._stored.items()})

    @property
    def counts(self) -> NDArray[np.int64]:
        return self._counts

    @property
    def stored_spec(self) -> Spec:
        return Spec(self._stored)

    def locate(self, indices: NDArray[np.int64], fields: Mapping[str, bool | range]) -> dict[str, Located]:
        return {name: self._located(name, indices) for name in fields}

    def file_summaries(self) -> list[tuple[str, int, int]]:
        """Return name, 1 and bytes of each medium."""
        names = [self.files[number].name for number in self._media.tolist()]
        return [(name, 1, size) for name, size in zip(names, self._places[self._kind.field][2].tolist(), strict=True)]

    def digest(self, update: Callable[[bytes], None]) -> None:
        for _, names in self._names:
            update(names.content)
        for name in self._joined:
            file, _, length = self._places[name]
            update(name.encode())
            update((file < 0).tobytes() + length.tobytes())

    def stored_type_for(self, field: str, declared: Type) -> Type:
        """Return `declared`, if media can be decoded so, or if it is the type of another field."""
        stored = self._stored[field]
        if field == self._kind.field and declared.codec == "uint8":  # arrays, as they were before they were encoded
            return stored
        if field in self._companions or field == "label_name":  # whose numbers are digits
            return stored_type_for(field, stored, declared)
        if declared == stored:
            return stored
        kind = Type("bytes") if field == self._kind.field else stored.required
        found = number_type_for(field, kind, declared.required)
        return replace(found, optional=declared.optional)

    def present_fields(self, index: int) -> dict[str, bool | range] | None:
        return {name: True for name, (file, _, _) in self._places.items() if file[index] >= 0}

    def _located(self, name: str, indices: NDArray[np.int64]) -> Located:
        files, offsets, lengths = self._places[name]
        file, offset, length = files[indices], offsets[indices], lengths[indices]
        fetch = self._fetch_annotations if self._reads and name == ANNOTATIONS else None
        if self._has_boxes and name in BOXES:
            fetch = partial(self._fetch_boxes, name)
        if not self._stored[name].optional:
            return Located(Extents(file, offset, length, fetch=fetch))
        rows = np.flatnonzero(file >= 0)
        return Located(Extents(file[rows], offset[rows], length[rows]), (file >= 0).astype(np.int64))

    def _fetch_boxes(self, name: str, extents: Extents) -> tuple[Blobs, dict[int, FormatError]]:
        blobs, problems = boxes_of([self.files[number] for number in extents.file.tolist()], name)
        return Blobs.join(blobs), problems

    def _fetch_annotations(self, extents: Extents) -> tuple[Blobs, dict[int, FormatError]]:
        rows = zip(extents.file.tolist(), extents.offset.tolist(), extents.length.tolist(), strict=True)
        blobs = [self._reads[n](at) if n in self._reads else self.files[n].pread(at, length) for n, at, length in rows]
        return Blobs.join(blobs), {}

    # ---- the files beside the media

    def _join(self) -> None:
        """Add the fields of companions, tables and boxes."""
        files, first, n = list(self.files), 0, len(self._media)
        lacking: list[str] = []
        joined: dict[str, _Places] = {}
        types: dict[str, list[tuple[str, Type]]] = {}

        def places_of(name: str, kind: Type, path: str) -> _Places:
            types.setdefault(name, []).append((path, kind))
            if (known := types[name][0][1]).required != kind.required:
                raise FormatError(f"the field {name!r} has the types {known} and {kind}", path=path)
            none = np.full(n, -1, np.int32), np.zeros(n, np.int64), np.zeros(n, np.int64)
            return joined.setdefault(name, none)

        for number, names in self._names:
            for extension, found in names.beside.companions.items():
                self._companions.add(extension)
                self._set(places_of(extension, type_of_extension(extension), names.name), files, first, found)
            if names.beside.boxes is not None:
                classes, unread = classes_of_yolo(names.beside.classes)
                lacking += unread
                for name, kind in typed_boxes(classes).items():
                    places = places_of(name, kind, names.name)
                    places[0][first : first + len(names.paths)] = number  # no objects
                    self._set(places, files, first, names.beside.boxes)
            tables, missing = table_fields(names)
            lacking += missing
            for media, one in tables:
                here = (media >= 0) & (one.length >= 0)
                places, rows = places_of(one.name, one.type, one.file.name), first + media[here]
                places[0][rows], places[1][rows], places[2][rows] = len(files), one.offset[here], one.length[here]
                if one.read is not None:
                    self._reads[len(files)] = one.read
                files.append(one.file)
            first += len(names.paths)
        self.lacking, self.files = lacking, files
        self._keep(joined, {name: found[0][1].known_in(found) for name, found in types.items()})

    def _keep(self, joined: Mapping[str, _Places], types: Mapping[str, Type]) -> None:
        """Take the joined fields; one called `label` or `label_name` replaces the labels of folders."""
        for name in (self._kind.field, "path"):
            if name in joined:
                what = f"a file beside the media gives them the field {name!r}, which they have already"
                raise FormatError(what, path=self.files[0].name, remedy="Give the field another name")
        if not joined.keys().isdisjoint(("label", "label_name")):
            for name in ("label", "label_name"):
                self._places.pop(name, None)
                self._stored.pop(name, None)
        for name, places in joined.items():
            self._stored[name] = replace(types[name], optional=bool((places[0] < 0).any()))
            self._places[name] = places
        self._joined = tuple(joined)

    @staticmethod
    def _set(places: _Places, files: list[StoredFile], first: int, found: Sequence[tuple[int, StoredFile]]) -> None:
        """Set the places of values that are whole files, and append the files."""
        rows = first + np.array([row for row, _ in found], np.int64)
        places[0][rows] = np.arange(len(files), len(files) + len(found))
        places[2][rows] = [file.size for _, file in found]
        files += [file for _, file in found]
