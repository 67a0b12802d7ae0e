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
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.spec import Spec
from dataformats.storage.files import LocalFolder
from dataformats.storage.paths import local_path, resolve

__all__ = ["import_source"]

_OWN = ("format", "payload", "cache", "io")  # arguments of `open` that ask for a format of this package


def import_source(
    path: Any, options: Mapping[str, Any], spec: Spec | None = None, rename: Mapping[str, str] | None = None
) -> ImportedSource | None:
    """Return the records of files of another program, by their names; `None` if they are not such files.

    Args:
        path: As in `open`.
        options: Arguments of `open`. With `format` or `payload` given, the result is `None`.
        spec: The types of new data: those of fields that the files hold as bytes or text apply.
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
    if len(names) == 1 and local_path(names[0]).is_dir():
        folder = LocalFolder(local_path(names[0]))
        inner = [name for name in folder.names() if name.lower().endswith((*TABLES, *TARS))]
        if inner and len(inner) == len(folder.names()):
            return _of_files([folder.file(name) for name in inner])
        return ImageFolder(folder) if has_images(folder) else None
    if not all(name.lower().endswith((*TABLES, *TARS)) for name in names):
        return None
    return _of_files([file for entry in resolve(names, storage_options) for file in _files(entry)])


def _files(entry: StoredFile | Folder) -> list[StoredFile]:
    return [entry.file(name) for name in entry.names()] if isinstance(entry, Folder) else [entry]


def _of_files(files: list[StoredFile]) -> ImportedSource:
    is_tar = all(file.name.lower().endswith(TARS) for file in files)
    return TarSource(files) if is_tar else TableSource(files)
