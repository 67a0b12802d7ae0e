"""Reads the tables beside media: rows that name a file, as `metadata.csv` of Hugging Face, and documents of COCO."""

from __future__ import annotations

import importlib
import json
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.documents.walk import Elements, Walk
from dataformats.backends.lines.line_scan import BOM
from dataformats.backends.media.listing import MediaNames
from dataformats.columns.codec_resolver import CodecResolver
from dataformats.errors import CodecError, FormatError
from dataformats.interfaces.stored_file import StoredFile
from dataformats.reading.opening import arguments_of
from dataformats.spec import Type
from dataformats.storage.given_files import BytesFile
from dataformats.storage.threads import concurrent_map

BOXES = {"class": Type("int64", dims=(None,)), "boxes": Type("float32", dims=(None, 4))}
"""The objects in an image: their classes, and four numbers each."""

_OF_BOXES = {"id", "image_id", "category_id", "bbox", "area"}

ANNOTATIONS = "annotations"
"""The field with the masks, crowds and keypoints of objects."""

FILE_NAME = "file_name"
"""The column of a table that names the files."""

_MAX_BYTES, _MAX_NAMES_BYTES, _MAX_CLASSES, _PART_BYTES = 2**31, 2**20, 2**16, 2**20


@dataclass(frozen=True, slots=True)
class TableField:
    """The values of one field in a table.

    Attributes:
        name: The field.
        type: The type under which they are stored.
        file: The file that has them.
        offset: int64[n], the first byte of the value of each row; with `read`, its argument.
        length: int64[n], its bytes, -1 for no value; with `read`, an estimate.
        read: Returns the bytes of a value; `None` if the values are ranges of the file.
    """

    name: str
    type: Type
    file: StoredFile
    offset: NDArray[np.int64]
    length: NDArray[np.int64]
    read: Callable[[int], bytes] | None = None


def table_fields(names: MediaNames) -> tuple[list[tuple[NDArray[np.int64], TableField]], list[str]]:
    """Return the fields of the tables of a folder, each with the medium of each row (-1: none), and what they lack.

    Raises:
        FormatError: A table is damaged.
    """
    found: list[tuple[NDArray[np.int64], TableField]] = []
    lacking: list[str] = []
    unread = names.beside.unread_data if names.beside.is_whole else []
    numbers = {path: number for number, path in enumerate(names.paths)}
    has_entry = np.zeros(len(numbers), np.bool_)
    for folder, file in names.beside.tables:
        title = file.name.removeprefix(names.name).lstrip("/")
        is_coco = file.name.endswith(".json")
        entries, fields = _objects(file) if is_coco else _rows(file)
        of = [numbers.get(f"{folder}{entry}".replace("/./", "/").removeprefix("./")) for entry in entries]
        if is_coco:  # whose names begin from a folder that the document does not tell
            by_end = _by_end(entries, names.paths, folder)
            of = [end if one is None else one for one, end in zip(of, by_end, strict=True)]
        media = np.array([-1 if one is None else one for one in of], np.int64)
        named = media[media >= 0]
        if not len(named):
            unread.append(title)
            continue
        strangers = [entry for entry, one in zip(entries, of, strict=True) if one is None]
        if strangers and names.beside.is_whole:
            lacking.append(f"{len(strangers)} entries of {title!r} name no file, such as {strangers[0]!r}")
        if len(np.unique(named)) < len(named) or has_entry[named].any():
            twice = next(one for one in named.tolist() if has_entry[one] or (named == one).sum() > 1)
            found_entries, remedy = names.paths[twice], "Keep one entry of each file"
            raise FormatError("a file has two entries", path=file.name, found=found_entries, remedy=remedy)
        has_entry[named] = True
        found += [(media, one) for one in fields]
    if 0 < has_entry.sum() < len(has_entry):
        first = names.paths[int(has_entry.argmin())]
        lacking.append(f"{(~has_entry).sum()} files have no entry in the metadata, such as {first!r}")
    if unread:
        lacking.append(f"{len(unread)} files beside the media are not read, such as {unread[0]!r}")
    return found, lacking


def _by_end(names: Sequence[str], paths: Sequence[str], folder: str) -> list[int | None]:
    """Return the number of the path in a folder that ends as each name does, or else in its basename.

    No other path may end so, and no other name have the basename.
    """
    found: dict[str, int | None] = {}
    for number, path in enumerate(paths):
        end = path if path.startswith(folder) else ""
        while end:
            found[end] = None if end in found else number
            end = end.partition("/")[2]
    bases = [name.rpartition("/")[2] for name in names]
    times = Counter(bases)
    return [
        found.get(name if name in found or times[base] > 1 else base) for name, base in zip(names, bases, strict=True)
    ]


def typed_boxes(names: Mapping[int, str]) -> dict[str, Type]:
    """Return `BOXES` with class names; a number without a name has its digits, as in COCO, whose numbers have gaps."""
    n = max(names, default=-1) + 1
    classes = tuple(names.get(number, str(number)) for number in range(n)) if n <= _MAX_CLASSES else ()
    is_known = len({*classes}) == n and min(names, default=0) >= 0
    return {**BOXES, "class": replace(BOXES["class"], class_names=classes if is_known else ())}


def classes_of_yolo(file: StoredFile | None) -> tuple[dict[int, str], list[str]]:
    """Return the class names by number of a file in YOLO's layout, and why it was not read.

    The file has a name in each line, or is a `data.yaml` whose `names` are a list, or a mapping of numbers.
    """
    if file is None:
        return {}, []
    text = file.pread(0, min(file.size, _MAX_NAMES_BYTES)).decode(errors="replace")
    file.release()
    if not file.name.endswith(".yaml"):
        return dict(enumerate(text.strip().splitlines())), []
    try:
        yaml = importlib.import_module("yaml")
    except ImportError:
        return {}, [f"{file.name!r} has the class names: to read them, install PyYAML"]
    try:
        document = yaml.load(text, yaml.BaseLoader)  # all scalars are text: the class `no` is not False
        names = document.get("names") if isinstance(document, dict) else None
        pairs = names.items() if isinstance(names, dict) else enumerate(names if isinstance(names, list) else ())
        return {int(number): name for number, name in pairs if isinstance(name, str)}, []
    except (yaml.YAMLError, ValueError, TypeError, RecursionError):
        return {}, [f"{file.name!r}, which may have class names, is damaged"]


def boxes_of(files: Sequence[StoredFile], name: str) -> tuple[list[bytes], dict[int, FormatError]]:
    """Return a field of `BOXES` for each file of labels in YOLO's layout, and the errors of damaged ones, by row."""

    def read(file: StoredFile) -> bytes | FormatError:
        text = b"" if isinstance(file, MediaNames) else file.read_all(_MAX_BYTES)
        file.release()
        try:
            lines = [[float(part) for part in line.split()] for line in text.splitlines() if line.strip()]
            other = next((line for line in lines if len(line) != 5), None)
            if other is not None:
                raise ValueError(f"{len(other)} numbers" + ", as of a polygon" * (len(other) > 6))
            objects = np.array(lines).reshape(-1, 5)
            if (objects[:, 0] % 1).any():
                raise ValueError("a class that is no integer")
        except ValueError as error:
            what, remedy = "expected a class and four numbers in each line", "To go without boxes, select other fields"
            return FormatError(what, path=file.name, found=str(error), remedy=remedy)
        values: NDArray[Any] = objects[:, 0].astype("<i8") if name == "class" else objects[:, 1:].astype("<f4")
        return values.tobytes()

    found = concurrent_map(read, files, local=all(file.local is not None for file in files))
    problems = {row: one for row, one in enumerate(found) if isinstance(one, FormatError)}
    return [b"" if isinstance(one, FormatError) else one for one in found], problems


def _rows(file: StoredFile) -> tuple[list[str], list[TableField]]:
    """Return the file names in a table, and its other fields; none if it has no file names."""
    path = file.local or file.read_all(_MAX_BYTES)
    source = arguments_of(path, format=file.name.rpartition(".")[2]).open()
    spec = source.infer_fully()
    if spec.get(FILE_NAME, Type("bytes")).codec != "utf8":
        return [], []
    types = {
        name: Type("json") if kind.is_blob_list else kind.required for name, kind in spec.items() if name != FILE_NAME
    }
    codecs = CodecResolver(None, trusted=False)
    records = [record for record in source.read(range(len(source))) if record.get(FILE_NAME) is not None]
    fields = []
    for name, kind in types.items():
        encode = codecs.encoder(kind, name) if kind != Type("json") else lambda value: [_as_json(value)]
        blobs = [None if record.get(name) is None else encode(record[name])[0] for record in records]
        lengths = np.array([-1 if blob is None else len(blob) for blob in blobs], np.int64)
        values, ends = BytesFile(b"".join(filter(None, blobs)), file.name), np.cumsum(np.maximum(lengths, 0))
        fields.append(TableField(name, kind, values, ends - lengths, lengths))
    return [str(record[FILE_NAME]) for record in records], fields


def _objects(file: StoredFile) -> tuple[list[str], list[TableField]]:
    """Return the file names of the images in a document of COCO, and its fields; none if it has no boxes."""
    if file.local is None:
        file = BytesFile(file.read_all(_MAX_BYTES), file.name)
    lists, names, ids, numbers = _lists(file), list[str](), list[int](), dict[Any, int]()
    sides, facts, has_others = array("f"), array("q"), False
    try:
        for _, _, image in _elements(file, lists["images"]):
            names.append(str(image[FILE_NAME]))
            ids.append(numbers.setdefault(image["id"], len(numbers)))
        for offset, length, one in _elements(file, lists[ANNOTATIONS]):
            box, category, number = [*map(float, one["bbox"])], int(one["category_id"]), numbers.get(one["image_id"])
            if len(box) not in (0, 4):
                return [], []
            if number is not None:
                sides.extend(box)
                facts.extend((number, category, offset, length))
                has_others = has_others or any(map(one.get, one.keys() - _OF_BOXES))
        classes = _elements(file, lists["categories"]) if "categories" in lists else ()
        known = [one for _, _, one in classes if isinstance(one, dict) and type(one.get("id")) is int]
        table = np.array(facts, np.int64).reshape(-1, 4)
        boxes = np.array(sides, "<f4").reshape(len(table), 4 if sides else 0)
    except FormatError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return [], []
    kinds = typed_boxes({one["id"]: str(one.get("name")) for one in known})
    order, images = np.argsort(table[:, 0], kind="stable"), np.array(ids, np.int64)
    table = table[order]
    starts = np.searchsorted(table[:, 0], np.arange(len(numbers) + 1))
    first, stop = starts[images], starts[images + 1]
    fields = [
        TableField(name, kinds[name], BytesFile(values.tobytes(), file.name), first * size, (stop - first) * size)
        for name, values in (("class", table[:, 1].astype("<i8")), ("boxes", boxes[order]))
        for size in (values[:1].nbytes,)
    ]
    if has_others:
        ends, read = np.append(0, np.cumsum(table[:, 3])), partial(_annotations, file, starts, table[:, 2:].copy())
        fields.append(TableField(ANNOTATIONS, Type("json"), file, images, ends[stop] - ends[first], read))
    return names, fields


def _annotations(document: StoredFile, starts: NDArray[np.int64], places: NDArray[np.int64], image: int) -> bytes:
    """Return JSON of the annotations of an image, without the keys of boxes."""
    places = places[starts[image] : starts[image + 1]]
    texts = document.pread_many([(offset, length) for offset, length in places.tolist()])
    found = [{key: value for key, value in json.loads(text).items() if key not in _OF_BOXES} for text in texts]
    return _as_json(found)


def _as_json(value: Any) -> bytes:
    """Return compact JSON; NaN stays, which the codec refuses when it is read."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="backslashreplace")
    except TypeError as error:
        raise CodecError(str(error), codec="json") from error


def _lists(file: StoredFile) -> dict[str, Elements]:
    """Return the lists in the object that a document is; none if it is no object."""
    walk = Walk(file, len(BOM) if file.pread(0, len(BOM)) == BOM else 0)
    if walk.next() != b"{":
        return {}
    walk.at += 1
    lists, problem = walk.members()
    if problem is not None or walk.next():
        raise problem or walk.error("more behind the document", walk.at)
    return lists


def _elements(file: StoredFile, found: Elements) -> Iterator[tuple[int, int, Any]]:
    """Yield offset, length and value of each element of a list in a document."""
    ends = found.head + np.cumsum(found.lengths + 1)
    offsets = ends - found.lengths - 1
    for part in np.split(np.arange(len(ends)), np.flatnonzero(np.diff(offsets // _PART_BYTES)) + 1):
        if len(part):
            begin, end = int(offsets[part[0]]), int(ends[part[-1]]) - 1
            try:
                values = json.loads(b"[" + file.pread(begin, end - begin) + b"]")
            except (ValueError, RecursionError) as error:
                raise FormatError(f"the file is not JSON ({error})", path=file.name, offset_bytes=begin) from error
            yield from zip(offsets[part].tolist(), found.lengths[part].tolist(), values, strict=True)
