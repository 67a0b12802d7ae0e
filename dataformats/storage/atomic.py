"""Atomic publishing of files and folders, and writes that may be repeated."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import FileIO
from pathlib import Path

from dataformats.storage.file_lock import NO_LINK, FileLock
from dataformats.storage.rename import exchange, rename_all, rename_new, replaced_path

_LONG_PART = 2048  # bytes from which on a copy costs more than another part of the system call
_MAX_PARTS = 1024  # the most parts of one system call: IOV_MAX of Linux and macOS


def publish(partial: Path, final: Path, *, replace: bool = True) -> None:
    """Rename a complete file or folder to its final name, and sync the folder that holds it.

    If either is a folder, `partial` and an existing `final` are exchanged: the caller deletes the old data, which have
    the partial name then. A link is replaced, not followed.

    Args:
        partial: The file or folder.
        final: Its new name, in the same folder.
        replace: Replace an existing file or folder of that name.

    Raises:
        FileExistsError: Something has the name, and `replace` is False.
    """
    if not replace:
        rename_new(partial, final)
    elif os.path.lexists(final) and (is_folder(partial) or is_folder(final)):
        exchange(partial, final)
    else:
        os.replace(partial, final)
    sync(final.parent)


def publish_together(now: Mapping[Path, Path | None], *, replace: bool = True) -> None:
    """Rename files that belong together, from their present to their final names, the last one last.

    They cannot be replaced at once. So old files are moved aside, in the opposite order, before the first new one has
    its name: old and new ones are never visible together. An error moves all of them back.

    Args:
        now: Final name to present path; `None` deletes the file of that name. All are in one folder.
        replace: Replace an existing file of the last name.

    Raises:
        FileExistsError: Something has the last name, and `replace` is False.
    """
    *_, last = now
    old = [final for final in reversed([*now]) if os.path.lexists(final) and (replace or final != last)]
    aside = [(final, replaced_path(final)) for final in old]

    def moves() -> Iterator[tuple[Path, Path]]:
        yield from aside
        for final, path in now.items():
            if final == last:
                sync(last.parent)  # file systems that do not order names must not keep this one alone
            if path is not None:
                yield path, final

    rename_all(moves(), new=last)
    try:
        sync(last.parent)
    finally:
        remove(*map(replaced_path, reversed([*now])))


def restore(now: Mapping[Path, Path | None]) -> None:
    """Move old and new files back where they were, after a `publish` that was killed before the last rename.

    If the last file has its final name, the old ones are deleted instead.

    Args:
        now: See `publish_together`.
    """
    *_, last = now
    if os.path.lexists(last):
        remove(*map(replaced_path, reversed([*now])))
        return
    for final, path in now.items():
        if path is not None and os.path.lexists(final) and not os.path.lexists(path):
            os.rename(final, path)
        if os.path.lexists(replaced_path(final)):
            os.rename(replaced_path(final), final)


def write_bytes(path: Path, data: bytes) -> None:
    """Write a small file atomically: a reader sees the old or the new one, even with several writers at once."""
    write_chunks(path, (data,))


def write_chunks(path: Path, chunks: Iterable[bytes | memoryview], *, sync_to_disk: bool = True) -> None:
    """Write a file atomically, as `write_bytes` does.

    Args:
        path: The file.
        chunks: Its content, in order.
        sync_to_disk: False if the file may be torn by a crash of the machine.
    """
    file = _temporary_file(path)
    try:
        os.ftruncate(file.descriptor, 0)
        end = 0
        for chunk in chunks:
            write_all(file.descriptor, chunk, end)
            end += len(chunk)
        if sync_to_disk:
            os.fsync(file.descriptor)
            publish(file.path, path)
        else:
            os.replace(file.path, path)
    except BaseException:
        file.path.unlink(missing_ok=True)
        raise
    finally:
        file.release()


def open_unbuffered(path: Path) -> FileIO:
    """Return a file for reading and writing, created if it is missing. It closes itself when it is collected.

    Raises:
        OSError: The path is a link.
    """
    return FileIO(path, "r+", opener=lambda name, flags: os.open(name, flags | os.O_CREAT | NO_LINK, 0o666))


def write_all(descriptor: int, data: bytes | memoryview, offset: int) -> None:
    """Write all of `data` at byte `offset`; one call of the system may write less than it is given."""
    rest = memoryview(data)
    while len(rest):
        n = os.pwrite(descriptor, rest, offset)
        rest, offset = rest[n:], offset + n


def copy_file(source: Path, destination: Path) -> None:
    """Copy the content of a file to a new one; where the file system can, without using more of the disk."""
    with source.open("rb") as reader, destination.open("xb") as writer:
        copy_range(reader.fileno(), 0, writer.fileno(), 0, os.fstat(reader.fileno()).st_size)


def copy_range(source: int, start: int, destination: int, target_start: int, length: int) -> None:
    """Copy `length` bytes from `start` of a file to `target_start` of another, in the operating system if it can."""
    done = _copy_in_system(source, start, destination, target_start, length)
    if done < length:
        with os.fdopen(os.dup(source), "rb") as reader, os.fdopen(os.dup(destination), "wb") as writer:
            reader.seek(start + done)
            writer.seek(target_start + done)
            shutil.copyfileobj(reader, writer, 8 * 2**20)


def write_parts(descriptor: int, parts: Sequence[bytes | memoryview], offset: int) -> int:
    """Write parts back to back at byte `offset`, long ones without joining them; return their bytes in all."""
    parts, n_bytes = joined(parts), sum(map(len, parts))
    if len(parts) == 1:
        write_all(descriptor, parts[0], offset)
        return n_bytes
    for first in range(0, len(parts), _MAX_PARTS):
        some = parts[first : first + _MAX_PARTS]
        expected, done = sum(map(len, some)), os.pwritev(descriptor, some, offset)
        if done < expected:
            write_all(descriptor, b"".join(some)[done:], offset + done)
        offset += expected
    return n_bytes


def joined(parts: Sequence[bytes | memoryview]) -> Sequence[bytes | memoryview]:
    """Return the same bytes in one part, if the parts are short or one system call takes only one."""
    is_short = sum(map(len, parts)) < _LONG_PART * len(parts)
    return [b"".join(parts)] if len(parts) != 1 and (is_short or not hasattr(os, "pwritev")) else parts


def remove(*paths: Path) -> None:
    """Delete files and folders, if they exist: all that can be deleted, then the first error is raised."""
    errors = []
    for path in paths:
        try:
            if os.path.lexists(path):
                _remove(path)
        except OSError as error:
            errors.append(error)
    if errors:
        raise errors[0]


def is_folder(path: Path) -> bool:
    """True for a folder, False for a link to one."""
    return path.is_dir() and not path.is_symlink()


def sync(path: Path) -> None:
    """Sync a file, or the names in a folder, to the disk."""
    if os.name == "nt" and path.is_dir():
        return  # Windows cannot open a folder for this
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _copy_in_system(source: int, start: int, destination: int, target_start: int, length: int) -> int:
    """Return how many bytes the operating system copied: all, or those before it failed."""
    copy = getattr(os, "copy_file_range", None)
    done = 0
    try:
        while copy is not None and done < length:
            n = copy(source, destination, length - done, start + done, target_start + done)
            if n == 0:
                break
            done += n
    except OSError:
        pass  # another file system, an old Linux; a full disk fails again in the plain copy
    return done


def _remove(path: Path) -> None:
    if not is_folder(path):
        with contextlib.suppress(NotADirectoryError):  # its folder is a file now
            path.unlink(missing_ok=True)
        return
    try:
        shutil.rmtree(path)
    except OSError:
        shutil.rmtree(path, ignore_errors=True)  # the rest
        raise


def _temporary_file(path: Path) -> FileLock:
    """Return a new file that replaces `path`.

    Its name is fixed, so that what a killed process left is used again, unless another process is using it.
    """
    with contextlib.suppress(OSError):  # locked, of another user, a link, a folder
        file = FileLock(path.with_name(f"{path.name}.partial"), create=True)
        if file.is_exclusive:
            return file
        file.path.unlink(missing_ok=True)
        file.release()
    return FileLock(path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}.partial"), create=True)
