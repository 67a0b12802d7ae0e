"""Reads the tables beside media: rows that name a file, as `metadata.csv` of Hugging Face, and documents of COCO."""

from __future__ import annotations

import importlib
import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.media.listing import MediaNames
from dataformats.columns.codec_resolver import CodecResolver
from dataformats.errors import FormatError
from dataformats.interfaces.stored_file import StoredFile
from dataformats.reading.opening import arguments_of
from dataformats.spec import Spec, Type
from dataformats.storage.given_files import BytesFile
from dataformats.storage.threads import concurrent_map

BOXES = {"class": Type("int64", dims=(None,)), "boxes": Type("float32", dims=(None, 4))}
"""The objects in an image: their classes, and four numbers each."""

_OF_BOXES = {"id", "image_id", "category_id", "bbox", "area"}
_ANNOTATIONS = "annotations"  # the field of masks, crowds and keypoints of these objects, if there are any

FILE_NAME = "file_name"
"""The column of a table that names the files."""

_MAX_BYTES, _MAX_NAMES_BYTES, _MAX_CLASSES = 2**31, 2**20, 2**16


@dataclass(slots=True)
class TableField:
    """The values that the tables of a folder have of one field.

    Attributes:
        type: The type under which they are stored.
        blobs: The values.
        rows: int64[n], the number of the value of each medium in `blobs`; -1 if it has none.
    """

    type: Type
    rows: NDArray[np.int64]
    blobs: list[bytes] = field(default_factory=list)

    def places(self, name: str) -> tuple[StoredFile, NDArray[np.int64], NDArray[np.int64]]:
        """Return the values as a file in memory, which has a name for errors, and offset and length of each."""
        lengths = np.array([len(blob) for blob in self.blobs], np.int64)
        file = BytesFile(b"".join(self.blobs))
        file.name = name
        return file, np.cumsum(lengths) - lengths, lengths


def table_fields(names: MediaNames) -> tuple[dict[str, TableField], list[str]]:
    """Return the fields that the tables of a folder give its media, and what they lack.

    Raises:
        FormatError: A table is damaged.
    """
    found: dict[str, TableField] = {}
    lacking: list[str] = []
    unread = names.beside.unread_data if names.beside.is_whole else []
    numbers = {path: number for number, path in enumerate(names.paths)}
    has_entry = np.zeros(len(numbers), np.bool_)
    for folder, file in names.beside.tables:
        title = file.name.removeprefix(names.name).lstrip("/")
        is_coco = file.name.endswith(".json")
        spec, records = _objects(file) if is_coco else _rows(file)
        of = [numbers.get(f"{folder}{record[FILE_NAME]}".replace("/./", "/").removeprefix("./")) for record in records]
        if is_coco:  # whose names begin from a folder that the document does not tell
            by_end = _by_end([str(record[FILE_NAME]) for record in records], names.paths, folder)
            of = [end if one is None else one for one, end in zip(of, by_end, strict=True)]
        named = np.array([one for one in of if one is not None], np.int64)
        if not len(named):
            unread.append(title)
            continue
        strangers = [record[FILE_NAME] for record, one in zip(records, of, strict=True) if one is None]
        if strangers and names.beside.is_whole:
            lacking.append(f"{len(strangers)} entries of {title!r} name no file, such as {strangers[0]!r}")
        if len(np.unique(named)) < len(named) or has_entry[named].any():
            twice = next(one for one in named.tolist() if has_entry[one] or (named == one).sum() > 1)
            found_entries, remedy = names.paths[twice], "Keep one entry of each file"
            raise FormatError("a file has two entries", path=file.name, found=found_entries, remedy=remedy)
        has_entry[named] = True
        _add(found, spec, records, of, len(numbers))
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


def _classes_of_coco(document: Mapping[str, Any]) -> dict[int, str]:
    found = document.get("categories")
    classes = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    return {one["id"]: str(one.get("name")) for one in classes if type(one.get("id")) is int}


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


def _rows(file: StoredFile) -> tuple[Mapping[str, Type], list[dict[str, Any]]]:
    """Return the types and the rows of a table with file names; no rows if it has none."""
    path = file.local or file.read_all(_MAX_BYTES)
    source = arguments_of(path, format=file.name.rpartition(".")[2]).open()
    spec = source.infer_fully()
    if spec.get(FILE_NAME, Type("bytes")).codec != "utf8":
        return {}, []
    types = {
        name: Type("json") if kind.is_blob_list else kind.required for name, kind in spec.items() if name != FILE_NAME
    }
    return types, [record for record in source.read(range(len(source))) if record.get(FILE_NAME) is not None]


def _objects(file: StoredFile) -> tuple[Mapping[str, Type], list[dict[str, Any]]]:
    """Return a row for each image of a document of COCO; no rows if it has no boxes."""
    try:
        document = json.loads(file.read_all(_MAX_BYTES))
    except (ValueError, RecursionError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"the file is not JSON ({error})", path=file.name) from error
    objects = defaultdict(list)
    try:
        for one in document[_ANNOTATIONS]:
            others = {name: value for name, value in one.items() if name not in _OF_BOXES}
            objects[one["image_id"]].append(
                ([float(number) for number in one["bbox"]], int(one["category_id"]), others)
            )
        rows = [
            {
                FILE_NAME: str(image[FILE_NAME]),
                "class": np.array([number for _, number, _ in of], np.int64),
                "boxes": np.array([box for box, _, _ in of], np.float32).reshape(-1, 4),
                _ANNOTATIONS: [others for _, _, others in of],
            }
            for image in document["images"]
            for of in (objects[image["id"]],)
        ]
        spec = typed_boxes(_classes_of_coco(document))
        has_others = any(any(map(any, map(dict.values, row[_ANNOTATIONS]))) for row in rows)
        return {**spec, _ANNOTATIONS: Type("json")} if has_others else spec, rows
    except (KeyError, TypeError, ValueError, AttributeError):
        return {}, []


def _add(
    found: dict[str, TableField],
    spec: Mapping[str, Type],
    records: Sequence[Mapping[str, Any]],
    of: Sequence[int | None],
    n: int,
) -> None:
    codecs = CodecResolver(None, trusted=False)
    for name, kind in Spec(spec).items():
        values = found.setdefault(name, TableField(kind, np.full(n, -1, np.int64)))
        values.type = values.type.known_in([kind])
        if values.type.required != kind.required:
            raise FormatError(f"the field {name!r} has the types {values.type} and {kind} in two tables")
        encode = codecs.encoder(kind, name)
        for number, record in zip(of, records, strict=True):
            if number is not None and record.get(name) is not None:
                values.rows[number] = len(values.blobs)
                values.blobs += encode(record[name])
    for name in spec:
        is_missing = bool((found[name].rows < 0).any())
        found[name].type = replace(found[name].type, optional=is_missing)
