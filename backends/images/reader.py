"""Reads folders of images: each record is a file, its labels and path are in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.images.listing import ImageNames
from dataformats.backends.rows.reader import number_type_for
from dataformats.errors import FormatError
from dataformats.interfaces import Extents, Located, Reader, StoredFile
from dataformats.spec import Spec, Type

_CODECS = {"jpg": "jpg", "jpeg": "jpg", "png": "png", "webp": "webp"}


class ImagesReader(Reader):
    """The images of one folder or more, each behind a file of their names.

    Args:
        files: The `ImageNames` of each folder, then its image files.

    Raises:
        FormatError: Images lie beside folders of images, or the folders differ in their labels.
    """

    def __init__(self, files: Sequence[StoredFile]) -> None:
        self.files: Sequence[StoredFile] = list(files)
        self._names = [(number, file) for number, file in enumerate(files) if isinstance(file, ImageNames)]
        for _, names in self._names:
            if names.problem is not None:
                raise names.problem
            if names.label_names != self._names[0][1].label_names:
                what = f"the labels differ from {self._names[0][1].name!r}"
                raise FormatError(
                    what, path=names.name, expected=self._names[0][1].label_names, found=names.label_names
                )
        is_image = np.array([not isinstance(file, ImageNames) for file in files], np.bool_)
        self._image_files = np.flatnonzero(is_image).astype(np.int32)
        self._sizes = np.array([files[number].size for number in self._image_files.tolist()], np.int64)
        self._counts = is_image.astype(np.int64)
        kinds = {
            _CODECS.get(files[number].name.rpartition(".")[2].lower(), "bytes") for number in self._image_files.tolist()
        }
        fields = {"image": Type(kinds.pop() if len(kinds) == 1 else "bytes"), "path": Type("utf8")}
        if self._names and self._names[0][1].label_names:
            fields |= {"label": Type("int64"), "label_name": Type("utf8")}
        self.spec: Spec | None = Spec(fields)
        counts = np.diff([*(number for number, _ in self._names), len(files)]) - 1
        self._names_of = np.repeat(np.array([number for number, _ in self._names], np.int32), counts)
        self._places = {
            name: tuple(np.concatenate([names.places[name][part] for _, names in self._names]) for part in (0, 1))
            for name in fields
            if name != "image"
        }

    @property
    def counts(self) -> NDArray[np.int64]:
        return self._counts

    @property
    def nbytes(self) -> int:
        return int(self._sizes.sum())

    def locate(self, indices: NDArray[np.int64], fields: Mapping[str, bool | range]) -> dict[str, Located]:
        return {name: Located(self._extents(name, indices)) for name in fields}

    def file_summaries(self) -> list[tuple[str, int, int]]:
        """Return name, 1 and bytes of each image."""
        names = [self.files[number].name for number in self._image_files.tolist()]
        return [(name, 1, size) for name, size in zip(names, self._sizes.tolist(), strict=True)]

    def digest(self, update: Callable[[bytes], None]) -> None:
        for _, names in self._names:
            update(names.content)

    def stored_type_for(self, field: str, declared: Type) -> Type:
        """Return `declared`, if an image can be decoded so, or if it is the type of a name or label."""
        assert self.spec is not None  # set in the constructor; for the type checker
        if field == "image" and declared.codec == "uint8":  # arrays, as they were before they were encoded
            return self.spec[field]
        return number_type_for(field, Type("bytes") if field == "image" else self.spec[field], declared)

    def _extents(self, name: str, indices: NDArray[np.int64]) -> Extents:
        if name == "image":
            return Extents(self._image_files[indices], np.zeros(len(indices), np.int64), self._sizes[indices])
        offset, length = self._places[name]
        return Extents(self._names_of[indices], offset[indices], length[indices])
