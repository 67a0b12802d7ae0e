"""The Granular format: which files are of it, how they are opened and made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dataformats.backends.granular.bag_reader import BagReader
from dataformats.backends.granular.bag_writer import BagWriter
from dataformats.backends.granular.bags import BAG, IDX, judge_bag
from dataformats.backends.granular.dataset_reader import DataSetReader
from dataformats.backends.granular.dataset_writer import DataSetWriter
from dataformats.backends.granular.folder import REFS, SPEC, bags_of, data_set_files, find, group
from dataformats.backends.granular.stored_types import check_generation, is_sequence, store_spec
from dataformats.errors import FormatError
from dataformats.interfaces import FieldsBackend, OpenOptions, Reader, SniffResult
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.spec import Spec, Type

__all__ = ["BACKEND", "GranularBackend"]

_WINDOW_BYTES = 4096


class GranularBackend(FieldsBackend):
    """Granular and its forerunner `bags`: data sets in folders, sharded ones in numbered folders, single bags."""

    name = "granular"
    suffixes: tuple[str, ...] = (BAG,)

    def find(self, folder: Folder) -> list[StoredFile]:
        """Return the files of the data set, or of the numbered ones, that a folder is."""
        return find(folder)

    def sniff(self, file: StoredFile) -> SniffResult:
        """Judge a bag by its table of limits, or by the `.idx` beside it; `spec.json` by how it begins."""
        if file.basename == SPEC:
            begins = file.pread(0, _WINDOW_BYTES).lstrip()[:1] == b"{"
            return SniffResult("yes") if begins else SniffResult("damaged", "spec.json is no JSON object")
        if file.basename.endswith(IDX):
            bag = file.sibling(file.basename.removesuffix(IDX) + BAG)
            return SniffResult("no", "an .idx without its .bag") if bag is None else SniffResult("yes")
        return judge_bag(file)

    def open(
        self,
        files: Sequence[StoredFile],
        options: OpenOptions,
        *,
        shard_start: int = 0,
        shard_step: int = 1,
        **unknown: Any,
    ) -> Reader:
        """Return a reader of rows where there is a `spec.json`, else of single bags.

        Args:
            files: All files of the data sets, or bags.
            options: What `open` was told; a bag has no checksums.
            shard_start: The first shard to read.
            shard_step: Read every so many-th shard from there on.
            **unknown: None.

        Raises:
            FormatError: A file is missing, `spec.json` is none, a bag has no table.
        """
        _refuse(unknown)
        if shard_start < 0 or shard_step < 1:
            raise ValueError(f"expected shard_start >= 0 and shard_step >= 1, found {shard_start} and {shard_step}")
        groups = group(files)
        sets = [files for files in groups if SPEC in files]
        if not sets:
            return BagReader(bags_of(groups)[shard_start::shard_step])
        if len(sets) < len(groups):
            strange = next(files for files in groups if SPEC not in files)
            raise FormatError("bags beside data sets", path=next(iter(strange.values())).name, remedy="open them apart")
        chosen = [data_set_files(files) for files in sets[shard_start::shard_step]]
        return DataSetReader(chosen, chosen[0].spec if chosen else data_set_files(sets[0]).spec)

    def portable_type(self, kind: Type) -> Type:
        """Return the type as it is: all of Granular's are at home here."""
        return kind

    def stored_spec(self, spec: Spec, *, generation: int | None = None, **unknown: Any) -> Spec:
        """Return `i64`, `u64` and `array` for numbers, `codec[]` for sequences, every other codec as it is.

        Args:
            spec: The types of the values.
            generation: 2 or 3; `None` is 3, or 2 where a sequence needs it.
            **unknown: None.
        """
        _refuse(unknown)
        return store_spec(spec, generation)

    def create(
        self, path: Path, *, stored: Spec, resume: bool = False, generation: int | None = None, **unknown: Any
    ) -> DataSetWriter | BagWriter:
        """Return a writer of a data set, or where `stored` is empty of a single bag.

        Args:
            path: A local path.
            stored: What `stored_spec` gave.
            resume: Go on with what a killed writer left there.
            generation: 2 or 3; `None` is 3, or 2 where a sequence needs it.
            **unknown: None.
        """
        _refuse(unknown)
        check_generation(generation)
        if not stored:
            return BagWriter(path, generation or 3, resume=resume)
        needed = 2 if any(is_sequence(kind) for kind in stored.values()) else 3
        return DataSetWriter(path, stored, generation or needed, resume=resume)

    def can_append_in_place(self, path: Path, **backend_options: Any) -> bool:
        """Return True for a data set of generation 3, which grows under its name."""
        return (path / SPEC).is_file() and not (path / (REFS + BAG)).exists()

    def shard_names(self, stem: str, count: int) -> list[str]:
        """Return `000000`, `000001` and so on; the original has no place for a stem."""
        return [f"{number:06d}" for number in range(count)]


def _refuse(options: dict[str, Any]) -> None:
    if options:
        raise TypeError(f"granular has no option {', '.join(sorted(options))}")


BACKEND = GranularBackend()
