"""The shown records as text to paste: Python, SQL, and command lines."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dataformats.interfaces import BlobBackend, FieldsBackend
from dataformats.interfaces.declared_spec import is_single
from dataformats.registry import backends
from dataformats.storage.remote.names import shown_url
from dataformats.storage.remote.systems import is_url
from dataformats.viewer.dataset import ViewedDataset
from dataformats.viewer.sql import quoted, record_name

_VERIFIED = ("verify_checksums", True)  # as without the argument


@dataclass(frozen=True, slots=True)
class Snippets:
    """The records that a page shows, as code that reads them elsewhere.

    Attributes:
        dataset: Their dataset.
        fields: The shown fields.
        condition: The filter; empty without one.
        numbers: The records of a list, instead of a filter.
        sort: The field of the sort.
        descending: The direction of the sort.
    """

    dataset: ViewedDataset
    fields: Sequence[str]
    condition: str = ""
    numbers: Sequence[int] = ()
    sort: str | None = None
    descending: bool = False

    def python(self) -> str:
        """Return lines of Python, after which `records` is a source of the records."""
        chosen = f".where({self.condition!r})" if self.condition else ""
        chosen += f".take({list(self.numbers)})" if self.numbers else ""
        lines = ["import dataformats", "", f"records = {self._opened()}{chosen}"]
        if self.sort is not None:
            values = "list(records)"
            if not is_single(self.dataset.source):
                values = f"[record.get({self.sort!r}) for record in records.select({self.sort!r})]"
            last, reverse = ("is not", ", reverse=True") if self.descending else ("is", "")
            nan = "==" if self.descending else "!="
            key = f"lambda i: (values[i] {last} None, values[i] {nan} values[i], values[i])"
            lines += [
                f"values = {values}",
                f"order = sorted(range(len(values)), key={key}{reverse})",
                "records = records.take(order)",
            ]
        if self._is_part:
            lines.append(f"records = records.select({', '.join(map(repr, self.fields))})")
        return "\n".join(lines) + "\n"

    def sql(self) -> str:
        """Return lines of Python, after which `result` is a relation of DuckDB with the records.

        Raises:
            ValueError: SQL has one name for several fields.
        """
        spec, where = self.dataset.source.spec, self._where
        named = {name for name in spec if name.lower().replace('"', '""') in where.lower()}  # and perhaps more
        needed = [name for name in spec if name in named or name == self.sort or name in self.fields]
        if len({name.lower() for name in needed}) < len(needed):
            raise ValueError("SQL has one name for fields that differ in case only: choose other fields")
        number = record_name(spec)
        query = f"select {', '.join(map(quoted, self.fields))} from"
        query += f" (select *, row_number() over () - 1 as {number} from source)"
        if where:
            query += f" where ({where}\n)" if "--" in where else f" where ({where})"  # it may end with a comment
        if self.sort is not None:
            column, kind = quoted(self.sort), spec[self.sort]
            nan_last = f"isnan({column}) nulls last, " if kind.codec.startswith("float") else ""
            query += f" order by {nan_last}{column}{' desc' if self.descending else ''} nulls last, {number}"
        part = "" if len(needed) == len(spec) else f".select({', '.join(map(repr, needed))})"
        return f"import duckdb\nimport dataformats\n\nsource = {self._opened()}{part}\nresult = duckdb.sql({query!r})\n"

    def command(self) -> str:
        """Return the command that prints the records as JSON lines; it keeps the order of the dataset.

        Raises:
            ValueError: An option cannot hold the name of a field.
        """
        options = self._read_options("")
        if not self.dataset.options.get("verify_checksums", True):
            options.append("--no-checksums")
        return _joined(["dataformats", "cat", *self._paths(), *options, *self._chosen()])

    def conversion(self) -> str:
        """Return the command that writes the records as a new dataset; it keeps the order of the dataset.

        Raises:
            ValueError: An option cannot hold the name of a field.
        """
        format = self.dataset.source.format
        backend = backends.get(format)
        if not isinstance(backend, BlobBackend | FieldsBackend):
            format, backend = "tfrecord", backends.get("tfrecord")
        destination = f"selection{'' if backend.in_folders else next(iter(backend.suffixes), '')}"
        options = [f"--format={format}", *self._read_options("from-"), *self._chosen()]
        return _joined(["dataformats", "convert", *self._paths(), destination, *options])

    @property
    def _where(self) -> str:
        if not self.numbers:
            return self.condition
        return f"{record_name(self.dataset.source.spec)} in ({', '.join(map(str, self.numbers))})"

    @property
    def _is_part(self) -> bool:
        return tuple(self.fields) != self.dataset.fields

    def _chosen(self) -> list[str]:
        """Return the options of commands for fields and records."""
        if self._is_part and any("," in name or not name for name in self.fields):
            raise ValueError("--fields cannot hold the empty name, and no name with a comma: choose other fields")
        options = [f"--fields={','.join(self.fields)}"] if self._is_part else []
        return options + ([f"--where={self._where}"] if self._where else [])

    def _read_options(self, prefix: str) -> list[str]:
        """Return the options of commands that say how to open the dataset."""
        words = []
        for name, value in self.dataset.options.items():
            if name == "spec":
                words += [f"--{prefix}spec={field}={kind}" for field, kind in value.items()]
            elif name in ("format", "payload"):
                words.append(f"--{prefix}{name}={value}")
            elif name != "verify_checksums":
                words.append(f"--{prefix}option={name}={json.dumps(value)}")
        return words

    def _paths(self) -> list[str]:
        paths = self.dataset.path if isinstance(self.dataset.path, list) else [self.dataset.path]
        return [shown_url(path) if is_url(path) else os.path.abspath(path) for path in map(str, paths)]

    def _opened(self) -> str:
        paths = self._paths()
        given = {name: value for name, value in self.dataset.options.items() if (name, value) != _VERIFIED}
        options = "".join(f", {name}={value!r}" for name, value in given.items())
        return f"dataformats.open({paths if len(paths) > 1 else paths[0]!r}{options})"


def _joined(words: Iterable[str]) -> str:
    return " ".join(map(_shell_word, words)) + "\n"


def _shell_word(text: str) -> str:
    """Return a word of a command line, for bash and zsh if it has characters that act in a terminal."""
    if text.isprintable():
        return shlex.quote(text)
    if "\0" in text:
        raise ValueError("a command line cannot hold a NUL: choose other fields")
    written = (
        one if one.isprintable() else f"\\U{ord(one):08x}" for one in text.replace("\\", r"\\").replace("'", r"\'")
    )
    return f"$'{''.join(written)}'"
