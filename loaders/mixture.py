"""Mixture: several sources, read in turns by weight."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Sized
from typing import Any

import numpy as np

from dataformats.errors import UnknownNameError
from dataformats.interfaces.declared_spec import declared_spec
from dataformats.interfaces.record_source import RecordSource
from dataformats.loaders.adapters import as_readable
from dataformats.loaders.blocks import Blocks
from dataformats.loaders.epochs import Epochs
from dataformats.loaders.mixture_schedule import History, Until, changed_history, checked_weights, epoch_length
from dataformats.loaders.plan import Plan
from dataformats.loaders.shuffle import Shuffle
from dataformats.reading.concat import check_alike
from dataformats.reading.scan import digest_of
from dataformats.spec import VALUE, Spec


class Mixture:
    """Several sources that a `Loader` reads in turns by weight; `dataformats.mix` returns it.

    Each component is read without replacement, again and again, in a separate order. `len(mixture)` is the number of
    records in an epoch of the loader.

    Attributes:
        names: The names of the components, in the order of their numbers.
        sources: The source of each component.
        weights: The weight of each component.
        until: When an epoch ends.

    Example:
        >>> import dataformats
        >>> digits = dataformats.open("tests/golden/real/digits-*.tfrecord")
        >>> mixture = dataformats.mix({"few": digits[:100], "many": digits[100:]}, {"few": 1, "many": 9})
        >>> mixture
        Mixture: 995 records per epoch, until the first component is complete
          few   1 of 10, 100 records
          many  9 of 10, 1,697 records
    """

    def __init__(self, sources: Mapping[str, Sized], weights: Sequence[object], until: Until) -> None:
        self.names: tuple[str, ...] = tuple(sources)
        self.sources: tuple[Sized, ...] = tuple(sources.values())
        self.lengths: tuple[int, ...] = tuple(len(source) for source in self.sources)
        self.weights: tuple[int, ...] = checked_weights(weights, self.names, self.lengths)
        self.until = until
        self._n = epoch_length(self.lengths, self.weights, until)

    def __len__(self) -> int:
        return self._n

    @property
    def fingerprint(self) -> str:
        """A digest (hex) of names, sources and `until`; not of the weights, which may change on resume."""
        return self._fingerprint([as_readable(source).fingerprint for source in self.sources])

    def fingerprint_of_first(self, sizes: Sequence[tuple[int, int]]) -> str:
        """Return the fingerprint of the first records of each source: see `RecordSource.fingerprint_of_first`."""
        sources = map(as_readable, self.sources)
        return self._fingerprint([one.fingerprint_of_first(*size) for one, size in zip(sources, sizes, strict=True)])

    def _fingerprint(self, prints: list[Any]) -> str:
        return digest_of(["mixture", json.dumps([self.names, prints, self.until])])

    def plan(
        self,
        shuffle: Shuffle,
        seed: int,
        history: History | None = None,
        position: int = 0,
        grown: tuple[Epochs, ...] = (),
    ) -> Plan:
        """Return the plan of this mixture, or of a resumed run that continues with its weights.

        Args:
            shuffle: The order of records within each component.
            seed: Another seed gives other orders; the turns of the components do not depend on it.
            history: The weights so far, from a state; `None` for a new run.
            position: Where this mixture's weights take effect.
            grown: See `Plan`.

        Raises:
            ValueError: The weights do not fit the components, or `grown` does not fit both.
        """
        history = changed_history(history, position, self.weights) if history else ((0, self.weights),)
        # The first weights give the length: if it changed with the weights, past positions would change their epoch.
        first = checked_weights(history[0][1], self.names, self.lengths)
        n = epoch_length(self.lengths, first, self.until)
        blocks = tuple(map(Blocks.of, self.sources))
        return Plan(self.lengths, n, shuffle, seed, history, self.names, blocks=blocks, grown=grown)

    def __repr__(self) -> str:
        ends = {"first": "until the first component is complete", "all": "until every component is complete"}
        width = max(map(len, self.names))
        lines = [f"Mixture: {len(self):,} records per epoch, {ends.get(str(self.until), 'as requested')}"]
        for name, weight, n in zip(self.names, self.weights, self.lengths, strict=True):
            lines.append(f"  {name:{width}}  {weight} of {sum(self.weights)}, {n:,} records")
        return "\n".join(lines)


def mix(sources: Mapping[str, Any], weights: Mapping[str, int] | None = None, until: Until = "first") -> Mixture:
    """Return a mixture of sources for a `Loader`, which takes records from them in turns.

    The turns follow the weights as closely as whole records allow: each block of `sum(weights)` records, counted from
    position 0, has exactly `weight` records of each component. A component repeats no record before all of its records
    were returned.

    To continue a run with other weights, pass the `Loader` a mixture of the same sources with these weights, and load
    the state: they hold from its position on, and no component repeats or loses a record.

    Args:
        sources: Name to source, all with the same spec; or to any sequence with `len` and `[]`.
        weights: Name to weight, a whole number, for each source; 0 leaves it out for now. `None` is 1 for each.
        until: When an epoch ends: `"first"`: when one component is complete, so no record repeats in the first epoch;
            `"all"`: when every component is complete, and short ones have repeated; or after this many records.

    Raises:
        ValueError: There is no source; a weight is missing, negative, or positive for a source without records; all
            are 0; or `until` is invalid.
        TypeError: A weight is not a whole number, or a component is neither a source nor a sequence.
        UnknownNameError: A weight has the name of no source.
        SpecError: The specs differ.

    Example:
        >>> import dataformats
        >>> digits = dataformats.open("tests/golden/real/digits-*.tfrecord")
        >>> even, odd = digits[::2], digits[1::2]
        >>> len(dataformats.mix({"even": even, "odd": odd}, weights={"even": 2, "odd": 1}))
        1348
        >>> len(dataformats.mix({"even": even, "odd": odd}, weights={"even": 2, "odd": 1}, until="all"))
        2693
    """
    _check_names(sources)
    check_alike({f"component {name!r}": _declared(source) for name, source in sources.items()})
    return Mixture(sources, _by_name(weights, tuple(sources)), until)


def _check_names(sources: object) -> None:
    if not isinstance(sources, Mapping) or not all(isinstance(name, str) for name in sources):
        raise TypeError(f"mix: expected a dict of sources by name, found {type(sources).__name__}")
    if not sources:
        raise ValueError("mix: expected at least one source, found none")


def _by_name(weights: Mapping[str, int] | None, names: tuple[str, ...]) -> list[object]:
    if weights is None:
        return [1] * len(names)
    for name in weights:
        if name not in names:
            raise UnknownNameError("component", name=name, known=names)
    for name in names:
        if name not in weights:
            raise ValueError(f"component {name!r} has no weight. Pass one, or 0 to leave it out for now")
    return [weights[name] for name in names]


def _declared(source: Any) -> Spec | None:
    if isinstance(source, RecordSource):
        return declared_spec(source)
    as_readable(source)  # raises if it is not a sequence
    if isinstance(source, np.ndarray):
        dims = ",".join(map(str, source.shape[1:]))
        return Spec({VALUE: f"{source.dtype}[{dims}]" if dims else f"{source.dtype}"})
    return None
