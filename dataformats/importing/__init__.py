"""Files of other programs as sources, to convert from: tables, tar files of WebDataset, folders of images."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from dataformats.columns.codec_resolver import CodecResolver
from dataformats.importing.image_folder import ImageFolder, has_images
from dataformats.importing.source import ImportedSource
from dataformats.importing.tables import TABLES, TableSource
from dataformats.importing.tar_files import TARS, TarSource
from dataformats.interfaces.stored_file import Folder, StoredFile, natural_key
from dataformats.reading.detection import is_of_installed
from dataformats.spec import Spec
from dataformats.storage.paths import resolve

__all__ = ["import_source"]

_OWN = ("format", "payload", "cache", "io")  # arguments of `open` that ask for a format of this package


def import_source(
    path: Any, options: Mapping[str, Any], spec: Spec | None = None, rename: Mapping[str, str] | None = None
) -> ImportedSource | None:
    """Return the records of files of another program, by their names; `None` if they are not such files.

    An installed backend comes first: its files are none of another program.

    Args:
        path: See `open`.
        options: Arguments of `open`. With `format` or `payload` given, the result is `None`.
        spec: The types of new data. They apply to fields that the files hold as bytes or text.
        rename: Old name to new name, in `spec`.

    Raises:
        FileNotFoundError: There is no such file.
        FormatError: A file is damaged.
        MissingExtraError: It is a table, and pyarrow is not installed.
        SpecError: The types do not fit the files.
    """
    paths = list(path) if isinstance(path, Sequence) and not isinstance(path, (str, bytes)) else [path]
    if not all(isinstance(one, (str, os.PathLike)) for one in paths) or any(options.get(name) for name in _OWN):
        return None
    source = _by_names([os.fsdecode(one) for one in paths], options.get("storage_options"))
    if source is None:
        return None
    source.codecs = CodecResolver(options.get("codecs"), trusted=True)
    if options.get("spec") is not None:
        return source.with_spec({**source.spec, **Spec(options["spec"])})
    return source if spec is None else source.with_types_of(spec, rename or {})


def _by_names(names: list[str], storage_options: dict[str, Any] | None) -> ImportedSource | None:
    if len(names) > 1 and not all(map(_has_suffix, names)):
        return None
    entries = resolve(names, storage_options)
    found = [_names(entry) for entry in entries]
    if all(inner and all(map(_has_suffix, inner)) for inner in found):
        files = [file for entry, inner in zip(entries, found, strict=True) for file in _files(entry, inner)]
        return None if is_of_installed(files[0]) else _of_files(files)
    folder = entries[0]
    if len(entries) == 1 and isinstance(folder, Folder) and not folder.explicit and has_images(folder):
        return ImageFolder(folder)
    return None


def _has_suffix(name: str) -> bool:
    return name.lower().endswith((*TABLES, *TARS))


def _names(entry: StoredFile | Folder) -> list[str]:
    """Return the name of a file, or of the data in a folder: Spark writes `_SUCCESS` beside them."""
    if isinstance(entry, StoredFile):
        return [entry.name]
    return sorted((name for name in entry.names() if entry.explicit or not name.startswith("_")), key=natural_key)


def _files(entry: StoredFile | Folder, names: list[str]) -> list[StoredFile]:
    return [entry] if isinstance(entry, StoredFile) else [entry.file(name) for name in names]


def _of_files(files: list[StoredFile]) -> ImportedSource:
    is_tar = all(file.name.lower().endswith(TARS) for file in files)
    return TarSource(files) if is_tar else TableSource(files)
