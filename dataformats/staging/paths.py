"""Which staging area new data have, by the path, URL or path object that a call names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dataformats.errors import TargetExistsError
from dataformats.staging.area import StagingArea
from dataformats.staging.local_area import LocalArea
from dataformats.storage.paths import is_local, local_path
from dataformats.storage.remote.names import shown_url
from dataformats.storage.remote.systems import file_system, is_local_system, is_url
from dataformats.storage.selected_files import OWN_SUFFIXES

_OTHER_NAME = "Give the new file or folder a name of its own"


def area_at(path: Any, storage_options: dict[str, Any] | None = None) -> StagingArea:
    """Return the staging area of a path, a URL or a path object.

    The modules of the rare ones are imported here, because most processes never need them.
    """
    if is_local(path):
        return LocalArea(_new_path(path))
    if isinstance(path, str) and is_url(path):
        fs, name = file_system(path, storage_options or {})
        if is_local_system(fs):
            return LocalArea(_new_path(name))
        _check_suffix(name)
        from dataformats.staging.remote_area import RemoteArea

        return RemoteArea(shown_url(path), fs, name)
    if hasattr(path, "open") and hasattr(path, "exists"):
        from dataformats.staging.path_object_area import PathObjectArea

        return PathObjectArea(path)
    raise TypeError(f"cannot write: expected a path, a URL or a path object, found {type(path).__name__}")


def add_name(error: BaseException, name: str) -> None:
    """Name the data in an error of the file system, such as a full disk, that names no file."""
    if isinstance(error, OSError) and error.errno is not None and error.filename is None:
        error.filename = name


def _check_suffix(name: str) -> None:
    """Raise `ValueError` for a name that a writer of another name would delete."""
    if name.rstrip("/").endswith(OWN_SUFFIXES):
        what = f"{name!r} ends as a file that a writer of another name makes beside its data"
        raise ValueError(f"{what}. {_OTHER_NAME}")


def _new_path(path: Any) -> Path:
    """Return the local path of new data.

    Raises:
        TargetExistsError: It names the current folder, its parent or a root; or a device, a pipe or a socket, which
            must never be replaced.
    """
    found = local_path(path)
    if found.name in ("", ".."):
        raise TargetExistsError(f"{str(found)!r} is a folder", remedy=_OTHER_NAME)
    _check_suffix(str(found))
    if found.exists() and not (found.is_file() or found.is_dir()):
        raise TargetExistsError(f"{str(found)!r} is a device, a pipe or a socket", remedy=_OTHER_NAME)
    return found
