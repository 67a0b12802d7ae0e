"""The backend of folders of images."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dataformats.backends.images.listing import SUFFIXES, ImageNames, find_images, is_image
from dataformats.backends.images.reader import ImagesReader
from dataformats.backends.images.writer import ImagesWriter
from dataformats.errors import Remedy, SpecError
from dataformats.interfaces import FieldsBackend, FilePlace, ReaderOptions, SniffResult
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.spec import Spec, Type

_STARTS = (b"\xff\xd8\xff", b"\x89PNG\r\n", b"RIFF", b"BM", b"II*\0", b"MM\0*", b"P2", b"P3", b"P5", b"P6")
_KINDS = {"path": ("utf8",), "label": ("int64", "int32", "uint8"), "label_name": ("utf8",)}
_IMAGES = ("jpg", "jpeg", "png", "webp")


class ImagesBackend(FieldsBackend):
    """A file for each image; folders name the labels, as in torchvision's `ImageFolder`."""

    name = "images"
    suffixes: tuple[str, ...] = SUFFIXES
    in_folders = True
    has_checked_header = True
    folder_rank = 1
    keeps_records = False

    def matches_name(self, name: str) -> bool:
        """True for the name of an image, in letters of any case."""
        return is_image(name)

    def find(self, folder: Folder) -> list[StoredFile]:
        """Return the images in a folder, or in the folders of their labels, and a file with their names."""
        return find_images(folder)

    def sniff(self, file: StoredFile) -> SniffResult:
        """Recognize an image by its name and its first bytes."""
        if isinstance(file, ImageNames):
            return SniffResult("yes")
        if not is_image(file.basename):
            return SniffResult("no", "the name is not of an image")
        is_sound = file.pread(0, 8).startswith(_STARTS)
        return SniffResult("yes") if is_sound else SniffResult("damaged", "no image begins at byte 0")

    def open(self, files: Sequence[StoredFile], options: ReaderOptions, **_: Any) -> ImagesReader:
        """Return a reader of images.

        Raises:
            FormatError: Images lie beside folders of images, or the folders differ in their labels.
        """
        given = list(itertools.takewhile(lambda file: not isinstance(file, ImageNames), files))
        if given:
            files = [ImageNames(given[0].name, [file.basename for file in given]), *files]
        return ImagesReader(files)

    def stored_spec(self, spec: Spec, **_: Any) -> Spec:
        """Return the image's own type, PNG for arrays; text for names, an int64 for the label."""
        found = {name: stored for name, kind in spec.items() if (stored := _stored(name, kind)) is not None}
        others = [name for name in spec if name not in found]
        image = "image" if "image" in found else next((name for name in others if _stored("image", spec[name])), None)
        if others and image is not None:
            fields = [name for name in spec if name in found or name == image]
            remedy = Remedy("To convert, pass {fields}.", fields=fields)
            if image not in found:
                remedy = Remedy("To convert, pass {fields} and {rename}.", fields=fields, rename={image: "image"})
            what = "a folder of images holds the fields image, path, label (an integer) and label_name"
            raise SpecError(f"{what}, found {spec[others[0]]}", field=others[0], remedy=remedy)
        if image is None:
            raise SpecError(f"expected a field 'image', found {', '.join(spec)}")
        return Spec(found)

    def create(
        self, path: Path, *, stored: Spec, resume: bool = False, place: FilePlace | None = None, **_: Any
    ) -> ImagesWriter:
        """Return a writer of a folder.

        Raises:
            SpecError: The name is of an image, or the folder would be one of several shards.
        """
        if place is not None and is_image(place.name or ""):
            raise SpecError(f"expected the name of a folder of images, found {place.name!r}")
        if place is not None and place.shard is not None:
            raise SpecError("a folder of images has no shards", remedy="Leave out shard_records= and shard_bytes=")
        return ImagesWriter(path, resume=resume)


def _stored(name: str, kind: Type) -> Type | None:
    """Return the type under which a field is stored; `None` if a folder of images cannot hold it."""
    is_array = kind.codec == "uint8" and len(kind.dims) in (2, 3)
    if name == "image" and (is_array or (kind.codec in (*_IMAGES, "bytes") and not kind.dims)):
        return Type("png") if is_array else kind
    return Type(_KINDS[name][0]) if name in _KINDS and kind.codec in _KINDS[name] and not kind.dims else None
