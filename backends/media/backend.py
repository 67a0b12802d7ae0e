"""The backends of folders of media."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dataformats.backends.media.kinds import MediaKind
from dataformats.backends.media.listing import MediaNames, find_media, names_of
from dataformats.backends.media.reader import MediaReader
from dataformats.backends.media.tables import FILE_NAME
from dataformats.backends.media.writer import NAMES, MediaWriter, class_folders
from dataformats.display.media import media_of
from dataformats.errors import Remedy, SpecError
from dataformats.interfaces import FieldsBackend, FilePlace, ReaderOptions, SniffResult
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.spec import NUMBER_TYPES, Spec, Type

_LABELS = ("int64", "int32", "uint8")


class MediaBackend(FieldsBackend):
    """A file for each medium; folders name the labels, as in torchvision's `ImageFolder`.

    Args:
        kind: The kind of media.
    """

    in_folders = True
    has_checked_header = True
    folder_rank = 1
    keeps_records = False
    stores_optional_fields = True
    infers_types = True

    def __init__(self, kind: MediaKind) -> None:
        self.kind: MediaKind = kind
        self.name: str = kind.name
        self.suffixes: tuple[str, ...] = tuple(kind.codecs)

    def matches_name(self, name: str) -> bool:
        """True for the name of a medium, in letters of any case."""
        return self.kind.has(name)

    def find(self, folder: Folder) -> list[StoredFile]:
        """Return the media in a folder, or in the folders of their labels, and a file with their names."""
        return find_media(self.kind, folder)

    def sniff(self, file: StoredFile) -> SniffResult:
        """Recognize a medium by its name and its first bytes."""
        if isinstance(file, MediaNames):
            return SniffResult("yes")
        if not self.kind.has(file.basename):
            return SniffResult("no", f"the name is not of {self.name}")
        return SniffResult("yes") if self.kind.is_sound(file) else SniffResult("damaged", "no medium begins at byte 0")

    def open(self, files: Sequence[StoredFile], options: ReaderOptions, **_: Any) -> MediaReader:
        """Return a reader of media.

        Raises:
            FormatError: Media lie beside folders of media, the folders differ in their labels, or a table beside them
                is damaged.
        """
        given = list(itertools.takewhile(lambda file: not isinstance(file, MediaNames), files))
        return MediaReader(self.kind, [names_of(self.kind, given), *files] if given else files)

    def new_names(
        self, spec: Spec, rename: Mapping[str, str], first: Callable[[], Mapping[str, Any]]
    ) -> dict[str, str]:
        """Return `rename` with the only medium, and a label, as the fields of a folder.

        The label is a field named so, or the only other field, if that is an integer.

        Raises:
            SpecError: A folder cannot hold another field.
        """
        field, new = self.kind.field, {name: rename.get(name, name) for name in spec}
        media = [name for name in new if new[name] == field]
        sample = first() if any(kind.codec == "bytes" for kind in spec.values()) else {}
        if not media:
            free = {name: kind for name, kind in spec.items() if name not in rename}
            media = [name for name, kind in free.items() if self._is_medium(kind, sample.get(name))]
        if len(media) != 1:
            return dict(rename)  # `stored_spec` reports it
        others = [name for name in spec if name not in media]
        has_names = "label" in rename.values() or not {"path", "label_name"}.isdisjoint(new.values())
        labels = [name for name in others if not has_names and self._stored("label_name", spec[name]) is not None]
        named = [name for name in labels if any(word in name for word in ("label", "class", "cls"))]
        named.sort(key=lambda name: name != "label")
        chosen = named[:1] or [name for name in labels if len(others) == 1 and spec[name].codec in _LABELS]
        found = {**rename, media[0]: field, **{name: self._label(spec[name]) for name in chosen if name not in rename}}
        wrong = [
            name
            for name in others
            if name not in found and (self._stored(name, spec[name]) is None or not _is_text_or_none(sample.get(name)))
        ]
        if wrong:
            kept = Remedy("To convert, pass {fields}.", fields=[name for name in spec if name not in wrong])
            raise SpecError(self._about, field=wrong[0], remedy=kept)
        return found

    def stored_spec(self, spec: Spec, **_: Any) -> Spec:
        """Return the types of the medium, PNG for arrays, of names, an int64 for the label, and of other fields."""
        field = self.kind.field
        found = {name: stored for name, kind in spec.items() if (stored := self._stored(name, kind)) is not None}
        others = [name for name in spec if name not in found]
        if others or field not in found:
            known = Remedy("To convert, pass {fields}.", fields=list(found))
            remedy = known if field in found else Remedy("To convert, pass {rename}.", rename=...)
            what = f"{self._about}, found {spec[others[0]]}" if others else f"expected a field {field!r}"
            raise SpecError(what, field=others[0] if others else None, remedy=remedy)
        return Spec(found)

    def create(
        self, path: Path, *, stored: Spec, resume: bool = False, place: FilePlace | None = None, **_: Any
    ) -> MediaWriter:
        """Return a writer of a folder.

        Raises:
            SpecError: The name is of a medium, or the folder would be one of several shards.
        """
        if place is not None and self.kind.has(place.name or ""):
            raise SpecError(f"expected the name of a folder of {self.name}, found {place.name!r}")
        if place is not None and place.shard is not None:
            what = f"a folder of {self.name} has no shards"
            raise SpecError(what, remedy="Leave out shard_records= and shard_bytes=")
        return MediaWriter(self.kind, path, stored, resume=resume)

    @property
    def _about(self) -> str:
        names = f"{self.kind.field}, path, label (an integer) and label_name (text or a number)"
        return f"a folder of {self.name} holds the fields {names}, and others of text, numbers, lists or JSON"

    def _is_medium(self, kind: Type, value: Any) -> bool:
        """True if a field holds media: by its type, or as bytes by a value."""
        if kind.codec == "bytes" and isinstance(value, bytes):
            media = media_of(value)
            return media is not None and media.kind == self.kind.field
        return self._stored(self.kind.field, kind) is not None and kind.codec != "bytes"

    def _stored(self, name: str, kind: Type) -> Type | None:
        """Return the type under which a field is stored; `None` if a folder of media cannot hold it."""
        if name == self.kind.field:
            is_array = self.name == "images" and kind.codec == "uint8" and len(kind.dims) in (2, 3)
            is_medium = kind.codec in (*self.kind.codecs.values(), "jpeg", "bytes") and not kind.dims
            return Type("png") if is_array else kind if is_medium and not kind.optional else None
        if name not in NAMES:
            is_held = kind.codec in ("utf8", "bytes", "json", *NUMBER_TYPES)
            return kind if is_held and name != FILE_NAME else None
        if kind.dims or kind.optional:
            return None
        if name == "label_name" and kind.codec in NUMBER_TYPES:
            return Type("decimal", (kind.codec,))
        if name in ("path", "label_name"):
            return kind if kind.codec in ("utf8", "bytes") else None
        return replace(kind, codec="int64") if name == "label" and kind.codec in _LABELS else None

    @staticmethod
    def _label(kind: Type) -> str:
        """Return the field of a label: numbers with class names have folders of these names."""
        return "label" if kind.codec in _LABELS and class_folders(kind) else "label_name"


def _is_text_or_none(value: Any) -> bool:
    try:
        return not isinstance(value, bytes) or value.decode() is not None
    except UnicodeDecodeError:
        return False
