"""The Granular format: recognizes, opens and writes its files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dataformats.backends.granular.bag_limits import BAG, IDX
from dataformats.backends.granular.bag_reader import BagReader
from dataformats.backends.granular.bag_writer import BagWriter
from dataformats.backends.granular.folder import (
    REFS,
    SPEC,
    DatasetFiles,
    bags_of,
    dataset_files,
    find_files,
    group_files,
)
from dataformats.backends.granular.reader import GranularReader
from dataformats.backends.granular.salvage import salvage
from dataformats.backends.granular.sniff import sniff_file
from dataformats.backends.granular.stored_types import check_generation, is_sequence, store_spec
from dataformats.backends.granular.writer import GranularWriter
from dataformats.errors import FormatError, SpecError
from dataformats.indexing.union_reader import open_union
from dataformats.interfaces import (
    AppendsInPlace,
    FieldsBackend,
    Reader,
    ReaderOptions,
    ShardSalvage,
    SniffResult,
    SupportsRepair,
    WritesSingleValues,
)
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.spec import Spec
from dataformats.storage.threads import concurrent_map


class GranularBackend(FieldsBackend, AppendsInPlace, SupportsRepair, WritesSingleValues):
    """Granular and its predecessor `bags`: datasets in folders, sharded ones in numbered folders, single bags."""

    name = "granular"
    suffixes: tuple[str, ...] = (BAG,)
    in_folders = True
    keeps_field_types = True

    def find(self, folder: Folder) -> list[StoredFile]:
        """Return the files of the dataset in a folder, or of those in its numbered folders."""
        return find_files(folder)

    def sniff(self, file: StoredFile) -> SniffResult:
        """Recognize a bag by its table of limits, or by the `.idx` beside it; `spec.json` by its first byte."""
        return sniff_file(file)

    def open(
        self,
        files: Sequence[StoredFile],
        options: ReaderOptions,
        *,
        shard_start: int = 0,
        shard_step: int = 1,
        **_: Any,
    ) -> Reader:
        """Return a reader of rows if there is a `spec.json`, else of single bags.

        Args:
            files: All files of the datasets, or bags.
            options: The options of `open`; bags have no checksums.
            shard_start: The first shard to read.
            shard_step: Read every `shard_step`-th shard from there on.

        Raises:
            FormatError: A file is missing, `spec.json` is not a spec, or a bag has no table.
            SpecError: A field has several types, and no type has the values of all datasets.
        """
        if shard_start < 0 or shard_step < 1:
            raise ValueError(f"expected shard_start >= 0 and shard_step >= 1, found {shard_start} and {shard_step}")
        groups = group_files(files)
        sets = [files for files in groups if SPEC in files]
        if not sets:
            return BagReader(bags_of(groups)[shard_start::shard_step])
        if len(sets) < len(groups):
            other = next(files for files in groups if SPEC not in files)
            raise FormatError(
                "cannot open single bags together with datasets",
                path=next(iter(other.values())).name,
                remedy="Open them apart",
            )
        local = all(files[SPEC].local is not None for files in sets)
        chosen = concurrent_map(dataset_files, sets[shard_start::shard_step], local=local)

        def reader(run: Sequence[DatasetFiles]) -> GranularReader:
            return GranularReader(run, run[0].spec if run else dataset_files(sets[0]).spec)

        return open_union(chosen, lambda one: one.spec, reader, options)

    def stored_spec(self, spec: Spec, *, generation: int | None = None, **_: Any) -> Spec:
        """Return `i64`, `u64` and `array` for numbers, `codec[]` for sequences, every other codec unchanged.

        Args:
            generation: 2 or 3; `None` is 3, or 2 if a sequence needs it.
        """
        return store_spec(spec, generation)

    def create(
        self, path: Path, *, stored: Spec, resume: bool = False, generation: int | None = None, **_: Any
    ) -> GranularWriter:
        """Return a writer of a dataset.

        Args:
            generation: 2 or 3; `None` is 3, or 2 if a sequence needs it.
        """
        check_generation(generation)
        name = path.name.removesuffix(".partial")
        if name.endswith(BAG):
            what = f"a {BAG} file holds single values, not fields: expected the name of a folder, found {name!r}"
            raise SpecError(what)
        needed = 2 if any(is_sequence(kind) for kind in stored.values()) else 3
        return GranularWriter(path, stored, generation or needed, resume=resume)

    def create_values(self, path: Path, *, resume: bool = False, generation: int | None = None, **_: Any) -> BagWriter:
        """Return a writer of a single bag; `generation` is 2 or 3, and `None` is 3."""
        check_generation(generation)
        return BagWriter(path, generation or 3, resume=resume)

    def can_append_in_place(self, path: Path) -> bool:
        """True for a dataset of generation 3, which grows under its final name."""
        return (path / SPEC).is_file() and not (path / (REFS + BAG)).exists()

    def options_like(self, reader: Reader, *, named: bool) -> dict[str, Any]:
        """Return the generation."""
        found = reader.metadata().get("generation", "3")
        if found not in ("2", "3"):
            raise SpecError(f"cannot write generation {found}: expected 2 or 3, the same in all sources")
        return {"generation": int(found)}

    def grows(self, name: str) -> bool:
        """True for bags and their indexes."""
        return name.endswith((BAG, IDX))

    def shard_names(self, stem: str, count: int, **_: Any) -> list[str]:
        """Return `000000`, `000001` and so on; the original's names have no stem."""
        return [f"{number:06d}" for number in range(count)]

    def shards(self, files: Sequence[StoredFile]) -> list[list[StoredFile]]:
        """Return the files of each folder with a `spec.json`; each single bag with its `.idx`."""
        groups = group_files(files)
        sets = [list(named.values()) for named in groups if SPEC in named]
        return sets or [[bag] for bag in bags_of(groups)]

    def salvage(self, files: Sequence[StoredFile], payload: str) -> ShardSalvage:
        """Find the whole rows of a dataset, or the records of a single bag."""
        return salvage(files)
